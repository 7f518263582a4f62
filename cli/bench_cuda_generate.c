/* SPDX-License-Identifier: MIT
 *
 * How tokens follow one another: generations of the same tokens, each way in turn. A generation is timed from its first
 * token, which a run of its own makes, to its last.
 */
#include <stdlib.h>

#include "cli/bench_cuda.h"

typedef struct watch {
  const ord_context *context;
  bench_tokens *out;
  double first_ns, last_ns;
  ord_driver_use first; /* of the driver, until the first token */
} watch;

static bool note_token(void *context, int32_t id, const char *text, size_t bytes) {
  watch *of = context;
  (void)text;
  (void)bytes;
  of->last_ns = cli_now_ns();
  of->out->id[of->out->count++] = id;
  if (of->out->count > 1) return true;
  of->first.struct_size = sizeof of->first;
  if (!ord_context_driver_use(of->context, &of->first, NULL)) return false;
  of->first_ns = cli_now_ns();
  return true;
}

/* From `start`, behind a token of which the caches know nothing yet: `steps` tokens and the one before them. */
static bool generate(const bench_cuda *b, ord_session *session, uint32_t loop, watch *of, ord_error *err) {
  static const int32_t prompt = 0;
  ord_generate_options options = ORD_GENERATE_INIT;
  options.max_tokens = (uint32_t)b->steps + 1;
  options.ignore_stop = true;
  options.loop = loop;
  if (!of->out->id) of->out->id = malloc(options.max_tokens * sizeof *of->out->id);
  if (!of->out->id) return bench_fail_memory(err);
  of->out->count = 0;
  ord_session_rewind(session, b->start);
  return ord_session_generate(session, &prompt, 1, &options, note_token, of, NULL, err);
}

bool bench_cuda_tokens(const bench_cuda *b, ord_session *session, uint32_t loop, bench_tokens *out, ord_error *err) {
  watch of = {.context = b->stage.context, .out = out};
  return generate(b, session, loop, &of, err);
}

uint32_t bench_cuda_other_tokens(const bench_tokens *a, const bench_tokens *b) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < a->count; i++) count += i >= b->count || a->id[i] != b->id[i];
  return count;
}

/* One way to make tokens, and the rows of what it takes; -1: no such row. */
typedef struct token_way {
  uint32_t loop;
  int section, us, host_us, calls, polls, other_tokens;
} token_way;

static bool note_way(bench_cuda *b, const token_way *way, const watch *of, ord_error *err) {
  ord_driver_use last = {.struct_size = sizeof last};
  const double end_ns = cli_now_ns(), steps = (double)b->steps;
  if (!ord_context_driver_use(b->stage.context, &last, err)) return false;
  const double host_ns = end_ns - of->first_ns - (double)(last.wait_ns - of->first.wait_ns);
  return bench_cuda_note(b, way->us, (of->last_ns - of->first_ns) / steps / 1e3, err) &&
         (way->host_us < 0 || bench_cuda_note(b, way->host_us, host_ns / steps / 1e3, err)) &&
         (way->calls < 0 || bench_cuda_count(b, way->calls, (double)(last.calls - of->first.calls) / steps, err)) &&
         (way->polls < 0 || bench_cuda_note(b, way->polls, (double)(last.polls - of->first.polls) / steps, err)) &&
         (way->other_tokens < 0 ||
          bench_cuda_count(b, way->other_tokens, bench_cuda_other_tokens(&b->wanted, &b->got), err));
}

static bool go(bench_cuda *b, const token_way *way, ord_error *err) {
  watch of = {.context = b->stage.context, .out = way->loop == ORD_LOOP_OFF ? &b->wanted : &b->got};
  if (!bench_cuda_is_measured(b, way->section)) return true;
  if (!generate(b, b->stage.session, way->loop, &of, err)) return bench_cuda_forgive(b, way->section, err);
  return note_way(b, way, &of, err);
}

bool bench_cuda_generations(bench_cuda *b, ord_error *err) {
  static const token_way ways[] = {{ORD_LOOP_OFF, BENCH_SECTION_synchronous, BENCH_synchronous_us,
                                    BENCH_synchronous_host_us, BENCH_synchronous_calls, -1, -1},
                                   {ORD_LOOP_AHEAD, BENCH_SECTION_ahead, BENCH_ahead_us, BENCH_ahead_host_us,
                                    BENCH_ahead_calls, BENCH_ahead_polls, BENCH_ahead_other_tokens},
                                   {ORD_LOOP_WHOLE, BENCH_SECTION_whole, BENCH_whole_us, BENCH_whole_host_us,
                                    BENCH_whole_calls, BENCH_whole_polls, BENCH_whole_other_tokens},
                                   {ORD_LOOP_DEAF, BENCH_SECTION_cancel, BENCH_cancel_deaf_us, -1, -1, -1, -1}};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
    if (!go(b, &ways[i], err)) return false;
  ord_session_rewind(b->stage.session, b->position);
  return true;
}
