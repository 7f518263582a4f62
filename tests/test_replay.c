/* SPDX-License-Identifier: MIT
 *
 * The promises about bits, on andrea-nano: eager equals replay at every length, prefill equals decode through the
 * cache, a batch equals one row at a time, a rewound session equals a fresh one.
 */
#include "fixture.h"

#define CONTEXT 512
#define VOCAB 257

static void fill_ids(int32_t *id, int64_t count, uint32_t seed) {
  for (int64_t i = 0; i < count; i++) {
    seed = seed * 1664525u + 1013904223u;
    id[i] = i == 0 ? 256 : (int32_t)(' ' + (seed >> 24) % 95);
  }
}

static void run_tokens(ord_session *session, const int32_t *id, int64_t count, float *logits) {
  ord_error err = ORD_ERROR_INIT;
  ord_tensor out = {.struct_size = sizeof out};
  MUST(ord_session_set_tokens(session, id, 1, count, &err));
  MUST(ord_session_run(session, &err));
  MUST(ord_session_get(session, "next", &out, &err));
  assert_int_equal(out.bytes, VOCAB * sizeof(float));
  memcpy(logits, out.data, out.bytes);
}

static const char *const NEXT[] = {"next"};
static const ord_session_options REPLAYED = {
    .struct_size = sizeof(ord_session_options), .output = NEXT, .output_count = 1};
static const ord_session_options EAGER = {
    .struct_size = sizeof(ord_session_options), .output = NEXT, .output_count = 1, .capture = ORD_CAPTURE_OFF};

/* What the tests below rest on. */
static void every_setup_runs_its_kernels(void **state) {
  (void)state;
  for (int i = 0; i < SETUP_COUNT; i++) {
    const bool is_plain = setups[i].plugins == PLAIN_PLUGINS;
    ord_error err = ORD_ERROR_INIT;
    char *report = NULL;
    const ord_session_options options = options_for(&setups[i], &REPLAYED);
    stage s = open_nano_for(&setups[i], 1, &REPLAYED);
    MUST(ord_model_report_explain(s.model, &options, false, &report, &err));
    assert_non_null(strstr(report, is_plain ? "attention: attention_naive of" : "attention: attention_flash of"));
    const char *matmul = strstr(report, "matmul: matmul_");
    assert_non_null(matmul);
    *strchr(matmul, '\n') = 0;
    assert_non_null(strstr(matmul, is_plain ? "of cpu_plain" : "of cpu_x86"));
    if (setups[i].compute) assert_non_null(strstr(matmul, setups[i].compute == ORD_I8 ? "int8" : "bf16"));
    ord_text_free(report);
    close_stage(&s);
  }
}

/* As prefills of every `stride`-th length and as single steps. */
static void compare_eager(const setup *how, int64_t stride, int64_t steps) {
  int32_t id[CONTEXT];
  float replayed[VOCAB], eager[VOCAB];
  const ord_session_options walks = options_for(how, &EAGER);
  fill_ids(id, CONTEXT, 7);
  stage s = open_nano_for(how, 2, &REPLAYED);
  ord_session *walk = open_session(s.model, &walks);
  for (int64_t n = 1; n <= CONTEXT; n += stride) {
    ord_session_reset(s.session);
    ord_session_reset(walk);
    run_tokens(s.session, id, n, replayed);
    run_tokens(walk, id, n, eager);
    if (memcmp(replayed, eager, sizeof eager) != 0) fail_msg("%s: prefill of %lld differs", how->name, (long long)n);
  }
  ord_session_reset(s.session);
  ord_session_reset(walk);
  for (int64_t n = 0; n < steps; n++) {
    run_tokens(s.session, id + n, 1, replayed);
    run_tokens(walk, id + n, 1, eager);
    if (memcmp(replayed, eager, sizeof eager) != 0) fail_msg("%s: step at %lld differs", how->name, (long long)n);
  }
  ord_session_destroy(walk);
  close_stage(&s);
}

/* Every length as users run it, some of the others; sanitizers make this slow, so they take some of all. */
static void eager_equals_replay_at_every_length(void **state) {
  (void)state;
  const bool is_slow = is_slow_build();
  compare_eager(&setups[0], is_slow ? 73 : 1, CONTEXT);
  for (int i = 1; i < SETUP_COUNT; i++) compare_eager(&setups[i], is_slow ? 255 : 73, is_slow ? 20 : CONTEXT);
}

/* Another text is in the caches before, so that a token that was not appended shows. */
static void compare_prefill_and_decode(const setup *how, int64_t count) {
  static const int64_t left[] = {79, 47, 16, 2, 1}; // tokens for single steps
  int32_t id[CONTEXT], other[CONTEXT];
  float whole[VOCAB], split[VOCAB];
  fill_ids(id, count, 3);
  fill_ids(other, count, 4);
  stage s = open_nano_for(how, 2, &REPLAYED);
  run_tokens(s.session, id, count, whole);
  for (size_t c = 0; c < sizeof left / sizeof *left; c++) {
    const int64_t cut = count - left[c];
    ord_session_reset(s.session);
    run_tokens(s.session, other, count, split);
    ord_session_reset(s.session);
    run_tokens(s.session, id, cut, split);
    for (int64_t i = cut; i < count; i++) run_tokens(s.session, id + i, 1, split);
    if (memcmp(whole, split, sizeof whole) != 0)
      fail_msg("%s: prefill of %lld, then steps, differs", how->name, (long long)cut);
    ord_session_rewind(s.session, cut);
    run_tokens(s.session, id + cut, count - cut, split);
    if (memcmp(whole, split, sizeof whole) != 0) fail_msg("%s: rewound to %lld differs", how->name, (long long)cut);
  }
  close_stage(&s);
}

static void prefill_and_decode_share_the_cache(void **state) {
  (void)state;
  for (int i = 0; i < SETUP_COUNT; i++) {
    compare_prefill_and_decode(&setups[i], 80);
    compare_prefill_and_decode(&setups[i], 290); /* more than a block of keys of attention_flash */
  }
}

/* Stronger than the same tokens: the same logits. */
static void threads_change_no_bit(void **state) {
  (void)state;
  static const int threads[] = {1, 2, 4};
  int32_t id[70];
  float wanted[2][VOCAB], found[2][VOCAB];
  fill_ids(id, 70, 9);
  for (int i = 0; i < SETUP_COUNT; i++)
    for (int t = 0; t < 3; t++) {
      stage s = open_nano_for(&setups[i], threads[t], &REPLAYED);
      run_tokens(s.session, id, 69, found[0]);
      run_tokens(s.session, id + 69, 1, found[1]);
      close_stage(&s);
      if (t == 0) memcpy(wanted, found, sizeof wanted);
      if (memcmp(wanted, found, sizeof wanted) != 0) fail_msg("%s: %d threads differ", setups[i].name, threads[t]);
    }
}

static void the_last_place_of_the_context_can_be_used(void **state) {
  (void)state;
  int32_t id[CONTEXT + 1];
  float logits[VOCAB];
  ord_error err = ORD_ERROR_INIT;
  fill_ids(id, CONTEXT + 1, 5);
  stage s = open_nano(1, &REPLAYED);
  run_tokens(s.session, id, CONTEXT - 1, logits);
  run_tokens(s.session, id + CONTEXT - 1, 1, logits);
  MUST(ord_session_set_tokens(s.session, id + CONTEXT, 1, 1, &err));
  MUST_FAIL(ord_session_run(s.session, &err), "513 needed; 512 available");
  ord_session_reset(s.session);
  MUST(ord_session_set_tokens(s.session, id, 1, CONTEXT + 1, &err));
  MUST_FAIL(ord_session_run(s.session, &err), "wanted 1 to 512");
  run_tokens(s.session, id, 3, logits);
  close_stage(&s);
}

/* The model's text with a batch of `rows` and per-row lengths. */
static ord_model *open_batched(ord_context *context, int rows) {
  ord_error err = ORD_ERROR_INIT;
  ord_model *model = NULL;
  char text[8192];
  FILE *file = fopen(MODEL("andrea-nano"), "rb");
  assert_non_null(file);
  size_t bytes = fread(text, 1, sizeof text - 256, file);
  fclose(file);
  text[bytes] = 0;
  char *batch = strstr(text, "batch: 1\n");
  assert_non_null(batch);
  batch[7] = (char)('0' + rows);
  static const struct {
    const char *from, *to;
  } change[] = {{"fill: positions}\n", "fill: positions}\n  lengths: {dtype: i32, shape: [batch], fill: lengths}\n"},
                {"takes: {x: value, layer: int}", "takes: {x: value, lengths: value, layer: int}"},
                {"v: v, causal", "v: v, lengths: lengths, causal"},
                {"self_attention: {x: h,", "self_attention: {x: h, lengths: lengths,"},
                {"kind: last,", "kind: last, lengths: lengths,"}};
  for (size_t i = 0; i < sizeof change / sizeof *change; i++) {
    char *at = strstr(text, change[i].from);
    assert_non_null(at);
    const size_t old = strlen(change[i].from), new = strlen(change[i].to);
    memmove(at + new, at + old, strlen(at + old) + 1);
    memcpy(at, change[i].to, new);
  }
  MUST(ord_model_load_text(context, "batched.yaml", text, strlen(text), NULL, &model, NULL, &err));
  const ord_weight_options where = {.struct_size = sizeof where, .path = NANO_WEIGHTS};
  MUST(ord_model_open_weights(model, &where, NULL, &err));
  return model;
}

static void compare_batch(const setup *how) {
  enum { ROWS = 4, LONGEST = 40 };
  static const int32_t length[ROWS] = {40, 1, 17, 33};
  int32_t id[ROWS * LONGEST];
  float alone[ROWS][VOCAB], after[ROWS][VOCAB];
  ord_error err = ORD_ERROR_INIT;
  const ord_session_options options = options_for(how, &REPLAYED);
  stage s = open_nano_for(how, 2, &REPLAYED);
  memset(id, 0, sizeof id);
  for (int row = 0; row < ROWS; row++) {
    fill_ids(id + row * LONGEST, length[row], (uint32_t)row + 1);
    ord_session_reset(s.session);
    run_tokens(s.session, id + row * LONGEST, length[row], alone[row]);
    run_tokens(s.session, &(int32_t){'a' + row}, 1, after[row]);
  }
  ord_model *batched = open_batched(s.context, ROWS);
  ord_session *session = open_session(batched, &options);
  ord_tensor out = {.struct_size = sizeof out};
  const ord_tensor lengths = {.struct_size = sizeof lengths,
                              .dtype = ORD_I32,
                              .rank = 1,
                              .dim = {ROWS},
                              .data = length,
                              .bytes = sizeof length};
  MUST(ord_session_set_tokens(session, id, ROWS, LONGEST, &err));
  MUST(ord_session_set(session, "lengths", &lengths, &err));
  MUST(ord_session_run(session, &err));
  MUST(ord_session_get(session, "next", &out, &err));
  assert_int_equal(out.bytes, sizeof alone);
  for (int row = 0; row < ROWS; row++)
    if (memcmp((const char *)out.data + row * sizeof alone[0], alone[row], sizeof alone[0]) != 0)
      fail_msg("%s: row %d of the batch differs from the row alone", how->name, row);
  const int32_t one[ROWS] = {1, 1, 1, 1}, next[ROWS] = {'a', 'b', 'c', 'd'};
  ord_tensor ones = lengths;
  ones.data = one;
  MUST(ord_session_set_tokens(session, next, ROWS, 1, &err));
  MUST(ord_session_set(session, "lengths", &ones, &err));
  MUST(ord_session_run(session, &err));
  MUST(ord_session_get(session, "next", &out, &err));
  for (int row = 0; row < ROWS; row++)
    if (memcmp((const char *)out.data + row * sizeof after[0], after[row], sizeof after[0]) != 0)
      fail_msg("%s: row %d differs one step later", how->name, row);
  ord_session_destroy(session);
  ord_model_destroy(batched);
  close_stage(&s);
}

static void a_batch_equals_one_at_a_time(void **state) {
  (void)state;
  for (int i = 0; i < SETUP_COUNT; i++) compare_batch(&setups[i]);
}

static void old_outputs_are_poisoned_on_demand(void **state) {
  (void)state;
  ord_session_options options = REPLAYED;
  options.poison = true;
  float plain[VOCAB], poisoned[VOCAB];
  const int32_t id[3] = {256, 'I', 'n'};
  stage s = open_nano(1, &options);
  run_tokens(s.session, id, 3, poisoned);
  ord_session_destroy(s.session);
  s.session = open_session(s.model, &REPLAYED);
  run_tokens(s.session, id, 3, plain);
  assert_memory_equal(plain, poisoned, sizeof plain);
  close_stage(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_setup_runs_its_kernels),       cmocka_unit_test(eager_equals_replay_at_every_length),
      cmocka_unit_test(prefill_and_decode_share_the_cache), cmocka_unit_test(the_last_place_of_the_context_can_be_used),
      cmocka_unit_test(a_batch_equals_one_at_a_time),       cmocka_unit_test(threads_change_no_bit),
      cmocka_unit_test(old_outputs_are_poisoned_on_demand),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
