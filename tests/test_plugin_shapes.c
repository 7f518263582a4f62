/* SPDX-License-Identifier: MIT
 *
 * Three throw-away plugins that the ABI must fit: block-quantised weights multiplied in place, attention in two phases
 * with scratch, and a library call on a stream. Nodes and runs are built by hand here, without the rest of the host,
 * and compared with straightforward loops.
 */
#include "tests/by_hand.h"
#include "tests/plugins/cublas_shape/gemm_library.h"

#define TEST_PLUGIN(name) ORDITO_BUILD_DIRECTORY "/tests/plugins/" name ".so"

enum { WORKSPACE_BYTES = 64 };

/* ---- Q4_1 weights in place ---- */

enum { Q4_M = 3, Q4_N = 5, Q4_K = 64, Q4_BLOCKS = Q4_N * Q4_K / 32 };

/* d = 0.25 (f16 0x3400), m = -2 (0xc000); d of every other block is 2^-15, a subnormal half (0x0200). */
static void make_blocks(uint8_t block[Q4_BLOCKS][20], float *number) {
  for (int b = 0; b < Q4_BLOCKS; b++) {
    const float scale = b % 2 ? 0x1p-15f : 0.25f;
    const uint8_t head[] = {0x00, b % 2 ? 0x02 : 0x34, 0x00, 0xc0};
    memcpy(block[b], head, sizeof head);
    for (int i = 0; i < 16; i++) {
      const int low = (b + 3 * i) % 16, high = (5 * b + i) % 16;
      block[b][4 + i] = (uint8_t)(low | high << 4);
      number[b * 32 + i] = scale * (float)low - 2;
      number[b * 32 + 16 + i] = scale * (float)high - 2;
    }
  }
}

static void test_q4_1_in_place(void **unused) {
  (void)unused;
  static uint8_t block[Q4_BLOCKS][20];
  static float weight[Q4_N * Q4_K], in[Q4_M * Q4_K], out[Q4_M * Q4_N], wanted[Q4_M * Q4_N];
  make_blocks(block, weight);
  hand_fill(in, Q4_M * Q4_K);
  for (int m = 0; m < Q4_M; m++)
    for (int n = 0; n < Q4_N; n++) {
      double sum = 0;
      for (int k = 0; k < Q4_K; k++) sum += (double)in[m * Q4_K + k] * (double)weight[n * Q4_K + k];
      wanted[m * Q4_N + n] = (float)sum;
    }
  hand made;
  ord_plugin_error err;
  hand_open(&made, TEST_PLUGIN("q4_1_matmul"), "matmul");
  hand_add(&made, "in", ORD_INPUT, ORD_F32, 2, (const int64_t[]){Q4_M, Q4_K}, in);
  hand_add(&made, "weight", ORD_WEIGHT, ORD_Q4_1, 2, (const int64_t[]){Q4_N, Q4_K}, block);
  hand_add(&made, "out", ORD_OUTPUT, ORD_F32, 2, (const int64_t[]){Q4_M, Q4_N}, out);
  assert_int_equal(hand_run(&made, &err), ORD_OK);
  assert_int_equal(made.pack[1].key, 0);
  hand_assert_near(out, wanted, Q4_M * Q4_N);
  made.operand[1].dtype = ORD_Q4_0;
  hand_refuses(&made, "wanted q4_1");
  hand_close(&made);
}

/* In a plan for up to 8 rows a run of 2 leaves the others alone. */
static void test_q4_1_extent(void **unused) {
  (void)unused;
  static uint8_t block[Q4_BLOCKS][20];
  static float weight[Q4_N * Q4_K], in[8 * Q4_K], out[8 * Q4_N];
  int64_t rows = 2;
  make_blocks(block, weight);
  hand_fill(in, 8 * Q4_K);
  for (int i = 0; i < 8 * Q4_N; i++) out[i] = 77;
  hand made;
  ord_plugin_error err;
  hand_open(&made, TEST_PLUGIN("q4_1_matmul"), "matmul");
  hand_add(&made, "in", ORD_INPUT, ORD_F32, 2, (const int64_t[]){8, Q4_K}, in);
  hand_add(&made, "weight", ORD_WEIGHT, ORD_Q4_1, 2, (const int64_t[]){Q4_N, Q4_K}, block);
  hand_add(&made, "out", ORD_OUTPUT, ORD_F32, 2, (const int64_t[]){8, Q4_N}, out);
  hand_add(&made, "extent", ORD_SCALAR, ORD_I64, 0, NULL, &rows);
  made.operand[0].extent[0] = made.operand[2].extent[0] = 3;
  assert_int_equal(hand_run(&made, &err), ORD_OK);
  for (int i = 0; i < 2 * Q4_N; i++) assert_true(out[i] != 77);
  for (int i = 2 * Q4_N; i < 8 * Q4_N; i++) assert_true(out[i] == 77);
  hand_close(&made);
}

/* ---- attention in two phases ---- */

enum { HEADS = 4, QUERIES = 5, KEYS = 37, WIDTH = 6, VALUE_WIDTH = 3, OUT_COUNT = HEADS * QUERIES * VALUE_WIDTH };

static void attend(const float *q, const float *k, const float *v, bool is_causal, float *out) {
  for (int row = 0; row < HEADS * QUERIES; row++) {
    const int head = row / QUERIES, seen = is_causal ? KEYS - QUERIES + row % QUERIES + 1 : KEYS;
    double weight[KEYS], sum = 0;
    for (int j = 0; j < seen; j++) {
      double score = 0;
      for (int d = 0; d < WIDTH; d++) score += (double)q[row * WIDTH + d] * (double)k[(head * KEYS + j) * WIDTH + d];
      weight[j] = exp(score * 0.5);
      sum += weight[j];
    }
    for (int e = 0; e < VALUE_WIDTH; e++) {
      double mixed = 0;
      for (int j = 0; j < seen; j++) mixed += weight[j] / sum * (double)v[(head * KEYS + j) * VALUE_WIDTH + e];
      out[row * VALUE_WIDTH + e] = (float)mixed;
    }
  }
}

static void test_two_phases(void **unused) {
  (void)unused;
  static float q[HEADS * QUERIES * WIDTH], k[HEADS * KEYS * WIDTH], v[HEADS * KEYS * VALUE_WIDTH];
  static float out[OUT_COUNT], wanted[OUT_COUNT];
  hand_fill(q, HEADS * QUERIES * WIDTH);
  hand_fill(k, HEADS * KEYS * WIDTH);
  hand_fill(v, HEADS * KEYS * VALUE_WIDTH);
  for (int is_causal = 0; is_causal < 2; is_causal++) {
    hand made;
    ord_plugin_error err;
    hand_open(&made, TEST_PLUGIN("two_phase_attention"), "attention");
    hand_add(&made, "q", ORD_INPUT, ORD_F32, 4, (const int64_t[]){2, HEADS / 2, QUERIES, WIDTH}, q);
    hand_add(&made, "k", ORD_INPUT, ORD_F32, 4, (const int64_t[]){2, HEADS / 2, KEYS, WIDTH}, k);
    hand_add(&made, "v", ORD_INPUT, ORD_F32, 4, (const int64_t[]){2, HEADS / 2, KEYS, VALUE_WIDTH}, v);
    hand_add(&made, "out", ORD_OUTPUT, ORD_F32, 4, (const int64_t[]){2, HEADS / 2, QUERIES, VALUE_WIDTH}, out);
    hand_attr(&made, (ord_attr){.name = "causal", .kind = ORD_ATTR_BOOL, .value.i = is_causal});
    hand_attr(&made, (ord_attr){.name = "scale", .kind = ORD_ATTR_NUMBER, .value.f = 0.5});
    attend(q, k, v, is_causal, wanted);
    assert_int_equal(hand_run(&made, &err), ORD_OK);
    assert_int_equal(made.answer.phase_count, 2);
    assert_int_equal(made.answer.chunk_limit[0], HEADS * 3);
    hand_assert_near(out, wanted, OUT_COUNT);
    hand_add(&made, "lengths", ORD_INPUT, ORD_I32, 1, (const int64_t[]){2}, NULL);
    hand_refuses(&made, "wanted none of them");
    hand_close(&made);
  }
}

/* ---- a library call on a stream ---- */

/* The stream remembers one product and computes it when it is run. */
typedef struct gemm_stream {
  bool has_work;
  gemm_problem problem;
} gemm_stream;

static int handle_count;

static void *library_create(void) {
  handle_count++;
  return malloc(1);
}

static void library_destroy(void *handle) {
  handle_count--;
  free(handle);
}

/* The workspace holds a ticket that must be 0 between products, as cuBLAS' split kernels keep one. */
static int library_multiply(void *handle, void *stream, void *workspace, const gemm_problem *problem) {
  enum { NOT_READY = 7 };
  const uint64_t *ticket = workspace;
  if (!handle || !stream || !workspace || *ticket != 0) return NOT_READY;
  *(gemm_stream *)stream = (gemm_stream){true, *problem};
  return 0;
}

static void run_stream(gemm_stream *stream) {
  assert_true(stream->has_work);
  const gemm_problem *p = &stream->problem;
  for (int64_t m = 0; m < p->m; m++)
    for (int64_t n = 0; n < p->n; n++) {
      float sum = 0;
      for (int64_t k = 0; k < p->k; k++) sum += p->a[m * p->a_stride + k] * p->b[n * p->b_stride + k];
      p->c[m * p->c_stride + n] = sum;
    }
}

static const gemm_library library = {library_create, library_destroy, WORKSPACE_BYTES, library_multiply};

static void *find_library(void *context, const char *name) {
  (void)context;
  return strcmp(name, "library.gemm@1") == 0 ? (void *)(uintptr_t)&library : NULL;
}

enum { GEMM_M = 4, GEMM_N = 3, GEMM_K = 7 };

static void make_gemm(hand *made, float *in, float *weight, float *out) {
  hand_open(made, TEST_PLUGIN("cublas_shape"), "matmul");
  made->device.kind = ORD_DEVICE_CUDA;
  made->host.find = find_library;
  hand_add(made, "in", ORD_INPUT, ORD_F32, 2, (const int64_t[]){GEMM_M, GEMM_K}, in);
  hand_add(made, "weight", ORD_WEIGHT, ORD_F32, 2, (const int64_t[]){GEMM_N, GEMM_K}, weight);
  hand_add(made, "out", ORD_OUTPUT, ORD_F32, 2, (const int64_t[]){GEMM_M, GEMM_N}, out);
}

static void test_library_call(void **unused) {
  (void)unused;
  static float in[GEMM_M * GEMM_K], weight[GEMM_N * GEMM_K], out[GEMM_M * GEMM_N], wanted[GEMM_M * GEMM_N];
  static uint64_t persistent[256 / sizeof(uint64_t)];
  const ord_epilogue gelu = {.op = "gelu_erf", .operand = {ORD_NONE, ORD_NONE}, .output = ORD_NONE};
  gemm_stream stream = {0};
  ord_gpu_stream on_gpu = {&stream};
  hand made;
  ord_plugin_error err;
  hand_fill(in, GEMM_M * GEMM_K);
  hand_fill(weight, GEMM_N * GEMM_K);
  for (int i = 0; i < GEMM_M * GEMM_N; i++)
    for (int k = 0; k < GEMM_K; k++) wanted[i] += in[i / GEMM_N * GEMM_K + k] * weight[i % GEMM_N * GEMM_K + k];
  make_gemm(&made, in, weight, out);
  made.persistent = persistent;
  made.stream = &on_gpu;
  made.node.epilogue = &gelu;
  made.node.epilogue_count = 1;
  assert_int_equal(hand_run(&made, &err), ORD_OK);
  assert_int_equal(made.answer.epilogue_served, 0);
  assert_int_equal(made.answer.flags, ORD_RUNS_LIBRARY);
  assert_true(out[0] == 0); /* it was only put on the stream */
  run_stream(&stream);
  hand_assert_near(out, wanted, GEMM_M * GEMM_N);
  assert_int_equal(handle_count, 0);
  hand_close(&made);
}

/* Each fault comes back as a status with the library's own code or a sentence, and leaves nothing behind. */
static void test_library_faults(void **unused) {
  (void)unused;
  static float in[GEMM_M * GEMM_K], weight[GEMM_N * GEMM_K], out[GEMM_M * GEMM_N];
  uint64_t persistent[256 / sizeof(uint64_t)] = {0};
  gemm_stream stream = {0};
  ord_gpu_stream on_gpu = {&stream};
  hand made;
  ord_plugin_error err;
  make_gemm(&made, in, weight, out);
  made.persistent = persistent;
  assert_int_equal(hand_run(&made, &err), ORD_DEVICE_FAILED); /* there is no stream */
  assert_int_equal(err.native, 7);
  made.stream = &on_gpu;
  made.is_out_of_memory = true;
  assert_int_equal(hand_run(&made, &err), ORD_NO_MEMORY);
  made.host.find = NULL;
  assert_int_equal(hand_run(&made, &err), ORD_DEVICE_FAILED);
  assert_non_null(strstr(err.text, "absent"));
  made.device.kind = ORD_DEVICE_CPU;
  hand_refuses(&made, "no device");
  assert_int_equal(handle_count, 0);
  hand_close(&made);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_q4_1_in_place), cmocka_unit_test(test_q4_1_extent),    cmocka_unit_test(test_two_phases),
      cmocka_unit_test(test_library_call),  cmocka_unit_test(test_library_faults),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
