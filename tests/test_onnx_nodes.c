/* SPDX-License-Identifier: MIT
 *
 * The ops against the ONNX standard's own node cases (data/onnx_nodes): each case is written as a model, run through
 * ordito.h and compared within the tolerance that the standard states. Once with the reference kernels alone, so that
 * they are not their own judge, and once with the plugins.
 */
#include <glob.h>
#include <math.h>

#include "fixture.h"
#include "onnx/translate.h"
#include "ordito_measure.h"

#define CASES ORDITO_SOURCE_DIRECTORY "/tests/data/onnx_nodes/*/*/case.yaml"
enum { CASE_COUNT = 146 };

/* The cases that the format cannot say. */
static const struct {
  const char *name, *reason;
} left_out[] = {
    {"slice_neg_steps", "a slice has no negative step"},
};
enum { LEFT_OUT_COUNT = sizeof left_out / sizeof *left_out };

/* One walk over all cases. */
typedef struct onnx_round {
  const char *name;
  int threads;
  plugin_set plugins;
  ord_context *context;
  uint32_t passed, left_out;
  uint32_t steps, plugin_steps; /* of the plans; those that a plugin's kernel served */
} onnx_round;

typedef struct onnx_task {
  onnx_round *round;
  const char *file;
} onnx_task;

/* ---- running --------------------------------------------------------------------------------------------------- */

/* Indices are int64 in ONNX, i32 here. */
static void set_input(ord_session *session, const char *name, const onnx_array *array) {
  ord_tensor tensor = {.struct_size = sizeof tensor,
                       .dtype = array->dtype,
                       .rank = array->rank,
                       .data = array->data,
                       .bytes = array->bytes};
  memcpy(tensor.dim, array->dim, sizeof array->dim);
  int32_t index[64];
  if (array->dtype == ORD_I64) {
    assert_true(array->count <= (int64_t)(sizeof index / sizeof *index));
    for (int64_t i = 0; i < array->count; i++) index[i] = (int32_t)((const int64_t *)array->data)[i];
    tensor.dtype = ORD_I32;
    tensor.data = index;
    tensor.bytes = (size_t)array->count * sizeof *index;
  }
  ord_error err = ORD_ERROR_INIT;
  MUST(ord_session_set(session, name, &tensor, &err));
}

static double element(uint32_t dtype, const void *data, int64_t i) {
  if (dtype == ORD_F32) return ((const float *)data)[i];
  const uint16_t bits = ((const uint16_t *)data)[i];
  return dtype == ORD_F16 ? ord_f16_to_f32(bits) : ord_bf16_to_f32(bits);
}

/* What a value may be off beyond the case's own tolerance. The standard's reference rounds to bf16 after each of its
 * operations, so that its bf16 values lie up to 1.7 steps of bf16 from the exact ones: no tolerance of a thousandth, a
 * quarter of a step, fits them. With f16, whose step is smaller than a thousandth, nothing is needed. */
static double rounding_of(uint32_t dtype, double wanted) {
  enum { BF16_BITS = 8, STEPS = 2 };
  int exponent;
  frexp(wanted, &exponent);
  return dtype == ORD_BF16 ? ldexp(STEPS, exponent - BF16_BITS) : 0;
}

static void compare(const onnx_case *node, const char *name, const ord_tensor *got, const onnx_array *want) {
  if (got->dtype != want->dtype)
    fail_msg("%s: found %s; wanted %s", name, ord_dtype_name((ord_dtype)got->dtype), ord_dtype_name(want->dtype));
  assert_int_equal(got->rank, want->rank);
  for (uint32_t axis = 0; axis < want->rank; axis++) assert_int_equal(got->dim[axis], want->dim[axis]);
  for (int64_t i = 0; i < want->count; i++) {
    const double found = element(got->dtype, got->data, i), wanted = element(want->dtype, want->data, i);
    const double allowed = node->atol + node->rtol * fabs(wanted) + rounding_of(want->dtype, wanted);
    if (!(fabs(found - wanted) <= allowed))
      fail_msg("%s[%lld]: found %.9g; wanted %.9g, at most %.3g off", name, (long long)i, found, wanted, allowed);
  }
}

static void count_kernels(onnx_round *round, const ord_session *session) {
  ord_step_time step = {.struct_size = sizeof step};
  for (uint32_t i = 0; ord_session_step_time(session, i, &step); i++) {
    round->steps++;
    round->plugin_steps += !strstr(step.kernel, "_reference");
  }
}

static void run_model(onnx_round *round, const onnx_case *node, const onnx_model *written) {
  ord_error err = ORD_ERROR_INIT;
  ord_model *model = NULL;
  MUST(ord_model_load_text(round->context, node->name, written->text.bytes, written->text.length, NULL, &model, NULL,
                           &err));
  ord_session *session = open_session(model, NULL);
  for (uint32_t i = 0; i < node->input_count; i++)
    if (written->has_input[i]) set_input(session, onnx_input_name[i], &node->input[i]);
  MUST(ord_session_run(session, &err));
  for (uint32_t i = 0; i < node->output_count; i++) {
    ord_tensor got = {.struct_size = sizeof got};
    if (!written->has_output[i]) continue;
    MUST(ord_session_get(session, onnx_output_name[i], &got, &err));
    compare(node, onnx_output_name[i], &got, &node->output[i]);
  }
  count_kernels(round, session);
  ord_session_destroy(session);
  ord_model_destroy(model);
}

/* ---- the tests ------------------------------------------------------------------------------------------------- */

static const char *reason_to_leave_out(const char *name) {
  for (size_t i = 0; i < LEFT_OUT_COUNT; i++)
    if (strcmp(left_out[i].name, name) == 0) return left_out[i].reason;
  return NULL;
}

static void test_node(void **state) {
  const onnx_task *task = *state;
  onnx_round *round = task->round;
  if (!round->context) round->context = open_context(round->threads, round->plugins);
  onnx_case node;
  onnx_model model;
  onnx_case_read(task->file, &node);
  onnx_translate(&node, &model);
  if (model.left_out) {
    print_message("left out: %s: %s\n", node.name, model.left_out);
    assert_non_null(reason_to_leave_out(node.name));
    assert_string_equal(model.left_out, reason_to_leave_out(node.name));
    round->left_out++;
  } else {
    if (reason_to_leave_out(node.name)) fail_msg("%s can be written, but is listed as left out", node.name);
    assert_true(model.has_output[0]);
    run_model(round, &node, &model);
    round->passed++;
  }
  onnx_model_finish(&model);
  onnx_case_finish(&node);
}

static void test_counts(void **state) {
  const onnx_task *task = *state;
  const onnx_round *round = task->round;
  print_message("%s: %u of %d cases passed, %u left out; plugins served %u of %u steps\n", round->name, round->passed,
                CASE_COUNT, round->left_out, round->plugin_steps, round->steps);
  assert_int_equal(round->left_out, LEFT_OUT_COUNT);
  assert_int_equal(round->passed, CASE_COUNT - LEFT_OUT_COUNT);
  if (round->plugins != NO_PLUGINS)
    assert_true(round->plugin_steps > round->steps / 2);
  else
    assert_int_equal(round->plugin_steps, 0);
}

/* The folder that the file lies in. */
static char *case_name(const char *file) {
  const char *end = strrchr(file, '/');
  const char *start = memrchr(file, '/', (size_t)(end - file));
  return strndup(start + 1, (size_t)(end - start - 1));
}

static int run_round(onnx_round *round, const glob_t *found) {
  struct CMUnitTest *tests = calloc(found->gl_pathc + 1, sizeof *tests);
  onnx_task *tasks = calloc(found->gl_pathc + 1, sizeof *tasks);
  if (!tests || !tasks) return 1;
  for (size_t i = 0; i <= found->gl_pathc; i++) {
    tasks[i] = (onnx_task){.round = round, .file = found->gl_pathv[i]};
    tests[i] = (struct CMUnitTest){.name = tasks[i].file ? case_name(found->gl_pathv[i]) : strdup("counts"),
                                   .test_func = tasks[i].file ? test_node : test_counts,
                                   .initial_state = &tasks[i]};
  }
  const int failed = _cmocka_run_group_tests(round->name, tests, found->gl_pathc + 1, NULL, NULL);
  ord_context_destroy(round->context);
  for (size_t i = 0; i <= found->gl_pathc; i++) free((char *)tests[i].name);
  free(tasks);
  free(tests);
  return failed;
}

int main(void) {
  onnx_round rounds[] = {{.name = "reference", .threads = 1, .plugins = NO_PLUGINS},
                         {.name = "plugins", .threads = 2, .plugins = ALL_PLUGINS},
                         {.name = "plain plugins", .threads = 2, .plugins = PLAIN_PLUGINS}};
  glob_t found;
  int failed = 0;
  if (glob(CASES, 0, NULL, &found) != 0) return 1;
  for (size_t i = 0; i < sizeof rounds / sizeof *rounds; i++) failed += run_round(&rounds[i], &found);
  globfree(&found);
  return failed;
}
