/* SPDX-License-Identifier: MIT
 *
 * Runs: check, write the inputs, replay (or walk eagerly), grow the caches.
 */
#include "session/parts.h"

/* The lane for this run: of those that hold it the one for the fewest tokens. */
static ord_lane *choose_lane(ord_session *session) {
  ord_lanes *lanes = session->lanes;
  ord_lane *best = &lanes->lane[0];
  for (uint32_t i = 1; i < lanes->count; i++)
    if (ord_lane_holds(&lanes->lane[i], session->run_dim[session->token_dim]) &&
        lanes->lane[i].new_tokens < best->new_tokens)
      best = &lanes->lane[i];
  return best;
}

static void advance(ord_session *session) {
  if (session->graph->cache_count == 0) return;
  for (int64_t row = 0; row < session->rows; row++) session->past[row] += session->length[row];
}

void ord_session_forget_outputs(ord_session *session) {
  session->last = NULL;
  session->has_run = false;
  ord_lanes_destroy(session, session->kept);
  session->kept = NULL;
}

bool ord_run_prepare(ord_session *session, ord_lane **out_lane, ord_error *err) {
  if (!ord_loop_end(session, err)) return false;
  ord_session_forget_outputs(session);
  if (!ord_inputs_resolve(session, err)) return false;
  *out_lane = choose_lane(session);
  return (!session->options.poison || ord_outputs_poison(session, *out_lane, err)) &&
         ord_inputs_write(session, *out_lane, err);
}

void ord_run_end(ord_session *session, const ord_lane *lane) {
  advance(session);
  session->last = lane;
  session->has_run = true;
}

static bool start_lane(const ord_session *session, const ord_lane *lane, bool eager, const ord_run_options *options,
                       ord_error *err) {
  const ord_device_table *table = session->queue->device->table;
  return eager || !lane->capture ? table->run_eager(session->queue, lane->plan, &lane->memory, options, err)
                                 : table->replay(session->queue, lane->capture, options, err);
}

/* Until it is done on the device, too. */
static bool run_lane(const ord_session *session, const ord_lane *lane, ord_error *err) {
  const ord_run_options options = {.cancel = session->queue->cancel};
  return start_lane(session, lane, false, &options, err) && session->queue->device->table->wait(session->queue, err);
}

static bool run_lane_timed(ord_session *session, ord_lane *lane, ord_timing *timing, ord_error *err) {
  ord_run_options options = {.cancel = session->queue->cancel};
  ord_device_clock *clock = NULL;
  /* A graph of the device is one launch, in which no step can be timed. */
  const bool eager = timing->eager || (timing->by_step && !session->queue->device->is_host_memory);
  if (!ord_lane_times_begin(session, lane, timing, &options, err) || !ord_run_marks_begin(session, timing, &clock, err))
    return false;
  const uint64_t begin = ord_clock_ns();
  bool done = start_lane(session, lane, eager, &options, err) && ord_run_marks_end(session, clock, err) &&
              session->queue->device->table->wait(session->queue, err);
  timing->run_ns = ord_clock_ns() - begin;
  done = done && ord_run_marks_read(session, clock, timing, err);
  ord_run_marks_destroy(session, clock);
  if (done) ord_lane_times_end(session, lane, timing);
  return done;
}

bool ord_session_run_once(ord_session *session, ord_timing *timing, ord_error *err) {
  ord_lane *lane = NULL;
  if (!ord_run_prepare(session, &lane, err) ||
      !(timing ? run_lane_timed(session, lane, timing, err) : run_lane(session, lane, err)))
    return false;
  ord_run_end(session, lane);
  return true;
}

bool ord_session_run(ord_session *session, ord_error *err) {
  atomic_store(session->queue->cancel, 0);
  return ord_session_run_once(session, NULL, err);
}

bool ord_session_run_timed(ord_session *session, ord_timing *timing, ord_error *err) {
  atomic_store(session->queue->cancel, 0);
  ord_timing own;
  return ord_struct_take(timing, "ord_timing", &own, sizeof own, err) && ord_session_run_once(session, &own, err) &&
         ord_struct_give(&own, "ord_timing", timing, sizeof own, err);
}
