/* SPDX-License-Identifier: MIT
 *
 * plugins/attention_flash, at every level of instructions that this machine has: the conformance rows of attention; a
 * query alone through a cache against the same query among others, bit for bit; a row of a batch against the row alone;
 * hidden values that are no numbers; what it refuses and why.
 */
#include "runtime/device.h"
#include "tests/conformance.h"

#define FLASH ORDITO_BUILD_DIRECTORY "/lib/ordito/plugins/attention_flash.so"

/* ---- levels ---- */

static const struct level {
  const char *name;
  uint64_t features;
} levels[] = {{"baseline", 0}, {"avx2", ORD_CPU_AVX2}, {"avx512", ORD_CPU_AVX2 | ORD_CPU_AVX512}};
enum { LEVEL_COUNT = sizeof levels / sizeof *levels };

static bool has_level(size_t level) { return hand_cpu_has(levels[level].features); }

static ord_device_info device_of(size_t level) {
  return (ord_device_info){.struct_size = sizeof(ord_device_info),
                           .kind = ORD_DEVICE_CPU,
                           .cores = 2,
                           .features = levels[level].features,
                           .name = levels[level].name};
}

static void open_level(hand *made, size_t level) {
  hand_open(made, FLASH, "attention");
  made->device = device_of(level);
}

/* ---- conformance ---- */

static void run_row(const ord_kernel *kernel, size_t level, const ord_case *row, const char *const *reason) {
  const ord_device_info device = device_of(level);
  const ord_case_options options = {.device = &device};
  ord_error err = ORD_ERROR_INIT;
  ord_case_result result;
  if (!ord_case_run(ord_op_find("attention"), row, kernel, &options, &result, &err))
    fail_msg("%s %s: %s", row->operands, row->attributes, err.text);
  const bool is_refused = result.verdict == ORD_CASE_REFUSED && conformance_is_known(result.text, reason);
  if (result.verdict != ORD_CASE_PASSED && !is_refused)
    fail_msg("%s: %s %s: %s", levels[level].name, row->operands, row->attributes, result.text);
  if (result.verdict == ORD_CASE_PASSED && !strstr(result.variant, levels[level].name))
    fail_msg("variant '%s' at level %s", result.variant, levels[level].name);
}

static void test_conformance(void **unused) {
  (void)unused;
  static const char *const reason[] = {"is f16; wanted", "is bf16; wanted f32", "probabilities as a second output",
                                       NULL};
  for (size_t level = 0; level < LEVEL_COUNT; level++) {
    if (!has_level(level)) continue;
    hand made;
    open_level(&made, level);
    for (const ord_case *row = ord_op_find("attention")->cases; row->operands; row++)
      run_row(made.kernel, level, row, reason);
    hand_close(&made);
  }
}

/* Must be served: what several blocks, tiles, panels and tails of each bring. */
static void test_serves(void **unused) {
  (void)unused;
  static const ord_case rows[] = {
      {"q[1,2,$,64] k[1,2,$,64] v[1,2,$,64]", "causal=true $=11,13,24,25,47,73,257"},
      {"q[1,1,30,$] k[1,1,300,$] v[1,1,300,$]", "causal=true $=1,7,8,31,72,80,96,128,256"},
      {"q[1,9,27,20] k[1,3,530,20] v[1,3,530,36]", "causal=true window_before=270"},
      {"q[1,9,27,20] k[1,3,530,20] v[1,3,530,36]", "causal=false align=200 window_before=30 window_after=99"},
      {"q[1,$,1,24] k[1,1,300,24] v[1,1,300,24]", "causal=true $=1,2,3,4,5,7,9,13,26,50"},
      {"q[1,$,1,24] k[1,1,1,24] v[1,1,1,24]", "causal=true cache=700:bf16 past=513 $=1,2,3,4,6,8,12,25"},
      {"q[1,2,1,$] k[1,1,1,$] v[1,1,1,$]", "causal=true cache=520 past=515 $=1,3,7,16,40,72,80,128,256"},
      {"q[1,2,1,$] k[1,1,1,$] v[1,1,1,$]", "causal=true cache=520:bf16 past=515 $=1,3,7,16,40,72,80,128,256"},
      {"q[2,4,1,16] k[2,2,1,16] v[2,2,1,16]", "causal=true cache=600 past=599,3 window_before=300"},
      {"q[2,4,30,16] k[2,2,30,16] v[2,2,30,16]", "causal=true cache=600 past=500,3 soft_cap=2 window_before=40"},
      {"q[2,4,1,16] k[2,2,1,16] v[2,2,1,16] mask:bool[2,1,1,300]=1,1,0", "causal=true cache=300 past=280,1"},
      {"q[2,4,5,16] k[2,2,5,16] v[2,2,5,16] mask[2,4,5,300]=0,-inf,1,-2,0.5", "causal=true cache=300 past=280,1"},
      {"q[1,1,3,8] k[1,1,9,8] v[1,1,9,8]", "causal=false align=2000000000000000000 window_before=9223372036854775807"},
      {"q[3,2,40,8] k[3,2,290,8] v[3,2,290,8] lengths:i32[3]=0,270,290", "causal=true align=last"},
      {"q^[2,4,30,16] k^[2,2,270,16] v^[2,2,270,16] out^", "causal=true"},
      {"q+[2,4,1,16] k+[2,2,270,16] v+[2,2,270,16] out+", "causal=true scale=-0.3"},
      {"q[1,1,1,4] k[1,1,270,4] v[1,1,270,4]", "causal=true scale=0"},
      {"q[1,1,3,2] k[1,1,3,2]=1,inf,nan,1,2,-1 v[1,1,3,2]", "causal=true"},
      {"q[1,1,3,2] k[1,1,3,2] v[1,1,3,2]=1,2,inf,1,nan,-1", "causal=true"},
      {"q[2/4,4,0/1,16] k[2/4,2,0/1,16] v[2/4,2,0/1,16]", "causal=true cache=32 past=29,0"},
      {"q[2/4,4,3/40,16] k[2/4,2,3/40,16] v[2/4,2,3/40,16] lengths:i32[2/4]=1,3", "causal=true cache=300 past=260,0"},
  };
  static const char *const none[] = {NULL};
  for (size_t level = 0; level < LEVEL_COUNT; level++) {
    if (!has_level(level)) continue;
    hand made;
    open_level(&made, level);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) run_row(made.kernel, level, &rows[i], none);
    hand_close(&made);
  }
}

/* ---- bits ---- */

typedef struct shape {
  int64_t heads, key_heads, width, value_width, length; /* length: of the cache */
  int64_t window_before;                                /* -1: none */
  double soft_cap;
  uint16_t dtype; /* of the cache */
} shape;

static const shape shapes[] = {
    {2, 2, 64, 64, 600, -1, 0, ORD_F32}, {6, 2, 20, 36, 300, -1, 0, ORD_F32},   {9, 3, 80, 80, 560, 270, 0, ORD_BF16},
    {1, 1, 1, 7, 270, -1, 3, ORD_F32},   {5, 1, 33, 16, 530, -1, 0, ORD_BF16},  {30, 1, 16, 8, 258, 31, 0, ORD_F32},
    {4, 4, 72, 72, 40, -1, 0, ORD_BF16}, {2, 1, 128, 96, 520, -1, 2, ORD_BF16},
};

typedef struct memory {
  float *q, *k, *v, *out; /* [heads][length][width], tokens of the whole sequence */
  unsigned char *cache_k, *cache_v;
} memory;

static void *take(int64_t count) {
  void *made = calloc((size_t)count, sizeof(float));
  assert_non_null(made);
  return made;
}

static memory take_memory(const shape *of) {
  memory made = {
      take(of->heads * of->length * of->width),           take(of->key_heads * of->length * of->width),
      take(of->key_heads * of->length * of->value_width), take(of->heads * of->length * of->value_width),
      take(of->key_heads * of->length * of->width),       take(of->key_heads * of->length * of->value_width)};
  hand_fill(made.q, (size_t)(of->heads * of->length * of->width));
  hand_fill(made.k, (size_t)(of->key_heads * of->length * of->width));
  hand_fill(made.v, (size_t)(of->key_heads * of->length * of->value_width));
  return made;
}

static void free_memory(memory *made) {
  free(made->q), free(made->k), free(made->v), free(made->out), free(made->cache_k), free(made->cache_v);
}

/* An operand over tokens [first, first + tokens) of [heads][length][width]. */
static void add_tokens(hand *made, const char *name, uint16_t role, int64_t heads, int64_t length, int64_t width,
                       int64_t first, int64_t tokens, float *data) {
  const uint32_t which =
      hand_add(made, name, role, ORD_F32, 4, (const int64_t[]){1, heads, length, width}, data + first * width);
  made->operand[which].dim[2] = tokens;
}

/* Appends tokens [first, first + tokens) to the caches and attends with their queries, in a plan for so many. */
static void attend(size_t level, const shape *of, memory *m, int64_t first, int64_t tokens) {
  hand made;
  ord_plugin_error err;
  int32_t past = (int32_t)first;
  open_level(&made, level);
  add_tokens(&made, "q", ORD_INPUT, of->heads, of->length, of->width, first, tokens, m->q);
  add_tokens(&made, "k", ORD_INPUT, of->key_heads, of->length, of->width, first, tokens, m->k);
  add_tokens(&made, "v", ORD_INPUT, of->key_heads, of->length, of->value_width, first, tokens, m->v);
  add_tokens(&made, "out", ORD_OUTPUT, of->heads, of->length, of->value_width, first, tokens, m->out);
  const int64_t k_dim[] = {1, of->key_heads, of->length, of->width};
  const int64_t v_dim[] = {1, of->key_heads, of->length, of->value_width};
  hand_add(&made, "cache_k", ORD_STATE, of->dtype, 4, k_dim, m->cache_k);
  hand_add(&made, "cache_v", ORD_STATE, of->dtype, 4, v_dim, m->cache_v);
  hand_add(&made, "past", ORD_SCALAR, ORD_I32, 1, (const int64_t[]){1}, &past);
  hand_attr(&made, (ord_attr){.name = "causal", .kind = ORD_ATTR_BOOL, .value.i = 1});
  hand_attr(&made, (ord_attr){.name = "window_before", .kind = ORD_ATTR_INT, .value.i = of->window_before});
  hand_attr(&made, (ord_attr){.name = "scale", .kind = ORD_ATTR_NUMBER, .value.f = 0.7});
  hand_attr(&made, (ord_attr){.name = "soft_cap", .kind = ORD_ATTR_NUMBER, .value.f = of->soft_cap});
  assert_int_equal(hand_run(&made, &err), ORD_OK);
  assert_true(made.answer.flags & ORD_APPENDS);
  hand_close(&made);
}

static void assert_same_bits(size_t level, const shape *of, const float *one, const float *other, int64_t first,
                             const char *how) {
  const size_t bytes = (size_t)((of->length - first) * of->value_width) * sizeof *one;
  for (int64_t head = 0; head < of->heads; head++) {
    const int64_t at = (head * of->length + first) * of->value_width;
    if (memcmp(one + at, other + at, bytes) != 0)
      fail_msg("%s, width %lld, head %lld: %s differs from prefill", levels[level].name, (long long)of->width,
               (long long)head, how);
  }
}

/* The whole sequence at once; in two parts; and token by token from a place on. The caches end up the same too. */
static void compare_ways(size_t level, const shape *of) {
  memory whole = take_memory(of), parts = take_memory(of), steps = take_memory(of);
  const int64_t cut = of->length / 3, last = of->length - 5;
  attend(level, of, &whole, 0, of->length);
  attend(level, of, &parts, 0, cut);
  attend(level, of, &parts, cut, of->length - cut);
  attend(level, of, &steps, 0, cut);
  for (int64_t i = cut; i < cut + 5; i++) attend(level, of, &steps, i, 1);
  attend(level, of, &steps, cut + 5, last - cut - 5);
  for (int64_t i = last; i < of->length; i++) attend(level, of, &steps, i, 1);
  assert_same_bits(level, of, parts.out, whole.out, 0, "a prefill in two parts");
  assert_same_bits(level, of, steps.out, whole.out, 0, "decode");
  const size_t size = of->dtype == ORD_BF16 ? 2 : 4, count = (size_t)(of->key_heads * of->length);
  assert_memory_equal(steps.cache_k, whole.cache_k, count * (size_t)of->width * size);
  assert_memory_equal(steps.cache_v, whole.cache_v, count * (size_t)of->value_width * size);
  free_memory(&whole), free_memory(&parts), free_memory(&steps);
}

static void test_decode_equals_prefill(void **unused) {
  (void)unused;
  for (size_t level = 0; level < LEVEL_COUNT; level++)
    for (size_t i = 0; has_level(level) && i < sizeof shapes / sizeof *shapes; i++) compare_ways(level, &shapes[i]);
}

/* A hidden value that is no number must not come through, whether the query comes alone or among others. */
static void test_hidden_values(void **unused) {
  (void)unused;
  static const shape of = {2, 1, 16, 16, 40, -1, 0, ORD_F32};
  for (size_t level = 0; level < LEVEL_COUNT; level++) {
    if (!has_level(level)) continue;
    memory clean = take_memory(&of), stained = take_memory(&of);
    for (int64_t c = 0; c < of.value_width; c++) stained.v[35 * of.value_width + c] = c % 2 ? NAN : INFINITY;
    attend(level, &of, &clean, 0, of.length);
    attend(level, &of, &stained, 0, of.length);
    for (int64_t i = 0; i < of.length * of.value_width; i++) {
      const bool is_hidden = i < 35 * of.value_width;
      if (is_hidden ? clean.out[i] != stained.out[i] : isfinite(stained.out[i]))
        fail_msg("%s: query %lld", levels[level].name, (long long)(i / of.value_width));
    }
    memory steps = take_memory(&of);
    memcpy(steps.v, stained.v, (size_t)(of.length * of.value_width) * sizeof *steps.v);
    for (int64_t i = 0; i < of.length; i++) attend(level, &of, &steps, i, 1);
    assert_same_bits(level, &of, steps.out, stained.out, 0, "decode");
    free_memory(&clean), free_memory(&stained), free_memory(&steps);
  }
}

/* Keys of blocks 0 and 1, whose weights are 0 in f32 beside those of the other block, count as hidden: infinite values
 * among them do not come through, not as NaN either. A score that is NaN does. */
static void test_faint_keys(void **unused) {
  (void)unused;
  static const shape of = {1, 1, 1, 16, 500, -1, 0, ORD_F32};
  for (size_t level = 0; level < LEVEL_COUNT; level++)
    for (int faint = 0; has_level(level) && faint < 2; faint++) {
      memory whole = take_memory(&of), steps = take_memory(&of), stained = take_memory(&of);
      for (int64_t i = 0; i < of.length; i++) whole.q[i] = 1, whole.k[i] = i / 256 == faint ? 0 : 1000;
      for (int64_t i = 0; i < of.length * of.value_width; i++)
        whole.v[i] = i == 260 * faint * of.value_width ? INFINITY : 1;
      memcpy(steps.q, whole.q, (size_t)of.length * sizeof *whole.q);
      memcpy(steps.k, whole.k, (size_t)of.length * sizeof *whole.k);
      memcpy(steps.v, whole.v, (size_t)(of.length * of.value_width) * sizeof *whole.v);
      attend(level, &of, &whole, 0, of.length);
      attend(level, &of, &steps, 0, 490);
      for (int64_t i = 490; i < of.length; i++) attend(level, &of, &steps, i, 1);
      for (int64_t c = 0; c < of.value_width; c++)
        assert_float_equal(whole.out[(of.length - 1) * of.value_width + c], 1, 1e-6f);
      assert_same_bits(level, &of, steps.out, whole.out, 0, "decode");
      memcpy(stained.q, whole.q, (size_t)of.length * sizeof *whole.q);
      memcpy(stained.k, whole.k, (size_t)of.length * sizeof *whole.k);
      stained.k[260 * faint] = NAN;
      attend(level, &of, &stained, 0, of.length);
      for (int64_t c = 0; c < of.value_width; c++)
        assert_true(isnan(stained.out[(of.length - 1) * of.value_width + c]));
      free_memory(&whole), free_memory(&steps), free_memory(&stained);
    }
}

/* ---- batch ---- */

enum { ROWS = 3, TOKENS = 29, HEADS = 2, WIDTH = 24, NUMBERS = HEADS * TOKENS * WIDTH };

static void attend_rows(size_t level, int64_t rows, const int32_t *lengths, float *q, float *out) {
  hand made;
  ord_plugin_error err;
  int32_t length[ROWS];
  memcpy(length, lengths, (size_t)rows * sizeof *length);
  open_level(&made, level);
  const int64_t dim[] = {rows, HEADS, TOKENS, WIDTH};
  for (int i = 0; i < 3; i++) hand_add(&made, (const char *[]){"q", "k", "v"}[i], ORD_INPUT, ORD_F32, 4, dim, q);
  hand_add(&made, "lengths", ORD_INPUT, ORD_I32, 1, &rows, length);
  hand_add(&made, "out", ORD_OUTPUT, ORD_F32, 4, dim, out);
  hand_attr(&made, (ord_attr){.name = "causal", .kind = ORD_ATTR_BOOL, .value.i = 1});
  hand_attr(&made, (ord_attr){.name = "align", .kind = ORD_ATTR_INT, .value.i = 0});
  assert_int_equal(hand_run(&made, &err), ORD_OK);
  hand_close(&made);
}

static void test_batch_equals_rows(void **unused) {
  (void)unused;
  static const int32_t lengths[ROWS] = {TOKENS, 1, 17};
  static float q[ROWS * NUMBERS], together[ROWS * NUMBERS], alone[NUMBERS];
  hand_fill(q, ROWS * NUMBERS);
  for (size_t level = 0; level < LEVEL_COUNT; level++) {
    if (!has_level(level)) continue;
    attend_rows(level, ROWS, lengths, q, together);
    for (int row = 0; row < ROWS; row++) {
      attend_rows(level, 1, &lengths[row], q + row * NUMBERS, alone);
      if (memcmp(alone, together + row * NUMBERS, sizeof alone) != 0)
        fail_msg("%s: row %d of the batch differs from the row alone", levels[level].name, row);
    }
  }
}

/* ---- refusals ---- */

static void add_small(hand *made, float *numbers) {
  for (int i = 0; i < 3; i++) {
    static const char *const slot[] = {"q", "k", "v"};
    hand_add(made, slot[i], ORD_INPUT, ORD_F32, 4, (const int64_t[]){1, 1, 4, 4}, numbers);
  }
  hand_add(made, "out", ORD_OUTPUT, ORD_F32, 4, (const int64_t[]){1, 1, 4, 4}, numbers);
}

static void test_refusals(void **unused) {
  (void)unused;
  static float numbers[64];
  hand made;
  hand_open(&made, FLASH, "attention");
  add_small(&made, numbers);
  made.operand[2].dtype = ORD_Q8_0;
  hand_refuses(&made, "v is a block type; wanted f32");
  made.operand[2].dtype = ORD_F32;
  made.operand[1].dim[2] = INT64_C(1) << 60;
  hand_refuses(&made, "their copies exceed the memory");
  made.operand[1].dim[2] = 4;
  made.device.kind = ORD_DEVICE_CUDA;
  hand_refuses(&made, "wanted a CPU");
  made.device.kind = ORD_DEVICE_CPU;
  made.node.op_version = 2;
  hand_refuses(&made, "op version 2");
  made.node.op_version = 1;
  hand_add(&made, "mask", ORD_INPUT, ORD_F16, 2, (const int64_t[]){4, 4}, numbers);
  hand_refuses(&made, "mask is f16; wanted f32 or bool");
  made.operand[4].dtype = ORD_F32;
  hand_add(&made, "out", ORD_OUTPUT, ORD_F32, 4, (const int64_t[]){1, 1, 4, 4}, numbers);
  hand_refuses(&made, "wanted the first output alone");
  hand_close(&made);
}

static void test_out_of_memory(void **unused) {
  (void)unused;
  static float numbers[64];
  hand made;
  ord_plugin_error err;
  hand_open(&made, FLASH, "attention");
  add_small(&made, numbers);
  made.is_out_of_memory = true;
  assert_int_equal(hand_run(&made, &err), ORD_NO_MEMORY);
  assert_non_null(strstr(err.text, "out of memory"));
  hand_close(&made);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_conformance),
      cmocka_unit_test(test_serves),
      cmocka_unit_test(test_decode_equals_prefill),
      cmocka_unit_test(test_hidden_values),
      cmocka_unit_test(test_faint_keys),
      cmocka_unit_test(test_batch_equals_rows),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
