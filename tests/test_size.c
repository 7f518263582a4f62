/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/size.h"

static const char *const dim_name[ORD_RUN_DIM_MAX] = {"past", "seq", "batch"};
enum { PAST, SEQ, BATCH };

typedef struct {
  ord_arena arena;
} fixture;

static ord_size constant(fixture *f, int64_t value) {
  ord_size size;
  assert_int_equal(ord_size_constant(&f->arena, value, &size), ORD_SIZE_OK);
  return size;
}

static ord_size run_dim(fixture *f, uint32_t dim) {
  ord_size size;
  assert_int_equal(ord_size_run_dim(&f->arena, dim, &size), ORD_SIZE_OK);
  return size;
}

static ord_size sum(fixture *f, ord_size a, ord_size b) {
  ord_size size;
  assert_int_equal(ord_size_sum(&f->arena, a, b, &size), ORD_SIZE_OK);
  return size;
}

static ord_size difference(fixture *f, ord_size a, ord_size b) {
  ord_size size;
  assert_int_equal(ord_size_difference(&f->arena, a, b, &size), ORD_SIZE_OK);
  return size;
}

static ord_size product(fixture *f, ord_size a, ord_size b) {
  ord_size size;
  assert_int_equal(ord_size_product(&f->arena, a, b, &size), ORD_SIZE_OK);
  return size;
}

static void assert_printed(ord_size size, const char *wanted) {
  ord_text text = {0};
  ord_size_print(&text, size, dim_name);
  assert_string_equal(text.bytes, wanted);
  ord_text_finish(&text);
}

static void test_printing(void **state) {
  fixture *f = *state;
  const ord_size past = run_dim(f, PAST), seq = run_dim(f, SEQ), batch = run_dim(f, BATCH);
  assert_printed(constant(f, 0), "0");
  assert_printed(constant(f, -7), "-7");
  assert_printed(product(f, constant(f, 384), seq), "384*seq");
  assert_printed(sum(f, seq, past), "past + seq");
  assert_printed(sum(f, constant(f, 1), product(f, seq, constant(f, 2))), "2*seq + 1");
  assert_printed(product(f, seq, seq), "seq*seq");
  assert_printed(sum(f, past, product(f, product(f, batch, seq), seq)), "seq*seq*batch + past");
  assert_printed(difference(f, seq, constant(f, 1)), "seq - 1");
  assert_printed(difference(f, constant(f, 5), product(f, constant(f, 3), seq)), "-3*seq + 5");
  assert_printed(difference(f, seq, seq), "0");
}

static void test_equal_as_polynomials(void **state) {
  fixture *f = *state;
  const ord_size past = run_dim(f, PAST), seq = run_dim(f, SEQ), two = constant(f, 2);
  /* (past + seq)^2 = past^2 + 2 past seq + seq^2 */
  const ord_size square = product(f, sum(f, past, seq), sum(f, seq, past));
  const ord_size terms =
      sum(f, sum(f, product(f, past, past), product(f, seq, seq)), product(f, two, product(f, past, seq)));
  assert_true(ord_size_equal(square, terms));
  assert_false(ord_size_equal(square, sum(f, terms, two)));
  assert_false(ord_size_equal(past, seq));
  assert_false(ord_size_equal(seq, product(f, two, seq)));
  assert_true(ord_size_equal(difference(f, seq, seq), constant(f, 0)));
}

static void test_constants(void **state) {
  fixture *f = *state;
  int64_t value = -1;
  assert_true(ord_size_is_constant(constant(f, 12), &value));
  assert_int_equal(value, 12);
  assert_true(ord_size_is_constant(constant(f, 0), &value));
  assert_int_equal(value, 0);
  assert_false(ord_size_is_constant(run_dim(f, SEQ), &value));
  uint32_t dim = 0;
  assert_true(ord_size_is_run_dim(run_dim(f, SEQ), &dim));
  assert_int_equal(dim, SEQ);
  assert_false(ord_size_is_run_dim(constant(f, 1), &dim));
  assert_false(ord_size_is_run_dim(sum(f, run_dim(f, SEQ), run_dim(f, SEQ)), &dim));
  assert_false(ord_size_is_run_dim(product(f, run_dim(f, SEQ), run_dim(f, SEQ)), &dim));
  assert_false(ord_size_is_run_dim(sum(f, run_dim(f, SEQ), constant(f, 1)), &dim));
  assert_false(ord_size_is_constant(sum(f, run_dim(f, SEQ), constant(f, 1)), &value));
}

static void test_quotients(void **state) {
  fixture *f = *state;
  ord_size size;
  int64_t value;
  assert_int_equal(ord_size_quotient(&f->arena, constant(f, 384), constant(f, 6), &size), ORD_SIZE_OK);
  assert_true(ord_size_is_constant(size, &value));
  assert_int_equal(value, 64);
  assert_int_equal(ord_size_quotient(&f->arena, constant(f, 384), constant(f, 7), &size), ORD_SIZE_REST);
  assert_int_equal(ord_size_quotient(&f->arena, constant(f, 384), constant(f, 0), &size), ORD_SIZE_ZERO);
  assert_int_equal(ord_size_quotient(&f->arena, run_dim(f, SEQ), constant(f, 1), &size), ORD_SIZE_NOT_FIXED);
  assert_int_equal(ord_size_quotient(&f->arena, constant(f, 8), run_dim(f, SEQ), &size), ORD_SIZE_NOT_FIXED);
}

static void test_limits(void **state) {
  fixture *f = *state;
  ord_size size;
  const ord_size largest = constant(f, ORD_SIZE_LIMIT - 1), one = constant(f, 1), seq = run_dim(f, SEQ);
  assert_int_equal(ord_size_constant(&f->arena, ORD_SIZE_LIMIT, &size), ORD_SIZE_OVERFLOW);
  assert_int_equal(ord_size_constant(&f->arena, INT64_MIN, &size), ORD_SIZE_OVERFLOW);
  assert_int_equal(ord_size_sum(&f->arena, largest, one, &size), ORD_SIZE_OVERFLOW);
  assert_int_equal(ord_size_difference(&f->arena, constant(f, -1), largest, &size), ORD_SIZE_OVERFLOW);
  assert_int_equal(ord_size_product(&f->arena, largest, largest, &size), ORD_SIZE_OVERFLOW);
  assert_int_equal(ord_size_run_dim(&f->arena, ORD_RUN_DIM_MAX, &size), ORD_SIZE_OVERFLOW);

  /* A power that a byte cannot hold, and a sum of too many terms. */
  ord_size power = seq;
  ord_size_status status = ORD_SIZE_OK;
  for (int i = 0; i < 8 && status == ORD_SIZE_OK; i++) status = ord_size_product(&f->arena, power, power, &power);
  assert_int_equal(status, ORD_SIZE_OVERFLOW);
  ord_size many = one;
  status = ORD_SIZE_OK;
  for (int i = 0; i < 4 && status == ORD_SIZE_OK; i++) {
    for (uint32_t dim = 0; dim < ORD_RUN_DIM_MAX && status == ORD_SIZE_OK; dim++)
      status = ord_size_sum(&f->arena, many, run_dim(f, dim), &many);
    if (status == ORD_SIZE_OK) status = ord_size_product(&f->arena, many, many, &many);
  }
  assert_int_equal(status, ORD_SIZE_OVERFLOW);
}

static void test_evaluating(void **state) {
  fixture *f = *state;
  const int64_t value[ORD_RUN_DIM_MAX] = {[PAST] = 10, [SEQ] = 3};
  const ord_size size =
      sum(f, product(f, run_dim(f, SEQ), run_dim(f, SEQ)), difference(f, run_dim(f, PAST), constant(f, 4)));
  int64_t out;
  assert_true(ord_size_evaluate(size, value, &out));
  assert_int_equal(out, 15);
  assert_true(ord_size_evaluate(constant(f, 0), value, &out));
  assert_int_equal(out, 0);
  const int64_t huge[ORD_RUN_DIM_MAX] = {[SEQ] = INT64_C(1) << 40};
  assert_false(ord_size_evaluate(size, huge, &out));
}

static void test_binding(void **state) {
  fixture *f = *state;
  int64_t value[ORD_RUN_DIM_MAX];
  for (int i = 0; i < ORD_RUN_DIM_MAX; i++) value[i] = -1;
  const ord_size size =
      sum(f, product(f, run_dim(f, SEQ), run_dim(f, SEQ)), product(f, run_dim(f, PAST), constant(f, 2)));
  ord_size bound;
  value[SEQ] = 3;
  assert_int_equal(ord_size_bind(&f->arena, size, value, &bound), ORD_SIZE_OK);
  assert_printed(bound, "2*past + 9");
  value[PAST] = 0;
  assert_int_equal(ord_size_bind(&f->arena, size, value, &bound), ORD_SIZE_OK);
  assert_printed(bound, "9");
  value[SEQ] = INT64_C(1) << 35;
  assert_int_equal(ord_size_bind(&f->arena, size, value, &bound), ORD_SIZE_OVERFLOW);
}

static int set_up(void **state) {
  static fixture f;
  f = (fixture){0};
  *state = &f;
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  ord_arena_finish(&f->arena);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_printing, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_equal_as_polynomials, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_constants, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_quotients, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_limits, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_evaluating, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_binding, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
