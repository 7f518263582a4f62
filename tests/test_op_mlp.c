/* SPDX-License-Identifier: MIT
 *
 * mlp: its rule, its numbers, its lowering, and its list of activations.
 */
#include "op_lowering.h"

extern const ord_op ord_op_mlp;

#define LAYER "in/x[1,seq,4]@3 up/u*[16,4]@1 down/d*[4,16]@2 "

static const op_rule_row rules[] = {
    {LAYER, "activation=relu", "f32 [1, seq, 4]"},
    {LAYER "gate*[16,4] up_bias*[16] down_bias*[4] gate_bias*[16]", "activation=silu", "f32 [1, seq, 4]"},
    {"in[4] up*[16,4] down*[7,16]", "activation=silu", "f32 [7]"},
    {"in/x[3,5] up/u*[16,4] down/d*[4,16]", "activation=relu",
     "up: mlp: in 'x' [3, 5] ends in 5, up weight 'u' [out 16, in 4] has in = 4; wanted equal"},
    {"in/x[3,4] up/u*[16,4] down/d*[4,17]", "activation=relu",
     "down: mlp: up weight 'u' [out 16, in 4] has out = 16, down weight 'd' [out 4, in 17] has in = 17; wanted equal"},
    {LAYER "gate/g*[16,5]", "activation=relu",
     "gate: mlp: in 'x' [1, seq, 4] (line 3) ends in 4, gate weight 'g' [out 16, in 5] has in = 5; wanted equal"},
    {LAYER "gate/g*[15,4]", "activation=relu",
     "gate: mlp: up weight 'u' [out 16, in 4] (line 1) has out = 16, gate weight 'g' [out 15, in 4] has out = 15; "
     "wanted equal"},
    {LAYER "gate_bias/b*[16]", "activation=relu", "gate_bias: mlp: gate_bias without a gate; wanted gate too"},
    {LAYER "up_bias/b*[4]", "activation=relu",
     "up_bias: mlp: up weight 'u' [out 16, in 4] (line 1) has out = 16, up_bias weight 'b' [4] ends in 4; wanted "
     "equal"},
    {LAYER "down_bias/b*[16]", "activation=relu",
     "down_bias: mlp: down weight 'd' [out 4, in 16] (line 2) has out = 4, down_bias weight 'b' [16] ends in 16; "
     "wanted equal"},
};

static void test_rules(void **state) {
  (void)state;
  op_testing_rules(&ord_op_mlp, rules, op_testing_count(rules));
}

/* Identity matrices, so that what the activation does is seen. */
#define SMALL "in[2]=-1,2 up[2,2]=1,0,0,1 down[2,2]=1,0,0,1 "

static const op_value_row values[] = {
    {SMALL, "activation=relu", 0, "0 2"},
    {SMALL, "activation=relu2", 0, "0 4"},
    {SMALL "up_bias[2]=2,-1", "activation=relu", 0, "1 1"},
    {SMALL "up_bias[2]=2,-1 down_bias[2]=10,20", "activation=relu", 0, "11 21"},
    {SMALL "gate[2,2]=3,0,0,5", "activation=relu", 0, "0 20"}, // relu(gate) * up, not relu(up) * gate
    {SMALL "gate[2,2]=-3,0,0,5", "activation=relu", 0, "-3 20"},
    {SMALL "gate[2,2]=-3,0,0,5 gate_bias[2]=1,-9", "activation=relu", 0, "-4 2"},
    {"in[1]=1 up[1,1]=1 down[1,1]=1", "activation=silu", 0, "0.73105858"},
    {"in[1]=1 up[1,1]=1 down[1,1]=1", "activation=gelu_erf", 0, "0.84134475"},
    {"in[2,1]=1,-1 up^[3,1]=1,2,-3 down^:bf16[2,3]=1,1,1,0,0,1 out^", "activation=relu", 0, "3 0 3 3"},
};

static void test_values(void **state) {
  (void)state;
  op_testing_values(&ord_op_mlp, values, op_testing_count(values), 1e-7);
}

static void test_lowering(void **state) {
  (void)state;
  const ord_attr attr = {.name = "activation", .kind = ORD_ATTR_WORD, .count = 1, .value.s = "silu"};
  static const uint32_t plain[] = {0, 1, 2, ORD_NONE, 4, 5, ORD_NONE}, gated[] = {0, 1, 2, 3, ORD_NONE, ORD_NONE, 6};
  op_lowering_check(&ord_op_mlp, plain, "1,seq,4", &attr, 1,
                    "100 = matmul(0, 1, -, 4); 101 = silu(100); 102 = matmul(101, 2, -, 5)");
  op_lowering_check(&ord_op_mlp, gated, "1,seq,4", &attr, 1,
                    "100 = matmul(0, 1, -, -); 101 = matmul(0, 3, -, 6); 102 = silu(101); 103 = mul(102, 100); 104 = "
                    "matmul(103, 2, -, -)");
}

static void test_every_pointwise_op_is_an_activation(void **state) {
  (void)state;
  const char *const *word = ord_op_mlp.attr[0].word;
  for (uint32_t i = 0; i < ord_op_count(); i++) {
    if (!(ord_op_get(i)->flags & ORD_OP_POINTWISE)) continue;
    assert_non_null(*word);
    assert_string_equal(*word++, ord_op_get(i)->name);
  }
  assert_null(*word);
}

static void test_cases(void **state) {
  (void)state;
  op_testing_cases(&ord_op_mlp);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rules),    cmocka_unit_test(test_values),
      cmocka_unit_test(test_lowering), cmocka_unit_test(test_every_pointwise_op_is_an_activation),
      cmocka_unit_test(test_cases),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
