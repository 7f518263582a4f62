/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "models/names.h"

static void test_small_and_large_tables_find_what_was_put(void **state) {
  (void)state;
  enum { NAME_COUNT = 1000 };
  static char name[NAME_COUNT][8];
  ord_arena arena = {0};
  ord_names names = {0};
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < NAME_COUNT; i++) {
      snprintf(name[i], sizeof name[i], "n%d", i);
      assert_null(ord_names_find(&names, name[i]));
      assert_true(ord_names_put(&names, &arena, name[i], &name[i]));
      assert_ptr_equal(ord_names_find(&names, name[i / 2]), &name[i / 2]);
    }
    assert_int_equal(names.count, NAME_COUNT);
    assert_string_equal(names.entry[7].name, "n7");
    ord_names_clear(&names);
  }
  assert_null(ord_names_find(&names, "n1"));
  ord_arena_finish(&arena);
}

static void test_a_name_put_again_gets_the_new_item(void **state) {
  (void)state;
  ord_arena arena = {0};
  ord_names names = {0};
  int first, second;
  assert_true(ord_names_put(&names, &arena, "x", &first));
  assert_true(ord_names_put(&names, &arena, "x", &second));
  assert_int_equal(names.count, 1);
  assert_ptr_equal(ord_names_find(&names, "x"), &second);
  ord_arena_finish(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_small_and_large_tables_find_what_was_put),
      cmocka_unit_test(test_a_name_put_again_gets_the_new_item),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
