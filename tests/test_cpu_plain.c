/* SPDX-License-Identifier: MIT
 *
 * plugins/cpu_plain: the conformance rows of every op that it serves; a row alone against the same row in a batch, bit
 * for bit; work in place; what it refuses and why.
 */
#include "tests/conformance.h"

#define PLAIN ORDITO_BUILD_DIRECTORY "/lib/ordito/plugins/cpu_plain.so"

/* ---- conformance ---- */

static const ord_plugin *open_plain(ord_registry **registry) {
  ord_error err = ORD_ERROR_INIT;
  if (!ord_registry_create(NULL, NULL, registry, &err)) fail_msg("%s", err.text);
  if (!ord_registry_load(*registry, PLAIN, &err)) fail_msg("%s", err.text);
  return ord_registry_get(*registry, 0)->plugin;
}

static void test_conformance(void **unused) {
  (void)unused;
  static const char *const reason[] = {"is f16; wanted",
                                       "is bf16; wanted f32",
                                       "is i32; wanted",
                                       "is q8_0; wanted",
                                       "is q4_0; wanted",
                                       "is q4_1; wanted",
                                       "products are wanted",
                                       "bytes apart",
                                       "with 'by'",
                                       "epilogue items",
                                       NULL};
  ord_registry *registry;
  const ord_plugin *plugin = open_plain(&registry);
  for (uint32_t i = 0; i < plugin->kernel_count; i++) conformance_run(plugin->kernel[i], reason);
  ord_registry_destroy(registry);
}

/* What must not fall to the reference, whatever the grid holds. */
static void test_serves(void **unused) {
  (void)unused;
  static const struct {
    const char *op, *operands, *attributes;
  } row[] = {
      {"matmul", "in[2,5/64,40] weight:bf16[20|20|7,40] bias:bf16[47]", ""},
      {"matmul", "in[97,40] weight^:f16[130,40]", ""},
      {"matmul", "in[3,40] weight:i8[33,40] bias[33]", "epilogue=gelu_tanh>+add(residual[3,33])"},
      {"matmul", "in[3,40] weight[33,40]", "epilogue=silu+mul(gate[3,33])+add(late_bias:bf16[33])"},
      {"matmul", "in+[2,3,7,9] by[2,3,9,50]", "epilogue=relu"},
      {"matmul", "in[2,3,50,9] by^[3,9,20]", ""},
      {"matmul", "in[2/4,3/8,9] by[2/4,9,5]", ""},
      {"layernorm", "in[2,3/8,384] weight:bf16[384] bias:f16[384]", "eps=1e-5"},
      {"rmsnorm", "in^[3,16] weight[16] out+", "eps=1e-6"},
      {"softmax", "in^[3,16,5]", "axis=1"},
      {"mul", "in^[5,33] in*:bf16[33]", ""},
      {"embedding", "in:i32[2,5]<7 weight:i8[7,37]", ""},
      {"position", "in[2,5,8] positions:i32[2,5]<5 weight:bf16[7,8]", "offset=2"},
      {"rope", "in^[2,3,4,8] positions:i32[2,4]<900", "pairing=interleaved theta=10000"},
      {"cache_append", "k[2,2,3/8,8] v[2,2,3/8,6] lengths:i32[2]=2,3", "cache=16:bf16 past=0,13"},
      {"sample", "in[4,300] temperature[4]=0.8 top_k:i32[4]=40 top_p[4]=0.9 seed:i64[4]=5 counter:i64[4]=$", "$=0..9"},
      {"gather", "in*:bf16[6,7] index:i32[2,2]=0,5,-1,9", "axis=0"},
  };
  ord_registry *registry;
  const ord_plugin *plugin = open_plain(&registry);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    uint32_t which = 0;
    while (which < plugin->kernel_count && strcmp(plugin->kernel[which]->op, row[i].op) != 0) which++;
    assert_true(which < plugin->kernel_count);
    conformance_serves(plugin->kernel[which], row[i].operands, row[i].attributes);
  }
  ord_registry_destroy(registry);
}

/* ---- a row alone and in a batch ---- */

enum { ROWS = 9, DEPTH = 75, COLUMNS = 53 };

/* gelu(in . weight + bias) * gate, of `rows` rows in a plan for `maximum`. */
static void multiply(int64_t rows, int64_t maximum, float *in, float *gate, float *out) {
  static float weight[COLUMNS * DEPTH], bias[COLUMNS];
  const ord_epilogue epilogue[] = {{"gelu_tanh", {ORD_NONE, ORD_NONE}, ORD_NONE, 0, NULL},
                                   {"mul", {4, ORD_NONE}, ORD_NONE, 0, NULL}};
  hand made;
  ord_plugin_error err;
  hand_fill(weight, COLUMNS * DEPTH);
  hand_fill(bias, COLUMNS);
  hand_open(&made, PLAIN, "matmul");
  hand_add(&made, "in", ORD_INPUT, ORD_F32, 2, (const int64_t[]){maximum, DEPTH}, in);
  hand_add(&made, "weight", ORD_WEIGHT, ORD_F32, 2, (const int64_t[]){COLUMNS, DEPTH}, weight);
  hand_add(&made, "bias", ORD_WEIGHT, ORD_F32, 1, (const int64_t[]){COLUMNS}, bias);
  hand_add(&made, "out", ORD_OUTPUT, ORD_F32, 2, (const int64_t[]){maximum, COLUMNS}, out);
  hand_add(&made, "gate", ORD_INPUT, ORD_F32, 2, (const int64_t[]){maximum, COLUMNS}, gate);
  const uint32_t extent = hand_add(&made, "extent", ORD_SCALAR, ORD_I64, 0, NULL, &rows);
  made.operand[0].extent[0] = made.operand[3].extent[0] = made.operand[4].extent[0] = extent;
  made.node.epilogue = epilogue;
  made.node.epilogue_count = 2;
  assert_int_equal(hand_run(&made, &err), ORD_OK);
  assert_int_equal(made.answer.epilogue_served, 2);
  hand_close(&made);
}

static void test_one_equals_many(void **unused) {
  (void)unused;
  static float in[200 * DEPTH], gate[200 * COLUMNS], many[200 * COLUMNS], one[200 * COLUMNS];
  hand_fill(in, 200 * DEPTH);
  hand_fill(gate, 200 * COLUMNS);
  multiply(ROWS, ROWS, in, gate, many);
  for (int row = 0; row < ROWS; row++) {
    multiply(1, 1, in + row * DEPTH, gate + row * COLUMNS, one);
    assert_memory_equal(one, many + row * COLUMNS, COLUMNS * sizeof *one);
  }
  multiply(ROWS, 200, in, gate, one); /* another cut of the work */
  assert_memory_equal(one, many, ROWS * COLUMNS * sizeof *one);
}

/* A run of one batch in a plan for three leaves the others alone. */
static void test_by_keeps_to_the_run(void **unused) {
  (void)unused;
  static float in[3 * 4 * 5], by[3 * 5 * 6], out[3 * 4 * 6];
  int64_t batches = 1;
  hand made;
  ord_plugin_error err;
  hand_fill(in, sizeof in / sizeof *in);
  hand_fill(by, sizeof by / sizeof *by);
  for (size_t i = 0; i < sizeof out / sizeof *out; i++) out[i] = 77;
  hand_open(&made, PLAIN, "matmul");
  hand_add(&made, "in", ORD_INPUT, ORD_F32, 3, (const int64_t[]){3, 4, 5}, in);
  hand_add(&made, "by", ORD_INPUT, ORD_F32, 3, (const int64_t[]){3, 5, 6}, by);
  hand_add(&made, "out", ORD_OUTPUT, ORD_F32, 3, (const int64_t[]){3, 4, 6}, out);
  hand_add(&made, "extent", ORD_SCALAR, ORD_I64, 0, NULL, &batches);
  for (int i = 0; i < 3; i++) made.operand[i].extent[0] = 3;
  assert_int_equal(hand_run(&made, &err), ORD_OK);
  for (size_t i = 0; i < sizeof out / sizeof *out; i++) assert_true((out[i] == 77) == (i >= 4 * 6));
  hand_close(&made);
}

/* ---- in place ---- */

enum { PLACE_COUNT = 2 * 3 * 4 * 8 };

/* Runs an op on [2, 3, 4, 8] into `out`, which may be `in`. */
static void run_in_place(const char *op, float *in, float *out, bool must_alias) {
  static float other[PLACE_COUNT];
  static int32_t positions[] = {5, 6, 7, 8, 100, 101, 102, 103};
  const int64_t dim[] = {2, 3, 4, 8};
  hand made;
  ord_plugin_error err;
  hand_fill(other, PLACE_COUNT);
  hand_open(&made, PLAIN, op);
  const bool is_rope = strcmp(op, "rope") == 0;
  hand_add(&made, "in", ORD_INPUT, ORD_F32, 4, dim, in);
  if (is_rope)
    hand_add(&made, "positions", ORD_INPUT, ORD_I32, 2, (const int64_t[]){2, 4}, positions);
  else
    hand_add(&made, "in", ORD_INPUT, ORD_F32, 4, dim, other);
  hand_add(&made, "out", ORD_OUTPUT, ORD_F32, 4, dim, out);
  hand_attr(&made, (ord_attr){.name = "pairing", .kind = ORD_ATTR_WORD, .value.s = "halves"});
  hand_attr(&made, (ord_attr){.name = "theta", .kind = ORD_ATTR_NUMBER, .value.f = 10000});
  hand_attr(&made, (ord_attr){.name = "eps", .kind = ORD_ATTR_NUMBER, .value.f = 1e-5});
  assert_int_equal(hand_run(&made, &err), ORD_OK);
  if (must_alias) assert_true(made.answer.alias_mask & 1);
  made.operand[0].stride[0] *= 2; /* laid out otherwise: the output may not take its place */
  assert_int_equal(hand_query(&made), ORD_OK);
  assert_false(made.answer.alias_mask & 1);
  hand_close(&made);
}

static void test_in_place(void **unused) {
  (void)unused;
  static const char *const op[] = {"add", "mul", "gelu_erf", "silu", "softmax", "layernorm", "rmsnorm", "rope"};
  for (size_t i = 0; i < sizeof op / sizeof *op; i++) {
    float in[PLACE_COUNT], out[PLACE_COUNT];
    hand_fill(in, PLACE_COUNT);
    run_in_place(op[i], in, out, true);
    run_in_place(op[i], in, in, true);
    assert_memory_equal(in, out, sizeof in);
  }
}

/* ---- refusals and faults ---- */

static void test_refusals(void **unused) {
  (void)unused;
  static float numbers[64];
  hand made;
  hand_open(&made, PLAIN, "matmul");
  hand_add(&made, "in", ORD_INPUT, ORD_F32, 2, (const int64_t[]){4, 8}, numbers);
  hand_add(&made, "weight", ORD_WEIGHT, ORD_F32, 2, (const int64_t[]){8, 8}, numbers);
  hand_add(&made, "out", ORD_OUTPUT, ORD_F32, 2, (const int64_t[]){4, 8}, numbers);
  made.node.compute = ORD_BF16;
  hand_refuses(&made, "products are wanted in bf16; this kernel makes them in f32");
  made.node.compute = ORD_F32;
  made.operand[1].dtype = ORD_Q4_1;
  hand_refuses(&made, "weight is q4_1; wanted f32, f16, bf16 or i8");
  made.operand[1].dtype = ORD_F32;
  made.operand[0].stride[1] = 16;
  hand_refuses(&made, "last axis of in lie 16 bytes apart; wanted 4");
  made.operand[0].stride[1] = 4;
  made.device.kind = ORD_DEVICE_CUDA;
  hand_refuses(&made, "the device is no CPU");
  made.device.kind = ORD_DEVICE_CPU;
  made.node.op_version = 7;
  hand_refuses(&made, "matmul is of version 7; wanted 1");
  hand_close(&made);
}

/* Fused are the items up to the first that needs a whole row. */
static void test_epilogue_is_cut(void **unused) {
  (void)unused;
  static float numbers[64];
  const ord_epilogue epilogue[] = {{"silu", {ORD_NONE, ORD_NONE}, ORD_NONE, 0, NULL},
                                   {"add", {3, ORD_NONE}, ORD_NONE, 0, NULL},
                                   {"rmsnorm", {4, ORD_NONE}, ORD_NONE, 0, NULL},
                                   {"silu", {ORD_NONE, ORD_NONE}, ORD_NONE, 0, NULL}};
  hand made;
  hand_open(&made, PLAIN, "matmul");
  hand_add(&made, "in", ORD_INPUT, ORD_F32, 2, (const int64_t[]){4, 8}, numbers);
  hand_add(&made, "weight", ORD_WEIGHT, ORD_F32, 2, (const int64_t[]){8, 8}, numbers);
  hand_add(&made, "out", ORD_OUTPUT, ORD_F32, 2, (const int64_t[]){4, 8}, numbers);
  hand_add(&made, "residual", ORD_INPUT, ORD_F32, 2, (const int64_t[]){4, 8}, numbers);
  hand_add(&made, "w", ORD_WEIGHT, ORD_F32, 1, (const int64_t[]){8}, numbers);
  made.node.epilogue = epilogue;
  made.node.epilogue_count = 4;
  assert_int_equal(hand_query(&made), ORD_OK);
  assert_int_equal(made.answer.epilogue_served, 2);
  made.operand[3].stride[1] = 64; /* a residual whose rows are not dense */
  assert_int_equal(hand_query(&made), ORD_OK);
  assert_int_equal(made.answer.epilogue_served, 1);
  hand_close(&made);
}

static void test_out_of_memory(void **unused) {
  (void)unused;
  static const char *const op[] = {"matmul", "relu", "add",       "rmsnorm", "transpose",
                                   "rope",   "pool", "embedding", "sample"};
  static float numbers[64];
  for (size_t i = 0; i < sizeof op / sizeof *op; i++) {
    hand made;
    ord_plugin_error err = {.struct_size = sizeof err};
    void *state = NULL;
    hand_open(&made, PLAIN, op[i]);
    hand_add(&made, "in", ORD_INPUT, ORD_F32, 2, (const int64_t[]){4, 8}, numbers);
    hand_add(&made, "weight", ORD_WEIGHT, ORD_F32, 2, (const int64_t[]){8, 8}, numbers);
    hand_add(&made, "out", ORD_OUTPUT, ORD_F32, 2, (const int64_t[]){4, 8}, numbers);
    made.answer = (ord_answer){.struct_size = sizeof made.answer, .pack = made.pack};
    made.is_out_of_memory = true;
    assert_int_equal(made.kernel->prepare(made.kernel, &made.node, &made.answer, &made.host, &state, &err),
                     ORD_NO_MEMORY);
    assert_non_null(strstr(err.text, "out of memory"));
    assert_null(state);
    hand_close(&made);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_conformance),     cmocka_unit_test(test_serves),
      cmocka_unit_test(test_one_equals_many), cmocka_unit_test(test_by_keeps_to_the_run),
      cmocka_unit_test(test_in_place),        cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_epilogue_is_cut), cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
