/* SPDX-License-Identifier: MIT
 *
 * The checks of shape rules, on an op made for it.
 */
#include "op_testing.h"
#include "ops/op_check.h"

static bool probe_infer(ord_infer *infer) {
  const ord_infer_operand *in = ord_infer_slot(infer, "in"), *weight = ord_infer_slot(infer, "weight");
  const ord_infer_operand *index = ord_infer_slot(infer, "index");
  int64_t width;
  if (!ord_infer_check_float(infer, in) || !ord_infer_check_rank_min(infer, in, 1, "[.., k]")) return false;
  if (!ord_infer_check_dtype(infer, index, ORD_I32) || !ord_infer_check_rank(infer, index, 1, "[n]")) return false;
  if (!ord_infer_check_either(infer, "weight", "index") || !ord_infer_check_matrix(infer, weight)) return false;
  if (!ord_infer_check_fixed(infer, ord_axis_last(in), &width)) return false;
  if (!ord_infer_check_equal(infer, ord_axis_last(in), (ord_axis){weight, 1, "in"})) return false;
  ord_infer_set_result(infer, 0, in->dtype, in->rank, in->dim);
  ord_infer_set_result(infer, 1, ORD_BOOL, 0, NULL);
  return true;
}

static const ord_slot slots[] = {{"in", 0, 0, NULL},
                                 {"weight", ORD_SLOT_MATRIX | ORD_SLOT_OPTIONAL, 0, NULL},
                                 {"index", ORD_SLOT_OPTIONAL, 0, NULL}};
static const ord_op probe = {.name = "probe", .slot = slots, .slot_count = 3, .result_min = 1, .infer = probe_infer};

static const op_rule_row rules[] = {
    {"in[seq,4] weight*[5,4]", "", "f32 [seq, 4]"},
    {"in[seq,4] weight*[5,4]", "results=2", "f32 [seq, 4]; bool []"},
    {"in:bf16[4] index:i32[7]", "", "bf16 [4]"},
    {"in/x:bool[4] index:i32[7]", "", "in: probe: in 'x' [4] is bool; wanted f32, f16 or bf16"},
    {"in/x[] index:i32[7]", "", "in: probe: in 'x' [] has 0 axes; wanted [.., k]"},
    {"in/x[4] index/i[7]", "", "index: probe: index 'i' [7] is f32; wanted i32"},
    {"in/x[4] index/i:i32[7,1]", "", "index: probe: index 'i' [7, 1] has 2 axes; wanted [n]"},
    {"in/x[4]", "", "-: probe: found neither; wanted either weight or index"},
    {"in/x[4] weight*[4,4] index:i32[1]", "", "index: probe: found both; wanted either weight or index"},
    {"in/x[4] weight/w*[4]", "",
     "weight: probe: weight 'w' [out 4] is no matrix; wanted a weight with the axes out and in"},
    {"in/x[4] weight/w[4,4]", "",
     "weight: probe: weight 'w' [4, 4] is a value; wanted a weight with the axes out and in"},
    {"in/x[4,seq]@7 index:i32[1]", "", "in: probe: in 'x' [4, seq] (line 7) ends in seq; wanted a fixed size"},
    {"in/x[4] weight/w*[6,5]", "",
     "weight: probe: in 'x' [4] ends in 4, weight 'w' [out 6, in 5] has in = 5; wanted equal"},
};

static void test_rules(void **state) {
  (void)state;
  op_testing_rules(&probe, rules, op_testing_count(rules));
}

static void test_operands_that_are_absent_pass(void **state) {
  (void)state;
  ord_infer infer = {.op = &probe};
  assert_true(ord_infer_check_float(&infer, NULL));
  assert_true(ord_infer_check_dtype(&infer, NULL, ORD_I32));
  assert_true(ord_infer_check_rank(&infer, NULL, 3, ""));
  assert_true(ord_infer_check_rank_min(&infer, NULL, 3, ""));
  assert_true(ord_infer_check_matrix(&infer, NULL));
  assert_true(ord_infer_check_equal(&infer, (ord_axis){NULL, 0, NULL}, (ord_axis){NULL, 0, NULL}));
  assert_true(ord_infer_check_bias(&infer, NULL, (ord_axis){NULL, 0, NULL}));
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rules),
      cmocka_unit_test(test_operands_that_are_absent_pass),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
