/* SPDX-License-Identifier: MIT
 *
 * Out of memory: every allocation of ours between opening a context and a captured, replayed session fails in turn.
 * Each time there is an error that says so, nothing is lost, and the next attempt works. The linker wraps the
 * allocator for the layers that this program links (see CMakeLists.txt); libraries keep theirs.
 */
#include "failing_memory.h"
#include "fixture.h"

static const char *const TEXT =
    "ordito: 1\nname: small\n"
    "dims: {d_model: 16, n_head: 2, n_layer: 2, vocab: 257, head_dim: d_model / n_head, context: 16, batch: 1, "
    "seq: {min: 1, max: context}}\n"
    "inputs:\n  tokens: {dtype: i32, shape: [batch, seq], fill: tokens}\n"
    "weights:\n  wte: {shape: [vocab, d_model]}\n  head: {shape: [out: vocab, in: d_model]}\n"
    "  h.<layer>.wq: {shape: [out: d_model, in: d_model]}\n  h.<layer>.wk: {shape: [out: d_model, in: d_model]}\n"
    "  h.<layer>.wv: {shape: [out: d_model, in: d_model]}\n  h.<layer>.wo: {shape: [out: d_model, in: d_model]}\n"
    "  h.<layer>.up: {shape: [out: 32, in: d_model]}\n  h.<layer>.down: {shape: [out: d_model, in: 32]}\n"
    "caches: {kv.<layer>: {length: context}}\n"
    "blocks:\n  heads:\n    takes: {x: value}\n    gives: [x]\n    body:\n"
    "      - reshape: {in: x, shape: [batch, seq, n_head, head_dim], out: x}\n"
    "      - transpose: {in: x, axes: [0, 2, 1, 3], out: x}\n"
    "graph:\n  - embedding: {in: tokens, weight: wte, out: x}\n"
    "  - repeat:\n      count: n_layer\n      index: layer\n      body:\n"
    "        - layernorm: {in: x, eps: 1e-5, out: h}\n"
    "        - matmul: {in: h, weight: h.<layer>.wq, out: q}\n        - matmul: {in: h, weight: h.<layer>.wk, out: k}\n"
    "        - matmul: {in: h, weight: h.<layer>.wv, out: v}\n"
    "        - heads: {x: q, out: q}\n        - heads: {x: k, out: k}\n        - heads: {x: v, out: v}\n"
    "        - attention: {q: q, k: k, v: v, causal: true, cache: kv.<layer>, out: a}\n"
    "        - concat_projection: {in: a, weight: h.<layer>.wo, out: h}\n        - add: {in: [x, h], out: x}\n"
    "        - mlp: {in: x, up: h.<layer>.up, down: h.<layer>.down, activation: silu, out: h}\n"
    "        - add: {in: [x, h], out: x}\n"
    "  - pool: {in: x, kind: last, out: x}\n  - matmul: {in: x, weight: head, out: next}\n"
    "outputs: [next]\ntokenizer: {kind: bytes, before: [256]}\ngenerate: {logits: next, stop: []}\n";

/* From nothing to four generated tokens. */
static bool whole_path(const setup *how, ord_error *err) {
  const ord_context_options where = context_options_for(how, 1);
  const ord_weight_options random = {.struct_size = sizeof random, .random = true, .seed = 1};
  const ord_session_options plain = {.struct_size = sizeof plain, .generates = true};
  const ord_session_options generates = options_for(how, &plain);
  ord_generate_options options = ORD_GENERATE_INIT;
  options.max_tokens = 4;
  stage s = {0};
  char *messages = NULL, *show = NULL, *explain = NULL;
  const ord_show_options all = {.struct_size = sizeof all, .passes = true, .plan = true, .session = &generates};
  const bool done = ord_context_create(&where, &s.context, err) &&
                    ord_model_load_text(s.context, "small.yaml", TEXT, strlen(TEXT), NULL, &s.model, &messages, err) &&
                    ord_model_open_weights(s.model, &random, NULL, err) &&
                    ord_model_report_show(s.model, &all, &show, err) &&
                    ord_model_report_explain(s.model, &generates, true, &explain, err) &&
                    ord_session_create(s.model, &generates, &s.session, err) &&
                    ord_session_generate(s.session, NULL, 0, &options, NULL, NULL, NULL, err);
  ord_text_free(messages);
  ord_text_free(show);
  ord_text_free(explain);
  close_stage(&s);
  return done;
}

static void fail_in_turn(const setup *how) {
  ord_error err = ORD_ERROR_INIT;
  MUST(whole_path(how, &err)); /* what libraries keep for good is there after this */
  allocation_count = 0;
  live_count = 0;
  MUST(whole_path(how, &err));
  const long all = allocation_count;
  assert_int_equal(live_count, 0);
  assert_true(all > 100);
  for (long i = 0; i < all; i++) {
    err = (ord_error)ORD_ERROR_INIT;
    allocation_count = 0;
    fail_at = i;
    const bool done = whole_path(how, &err);
    fail_at = -1;
    if (done) fail_msg("%s: allocation %ld of %ld failed and nobody noticed", how->name, i, all);
    if (err.code != ORD_NO_MEMORY)
      fail_msg("%s: allocation %ld: code %d, \"%s\"; wanted out of memory", how->name, i, err.code, err.text);
    if (live_count != 0) fail_msg("%s: allocation %ld: %ld pieces of memory were lost", how->name, i, live_count);
  }
  MUST(whole_path(how, &err));
  print_message("%s: %ld allocations failed in turn\n", how->name, all);
}

static void every_allocation_fails_in_turn(void **state) {
  (void)state;
  fail_in_turn(&setups[0]);
  if (!is_slow_build()) fail_in_turn(&(setup){.name = "plain kernels", .plugins = PLAIN_PLUGINS});
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_fails_in_turn)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
