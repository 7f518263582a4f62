/* SPDX-License-Identifier: MIT
 *
 * sample: greedy, top-k, top-p and the draw, which follow the rule at the head of ops/sample.c.
 */
#include "op_testing.h"

extern const ord_op ord_op_sample;

#define PER_ROW " top_k:i32[2] top_p[2] seed:i64[2] counter:i64[2]"

static const op_rule_row rules[] = {
    {"in[2,100] temperature[2]" PER_ROW, "", "i32 [2]"},
    {"in[seq,100] temperature[seq] top_k:i32[seq] top_p[seq] seed:i64[seq] counter:i64[seq]", "", "i32 [seq]"},
    {"in/x[100] temperature[2]" PER_ROW, "", "in: sample: in 'x' [100] has 1 axis; wanted [batch, vocab]"},
    {"in/x:i32[2,100] temperature[2]" PER_ROW, "", "in: sample: in 'x' [2, 100] is i32; wanted f32, f16 or bf16"},
    {"in/x[2,100] temperature/t:f16[2]" PER_ROW, "", "temperature: sample: temperature 't' [2] is f16; wanted f32"},
    {"in/x[3,100] temperature/t[2]" PER_ROW, "",
     "temperature: sample: in 'x' [3, 100] has batch = 3, temperature 't' [2] has batch = 2; wanted equal"},
};

static void test_rules(void **state) {
  (void)state;
  op_testing_rules(&ord_op_sample, rules, op_testing_count(rules));
}

#define GREEDY(b) " temperature[" b "]=0 top_k:i32[" b "]=0 top_p[" b "]=1 seed:i64[" b "]=1 counter:i64[" b "]=1"
#define ONE(temperature, top_k, top_p, seed, counter)                                                                  \
  " temperature[1]=" temperature " top_k:i32[1]=" top_k " top_p[1]=" top_p " seed:i64[1]=" seed                        \
  " counter:i64[1]=" counter

static const op_value_row greedy[] = {
    {"in[1,2]=1,2" GREEDY("1"), "", 0, "1"},
    {"in[2,4]=3,1,3,2,-5,-1,-1,-2" GREEDY("2"), "", 0, "0 1"}, // ties go to the lowest id
    {"in[4,3]=nan,1,nan,nan,nan,nan,-inf,-inf,-inf,nan,-inf,-3" GREEDY("4"), "", 0, "1 0 0 2"},
    {"in[2,3]=1,inf,inf,3e38,1,inf" GREEDY("2"), "", 0, "1 2"},
    {"in[1,3]=1,3,2" ONE("nan", "0", "1", "1", "1"), "", 0, "1"},
    {"in[1,3]=1,3,2" ONE("-1", "0", "1", "1", "1"), "", 0, "1"},
    {"in[4,3]=nan,1,nan,nan,nan,nan,-inf,-inf,-inf,nan,-inf,-3 temperature[4]=1 top_k:i32[4]=0,2 top_p[4]=1,0.5 "
     "seed:i64[4]=3 counter:i64[4]=9",
     "", 0, "1 0 0 2"},
};

static void test_greedy(void **state) {
  (void)state;
  op_testing_values(&ord_op_sample, greedy, op_testing_count(greedy), 0);
}

/* Of 65536 equal logits the token is the first 16 bits of u: of Philox's second word, 0xe169c58d for zeros, which is
 * the known answer of the paper's own test vectors. The further ones come from a second implementation. */
static const op_value_row draws[] = {
    {"in[1,65536]=0" ONE("1", "0", "1", "0", "0"), "", 0, "57705"},
    {"in[1,65536]=5" ONE("0.1", "0", "1", "1", "0"), "", 0, "58634"},
    {"in[1,65536]=0" ONE("1", "0", "1", "0", "1"), "", 0, "23730"},
    {"in[1,65536]=0" ONE("1", "0", "1", "-1", "-1"), "", 0, "17162"},
    {"in[1,65536]=0" ONE("1", "0", "1", "1099511627776", "3"), "", 0, "6607"},
    {"in[1,65536]=0" ONE("1", "0", "1", "3", "1099511627776"), "", 0, "26107"},
    /* a row draws what it would draw alone */
    {"in[3,65536]=0 temperature[3]=1 top_k:i32[3]=0 top_p[3]=1 seed:i64[3]=0,1,0 counter:i64[3]=0,0,1", "", 0,
     "57705 58634 23730"},
};

static void test_draws(void **state) {
  (void)state;
  op_testing_values(&ord_op_sample, draws, op_testing_count(draws), 0);
}

/* u is 0.8805 for seed 0 and counter 0, and 0.3621 for counter 1; the weights at temperature 1 are 1, 2, 4 and 1. */
#define LOGITS "in[1,4]=0,0.69314718,1.38629436,0"

static const op_value_row cuts[] = {
    {LOGITS ONE("1", "0", "1", "0", "0"), "", 0, "3"}, // of 8: 7.04
    {LOGITS ONE("1", "0", "1", "0", "1"), "", 0, "1"}, // 2.90
    {LOGITS ONE("1", "3", "1", "0", "0"), "", 0, "2"}, // of the weights of 2, 1, 0, which is 7: 6.16
    {LOGITS ONE("1", "3", "1", "0", "1"), "", 0, "1"}, // 2.53
    {LOGITS ONE("1", "2", "1", "0", "1"), "", 0, "2"}, // of 6: 2.17
    {LOGITS ONE("1", "1", "1", "0", "1"), "", 0, "2"},
    {LOGITS ONE("1", "4", "1", "0", "0"), "", 0, "3"},
    {LOGITS ONE("1", "-1", "1", "0", "0"), "", 0, "3"},
    {LOGITS ONE("1", "0", "0.0001", "0", "1"), "", 0, "2"}, // at least one is kept
    {LOGITS ONE("1", "0", "0.49", "0", "1"), "", 0, "2"},   // 4 of 8 are more than 0.49
    {LOGITS ONE("1", "0", "0.51", "0", "1"), "", 0, "2"},   // 2 and 1, of 6: 2.17
    {LOGITS ONE("1", "0", "0.76", "0", "1"), "", 0, "1"},   // 2, 1 and 0, of 7: 2.53
    {LOGITS ONE("1", "0", "0.99", "0", "0"), "", 0, "3"},
    {LOGITS ONE("1", "2", "0.6", "0", "1"), "", 0, "2"},      // of the 6 that top_k keeps: 4 are enough
    {LOGITS ONE("0.01", "0", "1", "0", "1"), "", 0, "2"},     // a low temperature is nearly greedy
    {LOGITS ONE("1e30", "0", "1", "0", "1"), "", 0, "1"},     // a high one is fair: 0.36 of 4
    {"in[1,4]=0" ONE("1", "0", "0.5", "0", "0"), "", 0, "1"}, // two of four are exactly half: of 2, 1.76
    {"in[1,4]=1,2,1,2" ONE("1", "2", "1", "0", "0"), "", 0, "3"},
    {"in[1,4]=2,2,2,2" ONE("1", "2", "1", "0", "0"), "", 0, "1"}, // of equal ones the lowest ids are kept
    {"in[1,5]=-inf,0,nan,0,-inf" ONE("1", "0", "1", "0", "0"), "", 0, "3"},
};

static void test_cuts(void **state) {
  (void)state;
  op_testing_values(&ord_op_sample, cuts, op_testing_count(cuts), 0);
}

/* Weights 1, 2 and 5 over 4096 counters: each share within five standard deviations. */
static void test_shares(void **state) {
  (void)state;
  static const ord_case row = {"in[4096,3]=0,0.69314718,1.60943791 temperature[4096]=1 top_k:i32[4096]=0 "
                               "top_p[4096]=1 seed:i64[4096]=1 counter:i64[4096]<1000000000",
                               ""};
  ord_arena arena = {0};
  ord_error err = ORD_ERROR_INIT;
  ord_case_values got;
  assert_true(ord_case_compute(&ord_op_sample, &row, 0, &arena, &got, &err));
  double count[3] = {0};
  for (int64_t i = 0; i < got.count; i++) count[(int)got.value[i]]++;
  static const double share[] = {0.125, 0.25, 0.625};
  for (int i = 0; i < 3; i++)
    assert_true(fabs(count[i] - 4096 * share[i]) < 5 * sqrt(4096 * share[i] * (1 - share[i])));
  ord_arena_finish(&arena);
}

static void test_cases(void **state) {
  (void)state;
  op_testing_cases(&ord_op_sample);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rules), cmocka_unit_test(test_greedy), cmocka_unit_test(test_draws),
      cmocka_unit_test(test_cuts),  cmocka_unit_test(test_shares), cmocka_unit_test(test_cases),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
