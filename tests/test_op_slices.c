/* SPDX-License-Identifier: MIT
 *
 * The ops that make something of each slice along an axis (softmax, l2_normalize, pool): shapes and messages of their
 * rules, their numbers, their conformance rows.
 */
#include "op_testing.h"

static const op_named_rule_row rules[] = {
    {"softmax", {"in[2,seq]", "axis=-1", "f32 [2, seq]"}},
    {"softmax", {"in/x[2,seq]", "axis=2", "axis: softmax: axis 2 lies outside a tensor of 2 axes; wanted -2 to 1"}},
    {"softmax", {"in/x[]", "axis=-1", "axis: softmax: axis -1 of a number alone; wanted a tensor with axes"}},
    {"softmax", {"in/x:i32[2]", "axis=-1", "in: softmax: in 'x' [2] is i32; wanted f32, f16 or bf16"}},
    {"l2_normalize", {"in:f16[2,seq]", "axis=0", "f16 [2, seq]"}},
    {"l2_normalize",
     {"in[2]", "axis=-2", "axis: l2_normalize: axis -2 lies outside a tensor of 1 axes; wanted -1 to 0"}},
    {"pool", {"in[2,seq,8] lengths:i32[2]", "kind=mean", "f32 [2, 8]"}},
    {"pool", {"in/x[seq,8]", "kind=mean", "in: pool: in 'x' [seq, 8] has 2 axes; wanted [batch, tokens, width]"}},
    {"pool", {"in[2,seq,8] lengths/l[2]", "kind=last", "lengths: pool: lengths 'l' [2] is f32; wanted i32"}},
    {"pool",
     {"in/x[2,seq,8] lengths/l:i32[3]", "kind=last",
      "lengths: pool: in 'x' [2, seq, 8] has batch = 2, lengths 'l' [3] has batch = 3; wanted equal"}},
};

static void test_rules(void **state) {
  (void)state;
  op_testing_named_rules(rules, op_testing_count(rules));
}

static const op_named_value_row values[] = {
    {"softmax", {"in[2,2]=0,0,1,2", "", 0, "0.5 0.5 0.268941421 0.731058579"}},
    {"softmax", {"in[2,2]=0,1,0,2", "axis=0", 0, "0.5 0.268941421 0.5 0.731058579"}},
    {"softmax", {"in[3,2]=-inf,-inf,-inf,5,-3e38,-3e38", "", 0, "0 0 0 1 0.5 0.5"}},
    {"softmax", {"in[3,2]=-inf,nan,inf,0,inf,inf", "", 0, "nan nan nan nan nan nan"}},
    {"softmax", {"in[1,2]=3e38,-3e38", "", 0, "1 0"}},
    {"softmax", {"in[1,2/4]=0,0,9,9", "", 0, "0.5 0.5"}},
    {"l2_normalize", {"in[3,2]=3,4,0,0,-1,0", "", 0, "0.6 0.8 0 0 -1 0"}},
    {"l2_normalize", {"in[2,2]=3,4,0.3,0.4", "eps=2", 0, "0.6 0.8 0.15 0.2"}},
    {"l2_normalize", {"in[2,2]=3,1,4,nan", "axis=0", 0, "0.6 nan 0.8 nan"}},
    {"pool", {"in[1,3,2]=1,2,3,4,5,6", "kind=mean", 0, "3 4"}},
    {"pool", {"in[1,3,2]=1,2,3,4,5,6", "kind=first", 0, "1 2"}},
    {"pool", {"in[1,3,2]=1,2,3,4,5,6", "kind=last", 0, "5 6"}},
    {"pool", {"in[3,2,1]=1,3,5,nan,9,11 lengths:i32[3]=2,1,0", "kind=mean", 0, "2 5 0"}},
    {"pool", {"in[3,2,1]=1,3,5,nan,9,11 lengths:i32[3]=2,1,0", "kind=last", 0, "3 5 0"}},
    {"pool", {"in[3,2,1]=1,3,5,7,9,11 lengths:i32[3]=7,-1,1", "kind=last", 0, "3 0 9"}},
    {"pool", {"in[1,0,2]", "kind=mean", 0, "0 0"}},
    {"pool", {"in[1,2/3,1]=1,2,9", "kind=last", 0, "2"}},
};

static void test_values(void **state) {
  (void)state;
  op_testing_named_values(values, op_testing_count(values), 1e-7);
}

static void test_cases(void **state) {
  (void)state;
  op_testing_cases(ord_op_find("softmax"));
  op_testing_cases(ord_op_find("l2_normalize"));
  op_testing_cases(ord_op_find("pool"));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rules), cmocka_unit_test(test_values),
                                     cmocka_unit_test(test_cases)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
