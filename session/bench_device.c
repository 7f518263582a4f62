/* SPDX-License-Identifier: MIT
 *
 * What the clock of a GPU tells: of one run, and of replays that the host launches one behind the other.
 */
#include <stdlib.h>

#include "session/parts.h"

/* Between two marks with nothing between them time passes too; the median of some is what it is. They come before the
 * run, while the device reads the probe's memory: behind it the device would wait for each. */
enum { EMPTY_PAIRS = 9 };

static const ord_device_table *table_of(const ord_session *session) { return session->queue->device->table; }

static bool fail_no_clock(const ord_session *session, ord_error *err) {
  return ord_fail(err, ORD_UNSUPPORTED, "timing by the device: found %s, which has no clock of its own; wanted a GPU",
                  session->queue->device->info.name);
}

/* ---- one run ----------------------------------------------------------------------------------------------------- */

bool ord_run_marks_begin(ord_session *session, ord_timing *timing, ord_device_clock **out, ord_error *err) {
  const ord_device_table *table = table_of(session);
  *out = NULL;
  timing->device_ns = timing->empty_ns = 0;
  if (timing->by_device && !table->clock_create) return fail_no_clock(session, err);
  const bool is_marked = table->clock_create && (timing->by_device || timing->by_step);
  if (is_marked && !table->clock_create(session->queue, EMPTY_PAIRS + 2, out, err)) return false;
  bool done = !timing->probe || ord_probe_launch(timing->probe, session->queue, timing->probe_passes, err);
  for (int i = 0; done && *out && i < EMPTY_PAIRS + 1; i++) done = table->clock_mark(*out, err);
  if (!done) ord_run_marks_destroy(session, *out);
  return done;
}

bool ord_run_marks_end(const ord_session *session, ord_device_clock *clock, ord_error *err) {
  return !clock || table_of(session)->clock_mark(clock, err);
}

static int by_size(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

bool ord_run_marks_read(const ord_session *session, ord_device_clock *clock, ord_timing *timing, ord_error *err) {
  uint64_t ns[EMPTY_PAIRS + 1];
  if (!clock) return true;
  if (!table_of(session)->clock_read(clock, ns, err)) return false;
  timing->device_ns = ns[EMPTY_PAIRS];
  qsort(ns, EMPTY_PAIRS, sizeof *ns, by_size);
  timing->empty_ns = ns[EMPTY_PAIRS / 2];
  return true;
}

void ord_run_marks_destroy(const ord_session *session, ord_device_clock *clock) {
  if (clock) table_of(session)->clock_destroy(clock);
}

/* ---- replays in a row -------------------------------------------------------------------------------------------- */

static uint64_t count_calls(const ord_session *session) { return session->queue->device->driver.calls; }

static bool launch_all(ord_session *session, const ord_lane *lane, ord_replay_timing *timing, ord_error *err) {
  const uint64_t begin_ns = ord_clock_ns(), calls = count_calls(session);
  for (uint32_t i = 0; i < timing->count; i++)
    if (!table_of(session)->replay(session->queue, lane->capture, NULL, err)) return false;
  timing->launch_ns = ord_clock_ns() - begin_ns;
  timing->launch_calls = count_calls(session) - calls;
  return true;
}

static bool time_lane(ord_session *session, const ord_lane *lane, ord_replay_timing *timing, ord_error *err) {
  const ord_device_table *table = table_of(session);
  ord_device_clock *clock = NULL;
  if (!table->wait(session->queue, err) || !table->clock_create(session->queue, 2, &clock, err)) return false;
  const uint64_t begin_ns = ord_clock_ns();
  const bool done = table->clock_mark(clock, err) && launch_all(session, lane, timing, err) &&
                    table->clock_mark(clock, err) && table->clock_read(clock, &timing->device_ns, err);
  timing->run_ns = ord_clock_ns() - begin_ns;
  table->clock_destroy(clock);
  return done;
}

bool ord_session_time_replays(ord_session *session, ord_replay_timing *timing, ord_error *err) {
  ord_replay_timing own;
  ord_lane *lane = NULL;
  if (!ord_struct_take(timing, "ord_replay_timing", &own, sizeof own, err)) return false;
  if (!table_of(session)->clock_create) return fail_no_clock(session, err);
  if (own.count == 0) return ord_fail(err, ORD_INVALID, "replays: found a count of 0; wanted at least 1");
  if (!ord_run_prepare(session, &lane, err) || !ord_lane_must_be_captured(lane, "replays", "this run", err) ||
      !time_lane(session, lane, &own, err))
    return false;
  ord_run_end(session, lane);
  return ord_struct_give(&own, "ord_replay_timing", timing, sizeof own, err);
}
