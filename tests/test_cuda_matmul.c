/* SPDX-License-Identifier: MIT
 *
 * matmul and norms of plugin cuda_core: conformance, a row's bits alone and in a batch, long
 * sums over several warps, what pack makes of a weight, and how far an epilogue is served.
 */
#include "conformance.h"
#include "cuda_fixture.h"

#define PLUGIN ORDITO_BUILD_DIRECTORY "/lib/ordito/plugins/cuda_core.so"

static const ord_kernel *find_kernel(const cuda_stage *s, const char *name) {
  for (uint32_t i = 0; i < s->plugin->kernel_count; i++)
    if (strcmp(s->plugin->kernel[i]->name, name) == 0) return s->plugin->kernel[i];
  fail_msg("the plugin has no kernel %s", name);
  return NULL;
}

/* ---- conformance ---- */

/* In blocks of few columns as on the large device, and of many as on a small one. */
static void conforms(const char *kernel, const char *const *reason) {
  static const uint32_t cores[] = {132, 1};
  cuda_stage s = open_cuda_stage(PLUGIN, false);
  ord_device_info info = s.device->info;
  s.cases.device = &info;
  for (int i = 0; i < 2; i++) {
    info.cores = cores[i];
    conformance_run_on(find_kernel(&s, kernel), &s.cases, reason);
  }
  close_cuda_stage(&s);
}

static void gemv(void **state) {
  static const char *const reason[] = {"wanted 8 at most", "wanted f32, f16, bf16 or i8", "in is f16",
                                       "in is bf16",       "a product with 'by'",         NULL};
  (void)state;
  conforms("matmul_gemv", reason);
}

static void gemv_rows(void **state) {
  static const char *const reason[] = {"wanted f32, f16, bf16 or i8", "in is f16", "in is bf16", "a product with 'by'",
                                       NULL};
  (void)state;
  conforms("matmul_gemv_rows", reason);
}

static void tiled(void **state) {
  static const char *const reason[] = {"wanted f32, f16, bf16 or i8", "in is f16", "in is bf16", NULL};
  (void)state;
  conforms("matmul_tiled", reason);
}

static void norms(void **state) {
  static const char *const reason[] = {NULL};
  (void)state;
  conforms("layernorm_cuda", reason);
  conforms("rmsnorm_cuda", reason);
}

static void test_conformance(void **state) {
  (void)state;
  run_in_child("matmul_gemv", gemv, NULL);
  run_in_child("matmul_gemv_rows", gemv_rows, NULL);
  run_in_child("matmul_tiled", tiled, NULL);
  run_in_child("norms", norms, NULL);
}

typedef struct served_row {
  const char *kernel, *operands, *attributes;
} served_row;

/* Beyond the op's own rows: long rows, whole tiles and more, norms over what many blocks made. */
static const served_row more_rows[] = {
    {"layernorm_cuda", "in[2,5000] weight[5000] bias:bf16[5000]", "eps=1e-5"},
    {"rmsnorm_cuda", "in[2,4097] weight:f16[4097]", "eps=1e-5"},
    {"layernorm_cuda", "in[2,4500]=1e25,-1e25,2e25", "eps=1e-5"},
    {"matmul_tiled", "in[70,100] weight[130,100] bias[130]",
     "epilogue=add(residual[70,130])>+layernorm(w[130],b[130];eps=1e-5)"},
    {"matmul_tiled", "in[2,3/70,20] by[2,20,70]", "epilogue=rmsnorm(w[70];eps=1e-5)"},
    {"matmul_tiled", "in[3,70,20] by[20,70]", ""},
    {"matmul_gemv", "in[$,40] weight:bf16[700,40] bias:bf16[700]",
     "epilogue=add(residual[$,700])>+layernorm(w:bf16[700],b[700];eps=1e-5) $=1,2,5,8"},
    {"matmul_gemv_rows", "in[2,11/19,40] weight:f16[70,40]",
     "epilogue=add(residual[2,11/19,70])>+rmsnorm(w[70];eps=1e-5)"},
    {"matmul_gemv", "in[1,64] weight[2,64]",
     "epilogue=add(a[1,2])+mul(b[1,2])+silu>+add(c[2])+gelu_erf+mul(d[2])+tanh+add(e[1,2])"},
    {NULL, NULL, NULL},
};

/* Under the checks of memory and races. */
static const served_row checked_rows[] = {
    {"layernorm_cuda", "in[2,600] weight[600] bias:bf16[600]", "eps=1e-5"},
    {"rmsnorm_cuda", "in[3,70]", "eps=1e-5"},
    {"matmul_tiled", "in[66,40] weight:bf16[67,40] bias[67]", "epilogue=layernorm(w[67],b[67];eps=1e-5)"},
    {"matmul_tiled", "in[2,3/5,20] by[2,20,9]", ""},
    {"matmul_gemv", "in[$,300] weight[6,300] bias:bf16[6]",
     "epilogue=add(residual[$,6])>+rmsnorm(w[6];eps=1e-5) $=1,3,7"},
    {"matmul_gemv", "in[2,261] weight:i8[5,261]", ""},
    {"matmul_gemv_rows", "in[2,5/6,40] weight:f16[9,40]", "epilogue=layernorm(w[9];eps=1e-5)"},
    {NULL, NULL, NULL},
};

static void serve(const served_row *row, bool is_checked) {
  cuda_stage s = open_cuda_stage(PLUGIN, is_checked);
  for (; row->kernel; row++)
    conformance_serves_on(find_kernel(&s, row->kernel), &s.cases, row->operands, row->attributes);
  close_cuda_stage(&s);
}

static void serve_more(void **state) {
  (void)state;
  serve(more_rows, false);
}

static void serve_checked(void **state) {
  (void)state;
  serve(checked_rows, true);
}

static void test_more_rows(void **state) {
  (void)state;
  static const char *const seeded[] = {"SEED", "3", NULL};
  run_in_child("more rows", serve_more, NULL);
  run_in_child("checked, in another order", serve_checked, seeded);
}

/* ---- products by hand ---- */

enum { COLUMNS = 9, ROWS_MAX = 20, DEPTH_MAX = 4500 };

/* in [rows, depth] by weight [COLUMNS, depth], whose rows lie `gap` numbers apart, and with `is_normed` a residual and
 * layernorm behind it. */
typedef struct product {
  const char *kernel;
  uint32_t compute, cores;
  int64_t rows, depth;
  bool is_normed;
  int64_t gap;
  bool is_stored; /* the weight has to be used as it is; its address is told to be aligned */
} product;

static float numbers[ROWS_MAX * DEPTH_MAX], weights[COLUMNS * DEPTH_MAX], residuals[ROWS_MAX * COLUMNS];

/* Weights that every type holds exactly: whole parts of 128, the largest of each row 127. */
static void make_numbers(int64_t depth) {
  hand_fill(numbers, ROWS_MAX * DEPTH_MAX);
  hand_fill(weights, COLUMNS * DEPTH_MAX);
  hand_fill(residuals, ROWS_MAX * COLUMNS);
  for (int64_t i = 0; i < COLUMNS * depth; i++) weights[i] = i % depth ? rintf(weights[i] * 127) / 128 : 127.0f / 128;
}

static void *to_device(const cuda_stage *s, const void *from, size_t bytes) {
  ord_error err = ORD_ERROR_INIT;
  void *memory = NULL;
  MUST(s->device->table->allocate(s->device, bytes, true, &memory, &err));
  if (from) MUST(s->device->table->write(s->queue, memory, from, bytes, &err));
  return memory;
}

/* `made` describes the node; its operands' memory is on the device already, but for a weight that is to be packed. */
static void run_on_device(const cuda_stage *s, hand *made, void *packed) {
  ord_error err = ORD_ERROR_INIT;
  ord_plugin_error said = {.struct_size = sizeof said};
  void *state = NULL, *persistent = to_device(s, NULL, made->answer.persistent_bytes + 4);
  ord_exec exec = {.struct_size = sizeof exec, .operand = made->data, .persistent = persistent};
  if (packed) made->data[1] = to_device(s, packed, made->pack[1].bytes);
  MUST(s->device->table->stream(s->queue, &exec.stream, &err));
  if (made->kernel->prepare(made->kernel, &made->node, &made->answer, s->cases.host, &state, &said) != ORD_OK ||
      made->kernel->launch(state, &exec, &said) != ORD_OK)
    fail_msg("%s", said.text);
  MUST(s->device->table->wait(s->queue, &err));
  made->kernel->retire(state);
  s->device->table->release(s->device, persistent);
}

/* The rows of `weights` as they are stored; nothing is a number in between. Malloc'ed. */
static float *store_weights(const product *p, size_t *bytes) {
  const int64_t stride = p->depth + p->gap;
  *bytes = (size_t)(COLUMNS * stride) * sizeof(float);
  float *stored = malloc(*bytes);
  assert_non_null(stored);
  for (int64_t i = 0; i < COLUMNS * stride; i++) {
    const int64_t k = i % stride;
    stored[i] = k < p->depth ? weights[i / stride * p->depth + k] : NAN;
  }
  return stored;
}

static void run_product(const cuda_stage *s, const product *p, float *out) {
  const ord_attr eps = {.name = "eps", .kind = ORD_ATTR_NUMBER, .count = 1, .value.f = 1e-5};
  const ord_epilogue items[] = {{"add", {4, ORD_NONE}, ORD_NONE, 0, NULL},
                                {"layernorm", {ORD_NONE, ORD_NONE}, ORD_NONE, 1, &eps}};
  const size_t out_bytes = (size_t)p->rows * COLUMNS * sizeof(float);
  size_t weight_bytes;
  float *stored = store_weights(p, &weight_bytes);
  ord_device_info info = s->device->info;
  hand made = {.kernel = find_kernel(s, p->kernel)};
  info.cores = p->cores;
  made.node = (ord_node){.struct_size = sizeof made.node,
                         .op_version = 1,
                         .op = "matmul",
                         .compute = p->compute,
                         .operand = made.operand,
                         .device = &info};
  const ord_segment segment = {COLUMNS, 1};
  hand_add(&made, "in", ORD_INPUT, ORD_F32, 2, (int64_t[]){p->rows, p->depth},
           to_device(s, numbers, (size_t)(p->rows * p->depth) * sizeof(float)));
  hand_add(&made, "weight", ORD_WEIGHT, ORD_F32, 2, (int64_t[]){COLUMNS, p->depth},
           p->is_stored ? to_device(s, stored, weight_bytes) : NULL);
  made.operand[1].segment = &segment;
  made.operand[1].segment_count = 1;
  made.operand[1].stride[0] = (p->depth + p->gap) * (int64_t)sizeof(float);
  if (p->is_stored) made.operand[1].align_log2 = 4;
  made.operand[hand_add(&made, "bias", ORD_ABSENT, ORD_F32, 0, NULL, NULL)].role = ORD_ABSENT;
  hand_add(&made, "out", ORD_OUTPUT, ORD_F32, 2, (int64_t[]){p->rows, COLUMNS}, to_device(s, NULL, out_bytes));
  hand_add(&made, "epilogue", ORD_INPUT, ORD_F32, 2, (int64_t[]){p->rows, COLUMNS}, to_device(s, residuals, out_bytes));
  made.node.epilogue = items;
  made.node.epilogue_count = p->is_normed ? 2 : 0;
  if (hand_query(&made) != ORD_OK) fail_msg("%s", made.answer.reason);
  assert_int_equal(made.answer.epilogue_served, made.node.epilogue_count);
  assert_true((made.pack[1].key == 0) == p->is_stored);
  void *packed = p->is_stored ? NULL : malloc(made.pack[1].bytes);
  const void *from[] = {stored};
  if (packed) assert_int_equal(made.kernel->pack(made.kernel, &made.node, &made.answer, 1, from, 0, 1, packed), ORD_OK);
  run_on_device(s, &made, packed);
  ord_error err = ORD_ERROR_INIT;
  MUST(s->device->table->read(s->queue, out, made.data[3], out_bytes, &err));
  for (uint32_t i = 0; i < made.node.operand_count; i++) s->device->table->release(s->device, made.data[i]);
  free(packed);
  free(stored);
}

static void assert_product(const product *p, const float *got) {
  for (int64_t i = 0; i < p->rows * COLUMNS; i++) {
    const float *x = &numbers[i / COLUMNS * p->depth], *w = &weights[i % COLUMNS * p->depth];
    double sum = 0, size = 0;
    for (int64_t k = 0; k < p->depth; k++) sum += (double)x[k] * w[k], size += fabs((double)x[k] * w[k]);
    if (!(fabs(got[i] - sum) <= 1e-6 * size))
      fail_msg("number %d: found %g, wanted %g (%s)", (int)i, (double)got[i], sum, p->kernel);
  }
}

static const uint32_t computes[] = {ORD_F32, ORD_F16, ORD_BF16, ORD_I8};
enum { COMPUTE_COUNT = sizeof computes / sizeof *computes };

/* All numbers of rows, both widths of blocks, one warp's worth of depth and several rounds of eight. */
static void bits_of_a_row(void **state) {
  static const int64_t depths[] = {70, 1000, DEPTH_MAX};
  (void)state;
  cuda_stage s = open_cuda_stage(PLUGIN, false);
  for (int c = 0; c < COMPUTE_COUNT; c++)
    for (int d = 0; d < 3; d++) {
      float all[ROWS_MAX * COLUMNS], few[ROWS_MAX * COLUMNS];
      product p = {.kernel = "matmul_gemv_rows",
                   .compute = computes[c],
                   .cores = 132,
                   .rows = ROWS_MAX,
                   .depth = depths[d],
                   .is_normed = d == 1};
      make_numbers(p.depth);
      run_product(&s, &p, all);
      if (!p.is_normed) assert_product(&p, all);
      for (p.rows = 1; p.rows <= 8; p.rows += d == 0 || p.rows > 4 ? 1 : p.rows) {
        p.kernel = "matmul_gemv";
        p.cores = p.rows % 3 ? 1 : 132;
        memset(few, 0xff, sizeof few);
        run_product(&s, &p, few);
        assert_memory_equal(few, all, (size_t)p.rows * COLUMNS * sizeof(float));
      }
    }
  close_cuda_stage(&s);
}

static void test_bits_of_a_row(void **state) {
  (void)state;
  run_in_child("bits of a row", bits_of_a_row, NULL);
}

static void tiled_products(void **state) {
  (void)state;
  cuda_stage s = open_cuda_stage(PLUGIN, false);
  for (int c = 0; c < COMPUTE_COUNT; c++) {
    float out[ROWS_MAX * COLUMNS];
    const product p = {.kernel = "matmul_tiled", .compute = computes[c], .cores = 132, .rows = ROWS_MAX, .depth = 300};
    make_numbers(p.depth);
    run_product(&s, &p, out);
    assert_product(&p, out);
  }
  close_cuda_stage(&s);
}

static void test_tiled_products(void **state) {
  (void)state;
  run_in_child("tiled products", tiled_products, NULL);
}

/* Rows that lie apart are used where they are if each begins at a whole unit of 16 bytes, else they are packed. */
static void weights_with_gaps(void **state) {
  static const char *const kernels[] = {"matmul_gemv", "matmul_gemv_rows", "matmul_tiled"};
  (void)state;
  cuda_stage s = open_cuda_stage(PLUGIN, false);
  for (int i = 0; i < 6; i++) {
    float out[3 * COLUMNS];
    const bool is_stored = i % 2 == 0;
    const product p = {.kernel = kernels[i / 2],
                       .compute = ORD_F32,
                       .cores = 132,
                       .rows = 3,
                       .depth = 200,
                       .gap = is_stored ? 4 : 3,
                       .is_stored = is_stored};
    make_numbers(p.depth);
    run_product(&s, &p, out);
    assert_product(&p, out);
  }
  close_cuda_stage(&s);
}

static void test_weights_with_gaps(void **state) {
  (void)state;
  run_in_child("weights with gaps", weights_with_gaps, NULL);
}

/* ---- weights ---- */

/* Packs a weight [2, columns] of f32 in one or two slices; returns whether it is packed at all. */
static bool pack(const cuda_stage *s, uint32_t compute, int64_t columns, uint32_t align_log2, const float *from,
                 void *packed, ord_pack *out) {
  hand made = {.kernel = find_kernel(s, "matmul_gemv")};
  const ord_segment segment[] = {{1, 1}, {1, 2}};
  made.node = (ord_node){.struct_size = sizeof made.node,
                         .op_version = 1,
                         .op = "matmul",
                         .compute = compute,
                         .operand = made.operand,
                         .device = &s->device->info};
  hand_add(&made, "in", ORD_INPUT, ORD_F32, 1, &columns, NULL);
  hand_add(&made, "weight", ORD_WEIGHT, ORD_F32, 2, (int64_t[]){2, columns}, NULL);
  made.operand[1].segment = segment;
  made.operand[1].segment_count = 2;
  made.operand[1].align_log2 = align_log2;
  hand_add(&made, "out", ORD_OUTPUT, ORD_F32, 1, (int64_t[]){2}, NULL);
  if (hand_query(&made) != ORD_OK) fail_msg("%s", made.answer.reason);
  *out = made.pack[1];
  const void *rows[] = {from, from + columns};
  for (uint32_t slice = 0; out->key && slice < 2; slice++)
    assert_int_equal(made.kernel->pack(made.kernel, &made.node, &made.answer, 1, rows, slice, 2, packed), ORD_OK);
  return out->key != 0;
}

static void packs(void **state) {
  static const float from[] = {0,     1,      -1,        0.1f, 65519, 65520, 1e-8f, 0x1.8p-25f, 0x1p-14f,
                               0.25f, 2049.f, -INFINITY, NAN,  3e38f, 1,     2,     3,          4};
  static const uint16_t as_f16[] = {0,      0x3c00, 0xbc00, 0x2e66, 0x7bff, 0x7c00, 0,     1,      0x0400,
                                    0,      0,      0,      0,      0,      0,      0,     0x3400, 0x6800,
                                    0xfc00, 0x7e00, 0x7c00, 0x3c00, 0x4000, 0x4200, 0x4400};
  static const uint16_t as_bf16[] = {0,      0x3f80, 0xbf80, 0x3dcd, 0x4780, 0x4780, 0x322c, 0x3340, 0x3880,
                                     0,      0,      0,      0,      0,      0,      0,      0x3e80, 0x4500,
                                     0xff80, 0x7fc0, 0x7f62, 0x3f80, 0x4000, 0x4040, 0x4080};
  static const float two[] = {-127, 63.5f, 1.27f, 0, 0, 0};
  static const int8_t as_i8[] = {-127, 64, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  unsigned char packed[256];
  ord_pack as, other;
  (void)state;
  cuda_stage s = open_cuda_stage(PLUGIN, false);
  memset(packed, 0xff, sizeof packed);
  assert_true(pack(&s, ORD_F16, 9, 2, from, packed, &as));
  assert_int_equal(as.bytes, 64);
  assert_memory_equal(packed, as_f16, sizeof as_f16);
  assert_true(pack(&s, ORD_BF16, 9, 2, from, packed, &other));
  assert_memory_equal(packed, as_bf16, sizeof as_bf16);
  assert_true(as.key != other.key);
  assert_true(pack(&s, ORD_I8, 3, 2, two, packed, &as));
  assert_int_equal(as.bytes, 2 * 16 + 2 * sizeof(float));
  assert_memory_equal(packed, as_i8, sizeof as_i8);
  assert_true(((float *)packed)[8] == 1 && ((float *)packed)[9] == 0);
  /* what is laid out so already is used as it is stored */
  assert_true(pack(&s, ORD_F32, 8, 2, from, packed, &as));
  assert_false(pack(&s, ORD_F32, 8, 4, from, packed, &as));
  assert_true(pack(&s, ORD_F32, 9, 4, from, packed, &as));
  assert_int_equal(as.bytes, 2 * 48);
  assert_memory_equal(packed + 48, from + 9, 9 * sizeof(float));
  close_cuda_stage(&s);
}

/* Halfway between two numbers of the type: the even one of them; just beyond: the nearer one. */
static void ties(void **state) {
  static const struct {
    float from;
    uint16_t bf16, f16;
  } rows[] = {
      {0x1.01p0f, 0x3f80, 0x3c04},       {0x1.03p0f, 0x3f82, 0x3c0c},  {-0x1.03p0f, 0xbf82, 0xbc0c},
      {0x1.010002p0f, 0x3f81, 0x3c04},   {0x1.ffp0f, 0x4000, 0x3ffc},  {0x1.feffp0f, 0x3fff, 0x3ffc},
      {0x1.002p0f, 0x3f80, 0x3c00},      {0x1.006p0f, 0x3f80, 0x3c02}, {-0x1.006p0f, 0xbf80, 0xbc02},
      {0x1.002002p0f, 0x3f80, 0x3c01},   {0x1.ffep0f, 0x4000, 0x4000}, {0x1p-25f, 0x3300, 0x0000},
      {0x1.8p-24f, 0x33c0, 0x0002},      {0x1.4p-23f, 0x3420, 0x0002}, {0x1.ffcp-15f, 0x3880, 0x0400},
      {0x1.ffbffep-15f, 0x3880, 0x03ff},
  };
  enum { COUNT = sizeof rows / sizeof *rows };
  float from[COUNT];
  uint16_t packed[COUNT];
  ord_pack out;
  (void)state;
  cuda_stage s = open_cuda_stage(PLUGIN, false);
  for (int i = 0; i < COUNT; i++) from[i] = rows[i].from;
  assert_true(pack(&s, ORD_BF16, COUNT / 2, 2, from, packed, &out));
  for (int i = 0; i < COUNT; i++)
    if (packed[i] != rows[i].bf16) fail_msg("%a in bf16: found %x; wanted %x", from[i], packed[i], rows[i].bf16);
  assert_true(pack(&s, ORD_F16, COUNT / 2, 2, from, packed, &out));
  for (int i = 0; i < COUNT; i++)
    if (packed[i] != rows[i].f16) fail_msg("%a in f16: found %x; wanted %x", from[i], packed[i], rows[i].f16);
  close_cuda_stage(&s);
}

static void test_packs(void **state) {
  (void)state;
  run_in_child("packs", packs, NULL);
  run_in_child("ties", ties, NULL);
}

/* ---- epilogues ---- */

/* Of items that each stand for one of these letters, how many are served: a add of [1, 4], b of [3, 4], g gelu_erf,
 * s softmax, n a norm, o gelu_erf with an output, m a norm with one. */
static uint32_t count_served(const cuda_stage *s, const char *letters) {
  ord_epilogue items[16] = {0};
  hand made = {.kernel = find_kernel(s, "matmul_gemv")};
  made.node = (ord_node){.struct_size = sizeof made.node,
                         .op_version = 1,
                         .op = "matmul",
                         .compute = ORD_F32,
                         .operand = made.operand,
                         .epilogue = items,
                         .device = &s->device->info};
  hand_add(&made, "in", ORD_INPUT, ORD_F32, 2, (int64_t[]){1, 8}, NULL);
  hand_add(&made, "weight", ORD_WEIGHT, ORD_F32, 2, (int64_t[]){4, 8}, NULL);
  hand_add(&made, "out", ORD_OUTPUT, ORD_F32, 2, (int64_t[]){1, 4}, NULL);
  hand_add(&made, "epilogue", ORD_INPUT, ORD_F32, 2, (int64_t[]){1, 4}, NULL);
  hand_add(&made, "epilogue", ORD_INPUT, ORD_F32, 2, (int64_t[]){3, 4}, NULL);
  for (; letters[made.node.epilogue_count]; made.node.epilogue_count++) {
    const char letter = letters[made.node.epilogue_count];
    const char *op = letter == 'a' || letter == 'b' ? "add" : letter == 's' ? "softmax" : "gelu_erf";
    if (letter == 'n' || letter == 'm') op = "rmsnorm";
    items[made.node.epilogue_count] = (ord_epilogue){.op = op,
                                                     .operand = {letter == 'a'   ? 3
                                                                 : letter == 'b' ? 4
                                                                                 : ORD_NONE,
                                                                 ORD_NONE},
                                                     .output = letter == 'o' || letter == 'm' ? 2 : ORD_NONE};
  }
  if (hand_query(&made) != ORD_OK) fail_msg("%s", made.answer.reason);
  const bool has_norm = made.answer.epilogue_served && letters[made.answer.epilogue_served - 1] == 'n';
  assert_int_equal(made.answer.persistent_bytes, has_norm ? sizeof(unsigned) : 0);
  return made.answer.epilogue_served;
}

static void epilogues(void **state) {
  (void)state;
  cuda_stage s = open_cuda_stage(PLUGIN, false);
  assert_int_equal(count_served(&s, "ago"), 3);
  assert_int_equal(count_served(&s, "agn"), 3);
  assert_int_equal(count_served(&s, "anga"), 2); /* nothing behind a norm */
  assert_int_equal(count_served(&s, "am"), 1);
  assert_int_equal(count_served(&s, "gsg"), 1);
  assert_int_equal(count_served(&s, "gba"), 1); /* not of the result's shape */
  assert_int_equal(count_served(&s, "agagagagag"), 8);
  assert_int_equal(count_served(&s, "agagagagn"), 9);
  close_cuda_stage(&s);
}

static void test_epilogues(void **state) {
  (void)state;
  run_in_child("epilogues", epilogues, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_conformance),       cmocka_unit_test(test_more_rows),
      cmocka_unit_test(test_bits_of_a_row),     cmocka_unit_test(test_tiled_products),
      cmocka_unit_test(test_weights_with_gaps), cmocka_unit_test(test_packs),
      cmocka_unit_test(test_epilogues),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
