/* SPDX-License-Identifier: MIT
 *
 * cache_append: its rule, and where it writes, on a node built by hand: rows of two heads, values of width 1.
 */
#include "op_testing.h"

extern const ord_op ord_op_cache_append;

static const op_rule_row rules[] = {
    {"k[1,3,seq,64] v[1,3,seq,32]", "", ""},
    {"k[2,3,seq,64] v[2,3,seq,64] lengths:i32[2]", "", ""},
    {"k/k[1,3,seq,64] v/v[1,3,past,64]", "",
     "v: cache_append: k 'k' [1, 3, seq, 64] has tokens = seq, v 'v' [1, 3, past, 64] has tokens = past; wanted equal"},
    {"k/k[3,seq,64] v/v[3,seq,64]", "",
     "k: cache_append: k 'k' [3, seq, 64] has 3 axes; wanted [batch, heads, tokens, width]"},
    {"k/k[1,3,seq,64] v/v[1,3,seq,64] lengths/n:i32[2]", "",
     "lengths: cache_append: k 'k' [1, 3, seq, 64] has batch = 1, lengths 'n' [2] has batch = 2; wanted equal"},
};

static void test_rules(void **state) {
  (void)state;
  op_testing_rules(&ord_op_cache_append, rules, op_testing_count(rules));
}

enum { BATCH = 2, HEADS = 2, TOKENS = 3, LENGTH = 5, CACHE = BATCH * HEADS * LENGTH };

static ord_operand operand_make(const char *name, uint16_t role, uint16_t dtype, uint32_t rank, int64_t tokens) {
  const int64_t dim[] = {BATCH, HEADS, tokens, 1};
  ord_operand made = {.name = name, .role = role, .dtype = dtype, .rank = rank, .block_elements = 1, .block_bytes = 4};
  for (uint32_t axis = rank; axis-- > 0;) {
    made.dim[axis] = dim[axis];
    made.stride[axis] = axis + 1 == rank ? 4 : made.stride[axis + 1] * dim[axis + 1];
    made.extent[axis] = ORD_NONE;
  }
  return made;
}

/* Keys are 1 to 12, values their negatives, the cache is 0 before. */
static void append(const int32_t *past, const int32_t *lengths, float *cache_k, float *cache_v) {
  float k[BATCH * HEADS * TOKENS], v[BATCH * HEADS * TOKENS];
  for (int i = 0; i < BATCH * HEADS * TOKENS; i++) k[i] = (float)(i + 1), v[i] = -k[i];
  memset(cache_k, 0, CACHE * sizeof *cache_k);
  memset(cache_v, 0, CACHE * sizeof *cache_v);
  ord_operand operand[] = {
      operand_make("k", ORD_INPUT, ORD_F32, 4, TOKENS),
      operand_make("v", ORD_INPUT, ORD_F32, 4, TOKENS),
      operand_make("lengths", lengths ? ORD_INPUT : ORD_ABSENT, ORD_I32, 1, 0),
      operand_make("cache_k", ORD_STATE, ORD_F32, 4, LENGTH),
      operand_make("cache_v", ORD_STATE, ORD_F32, 4, LENGTH),
      operand_make("past", ORD_SCALAR, ORD_I32, 1, 0),
  };
  const ord_node node = {.struct_size = sizeof node, .op = "cache_append", .operand_count = 6, .operand = operand};
  void *const address[] = {k, v, (void *)(uintptr_t)lengths, cache_k, cache_v, (void *)(uintptr_t)past};
  const ord_exec exec = {.struct_size = sizeof exec, .chunk_count = 1, .operand = address};
  const ord_kernel *kernel = ord_op_cache_append.reference;
  ord_pack pack[6] = {0};
  ord_answer answer = {.struct_size = sizeof answer, .pack = pack};
  ord_plugin_error err = {.struct_size = sizeof err};
  void *prepared = NULL;
  assert_int_equal(kernel->query(kernel, &node, &answer), ORD_OK);
  assert_int_equal(kernel->prepare(kernel, &node, &answer, NULL, &prepared, &err), ORD_OK);
  assert_int_equal(kernel->launch(prepared, &exec, &err), ORD_OK);
  kernel->retire(prepared);
}

static void test_where_it_writes(void **state) {
  (void)state;
  static const struct {
    int32_t past[BATCH], lengths[BATCH];
    bool has_lengths;
    float wanted[CACHE]; // [batch, heads, length]
  } row[] = {
      {{0, 2}, {0}, false, {1, 2, 3, 0, 0, 4, 5, 6, 0, 0, 0, 0, 7, 8, 9, 0, 0, 10, 11, 12}},
      {{1, 0}, {2, 0}, true, {0, 1, 2, 0, 0, 0, 4, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
      {{0, 4}, {9, -1}, true, {1, 2, 3, 0, 0, 4, 5, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
      {{4, 5}, {0}, false, {0, 0, 0, 0, 1, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
      {{-1, -9}, {0}, false, {2, 3, 0, 0, 0, 5, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
  };
  for (size_t i = 0; i < op_testing_count(row); i++) {
    float cache_k[CACHE], cache_v[CACHE];
    append(row[i].past, row[i].has_lengths ? row[i].lengths : NULL, cache_k, cache_v);
    for (int j = 0; j < CACHE; j++) {
      assert_true(cache_k[j] == row[i].wanted[j]);
      assert_true(cache_v[j] == -row[i].wanted[j]);
    }
  }
}

static void test_cases(void **state) {
  (void)state;
  op_testing_cases(&ord_op_cache_append);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rules),
      cmocka_unit_test(test_where_it_writes),
      cmocka_unit_test(test_cases),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
