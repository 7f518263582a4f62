/* SPDX-License-Identifier: MIT
 *
 * Generation: the prompt in one run, then one token a run, sampled inside the graph, until a stop token, the limit,
 * the caller or a cancel ends it. Prefill and decode share the caches. A device that can makes the tokens behind the
 * first by itself (loop.c).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "session/parts.h"

typedef struct generation {
  ord_session *session;
  const ord_generate_options *options;
  ord_token_fn token_fn;
  void *context;
  int32_t stop[ORD_LOOP_STOP_MAX];
  uint32_t stop_count;
  uint32_t loop; /* what is done: ORD_LOOP_OFF, _WHOLE, _AHEAD, _DEAF */
  ord_decoder decoder;
  ord_text text;
} generation;

/* ---- checks before anything is launched -------------------------------------------------------------------------- */

static bool check_options(const ord_generate_options *options, ord_error *err) {
  if (!isfinite(options->temperature) || options->temperature < 0)
    return ord_fail(err, ORD_INVALID, "temperature: found %g; wanted a finite number of at least 0 (0 is greedy)",
                    (double)options->temperature);
  if (options->top_k < 0)
    return ord_fail(err, ORD_INVALID, "top_k: found %d; wanted at least 0 (0 is all)", options->top_k);
  if (!(options->top_p > 0 && options->top_p <= 1))
    return ord_fail(err, ORD_INVALID, "top_p: found %g; wanted more than 0, at most 1", (double)options->top_p);
  if (options->loop > ORD_LOOP_DEAF)
    return ord_fail(err, ORD_INVALID, "loop: found %u; wanted ORD_LOOP_AUTO, _OFF, _WHOLE, _AHEAD or _DEAF",
                    options->loop);
  return true;
}

/* The most tokens that one run takes. */
static size_t piece_tokens(const ord_session *session) {
  return (size_t)session->graph->run_dim[session->token_dim].max;
}

/* In pieces a token cannot see those of the pieces behind it; where the model is not causal it would have to. */
static bool check_pieces(const ord_session *session, size_t count, ord_error *err) {
  const ord_graph *graph = session->graph;
  for (uint32_t n = 0; count > piece_tokens(session) && n < graph->node_count; n++) {
    const ord_graph_node *node = &graph->node[n];
    const ord_attr *causal = node->cache == ORD_NONE ? NULL : ord_attr_find(node->attr, node->attr_count, "causal");
    if (causal && !causal->value.i)
      return ord_fail(err, ORD_INVALID,
                      "prompt: found %zu tokens; wanted at most %zu, the longest run: %s is not causal, so that no "
                      "prompt can be read in pieces",
                      count, piece_tokens(session), node->path[0]);
  }
  return true;
}

static bool check_prompt(const ord_session *session, const int32_t *prompt, size_t count, uint32_t max_tokens,
                         ord_error *err) {
  const int64_t vocab = ord_model_vocab(session->model), room = ord_model_context(session->model);
  for (size_t i = 0; i < count; i++)
    if (prompt[i] < 0 || prompt[i] >= vocab)
      return ord_fail(err, ORD_INVALID, "prompt: token %zu is id %d; wanted 0 to %lld", i, prompt[i],
                      (long long)vocab - 1);
  const uint64_t needed = (uint64_t)session->past[0] + count + max_tokens;
  if (needed > (uint64_t)room)
    return ord_fail(
        err, ORD_INVALID,
        "the context is too short: %d tokens there, %zu in the prompt and %u to come need %llu; %lld available",
        session->past[0], count, max_tokens, (unsigned long long)needed, (long long)room);
  return check_pieces(session, count, err);
}

static bool check_session(const ord_session *session, ord_error *err) {
  if (!session->options.generates)
    return ord_fail(err, ORD_INVALID, "the session was not made to generate; wanted `generates` in its options");
  if (session->token_input == ORD_NONE || session->graph->cache_count == 0 || session->token_dim == ORD_NONE ||
      session->graph->run_dim[session->token_dim].min > 1)
    return ord_fail(
        err, ORD_INVALID,
        "the model cannot generate; wanted an input with fill: tokens, a run-time token axis from 1 and caches");
  return true;
}

static bool find_stops(generation *run, ord_error *err) {
  const ord_model *model = run->session->model;
  const ord_generate_rules *rules = ord_description_generate(model->description);
  if (rules->stop_count > sizeof run->stop / sizeof *run->stop)
    return ord_fail(err, ORD_INVALID, "%u stop tokens; wanted at most %d", rules->stop_count, ORD_LOOP_STOP_MAX);
  for (uint32_t i = 0; i < rules->stop_count && !run->options->ignore_stop; i++) {
    int32_t id = (int32_t)rules->stop[i].id;
    if (!model->tokenizer && rules->stop[i].text)
      return ord_fail(err, ORD_INVALID, "stop token '%s': found no tokenizer that knows its id; wanted ignore_stop",
                      rules->stop[i].text);
    if (model->tokenizer && !ord_tokenizer_find(model->tokenizer, &rules->stop[i], &id, err)) return false;
    run->stop[run->stop_count++] = id;
  }
  return true;
}

static bool is_stop(const generation *run, int32_t id) {
  for (uint32_t i = 0; i < run->stop_count; i++)
    if (run->stop[i] == id) return true;
  return false;
}

/* ---- one run ------------------------------------------------------------------------------------------------------
 */

/* Sets the [batch] input of this name to one number in every row. */
static bool set_rows(ord_session *session, const char *name, const void *number, ord_error *err) {
  const uint32_t input = ord_graph_find_input(session->graph, name);
  return input != ORD_NONE ? ord_inputs_set_all(session, input, number, err)
                           : ord_fail(err, ORD_INTERNAL, "the graph lost input '%s'", name);
}

static bool set_sampling(ord_session *session, const ord_generate_options *options, ord_error *err) {
  const int64_t seed = (int64_t)options->seed;
  return set_rows(session, "sample.temperature", &options->temperature, err) &&
         set_rows(session, "sample.top_k", &options->top_k, err) &&
         set_rows(session, "sample.top_p", &options->top_p, err) && set_rows(session, "sample.seed", &seed, err);
}

bool ord_generation_defaults(ord_session *session, ord_error *err) {
  static const ord_generate_options greedy = ORD_GENERATE_INIT;
  const int64_t counter = 0;
  return set_sampling(session, &greedy, err) && set_rows(session, "sample.counter", &counter, err);
}

/* Runs `count` new tokens and gives the one that follows. The draw is numbered by the token's place in the context,
 * so that a generation that goes on draws what a longer one would have drawn. */
static bool next_token(ord_session *session, const int32_t *id, size_t count, int32_t *out, ord_error *err) {
  const int64_t dim[2] = {1, (int64_t)count}, counter = session->past[0] + (int64_t)count;
  ord_tensor sampled = {.struct_size = sizeof sampled};
  if (!ord_inputs_set(session, session->token_input, dim, id, count * sizeof *id, err) ||
      !set_rows(session, "sample.counter", &counter, err) || !ord_session_run_once(session, NULL, err) ||
      !ord_session_get(session, "sample.id", &sampled, err))
    return false;
  memcpy(out, sampled.data, sizeof *out);
  return true;
}

/* The text that one token completes, and at the end what is still held. */
static bool decode(generation *run, int32_t id, bool is_last, ord_error *err) {
  const ord_tokenizer *tokenizer = run->session->model->tokenizer;
  run->text.length = 0;
  if (tokenizer && !is_stop(run, id)) ord_tokenizer_decode(tokenizer, &run->decoder, id, &run->text);
  if (tokenizer && is_last) ord_tokenizer_decode_end(&run->decoder, &run->text);
  return run->text.failed ? ord_fail_memory(err, "decoding a token") : true;
}

/* Hands one token and its text to the caller; false: the caller wants no more. */
static bool give_token(const generation *run, int32_t id) {
  return !run->token_fn || run->token_fn(run->context, id, run->text.bytes ? run->text.bytes : "", run->text.length);
}

/* The token behind the prompt, which is read in pieces where one run takes fewer tokens. */
static bool read_prompt(ord_session *session, const int32_t *prompt, size_t count, int32_t *out, ord_error *err) {
  const size_t most = piece_tokens(session);
  for (; count > most; prompt += most, count -= most)
    if (!next_token(session, prompt, most, out, err)) return false;
  return next_token(session, prompt, count, out, err);
}

/* The token behind `last`; `most` may still come, this one included. A loop that something ended begins anew, with what
 * that changed. */
static bool go_on(generation *run, int32_t last, uint32_t most, int32_t *out, ord_error *err) {
  ord_session *session = run->session;
  if (run->loop == ORD_LOOP_OFF) return next_token(session, &last, 1, out, err);
  return (session->looping || ord_loop_begin(session, last, most, run->stop, run->stop_count, err)) &&
         ord_loop_take(session, last, out, err);
}

static bool generate_all(generation *run, const int32_t *prompt, size_t prompt_count, ord_generate_result *result,
                         ord_error *err) {
  const uint64_t begin = ord_clock_ns();
  int32_t id = 0;
  uint64_t decode_begin = begin;
  result->ended = ORD_ENDED_LIMIT;
  for (uint32_t made = 0; made < run->options->max_tokens; made++) {
    const int32_t last = id;
    if (made == 0 ? !read_prompt(run->session, prompt, prompt_count, &id, err)
                  : !go_on(run, last, run->options->max_tokens - made, &id, err))
      return false;
    if (made == 0) {
      decode_begin = ord_clock_ns();
      result->prefill_ns = decode_begin - begin;
    }
    result->token_count = made + 1;
    if (is_stop(run, id)) result->ended = ORD_ENDED_STOP;
    const bool is_last = result->ended == ORD_ENDED_STOP || made + 1 == run->options->max_tokens;
    if (!decode(run, id, is_last, err)) return false;
    if (!give_token(run, id) && !is_last) result->ended = ORD_ENDED_CALLER;
    if (result->ended != ORD_ENDED_LIMIT) break;
  }
  result->decode_ns = ord_clock_ns() - decode_begin;
  return true;
}

/* The ids that an empty prompt in an empty session stands for: the tokenizer's `before`. malloc'ed. */
static bool start_ids(const ord_session *session, int32_t **out, size_t *out_count, ord_error *err) {
  if (session->model->tokenizer && !ord_model_encode(session->model, "", 0, out, out_count, err)) return false;
  if (*out_count > 0) return true;
  ord_ids_free(*out);
  *out = NULL;
  return ord_fail(err, ORD_INVALID, "the prompt is empty and %s has no start token; wanted at least one token",
                  ord_model_name(session->model));
}

bool ord_session_generate(ord_session *session, const int32_t *prompt, size_t prompt_count,
                          const ord_generate_options *options, ord_token_fn token_fn, void *context,
                          ord_generate_result *result, ord_error *err) {
  static const ord_generate_options defaults = ORD_GENERATE_INIT;
  ord_generate_options own;
  if (!ord_struct_take(options ? options : &defaults, "ord_generate_options", &own, sizeof own, err)) return false;
  options = &own;
  int32_t *start = NULL;
  ord_generate_result made = {0};
  generation run = {.session = session, .options = options, .token_fn = token_fn, .context = context};
  if (result && !ord_struct_give(&made, "ord_generate_result", result, sizeof made, err)) return false;
  atomic_store(session->queue->cancel, 0);
  bool done = check_session(session, err) && check_options(options, err) && find_stops(&run, err);
  if (done && prompt_count == 0) {
    done = start_ids(session, &start, &prompt_count, err);
    prompt = start;
  }
  done = done && check_prompt(session, prompt, prompt_count, options->max_tokens, err) &&
         set_sampling(session, options, err) &&
         ord_loop_prepare(session, session->lanes, options->loop, &run.loop, err);
  const bool is_nested = session->is_generating;
  session->is_generating = done || is_nested;
  done = done && generate_all(&run, prompt, prompt_count, &made, err);
  session->is_generating = is_nested;
  if (!ord_loop_end(session, done ? err : NULL)) done = false;
  made.prompt_count = (uint32_t)prompt_count;
  made.loop = run.loop;
  if (result && !ord_struct_give(&made, "ord_generate_result", result, sizeof made, done ? err : NULL)) done = false;
  ord_text_finish(&run.text);
  ord_ids_free(start);
  return done;
}
