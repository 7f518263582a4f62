/* SPDX-License-Identifier: MIT
 *
 * The conformance harness: every reference passes its op's rows, kernels that are wrong in one way each are caught for
 * that, and rows that are written wrongly are told.
 */
#include "op_testing.h"

#include "ops/reference.h"

/* ---- kernels that are wrong -------------------------------------------------------------------------------------- */

typedef ord_status (*query_fn)(const ord_kernel *kernel, const ord_node *node, ord_answer *answer);
typedef ord_status (*launch_fn)(void *state, const ord_exec *exec, ord_plugin_error *err);

/* relu on a dense f32 vector, elements `begin` .. `end` - 1. */
static void relu_part(void *state, const ord_exec *exec, int64_t begin, int64_t end) {
  (void)state;
  const float *in = exec->operand[0];
  float *out = exec->operand[1];
  for (int64_t i = begin; i < end; i++) out[i] = in[i] < 0 ? 0 : in[i];
}

static int64_t length_of(const ord_node *node) { return node->operand[1].dim[0]; }

static ord_status right_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  (void)kernel;
  answer->phase_count = 1;
  answer->chunk_limit[0] = (uint32_t)length_of(node);
  answer->scratch_bytes = 16;
  answer->worker_bytes = 8;
  answer->persistent_bytes = 8;
  answer->alias_mask = 1;
  snprintf(answer->variant, sizeof answer->variant, "right");
  return ORD_OK;
}

static ord_status right_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  relu_part(state, exec, exec->chunk, (int64_t)exec->chunk + 1);
  memset(exec->scratch, 1, 16);
  return ORD_OK;
}

static ord_status epilogue_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  right_query(kernel, node, answer);
  answer->epilogue_served = 1;
  return ORD_OK;
}

static ord_status silent_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  (void)kernel, (void)node, (void)answer;
  return ORD_NO;
}

static ord_status refusing_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  (void)kernel;
  snprintf(answer->reason, sizeof answer->reason, "rank %u; wanted 7", node->operand[0].rank);
  return ORD_NO;
}

static ord_status odd_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  right_query(kernel, node, answer);
  return node->operand[0].dim[0] % 2 ? refusing_query(kernel, node, answer) : ORD_OK;
}

static ord_status moody_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  static uint32_t mood;
  right_query(kernel, node, answer);
  answer->scratch_bytes = mood++;
  return ORD_OK;
}

static ord_status greedy_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  right_query(kernel, node, answer);
  answer->worker_bytes = UINT64_MAX;
  return ORD_OK;
}

static ord_status no_phase_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  right_query(kernel, node, answer);
  answer->phase_count = 0;
  return ORD_OK;
}

static ord_status no_chunk_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  right_query(kernel, node, answer);
  answer->chunk_limit[0] = 0;
  return ORD_OK;
}

static ord_status pack_input_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  right_query(kernel, node, answer);
  answer->pack[0].key = 1;
  return ORD_OK;
}

static ord_status beyond_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  right_launch(state, exec, err);
  ((float *)exec->operand[1])[length_of(state)] = 0;
  return ORD_OK;
}

static ord_status before_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  right_launch(state, exec, err);
  ((float *)exec->operand[1])[-1] = 0;
  return ORD_OK;
}

static ord_status missing_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  return exec->chunk + 1 == exec->chunk_count ? ORD_OK : right_launch(state, exec, err);
}

static ord_status wrong_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  right_launch(state, exec, err);
  if (exec->chunk == 2) ((float *)exec->operand[1])[2] += 0.001f;
  return ORD_OK;
}

static ord_status input_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  right_launch(state, exec, err);
  ((float *)exec->operand[0])[0] += 1;
  return ORD_OK;
}

static ord_status scratch_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  right_launch(state, exec, err);
  ((char *)exec->scratch)[16] = 0;
  return ORD_OK;
}

static ord_status worker_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  right_launch(state, exec, err);
  ((char *)exec->worker)[-1] = 0;
  return ORD_OK;
}

static ord_status persistent_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  right_launch(state, exec, err);
  ((char *)exec->persistent)[8] = 0;
  return ORD_OK;
}

/* The second launch of the kernel's life gives other numbers. */
static ord_status stateful_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  right_launch(state, exec, err);
  int32_t *launches = exec->persistent;
  if (exec->chunk == 0) ((float *)exec->operand[1])[0] += (float)*launches * 1e-7f;
  if (exec->chunk + 1 == exec->chunk_count) ++*launches;
  return ORD_OK;
}

/* Each chunk needs what the one before it left. */
static ord_status ordered_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  if (exec->chunk == 0) *(uint32_t *)exec->scratch = 0;
  const bool is_in_order = *(uint32_t *)exec->scratch == exec->chunk;
  relu_part(state, exec, exec->chunk, (int64_t)exec->chunk + is_in_order);
  *(uint32_t *)exec->scratch = exec->chunk + 1;
  (void)err;
  return ORD_OK;
}

/* Right unless the result lies on top of the input. */
static ord_status unaliased_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  ((float *)exec->operand[1])[exec->chunk] = -1;
  return right_launch(state, exec, err);
}

static ord_status failing_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)state, (void)exec;
  snprintf(err->text, sizeof err->text, "the tile is full");
  return ORD_INTERNAL;
}

static void *volatile kept; /* reachable to the end: the finding is the row's, not LeakSanitizer's */

static ord_status leaking_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                                  const ord_host *host, void **state, ord_plugin_error *err) {
  kept = host->allocate(host->context, 24, 8);
  return ord_reference_prepare(kernel, node, answer, host, state, err);
}

static ord_status failing_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                                  const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel, (void)node, (void)answer, (void)host, (void)state;
  snprintf(err->text, sizeof err->text, "no handle");
  return ORD_DEVICE_FAILED;
}

static const struct {
  query_fn query;
  launch_fn launch;
  ord_case row;
  ord_case_verdict verdict;
  const char *text;
} relus[] = {
    {right_query, right_launch, {"in[5]", ""}, ORD_CASE_PASSED, ""},
    {right_query, right_launch, {"in[$]", "$=1..40"}, ORD_CASE_PASSED, ""},
    {refusing_query, right_launch, {"in[5]", ""}, ORD_CASE_REFUSED, "rank 1; wanted 7"},
    {right_query, right_launch, {"in[5]=1", "epilogue=tanh"}, ORD_CASE_FAILED, "out 0 [0]: found "},
    {epilogue_query, right_launch, {"in[5]", "epilogue=relu"}, ORD_CASE_PASSED, ""},
    {epilogue_query, right_launch, {"in[5]", "epilogue=relu+tanh"}, ORD_CASE_REFUSED, "serves 1 of 2 epilogue items"},
    {silent_query, right_launch, {"in[5]", ""}, ORD_CASE_FAILED, "query: refuses without a reason"},
    {moody_query, right_launch, {"in[5]", ""}, ORD_CASE_FAILED, "query: gives two answers to one question"},
    {no_phase_query, right_launch, {"in[5]", ""}, ORD_CASE_FAILED, "query: found 0 phases; wanted 1 to 8"},
    {no_chunk_query, right_launch, {"in[5]", ""}, ORD_CASE_FAILED, "query: phase 0 has no chunk"},
    {greedy_query,
     right_launch,
     {"in[5]", ""},
     ORD_CASE_FAILED,
     "query: wants 18446744073709551615 bytes of worker memory, more than this machine has"},
    {pack_input_query, right_launch, {"in[5]", ""}, ORD_CASE_FAILED, "query: operand 0 is packed and no weight"},
    {right_query, beyond_launch, {"in[5]", ""}, ORD_CASE_FAILED, "out: bytes outside the tensor were written"},
    {right_query, before_launch, {"in[5]", ""}, ORD_CASE_FAILED, "out: bytes outside the tensor were written"},
    {right_query,
     missing_launch,
     {"in[5]", ""},
     ORD_CASE_FAILED,
     "out 0 [4]: found -nan (not written, or read where nothing was); wanted "},
    {right_query,
     missing_launch,
     {"in[5]=nan", ""},
     ORD_CASE_FAILED,
     "out 0 [4]: found -nan (not written, or read where nothing was); wanted nan"},
    {right_query,
     wrong_launch,
     {"in[5]=1", ""},
     ORD_CASE_FAILED,
     "out 0 [2]: found 1.00100005; wanted 1 within 2.03e-06; 1 of 5 numbers are wrong"},
    {right_query, wrong_launch, {"in[$]=1", "$=1..9"}, ORD_CASE_FAILED, "$=3: out 0 [2]: found 1.00100005"},
    {right_query, input_launch, {"in[5]", ""}, ORD_CASE_FAILED, "in: an input was written"},
    {right_query,
     scratch_launch,
     {"in[5]", ""},
     ORD_CASE_FAILED,
     "scratch: 16 bytes were asked for, and bytes beyond them were written"},
    {right_query,
     worker_launch,
     {"in[5]", ""},
     ORD_CASE_FAILED,
     "worker: 8 bytes were asked for, and bytes beyond them were written"},
    {right_query,
     persistent_launch,
     {"in[5]", ""},
     ORD_CASE_FAILED,
     "persistent: 8 bytes were asked for, and bytes beyond them were written"},
    {right_query,
     stateful_launch,
     {"in[5]=1", ""},
     ORD_CASE_FAILED,
     "out: a second launch with its chunks in another order gives other bits"},
    {right_query,
     ordered_launch,
     {"in[5]=1", ""},
     ORD_CASE_FAILED,
     "out: a second launch with its chunks in another order gives other bits"},
    {right_query,
     unaliased_launch,
     {"in[5]=1", ""},
     ORD_CASE_FAILED,
     "with the result on top of in: out 0 [0]: found 0; wanted 1"},
    {right_query, failing_launch, {"in[5]", ""}, ORD_CASE_FAILED, "launch: status 5: the tile is full"},
};

static ord_case_result run(const char *op, const ord_case *row, const ord_kernel *kernel) {
  ord_case_result result;
  ord_error err = ORD_ERROR_INIT;
  if (!ord_case_run(ord_op_find(op), row, kernel, NULL, &result, &err)) fail_msg("%s: %s", row->operands, err.text);
  return result;
}

static void expect(const ord_case_result *result, ord_case_verdict verdict, const char *text) {
  if (result->verdict != verdict || strncmp(result->text, text, strlen(text)) != 0)
    fail_msg("found verdict %d '%s'; wanted %d '%s'", result->verdict, result->text, verdict, text);
}

static void test_wrong_kernels(void **state) {
  (void)state;
  for (size_t i = 0; i < op_testing_count(relus); i++) {
    const ord_kernel kernel = {.struct_size = sizeof kernel,
                               .name = "relu",
                               .op = "relu",
                               .query = relus[i].query,
                               .prepare = ord_reference_prepare,
                               .launch = relus[i].launch,
                               .retire = ord_reference_retire};
    const ord_case_result result = run("relu", &relus[i].row, &kernel);
    expect(&result, relus[i].verdict, relus[i].text);
  }
}

static void test_prepare(void **state) {
  (void)state;
  static const ord_case row = {"in[3]", ""};
  ord_kernel kernel = {.struct_size = sizeof kernel,
                       .query = right_query,
                       .prepare = leaking_prepare,
                       .launch = right_launch,
                       .retire = ord_reference_retire};
  ord_case_result result = run("relu", &row, &kernel);
  expect(&result, ORD_CASE_FAILED, "retire: 1 allocations are not released");
  kernel.prepare = failing_prepare;
  result = run("relu", &row, &kernel);
  expect(&result, ORD_CASE_FAILED, "prepare: status 4: no handle");
}

static void test_sweep_counts_refusals(void **state) {
  (void)state;
  static const ord_case row = {"in[$]", "$=1..4,6,9"};
  const ord_kernel kernel = {.struct_size = sizeof kernel,
                             .query = odd_query,
                             .prepare = ord_reference_prepare,
                             .launch = right_launch,
                             .retire = ord_reference_retire};
  const ord_case_result result = run("relu", &row, &kernel);
  expect(&result, ORD_CASE_PASSED, "rank 1; wanted 7");
  assert_int_equal(result.run_count, 6);
  assert_int_equal(result.refused_count, 3);
  assert_string_equal(result.variant, "right");
}

/* ---- packing --------------------------------------------------------------------------------------------------------
 */

/* matmul of one row, its weight packed transposed: [in, out]. */
static int64_t rows_beyond; /* how many rows more than there are does pack write */

static ord_status matmul_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  (void)kernel;
  const ord_operand *weight = &node->operand[1];
  answer->phase_count = 1;
  answer->chunk_limit[0] = 1;
  answer->pack[1] = (ord_pack){.key = 42, .bytes = (size_t)(weight->dim[0] * weight->dim[1]) * sizeof(float)};
  return ORD_OK;
}

static ord_status matmul_pack(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer, uint32_t which,
                              const void *const *segment, uint32_t slice, uint32_t slice_count, void *packed) {
  (void)kernel, (void)answer;
  const ord_operand *weight = &node->operand[which];
  int64_t row = 0;
  for (uint32_t i = 0; i < weight->segment_count; i++)
    for (int64_t j = 0; j < weight->segment[i].rows; j++, row++)
      for (int64_t k = 0; row % slice_count == slice && k < weight->dim[1]; k++)
        ((float *)packed)[k * weight->dim[0] + row] =
            *(const float *)((const char *)segment[i] + j * weight->stride[0] + k * weight->stride[1]);
  for (int64_t k = 0; k < rows_beyond; k++) ((float *)packed)[weight->dim[0] * weight->dim[1] + k] = 0;
  return ORD_OK;
}

static ord_status matmul_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const ord_node *node = state;
  const int64_t in = node->operand[1].dim[1], out = node->operand[1].dim[0];
  const float *x = exec->operand[0], *weight = exec->operand[1];
  float *y = exec->operand[ord_node_output(node, 0)];
  for (int64_t n = 0; n < out; n++) {
    float sum = 0;
    for (int64_t k = 0; k < in; k++) sum += x[k] * weight[k * out + n];
    y[n] = sum;
  }
  return ORD_OK;
}

static void test_pack(void **state) {
  (void)state;
  static const ord_case rows[] = {{"in[65] weight[7,65]", ""},
                                  {"in[65] weight[2|4|1,65]", ""},
                                  {"in[65] weight^[7,65]", ""},
                                  {"in[$] weight+[7,$]", "$=1..130"}};
  const ord_kernel kernel = {.struct_size = sizeof kernel,
                             .query = matmul_query,
                             .pack = matmul_pack,
                             .prepare = ord_reference_prepare,
                             .launch = matmul_launch,
                             .retire = ord_reference_retire};
  for (size_t i = 0; i < op_testing_count(rows); i++) {
    const ord_case_result result = run("matmul", &rows[i], &kernel);
    expect(&result, ORD_CASE_PASSED, "");
    assert_true(result.error > 0 && result.error < 0.5);
  }
  rows_beyond = 1;
  const ord_case_result result = run("matmul", &rows[0], &kernel);
  rows_beyond = 0;
  expect(&result, ORD_CASE_FAILED, "pack: 1820 bytes were asked for, and bytes beyond them were written");
}

/* ---- rows ---------------------------------------------------------------------------------------------------------
 */

static void test_references(void **state) {
  (void)state;
  for (uint32_t i = 0; i < ord_op_count(); i++) op_testing_cases(ord_op_get(i));
}

/* The numbers of an epilogue and its own outputs. */
static void test_epilogue(void **state) {
  (void)state;
  static const op_value_row rows[] = {
      {"in[2,1]=1,2 weight[1,1]=3", "epilogue=add(r[2,1]=10,20)", 0, "13 26"},
      {"in[2,1]=1,2 weight[1,1]=3", "epilogue=add(r[2,1]=10,20)>+mul(g[1]=-1)+relu", 0, "0 0"},
      {"in[2,1]=1,2 weight[1,1]=3", "epilogue=add(r[2,1]=10,20)>+mul(g[1]=-1)+relu", 1, "13 26"},
      {"in[1,2/4,2]=1,-1,2,4,9,9,9,9 weight[2,2]=1,0,0,1", "epilogue=layernorm(w[2]=2,3,b[2]=0,1;eps=0)", 0,
       "2 -2 -2 4"},
  };
  op_testing_values(ord_op_find("matmul"), rows, op_testing_count(rows), 1e-6);
}

static void test_contents(void **state) {
  (void)state;
  static const op_value_row rows[] = {{"in+[2,2]=1,2", "shape=4", 0, "1 2 1 2"},
                                      {"in^:i32[2]<1", "shape=1,2", 0, "0 0"},
                                      {"in:bool[3]=0,5,0", "shape=3", 0, "0 1 0"},
                                      {"in[3]=inf,-inf,-0", "shape=3", 0, "inf -inf 0"}};
  op_testing_values(ord_op_find("reshape"), rows, op_testing_count(rows), 0);
  ord_arena arena = {0};
  ord_case_values a, b;
  static const ord_case row = {"in[50]", "shape=50"};
  assert_true(ord_case_compute(ord_op_find("reshape"), &row, 0, &arena, &a, NULL));
  assert_true(ord_case_compute(ord_op_find("reshape"), &row, 0, &arena, &b, NULL));
  assert_memory_equal(a.value, b.value, 50 * sizeof *a.value);
  double sum = 0;
  for (int i = 0; i < 50; i++) sum += a.value[i] / 50;
  assert_true(fabs(sum) < 0.3 && a.value[0] != a.value[1]);
  assert_false(ord_case_compute(ord_op_find("reshape"), &row, 1, &arena, &a, NULL));
  ord_arena_finish(&arena);
}

/* Tables of every storage type hold numbers of both signs between -1 and 1. */
static void test_quantised_contents(void **state) {
  (void)state;
  static const char *const rows[] = {"in:i32[1]<1 weight:i8[1,64]", "in:i32[1]<1 weight:q8_0[1,64]",
                                     "in:i32[1]<1 weight:q4_0[1,64]", "in:i32[1]<1 weight:q4_1[1,64]",
                                     "in:i32[1]<1 weight:bf16[1,64]"};
  for (size_t i = 0; i < op_testing_count(rows); i++) {
    ord_arena arena = {0};
    ord_error err = ORD_ERROR_INIT;
    ord_case_values values;
    const ord_case row = {rows[i], ""};
    if (!ord_case_compute(ord_op_find("embedding"), &row, 0, &arena, &values, &err)) fail_msg("%s", err.text);
    double low = 0, high = 0;
    for (int64_t k = 0; k < values.count; k++) {
      low = fmin(low, values.value[k]);
      high = fmax(high, values.value[k]);
    }
    if (low > -0.3 || low < -1.01 || high < 0.3 || high > 1.01) fail_msg("%s: %g to %g", rows[i], low, high);
    ord_arena_finish(&arena);
  }
}

static void test_wrong_rows(void **state) {
  (void)state;
  static const struct {
    const char *op, *operands, *attributes, *text;
  } rows[] = {
      {"softmax", "x[3]", "", "case 'x[3]' '' of softmax: 'x' is no slot"},
      {"softmax", "in[3", "", "case 'in[3' '' of softmax: found ''; wanted ]"},
      {"softmax", "in:f33[3]", "", "case 'in:f33[3]' '' of softmax: 'f33' is no type"},
      {"softmax", "in[1,1,1,1,1,1,1]", "", "case 'in[1,1,1,1,1,1,1]' '' of softmax: more than 6 axes"},
      {"softmax", "in[3]", "axes=1", "case 'in[3]' 'axes=1' of softmax: 'axes' is no attribute"},
      {"softmax", "in[3]", "axis=0 axis=0", "case 'in[3]' 'axis=0 axis=0' of softmax: 'axis' is given twice"},
      {"softmax", "in[5/3]", "", "case 'in[5/3]' '' of softmax: axis 0 of 'in' has no size"},
      {"softmax", "in[1000000,1000000]", "", "case 'in[1000000,1000000]' '' of softmax: 'in' is too large for a case"},
      {"softmax", "in[3]", "epilogue=what", "case 'in[3]' 'epilogue=what' of softmax: 'what' is no op"},
      {"softmax", "in[3]", "axis=1", "softmax: axis 1 lies outside a tensor of 1 axes; wanted -1 to 0"},
      {"pool", "in[1,2,3]", "", "case 'in[1,2,3]' '' of pool: pool lacks 'kind'; wanted mean, first or last"},
      {"pool", "in[1,2/4]", "kind=mean", "pool: in 'in' [1, r0] has 2 axes; wanted [batch, tokens, width]"},
      {"embedding", "in:i32[2] weight^:q8_0[4,32]", "",
       "case 'in:i32[2] weight^:q8_0[4,32]' '' of embedding: 'weight' of blocks cannot be reversed"},
      {"embedding", "in:i32[2] weight:q4_0[4,33]", "",
       "case 'in:i32[2] weight:q4_0[4,33]' '' of embedding: 'weight' is not made of whole blocks"},
  };
  for (size_t i = 0; i < op_testing_count(rows); i++) {
    const ord_op *op = ord_op_find(rows[i].op);
    const ord_case row = {rows[i].operands, rows[i].attributes};
    ord_case_result result;
    ord_error err = ORD_ERROR_INIT;
    assert_false(ord_case_run(op, &row, op->reference, NULL, &result, &err));
    assert_string_equal(err.text, rows[i].text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_wrong_kernels),
                                     cmocka_unit_test(test_prepare),
                                     cmocka_unit_test(test_sweep_counts_refusals),
                                     cmocka_unit_test(test_pack),
                                     cmocka_unit_test(test_references),
                                     cmocka_unit_test(test_epilogue),
                                     cmocka_unit_test(test_contents),
                                     cmocka_unit_test(test_quantised_contents),
                                     cmocka_unit_test(test_wrong_rows)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
