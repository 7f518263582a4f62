/* SPDX-License-Identifier: MIT
 *
 * What a session tells a bench: the work of each step counted by hand, phases, times that add up, random inputs, and
 * the probes as a caller of ordito.h sees them.
 */
#include "fixture.h"
#include "ordito_measure.h"

/* andrea-12m: 12 * d^2 weights a layer. */
enum { D = 384, LAYERS = 6, VOCAB = 2305, PROMPT = 16 };
#define PRODUCTS ((uint64_t)LAYERS * 12 * D * D)

static stage open_12m(const ord_session_options *options) {
  stage s = {.context = open_context(2, ALL_PLUGINS)};
  s.model = open_model(s.context, MODEL("andrea"), "12m", NULL);
  s.session = open_session(s.model, options);
  return s;
}

static const ord_session_options GENERATES = {.struct_size = sizeof(ord_session_options), .generates = true};

static ord_timing run_timed(ord_session *session, int64_t length, ord_timing timing) {
  ord_error err = ORD_ERROR_INIT;
  int64_t tokens = 0;
  timing.struct_size = sizeof timing;
  MUST(ord_session_set_random(session, length, 1, &tokens, &err));
  assert_int_equal(tokens, length);
  MUST(ord_session_run_timed(session, &timing, &err));
  return timing;
}

static ord_step_time sum_steps(const ord_session *session) {
  ord_step_time all = {0}, step = {.struct_size = sizeof step};
  for (uint32_t i = 0; ord_session_step_time(session, i, &step); i++) {
    assert_true(step.path && step.op && step.kernel && step.phases > 0);
    all.phases += step.phases;
    all.ns += step.ns;
    all.runs = step.runs;
    all.busy_ns += step.busy_ns;
    all.busy_runs = step.busy_runs;
    all.operations += step.operations;
    all.weight_bytes += step.weight_bytes;
    all.cache_bytes += step.cache_bytes;
  }
  return all;
}

static void work_is_what_a_hand_counts(void **state) {
  (void)state;
  stage s = open_12m(&GENERATES);
  run_timed(s.session, PROMPT, (ord_timing){.by_step = true});
  ord_step_time all = sum_steps(s.session);
  /* Queries see 1, 2, .. keys; two products of width 32 in each of 12 heads; logits of the last row alone. */
  const uint64_t pairs = PROMPT * (PROMPT + 1) / 2;
  assert_int_equal(all.operations, 2 * (PROMPT * PRODUCTS + LAYERS * pairs * 2 * D + (uint64_t)D * VOCAB));

  run_timed(s.session, 1, (ord_timing){.by_step = true});
  all = sum_steps(s.session);
  assert_int_equal(all.operations, 2 * (PRODUCTS + (uint64_t)LAYERS * (PROMPT + 1) * 2 * D + (uint64_t)D * VOCAB));
  assert_int_equal(all.cache_bytes, (uint64_t)LAYERS * (PROMPT + 1) * 2 * D * sizeof(float));
  /* One row of each of the two tables; packs may be padded. */
  const uint64_t least = (PRODUCTS + (uint64_t)D * VOCAB + 2 * D) * sizeof(float);
  assert_in_range(all.weight_bytes, least, least + least / 10);
  close_stage(&s);
}

/* The tables are many times what two rows of them are. */
static void a_table_is_not_read_whole(void **state) {
  (void)state;
  stage s = open_12m(&GENERATES);
  run_timed(s.session, 3, (ord_timing){.by_step = true});
  ord_step_time step = {.struct_size = sizeof step};
  uint32_t tables = 0;
  for (uint32_t i = 0; ord_session_step_time(s.session, i, &step); i++)
    if (strcmp(step.op, "embedding") == 0 || strcmp(step.op, "position") == 0) {
      assert_int_equal(step.weight_bytes, 3 * D * sizeof(float));
      tables++;
    }
  assert_int_equal(tables, 2);
  close_stage(&s);
}

/* One run of a model on the reference, in which the ops of these pins stay whole. */
static ord_step_time run_text(const char *text, size_t bytes, const char *const *pin, uint32_t pin_count) {
  const ord_session_options options = {.struct_size = sizeof options, .pin = pin, .pin_count = pin_count};
  const ord_weight_options random = {.struct_size = sizeof random, .random = true, .seed = 1};
  ord_error err = ORD_ERROR_INIT;
  char *messages = NULL;
  stage s = {.context = open_context(1, NO_PLUGINS)};
  const bool loaded = ord_model_load_text(s.context, "text.yaml", text, bytes, NULL, &s.model, &messages, &err);
  if (!loaded) fail_msg("%s", messages ? messages : err.text);
  ord_text_free(messages);
  MUST(ord_model_open_weights(s.model, &random, NULL, &err));
  s.session = open_session(s.model, &options);
  int64_t tokens = 7;
  MUST(ord_session_set_random(s.session, 1, 1, &tokens, &err));
  assert_int_equal(tokens, 0);
  ord_timing timing = {.struct_size = sizeof timing, .by_step = true};
  MUST(ord_session_run_timed(s.session, &timing, &err));
  const ord_step_time all = sum_steps(s.session);
  close_stage(&s);
  return all;
}

static void a_window_groups_and_values_are_counted(void **state) {
  (void)state;
  static const char text[] = "ordito: 1\nname: windowed\n"
                             "inputs:\n"
                             "  q: {dtype: f32, shape: [2, 6, 5, 8]}\n"
                             "  k: {dtype: f32, shape: [2, 3, 5, 8]}\n"
                             "  v: {dtype: f32, shape: [2, 3, 5, 4]}\n"
                             "  m: {dtype: f32, shape: [2, 7, 8]}\n"
                             "  n: {dtype: f32, shape: [2, 8, 5]}\n"
                             "graph:\n"
                             "  - attention: {q: q, k: k, v: v, causal: true, window_before: 1, out: y}\n"
                             "  - matmul: {in: m, by: n, out: z}\n"
                             "outputs: [y, z]\n";
  const ord_step_time all = run_text(text, sizeof text - 1, NULL, 0);
  const uint64_t pairs = 1 + 4 * 2; /* each query sees itself and the one before */
  assert_int_equal(all.operations, 2 * (2 * 6 * pairs * (8 + 4) + 2 * 7 * 8 * 5));
  assert_int_equal(all.cache_bytes, 0);
}

static void composites_are_counted_whole(void **state) {
  (void)state;
  static const char text[] = "ordito: 1\nname: composites\n"
                             "inputs:\n"
                             "  x: {dtype: f32, shape: [2, 3, 8]}\n"
                             "  a: {dtype: f32, shape: [2, 4, 3, 5]}\n"
                             "weights:\n"
                             "  up:   {shape: [out: 16, in: 8]}\n"
                             "  gate: {shape: [out: 16, in: 8]}\n"
                             "  down: {shape: [out: 7, in: 16]}\n"
                             "  wo:   {shape: [out: 9, in: 20]}\n"
                             "graph:\n"
                             "  - mlp: {in: x, up: up, gate: gate, down: down, activation: silu, out: y}\n"
                             "  - concat_projection: {in: a, weight: wo, out: z}\n"
                             "outputs: [y, z]\n";
  static const char *const pin[] = {"mlp=mlp_reference", "concat_projection=concat_projection_reference"};
  const ord_step_time all = run_text(text, sizeof text - 1, pin, 2);
  const uint64_t rows = 2 * 3, mlp = 2 * 16 * 8 + 7 * 16, projection = 9 * 20;
  assert_int_equal(all.operations, 2 * rows * (mlp + projection));
  assert_int_equal(all.weight_bytes, (mlp + projection) * sizeof(float));
  assert_int_equal(all.phases, 2);
}

static void times_add_up_until_they_are_reset(void **state) {
  (void)state;
  stage s = open_nano(2, &GENERATES);
  const ord_timing plain = run_timed(s.session, 5, (ord_timing){0});
  assert_true(plain.run_ns > 0);
  assert_int_equal(plain.busy_ns, 0);
  ord_step_time all = sum_steps(s.session);
  assert_int_equal(all.ns + all.runs + all.busy_ns + all.operations, 0);
  assert_int_equal(plain.phases, all.phases);

  for (int eager = 0; eager < 2; eager++) {
    const ord_timing timing = run_timed(s.session, 5, (ord_timing){.by_thread = true, .eager = eager});
    assert_true(timing.busy_ns > 0);
    assert_true(timing.busy_ns < timing.run_ns);
    assert_true(timing.clock_ns < timing.run_ns);
    assert_int_equal(timing.phases, all.phases);
  }
  ord_step_time by_thread = sum_steps(s.session);
  assert_int_equal(by_thread.busy_runs, 2);
  assert_int_equal(by_thread.runs, 0);
  assert_true(by_thread.busy_ns > 0);

  run_timed(s.session, 5, (ord_timing){.by_step = true});
  const ord_step_time once = sum_steps(s.session);
  run_timed(s.session, 5, (ord_timing){.by_step = true});
  all = sum_steps(s.session);
  assert_int_equal(all.runs, 2);
  assert_true(all.ns > once.ns);
  ord_session_times_reset(s.session);
  all = sum_steps(s.session);
  assert_int_equal(all.ns + all.runs + all.busy_ns + all.busy_runs + all.operations, 0);
  close_stage(&s);
}

static void making_a_session_is_timed(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  ord_startup_times first = {.struct_size = sizeof first}, second = first;
  stage s = open_nano(2, &GENERATES);
  ord_session *other = open_session(s.model, &GENERATES);
  MUST(ord_session_startup(s.session, &first, &err));
  MUST(ord_session_startup(other, &second, &err));
  assert_true(first.read_ns > 0 && first.pack_ns > 0 && first.plan_ns > 0 && first.capture_ns > 0);
  assert_true(second.plan_ns > 0 && second.capture_ns > 0);
  assert_int_equal(second.pack_ns, 0); /* the first session's packs are shared */
  uint64_t ns = 0;
  MUST(ord_model_probe_startup(s.model, &ns, &err));
  assert_true(ns > 0);
  ord_session_destroy(other);
  close_stage(&s);

  stage random = open_12m(NULL);
  MUST(ord_model_probe_startup(random.model, &ns, &err));
  assert_int_equal(ns, 0); /* there is no file */
  close_stage(&random);
}

static void random_inputs_fit_any_model(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  int64_t tokens = -1;
  ord_context *context = open_context(2, ALL_PLUGINS);
  stage s = {.model = open_model(context, MODEL("attention-only"), NULL, NULL)};
  s.session = open_session(s.model, NULL);
  ord_tensor first = {.struct_size = sizeof first}, second = first;
  static const int64_t length[] = {3, 100000};
  static const int64_t wanted[] = {3, 1024};
  for (int i = 0; i < 2; i++) {
    MUST(ord_session_set_random(s.session, length[i], 1, &tokens, &err));
    assert_int_equal(tokens, 0);
    MUST(ord_session_run(s.session, &err));
    MUST(ord_session_get(s.session, "y", &first, &err));
    assert_int_equal(first.dim[1], wanted[i]);
  }
  /* The seed decides. */
  float *kept = malloc(first.bytes);
  assert_non_null(kept);
  memcpy(kept, first.data, first.bytes);
  for (uint64_t seed = 1; seed <= 2; seed++) {
    MUST(ord_session_set_random(s.session, length[1], seed, &tokens, &err));
    MUST(ord_session_run(s.session, &err));
    MUST(ord_session_get(s.session, "y", &second, &err));
    assert_int_equal(memcmp(kept, second.data, second.bytes) == 0, seed == 1);
  }
  free(kept);
  ord_session_destroy(s.session);
  ord_model_destroy(s.model);
  ord_context_destroy(context);
}

/* An empty batch, which a model may allow, has no speed. */
static void random_inputs_have_a_row(void **state) {
  (void)state;
  static const char text[] = "ordito: 1\n"
                             "name: rows\n"
                             "dims: {batch: {min: 0, max: 4}, seq: {min: 1, max: 8}}\n"
                             "inputs: {tokens: {dtype: i32, shape: [batch, seq], fill: tokens}}\n"
                             "weights: {table: {shape: [10, 16]}}\n"
                             "graph: [{embedding: {in: tokens, weight: table, out: y}}]\n"
                             "outputs: [y]\n";
  ord_error err = ORD_ERROR_INIT;
  int64_t tokens = 0;
  stage s = {.context = open_context(1, NO_PLUGINS)};
  MUST(ord_model_load_text(s.context, "rows.yaml", text, strlen(text), NULL, &s.model, NULL, &err));
  const ord_weight_options weights = {.struct_size = sizeof weights, .random = true};
  MUST(ord_model_open_weights(s.model, &weights, NULL, &err));
  s.session = open_session(s.model, NULL);
  MUST(ord_session_set_random(s.session, 3, 1, &tokens, &err));
  assert_int_equal(tokens, 3);
  MUST(ord_session_run(s.session, &err));
  close_stage(&s);
}

static void probes_tell_speeds(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  ord_probe *probe = NULL;
  ord_probe_result result = {.struct_size = sizeof result};
  ord_context *context = open_context(2, NO_PLUGINS);
  MUST(ord_probe_create(context, 8 << 20, &probe, &err));
  MUST(ord_probe_read(probe, &result, &err));
  assert_true(result.per_s > 0 && result.how[0]);
  static const uint32_t types[] = {ORD_F32, ORD_BF16, ORD_I8};
  for (int i = 0; i < 3; i++) {
    MUST(ord_probe_peak(probe, types[i], &result, &err));
    assert_true(result.per_s > 0 && result.how[0]);
  }
  MUST_FAIL(ord_probe_peak(probe, ORD_I64, &result, &err), "wanted f32, bf16 or int8");
  ord_probe_destroy(probe);
  ord_probe_destroy(NULL);
  MUST_FAIL(ord_probe_create(context, SIZE_MAX / 4, &probe, &err), "a read probe needs");
  assert_null(probe);
  ord_context_destroy(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(work_is_what_a_hand_counts),
      cmocka_unit_test(a_table_is_not_read_whole),
      cmocka_unit_test(a_window_groups_and_values_are_counted),
      cmocka_unit_test(composites_are_counted_whole),
      cmocka_unit_test(times_add_up_until_they_are_reset),
      cmocka_unit_test(making_a_session_is_timed),
      cmocka_unit_test(random_inputs_fit_any_model),
      cmocka_unit_test(random_inputs_have_a_row),
      cmocka_unit_test(probes_tell_speeds),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
