/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "models/expression.h"

/* Two fixed dims, two run-time dims, and a name that failed before. */
static bool find(void *context, const char *name, ord_size *out, ord_fault *fault) {
  ord_arena *arena = context;
  if (strcmp(name, "d") == 0) return ord_size_constant(arena, 384, out) == ORD_SIZE_OK;
  if (strcmp(name, "h") == 0) return ord_size_constant(arena, 7, out) == ORD_SIZE_OK;
  if (strcmp(name, "seq") == 0) return ord_size_run_dim(arena, 0, out) == ORD_SIZE_OK;
  if (strcmp(name, "past") == 0) return ord_size_run_dim(arena, 1, out) == ORD_SIZE_OK;
  if (strcmp(name, "failed") != 0) return ord_fault_set(fault, 0, "dim '%s' is unknown", name);
  fault->is_silent = true;
  return false;
}

/* The value, or "offset: message". */
static void evaluate(const char *text, bool allows_run, ord_text *out) {
  static const char *const run_dim[] = {"seq", "past"};
  ord_arena arena = {0};
  const ord_expression_scope scope = {.find = find, .context = &arena, .arena = &arena, .allows_run = allows_run};
  ord_size size;
  ord_fault fault;
  if (ord_expression_evaluate(&scope, text, &size, &fault))
    ord_size_print(out, size, run_dim);
  else if (fault.is_silent)
    ord_text_add(out, "silent");
  else
    ord_text_add(out, "%zu: %s", fault.offset, fault.text);
  ord_arena_finish(&arena);
}

static void test_values(void **state) {
  (void)state;
  static const struct {
    const char *text, *value;
  } row[] = {
      {"12", "12"},
      {"4 * d", "1536"},
      {"2+3*4", "14"},
      {"(2+3)*4", "20"},
      {"d / 12", "32"},
      {"d / 2 / 3", "64"},
      {"d - h - 7", "370"},
      {"--3", "3"},
      {"-3 + 5", "2"},
      {"2 * -3", "-6"},
      {"  d  ", "384"},
      {"past + seq", "seq + past"},
      {"seq * past - past * seq", "0"},
      {"(seq + 1) * (seq - 1)", "seq*seq - 1"},
      {"1099511627775", "1099511627775"},
      {"failed + 1", "silent"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_text found = {0};
    evaluate(row[i].text, true, &found);
    assert_string_equal(found.bytes, row[i].value);
    ord_text_finish(&found);
  }
}

static void test_faults(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } row[] = {
      {"d / h", "2: 384 / 7 leaves a rest of 6; found d / h; wanted a whole number"},
      {"1 + 2 * d / h", "10: 768 / 7 leaves a rest of 5; found 2 * d / h; wanted a whole number"},
      {"d / (h - 7)", "2: a division by 0; found d / (h - 7); wanted another divisor"},
      {"seq", "0: 'seq' is a run-time dim; found it in a fixed expression; wanted fixed dims"},
      {"d * seq", "4: 'seq' is a run-time dim; found it in a fixed expression; wanted fixed dims"},
      {"0012", "0: '0012' is not a whole number here; write 12"},
      {"2 * 0x10", "4: '0x10' is not a whole number here; write 16"},
      {"1e-3", "0: '1e-3' is not a whole number here; wanted digits or the name of a dim"},
      {"1099511627776", "0: the number grows too large; found 1099511627776; wanted less than 2^40"},
      {"d * 4294967296", "2: the number grows too large; found d * 4294967296; wanted less than 2^40"},
      {"", "0: the expression ends too early; found ''; wanted a number or a name behind it"},
      {"d +", "3: the expression ends too early; found 'd +'; wanted a number or a name behind it"},
      {"d d", "2: the expression has ended; found 'd' behind it; wanted '+', '-', '*', '/' or nothing"},
      {"(d", "0: a bracket is not closed; found '('; wanted ')' behind it"},
      {"d)", "1: the expression has ended; found ')' behind it; wanted '+', '-', '*', '/' or nothing"},
      {"* d", "0: '*' cannot stand in an expression here; found * d; wanted a number, a name, '-' or '('"},
      {"h.<d>", "0: dim 'h.' is unknown"},
      {"wide", "0: dim 'wide' is unknown"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_text found = {0};
    evaluate(row[i].text, false, &found);
    assert_string_equal(found.bytes, row[i].message);
    ord_text_finish(&found);
  }
}

static void test_run_time_dims_are_not_divided(void **state) {
  (void)state;
  ord_text found = {0};
  evaluate("seq / 2", true, &found);
  assert_string_equal(found.bytes, "4: '/' works on fixed dims only; found seq / 2; wanted no run-time dim in it");
  ord_text_finish(&found);
}

/* No text may exhaust the stack or grow a polynomial without end. */
static void test_hostile_texts(void **state) {
  (void)state;
  enum { LENGTH = 300000 };
  char *text = malloc(LENGTH + 2);
  assert_non_null(text);
  ord_text found = {0};
  memset(text, '(', LENGTH);
  memcpy(text + LENGTH, "1", 2);
  evaluate(text, true, &found);
  assert_string_equal(found.bytes, "32: nested too deep; found 33 levels of brackets; wanted at most 32");
  ord_text_finish(&found);
  memset(text, '-', LENGTH);
  evaluate(text, true, &found);
  assert_string_equal(found.bytes, "1");
  ord_text_finish(&found);
  memset(text, '1', LENGTH);
  evaluate(text, true, &found);
  assert_string_equal(found.bytes, "0: the number grows too large; found 300001 characters; wanted less than 2^40");
  ord_text_finish(&found);
  memset(text, 'n', LENGTH);
  evaluate(text, true, &found);
  assert_string_equal(found.bytes, "0: a name is too long; found 300001 bytes; wanted at most 200");
  ord_text_finish(&found);
  free(text);
}

/* Where a name has no value yet, only words are looked at. */
static bool find_open(void *context, const char *name, ord_size *out, ord_fault *fault) {
  const ord_expression_scope *scope = context;
  if (strcmp(name, "layer") != 0) return find(scope->arena, name, out, fault);
  *scope->is_open = true;
  return ord_size_constant(scope->arena, 1, out) == ORD_SIZE_OK;
}

static void test_open_numbers_are_not_looked_at(void **state) {
  (void)state;
  ord_arena arena = {0};
  bool is_open;
  ord_expression_scope scope = {.find = find_open, .arena = &arena, .is_open = &is_open};
  scope.context = &scope;
  ord_size size;
  ord_fault fault;
  assert_true(ord_expression_evaluate(&scope, "d / (layer - 1)", &size, &fault));
  assert_true(is_open);
  assert_false(ord_expression_evaluate(&scope, "d / (layer + wide)", &size, &fault));
  assert_false(ord_expression_evaluate(&scope, "d / h", &size, &fault));
  assert_false(is_open);
  ord_arena_finish(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_faults),
      cmocka_unit_test(test_run_time_dims_are_not_divided),
      cmocka_unit_test(test_hostile_texts),
      cmocka_unit_test(test_open_numbers_are_not_looked_at),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
