/* SPDX-License-Identifier: MIT
 *
 * Plugin cublas with the cuBLAS of the driver, simulated or real: its kernel on the conformance rows of matmul, what a
 * capture of it holds, and what goes wrong before it runs.
 */
#include "conformance.h"
#include "cublas_node.h"
#include "cuda_plan.h"

static cuda_stage open_cublas_stage(bool is_checked) {
  if (!cuda_options()->is_simulated && !dlopen(cuda_options()->cublas_lt, RTLD_LAZY))
    skip_because("cuBLASLt of CUDA 13 is not found");
  return open_cuda_stage(CUBLAS_PLUGIN, is_checked);
}

/* ---- conformance ---- */

static const char *const reasons[] = {"a product with 'by'",
                                      "wanted f32, f16 or bf16",
                                      "wanted equal types",
                                      "wanted the result's",
                                      "out has gaps between its numbers, or turned axes",
                                      "do not follow one another evenly",
                                      "epilogue items",
                                      NULL};

static void rows(void **state) {
  (void)state;
  cuda_stage s = open_cublas_stage(false);
  conformance_run_on(s.plugin->kernel[0], &s.cases, reasons);
  close_cuda_stage(&s);
}

static void test_rows(void **state) {
  (void)state;
  run_in_child("rows", rows, NULL);
}

/* Without the refusals that conformance_run_on allows. */
static const struct {
  const char *operands, *attributes;
} served[] = {
    {"in[$,64] weight[48,64] bias[48]", "$=1,2,8,9,33"},
    {"in[33,320] weight[65,320] bias[65]", ""}, /* an odd number of outputs */
    {"in[9,33] weight[257,33]", ""},
    {"in[1,1] weight[1,1] bias[1]", ""},
    {"in[5,65] weight:f16[34,65] bias:bf16[34]", ""},
    {"in[5,$] weight:bf16[34,$]", "$=1,7,8,64,65"},
    {"in[5,$] weight:bf16[34,$] bias[34]", "compute=bf16 $=1,7,8,63,64,65,128"},
    {"in[5,65] weight[34,65]", "compute=bf16"},
    {"in[5,65] weight:f16[34,65]", "compute=bf16"},
    {"in[5,$] weight:f16[34,$]", "compute=f16 $=7,8,65"},
    {"in:f16[9,72] weight:f16[34,72]", ""},
    {"in:bf16[9,72] weight:bf16[34,72]", ""},
    {"in:bf16[9,72] weight[34,72]", "compute=bf16"},
    {"in[3,65] weight^[33,65] bias[33]", ""},
    {"in[3,65] weight+[33,65] bias+[33]", ""},
    {"in^[9,65] weight[33,65]", ""},
    {"in^[9,65] weight[33,65]", "compute=bf16"},
    {"in+[9,65] weight[33,65]", ""},
    {"in[3,65] weight[16|8|8,65] bias[16|8|8]", ""},
    {"in[2,3,4,65] weight[33,65] bias[33]", ""},
    {"in[65] weight[33,65] bias[33]", ""},
    {"in[2,3/8,64] weight:bf16[33,64]", ""},
    {"in[2,3/8,64] weight:bf16[33,64]", "compute=bf16"},
    {"in[3,65] weight[33,65]", "epilogue=add(b[33])"},
    {"in[3,65] weight[33,65]", "epilogue=add(residual[3,33])"},
    {"in[9,64] weight[32,64] bias[32]", "epilogue=add(residual[9,32])"},
    {"in[9,64] weight[32,64]", "epilogue=add(residual[9,32])+add(b[32])"},
    {"in[9,64] weight:bf16[32,64]", "compute=bf16 epilogue=add(b[32])+add(residual[9,32])"},
    {"in[9,64] weight[1,64]", "epilogue=add(residual[9,1])"},
    {"in[9,64] weight^[48,64]", ""},
    {"in[9,64] weight[16|8|8,64]", ""},
    {"in[5,$] weight[34,$] bias[34]", "compute=tf32 $=1,7,8,63,64,65,128"},
    {"in[9,64] weight:bf16[32,64]", "compute=tf32 epilogue=add(residual[9,32])"},
    {"in:bf16[9,72] weight:bf16[34,72]", "compute=tf32"}, /* exact, as for f32 */
};

static const struct {
  const char *operands, *attributes;
} refused[] = {
    {"in[9,64] weight[32,64] bias[32]", "epilogue=add(b[32])"},
    {"in[9,64] weight[32,64]", "epilogue=add(residual[9,32])+add(other[9,32])"},
    {"in[9,64] weight[32,64]", "epilogue=add(residual[9,32])>+add(b[32])"},
    {"in[9,64] weight[32,64]", "epilogue=mul(gate[9,32])"},
};

static void serves(void **state) {
  (void)state;
  cuda_stage s = open_cublas_stage(false);
  for (size_t i = 0; i < sizeof served / sizeof *served; i++)
    conformance_serves_on(s.plugin->kernel[0], &s.cases, served[i].operands, served[i].attributes);
  close_cuda_stage(&s);
}

static void test_serves(void **state) {
  (void)state;
  run_in_child("serves", serves, NULL);
}

static void refuses(void **state) {
  (void)state;
  cuda_stage s = open_cuda_stage(CUBLAS_PLUGIN, false);
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    const ord_case row = {refused[i].operands, refused[i].attributes};
    ord_error err = ORD_ERROR_INIT;
    ord_case_result result;
    MUST(ord_case_run(ord_op_find("matmul"), &row, s.plugin->kernel[0], &s.cases, &result, &err));
    if (result.verdict != ORD_CASE_REFUSED || !strstr(result.text, "epilogue items"))
      fail_msg("%s: %s", row.attributes, result.text);
  }
  close_cuda_stage(&s);
}

static void test_refuses(void **state) {
  (void)state;
  run_in_child("refuses", refuses, NULL);
}

/* The cast is all that the plugin brings as device code. */
static void serves_checked(void **state) {
  (void)state;
  cuda_stage s = open_cublas_stage(true);
  for (size_t i = 0; i < sizeof served / sizeof *served; i++)
    if (strstr(served[i].attributes, "compute"))
      conformance_serves_on(s.plugin->kernel[0], &s.cases, served[i].operands, served[i].attributes);
  close_cuda_stage(&s);
}

static void test_serves_checked(void **state) {
  (void)state;
  run_in_child("serves, checked", serves_checked, NULL);
}

/* ---- a node by hand: in f32 by a weight that is seen through a view, converted first ---- */

enum { IN_AT = 0, WEIGHT_AT = 16384, BIAS_AT = 24576, OUT_AT = 28672, SCRATCH_AT = 32768 };
enum { SCRATCH_BYTES = 255 + (64 << 10) + ROWS * DEPTH * 2, ARENA_BYTES = SCRATCH_AT + 64 + SCRATCH_BYTES };

typedef struct variant {
  size_t offset;       /* of the numbers from addresses that are well aligned, in numbers */
  bool has_wide_input; /* rows of it lie 4 numbers apart, numbers of a row 48 */
  bool adds_to_result; /* a residual, which lies where the result goes */
} variant;

static const ord_epilogue add_residual = {.op = "add", .operand = {RESIDUAL, ORD_NONE}, .output = ORD_NONE};

static ord_step *add_product(hand_plan *h, const variant *how) {
  const size_t off = 4 * how->offset;
  const ord_location place[] = {in(IN_AT + off), in(WEIGHT_AT + off / 2), in(BIAS_AT + off), in(OUT_AT + off),
                                in(OUT_AT + off)};
  ord_step *step = add_bare_step(h, "layer.0", place, OPERANDS, 0);
  ord_operand *operand = h->operand[0];
  const ord_kernel *kernel = find_kernel(h->stage, "matmul_cublas");
  ord_plugin_error fault = {.struct_size = sizeof fault};
  static ord_pack pack[OPERANDS];
  set_operands(operand);
  if (how->offset)
    for (uint32_t i = 0; i < OPERANDS; i++) operand[i].align_log2 = i == WEIGHT ? 1 : 2;
  if (how->has_wide_input) operand[IN].stride[0] = 4 * 4, operand[IN].stride[1] = 48 * 4;
  step->node.op = "matmul";
  step->node.op_version = 1;
  step->node.compute = ORD_BF16;
  step->node.epilogue = &add_residual;
  step->node.epilogue_count = how->adds_to_result;
  step->scratch_offset = SCRATCH_AT + 64;
  step->choice = (ord_choice){.plugin = h->stage->plugin, .kernel = kernel};
  step->choice.answer =
      (ord_answer){.struct_size = sizeof(ord_answer), .pack = pack, .epilogue_served = how->adds_to_result};
  assert_int_equal(kernel->query(kernel, &step->node, &step->choice.answer), ORD_OK);
  assert_int_equal(step->choice.answer.flags, ORD_RUNS_LIBRARY);
  assert_int_equal(step->choice.answer.scratch_bytes, SCRATCH_BYTES);
  assert_int_equal(step->choice.answer.epilogue_served, how->adds_to_result);
  assert_int_equal(step->choice.answer.alias_mask, how->adds_to_result ? 1u << RESIDUAL : 0);
  if (kernel->prepare(kernel, &step->node, &step->choice.answer, h->stage->host, &step->state, &fault) != ORD_OK)
    fail_msg("%s", fault.text);
  return step;
}

/* All numbers are exact in bf16, and so small that every order of a sum gives the same bits. */
static void write_numbers(hand_plan *h, const variant *how, int seed, float *wanted) {
  static float input[48 * DEPTH], bias[WIDTH], before[ROWS * WIDTH];
  static uint16_t weight[WIDTH][DEPTH];
  const size_t off = 4 * how->offset;
  const int row_step = how->has_wide_input ? 4 : DEPTH, number_step = how->has_wide_input ? 48 : 1;
  for (int row = 0; row < ROWS; row++)
    for (int k = 0; k < DEPTH; k++)
      input[row * row_step + k * number_step] = (float)((row * 7 + k * 5 + seed) % 9 - 4) / 4.0f;
  for (int row = 0; row < WIDTH; row++)
    for (int k = 0; k < DEPTH; k++) weight[row][k] = (row * 5 + k + seed) % 3 == 0 ? 0x3f80 : 0xbf00; /* 1, -0.5 */
  for (int i = 0; i < WIDTH; i++) bias[i] = (float)i;
  for (int row = 0; row < ROWS; row++)
    for (int column = 0; column < WIDTH; column++) {
      before[row * WIDTH + column] = (float)(row - column);
      float sum = bias[column] + (how->adds_to_result ? before[row * WIDTH + column] : 0);
      for (int k = 0; k < DEPTH; k++)
        sum += input[row * row_step + k * number_step] * (weight[column][k] == 0x3f80 ? 1.0f : -0.5f);
      wanted[row * WIDTH + column] = sum;
    }
  put(h, in_arena(h, IN_AT + off), input, sizeof input);
  put(h, in_arena(h, WEIGHT_AT + off / 2), weight, sizeof weight);
  put(h, in_arena(h, BIAS_AT + off), bias, sizeof bias);
  put(h, in_arena(h, OUT_AT + off), before, sizeof before);
}

static void assert_result(hand_plan *h, const variant *how, const float *wanted) {
  static float got[ROWS * WIDTH];
  get(h, got, in_arena(h, OUT_AT + 4 * how->offset), sizeof got);
  assert_memory_equal(got, wanted, sizeof got);
}

static plan_stage plan_stage_of(const cuda_stage *stage) {
  return (plan_stage){stage->device, stage->device->table, stage->registry, ord_registry_get(stage->registry, 0),
                      stage->cases.host};
}

static void capture_variant(const variant *how) {
  ord_error err = ORD_ERROR_INIT;
  cuda_stage stage = open_cublas_stage(false);
  const plan_stage s = plan_stage_of(&stage);
  hand_plan *h = open_hand_plan(&s, ARENA_BYTES, 1);
  const ord_step *step = add_product(h, how);
  static float wanted[ROWS * WIDTH];
  ord_capture *captured = NULL;
  write_numbers(h, how, 0, wanted);
  MUST(s.table->run_eager(h->queue, &h->plan, &h->memory, NULL, &err));
  assert_result(h, how, wanted);
  MUST(s.table->capture(h->queue, &h->plan, &h->memory, &captured, &err));
  assert_int_equal(captured->report.library_count, 1);
  assert_true(captured->report.node_count >= 2 && captured->report.node_count <= step->choice.answer.phase_count);
  for (int seed = 1; seed < 4; seed++) {
    write_numbers(h, how, seed, wanted);
    MUST(s.table->replay(h->queue, captured, NULL, &err));
    assert_result(h, how, wanted);
  }
  s.table->capture_destroy(captured);
  close_hand_plan(h);
  close_cuda_stage(&stage);
}

static void captures(void **state) {
  (void)state;
  static const variant variants[] = {{0, false, false}, {1, false, false}, {0, true, false}, {0, false, true}};
  for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) capture_variant(&variants[i]);
}

static void test_captures(void **state) {
  (void)state;
  run_in_all_orders("captures", captures);
}

/* ---- a library that is none, or fails ---- */

#define COUNTING ORDITO_BUILD_DIRECTORY "/tests/counting_cublas.so"

static const char *named_library;
static void *find_named(void *context, const char *name) {
  (void)context;
  assert_string_equal(name, "library.cublasLt@1");
  return (void *)(uintptr_t)named_library;
}

static bool has_no_memory;
static int live;
static void *allocate_some(void *context, size_t bytes, size_t align) {
  (void)context;
  if (has_no_memory) return NULL;
  live++;
  return aligned_alloc(align, (bytes + align - 1) / align * align);
}
static void release_one(void *context, void *memory) {
  (void)context;
  if (memory) live--;
  free(memory);
}

/* The node of above with a residual, prepared with the library `named_library`. */
static ord_status prepare_named(cuda_stage *s, void **made, ord_plugin_error *fault) {
  static ord_operand operand[OPERANDS];
  static ord_pack pack[OPERANDS];
  static ord_node node;
  static ord_host host;
  const ord_kernel *kernel = s->plugin->kernel[0];
  set_operands(operand);
  node = node_of(operand, ORD_BF16);
  node.epilogue = &add_residual;
  node.epilogue_count = 1;
  ord_answer answer = {.struct_size = sizeof answer, .pack = pack, .epilogue_served = 1};
  host = *s->cases.host;
  host.find = find_named;
  host.allocate = allocate_some;
  host.release = release_one;
  *fault = (ord_plugin_error){.struct_size = sizeof *fault};
  *made = NULL;
  assert_int_equal(kernel->query(kernel, &node, &answer), ORD_OK);
  return kernel->prepare(kernel, &node, &answer, &host, made, fault);
}

static void refuse_to_prepare(cuda_stage *s, const char *part) {
  void *made = NULL;
  ord_plugin_error fault;
  assert_int_not_equal(prepare_named(s, &made, &fault), ORD_OK);
  if (!strstr(fault.text, part)) fail_msg("said '%s'; wanted '%s'", fault.text, part);
  assert_null(made);
  assert_int_equal(live, 0);
}

static void libraries_that_are_none(void **state) {
  (void)state;
  static const struct {
    const char *file, *says;
  } row[] = {{NULL, "the host names no library.cublasLt@1"},
             {"/nowhere/libcublasLt.so.13", "cuBLASLt cannot be opened: /nowhere/libcublasLt.so.13"},
             {"libm.so.6", "libm.so.6 lacks cublasLtCreate"}};
  cuda_stage s = open_cuda_stage(CUBLAS_PLUGIN, false);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    named_library = row[i].file;
    refuse_to_prepare(&s, row[i].says);
  }
  has_no_memory = true;
  refuse_to_prepare(&s, "out of memory");
  s.plugin->kernel[0]->retire(NULL);
  close_cuda_stage(&s);
}

static void test_libraries_that_are_none(void **state) {
  (void)state;
  run_in_child("libraries that are none", libraries_that_are_none, NULL);
}

static void every_call_fails(void **state) {
  (void)state;
  needs_simulator("its cuBLAS stands behind the one that fails");
  void *library = dlopen(COUNTING, RTLD_NOW | RTLD_LOCAL);
  assert_non_null(library);
  int *objects = dlsym(library, "counting_live"), *calls = dlsym(library, "counting_calls");
  int *fail_at = dlsym(library, "counting_fail_at");
  size_t *version = dlsym(library, "counting_version");
  cuda_stage s = open_cuda_stage(CUBLAS_PLUGIN, false);
  void *made = NULL;
  ord_plugin_error fault;
  ord_status status = ORD_INTERNAL;
  named_library = COUNTING;
  *version = 120900;
  refuse_to_prepare(&s, "is version 120900; wanted 13.x");
  *version = 0;
  for (*fail_at = 1; status != ORD_OK; ++*fail_at) {
    *calls = 0;
    status = prepare_named(&s, &made, &fault);
    if (status == ORD_OK && *fail_at <= *calls) { /* what fails must be of no consequence: destroying */
      s.plugin->kernel[0]->retire(made);
      status = ORD_INTERNAL;
      *objects = 0;
      continue;
    }
    if (status == ORD_OK) break;
    assert_int_equal(fault.native, 14);
    assert_memory_equal(fault.text, "cublasLt", 8);
    assert_int_equal(*objects, 0);
    assert_int_equal(live, 0);
  }
  assert_true(*calls > 14 && *objects == 6); /* handle, operation, four matrices */
  *fail_at = 0;
  s.plugin->kernel[0]->retire(made);
  assert_int_equal(*objects, 0);
  assert_int_equal(live, 0);
  close_cuda_stage(&s);
}

static void test_every_call_fails(void **state) {
  (void)state;
  run_in_child("every call fails", every_call_fails, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows),
      cmocka_unit_test(test_serves),
      cmocka_unit_test(test_refuses),
      cmocka_unit_test(test_serves_checked),
      cmocka_unit_test(test_captures),
      cmocka_unit_test(test_libraries_that_are_none),
      cmocka_unit_test(test_every_call_fails),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
