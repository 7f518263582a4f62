/* SPDX-License-Identifier: MIT
 *
 * Kernels that may begin before the one ahead has ended, in whole plans on the checked simulated device: none touches
 * what another has written before it has waited. A model that generates, and one of the ops that it lacks.
 */
#include "cuda_session.h"

static const char chain[] = "ordito: 1\n"
                            "name: chain\n"
                            "dims: {d: 32, heads: 2, batch: 1, seq: {min: 1, max: 40}}\n"
                            "inputs:\n"
                            "  x: {dtype: f32, shape: [batch, seq, d]}\n"
                            "weights:\n"
                            "  w: {shape: [out: d, in: d]}\n"
                            "graph:\n"
                            "  - layernorm: {in: x, eps: 1e-5, out: a}\n"
                            "  - matmul: {in: a, weight: w, out: b}\n"
                            "  - softmax: {in: b, out: c}\n"
                            "  - softmax: {in: c, axis: 1, out: c}\n"
                            "  - add: {in: [c, a], out: e}\n"
                            "  - tanh: {in: e, out: e}\n"
                            "  - mul: {in: [e, b], out: e}\n"
                            "  - rmsnorm: {in: e, eps: 1e-5, out: e}\n"
                            "  - split: {in: e, axis: -1, out: [f, g]}\n"
                            "  - concat: {in: [g, f], axis: -1, out: h}\n"
                            "  - slice: {in: h, axis: -1, start: 0, end: 32, step: 2, out: k}\n"
                            "  - concat: {in: [k, k], axis: -1, out: k}\n"
                            "  - reshape: {in: k, shape: [batch, seq, heads, d / heads], out: q}\n"
                            "  - transpose: {in: q, axes: [0, 2, 1, 3], out: q}\n"
                            "  - attention: {q: q, k: q, v: q, causal: true, out: t}\n"
                            "  - transpose: {in: t, axes: [0, 1, 3, 2], out: u}\n"
                            "  - matmul: {in: t, by: u, out: v}\n"
                            "  - matmul: {in: v, by: t, out: v}\n"
                            "  - transpose: {in: v, axes: [0, 2, 1, 3], out: v}\n"
                            "  - reshape: {in: v, shape: [batch, seq, d], out: v}\n"
                            "  - matmul: {in: v, weight: w, out: y}\n"
                            "  - l2_normalize: {in: y, out: y}\n"
                            "  - pool: {in: y, kind: mean, out: z}\n"
                            "outputs: [y, z]\n";

/* The first two serve everything; the third comes before them where it serves. */
static const char *const plugins[][3] = {
    {PLUGIN("cuda_core"), PLUGIN("cuda_attention_naive"), PLUGIN("cublas")},
    {PLUGIN("cuda_core"), PLUGIN("cuda_attention_naive"), PLUGIN("cuda_attention_split")},
    {PLUGIN("cuda_core"), PLUGIN("cuda_attention_naive"), PLUGIN("cuda_attention_flash")},
};
enum { PLUGIN_SETS = sizeof plugins / sizeof *plugins };

static ord_context *open_checked(const char *const *plugin, uint32_t count) {
  ord_context_options options = cuda_context_options(plugin, count);
  ord_error err = ORD_ERROR_INIT;
  ord_context *context = NULL;
  options.checked = true;
  MUST(ord_context_create(&options, &context, &err));
  return context;
}

static void run_length(ord_session *session, int64_t length) {
  static float x[40 * 32];
  for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)(i * 7 % 11) / 8.0f - 0.5f;
  ord_error err = ORD_ERROR_INIT;
  const ord_tensor in = {.struct_size = sizeof in,
                         .dtype = ORD_F32,
                         .rank = 3,
                         .dim = {1, length, 32},
                         .data = x,
                         .bytes = (size_t)length * 32 * sizeof *x};
  ord_tensor out = {.struct_size = sizeof out};
  MUST(ord_session_set(session, "x", &in, &err));
  MUST(ord_session_run(session, &err));
  MUST(ord_session_get(session, "z", &out, &err));
}

static void run_chain(const char *const *plugin, uint32_t count, uint32_t compute) {
  ord_error err = ORD_ERROR_INIT;
  ord_model *model = NULL;
  ord_context *context = open_checked(plugin, count);
  MUST(ord_model_load_text(context, "chain", chain, strlen(chain), NULL, &model, NULL, &err));
  const ord_weight_options weights = {.struct_size = sizeof weights, .random = true, .seed = 1};
  MUST(ord_model_open_weights(model, &weights, NULL, &err));
  const ord_session_options options = {.struct_size = sizeof options, .compute = compute};
  ord_session *session = open_session(model, &options);
  for (int64_t length = 1; length <= 40; length += 13) run_length(session, length);
  ord_session_destroy(session);
  ord_model_destroy(model);
  ord_context_destroy(context);
}

static void ops(void **state) {
  (void)state;
  for (int i = 0; i < PLUGIN_SETS; i++) run_chain(plugins[i], 3, ORD_BF16);
  run_chain(plugins[0], 2, ORD_F32);
  run_chain(plugins[0], 2, ORD_TF32);
  run_chain(plugins[0], 2, ORD_I8);
  run_chain(plugins[0], 3, ORD_TF32);
}

static bool ignore(void *context, int32_t id, const char *text, size_t bytes) {
  (void)id, (void)text, (void)bytes;
  ++*(int *)context;
  return true;
}

static void generation(void **state) {
  (void)state;
  static const int32_t prompt[] = {256, 'A', 'n', 'd', ' ', 't', 'h', 'e', ' ', 'L', 'O', 'R', 'D', ' '};
  enum { TOKENS = 3 };
  for (int i = 0; i < PLUGIN_SETS; i++) {
    ord_error err = ORD_ERROR_INIT;
    ord_context *context = open_checked(plugins[i], 3);
    ord_model *model = open_model(context, MODEL("andrea-nano"), NULL, NANO_WEIGHTS);
    const ord_session_options options = {.struct_size = sizeof options, .generates = true, .compute = ORD_BF16};
    ord_session *session = open_session(model, &options);
    ord_generate_options how = ORD_GENERATE_INIT;
    int count = 0;
    how.max_tokens = TOKENS;
    MUST(ord_session_generate(session, prompt, sizeof prompt / sizeof *prompt, &how, ignore, &count, NULL, &err));
    assert_int_equal(count, TOKENS);
    ord_session_destroy(session);
    ord_model_destroy(model);
    ord_context_destroy(context);
  }
}

static const char *const LOOKS = "it looks at each access to memory";

static void test_ops(void **state) {
  (void)state;
  needs_simulator(LOOKS);
  run_in_child("ops", ops, NULL);
}

static void test_generation(void **state) {
  (void)state;
  needs_simulator(LOOKS);
  run_in_child("generation", generation, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_ops), cmocka_unit_test(test_generation)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
