/* SPDX-License-Identifier: MIT
 *
 * Lanes: a plan with its memory and its capture. A session with caches has one lane for all lengths and one for a
 * single new token per row; both share weights, packs and caches.
 */
#include <stdlib.h>
#include <string.h>

#include "session/parts.h"

/* Bound so that the token axis is exactly 1 in the single-token lane and open everywhere else. */
static void bind_run_dims(const ord_session *session, bool single_token, int64_t *exact, int64_t *maximum) {
  const ord_graph *graph = session->graph;
  for (uint32_t i = 0; i < graph->run_dim_count; i++) {
    const ord_graph_run_dim *dim = &graph->run_dim[i];
    exact[i] = single_token && i == session->token_dim ? 1 : dim->min == dim->max ? dim->max : -1;
    maximum[i] = exact[i] >= 0 ? exact[i] : dim->max;
  }
}

/* What the caller asks for; a generation needs its token besides, and without names the logits. */
static bool choose_outputs(ord_session *session, const ord_session_options *options, ord_bind_options *bind,
                           ord_error *err) {
  bind->output = options->output;
  bind->output_count = options->output_count;
  if (!session->generates) return true;
  const uint32_t count = options->output_count ? options->output_count : 1;
  const char **output = ord_arena_take(&session->arena, (size_t)count + 1, sizeof *output);
  if (!output) return ord_fail_memory(err, "choosing outputs");
  output[0] = ord_description_generate(session->model->description)->logits;
  if (options->output_count) memcpy(output, options->output, count * sizeof *output);
  output[count] = "sample.id";
  bind->output = output;
  bind->output_count = count + 1;
  return true;
}

static bool make_graph(ord_session *session, const ord_session_options *options, bool single_token, ord_lane *lane,
                       ord_error *err) {
  int64_t exact[ORD_RUN_DIM_MAX], maximum[ORD_RUN_DIM_MAX];
  bind_run_dims(session, single_token, exact, maximum);
  ord_bind_options bind = {.binding = {exact, maximum},
                           .store = session->model->store,
                           .keep = options->keep,
                           .keep_count = options->keep_count};
  ord_graph *bound = NULL;
  if (!choose_outputs(session, options, &bind, err) || !ord_graph_bind(session->graph, &bind, &bound, err))
    return false;
  lane->record = calloc(ord_pass_count(), sizeof *lane->record);
  if (!lane->record) {
    ord_graph_destroy(bound);
    return ord_fail_memory(err, "running passes");
  }
  const ord_pass_options pass = {&session->chooser, options->disabled_pass, options->disabled_pass_count};
  const bool done = ord_passes_run(bound, &pass, lane->record, NULL, NULL, &lane->graph, err);
  ord_graph_destroy(bound);
  return done;
}

static bool make_memory(ord_session *session, ord_lane *lane, ord_error *err) {
  ord_device *device = session->model->context->device;
  const ord_plan *plan = lane->plan;
  /* The part behind persistent_begin must be zero; clearing all of it also keeps padding finite. */
  lane->memory.arena = device->table->allocate(device, plan->arena_bytes ? plan->arena_bytes : 1, true);
  lane->memory.extent = calloc(plan->extent_count + 1, sizeof(int64_t));
  if (!lane->memory.arena || !lane->memory.extent)
    return ord_fail(err, ORD_NO_MEMORY, "out of memory: a run needs %zu bytes for values and scratch",
                    plan->arena_bytes);
  lane->memory.cache = session->cache;
  lane->memory.past = session->past;
  return true;
}

bool ord_lane_create(ord_session *session, const ord_session_options *options, bool single_token, bool dry,
                     ord_lane *lane, ord_error *err) {
  const ord_context *context = session->model->context;
  lane->name = single_token ? "one new token" : "all lengths";
  if (!make_graph(session, options, single_token, lane, err)) return false;
  const ord_lower_options lower = {.chooser = &session->chooser,
                                   .store = session->model->store,
                                   .pool = context->device->pool,
                                   .dry = dry,
                                   .log = context->log,
                                   .log_context = context->log_context};
  if (!ord_plan_create(lane->graph, &lower, &lane->plan, err)) return false;
  return dry || make_memory(session, lane, err);
}

void ord_lane_finish(ord_session *session, ord_lane *lane) {
  ord_device *device = session->model->context->device;
  device->table->capture_destroy(lane->capture);
  ord_plan_destroy(lane->plan);
  ord_graph_destroy(lane->graph);
  if (lane->memory.arena) device->table->release(device, lane->memory.arena);
  free(lane->memory.extent);
  ord_lane_times_destroy(lane->times);
  free(lane->record);
}
