/* SPDX-License-Identifier: MIT
 *
 * Plugin cublas on the simulated driver and the simulated cuBLAS: its kernel on the conformance rows of matmul, what a
 * capture of it holds, and what goes wrong before it runs.
 */
#include "conformance.h"
#include "cuda_plan.h"

#define PLUGIN ORDITO_BUILD_DIRECTORY "/lib/ordito/plugins/cublas.so"

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
  cuda_stage s = open_cuda_stage(PLUGIN, false);
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
};

static void serves(void **state) {
  (void)state;
  cuda_stage s = open_cuda_stage(PLUGIN, false);
  for (size_t i = 0; i < sizeof served / sizeof *served; i++)
    conformance_serves_on(s.plugin->kernel[0], &s.cases, served[i].operands, served[i].attributes);
  close_cuda_stage(&s);
}

static void test_serves(void **state) {
  (void)state;
  run_in_child("serves", serves, NULL);
}

/* The cast is all that the plugin brings as device code. */
static void serves_checked(void **state) {
  (void)state;
  cuda_stage s = open_cuda_stage(PLUGIN, true);
  for (size_t i = 0; i < sizeof served / sizeof *served; i++)
    if (strstr(served[i].attributes, "compute"))
      conformance_serves_on(s.plugin->kernel[0], &s.cases, served[i].operands, served[i].attributes);
  close_cuda_stage(&s);
}

static void test_serves_checked(void **state) {
  (void)state;
  run_in_child("serves, checked", serves_checked, NULL);
}

/* ---- capture ---- */

enum { ROWS = 12, DEPTH = 72, WIDTH = 40 };
enum { IN_AT = 0, WEIGHT_AT = 8192, BIAS_AT = 16384, OUT_AT = 20480, SCRATCH_AT = 24576, ARENA_BYTES = 1 << 18 };

static void set_operand(ord_operand *operand, const char *name, uint16_t role, uint16_t dtype, int64_t rows_or_width,
                        int64_t width) {
  const int64_t bytes = dtype == ORD_BF16 ? 2 : 4;
  *operand = (ord_operand){.name = name,
                           .role = role,
                           .dtype = dtype,
                           .rank = width ? 2 : 1,
                           .dim = {rows_or_width, width},
                           .stride = {width ? width * bytes : bytes, bytes},
                           .extent = {ORD_NONE, ORD_NONE},
                           .block_elements = 1,
                           .block_bytes = (uint16_t)bytes,
                           .align_log2 = 6};
}

/* in f32 by a weight in bf16, converted first, with a bias. */
static ord_step *add_product(hand_plan *h) {
  const ord_location place[] = {in(IN_AT), in(WEIGHT_AT), in(BIAS_AT), in(OUT_AT)};
  ord_step *step = add_bare_step(h, "layer.0", place, 4, 0);
  ord_operand *operand = h->operand[0];
  const ord_kernel *kernel = find_kernel(h->stage, "matmul_cublas");
  ord_plugin_error fault = {.struct_size = sizeof fault};
  static ord_pack pack[4];
  set_operand(&operand[0], "in", ORD_INPUT, ORD_F32, ROWS, DEPTH);
  set_operand(&operand[1], "weight", ORD_INPUT, ORD_BF16, WIDTH, DEPTH); /* as through a view */
  set_operand(&operand[2], "bias", ORD_INPUT, ORD_F32, WIDTH, 0);
  set_operand(&operand[3], "out", ORD_OUTPUT, ORD_F32, ROWS, WIDTH);
  step->node.op = "matmul";
  step->node.op_version = 1;
  step->node.compute = ORD_BF16;
  step->scratch_offset = SCRATCH_AT;
  step->choice = (ord_choice){.plugin = h->stage->plugin, .kernel = kernel};
  step->choice.answer = (ord_answer){.struct_size = sizeof(ord_answer), .pack = pack};
  assert_int_equal(kernel->query(kernel, &step->node, &step->choice.answer), ORD_OK);
  assert_true(step->choice.answer.flags & ORD_RUNS_LIBRARY);
  assert_true(SCRATCH_AT + step->choice.answer.scratch_bytes <= ARENA_BYTES);
  if (kernel->prepare(kernel, &step->node, &step->choice.answer, h->stage->host, &step->state, &fault) != ORD_OK)
    fail_msg("%s", fault.text);
  return step;
}

static void write_numbers(hand_plan *h, int seed, float *wanted) {
  float input[ROWS][DEPTH], bias[WIDTH];
  uint16_t weight[WIDTH][DEPTH];
  for (int row = 0; row < ROWS; row++) /* all of it exact in bf16 */
    for (int k = 0; k < DEPTH; k++) input[row][k] = (float)((row * 7 + k * 5 + seed) % 9 - 4) / 4.0f;
  for (int row = 0; row < WIDTH; row++)
    for (int k = 0; k < DEPTH; k++) weight[row][k] = (row * 5 + k + seed) % 3 == 0 ? 0x3f80 : 0xbf00; /* 1, -0.5 */
  for (int i = 0; i < WIDTH; i++) bias[i] = (float)i;
  for (int row = 0; row < ROWS; row++)
    for (int column = 0; column < WIDTH; column++) {
      float sum = bias[column];
      for (int k = 0; k < DEPTH; k++) sum += input[row][k] * (weight[column][k] == 0x3f80 ? 1.0f : -0.5f);
      wanted[row * WIDTH + column] = sum; /* every order of the sum gives these bits */
    }
  put(h, in_arena(h, IN_AT), input, sizeof input);
  put(h, in_arena(h, WEIGHT_AT), weight, sizeof weight);
  put(h, in_arena(h, BIAS_AT), bias, sizeof bias);
}

static void captures(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  cuda_stage stage = open_cuda_stage(PLUGIN, false);
  const plan_stage s = {stage.device, stage.device->table, stage.registry, ord_registry_get(stage.registry, 0),
                        stage.cases.host};
  hand_plan *h = open_hand_plan(&s, ARENA_BYTES, 1);
  const ord_step *step = add_product(h);
  static float wanted[ROWS * WIDTH], got[ROWS * WIDTH];
  ord_capture *captured = NULL;
  write_numbers(h, 0, wanted);
  MUST(s.table->run_eager(h->queue, &h->plan, &h->memory, NULL, &err));
  get(h, got, in_arena(h, OUT_AT), sizeof got);
  assert_memory_equal(got, wanted, sizeof got);
  MUST(s.table->capture(h->queue, &h->plan, &h->memory, &captured, &err));
  assert_int_equal(captured->report.library_count, 1);
  assert_true(captured->report.node_count >= 2 &&
              captured->report.node_count <= step->choice.answer.phase_count + 1); /* and the child that holds them */
  for (int seed = 1; seed < 4; seed++) {
    write_numbers(h, seed, wanted);
    MUST(s.table->replay(h->queue, captured, NULL, &err));
    get(h, got, in_arena(h, OUT_AT), sizeof got);
    assert_memory_equal(got, wanted, sizeof got);
  }
  s.table->capture_destroy(captured);
  close_hand_plan(h);
  close_cuda_stage(&stage);
}

static void test_captures(void **state) {
  (void)state;
  run_in_all_orders("captures", captures);
}

/* ---- what goes wrong before it runs ---- */

static const char *named_library;
static void *find_named(void *context, const char *name) {
  (void)context;
  assert_string_equal(name, "library.cublasLt@1");
  return (void *)(uintptr_t)named_library;
}

static int allocations_left, live;
static void *allocate_some(void *context, size_t bytes, size_t align) {
  (void)context;
  if (allocations_left-- <= 0) return NULL;
  live++;
  return aligned_alloc(align, (bytes + align - 1) / align * align);
}
static void release_one(void *context, void *memory) {
  (void)context;
  if (memory) live--;
  free(memory);
}

static void refuse_to_launch(ord_host *host, const char *part) {
  cuda_stage s = open_cuda_stage(PLUGIN, false);
  const ord_kernel *kernel = s.plugin->kernel[0];
  static ord_pack pack[4];
  ord_operand operand[3];
  set_operand(&operand[0], "in", ORD_INPUT, ORD_F32, ROWS, DEPTH);
  set_operand(&operand[1], "weight", ORD_INPUT, ORD_BF16, WIDTH, DEPTH);
  set_operand(&operand[2], "out", ORD_OUTPUT, ORD_F32, ROWS, WIDTH);
  const ord_node node = {.struct_size = sizeof node,
                         .op_version = 1,
                         .op = "matmul",
                         .operand_count = 3,
                         .compute = ORD_BF16,
                         .operand = operand,
                         .device = &s.device->info};
  ord_answer answer = {.struct_size = sizeof answer, .pack = pack};
  ord_plugin_error fault = {.struct_size = sizeof fault};
  void *made = NULL;
  const ord_host changed = *host;
  *host = *s.cases.host;
  if (changed.find) host->find = changed.find;
  if (changed.allocate) host->allocate = changed.allocate, host->release = changed.release;
  assert_int_equal(kernel->query(kernel, &node, &answer), ORD_OK);
  assert_int_not_equal(kernel->prepare(kernel, &node, &answer, host, &made, &fault), ORD_OK);
  if (!strstr(fault.text, part)) fail_msg("said '%s'; wanted '%s'", fault.text, part);
  assert_null(made);
  kernel->retire(NULL);
  close_cuda_stage(&s);
}

static void libraries_that_are_none(void **state) {
  (void)state;
  static const struct {
    const char *file, *says;
  } row[] = {{NULL, "the host names no library.cublasLt@1"},
             {"/nowhere/libcublasLt.so.13", "cuBLASLt cannot be opened: /nowhere/libcublasLt.so.13"},
             {"libm.so.6", "libm.so.6 lacks cublasLtCreate"}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_host host = {.find = find_named};
    named_library = row[i].file;
    refuse_to_launch(&host, row[i].says);
  }
}

static void test_libraries_that_are_none(void **state) {
  (void)state;
  run_in_child("libraries that are none", libraries_that_are_none, NULL);
}

static void no_memory(void **state) {
  (void)state;
  ord_host host = {.allocate = allocate_some, .release = release_one};
  refuse_to_launch(&host, "out of memory");
  allocations_left = 1;
  host = (ord_host){.allocate = allocate_some, .release = release_one, .find = find_named};
  named_library = NULL;
  refuse_to_launch(&host, "names no library"); /* what was made so far is released */
  assert_int_equal(allocations_left, 0);
  assert_int_equal(live, 0);
}

static void test_no_memory(void **state) {
  (void)state;
  run_in_child("no memory", no_memory, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows),
      cmocka_unit_test(test_serves),
      cmocka_unit_test(test_serves_checked),
      cmocka_unit_test(test_captures),
      cmocka_unit_test(test_libraries_that_are_none),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
