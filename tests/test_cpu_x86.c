/* SPDX-License-Identifier: MIT
 *
 * plugins/cpu_x86, all ops but matmul, each level of instructions that this machine has: the list; the conformance rows
 * of every op; a row alone against the same row in a batch, bit for bit; what a CPU without the instructions is told.
 */
#include "runtime/device.h"
#include "tests/conformance.h"

#define PLUGIN(name) ORDITO_BUILD_DIRECTORY "/lib/ordito/plugins/" name ".so"
#define X86 PLUGIN("cpu_x86")

/* ---- levels ---- */

typedef struct level {
  const char *name;
  uint64_t features;
} level;

static const level levels[] = {{"baseline", 0}, {"avx2", ORD_CPU_AVX2}, {"avx512", ORD_CPU_AVX2 | ORD_CPU_AVX512}};
enum { LEVELS = sizeof levels / sizeof *levels };

static bool is_here(const level *wanted) { return hand_cpu_has(wanted->features); }

static ord_device_info device_of(const level *wanted) {
  return (ord_device_info){.struct_size = sizeof(ord_device_info),
                           .kind = ORD_DEVICE_CPU,
                           .cores = 1,
                           .features = wanted->features,
                           .name = "forced"};
}

static const ord_plugin *open_plugin(const char *path, ord_registry **registry) {
  ord_error err = ORD_ERROR_INIT;
  if (!ord_registry_create(NULL, NULL, registry, &err)) fail_msg("%s", err.text);
  if (!ord_registry_load(*registry, path, &err)) fail_msg("%s", err.text);
  return ord_registry_get(*registry, 0)->plugin;
}

/* The kernel OP_LEVEL. */
static const ord_kernel *find_kernel(const ord_plugin *plugin, const char *op, const level *wanted) {
  char name[64];
  snprintf(name, sizeof name, "%s_%s", op, wanted->name);
  for (uint32_t i = 0; i < plugin->kernel_count; i++)
    if (strcmp(plugin->kernel[i]->name, name) == 0) return plugin->kernel[i];
  fail_msg("no kernel %s", name);
  return NULL;
}

/* ---- the list ---- */

/* Every op that cpu_plain serves has a kernel of each level, and the better one goes first. All are asked through one
 * function, which runs on any CPU: what instructions it has, check_any_cpu.sh looks at. */
static void test_list(void **unused) {
  (void)unused;
  ord_registry *plain_registry, *registry;
  const ord_plugin *plain = open_plugin(PLUGIN("cpu_plain"), &plain_registry), *x86 = open_plugin(X86, &registry);
  for (uint32_t i = 0; i < plain->kernel_count; i++) {
    int32_t priority = plain->kernel[i]->priority;
    for (int l = 0; l < LEVELS; l++) {
      const ord_kernel *kernel = find_kernel(x86, plain->kernel[i]->op, &levels[l]);
      assert_string_equal(kernel->op, plain->kernel[i]->op);
      assert_true(kernel->priority > priority);
      assert_true(kernel->query == x86->kernel[0]->query);
      priority = kernel->priority;
    }
  }
  assert_int_equal(x86->kernel_count, LEVELS * plain->kernel_count);
  ord_registry_destroy(registry);
  ord_registry_destroy(plain_registry);
}

/* ---- conformance ---- */

static const char *const ops[] = {
    "layernorm", "rmsnorm", "l2_normalize", "softmax", "add",          "sub",       "mul",      "gelu_erf", "gelu_tanh",
    "relu",      "relu2",   "silu",         "sigmoid", "tanh",         "embedding", "position", "rope",     "pool",
    "sample",    "reshape", "transpose",    "slice",   "cache_append", "split",     "concat",   "gather"};
enum { OPS = sizeof ops / sizeof *ops };

static void test_conformance(void **unused) {
  (void)unused;
  static const char *const reason[] = {"is f16; wanted",  "is bf16; wanted f32", "is i32; wanted", "is q8_0; wanted",
                                       "is q4_0; wanted", "is q4_1; wanted",     "bytes apart",    NULL};
  ord_registry *registry;
  const ord_plugin *plugin = open_plugin(X86, &registry);
  for (int l = 0; l < LEVELS; l++) {
    if (!is_here(&levels[l])) continue;
    const ord_device_info device = device_of(&levels[l]);
    const ord_case_options options = {.device = &device};
    for (int i = 0; i < OPS; i++) conformance_run_on(find_kernel(plugin, ops[i], &levels[l]), &options, reason);
  }
  ord_registry_destroy(registry);
}

/* What must not fall to another kernel, and sizes at which vectors, blocks and tails meet. */
static void test_serves(void **unused) {
  (void)unused;
  static const struct {
    const char *op, *operands, *attributes;
  } row[] = {
      {"layernorm", "in[2,$] weight:bf16[$] bias:f16[$]", "eps=1e-5 $=1..70"},
      {"layernorm", "in[1,4096] weight[4096] bias[4096]", "eps=1e-5"},
      {"rmsnorm", "in^[3,16] weight[16] out+", "eps=1e-6"},
      {"softmax", "in[2,$]", "$=60..70"},
      {"softmax", "in[2,200]=-inf,nan,1", ""},
      {"softmax", "in[2,129]=-87,-100,-104,0", ""},
      {"gelu_tanh", "in[2000]", ""},
      {"silu", "in[3,40]=-0,88,-88,89,-89,100,-100,1e-40,3e38", ""},
      {"sigmoid", "in[3,40]=-0,88,-86,89,-87,100,1e-40,inf,nan", ""},
      {"tanh", "in[3,40]=-0,88,-88,0.624,0.626,100,-100,1e-40,3e38,inf,-inf,nan", ""},
      {"mul", "in^[5,33] in*:bf16[33]", ""},
      {"add", "in[3,70] in[70]", ""},
      {"embedding", "in:i32[2,5]<7 weight:i8[7,37]", ""},
      {"embedding", "in:i32[5]<7 weight:bf16[7,768]", ""},
      {"embedding", "in:i32[5]<7 weight[7,40] out+", ""},
      {"position", "in[2,5,8] positions:i32[2,5]<5 weight:bf16[7,8]", "offset=2"},
      {"rope", "in^[2,3,4,8] positions:i32[2,4]<900", "pairing=interleaved theta=10000"},
      {"rope", "in[1,2,3,64] positions:i32[1,3]=100000,2000000000,-7", "pairing=halves theta=10000"},
      {"rope", "in[1,2,3,4] positions:i32[1,3]=3,100,2000000000 factors[2]=1e-3,1", "pairing=halves theta=10000"},
      {"cache_append", "k[2,2,3/8,8] v[2,2,3/8,6] lengths:i32[2]=2,3", "cache=16:bf16 past=0,13"},
      {"cache_append", "k[1,2,4,8] v[1,2,4,6]", "cache=16 past=14"}, // two tokens too many
      {"sample", "in[1,$] temperature[1]=0 top_k:i32[1]=0 top_p[1]=1 seed:i64[1]=5 counter:i64[1]=1",
       "$=255..258,511..514,1000"},
      {"sample",
       "in[9,3000] temperature[9]=0.2,1,5 top_k:i32[9]=0,1,40,2999,3000,1000 top_p[9]=1,0.9,0.3,0 "
       "seed:i64[9]=5 counter:i64[9]=$",
       "$=0..9"},
      {"sample",
       "in[4,900]=nan,-inf,3,inf,2,inf,-1 temperature[4]=0,1,0.1 top_k:i32[4]=3,0 top_p[4]=0.9,1 "
       "seed:i64[4]=5 counter:i64[4]=$",
       "$=0..9"},
      {"sample",
       "in[3,700]=1,1,0 temperature[3]=1,30 top_k:i32[3]=0,5,600 top_p[3]=0.5,0.99 seed:i64[3]=5 "
       "counter:i64[3]=$",
       "$=0..9"},
      {"sample",
       "in[5,500] temperature[5]=0.2,0.1,0.03 top_k:i32[5]=0 top_p[5]=0.99,0.9999 seed:i64[5]=5 counter:i64[5]=$",
       "$=0..29"},
      {"sample", "in[2,40]=nan,-inf temperature[2]=0,1 top_k:i32[2]=3 top_p[2]=0.9 seed:i64[2]=5 counter:i64[2]=7", ""},
      {"gather", "in*:bf16[6,7] index:i32[2,2]=0,5,-1,9", "axis=0"},
  };
  ord_registry *registry;
  const ord_plugin *plugin = open_plugin(X86, &registry);
  for (int l = 0; l < LEVELS; l++) {
    if (!is_here(&levels[l])) continue;
    const ord_device_info device = device_of(&levels[l]);
    const ord_case_options options = {.device = &device};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
      conformance_serves_on(find_kernel(plugin, row[i].op, &levels[l]), &options, row[i].operands, row[i].attributes);
  }
  ord_registry_destroy(registry);
}

/* ---- a row alone and in a batch ---- */

enum { ROWS = 9, PLACES = 5, ROW_MAX = 700 };

/* An operand of `count` elements a row, or in all where the rows share it. */
typedef struct place {
  const char *name;
  uint16_t role, dtype;
  bool is_shared;
  uint32_t rank;
  int64_t dim[4]; /* dim[0] of one that is not shared: the rows */
} place;

typedef struct shape {
  const char *op;
  place place[PLACES];
} shape;

#define ROW(name, ...)                                                                                                 \
  { name, ORD_INPUT, ORD_F32, false, __VA_ARGS__ }
#define SHARED(name, ...)                                                                                              \
  { name, ORD_WEIGHT, ORD_F32, true, __VA_ARGS__ }
#define OUT(...)                                                                                                       \
  { "out", ORD_OUTPUT, ORD_F32, false, __VA_ARGS__ }

static const shape shapes[] = {
    {"layernorm", {ROW("in", 2, {1, 131}), SHARED("weight", 1, {131}), SHARED("bias", 1, {131}), OUT(2, {1, 131})}},
    {"rmsnorm", {ROW("in", 2, {1, 75}), SHARED("weight", 1, {75}), OUT(2, {1, 75})}},
    {"l2_normalize", {ROW("in", 2, {1, 75}), OUT(2, {1, 75})}},
    {"softmax", {ROW("in", 2, {1, 75}), OUT(2, {1, 75})}},
    {"gelu_tanh", {ROW("in", 2, {1, 75}), OUT(2, {1, 75})}},
    {"gelu_erf", {ROW("in", 2, {1, 75}), OUT(2, {1, 75})}},
    {"silu", {ROW("in", 2, {1, 75}), OUT(2, {1, 75})}},
    {"sigmoid", {ROW("in", 2, {1, 75}), OUT(2, {1, 75})}},
    {"tanh", {ROW("in", 2, {1, 75}), OUT(2, {1, 75})}},
    {"relu2", {ROW("in", 2, {1, 75}), OUT(2, {1, 75})}},
    {"mul", {ROW("in", 2, {1, 75}), ROW("in", 2, {1, 75}), OUT(2, {1, 75})}},
    {"add", {ROW("in", 2, {1, 75}), SHARED("in", 1, {75}), OUT(2, {1, 75})}},
    {"rope", {ROW("in", 4, {1, 2, 1, 70}), {"positions", ORD_INPUT, ORD_I32, false, 2, {1, 1}}, OUT(4, {1, 2, 1, 70})}},
    {"embedding",
     {{"in", ORD_INPUT, ORD_I32, false, 1, {1}}, {"weight", ORD_WEIGHT, ORD_BF16, true, 2, {9, 75}}, OUT(2, {1, 75})}},
};

static int64_t row_elements(const place *of) {
  int64_t count = 1;
  for (uint32_t axis = of->is_shared ? 0 : 1; axis < of->rank; axis++) count *= of->dim[axis];
  return count;
}

/* Rows [first, first + rows) of the numbers; the result goes to the last place. */
static void run_rows(const shape *of, const level *wanted, int64_t first, int64_t rows,
                     unsigned char memory[PLACES][ROWS * ROW_MAX * 4], float *out) {
  static const int64_t bytes[] = {[ORD_F32] = 4, [ORD_BF16] = 2, [ORD_I32] = 4};
  hand made;
  ord_plugin_error err;
  hand_open(&made, X86, of->op);
  made.kernel = find_kernel(ord_registry_get(made.registry, 0)->plugin, of->op, wanted);
  made.device = device_of(wanted);
  for (int i = 0; i < PLACES && of->place[i].name; i++) {
    const place *at = &of->place[i];
    int64_t dim[4];
    memcpy(dim, at->dim, sizeof dim);
    if (!at->is_shared) dim[0] = rows;
    void *data = memory[i] + (at->is_shared ? 0 : first * row_elements(at) * bytes[at->dtype]);
    hand_add(&made, at->name, at->role, at->dtype, at->rank, dim, at->role == ORD_OUTPUT ? out : data);
  }
  hand_attr(&made, (ord_attr){.name = "pairing", .kind = ORD_ATTR_WORD, .value.s = "halves"});
  hand_attr(&made, (ord_attr){.name = "theta", .kind = ORD_ATTR_NUMBER, .value.f = 10000});
  hand_attr(&made, (ord_attr){.name = "eps", .kind = ORD_ATTR_NUMBER, .value.f = 1e-5});
  assert_int_equal(hand_run(&made, &err), ORD_OK);
  hand_close(&made);
}

static void fill_place(const place *of, unsigned char *memory) {
  const size_t count = (size_t)(row_elements(of) * (of->is_shared ? 1 : ROWS));
  if (of->dtype == ORD_F32) hand_fill((float *)memory, count);
  for (size_t i = 0; i < count && of->dtype == ORD_I32; i++) ((int32_t *)memory)[i] = (int32_t)(i * 7 % 9);
  for (size_t i = 0; i < count && of->dtype == ORD_BF16; i++) ((uint16_t *)memory)[i] = (uint16_t)(0x3f80 + i % 100);
}

static void test_one_equals_many(void **unused) {
  (void)unused;
  static _Alignas(64) unsigned char memory[PLACES][ROWS * ROW_MAX * 4];
  static float many[ROWS * ROW_MAX], one[ROW_MAX];
  for (int l = 0; l < LEVELS; l++) {
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes && is_here(&levels[l]); s++) {
      const shape *of = &shapes[s];
      int64_t width = 0;
      for (int i = 0; i < PLACES && of->place[i].name; i++) {
        fill_place(&of->place[i], memory[i]);
        width = row_elements(&of->place[i]);
      }
      run_rows(of, &levels[l], 0, ROWS, memory, many);
      for (int64_t row = 0; row < ROWS; row++) {
        run_rows(of, &levels[l], row, 1, memory, one);
        if (memcmp(one, many + row * width, (size_t)width * sizeof *one) != 0)
          fail_msg("%s_%s: row %d differs", of->op, levels[l].name, (int)row);
      }
    }
  }
}

/* ---- refusals ---- */

static void test_refusals(void **unused) {
  (void)unused;
  static float numbers[64];
  static const char *const reason[LEVELS] = {NULL, "the CPU has no AVX2; ", "the CPU has no AVX-512; "};
  for (int i = 0; i < OPS; i++) {
    for (int l = 1; l < LEVELS; l++) {
      hand made;
      hand_open(&made, X86, ops[i]);
      made.kernel = find_kernel(ord_registry_get(made.registry, 0)->plugin, ops[i], &levels[l]);
      for (int slot = 0; slot < 2; slot++)
        hand_add(&made, slot ? "k" : "in", ORD_INPUT, ORD_F32, 2, (const int64_t[]){4, 8}, numbers);
      hand_add(&made, "out", ORD_OUTPUT, ORD_F32, 2, (const int64_t[]){4, 8}, numbers);
      made.device = device_of(&levels[l - 1]);
      hand_refuses(&made, reason[l]);
      hand_close(&made);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_list),     cmocka_unit_test(test_conformance),
      cmocka_unit_test(test_serves),   cmocka_unit_test(test_one_equals_many),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
