/* SPDX-License-Identifier: MIT
 *
 * rope: its rule, and which numbers are turned by which angle.
 */
#include "op_testing.h"

extern const ord_op ord_op_rope;

#define IN "in/x[1,12,seq,64] "
#define HALVES "pairing=halves "

static const op_rule_row rules[] = {
    {IN "positions:i32[1,seq]", HALVES "theta=10000", "f32 [1, 12, seq, 64]"},
    {IN "positions:i32[1,seq] factors*[8]", HALVES "theta=10000 rotary=16", "f32 [1, 12, seq, 64]"},
    {IN "cos[1,seq,32] sin[1,seq,32]", HALVES, "f32 [1, 12, seq, 64]"},
    {IN, HALVES, "-: rope: found neither; wanted either positions or cos and sin"},
    {IN "positions:i32[1,seq] cos[1,seq,32] sin[1,seq,32]", HALVES "theta=1",
     "positions: rope: found both; wanted either positions or cos and sin"},
    {IN "positions:i32[1,seq]", HALVES, "-: rope: positions without theta; found nothing; wanted theta: a number"},
    {IN "positions:i32[1,seq]", HALVES "theta=0", "theta: rope: theta: found 0; wanted a number above 0"},
    {IN "positions[1,seq]", HALVES "theta=1", "positions: rope: positions 'positions' [1, seq] is f32; wanted i32"},
    {IN "positions/p:i32[1,past]", HALVES "theta=1",
     "positions: rope: in 'x' [1, 12, seq, 64] has tokens = seq, positions 'p' [1, past] has tokens = past; wanted "
     "equal"},
    {IN "positions/p:i32[seq]", HALVES "theta=1",
     "positions: rope: positions 'p' [seq] has 1 axis; wanted [batch, tokens]"},
    {IN "cos/c[1,seq,32]", HALVES, "-: rope: lacks sin; wanted both cos and sin"},
    {IN "cos/c[1,seq,64] sin[1,seq,32]", HALVES,
     "cos: rope: cos 'c' [1, seq, 64] ends in 64; wanted 32, half of rotary"},
    {IN "cos/c[1,seq,32] sin[1,seq,32]", HALVES "theta=10000",
     "theta: rope: theta with cos and sin has no effect; wanted one of the two"},
    {IN "cos/c[1,seq,32] sin[1,seq,32] factors[32]", HALVES,
     "factors: rope: factors with cos and sin has no effect; wanted one of the two"},
    {IN "positions:i32[1,seq] factors/f*[32]", HALVES "theta=1 rotary=32",
     "factors: rope: factors weight 'f' [32] ends in 32; wanted 16, half of rotary"},
    {IN "positions:i32[1,seq]", HALVES "theta=1 rotary=66",
     "rotary: rope: rotary: found 66; wanted an even number from 2 to the head width 64"},
    {IN "positions:i32[1,seq]", HALVES "theta=1 rotary=7",
     "rotary: rope: rotary: found 7; wanted an even number from 2 to the head width 64"},
    {"in/x[1,2,seq,9] positions:i32[1,seq]", HALVES "theta=1",
     "in: rope: in 'x' [1, 2, seq, 9] has width = 9; wanted an even width, or rotary: an even number below it"},
    {"in/x[1,seq,64] positions:i32[1,seq]", HALVES "theta=1",
     "in: rope: in 'x' [1, seq, 64] has 3 axes; wanted [batch, heads, tokens, width]"},
};

static void test_rules(void **state) {
  (void)state;
  op_testing_rules(&ord_op_rope, rules, op_testing_count(rules));
}

static void test_rotary_is_filled_in(void **state) {
  (void)state;
  char text[1024];
  ord_attr attr[16];
  uint32_t count;
  op_testing_infer(&ord_op_rope, IN "positions:i32[1,seq]", HALVES "theta=10000", text, attr, &count);
  assert_int_equal(ord_attr_find(attr, count, "rotary")->value.i, 64);
}

/* Pair 0 turns by 2, pair 1 by 2 * 100^(-2/4) = 0.2. */
#define FOUR "in[1,1,1,4]=1,2,3,4 positions:i32[1,1]=2 "

static const op_value_row values[] = {
    {"in[1,1,1,2]=1,0 positions:i32[1,1]=1", "pairing=halves theta=10000", 0, "0.54030231 0.84147098"},
    {"in[1,1,1,2]=0,1 positions:i32[1,1]=1", "pairing=halves theta=10000", 0, "-0.84147098 0.54030231"},
    {"in[1,1,2,2]=1,0 positions:i32[1,2]=0,100000", "pairing=halves theta=7", 0, "1 0 -0.99936081 0.03574880"},
    {FOUR, "pairing=halves theta=100", 0, "-3.14403912 1.16545583 -0.33914308 4.31760497"},
    {FOUR, "pairing=interleaved theta=100", 0, "-2.23474169 0.07700375 2.14552241 4.51627430"},
    {FOUR "factors[2]=1,2", "pairing=halves theta=100", 0, "-3.14403912 1.59067466 -0.33914308 4.17968350"},
    {FOUR, "pairing=interleaved theta=100 rotary=2", 0, "-2.23474169 0.07700375 3 4"},
    {FOUR, "pairing=halves theta=100 rotary=2", 0, "-2.23474169 0.07700375 3 4"},
    {"in[1,1,1,4]=1,2,3,4 cos[1,1,2]=0,1 sin[1,1,2]=1,0", "pairing=halves", 0, "-3 2 1 4"},
    {"in[1,1,1,4]=1,2,3,4 cos[1,1,2]=0,1 sin[1,1,2]=1,0", "pairing=interleaved", 0, "-2 1 3 4"},
    {"in[1,1,1,3]=1,2,9 cos[1,1,1]=0.5 sin[1,1,1]=2", "pairing=halves rotary=2", 0, "-3.5 3 9"},
    {"in^[1,2,2,2]=1,0 cos[1,2,1]=0,1 sin[1,2,1]=1,0 out^", "pairing=halves", 0, "0 1 1 0 0 1 1 0"},
};

static void test_values(void **state) {
  (void)state;
  op_testing_values(&ord_op_rope, values, op_testing_count(values), 1e-7);
}

static void test_cases(void **state) {
  (void)state;
  op_testing_cases(&ord_op_rope);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rules),
      cmocka_unit_test(test_rotary_is_filled_in),
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_cases),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
