/* SPDX-License-Identifier: MIT
 *
 * The rounds: the bandwidth, a prefill, steps of each kind in turn, the bandwidth.
 */
#include <stdlib.h>

#include "cli/bench_cuda.h"

/* Eager runs are launched while the device still reads the probe's memory; no more of that than this. */
enum { PASSES_MAX = 16 };
/* With marks an eager run takes longer to launch: no more than so many times. */
enum { MARKED_COSTS = 2 };

/* ---- one step ---------------------------------------------------------------------------------------------------- */

static bool run(ord_session *session, int64_t length, ord_timing *timing, ord_error *err) {
  int64_t tokens;
  timing->struct_size = sizeof *timing;
  return ord_session_set_random(session, length, 1, &tokens, err) && ord_session_run_timed(session, timing, err);
}

bool bench_cuda_step(const bench_cuda *b, ord_session *session, ord_timing *timing, ord_error *err) {
  if (!run(session, 1, timing, err)) return false;
  ord_session_rewind(session, b->position);
  return true;
}

bool bench_cuda_go_to_position(const bench_cuda *b, ord_session *session, ord_error *err) {
  int64_t more = 0;
  ord_session_reset(session);
  for (int64_t held = 0; held < b->position; held += more)
    if (!ord_session_set_random(session, b->position - held, 1, &more, err) || !ord_session_run(session, err))
      return false;
  return true;
}

bool bench_cuda_replays(const bench_cuda *b, ord_session *session, ord_replay_timing *timing, double *out_us,
                        ord_error *err) {
  int64_t tokens;
  *timing = (ord_replay_timing){.struct_size = sizeof *timing, .count = (uint32_t)b->steps};
  if (!ord_session_set_random(session, 1, 1, &tokens, err) || !ord_session_time_replays(session, timing, err))
    return false;
  ord_session_rewind(session, b->position);
  *out_us = (double)timing->device_ns / (double)b->steps / 1e3;
  return true;
}

/* How often the probe's memory must be read so that the device is busy until the host has launched an eager run. */
static uint32_t passes(const bench_cuda *b) {
  const double pass_ns = b->read.per_s > 0 ? (double)b->probe_bytes * 1e9 / b->read.per_s : 0;
  const double wanted = b->is_simulated || pass_ns <= 0 ? 1 : 1 + MARKED_COSTS * b->eager_ns / pass_ns;
  return wanted < PASSES_MAX ? (uint32_t)wanted : PASSES_MAX;
}

/* ---- kinds of steps ---------------------------------------------------------------------------------------------- */

static uint64_t calls_of(const bench_cuda *b) {
  ord_driver_use use = {.struct_size = sizeof use};
  return ord_context_driver_use(b->stage.context, &use, NULL) ? use.calls : 0;
}

/* Both are waited for by the host. */
static bool eager_and_replay(bench_cuda *b, ord_error *err) {
  ord_timing replay = {0}, eager = {.eager = true};
  const uint64_t before = calls_of(b);
  if (!bench_cuda_step(b, b->stage.session, &eager, err)) return false;
  const uint64_t between = calls_of(b);
  if (!bench_cuda_step(b, b->stage.session, &replay, err)) return false;
  b->eager_ns = (double)eager.run_ns;
  return bench_cuda_note(b, BENCH_eager_us, (double)eager.run_ns / 1e3, err) &&
         bench_cuda_note(b, BENCH_eager_replay_us, (double)replay.run_ns / 1e3, err) &&
         bench_cuda_count(b, BENCH_eager_calls, (double)(between - before), err) &&
         bench_cuda_count(b, BENCH_eager_replay_calls, (double)(calls_of(b) - between), err);
}

bool bench_cuda_cold(bench_cuda *b, int row, ord_error *err) {
  ord_timing cold = {.by_device = true, .probe = b->probe, .probe_passes = 1};
  return bench_cuda_step(b, b->stage.session, &cold, err) && bench_cuda_note(b, row, (double)cold.device_ns / 1e3, err);
}

static bool by_step(bench_cuda *b, ord_error *err) {
  ord_timing unmarked = {.eager = true, .by_device = true, .probe = b->probe, .probe_passes = passes(b)};
  ord_timing marked = unmarked;
  marked.by_step = true;
  return bench_cuda_step(b, b->stage.session, &unmarked, err) && bench_cuda_step(b, b->stage.session, &marked, err) &&
         bench_cuda_note(b, BENCH_residual_unmarked_us, (double)unmarked.device_ns / 1e3, err) &&
         bench_cuda_note(b, BENCH_residual_marked_us, (double)marked.device_ns / 1e3, err) &&
         bench_cuda_note(b, BENCH_residual_empty_us, (double)marked.empty_ns / 1e3, err);
}

/* Warm: the first finds what the step before left, the others what those before them left. */
static bool replays(bench_cuda *b, ord_error *err) {
  ord_replay_timing timing;
  double us = 0;
  if (!bench_cuda_is_measured(b, BENCH_SECTION_pipelined)) return true;
  if (!bench_cuda_replays(b, b->stage.session, &timing, &us, err)) return false;
  const double steps = (double)b->steps;
  return bench_cuda_note(b, BENCH_warm_us, us, err) &&
         bench_cuda_note(b, BENCH_pipelined_us, (double)timing.run_ns / steps / 1e3, err) &&
         bench_cuda_note(b, BENCH_pipelined_host_us, (double)timing.launch_ns / steps / 1e3, err) &&
         bench_cuda_count(b, BENCH_pipelined_calls, (double)timing.launch_calls / steps, err);
}

/* Right behind a run that was timed by step: the mean of all such runs of the round. */
static bool make_table(bench_cuda *b, ord_error *err) {
  if (!bench_table_make(b->stage.session, &b->decode)) return bench_fail_memory(err);
  return bench_cuda_note(b, BENCH_residual_steps_us, b->decode.all.ns / 1e3, err) &&
         bench_cuda_count(b, BENCH_step_position, (double)b->position, err) &&
         bench_cuda_count(b, BENCH_step_weight_bytes, (double)b->decode.all.weight_bytes, err) &&
         bench_cuda_count(b, BENCH_step_cache_bytes, (double)b->decode.all.cache_bytes, err);
}

static bool steps(bench_cuda *b, ord_error *err) {
  if (!b->decodes) return true;
  if (!bench_cuda_go_to_position(b, b->stage.session, err)) return false;
  ord_session_times_reset(b->stage.session);
  for (int64_t i = 0; i < b->steps; i++)
    if (!eager_and_replay(b, err) || !bench_cuda_cold(b, BENCH_step_cold_us, err) || !by_step(b, err)) return false;
  return make_table(b, err) && replays(b, err) && bench_cuda_generations(b, err) && bench_cuda_rivals(b, err);
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

static bool prefill(bench_cuda *b, ord_error *err) {
  ord_session *session = b->stage.session;
  ord_timing timing = {.by_device = true, .probe = b->probe, .probe_passes = 1};
  ord_timing by_step = {.by_step = true, .probe = b->probe, .probe_passes = passes(b)};
  const int64_t length = b->request->bench_prompt;
  ord_session_reset(session);
  if (!ord_session_set_random(session, length, 1, &b->tokens, err) || !run(session, length, &timing, err)) return false;
  ord_session_reset(session);
  ord_session_times_reset(session);
  if (!run(session, length, &by_step, err)) return false;
  if (!bench_table_make(session, &b->prefill)) return bench_fail_memory(err);
  const double ns = (double)timing.device_ns, operations = (double)b->prefill.all.operations;
  return bench_cuda_note(b, BENCH_prefill_ms, ns / 1e6, err) &&
         bench_cuda_note(b, BENCH_prefill_gop_per_s, ns > 0 ? operations / ns : 0, err) &&
         bench_cuda_count(b, BENCH_prefill_operations, operations, err) &&
         bench_cuda_count(b, BENCH_prefill_tokens, (double)b->tokens, err) &&
         (b->tokens == 0 ||
          bench_cuda_note(b, BENCH_prefill_tokens_per_s, ns > 0 ? (double)b->tokens * 1e9 / ns : 0, err));
}

static bool bandwidth(bench_cuda *b, double *out, ord_error *err) {
  ord_probe_result result = {.struct_size = sizeof result};
  if (!ord_probe_read(b->probe, &result, err)) return false;
  if (result.per_s > b->read.per_s) b->read = result;
  *out = result.per_s;
  return bench_cuda_note(b, BENCH_read_gb_per_s, result.per_s / 1e9, err);
}

static bool measure_round(bench_cuda *b, ord_error *err) {
  double before, after;
  if (!bandwidth(b, &before, err) || !prefill(b, err) || !steps(b, err) || !bandwidth(b, &after, err)) return false;
  const double bytes = (double)(b->decode.all.weight_bytes + b->decode.all.cache_bytes);
  return !b->decodes || bench_cuda_note(b, BENCH_step_floor_us, bytes * 1e6 / ((before + after) / 2), err);
}

static bool note_memory(bench_cuda *b, ord_error *err) {
  ord_memory_report of = {.struct_size = sizeof of};
  return ord_session_memory(b->stage.session, &of, err) &&
         bench_cuda_count(b, BENCH_memory_weights, (double)of.weights, err) &&
         bench_cuda_count(b, BENCH_memory_packed, (double)of.packed, err) &&
         bench_cuda_count(b, BENCH_memory_cache, (double)of.cache, err) &&
         bench_cuda_count(b, BENCH_memory_arena, (double)of.arena, err) &&
         bench_cuda_count(b, BENCH_memory_captures, (double)of.captures, err) &&
         bench_cuda_count(b, BENCH_memory_peak, (double)of.peak, err);
}

/* What a device does for the first time it does slowly: none of that is noted. */
static bool warm_up(const bench_cuda *b, ord_error *err) {
  ord_probe_result read = {.struct_size = sizeof read};
  ord_timing timing = {0}, eager = {.eager = true};
  if (!ord_probe_read(b->probe, &read, err)) return false;
  if (!b->decodes) return run(b->stage.session, b->request->bench_prompt, &timing, err);
  return bench_cuda_go_to_position(b, b->stage.session, err) && bench_cuda_step(b, b->stage.session, &timing, err) &&
         bench_cuda_step(b, b->stage.session, &eager, err);
}

int bench_cuda_measure(bench_cuda *b) {
  ord_error err = ORD_ERROR_INIT;
  bool done = warm_up(b, &err);
  for (int64_t i = 0; done && i < b->request->bench_repeat; i++) done = measure_round(b, &err);
  return done && note_memory(b, &err) ? CLI_OK : cli_fail(&err);
}
