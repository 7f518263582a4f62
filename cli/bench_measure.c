/* SPDX-License-Identifier: MIT
 *
 * The rounds: a probe of the peak, a prefill, a probe of the peak; a probe of the reads, decode steps, a probe of the
 * reads. A share compares what lies next to each other in time, and what is compared takes turns.
 */
#include <stdlib.h>

#include "cli/bench.h"

/* Several times what the caches of a large machine give to a few cores. */
#define READ_PROBE_BYTES ((size_t)512 << 20)

const uint32_t bench_peak_types[BENCH_PEAK_TYPES] = {
#define COMPUTE(name, type, half_step) type,
#define COMPUTE_GPU(name, type, half_step)
#include "ordito_compute.def"
};

const ord_probe_result *bench_peak(const bench *b) {
  int i = 0;
  while (i + 1 < BENCH_PEAK_TYPES && bench_peak_types[i] != b->compute) i++;
  return &b->peak[i];
}

bool bench_is_noisy(bench *b) {
  const bench_spread read = bench_get(b, BENCH_READ_SPEED), peak = bench_get(b, BENCH_PEAK_SPEED);
  return bench_noise(&read) > BENCH_NOISE_LIMIT || bench_noise(&peak) > BENCH_NOISE_LIMIT;
}

bool bench_fail_memory(ord_error *err) {
  err->code = ORD_NO_MEMORY;
  snprintf(err->text, sizeof err->text, "out of memory while timing");
  return false;
}

bool bench_note(bench *b, int which, double value, ord_error *err) {
  return bench_add(&b->samples[which], value) || bench_fail_memory(err);
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

static bool run(ord_session *session, int64_t length, ord_timing *timing, ord_error *err) {
  int64_t tokens;
  timing->struct_size = sizeof *timing;
  return ord_session_set_random(session, length, 1, &tokens, err) && ord_session_run_timed(session, timing, err);
}

/* A prefill of an empty session; or a run with the inputs as they are, set long before, so that the threads are awake
 * as between the runs of a busy program. */
static bool prefill(const bench *b, ord_session *session, ord_timing *timing, ord_error *err) {
  ord_session_reset(session);
  timing->struct_size = sizeof *timing;
  return b->decodes ? run(session, b->request->bench_prompt, timing, err) : ord_session_run_timed(session, timing, err);
}

/* A decode step; the session then is where it was. */
static bool step(const bench *b, ord_session *session, ord_timing *timing, ord_error *err) {
  if (!run(session, 1, timing, err)) return false;
  ord_session_rewind(session, b->position);
  return true;
}

/* From the end of a prefill to the position at which decoding is timed. */
static bool go_to_position(const bench *b, ord_session *session, ord_error *err) {
  int64_t held = b->tokens, more = 0;
  for (; held < b->position; held += more)
    if (!ord_session_set_random(session, b->position - held, 1, &more, err) || !ord_session_run(session, err))
      return false;
  ord_session_rewind(session, b->position);
  return true;
}

/* ---- probes ------------------------------------------------------------------------------------------------------ */

static bool probe_read(bench *b, double *out, ord_error *err) {
  ord_probe_result result = {.struct_size = sizeof result};
  if (!ord_probe_read(b->probe, &result, err) || !bench_note(b, BENCH_READ_SPEED, result.per_s, err)) return false;
  if (result.per_s > b->read.per_s) b->read = result;
  *out = result.per_s;
  return true;
}

static bool probe_peak(bench *b, double *out, ord_error *err) {
  ord_probe_result result = {.struct_size = sizeof result};
  if (!ord_probe_peak(b->probe, b->compute, &result, err) || !bench_note(b, BENCH_PEAK_SPEED, result.per_s, err))
    return false;
  *out = result.per_s;
  return true;
}

/* Before and after all rounds; the better of the two stays. */
static bool probe_peaks(bench *b, ord_error *err) {
  for (int i = 0; i < BENCH_PEAK_TYPES; i++) {
    ord_probe_result result = {.struct_size = sizeof result};
    if (!ord_probe_peak(b->probe, bench_peak_types[i], &result, err)) return false;
    if (result.per_s > b->peak[i].per_s) b->peak[i] = result;
  }
  return true;
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

static bool note_overhead(bench *b, ord_session *session, bool is_step, ord_error *err) {
  ord_timing timing = {.by_thread = true};
  if (is_step ? !step(b, session, &timing, err) : !prefill(b, session, &timing, err)) return false;
  b->phases = timing.phases;
  return bench_note(b, BENCH_OVERHEAD, bench_overhead(&timing), err) &&
         bench_note(b, BENCH_OVERHEAD_NS, bench_overhead_ns(&timing), err);
}

static bool prefill_round(bench *b, ord_error *err) {
  ord_timing ours = {0}, theirs = {0}, by_step = {.by_step = true};
  double before, after;
  if (!probe_peak(b, &before, err) || !prefill(b, b->stage.session, &ours, err)) return false;
  if (b->rival && (!prefill(b, b->rival, &theirs, err) ||
                   !bench_note(b, BENCH_AGAINST_PREFILL, (double)theirs.run_ns / (double)ours.run_ns, err)))
    return false;
  if (!probe_peak(b, &after, err) || !bench_note(b, BENCH_PREFILL_NS, (double)ours.run_ns, err)) return false;
  if (!b->decodes && !note_overhead(b, b->stage.session, false, err)) return false;
  ord_session_times_reset(b->stage.session);
  if (!prefill(b, b->stage.session, &by_step, err)) return false;
  if (!bench_table_make(b->stage.session, &b->prefill)) return bench_fail_memory(err);
  return bench_note(b, BENCH_PEAK_SHARE,
                    bench_share((double)b->prefill.all.operations, (double)ours.run_ns, (before + after) / 2), err);
}

/* One step of each kind. */
static bool steps_in_turn(bench *b, bench_samples *round, ord_error *err) {
  ord_timing ours = {0}, theirs = {0}, eager = {.eager = true}, by_step = {.by_step = true};
  ord_session *session = b->stage.session;
  if (!step(b, session, &ours, err)) return false;
  if (b->rival && (!step(b, b->rival, &theirs, err) ||
                   !bench_note(b, BENCH_AGAINST_STEP, (double)theirs.run_ns / (double)ours.run_ns, err)))
    return false;
  return step(b, session, &eager, err) && note_overhead(b, session, true, err) && step(b, session, &by_step, err) &&
         bench_note(b, BENCH_STEP_NS, (double)ours.run_ns, err) &&
         bench_note(b, BENCH_STEP_EAGER_NS, (double)eager.run_ns, err) &&
         bench_note(b, BENCH_EAGER_RATIO, (double)eager.run_ns / (double)ours.run_ns, err) &&
         (bench_add(round, (double)ours.run_ns) || bench_fail_memory(err));
}

static bool decode_round(bench *b, int64_t steps, bench_samples *round, ord_error *err) {
  double before, after;
  round->count = 0;
  if (!go_to_position(b, b->stage.session, err) || (b->rival && !go_to_position(b, b->rival, err))) return false;
  if (!probe_read(b, &before, err)) return false;
  for (int64_t i = 0; i < steps; i++)
    if (!steps_in_turn(b, round, err)) return false;
  if (!probe_read(b, &after, err)) return false;
  if (!bench_table_make(b->stage.session, &b->decode)) return bench_fail_memory(err);
  const double bytes = (double)(b->decode.all.weight_bytes + b->decode.all.cache_bytes);
  return bench_note(b, BENCH_READ_SHARE, bench_share(bytes, bench_quantile(round, 0.5), (before + after) / 2), err);
}

/* What a fresh session does the first time. */
static bool cold(bench *b, ord_session *session, double *out_prefill_ns, double *out_step_ns, ord_error *err) {
  ord_timing timing = {0};
  ord_session_reset(session);
  if (!ord_session_set_random(session, b->request->bench_prompt, 1, &b->tokens, err) ||
      !prefill(b, session, &timing, err))
    return false;
  *out_prefill_ns = (double)timing.run_ns;
  if (!b->decodes) return true;
  if (!go_to_position(b, session, err) || !step(b, session, &timing, err)) return false;
  *out_step_ns = (double)timing.run_ns;
  return true;
}

static bool measure(bench *b, bench_samples *round, ord_error *err) {
  const int64_t rounds = b->request->bench_repeat;
  const int64_t steps = (b->request->bench_steps + rounds - 1) / rounds;
  double rival_ns; /* cold, which nobody asks for */
  if (!probe_peaks(b, err) || !cold(b, b->stage.session, &b->first_prefill_ns, &b->first_step_ns, err) ||
      (b->rival && !cold(b, b->rival, &rival_ns, &rival_ns, err)))
    return false;
  for (int64_t i = 0; i < rounds; i++) {
    if (!prefill_round(b, err)) return false;
    if (b->decodes && !decode_round(b, steps, round, err)) return false;
  }
  b->memory.struct_size = sizeof b->memory;
  return probe_peaks(b, err) && ord_session_memory(b->stage.session, &b->memory, err);
}

static bool make_rival(bench *b, ord_error *err) {
  ord_session_options options;
  if (b->request->against.count == 0) return true;
  cli_session_options(b->request, &options);
  options.generates = b->decodes;
  options.pin = b->request->against.item;
  options.pin_count = b->request->against.count;
  return ord_session_create(b->stage.model, &options, &b->rival, err);
}

/* Figures of a shorter prompt are not those that were asked for. */
static void say_what_is_cut(const bench *b, int64_t room) {
  if (room > 0 && b->request->bench_prompt > room)
    cli_say(stderr, "ordito: --prompt: found %lld; the context holds %lld tokens: the prompt is cut to that\n",
            (long long)b->request->bench_prompt, (long long)room);
}

int bench_measure(bench *b) {
  ord_error err = ORD_ERROR_INIT;
  bench_samples round = {0};
  const int64_t room = ord_model_context(b->stage.model);
  say_what_is_cut(b, room);
  const bool done = make_rival(b, &err) && ord_probe_create(b->stage.context, READ_PROBE_BYTES, &b->probe, &err) &&
                    measure(b, &round, &err);
  free(round.value);
  return done ? CLI_OK : cli_fail(&err);
}
