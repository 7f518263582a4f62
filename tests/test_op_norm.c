/* SPDX-License-Identifier: MIT
 *
 * layernorm and rmsnorm, which share op_norm.c.
 */
#include "op_testing.h"

extern const ord_op ord_op_layernorm, ord_op_rmsnorm;

static const op_rule_row rules[] = {
    {"in[1,seq,384]", "eps=1e-5", "f32 [1, seq, 384]"},
    {"in:f16[384] weight*[384]", "eps=0", "f16 [384]"},
    {"in/x[1,seq,384] weight/w*[385]", "eps=1e-5",
     "weight: NORM: in 'x' [1, seq, 384] ends in 384, weight 'w' [385] ends in 385; wanted equal"},
    {"in/x[1,seq,384] weight/w*[1,384]", "eps=1e-5", "weight: NORM: weight 'w' [1, 384] has 2 axes; wanted [d]"},
    {"in/x:i32[384]", "eps=1e-5", "in: NORM: in 'x' [384] is i32; wanted f32, f16 or bf16"},
    {"in/x[]", "eps=1e-5", "in: NORM: in 'x' [] has 0 axes; wanted [.., d]"},
    {"in/x[384]", "eps=-1e-5", "eps: NORM: eps: found -1e-05; wanted 0 or more"},
};

static void check_rules(const ord_op *op) {
  for (size_t i = 0; i < op_testing_count(rules); i++) {
    char wanted[1024];
    const char *name = strstr(rules[i].wanted, "NORM");
    if (name)
      snprintf(wanted, sizeof wanted, "%.*s%s%s", (int)(name - rules[i].wanted), rules[i].wanted, op->name, name + 4);
    else
      snprintf(wanted, sizeof wanted, "%s", rules[i].wanted);
    op_testing_rules(op, &(op_rule_row){rules[i].operands, rules[i].attributes, wanted}, 1);
  }
}

static void test_rules(void **state) {
  (void)state;
  check_rules(&ord_op_layernorm);
  check_rules(&ord_op_rmsnorm);
  static const op_rule_row bias[] = {
      {"in/x[2,3] weight*[3] bias/b*[2]", "eps=0",
       "bias: layernorm: in 'x' [2, 3] ends in 3, bias weight 'b' [2] ends in 2; wanted equal"}};
  op_testing_rules(&ord_op_layernorm, bias, 1);
}

static const op_value_row layernorm_values[] = {
    {"in[2,2]=1,3,10,30", "eps=0", 0, "-1 1 -1 1"},
    {"in[2]=1,3", "eps=3", 0, "-0.5 0.5"}, // eps stands under the root
    {"in[2]=1,3 weight[2]=2,10 bias[2]=0.5,-1", "eps=0", 0, "-1.5 9"},
    {"in[2]=1,3 bias[2]=5", "eps=0", 0, "4 6"},
    {"in[3]=7 bias[3]=1,2,3", "eps=1e-5", 0, "1 2 3"},
    {"in^[2,2]=1,3,10,30 weight+[2]=1,2 out^", "eps=0", 0, "-1 2 -1 2"},
    {"in[1/3,2]=1,3", "eps=0", 0, "-1 1"},
    {"in[4]=1e8,100000008,1e8,100000008", "eps=0", 0, "-1 1 -1 1"}, // a sum of squares in f32 would lose this
};

static const op_value_row rmsnorm_values[] = {
    {"in[2]=3,4", "eps=0", 0, "0.84852814 1.13137085"},
    {"in[2]=3,4", "eps=3.5", 0, "0.75 1"},
    {"in[2,2]=3,4,-6,8 weight[2]=4,1", "eps=3.5", 0, "3 1 -3.28121245 1.09373748"},
    {"in[3]=0 weight[3]", "eps=1e-5", 0, "0 0 0"},
};

static void test_values(void **state) {
  (void)state;
  op_testing_values(&ord_op_layernorm, layernorm_values, op_testing_count(layernorm_values), 1e-7);
  op_testing_values(&ord_op_rmsnorm, rmsnorm_values, op_testing_count(rmsnorm_values), 1e-7);
}

static void test_cases(void **state) {
  (void)state;
  op_testing_cases(&ord_op_layernorm);
  op_testing_cases(&ord_op_rmsnorm);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rules),
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_cases),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
