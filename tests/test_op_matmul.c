/* SPDX-License-Identifier: MIT
 *
 * matmul: shapes and messages of its rule, its numbers, its conformance rows.
 */
#include "op_testing.h"

extern const ord_op ord_op_matmul;

static const op_rule_row rules[] = {
    {"in[1,seq,384] weight*[768,384]", "", "f32 [1, seq, 768]"},
    {"in[384] weight*[768,384] bias*[768]", "", "f32 [768]"},
    {"in:bf16[2,384] weight*[768,384]", "", "bf16 [2, 768]"},
    {"in[3,4] by[4,5]", "", "f32 [3, 5]"},
    {"in[4] by[4,5] bias[5]", "", "f32 [5]"},
    {"in[2,seq,4] by[4,5]", "", "f32 [2, seq, 5]"},
    {"in[3,4] by[2,6,4,5]", "", "f32 [2, 6, 3, 5]"},
    {"in[2,1,3,4] by[6,4,seq]", "", "f32 [2, 6, 3, seq]"},
    {"in[seq,3,4] by[1,4,5]", "", "f32 [seq, 3, 5]"},
    {"in/h[1,seq,384]@29 weight/h.0.wq*[384,768]@17", "",
     "weight: matmul: in 'h' [1, seq, 384] (line 29) ends in 384, weight 'h.0.wq' [out 384, in 768] (line 17) has in = "
     "768; wanted equal"},
    {"in/x[3,4]", "", "-: matmul: found neither; wanted either weight or by"},
    {"in/x[3,4] weight/w*[5,4] by/y[4,5]", "", "by: matmul: found both; wanted either weight or by"},
    {"in/x[3,4] weight/w[5,4]", "",
     "weight: matmul: weight 'w' [5, 4] is a value; wanted a weight with the axes out and in"},
    {"in/x:i32[3,4] weight/w*[5,4]", "", "in: matmul: in 'x' [3, 4] is i32; wanted f32, f16 or bf16"},
    {"in/x[] weight/w*[5,4]", "", "in: matmul: in 'x' [] has 0 axes; wanted [.., k]"},
    {"in/x[3,4] weight/w*[5,4] bias/b*[4]", "",
     "bias: matmul: weight 'w' [out 5, in 4] has out = 5, bias weight 'b' [4] ends in 4; wanted equal"},
    {"in/x[3,4] by/y[4]", "", "by: matmul: by 'y' [4] has 1 axis; wanted [.., k, n]"},
    {"in/x[4] by/y[2,4,5]", "", "in: matmul: in 'x' [4] has 1 axis; wanted [.., m, k] where by has leading axes"},
    {"in/x[3,4] by/y[5,4]", "", "by: matmul: in 'x' [3, 4] ends in 4, by 'y' [5, 4] has k = 5; wanted equal"},
    {"in/x[2,3,4] by/y[seq,4,5]", "",
     "by: matmul: in 'x' [2, 3, 4] and by 'y' [seq, 4, 5] do not broadcast: found 2 and seq; wanted equal, or 1"},
};

static void test_rules(void **state) {
  (void)state;
  op_testing_rules(&ord_op_matmul, rules, op_testing_count(rules));
}

static const op_value_row values[] = {
    {"in[2,2]=1,2,3,4 weight[3,2]=1,0,0,1,1,1", "", 0, "1 2 3 3 4 7"},
    {"in[2,2]=1,2,3,4 weight^[3,2]=1,0,0,1,1,1 out^", "", 0, "1 2 3 3 4 7"},
    {"in+[2,2]=1,2,3,4 weight+:bf16[3,2]=1,0,0,1,1,1 bias[3]=10,20,30", "", 0, "11 22 33 13 24 37"},
    {"in[2,2]=1,2,3,4 weight:f16[1|2,2]=1,0,0,1,1,1 bias[1|2]=10,20,30", "", 0, "11 22 33 13 24 37"},
    {"in[2/5,2]=1,2,3,4 weight[1,2]=10,1", "", 0, "12 34"},
    {"in[3]=1,2,3 weight[2,3]=1,1,1,3,2,1", "", 0, "6 10"},
    {"in[2,2]=1,2,3,4 by[2,2]=0,1,1,0 bias[2]=0.5,0", "", 0, "2.5 1 4.5 3"},
    {"in[1,2]=1,10 by[2,2,1]=1,2,3,4", "", 0, "21 43"},
    {"in[2,1,2]=1,10,2,20 by[2,1]=1,2", "", 0, "21 42"},
    {"in[1,2,0/4] by[1,0/4,1]", "", 0, "0 0"},
    {"in[2,2]=nan,1,2,3 weight[1,2]=1,1", "", 0, "nan 5"},
};

static void test_values(void **state) {
  (void)state;
  op_testing_values(&ord_op_matmul, values, op_testing_count(values), 0);
}

/* Small terms between two large ones that cancel: a sum in f32 would lose them. */
static void test_the_sum_is_wide(void **state) {
  (void)state;
  static const op_value_row row[] = {{"in[1,4]=1e8,1,1,-1e8 weight[1,4]=1,1,1,1", "", 0, "2"}};
  op_testing_values(&ord_op_matmul, row, 1, 0);
}

static void test_cases(void **state) {
  (void)state;
  op_testing_cases(&ord_op_matmul);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rules),
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_the_sum_is_wide),
      cmocka_unit_test(test_cases),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
