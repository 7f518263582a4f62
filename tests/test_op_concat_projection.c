/* SPDX-License-Identifier: MIT
 *
 * concat_projection: its rule, its numbers and its lowering.
 */
#include "op_lowering.h"

extern const ord_op ord_op_concat_projection;

static const op_rule_row rules[] = {
    {"in[1,12,seq,64] weight*[384,768]", "", "f32 [1, seq, 384]"},
    {"in[2,12,seq,64] weight*[384,768] bias*[384]", "", "f32 [2, seq, 384]"},
    {"in/a[1,12,seq,64]@34 weight/w*[384,384]@18", "",
     "weight: concat_projection: in 'a' [1, 12, seq, 64] (line 34) joins 12 heads of 64 to 768, weight 'w' [out 384, "
     "in 384] (line 18) has in = 384; wanted equal"},
    {"in/a[1,seq,768] weight/w*[384,768]", "",
     "in: concat_projection: in 'a' [1, seq, 768] has 3 axes; wanted [batch, heads, tokens, width]"},
    {"in/a[1,12,seq,64] weight/w*[384,768] bias/b*[768]", "",
     "bias: concat_projection: weight 'w' [out 384, in 768] has out = 384, bias weight 'b' [768] ends in 768; wanted "
     "equal"},
    {"in/a[1,12,seq,64] weight/w[384,768]", "",
     "weight: concat_projection: weight 'w' [384, 768] is a value; wanted a weight with the axes out and in"},
};

static void test_rules(void **state) {
  (void)state;
  op_testing_rules(&ord_op_concat_projection, rules, op_testing_count(rules));
}

/* in[head][token]: 1 2, 3 4 */
static const op_value_row values[] = {
    {"in[1,2,2,1]=1,2,3,4 weight[1,2]=10,1", "", 0, "13 24"},
    {"in[1,2,2,1]=1,2,3,4 weight[2,2]=10,1,0,1 bias[2]=100,200", "", 0, "113 203 124 204"},
    {"in^[1,2,2,1]=1,2,3,4 weight^[2,2]=10,1,0,1 bias[2]=100,200 out+", "", 0, "113 203 124 204"},
    {"in[1,2,1,2]=1,2,3,4 weight[1,4]=1000,100,10,1", "", 0, "1234"},
    {"in[2/3,1,1,1]=5,6 weight:bf16[1,1]=2", "", 0, "10 12"},
};

static void test_values(void **state) {
  (void)state;
  op_testing_values(&ord_op_concat_projection, values, op_testing_count(values), 0);
}

static void test_lowering(void **state) {
  (void)state;
  static const uint32_t with_bias[] = {0, 1, 2}, without[] = {0, 1, ORD_NONE};
  op_lowering_check(&ord_op_concat_projection, with_bias, "1,12,seq,64", NULL, 0,
                    "100 = transpose(0 axes=0,2,1,3); 101 = reshape(100 shape=1,seq,768); 102 = matmul(101, 1, -, 2)");
  op_lowering_check(&ord_op_concat_projection, without, "2,3,4,5", NULL, 0,
                    "100 = transpose(0 axes=0,2,1,3); 101 = reshape(100 shape=2,4,15); 102 = matmul(101, 1, -, -)");
}

static void test_cases(void **state) {
  (void)state;
  op_testing_cases(&ord_op_concat_projection);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rules),
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_lowering),
      cmocka_unit_test(test_cases),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
