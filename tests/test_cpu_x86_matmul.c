/* SPDX-License-Identifier: MIT
 *
 * The packed matmul of plugins/cpu_x86, each level of instructions that this machine has: the conformance rows of
 * matmul and more; a row alone against the same row among many, and two threads against one, bit for bit; packed bytes
 * that do not depend on the level; what numbers that are not finite come to; refusals.
 */
#include "runtime/device.h"
#include "runtime/pool.h"
#include "tests/conformance.h"

#define X86 ORDITO_BUILD_DIRECTORY "/lib/ordito/plugins/cpu_x86.so"

/* ---- levels ---- */

/* A kernel on a CPU with some features. */
typedef struct level {
  const char *kernel;
  uint64_t features;
} level;

static const level levels[] = {
    {"matmul_baseline", 0},
    {"matmul_avx2", ORD_CPU_AVX2},
    {"matmul_avx512", ORD_CPU_AVX2 | ORD_CPU_AVX512},
    {"matmul_avx512", ORD_CPU_AVX2 | ORD_CPU_AVX512 | ORD_CPU_AVX512_BF16 | ORD_CPU_AVX512_VNNI},
};
enum { LEVELS = sizeof levels / sizeof *levels };

static bool is_here(const level *wanted) { return hand_cpu_has(wanted->features); }

static const ord_kernel *find_kernel(const ord_registry *registry, const char *name) {
  const ord_plugin *plugin = ord_registry_get(registry, 0)->plugin;
  for (uint32_t i = 0; i < plugin->kernel_count; i++)
    if (strcmp(plugin->kernel[i]->name, name) == 0) return plugin->kernel[i];
  fail_msg("no kernel %s", name);
  return NULL;
}

typedef void (*level_fn)(const ord_kernel *kernel, const ord_case_options *options);

static void on_each_level(level_fn test) {
  ord_registry *registry;
  ord_error err = ORD_ERROR_INIT;
  if (!ord_registry_create(NULL, NULL, &registry, &err)) fail_msg("%s", err.text);
  if (!ord_registry_load(registry, X86, &err)) fail_msg("%s", err.text);
  for (int i = 0; i < LEVELS; i++) {
    if (!is_here(&levels[i])) continue;
    const ord_device_info device = {.struct_size = sizeof device,
                                    .kind = ORD_DEVICE_CPU,
                                    .cores = 2,
                                    .features = levels[i].features,
                                    .name = "forced"};
    const ord_case_options options = {.device = &device};
    test(find_kernel(registry, levels[i].kernel), &options);
  }
  ord_registry_destroy(registry);
}

/* ---- conformance ---- */

static void check_conformance(const ord_kernel *kernel, const ord_case_options *options) {
  static const char *const reason[] = {"products are wanted in f16; wanted f32, bf16 or i8",
                                       "is f16; wanted",
                                       "is bf16; wanted f32",
                                       "is q8_0; wanted",
                                       "is q4_0; wanted",
                                       "is q4_1; wanted",
                                       "bytes apart",
                                       "with 'by'",
                                       NULL};
  conformance_run_on(kernel, options, reason);
}

static void test_conformance(void **unused) {
  (void)unused;
  on_each_level(check_conformance);
}

/* What must not fall to another kernel, whatever the grid holds. */
static void check_serves(const ord_kernel *kernel, const ord_case_options *options) {
  static const ord_case row[] = {
      {"in[$,40] weight[70,40] bias[70]", "$=1..50"},
      {"in[$,40] weight:bf16[70,40] bias[70]", "$=1..26"},
      {"in[$,40] weight:i8[70,40] bias[70]", "$=1..26"},
      {"in[$,37] weight[70,37] bias[70]", "compute=bf16 $=1..26"},
      {"in[$,37] weight:f16[70,37]", "compute=bf16 $=1,5"},
      {"in[$,37] weight:i8[70,37]", "compute=bf16 $=1,5"},
      {"in[$,37] weight[70,37] bias[70]", "compute=int8 $=1..26"},
      {"in[$,37] weight:bf16[70,37]", "compute=int8 $=1,5"},
      {"in[13,$] weight[33,$]", "compute=bf16 $=1..66"},
      {"in[1,$] weight[33,$]", "compute=bf16 $=1..66"},
      {"in[13,$] weight:i8[33,$]", "compute=int8 $=1..66"},
      {"in[1,$] weight:f16[33,$]", "compute=int8 $=1..66"},
      {"in[3,$] weight:bf16[33,$]", "$=127..130,255..258,511..514"},
      {"in[200,40] weight[$,40]", "$=1,31,32,33,64,65"},
      {"in[1,40] weight[$,40]", "$=1,31,32,33,64,65,255..257,600,1000"},
      {"in[2,5/64,40] weight:bf16[20|20|7,40] bias:bf16[47]", ""},
      {"in[2,0/64,40] weight[20|20|7,40]", "compute=int8"},
      {"in[97,40] weight^:f16[130,40]", ""},
      {"in^[3,65] weight^:bf16[33,65]", "compute=bf16"},
      {"in^[1,65] weight+:i8[33,65]", "compute=int8"},
      {"in+[3,2,65] weight+[33,65]", "compute=int8"},
      {"in[3,40] weight:i8[33,40] bias[33]", "epilogue=gelu_tanh>+add(residual[3,33])"},
      {"in[3,40] weight[33,40]", "compute=int8 epilogue=silu+mul(gate[3,33])+add(late_bias:bf16[33])"},
      {"in[$,40] weight[70,40] bias[70]", "epilogue=add(residual[$,70])>+layernorm(w[70],b[70];eps=1e-5) $=1,30"},
      {"in[$,40] weight[70,40]", "compute=bf16 epilogue=add(residual[$,70])>+rmsnorm(w[70];eps=1e-5) $=1,30"},
      {"in[2,3/8,65] weight[33,65]", "compute=int8 epilogue=gelu_erf+rmsnorm(w*:f16[33];eps=1e-5)"},
      {"in[1,8] weight[400,8]", "epilogue=add(residual[1,400])>+relu"},
      {"in+[2,3,7,9] by[2,3,9,50]", "epilogue=relu"},
      {"in[2,3,50,9] by^[3,9,20]", ""},
      {"in[2/4,3/8,9] by[2/4,9,5]", ""},
      {"in[7,9] by[9,70] bias[70]", "compute=bf16 epilogue=rmsnorm(w[70];eps=1e-5)"},
      {"in[3,5]=nan,inf,2,3,4,0,1,2,3,4,0,1,2,3,4 weight[40,5]", "compute=bf16"},
      {"in[3,5]=nan,1,2,3,4,0,1,2,3,4,0,0,0,0,0 weight[40,5]", "compute=int8"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    conformance_serves_on(kernel, options, row[i].operands, row[i].attributes);
}

static void test_serves(void **unused) {
  (void)unused;
  on_each_level(check_serves);
}

/* ---- a row alone and among many ---- */

enum { ROWS_MAX = 230, DEPTH = 203, COLUMNS = 97 };

/* The types of a node. */
typedef struct kind {
  uint32_t compute;
  uint16_t stored;
} kind;

static const kind kinds[] = {{ORD_F32, ORD_F32},   {ORD_F32, ORD_BF16}, {ORD_F32, ORD_I8}, {ORD_BF16, ORD_F32},
                             {ORD_BF16, ORD_BF16}, {ORD_I8, ORD_F32},   {ORD_I8, ORD_I8}};
enum { KINDS = sizeof kinds / sizeof *kinds };

typedef struct matrices {
  float in[ROWS_MAX * DEPTH], gate[ROWS_MAX * COLUMNS], scale[COLUMNS];
  char weight[COLUMNS * DEPTH * 4]; /* of any type: random bytes, small numbers */
} matrices;

static void fill(matrices *all, uint16_t stored) {
  static float number[COLUMNS * DEPTH];
  hand_fill(all->in, ROWS_MAX * DEPTH);
  hand_fill(all->gate, ROWS_MAX * COLUMNS);
  hand_fill(all->scale, COLUMNS);
  hand_fill(number, COLUMNS * DEPTH);
  for (int i = 0; i < COLUMNS * DEPTH; i++) {
    uint32_t bits;
    memcpy(&bits, &number[i], sizeof bits);
    const uint16_t half = (uint16_t)(bits >> 16);
    const int8_t byte = (int8_t)(127 * number[i]);
    if (stored == ORD_F32) memcpy(all->weight + (size_t)i * 4, &number[i], 4);
    if (stored == ORD_BF16) memcpy(all->weight + (size_t)i * 2, &half, 2);
    if (stored == ORD_I8) memcpy(all->weight + i, &byte, 1);
  }
}

static void open_level(hand *made, const level *on, kind types) {
  hand_open(made, X86, "matmul");
  made->kernel = find_kernel(made->registry, on->kernel);
  made->device.features = on->features;
  made->node.compute = types.compute;
}

static void add_operands(hand *made, int64_t rows, kind types, matrices *all, float *out) {
  hand_add(made, "in", ORD_INPUT, ORD_F32, 2, (const int64_t[]){rows, DEPTH}, all->in);
  hand_add(made, "weight", ORD_WEIGHT, types.stored, 2, (const int64_t[]){COLUMNS, DEPTH}, all->weight);
  static const ord_segment segment = {COLUMNS, 0};
  made->operand[1].segment = &segment;
  made->operand[1].segment_count = 1;
  hand_add(made, "out", ORD_OUTPUT, ORD_F32, 2, (const int64_t[]){rows, COLUMNS}, out);
  if (types.stored == ORD_I8)
    hand_add(made, "weight_scale", ORD_WEIGHT, ORD_F32, 1, (const int64_t[]){COLUMNS}, all->scale);
}

/* gelu(in . weight) * gate, of the first `rows` rows in a plan for `maximum`; `first`: of the rows that are taken. */
static void multiply(const level *on, kind types, int64_t rows, int64_t maximum, int64_t first, matrices *all,
                     float *out) {
  hand made;
  ord_plugin_error err;
  open_level(&made, on, types);
  add_operands(&made, maximum, types, all, out);
  made.data[0] = all->in + first * DEPTH;
  const uint32_t gate = hand_add(&made, "epilogue", ORD_INPUT, ORD_F32, 2, (const int64_t[]){maximum, COLUMNS},
                                 all->gate + first * COLUMNS);
  const uint32_t extent = hand_add(&made, "extent", ORD_SCALAR, ORD_I64, 0, NULL, &rows);
  made.operand[0].extent[0] = made.operand[2].extent[0] = made.operand[gate].extent[0] = extent;
  const ord_epilogue epilogue[] = {{"gelu_tanh", {ORD_NONE, ORD_NONE}, ORD_NONE, 0, NULL},
                                   {"mul", {gate, ORD_NONE}, ORD_NONE, 0, NULL}};
  made.node.epilogue = epilogue;
  made.node.epilogue_count = 2;
  assert_int_equal(hand_run(&made, &err), ORD_OK);
  assert_int_equal(made.answer.epilogue_served, 2);
  hand_close(&made);
}

/* Rows of every place in a tile, of the first tiles and of the last, which are cut otherwise. */
static void check_one_equals_many(const level *on, kind types) {
  static const int64_t counts[] = {2, 5, 6, 12, 13, 27, 193, ROWS_MAX};
  static matrices all;
  static float many[ROWS_MAX * COLUMNS], one[ROWS_MAX * COLUMNS];
  fill(&all, types.stored);
  multiply(on, types, ROWS_MAX, ROWS_MAX, 0, &all, many);
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    multiply(on, types, counts[i], counts[i] == 27 ? ROWS_MAX : counts[i], 0, &all, one);
    assert_memory_equal(one, many, (size_t)counts[i] * COLUMNS * sizeof *one);
  }
  for (int64_t row = 0; row < ROWS_MAX; row += row < 13 || row > ROWS_MAX - 26 ? 1 : 37) {
    multiply(on, types, 1, 1, row, &all, one);
    assert_memory_equal(one, many + row * COLUMNS, COLUMNS * sizeof *one);
  }
}

static void test_one_equals_many(void **unused) {
  (void)unused;
  for (int i = 0; i < LEVELS; i++)
    for (int k = 0; k < KINDS && is_here(&levels[i]); k++) check_one_equals_many(&levels[i], kinds[k]);
}

/* ---- threads ---- */

typedef struct phase {
  const ord_kernel *kernel;
  void *state, **data, *scratch;
  char *worker;
  size_t worker_bytes;
  uint32_t number;
} phase;

static bool run_chunk(void *context, uint32_t chunk, uint32_t chunk_count, uint32_t worker) {
  const phase *now = context;
  const ord_exec exec = {.struct_size = sizeof exec,
                         .phase = now->number,
                         .chunk = chunk,
                         .chunk_count = chunk_count,
                         .operand = now->data,
                         .scratch = now->scratch,
                         .worker = now->worker + worker * now->worker_bytes};
  return now->kernel->launch(now->state, &exec, NULL) == ORD_OK;
}

/* `rows` rows by so many threads. */
static void multiply_on(ord_pool *pool, const level *on, kind types, int64_t rows, matrices *all, float *out) {
  hand made;
  ord_plugin_error err = {.struct_size = sizeof err};
  open_level(&made, on, types);
  add_operands(&made, rows, types, all, out);
  made.device.cores = ord_pool_threads(pool);
  assert_int_equal(hand_query(&made), ORD_OK);
  phase now = {.kernel = made.kernel, .data = made.data, .scratch = hand_memory(made.answer.scratch_bytes)};
  now.worker_bytes = (made.answer.worker_bytes + 63) / 64 * 64;
  now.worker = hand_memory(now.worker_bytes * ord_pool_threads(pool));
  void *packed = hand_memory(made.pack[1].bytes);
  assert_int_equal(
      made.kernel->pack(made.kernel, &made.node, &made.answer, 1, (const void *const[]){made.data[1]}, 0, 1, packed),
      ORD_OK);
  made.data[1] = packed;
  assert_int_equal(made.kernel->prepare(made.kernel, &made.node, &made.answer, &made.host, &now.state, &err), ORD_OK);
  ord_pool_lease(pool);
  for (; now.number < made.answer.phase_count; now.number++)
    assert_true(ord_pool_phase(pool, run_chunk, &now, made.answer.chunk_limit[now.number]));
  ord_pool_release(pool);
  made.kernel->retire(now.state);
  free(packed);
  free(now.worker);
  free(now.scratch);
  hand_close(&made);
}

static void test_threads_change_no_bit(void **unused) {
  (void)unused;
  static matrices all;
  static float wanted[ROWS_MAX * COLUMNS], found[ROWS_MAX * COLUMNS];
  ord_error err = ORD_ERROR_INIT;
  ord_pool *one, *two;
  if (!ord_pool_create(1, &one, NULL, &err) || !ord_pool_create(2, &two, NULL, &err)) fail_msg("%s", err.text);
  for (int i = 0; i < LEVELS; i++)
    for (int k = 0; k < KINDS && is_here(&levels[i]); k++)
      for (int64_t rows = 1; rows <= ROWS_MAX; rows += ROWS_MAX - 1) {
        fill(&all, kinds[k].stored);
        multiply_on(one, &levels[i], kinds[k], rows, &all, wanted);
        multiply_on(two, &levels[i], kinds[k], rows, &all, found);
        assert_memory_equal(found, wanted, (size_t)rows * COLUMNS * sizeof *found);
      }
  ord_pool_destroy(one);
  ord_pool_destroy(two);
}

/* ---- packed bytes ---- */

/* The packed weight of a node of `rows` rows, made in `slices`; the caller frees it. */
static unsigned char *pack(const level *on, kind types, int64_t rows, uint32_t slices, ord_pack *out) {
  static matrices all;
  static float result[ROWS_MAX * COLUMNS];
  hand made;
  fill(&all, types.stored);
  open_level(&made, on, types);
  add_operands(&made, rows, types, &all, result);
  assert_int_equal(hand_query(&made), ORD_OK);
  *out = made.pack[1];
  unsigned char *packed = hand_memory(out->bytes);
  for (uint32_t slice = slices; slice-- > 0;)
    assert_int_equal(made.kernel->pack(made.kernel, &made.node, &made.answer, 1, (const void *const[]){all.weight},
                                       slice, slices, packed),
                     ORD_OK);
  hand_close(&made);
  return packed;
}

/* One layout for prefill and decode, whatever the level and the slices. */
static void test_packed_bytes(void **unused) {
  (void)unused;
  for (int k = 0; k < KINDS; k++) {
    ord_pack wanted;
    unsigned char *right = pack(&levels[0], kinds[k], 1, 1, &wanted);
    for (int i = 0; i < LEVELS; i++) {
      if (!is_here(&levels[i])) continue;
      ord_pack found;
      unsigned char *packed = pack(&levels[i], kinds[k], 1 + 100 * (i % 2), 3, &found);
      assert_int_equal(found.key, wanted.key);
      assert_int_equal(found.bytes, wanted.bytes);
      assert_memory_equal(packed, right, wanted.bytes);
      free(packed);
    }
    free(right);
  }
}

/* ---- numbers at the ends ---- */

/* One row of 8 numbers by 2 columns. */
static void multiply_row(const level *on, uint32_t compute, float *in, float *weight, float *out) {
  static const ord_segment segment = {2, 0};
  hand made;
  ord_plugin_error err;
  open_level(&made, on, (kind){compute, ORD_F32});
  hand_add(&made, "in", ORD_INPUT, ORD_F32, 2, (const int64_t[]){1, 8}, in);
  hand_add(&made, "weight", ORD_WEIGHT, ORD_F32, 2, (const int64_t[]){2, 8}, weight);
  made.operand[1].segment = &segment;
  made.operand[1].segment_count = 1;
  hand_add(&made, "out", ORD_OUTPUT, ORD_F32, 2, (const int64_t[]){1, 2}, out);
  assert_int_equal(hand_run(&made, &err), ORD_OK);
  hand_close(&made);
}

static void test_numbers_at_the_ends(void **unused) {
  (void)unused;
  float weight[16] = {1, 1, 1, 1, 1, 1, 1, 1, -1, 0, 0, 0, 0, 0, 0, 0}, out[2];
  float tiny[8] = {0x1p-140f}, zero[8] = {0}, endless[8] = {INFINITY, 1}, undefined[8] = {1, NAN};
  for (int i = 0; i < LEVELS; i++) {
    if (!is_here(&levels[i])) continue;
    multiply_row(&levels[i], ORD_F32, tiny, weight, out);
    assert_true(out[0] == 0x1p-140f && out[1] == -0x1p-140f); /* no flushing of subnormal numbers */
    multiply_row(&levels[i], ORD_I8, tiny, weight, out);
    assert_true(out[0] == 0 && out[1] == 0);
    for (uint32_t compute = ORD_F32; compute <= ORD_I8; compute++) {
      if (compute == ORD_F16) continue;
      multiply_row(&levels[i], compute, zero, weight, out);
      assert_true(out[0] == 0 && out[1] == 0);
      multiply_row(&levels[i], compute, undefined, weight, out);
      assert_true(isnan(out[0]) && isnan(out[1]));
      multiply_row(&levels[i], compute, endless, weight, out);
      /* A row of int8 with an infinity has no scale: NaN. */
      if (compute == ORD_I8)
        assert_true(isnan(out[0]) && isnan(out[1]));
      else
        assert_true(out[0] == INFINITY && out[1] == -INFINITY);
    }
  }
}

/* ---- what it answers ---- */

static void test_answers(void **unused) {
  (void)unused;
  static matrices all;
  static float out[ROWS_MAX * COLUMNS];
  hand made;
  open_level(&made, &levels[1], (kind){ORD_F32, ORD_F32});
  add_operands(&made, 5, (kind){ORD_F32, ORD_F32}, &all, out);
  if (is_here(&levels[1])) {
    assert_int_equal(hand_query(&made), ORD_OK);
    assert_string_equal(made.answer.variant, "avx2 6x32 f32");
  }
  made.device.features = 0;
  hand_refuses(&made, "the CPU has no AVX2");
  made.device.features = ORD_CPU_AVX2;
  made.node.compute = ORD_F16;
  hand_refuses(&made, "products are wanted in f16");
  made.node.compute = ORD_F32;
  made.operand[1].dtype = ORD_Q4_0;
  hand_refuses(&made, "weight is q4_0; wanted f32, f16, bf16 or i8");
  made.operand[1].dtype = ORD_F32;
  made.operand[1].role = ORD_INPUT;
  hand_refuses(&made, "weight is a view of one");
  made.operand[1].role = ORD_WEIGHT;
  made.operand[2].stride[1] = 8;
  hand_refuses(&made, "last axis of out lie 8 bytes apart; wanted 4");
  made.operand[2].stride[1] = 4;
  made.node.compute = ORD_I8;
  made.operand[0].dim[1] = made.operand[1].dim[1] = (1 << 17) + 1;
  hand_refuses(&made, "sums of 131073 products of int8; wanted 131072 at most");
  hand_close(&made);
}

/* Sizes that no memory holds end as sizes that no host grants, not as small ones. */
static void test_sizes_saturate(void **unused) {
  (void)unused;
  static matrices all;
  static float out[ROWS_MAX * COLUMNS];
  hand made;
  open_level(&made, &levels[0], (kind){ORD_F32, ORD_F32});
  add_operands(&made, 5, (kind){ORD_F32, ORD_F32}, &all, out);
  made.operand[0].dim[0] = made.operand[2].dim[0] = INT64_C(1) << 40;
  made.operand[0].dim[1] = made.operand[1].dim[1] = INT64_C(1) << 40;
  assert_int_equal(hand_query(&made), ORD_OK);
  assert_true(made.answer.scratch_bytes >= INT64_MAX / 2);
  made.operand[1].dim[0] = made.operand[2].dim[1] = INT64_C(1) << 40;
  assert_int_equal(hand_query(&made), ORD_OK);
  assert_true(made.pack[1].bytes >= INT64_MAX / 2);
  hand_close(&made);
}

/* A residual that nobody needs any more may be overwritten; one of other strides may not. */
static void test_takes_the_place_of_a_residual(void **unused) {
  (void)unused;
  static matrices all;
  static float out[ROWS_MAX * COLUMNS];
  const ord_epilogue epilogue[] = {{"add", {3, ORD_NONE}, ORD_NONE, 0, NULL}};
  hand made;
  open_level(&made, &levels[0], (kind){ORD_F32, ORD_F32});
  add_operands(&made, 5, (kind){ORD_F32, ORD_F32}, &all, out);
  hand_add(&made, "epilogue", ORD_INPUT, ORD_F32, 2, (const int64_t[]){5, COLUMNS}, all.gate);
  made.node.epilogue = epilogue;
  made.node.epilogue_count = 1;
  assert_int_equal(hand_query(&made), ORD_OK);
  assert_int_equal(made.answer.alias_mask, 1 << 3);
  made.operand[3].stride[0] *= 2;
  assert_int_equal(hand_query(&made), ORD_OK);
  assert_int_equal(made.answer.alias_mask, 0);
  hand_close(&made);
}

static void test_out_of_memory(void **unused) {
  (void)unused;
  static matrices all;
  static float out[ROWS_MAX * COLUMNS];
  hand made;
  void *state = NULL;
  ord_plugin_error err = {.struct_size = sizeof err};
  open_level(&made, &levels[0], (kind){ORD_F32, ORD_F32});
  add_operands(&made, 5, (kind){ORD_F32, ORD_F32}, &all, out);
  assert_int_equal(hand_query(&made), ORD_OK);
  made.is_out_of_memory = true;
  assert_int_equal(made.kernel->prepare(made.kernel, &made.node, &made.answer, &made.host, &state, &err),
                   ORD_NO_MEMORY);
  assert_non_null(strstr(err.text, "out of memory"));
  assert_null(state);
  hand_close(&made);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_conformance),
      cmocka_unit_test(test_serves),
      cmocka_unit_test(test_one_equals_many),
      cmocka_unit_test(test_threads_change_no_bit),
      cmocka_unit_test(test_packed_bytes),
      cmocka_unit_test(test_numbers_at_the_ends),
      cmocka_unit_test(test_answers),
      cmocka_unit_test(test_sizes_saturate),
      cmocka_unit_test(test_takes_the_place_of_a_residual),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
