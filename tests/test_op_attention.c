/* SPDX-License-Identifier: MIT
 *
 * attention: its rule, and who sees what. Where queries are 0 every key that is seen counts alike, so that the result
 * is the mean of the values that are seen: with 1, 2, 4, 8 as values it tells which ones.
 */
#include "op_testing.h"

extern const ord_op ord_op_attention;

#define QKV "q/q[2,8,seq,64] k/k[2,2,seq,64] v/v[2,2,seq,48] "

static const op_rule_row rules[] = {
    {QKV, "causal=true", "f32 [2, 8, seq, 48]"},
    {QKV, "causal=true results=2", "f32 [2, 8, seq, 48]; f32 [2, 8, seq, seq]"},
    {QKV, "causal=true results=2 cache=1024", "f32 [2, 8, seq, 48]; f32 [2, 8, seq, 1024]"},
    {"q[1,9,seq,64] k[1,3,past,64] v[1,3,past,64] mask:bool[seq,past] lengths:i32[1]", "causal=true align=last",
     "f32 [1, 9, seq, 64]"},
    {QKV "mask:bool[2,1,1,seq]", "causal=false", "f32 [2, 8, seq, 48]"},
    {QKV "mask[seq,1024]", "causal=true cache=1024", "f32 [2, 8, seq, 48]"},
    {QKV "lengths:i32[2]", "causal=true cache=1024", "f32 [2, 8, seq, 48]"},
    {QKV "lengths:i32[2]", "causal=false", "f32 [2, 8, seq, 48]"},
    {QKV "lengths:i32[2]", "causal=true align=first", "f32 [2, 8, seq, 48]"},
    {QKV "lengths:i32[2]", "causal=true",
     "-: attention: causal with lengths lacks align; wanted first (padded prompts) or last (new tokens against old "
     "keys)"},
    {QKV "lengths:i32[2]", "causal=false window_before=3",
     "-: attention: a window with lengths lacks align; wanted first (padded prompts) or last (new tokens against old "
     "keys)"},
    {QKV, "causal=true align=last cache=1024",
     "align: attention: align with a cache; queries stand behind their row's past; wanted no align"},
    {QKV, "causal=false align=first",
     "align: attention: align without causal or a window has no effect; wanted no align"},
    {QKV, "causal=true align=-1", "align: attention: align: found -1; wanted last, first or a key's number, from 0"},
    {QKV, "causal=true window_after=3",
     "window_after: attention: window_after with causal; a causal query sees nothing behind itself; wanted one of the "
     "two"},
    {QKV, "causal=true window_before=-1", "window_before: attention: window_before: found -1; wanted 0 or more"},
    {QKV, "causal=true soft_cap=0", "soft_cap: attention: soft_cap: found 0; wanted a number above 0"},
    {"q/q[1,7,4,8] k/k[1,2,4,8] v/v[1,2,4,8]", "causal=true",
     "k: attention: q 'q' [1, 7, 4, 8] has heads = 7, k 'k' [1, 2, 4, 8] has heads = 2; wanted a multiple of the key "
     "heads"},
    {"q/q[1,seq,4,8] k/k[1,2,4,8] v/v[1,2,4,8]", "causal=true",
     "q: attention: q 'q' [1, seq, 4, 8] has heads = seq; wanted a fixed size"},
    {"q/q[4,8] k/k[1,2,4,8] v/v[1,2,4,8]", "causal=true",
     "q: attention: q 'q' [4, 8] has 2 axes; wanted [batch, heads, tokens, width]"},
    {"q/q[1,2,4,8] k/k[1,2,4,9] v/v[1,2,4,8]", "causal=true",
     "k: attention: q 'q' [1, 2, 4, 8] has width = 8, k 'k' [1, 2, 4, 9] has width = 9; wanted equal"},
    {"q/q[1,2,4,8] k/k[1,2,4,8] v/v[1,2,5,8]", "causal=true",
     "v: attention: k 'k' [1, 2, 4, 8] has tokens = 4, v 'v' [1, 2, 5, 8] has tokens = 5; wanted equal"},
    {"q/q[1,2,4,8] k/k[1,2,4,8] v/v[1,1,4,8]", "causal=true",
     "v: attention: k 'k' [1, 2, 4, 8] has heads = 2, v 'v' [1, 1, 4, 8] has heads = 1; wanted equal"},
    {QKV "mask/m[past,1]", "causal=false", "mask: attention: mask 'm' [past, 1] has queries = past; wanted 1 or seq"},
    {QKV "mask/m[seq,seq]", "causal=true cache=1024",
     "mask: attention: mask 'm' [seq, seq] has keys = seq; wanted 1 or 1024 (the cache's length)"},
    {QKV "mask/m[1,1,1,1,1]", "causal=true",
     "mask: attention: mask 'm' [1, 1, 1, 1, 1] has 5 axes; wanted at most [batch, heads, queries, keys]"},
    {QKV "mask/m:i32[1]", "causal=true", "mask: attention: mask 'm' [1] is i32; wanted f32, f16 or bf16"},
    {QKV "lengths/n[2]", "causal=false", "lengths: attention: lengths 'n' [2] is f32; wanted i32"},
    {QKV "lengths/n:i32[3]", "causal=false",
     "lengths: attention: q 'q' [2, 8, seq, 64] has batch = 2, lengths 'n' [3] has batch = 3; wanted equal"},
};

static void test_rules(void **state) {
  (void)state;
  op_testing_rules(&ord_op_attention, rules, op_testing_count(rules));
}

/* Kernels find every attribute filled in. */
static void test_resolved_attributes(void **state) {
  (void)state;
  char text[1024];
  ord_attr attr[16];
  uint32_t count;
  op_testing_infer(&ord_op_attention, QKV, "causal=true", text, attr, &count);
  assert_int_equal(ord_attr_find(attr, count, "align")->value.i, ORD_LAST);
  assert_int_equal(ord_attr_find(attr, count, "window_before")->value.i, -1);
  assert_int_equal(ord_attr_find(attr, count, "window_after")->value.i, -1);
  assert_true(ord_attr_find(attr, count, "scale")->value.f == 0.125);
  assert_true(ord_attr_find(attr, count, "soft_cap")->value.f == 0);
  op_testing_infer(&ord_op_attention, QKV, "causal=true align=first scale=2 soft_cap=3 window_before=4", text, attr,
                   &count);
  assert_int_equal(ord_attr_find(attr, count, "align")->value.i, 0);
  assert_int_equal(ord_attr_find(attr, count, "window_before")->value.i, 4);
  assert_true(ord_attr_find(attr, count, "scale")->value.f == 2);
  assert_true(ord_attr_find(attr, count, "soft_cap")->value.f == 3);
}

/* q[1,1,s,1] and k[1,1,t,1] are 0 but where a row says more. */
#define ALIKE(s, t) "q[1,1," s ",1]=0 k[1,1," t ",1]=0 v[1,1," t ",1]=1,2,4,8 "
#define BATCH(s) "q[3,1," s ",1]=0 k[3,1,4,1]=0 v[3,1,4,1]=1,2,4,8 "

static const op_value_row seen[] = {
    {ALIKE("4", "4"), "causal=false", 0, "3.75 3.75 3.75 3.75"},
    {ALIKE("4", "4"), "causal=true", 0, "1 1.5 2.33333333 3.75"},
    {ALIKE("2", "4"), "causal=true", 0, "2.33333333 3.75"},
    {ALIKE("2", "4"), "causal=true align=first", 0, "1 1.5"},
    {ALIKE("2", "4"), "causal=true align=1", 0, "1.5 2.33333333"},
    {ALIKE("2", "4"), "causal=true align=9", 0, "3.75 3.75"},
    {ALIKE("2", "4"), "causal=true align=9223372036854775806", 0, "3.75 3.75"},
    {ALIKE("2", "4"), "causal=false window_before=9223372036854775804 align=9223372036854775806", 0, "6 8"},
    {ALIKE("2", "4"), "causal=false window_before=9223372036854775807 window_after=9223372036854775807 align=1", 0,
     "3.75 3.75"},
    {ALIKE("4", "2"), "causal=true window_before=9223372036854775807", 0, "0 0 1 1.5"},
    {ALIKE("4", "2"), "causal=true", 0, "0 0 1 1.5"},
    {ALIKE("4", "4"), "causal=true window_before=1", 0, "1 1.5 3 6"},
    {ALIKE("4", "4"), "causal=true window_before=0", 0, "1 2 4 8"},
    {ALIKE("4", "4"), "causal=false window_before=1", 0, "3.75 3.75 4.66666667 6"},
    {ALIKE("4", "4"), "causal=false window_after=1", 0, "1.5 2.33333333 3.75 3.75"},
    {ALIKE("4", "4"), "causal=false window_before=0 window_after=0", 0, "1 2 4 8"},
    {ALIKE("2", "4"), "causal=false window_before=0 window_after=0", 0, "4 8"},
    {ALIKE("2", "4"), "causal=false window_before=0 window_after=1 align=first", 0, "1.5 3"},
    {ALIKE("2", "4"), "causal=false window_before=1 window_after=0 align=4", 0, "8 0"},
    {ALIKE("1", "0/4"), "causal=false", 0, "0"},
    {ALIKE("1", "0/4"), "causal=true", 0, "0"},
    {BATCH("1") "lengths:i32[3]=0,2,4", "causal=false", 0, "0 1.5 3.75"},
    {BATCH("1") "lengths:i32[3]=-1,9,1", "causal=false", 0, "0 3.75 1"},
    {BATCH("2") "lengths:i32[3]=0,2,4", "causal=true align=last", 0, "0 0 1 1.5 2.33333333 3.75"},
    {BATCH("2") "lengths:i32[3]=0,1,4", "causal=true align=first", 0, "0 0 1 1 1 1.5"},
    {BATCH("2") "lengths:i32[3]=1,2,3", "causal=true align=last window_before=0", 0, "0 1 1 2 2 4"},
    {ALIKE("2", "4") "mask:bool[2,4]=1,0,1,0,0,0,0,0", "causal=false", 0, "2.5 0"},
    {ALIKE("2", "4") "mask:bool[4]=0,1,0,1", "causal=false", 0, "5 5"},
    {ALIKE("2", "4") "mask:bool[2,1]=0,1", "causal=true", 0, "0 3.75"},
    {ALIKE("2", "4") "mask[2,4]=0,-inf,0,-inf,-inf,-inf,-inf,-inf", "causal=false", 0, "2.5 0"},
    {ALIKE("2", "4") "mask[2,4]=-3e38,-3e38,-3e38,-3e38,0,-3e38,-3e38,0", "causal=false", 0, "3.75 4.5"},
    {ALIKE("1", "4") "mask[4]=-3.4e38", "causal=false", 0, "3.75"},
    /* what is hidden may hold anything */
    {"q[1,1,1,1]=0 k[1,1,4,1]=0,0,nan,inf v[1,1,4,1]=1,2,nan,inf mask:bool[4]=1,1,0,0", "causal=false", 0, "1.5"},
    {"q[1,1,1,1]=0 k[1,1,4,1]=0,0,nan,inf v[1,1,4,1]=1,2,nan,inf mask[4]=0,0,-inf,-inf", "causal=false", 0, "1.5"},
    {"q[1,1,1,1]=0 k[1,1,4,1]=0,0,nan,inf v[1,1,4,1]=1,2,nan,inf lengths:i32[1]=2", "causal=false", 0, "1.5"},
    {"q[1,1,1,1]=0 k[1,1,2,1]=0,nan v[1,1,2,1]=1,2", "causal=false", 0, "nan"},
    /* probabilities */
    {ALIKE("3", "4"), "causal=true results=2", 1, "0.5 0.5 0 0 0.33333333 0.33333333 0.33333333 0 0.25 0.25 0.25 0.25"},
    {ALIKE("2", "4") "mask:bool[2,1]=0,1", "causal=false results=2", 1, "0 0 0 0 0.25 0.25 0.25 0.25"},
    /* heads, widths, layouts */
    {"q[1,4,1,1]=0 k[1,2,1,1]=0 v[1,2,1,1]=1,2", "causal=false", 0, "1 1 2 2"},
    {"q[1,6,1,1]=0 k[1,2,1,1]=0 v[1,2,1,1]=1,2", "causal=false", 0, "1 1 1 2 2 2"},
    {"q[1,3,1,1]=0 k[1,3,1,1]=0 v[1,3,1,1]=1,2,3", "causal=false", 0, "1 2 3"},
    {"q[1,5,1,1]=0 k[1,1,1,1]=0 v[1,1,1,1]=7", "causal=false", 0, "7 7 7 7 7"},
    {"q[1,1,1,2]=0 k[1,1,2,2]=0 v[1,1,2,3]=1,2,3,5,6,7", "causal=false", 0, "3 4 5"},
    {"q^[2,1,2,1]=0 k+[2,1,2,1]=0 v^[2,1,2,1]=1,2,4,8 out^", "causal=true", 0, "1 1.5 4 6"},
    {"q[2/4,1,2,1]=0 k[2/4,1,2,1]=0 v[2/4,1,2,1]=1,2,4,8", "causal=true", 0, "1 1.5 4 6"},
    {"q[1,1,2/3,1]=0 k[1,1,3/5,1]=0 v[1,1,3/5,1]=1,2,4,8", "causal=true", 0, "1.5 2.33333333"},
};

static void test_who_sees_what(void **state) {
  (void)state;
  op_testing_values(&ord_op_attention, seen, op_testing_count(seen), 1e-6);
}

/* The cache's old rows are random numbers, so these rows look at new tokens alone, or at probabilities. */
static const op_value_row cached[] = {
    {ALIKE("4", "4"), "causal=true cache=8 past=0", 0, "1 1.5 2.33333333 3.75"},
    {ALIKE("4", "4"), "causal=true window_before=0 cache=8 past=3", 0, "1 2 4 8"},
    {ALIKE("4", "4"), "causal=true window_before=0 cache=8 past=4", 0, "1 2 4 8"}, // exactly full
    {ALIKE("4", "4") "lengths:i32[1]=2", "causal=true window_before=0 cache=8 past=3", 0, "1 2 0 0"},
    {ALIKE("2", "2"), "causal=false window_before=0 window_after=1 cache=8 past=3", 0, "1.5 2"},
    {ALIKE("2", "2"), "causal=true results=2 cache=4 past=1", 1, "0.5 0.5 0 0 0.33333333 0.33333333 0.33333333 0"},
    {ALIKE("2", "2"), "causal=false results=2 cache=4 past=2", 1, "0.25 0.25 0.25 0.25 0.25 0.25 0.25 0.25"},
    {ALIKE("2", "2") "mask:bool[4]=1,0,1,1", "causal=true results=2 cache=4 past=1", 1, "1 0 0 0 0.5 0 0.5 0"},
};

static void test_caches(void **state) {
  (void)state;
  op_testing_values(&ord_op_attention, cached, op_testing_count(cached), 1e-6);
}

static const op_value_row scores[] = {
    /* exp(score) is 1 and 2 */
    {"q[1,1,1,1]=1 k[1,1,2,1]=0,0.69314718 v[1,1,2,1]=0,3", "causal=false", 0, "2"},
    {"q[1,1,1,1]=2 k[1,1,2,1]=0,0.69314718 v[1,1,2,1]=0,3", "causal=false scale=0.5", 0, "2"},
    {"q[1,1,1,4]=1 k[1,1,2,4]=0,0,0,0,0.69314718,0.69314718,0,0 v[1,1,2,1]=0,3", "causal=false", 0, "2"},
    {"q[1,1,1,1]=0 k[1,1,2,1]=0 v[1,1,2,1]=0,3 mask[2]=0,0.69314718", "causal=false", 0, "2"},
    /* 0.5 * tanh(100 / 0.5) is 0.5 */
    {"q[1,1,1,1]=1 k[1,1,2,1]=0,100 v[1,1,2,1]=0,1", "causal=false soft_cap=0.5", 0, "0.622459331"},
    /* the cap comes before the mask */
    {"q[1,1,1,1]=0 k[1,1,2,1]=0 v[1,1,2,1]=0,1 mask[2]=0,100", "causal=false soft_cap=0.5", 0, "1"},
    {"q[1,1,1,1]=1 k[1,1,2,1]=1 v[1,1,2,1]=3,1 mask[2]=0,-inf", "causal=false soft_cap=0.5", 0, "3"},
    /* scores far from 0 */
    {"q[1,1,1,1]=1 k[1,1,2,1]=10000,10000.5 v[1,1,2,1]=0,1", "causal=false", 0, "0.622459331"},
    {"q[1,1,1,1]=1 k[1,1,2,1]=-10000,-10000.5 v[1,1,2,1]=0,1", "causal=false", 0, "0.377540669"},
};

static void test_scores(void **state) {
  (void)state;
  op_testing_values(&ord_op_attention, scores, op_testing_count(scores), 1e-6);
}

static void test_cases(void **state) {
  (void)state;
  op_testing_cases(&ord_op_attention);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rules),         cmocka_unit_test(test_resolved_attributes),
      cmocka_unit_test(test_who_sees_what), cmocka_unit_test(test_caches),
      cmocka_unit_test(test_scores),        cmocka_unit_test(test_cases),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
