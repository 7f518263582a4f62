/* SPDX-License-Identifier: MIT
 *
 * Lanes: a plan with its memory and its capture. A session with caches has one lane for all lengths and one for a
 * single new token per row; both share weights, packs and caches. The lanes of one choice of kernels are made together.
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
static bool choose_outputs(const ord_session *session, ord_lanes *lanes, ord_bind_options *bind, ord_error *err) {
  const ord_session_options *options = &session->options;
  bind->output = options->output;
  bind->output_count = options->output_count;
  if (!session->options.generates) return true;
  const uint32_t count = options->output_count ? options->output_count : 1;
  const char **output = ord_arena_take(&lanes->arena, (size_t)count + 1, sizeof *output);
  if (!output) return ord_fail_memory(err, "choosing outputs");
  output[0] = ord_description_generate(session->model->description)->logits;
  if (options->output_count) memcpy(output, options->output, count * sizeof *output);
  output[count] = "sample.id";
  bind->output = output;
  bind->output_count = count + 1;
  return true;
}

static bool make_graph(const ord_session *session, ord_lanes *lanes, bool single_token, ord_lane *lane,
                       ord_error *err) {
  const ord_session_options *options = &session->options;
  int64_t exact[ORD_RUN_DIM_MAX], maximum[ORD_RUN_DIM_MAX];
  bind_run_dims(session, single_token, exact, maximum);
  ord_bind_options bind = {.binding = {exact, maximum},
                           .store = session->model->store,
                           .keep = options->keep,
                           .keep_count = options->keep_count};
  ord_graph *bound = NULL;
  if (!choose_outputs(session, lanes, &bind, err) || !ord_graph_bind(session->graph, &bind, &bound, err)) return false;
  lane->record = calloc(ord_pass_count(), sizeof *lane->record);
  if (!lane->record) {
    ord_graph_destroy(bound);
    return ord_fail_memory(err, "running passes");
  }
  const ord_pass_options pass = {&lanes->chooser, options->disabled_pass, options->disabled_pass_count};
  const bool done = ord_passes_run(bound, &pass, lane->record, NULL, NULL, &lane->graph, err);
  ord_graph_destroy(bound);
  return done;
}

static uint64_t bytes_of_run(const ord_answer *answer) { return answer->scratch_bytes + answer->persistent_bytes; }
static uint64_t bytes_of_thread(const ord_answer *answer) { return answer->worker_bytes; }

/* The step that asks for the most; NULL: none asks for any. */
static const ord_step *find_hungriest(const ord_plan *plan, uint64_t (*bytes_of)(const ord_answer *answer)) {
  const ord_step *most = NULL;
  for (uint32_t n = 0; n < plan->step_count; n++)
    if (bytes_of(&plan->step[n].choice.answer) > (most ? bytes_of(&most->choice.answer) : 0)) most = &plan->step[n];
  return most;
}

static bool fail_memory(const ord_plan *plan, ord_error *err) {
  const ord_step *most = find_hungriest(plan, bytes_of_run);
  if (!most) return ord_fail(err, ORD_NO_MEMORY, "out of memory: a run needs %zu bytes for values", plan->arena_bytes);
  return ord_fail(err, ORD_NO_MEMORY,
                  "out of memory: a run needs %zu bytes for values and scratch; %s: kernel %s wants the most, %llu",
                  plan->arena_bytes, most->node.label, most->choice.kernel->name,
                  (unsigned long long)bytes_of_run(&most->choice.answer));
}

static bool make_memory(ord_session *session, ord_lane *lane, ord_error *err) {
  ord_device *device = session->model->context->device;
  const ord_plan *plan = lane->plan;
  /* The part behind persistent_begin must be zero; clearing all of it also keeps padding finite. */
  lane->memory.arena = device->table->allocate(device, plan->arena_bytes ? plan->arena_bytes : 1, true);
  lane->memory.extent = calloc(plan->extent_count + 1, sizeof(int64_t));
  if (!lane->memory.arena || !lane->memory.extent) return fail_memory(plan, err);
  lane->memory.cache = session->cache;
  lane->memory.past = session->past;
  return true;
}

static bool make_lane(ord_session *session, ord_lanes *lanes, bool single_token, bool dry, ord_error *err) {
  const ord_context *context = session->model->context;
  ord_lane *lane = &lanes->lane[lanes->count++];
  lane->name = single_token ? "one new token" : "all lengths";
  if (!make_graph(session, lanes, single_token, lane, err)) return false;
  const ord_lower_options lower = {.chooser = &lanes->chooser,
                                   .store = session->model->store,
                                   .pool = context->device->pool,
                                   .dry = dry,
                                   .log = context->log,
                                   .log_context = context->log_context};
  if (!ord_plan_create(lane->graph, &lower, &lane->plan, err)) return false;
  return dry || make_memory(session, lane, err);
}

static void finish_lane(const ord_session *session, ord_lane *lane) {
  ord_device *device = session->model->context->device;
  device->table->capture_destroy(lane->capture);
  ord_plan_destroy(lane->plan);
  ord_graph_destroy(lane->graph);
  if (lane->memory.arena) device->table->release(device, lane->memory.arena);
  free(lane->memory.extent);
  ord_lane_times_destroy(lane->times);
  free(lane->record);
}

/* ---- all lanes of one choice of kernels ------------------------------------------------------------------------- */

static bool copy_pin(ord_arena *arena, const ord_pin *pin, ord_pin *out) {
  *out = (ord_pin){.selector = ord_arena_text(arena, pin->selector),
                   .kernel = ord_arena_text(arena, pin->kernel),
                   .plugin = pin->plugin ? ord_arena_text(arena, pin->plugin) : NULL};
  return out->selector && out->kernel && (out->plugin || !pin->plugin);
}

/* The last pin of a selector is the one that counts: those before it are left out. */
static bool is_replaced(const ord_pin *pin, const ord_pin *by, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (strcmp(pin->selector, by[i].selector) == 0) return true;
  return false;
}

static bool make_pins(const ord_session *session, const ord_lanes *before, const char *const *text, uint32_t text_count,
                      ord_lanes *lanes, ord_error *err) {
  const uint32_t before_count = before ? before->chooser.pin_count : 0;
  ord_pin *pin = ord_arena_take(&lanes->arena, (size_t)before_count + text_count + 1, sizeof *pin);
  ord_pin *added = ord_arena_take(&lanes->arena, (size_t)text_count + 1, sizeof *added);
  uint32_t count = 0;
  if (!pin || !added) return ord_fail_memory(err, "reading kernel pins");
  for (uint32_t i = 0; i < text_count; i++)
    if (!ord_pin_parse(&lanes->arena, text[i], &added[i], err)) return false;
  for (uint32_t i = 0; i < before_count; i++)
    if (!is_replaced(&before->chooser.pin[i], added, text_count) &&
        !copy_pin(&lanes->arena, &before->chooser.pin[i], &pin[count++]))
      return ord_fail_memory(err, "reading kernel pins");
  if (text_count > 0) memcpy(pin + count, added, text_count * sizeof *pin);
  const ord_context *context = session->model->context;
  lanes->chooser = (ord_chooser){.registry = context->registry,
                                 .device = &context->device->info,
                                 .pin = pin,
                                 .pin_count = count + text_count,
                                 .compute = session->options.compute ? session->options.compute : ORD_F32,
                                 .deny_fallback = session->options.deny_fallback};
  return true;
}

static bool fail_workers(const ord_lanes *lanes, uint32_t threads, ord_error *err) {
  const ord_step *most = NULL;
  for (uint32_t i = 0; i < lanes->count; i++) {
    const ord_step *step = find_hungriest(lanes->lane[i].plan, bytes_of_thread);
    if (step && (!most || bytes_of_thread(&step->choice.answer) > bytes_of_thread(&most->choice.answer))) most = step;
  }
  if (!most) return ord_fail_memory(err, "making memory for the threads");
  return ord_fail(err, ORD_NO_MEMORY, "out of memory: %s: kernel %s wants %llu bytes for each of %u threads",
                  most->node.label, most->choice.kernel->name,
                  (unsigned long long)bytes_of_thread(&most->choice.answer), threads);
}

static bool make_workers(const ord_session *session, ord_lanes *lanes, ord_error *err) {
  ord_device *device = session->model->context->device;
  const uint32_t threads = ord_pool_threads(device->pool);
  size_t most = 0, bytes = 0;
  for (uint32_t i = 0; i < lanes->count; i++)
    if (lanes->lane[i].plan->worker_bytes > most) most = lanes->lane[i].plan->worker_bytes;
  if (!ord_memory_round_up(most, &lanes->worker_stride) || !ord_size_multiply(lanes->worker_stride, threads, &bytes))
    return fail_workers(lanes, threads, err);
  lanes->worker = device->table->allocate(device, bytes ? bytes : 1, false);
  return lanes->worker ? true : fail_workers(lanes, threads, err);
}

static bool make_captures(const ord_session *session, ord_lanes *lanes, ord_error *err) {
  ord_device *device = session->model->context->device;
  const uint64_t begin = ord_clock_ns();
  for (uint32_t i = 0; i < lanes->count; i++) {
    ord_lane *lane = &lanes->lane[i];
    lane->memory.worker = lanes->worker;
    lane->memory.worker_stride = lanes->worker_stride;
    if (!session->options.eager && !device->table->capture(device, lane->plan, &lane->memory, &lane->capture, err))
      return false;
  }
  lanes->capture_ns = ord_clock_ns() - begin;
  return true;
}

static bool make_all(ord_session *session, const ord_lanes *before, const char *const *pin, uint32_t pin_count,
                     bool dry, ord_lanes *lanes, ord_error *err) {
  const ord_graph *graph = session->graph;
  const bool has_single = session->token_dim != ORD_NONE && graph->cache_count > 0 &&
                          graph->run_dim[session->token_dim].min <= 1 && graph->run_dim[session->token_dim].max > 1;
  return make_pins(session, before, pin, pin_count, lanes, err) && make_lane(session, lanes, false, dry, err) &&
         (!has_single || make_lane(session, lanes, true, dry, err)) &&
         (dry || (make_workers(session, lanes, err) && make_captures(session, lanes, err)));
}

bool ord_lanes_create(ord_session *session, const ord_lanes *before, const char *const *pin, uint32_t pin_count,
                      bool dry, ord_lanes **out, ord_error *err) {
  ord_lanes *lanes = calloc(1, sizeof *lanes);
  *out = NULL;
  if (!lanes) return ord_fail_memory(err, "making plans");
  if (!make_all(session, before, pin, pin_count, dry, lanes, err)) {
    ord_lanes_destroy(session, lanes);
    return false;
  }
  *out = lanes;
  return true;
}

void ord_lanes_destroy(ord_session *session, ord_lanes *lanes) {
  if (!lanes) return;
  ord_device *device = session->model->context->device;
  for (uint32_t i = 0; i < lanes->count; i++) finish_lane(session, &lanes->lane[i]);
  if (lanes->worker) device->table->release(device, lanes->worker);
  ord_arena_finish(&lanes->arena);
  free(lanes);
}
