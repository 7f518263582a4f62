/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "runtime/diagnostics.h"

static void test_twenty_errors_are_kept_and_all_counted(void **state) {
  (void)state;
  ord_diagnostics list;
  ord_diagnostics_init(&list);
  for (uint32_t i = 0; i < 50; i++) ord_diagnose(&list, i + 1, 1, "fault %u", i);
  for (uint32_t i = 0; i < 30; i++) ord_diagnose_warning(&list, "unused-dim", 1, 1, "dim %u", i);
  assert_int_equal(list.error_count, 50);
  assert_int_equal(list.warning_count, 30);
  assert_int_equal(list.count, ORD_DIAGNOSTIC_LIMIT + 30);
  assert_string_equal(list.entry[19].text, "fault 19");
  assert_null(list.entry[19].warning);
  assert_string_equal(list.entry[20].warning, "unused-dim");
  ord_diagnostics_finish(&list);
}

static void test_sorting_is_by_place_and_stable(void **state) {
  (void)state;
  static const struct {
    uint32_t line, column;
  } place[] = {{7, 2}, {0, 0}, {3, 9}, {7, 1}, {3, 9}, {0, 0}, {3, 1}, {7, 2}};
  static const char wanted[] = "62430715";
  ord_diagnostics list;
  ord_diagnostics_init(&list);
  ord_diagnostics_sort(&list);
  for (uint32_t i = 0; i < sizeof place / sizeof *place; i++) {
    if (i % 3)
      ord_diagnose(&list, place[i].line, place[i].column, "%u", i);
    else
      ord_diagnose_warning(&list, "no-stop", place[i].line, place[i].column, "%u", i);
  }
  ord_diagnostics_sort(&list);
  for (uint32_t i = 0; i < list.count; i++) assert_int_equal(list.entry[i].text[0], wanted[i]);
  ord_diagnostics_finish(&list);
}

static void test_first_error_becomes_the_error(void **state) {
  (void)state;
  ord_diagnostics list;
  ord_diagnostics_init(&list);
  char file[] = "m.yaml";
  ord_diagnostics_source(&list, file, "a: 1\n", 5);
  file[0] = 'x';
  ord_error err = ORD_ERROR_INIT;

  ord_diagnose_warning(&list, "unused-dim", 2, 3, "dim 'd' is unused");
  assert_false(ord_diagnostics_fail(&list, &err));
  assert_string_equal(err.text, "m.yaml:2:3: dim 'd' is unused");

  ord_diagnose(&list, 5, 11, "op '%s' is unknown", "matmull");
  ord_diagnose(&list, 6, 1, "another");
  assert_false(ord_diagnostics_fail(&list, &err));
  assert_int_equal(err.code, ORD_INVALID);
  assert_string_equal(err.text, "m.yaml:5:11: op 'matmull' is unknown");
  assert_string_equal(err.file, "m.yaml");

  list.out_of_memory = true;
  assert_false(ord_diagnostics_fail(&list, &err));
  assert_int_equal(err.code, ORD_NO_MEMORY);
  ord_diagnostics_finish(&list);
}

static void test_long_texts_are_kept_whole(void **state) {
  (void)state;
  ord_diagnostics list;
  ord_diagnostics_init(&list);
  char text[5000];
  memset(text, 'w', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  ord_diagnose(&list, 1, 1, "%s", text);
  assert_string_equal(list.entry[0].text, text);
  ord_diagnostics_finish(&list);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_twenty_errors_are_kept_and_all_counted),
      cmocka_unit_test(test_sorting_is_by_place_and_stable),
      cmocka_unit_test(test_first_error_becomes_the_error),
      cmocka_unit_test(test_long_texts_are_kept_whole),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
