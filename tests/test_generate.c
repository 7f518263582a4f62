/* SPDX-License-Identifier: MIT
 *
 * session/generate.c on andrea-nano: sampling inside the graph, limits, stops, and every wrong option; the session
 * stays usable after each.
 */
#include <math.h>

#include "fixture.h"

typedef struct collected {
  int32_t id[600];
  uint32_t count, stop_after;
  char text[4096];
  size_t bytes;
} collected;

static const ord_session_options GENERATES = {.struct_size = sizeof(ord_session_options), .generates = true};

static bool collect(void *context, int32_t id, const char *text, size_t bytes) {
  collected *out = context;
  out->id[out->count++] = id;
  memcpy(out->text + out->bytes, text, bytes);
  out->bytes += bytes;
  return out->count != out->stop_after;
}

static ord_generate_result generate(ord_session *session, const char *prompt, const ord_generate_options *options,
                                    collected *out) {
  ord_error err = ORD_ERROR_INIT;
  ord_generate_result result = {.struct_size = sizeof result};
  int32_t id[600] = {256};
  size_t count = strlen(prompt) + 1;
  for (size_t i = 1; i < count; i++) id[i] = (unsigned char)prompt[i - 1];
  ord_session_reset(session);
  memset(out->id, 0, sizeof out->id);
  out->count = 0;
  out->bytes = 0;
  MUST(ord_session_generate(session, id, count, options, collect, out, &result, &err));
  out->text[out->bytes] = 0;
  return result;
}

static void the_same_seed_gives_the_same_tokens(void **state) {
  (void)state;
  collected first = {0}, second = {0}, other = {0};
  stage s = open_nano(2, &GENERATES);
  ord_generate_options options = ORD_GENERATE_INIT;
  options.max_tokens = 60;
  options.temperature = 0.9f;
  options.top_k = 50;
  options.top_p = 0.95f;
  options.seed = 42;
  generate(s.session, "And God said", &options, &first);
  generate(s.session, "And God said", &options, &second);
  assert_int_equal(first.count, 60);
  assert_memory_equal(first.id, second.id, sizeof first.id);
  options.seed = 43;
  generate(s.session, "And God said", &options, &other);
  assert_memory_not_equal(first.id, other.id, sizeof first.id);
  close_stage(&s);
}

/* top_k 1 and a tiny top_p leave the best token alone, at any temperature. */
static void narrow_sampling_is_greedy(void **state) {
  (void)state;
  collected greedy = {0}, narrow = {0};
  stage s = open_nano(1, &GENERATES);
  ord_generate_options options = ORD_GENERATE_INIT;
  options.max_tokens = 40;
  generate(s.session, "In the beginning", &options, &greedy);
  options.temperature = 5;
  options.top_k = 1;
  generate(s.session, "In the beginning", &options, &narrow);
  assert_memory_equal(greedy.id, narrow.id, sizeof greedy.id);
  options.top_k = 0;
  options.top_p = 1e-7f;
  generate(s.session, "In the beginning", &options, &narrow);
  assert_memory_equal(greedy.id, narrow.id, sizeof greedy.id);
  close_stage(&s);
}

/* At a huge temperature every token is as likely as any, so that a token tells its draw. */
static void every_token_has_its_own_draw(void **state) {
  (void)state;
  collected out = {0};
  stage s = open_nano(1, &GENERATES);
  ord_generate_options options = ORD_GENERATE_INIT;
  options.max_tokens = 30;
  options.temperature = 1e6f;
  options.seed = 5;
  generate(s.session, "", &options, &out);
  uint32_t repeated = 0;
  for (uint32_t i = 1; i < out.count; i++) repeated += out.id[i] == out.id[i - 1];
  assert_in_range(repeated, 0, 3);
  close_stage(&s);
}

static void eager_and_replayed_generations_agree(void **state) {
  (void)state;
  collected replayed = {0}, eager = {0};
  ord_session_options walk = GENERATES;
  walk.capture = ORD_CAPTURE_OFF;
  ord_generate_options options = ORD_GENERATE_INIT;
  options.max_tokens = 100;
  options.temperature = 1;
  options.seed = 9;
  stage s = open_nano(2, &GENERATES);
  generate(s.session, "Now", &options, &replayed);
  ord_session_destroy(s.session);
  s.session = open_session(s.model, &walk);
  generate(s.session, "Now", &options, &eager);
  assert_memory_equal(replayed.id, eager.id, sizeof eager.id);
  close_stage(&s);
}

static void the_caller_and_the_limit_end_it(void **state) {
  (void)state;
  collected out = {.stop_after = 5};
  stage s = open_nano(1, &GENERATES);
  ord_generate_options options = ORD_GENERATE_INIT;
  options.max_tokens = 50;
  ord_generate_result result = generate(s.session, "Then", &options, &out);
  assert_int_equal(result.ended, ORD_ENDED_CALLER);
  assert_int_equal(result.token_count, 5);
  out.stop_after = 0;
  result = generate(s.session, "Then", &options, &out);
  assert_int_equal(result.ended, ORD_ENDED_LIMIT);
  assert_int_equal(result.token_count, 50);
  assert_int_equal(out.bytes > 0, 1);
  close_stage(&s);
}

static void an_empty_prompt_starts_from_the_start_token(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  collected empty = {0}, started = {0};
  stage s = open_nano(1, &GENERATES);
  ord_generate_options options = ORD_GENERATE_INIT;
  options.max_tokens = 20;
  MUST(ord_session_generate(s.session, NULL, 0, &options, collect, &empty, NULL, &err));
  generate(s.session, "", &options, &started);
  assert_memory_equal(empty.id, started.id, sizeof empty.id);
  close_stage(&s);
}

static void wrong_options_are_refused_and_the_session_stays(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  collected out = {0};
  int32_t id[600] = {256};
  stage s = open_nano(1, &GENERATES);
  ord_generate_options right = ORD_GENERATE_INIT;
  right.max_tokens = 5;
  ord_generate_options wrong = right;
  static const float bad_temperature[] = {NAN, INFINITY, -INFINITY, -0.5f};
  for (size_t i = 0; i < 4; i++) {
    wrong.temperature = bad_temperature[i];
    MUST_FAIL(ord_session_generate(s.session, id, 1, &wrong, collect, &out, NULL, &err), "temperature");
  }
  wrong = right;
  static const float bad_top_p[] = {NAN, 0, -1, 1.5f};
  for (size_t i = 0; i < 4; i++) {
    wrong.top_p = bad_top_p[i];
    MUST_FAIL(ord_session_generate(s.session, id, 1, &wrong, collect, &out, NULL, &err), "top_p");
  }
  wrong = right;
  wrong.top_k = -1;
  MUST_FAIL(ord_session_generate(s.session, id, 1, &wrong, collect, &out, NULL, &err), "top_k");
  id[1] = 257;
  MUST_FAIL(ord_session_generate(s.session, id, 2, &right, collect, &out, NULL, &err), "id 257; wanted 0 to 256");
  id[1] = -2;
  MUST_FAIL(ord_session_generate(s.session, id, 2, &right, collect, &out, NULL, &err), "id -2");
  id[1] = 0;
  MUST_FAIL(ord_session_generate(s.session, id, 513, &right, collect, &out, NULL, &err), "need 518; 512 available");
  wrong = right;
  wrong.max_tokens = UINT32_MAX;
  MUST_FAIL(ord_session_generate(s.session, id, 1, &wrong, collect, &out, NULL, &err), "512 available");
  assert_int_equal(out.count, 0);
  right.max_tokens = 511;
  MUST(ord_session_generate(s.session, id, 1, &right, collect, &out, NULL, &err));
  assert_int_equal(out.count, 511);
  ord_session *plain = open_session(s.model, NULL);
  MUST_FAIL(ord_session_generate(plain, id, 1, &right, collect, &out, NULL, &err), "not made to generate");
  ord_session_destroy(plain);
  close_stage(&s);
}

static void stop_tokens_end_a_generation(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  collected free_run = {0}, stopped = {0};
  stage s = open_nano(1, &GENERATES);
  ord_generate_options options = ORD_GENERATE_INIT;
  options.max_tokens = 30;
  generate(s.session, "And it came", &options, &free_run);
  close_stage(&s);
  /* The same model with a stop at one of the bytes that came. */
  char text[8192], stop[32];
  FILE *file = fopen(MODEL("andrea-nano"), "rb");
  assert_non_null(file);
  text[fread(text, 1, sizeof text - 64, file)] = 0;
  fclose(file);
  uint32_t first = 0;
  const int32_t wanted = free_run.id[7];
  while (free_run.id[first] != wanted) first++;
  snprintf(stop, sizeof stop, "stop: [%d]}\n", wanted);
  strcpy(strstr(text, "stop: []}"), stop);
  s = (stage){.context = open_context(1, ALL_PLUGINS)};
  const ord_weight_options where = {.struct_size = sizeof where, .path = NANO_WEIGHTS};
  MUST(ord_model_load_text(s.context, "stop.yaml", text, strlen(text), NULL, &s.model, NULL, &err));
  MUST(ord_model_open_weights(s.model, &where, NULL, &err));
  s.session = open_session(s.model, &GENERATES);
  ord_generate_result result = generate(s.session, "And it came", &options, &stopped);
  assert_int_equal(result.ended, ORD_ENDED_STOP);
  assert_int_equal(result.token_count, first + 1);
  assert_memory_equal(stopped.id, free_run.id, (first + 1) * sizeof(int32_t));
  options.ignore_stop = true;
  result = generate(s.session, "And it came", &options, &stopped);
  assert_int_equal(result.token_count, 30);
  close_stage(&s);
}

/* The prompt and what is to come must fit into the caches, however long the token axis is. */
static void what_fits_is_known_before_anything_runs(void **state) {
  (void)state;
  static const char text[] = "ordito: 1\nname: short\ndims: {seq: {min: 1, max: 50}}\n"
                             "inputs: {t: {dtype: i32, shape: [1, seq], fill: tokens}}\nweights: {w: {shape: [9, 8]}}\n"
                             "caches: {kv: {length: 5}}\ngraph:\n  - embedding: {in: t, weight: w, out: x}\n"
                             "  - reshape: {in: x, shape: [1, 1, seq, 8], out: h}\n"
                             "  - attention: {q: h, k: h, v: h, causal: true, cache: kv, out: a}\n"
                             "  - reshape: {in: a, shape: [1, seq, 8], out: a}\n  - pool: {in: a, kind: last, out: n}\n"
                             "outputs: [n]\ngenerate: {logits: n, stop: []}\n";
  ord_error err = ORD_ERROR_INIT;
  collected out = {0};
  const int32_t id[] = {3, 4};
  const ord_weight_options where = {.struct_size = sizeof where, .random = true};
  ord_generate_options options = ORD_GENERATE_INIT;
  stage s = {.context = open_context(1, ALL_PLUGINS)};
  MUST(ord_model_load_text(s.context, "short.yaml", text, strlen(text), NULL, &s.model, NULL, &err));
  MUST(ord_model_open_weights(s.model, &where, NULL, &err));
  s.session = open_session(s.model, &GENERATES);
  options.max_tokens = 4;
  MUST_FAIL(ord_session_generate(s.session, id, 2, &options, collect, &out, NULL, &err), "need 6; 5 available");
  assert_int_equal(out.count, 0);
  options.max_tokens = 3;
  MUST(ord_session_generate(s.session, id, 2, &options, collect, &out, NULL, &err));
  assert_int_equal(out.count, 3);
  for (uint32_t i = 0; i < out.count; i++) assert_in_range(out.id[i], 0, 7);
  close_stage(&s);
  const ord_model_options one = {.struct_size = sizeof one, .context = 1};
  s = (stage){.context = open_context(1, ALL_PLUGINS)};
  MUST(ord_model_load_text(s.context, "short.yaml", text, strlen(text), &one, &s.model, NULL, &err));
  MUST(ord_model_open_weights(s.model, &where, NULL, &err));
  s.session = open_session(s.model, &GENERATES);
  MUST_FAIL(ord_session_generate(s.session, id, 1, &options, collect, &out, NULL, &err), "need 4; 1 available");
  close_stage(&s);
}

/* 13 tokens behind 7 from a model whose runs take at most `most` tokens and whose cache holds 20. *logits: behind the
 * prompt. */
static void generate_in_pieces(int most, const char *causal, const char *fault, collected *out, float logits[8]) {
  char text[1024];
  snprintf(text, sizeof text,
           "ordito: 1\nname: pieces\ndims: {seq: {min: 1, max: %d}}\n"
           "inputs: {t: {dtype: i32, shape: [1, seq], fill: tokens}}\nweights: {w: {shape: [9, 8]}}\n"
           "caches: {kv: {length: 20}}\ngraph:\n  - embedding: {in: t, weight: w, out: x}\n"
           "  - reshape: {in: x, shape: [1, 1, seq, 8], out: h}\n"
           "  - attention: {q: h, k: h, v: h, causal: %s, cache: kv, out: a}\n"
           "  - reshape: {in: a, shape: [1, seq, 8], out: a}\n  - pool: {in: a, kind: last, out: n}\n"
           "outputs: [n]\ngenerate: {logits: n, stop: []}\n",
           most, causal);
  ord_error err = ORD_ERROR_INIT;
  const int32_t id[] = {3, 1, 5, 7, 2, 6, 5};
  const ord_weight_options where = {.struct_size = sizeof where, .random = true};
  ord_generate_options options = ORD_GENERATE_INIT;
  options.max_tokens = 1;
  stage s = {.context = open_context(1, ALL_PLUGINS)};
  MUST(ord_model_load_text(s.context, "pieces.yaml", text, strlen(text), NULL, &s.model, NULL, &err));
  assert_int_equal(ord_model_context(s.model), 20);
  MUST(ord_model_open_weights(s.model, &where, NULL, &err));
  s.session = open_session(s.model, &GENERATES);
  *out = (collected){0};
  if (fault) {
    MUST_FAIL(ord_session_generate(s.session, id, 7, &options, collect, out, NULL, &err), fault);
  } else {
    ord_tensor tensor = {.struct_size = sizeof tensor};
    MUST(ord_session_generate(s.session, id, 7, &options, collect, out, NULL, &err));
    MUST(ord_session_get(s.session, "n", &tensor, &err));
    assert_int_equal(tensor.bytes, 8 * sizeof *logits);
    memcpy(logits, tensor.data, tensor.bytes);
    options.max_tokens = 12;
    MUST(ord_session_generate(s.session, out->id, 1, &options, collect, out, NULL, &err));
  }
  assert_int_equal(out->count, fault ? 0 : 13);
  close_stage(&s);
}

static void a_prompt_longer_than_a_run_is_read_in_pieces(void **state) {
  (void)state;
  collected whole, pieces;
  float logits[8], of_pieces[8];
  generate_in_pieces(7, "true", NULL, &whole, logits);
  for (int most = 1; most < 7; most++) {
    generate_in_pieces(most, "true", NULL, &pieces, of_pieces);
    assert_memory_equal(pieces.id, whole.id, sizeof whole.id);
    for (int i = 0; i < 8; i++) assert_float_equal(of_pieces[i], logits[i], 1e-6f);
  }
  generate_in_pieces(7, "false", NULL, &whole, logits);
  generate_in_pieces(6, "false", "found 7 tokens; wanted at most 6, the longest run: a is not causal", &pieces,
                     of_pieces);
}

static void outputs_can_be_read_beside_the_tokens(void **state) {
  (void)state;
  static const char *const wanted[] = {"logits"};
  ord_error err = ORD_ERROR_INIT;
  collected out = {0};
  ord_tensor tensor = {.struct_size = sizeof tensor};
  ord_generate_options options = ORD_GENERATE_INIT;
  options.max_tokens = 2;
  stage s = open_nano(1, &GENERATES);
  generate(s.session, "a", &options, &out);
  MUST(ord_session_get(s.session, "next", &tensor, &err));
  ord_session_destroy(s.session);
  ord_session_options named = GENERATES;
  named.output = wanted;
  named.output_count = 1;
  s.session = open_session(s.model, &named);
  generate(s.session, "a", &options, &out);
  MUST(ord_session_get(s.session, "logits", &tensor, &err));
  close_stage(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_same_seed_gives_the_same_tokens),
      cmocka_unit_test(narrow_sampling_is_greedy),
      cmocka_unit_test(every_token_has_its_own_draw),
      cmocka_unit_test(eager_and_replayed_generations_agree),
      cmocka_unit_test(the_caller_and_the_limit_end_it),
      cmocka_unit_test(an_empty_prompt_starts_from_the_start_token),
      cmocka_unit_test(wrong_options_are_refused_and_the_session_stays),
      cmocka_unit_test(stop_tokens_end_a_generation),
      cmocka_unit_test(what_fits_is_known_before_anything_runs),
      cmocka_unit_test(a_prompt_longer_than_a_run_is_read_in_pieces),
      cmocka_unit_test(outputs_can_be_read_beside_the_tokens),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
