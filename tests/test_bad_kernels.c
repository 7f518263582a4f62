/* SPDX-License-Identifier: MIT
 *
 * Kernels that misbehave in a session: each is named with its fault, the context stays usable. (`ordito kernel-test` on
 * the same plugin is in test_cli.)
 */
#include "fixture.h"

static const char *const TEXT = "ordito: 1\nname: one\ndims: {d: 4}\ninputs:\n  x: {dtype: f32, shape: [2, d]}\n"
                                "graph:\n  - relu: {in: x, out: a}\n  - tanh: {in: a, out: b}\n"
                                "  - sigmoid: {in: b, out: c}\n  - relu2: {in: c, out: y}\noutputs: [y]\n";

static ord_context *open_bad(void) {
  static const char *const plugin[] = {TEST_PLUGIN("bad_kernels")};
  const ord_context_options options = {
      .struct_size = sizeof options, .threads = 1, .plugin = plugin, .plugin_count = 1, .no_default_plugins = true};
  ord_error err = ORD_ERROR_INIT;
  ord_context *context = NULL;
  MUST(ord_context_create(&options, &context, &err));
  return context;
}

static bool make_session(ord_model *model, const char *const *pin, uint32_t pins, ord_session **out, ord_error *err) {
  const ord_session_options options = {.struct_size = sizeof options, .pin = pin, .pin_count = pins};
  return ord_session_create(model, &options, out, err);
}

static void faults_are_named(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  stage s = {.context = open_bad()};
  MUST(ord_model_load_text(s.context, "one.yaml", TEXT, strlen(TEXT), NULL, &s.model, NULL, &err));
  const char *pin = "tanh=tanh_silent";
  MUST_FAIL(make_session(s.model, &pin, 1, &s.session, &err), "without a reason");
  assert_int_equal(err.code, ORD_UNSUPPORTED);
  /* Not pinned, a kernel that outranks the reference is chosen, and its prepare fails. */
  MUST_FAIL(make_session(s.model, NULL, 0, &s.session, &err), "the moon is in the wrong phase");
  assert_non_null(strstr(err.text, "sigmoid_unprepared"));
  assert_non_null(strstr(err.text, "c: "));
  const char *good[] = {"sigmoid=sigmoid_reference"};
  MUST(make_session(s.model, good, 1, &s.session, &err));
  const float data[8] = {0};
  const ord_tensor in = {
      .struct_size = sizeof in, .dtype = ORD_F32, .rank = 2, .dim = {2, 4}, .data = data, .bytes = sizeof data};
  MUST(ord_session_set(s.session, "x", &in, &err));
  MUST_FAIL(ord_session_run(s.session, &err), "the loom broke");
  assert_non_null(strstr(err.text, "relu2_failing"));
  ord_session_destroy(s.session);
  const char *best[] = {"sigmoid=sigmoid_reference", "relu2=relu2_reference"};
  MUST(make_session(s.model, best, 2, &s.session, &err));
  MUST(ord_session_set(s.session, "x", &in, &err));
  MUST(ord_session_run(s.session, &err));
  close_stage(&s);
}

/* Who asks for too much is named with what it asks for, and the model serves on. */
static void want_of_memory_is_named(void **state) {
  (void)state;
  static const char text[] = "ordito: 1\nname: one\ndims: {d: 4}\ninputs:\n  x: {dtype: f32, shape: [2, d]}\n"
                             "graph:\n  - gelu_erf: {in: x, out: a}\n  - tanh: {in: a, out: y}\noutputs: [y]\n";
  static const struct {
    const char *pin, *wanted;
  } row[] = {
      {"gelu_erf=gelu_scratch", "a: kernel gelu_scratch wants the most, 4611686018427387904"},
      {"gelu_erf=gelu_persistent", "a: kernel gelu_persistent wants the most, 4611686018427387904"},
      {"gelu_erf=gelu_worker", "a: kernel gelu_worker wants 4611686018427387904 bytes for each of 1 threads"},
      {"gelu_erf=gelu_wrapping", "a: kernel gelu_wrapping wants 18446744073709551615 bytes of scratch"},
      {"gelu_erf=gelu_poor", "a: gelu_poor: out of memory"},
  };
  ord_error err = ORD_ERROR_INIT;
  stage s = {.context = open_bad()};
  MUST(ord_model_load_text(s.context, "one.yaml", text, strlen(text), NULL, &s.model, NULL, &err));
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    const char *pin[] = {"tanh=tanh_reference", row[i].pin, "gelu_erf=gelu_erf_reference"};
    MUST_FAIL(make_session(s.model, pin, 2, &s.session, &err), row[i].wanted);
    assert_int_equal(err.code, ORD_NO_MEMORY);
    MUST(make_session(s.model, pin, 3, &s.session, &err)); /* the last pin counts */
    ord_session_destroy(s.session);
    s.session = NULL;
  }
  close_stage(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(faults_are_named), cmocka_unit_test(want_of_memory_is_named)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
