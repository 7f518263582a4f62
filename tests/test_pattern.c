/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "models/pattern.h"

static ord_family make(ord_arena *arena, const char *name) {
  ord_family family = {.name = name};
  ord_fault fault;
  assert_true(ord_pattern_check("a weight", name, &fault));
  assert_true(ord_pattern_read_holes(name, arena, &family, &fault));
  return family;
}

static void test_matching(void **state) {
  (void)state;
  static const struct {
    const char *key, *name;
    bool matches;
    int64_t first, second;
  } row[] = {
      {"wte", "wte", true, 0, 0},
      {"wte", "wtee", false, 0, 0},
      {"h.<layer>.wq", "h.0.wq", true, 0, 0},
      {"h.<layer>.wq", "h.12.wq", true, 12, 0},
      {"h.<layer>.wq", "h.012.wq", false, 0, 0},
      {"h.<layer>.wq", "h..wq", false, 0, 0},
      {"h.<layer>.wq", "h.1.wqq", false, 0, 0},
      {"h.<layer>.wq", "h.99999999999999.wq", false, 0, 0},
      {"g<i>.<j>x", "g3.14x", true, 3, 14},
      {"g<i>.<i>", "g3.3", true, 3, 0},
      {"g<i>.<i>", "g3.4", false, 0, 0},
  };
  ord_arena arena = {0};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    const ord_family family = make(&arena, row[i].key);
    int64_t value[ORD_HOLE_MAX];
    assert_int_equal(ord_pattern_matches(&family, row[i].name, value), row[i].matches);
    if (row[i].matches && family.hole_count > 0) assert_int_equal(value[0], row[i].first);
    if (row[i].matches && family.hole_count > 1) assert_int_equal(value[1], row[i].second);
  }
  ord_arena_finish(&arena);
}

static void test_names_that_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *name, *message;
  } row[] = {
      {"", "a weight: found an empty text; wanted a name"},
      {"h.{layer}.wq", "'h.{layer}.wq' has braces; an index in a name is written <layer>"},
      {"h.{.wq", "'h.{.wq' has braces; an index in a name is written <layer>"},
      {"h.<layer", "'h.<layer': a '<' is not closed; wanted '>' behind the index"},
      {"h wq", "'h wq' cannot be the name of a weight; wanted letters, digits, '_', '.', '-' and <..>"},
      {"h/wq", "'h/wq' cannot be the name of a weight; wanted letters, digits, '_', '.', '-' and <..>"},
      {"h1<i>", "'h1<i>': an index touches a number; wanted other characters around <..>"},
      {"h<i>2", "'h<i>2': an index touches a number; wanted other characters around <..>"},
      {"h<i><j>", "'h<i><j>': an index touches a number; wanted other characters around <..>"},
      {"h<2>", "'2' cannot be the name of an index in a key; wanted letters, digits and '_', no digit first"},
      {"<a>.<b>.<c>.<d>.<e>.<f>.<g>.<h>.<i>",
       "'<a>.<b>.<c>.<d>.<e>.<f>.<g>.<h>.<i>' holds too much; wanted at most 8 indices"},
  };
  ord_arena arena = {0};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_family family = {.name = row[i].name};
    ord_fault fault;
    assert_false(ord_pattern_check("a weight", row[i].name, &fault) &&
                 ord_pattern_read_holes(row[i].name, &arena, &family, &fault));
    assert_string_equal(fault.text, row[i].message);
  }
  ord_arena_finish(&arena);
}

static bool find(void *context, const char *name, ord_size *out, ord_fault *fault) {
  if (strcmp(name, "layer") == 0) return ord_size_constant(context, 3, out) == ORD_SIZE_OK;
  return ord_fault_set(fault, 0, "dim '%s' is unknown", name);
}

static void test_expanding(void **state) {
  (void)state;
  static const struct {
    const char *text, *name;
    size_t offset; /* of the fault, if `name` is a message */
  } row[] = {
      {"wte", "wte", 0},
      {"h.<layer>.wq", "h.3.wq", 0},
      {"h.<6 * layer + 1>.<0>", "h.19.0", 0},
      {"h.<layr>.wq", "dim 'layr' is unknown", 3},
      {"h.<layer - 4>.wq", "'h.<layer - 4>.wq': the index is -1; wanted 0 or more", 3},
      {"h.<>.wq", "the expression ends too early; found ''; wanted a number or a name behind it", 3},
  };
  ord_arena arena = {0};
  const ord_expression_scope scope = {.find = find, .context = &arena, .arena = &arena};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    const char *name = NULL;
    ord_fault fault;
    if (ord_pattern_expand(&scope, row[i].text, &arena, &name, &fault)) {
      assert_string_equal(name, row[i].name);
    } else {
      assert_string_equal(fault.text, row[i].name);
      assert_int_equal(fault.offset, row[i].offset);
    }
  }
  ord_arena_finish(&arena);
}

static void test_families_find_the_one_or_two_that_fit(void **state) {
  (void)state;
  static const char *const key[] = {"wte", "h.<layer>.wq", "h.<layer>.w<n>", "h.0.wk", "h.<layer>.wk", "h.1.<x>"};
  static const struct {
    const char *name, *first, *second;
  } row[] = {{"wte", "wte", NULL},
             {"h.7.wq", "h.<layer>.wq", NULL},
             {"h.7.w8", "h.<layer>.w<n>", NULL},
             {"h.7.wv", NULL, NULL},
             {"h.0.wk", "h.0.wk", "h.<layer>.wk"},
             {"h.1.wk", "h.<layer>.wk", NULL},
             {"h.1.2", "h.1.<x>", NULL},
             {"h.2.2", NULL, NULL}};
  ord_arena arena = {0};
  ord_family family[sizeof key / sizeof *key];
  for (size_t i = 0; i < sizeof key / sizeof *key; i++) family[i] = make(&arena, key[i]);
  ord_families families = {.item = family, .count = sizeof key / sizeof *key};
  const ord_family *crowded;
  assert_true(ord_families_index(&families, &arena, &crowded));
  assert_null(crowded);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    int64_t value[ORD_HOLE_MAX];
    const ord_family *second, *first = ord_families_find(&families, row[i].name, value, &second);
    assert_int_equal(first != NULL, row[i].first != NULL);
    assert_int_equal(second != NULL, row[i].second != NULL);
    if (first) assert_string_equal(first->name, row[i].first);
    if (second) assert_string_equal(second->name, row[i].second);
  }
  ord_arena_finish(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_matching),
      cmocka_unit_test(test_names_that_are_refused),
      cmocka_unit_test(test_expanding),
      cmocka_unit_test(test_families_find_the_one_or_two_that_fit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
