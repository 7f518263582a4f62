/* SPDX-License-Identifier: MIT
 *
 * Generation on the device: a lane for one new token, captured, gets a loop that goes on from token to token without
 * the host. The device may have gone further than the tokens that were taken; the session counts those alone, and what
 * lies behind them in the caches is dead. Whatever else a session does ends the loop that runs.
 */
#include <string.h>

#include "session/parts.h"

/* ---- making ------------------------------------------------------------------------------------------------------ */

static void *address_of(const ord_lane *lane, uint32_t input) {
  const ord_location *place = &lane->plan->input[input].place;
  return place->space == ORD_SPACE_ARENA ? (char *)lane->memory.arena + place->offset : NULL;
}

static bool find_places(const ord_session *session, const ord_lane *lane, ord_loop_places *out, ord_error *err) {
  const ord_graph *graph = session->graph;
  *out = (ord_loop_places){.past = lane->memory.past};
  for (uint32_t i = 0; i < lane->plan->output_count; i++)
    if (strcmp(lane->plan->output[i].name, "sample.id") == 0)
      out->sampled = (const int32_t *)((char *)lane->memory.arena + lane->plan->output[i].place.offset);
  for (uint32_t i = 0; i < graph->input_count; i++) {
    if (i == session->token_input) out->token = address_of(lane, i);
    if (strcmp(graph->input[i].name, "sample.counter") == 0) out->counter = address_of(lane, i);
    if (graph->input[i].fill != ORD_FILL_POSITIONS || session->input[i].is_set || !address_of(lane, i)) continue;
    if (out->position)
      return ord_fail(err, ORD_UNSUPPORTED, "found two inputs with fill: positions; wanted at most one");
    out->position = address_of(lane, i);
  }
  return (out->sampled && out->token && out->counter) ||
         ord_fail(err, ORD_UNSUPPORTED, "found a plan that does not read its token; wanted one that does");
}

static bool make_loop(const ord_session *session, ord_lane *lane, uint32_t mode, ord_error *err) {
  const ord_device_table *table = session->queue->device->table;
  const ord_loop_options options = {.capacity = (uint32_t)ord_model_context(session->model),
                                    .is_one_launch = mode != ORD_LOOP_AHEAD,
                                    .is_deaf = mode == ORD_LOOP_DEAF};
  ord_loop_places places;
  ord_loop *loop = NULL;
  if (!find_places(session, lane, &places, err) ||
      !table->loop_create(session->queue, lane->capture, &places, &options, &loop, err))
    return false;
  ord_lane_loop_destroy(session, lane);
  lane->loop = loop;
  lane->loop_mode = mode;
  return true;
}

void ord_lane_loop_destroy(const ord_session *session, ord_lane *lane) {
  if (lane->loop) session->model->context->device->table->loop_destroy(lane->loop);
  lane->loop = NULL;
}

/* What ORD_LOOP_AUTO tries before ORD_LOOP_AHEAD. No GPU has shown yet which of the two is faster; where this one is
 * not, it is changed here. */
enum { FIRST_CHOICE = ORD_LOOP_WHOLE };

/* Of a lane whose loop can be made. */
static bool make_asked(const ord_session *session, ord_lane *lane, uint32_t asked, ord_error *err) {
  if (lane->loop && (asked == ORD_LOOP_AUTO ? lane->loop_mode != ORD_LOOP_DEAF : asked == lane->loop_mode)) return true;
  if (asked != ORD_LOOP_AUTO) return make_loop(session, lane, asked, err);
  ord_error why = ORD_ERROR_INIT;
  if (make_loop(session, lane, FIRST_CHOICE, &why)) return true;
  if (why.code == ORD_UNSUPPORTED) {
    ord_log_fn log = session->model->context->log;
    if (log) log(session->model->context->log_context, ORD_LOG_WARNING, why.text);
    return make_loop(session, lane, ORD_LOOP_AHEAD, err);
  }
  if (err) *err = why;
  return false;
}

static ord_lane *find_lane(ord_lanes *lanes) {
  ord_lane *best = &lanes->lane[0];
  for (uint32_t i = 1; i < lanes->count; i++)
    if (lanes->lane[i].is_exact) best = &lanes->lane[i];
  return best;
}

bool ord_loop_prepare(ord_session *session, ord_lanes *lanes, uint32_t asked, uint32_t *out_mode, ord_error *err) {
  const ord_device *device = session->queue->device;
  ord_lane *lane = find_lane(lanes);
  ord_loop_places unused;
  const bool is_able = device->table->loop_create && lane->capture && find_places(session, lane, &unused, NULL);
  *out_mode = ORD_LOOP_OFF;
  if (asked == ORD_LOOP_OFF || (asked == ORD_LOOP_AUTO && !is_able)) return true;
  if (!device->table->loop_create)
    return ord_fail(err, ORD_UNSUPPORTED,
                    "loop: found %s, which makes no tokens without the host; wanted another device, or loop off",
                    device->info.name);
  if (!ord_lane_must_be_captured(lane, "loop", "one token", err) || !make_asked(session, lane, asked, err))
    return false;
  *out_mode = lane->loop_mode;
  return true;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* The inputs of the run that makes the token behind `token`. */
static bool set_inputs(ord_session *session, int32_t token, ord_error *err) {
  const int64_t dim[2] = {1, 1}, counter = session->past[0] + 1;
  const uint32_t input = ord_graph_find_input(session->graph, "sample.counter");
  return ord_inputs_set(session, session->token_input, dim, &token, sizeof token, err) &&
         ord_inputs_set_all(session, input, &counter, err);
}

bool ord_loop_begin(ord_session *session, int32_t token, uint32_t limit, const int32_t *stop, uint32_t stop_count,
                    ord_error *err) {
  ord_lane *lane = find_lane(session->lanes);
  ord_loop_request request = {.token = token,
                              .past = session->past[0],
                              .counter = session->past[0] + 1,
                              .limit = limit,
                              .stop_count = stop_count};
  memcpy(request.stop, stop, stop_count * sizeof *stop);
  ord_session_forget_outputs(session);
  if (!set_inputs(session, token, err) || !ord_inputs_resolve(session, err) || !ord_inputs_write(session, lane, err) ||
      !session->queue->device->table->loop_start(lane->loop, &request, err))
    return false;
  session->looping = lane;
  return true;
}

bool ord_loop_take(ord_session *session, int32_t token, int32_t *out, ord_error *err) {
  ord_loop_state state = ORD_LOOP_GOES_ON;
  ord_lane *lane = session->looping;
  if (!session->queue->device->table->loop_next(lane->loop, out, &state, err)) {
    session->looping = NULL;
    return false;
  }
  if (state != ORD_LOOP_GOES_ON) session->looping = NULL;
  if (state == ORD_LOOP_CANCELLED) return ord_fail(err, ORD_CANCELLED, "the generation was cancelled");
  if (!set_inputs(session, token, err)) return false;
  session->past[0]++;
  session->has_run = true;
  return true;
}

bool ord_loop_end(ord_session *session, ord_error *err) {
  ord_lane *lane = session->looping;
  session->looping = NULL;
  return !lane || session->queue->device->table->loop_stop(lane->loop, err);
}
