/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/plan.h"

static char retired[8];

static void retire(void *state) { strcat(retired, state); }

static ord_weight_stored stored(void *context, uint32_t weight) {
  (void)context;
  (void)weight;
  return (ord_weight_stored){ORD_F32, 8, 0};
}
static bool read_weight(void *context, uint32_t weight, size_t offset, size_t bytes, void *into, ord_error *err) {
  (void)context;
  (void)weight;
  (void)offset;
  (void)err;
  memset(into, 1, bytes);
  return true;
}
static void destroy(void *context) { (void)context; }

/* States are retired last first, weights given back, and what was never made is left alone. */
static void test_what_was_made_is_given_back(void **state) {
  (void)state;
  const ord_weight_source source = {.weight_count = 1, .stored = stored, .read = read_weight, .destroy = destroy};
  ord_weight_store *store;
  ord_error err = ORD_ERROR_INIT;
  assert_true(ord_weight_store_create(source, NULL, &store, &err));
  ord_plan *plan = calloc(1, sizeof *plan);
  assert_non_null(plan);
  plan->store = store;
  plan->step_count = 3;
  plan->step = ord_arena_take(&plan->arena, 3, sizeof *plan->step);
  const ord_kernel kernel = {.retire = retire};
  plan->step[0].choice.kernel = plan->step[1].choice.kernel = &kernel;
  plan->step[0].state = "a";
  plan->step[1].state = "b";
  plan->weight_count = 2;
  plan->weight = ord_arena_take(&plan->arena, 2, sizeof *plan->weight);

  const ord_segment segment = {2, 0};
  const ord_operand operand = {.role = ORD_WEIGHT, .segment = &segment, .segment_count = 1};
  const ord_node node = {.op = "matmul", .operand = &operand, .operand_count = 1};
  ord_pack pack = {0};
  const ord_answer answer = {.pack = &pack};
  assert_true(ord_weight_store_take(store, NULL, &kernel, &node, &answer, 0, &plan->weight[1], &err));
  assert_int_equal(ord_weight_store_usage(store).original_bytes, 8);

  ord_plan_destroy(plan);
  assert_string_equal(retired, "ba");
  assert_int_equal(ord_weight_store_usage(store).original_bytes, 0);
  ord_weight_store_destroy(store);
}

static void test_nothing_and_an_empty_plan(void **state) {
  (void)state;
  ord_plan_destroy(NULL);
  ord_plan_destroy(calloc(1, sizeof(ord_plan)));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_was_made_is_given_back),
      cmocka_unit_test(test_nothing_and_an_empty_plan),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
