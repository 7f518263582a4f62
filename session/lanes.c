/* SPDX-License-Identifier: MIT
 *
 * Lanes: a session with caches has one lane for all lengths and one for a single new token per row; a device with
 * launches of a fixed size has some for lengths between. All share weights, packs and caches.
 */
#include <stdlib.h>
#include <string.h>

#include "session/parts.h"

/* Bound to the lane on the token axis, open everywhere else. */
static void bind_run_dims(const ord_session *session, const ord_lane *lane, int64_t *exact, int64_t *maximum) {
  const ord_graph *graph = session->graph;
  for (uint32_t i = 0; i < graph->run_dim_count; i++) {
    const ord_graph_run_dim *dim = &graph->run_dim[i];
    const bool is_token_dim = i == session->token_dim;
    const int64_t most = is_token_dim ? lane->new_tokens : dim->max;
    exact[i] = (is_token_dim && lane->is_exact) || dim->min == most ? most : -1;
    maximum[i] = most;
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

static bool make_graph(const ord_session *session, ord_lanes *lanes, ord_lane *lane, ord_error *err) {
  const ord_session_options *options = &session->options;
  int64_t exact[ORD_RUN_DIM_MAX], maximum[ORD_RUN_DIM_MAX];
  bind_run_dims(session, lane, exact, maximum);
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
  const ord_pass_options pass = {&lane->chooser, options->disabled_pass, options->disabled_pass_count};
  const bool done = ord_passes_run(bound, &pass, lane->record, NULL, NULL, &lane->graph, err);
  ord_graph_destroy(bound);
  return done;
}

static uint64_t bytes_of_thread(const ord_answer *answer) { return answer->worker_bytes; }

bool ord_lane_try_plan(const ord_session *session, ord_lanes *lanes, ord_lane *lane, ord_refused_pin *refused,
                       ord_error *err) {
  *refused = (ord_refused_pin){0};
  const ord_lower_options lower = {.chooser = &lane->chooser, .dry = true, .refused = refused};
  return make_graph(session, lanes, lane, err) && ord_plan_create(lane->graph, &lower, &lane->plan, err);
}

static bool plan_lane(const ord_session *session, ord_lanes *lanes, ord_lane *lane, bool dry, ord_error *err) {
  const ord_context *context = session->model->context;
  if (!make_graph(session, lanes, lane, err)) return false;
  const ord_lower_options lower = {.chooser = &lane->chooser,
                                   .store = session->model->store,
                                   .device = context->device,
                                   .dry = dry,
                                   .log = context->log,
                                   .log_context = context->log_context};
  return ord_plan_create(lane->graph, &lower, &lane->plan, err) && (dry || ord_lane_memory_create(session, lane, err));
}

void ord_lane_forget_plan(ord_lane *lane) {
  ord_plan_destroy(lane->plan);
  ord_graph_destroy(lane->graph);
  free(lane->record);
  lane->plan = NULL;
  lane->graph = NULL;
  lane->record = NULL;
}

static void finish_lane(const ord_session *session, ord_lane *lane) {
  ord_lane_loop_destroy(session, lane);
  session->model->context->device->table->capture_destroy(lane->capture);
  ord_lane_memory_destroy(session, lane);
  ord_lane_times_destroy(lane->times);
  ord_lane_forget_plan(lane);
}

bool ord_lane_holds(const ord_lane *lane, int64_t new_tokens) {
  return lane->is_exact ? new_tokens == lane->new_tokens : new_tokens <= lane->new_tokens;
}

bool ord_lane_must_be_captured(const ord_lane *lane, const char *who, const char *what, ord_error *err) {
  return lane->capture ||
         ord_fail(err, ORD_UNSUPPORTED, "%s: found a session whose plan for %s is not captured%s%s", who, what,
                  lane->why_eager ? ": " : "; wanted one that is", lane->why_eager ? lane->why_eager : "");
}

/* ---- which lanes there are -------------------------------------------------------------------------------------- */

/* A lane with this bound, where the model has runs on both sides of it. A single token alone is worth an exact lane in
 * a model with caches only, which decodes. */
static bool add_lane(const ord_session *session, ord_lanes *lanes, int64_t bound, ord_error *err) {
  const ord_graph *graph = session->graph;
  if (session->token_dim == ORD_NONE || bound < graph->run_dim[session->token_dim].min ||
      bound >= graph->run_dim[session->token_dim].max || (bound == 1 && graph->cache_count == 0))
    return true;
  ord_lane *lane = &lanes->lane[lanes->count++];
  *lane = (ord_lane){.name = "one new token", .new_tokens = bound, .is_exact = bound == 1};
  if (bound > 1) lane->name = ord_arena_format(&lanes->arena, "up to %lld new tokens", (long long)bound);
  return lane->name ? true : ord_fail_memory(err, "making plans");
}

static bool add_lanes(const ord_session *session, ord_lanes *lanes, ord_error *err) {
  static const int64_t bound[] = {1, 16, 128, 1024};
  enum { BOUND_COUNT = sizeof bound / sizeof *bound };
  const bool has_all = session->token_dim == ORD_NONE;
  lanes->lane[lanes->count++] = (ord_lane){
      .name = "all lengths", .new_tokens = has_all ? INT64_MAX : session->graph->run_dim[session->token_dim].max};
  /* What computes in the host's memory sees the length of a run before it cuts up the work; elsewhere that is captured
   * for the longest. */
  const uint32_t count = session->model->context->device->is_host_memory ? 1 : BOUND_COUNT;
  for (uint32_t i = 0; i < count; i++)
    if (!add_lane(session, lanes, bound[i], err)) return false;
  return true;
}

/* ---- all lanes of one choice of kernels ------------------------------------------------------------------------- */

/* Who needs it, in front of what the device says. */
static bool fail_workers(const ord_lanes *lanes, uint32_t threads, ord_error *err) {
  const ord_step *most = NULL;
  if (!err || err->code != ORD_NO_MEMORY) return false;
  for (uint32_t i = 0; i < lanes->count; i++) {
    const ord_step *step = ord_plan_hungriest(lanes->lane[i].plan, bytes_of_thread);
    if (step && (!most || bytes_of_thread(&step->choice.answer) > bytes_of_thread(&most->choice.answer))) most = step;
  }
  if (!most) return ord_fail_prefix(err, "making memory for the threads");
  return ord_fail_prefix(err, "%s: kernel %s wants %llu bytes for each of %u threads", most->node.label,
                         most->choice.kernel->name, (unsigned long long)bytes_of_thread(&most->choice.answer), threads);
}

static bool make_workers(const ord_session *session, ord_lanes *lanes, ord_error *err) {
  ord_device *device = session->model->context->device;
  const uint32_t threads = ord_pool_threads(device->pool);
  size_t most = 0, bytes = 0;
  for (uint32_t i = 0; i < lanes->count; i++)
    if (lanes->lane[i].plan->worker_bytes > most) most = lanes->lane[i].plan->worker_bytes;
  if (!ord_memory_round_up(most, &lanes->worker_stride) || !ord_size_multiply(lanes->worker_stride, threads, &bytes)) {
    ord_fail(err, ORD_NO_MEMORY, "out of memory");
    return fail_workers(lanes, threads, err);
  }
  return device->table->allocate(device, bytes ? bytes : 1, false, &lanes->worker, err) ||
         fail_workers(lanes, threads, err);
}

/* ---- captures ---------------------------------------------------------------------------------------------------- */

static void log_capture(const ord_context *context, const ord_lane *lane) {
  ord_text text = {0};
  if (!context->log) return;
  if (lane->capture) {
    const ord_capture_report *report = &lane->capture->report;
    ord_text_add(&text, "%s: captured %u/%u steps", lane->name, report->step_count, lane->plan->step_count);
    if (report->node_count)
      ord_text_add(&text, ", %u graph node%s", report->node_count, ord_plural(report->node_count));
    ord_text_add(&text, ", %.1f ms", (double)lane->capture_ns / 1e6);
  } else {
    ord_text_add(&text, "%s: runs eagerly, as it could not be captured: %s", lane->name, lane->why_eager);
  }
  if (text.bytes && !text.failed)
    context->log(context->log_context, lane->capture ? ORD_LOG_INFO : ORD_LOG_WARNING, text.bytes);
  ord_text_finish(&text);
}

static bool make_capture(const ord_session *session, ord_lanes *lanes, ord_lane *lane, ord_error *err) {
  const ord_device_table *table = session->queue->device->table;
  const uint64_t begin = ord_clock_ns();
  ord_error why = ORD_ERROR_INIT;
  lane->memory.worker = lanes->worker;
  lane->memory.worker_stride = lanes->worker_stride;
  if (session->options.capture == ORD_CAPTURE_OFF) return true;
  if (!table->capture(session->queue, lane->plan, &lane->memory, &lane->capture, &why)) {
    lane->capture = NULL;
    if (session->options.capture == ORD_CAPTURE_REQUIRE) {
      if (err) *err = why;
      return false;
    }
    lane->why_eager = ord_arena_text(&lanes->arena, why.text);
    if (!lane->why_eager) return ord_fail_memory(err, "capturing a plan");
  }
  lane->capture_ns = ord_clock_ns() - begin;
  lanes->capture_ns += lane->capture_ns;
  log_capture(session->model->context, lane);
  return true;
}

static bool make_all(ord_session *session, const ord_lanes *before, const char *const *pin, uint32_t pin_count,
                     bool dry, ord_lanes *lanes, ord_error *err) {
  if (!ord_lanes_read_pins(session, before, pin, pin_count, lanes, err) || !add_lanes(session, lanes, err))
    return false;
  /* Whoever reads a dry plan sees what it goes without, and old pins were told of when they were new. */
  const uint32_t first_told = dry ? lanes->chooser.pin_count : lanes->first_new_pin;
  if (!ord_lanes_settle_pins(session, first_told, lanes, err)) return false;
  for (uint32_t i = 0; i < lanes->count; i++)
    if (!plan_lane(session, lanes, &lanes->lane[i], dry, err)) return false;
  if (dry) return true;
  if (!make_workers(session, lanes, err)) return false;
  for (uint32_t i = 0; i < lanes->count; i++)
    if (!make_capture(session, lanes, &lanes->lane[i], err)) return false;
  return true;
}

bool ord_session_capture_report(const ord_session *session, uint32_t index, ord_capture_state *out, ord_error *err) {
  ord_capture_state made = {0};
  if (index >= session->lanes->count)
    return ord_fail(err, ORD_INVALID, "found plan number %u; wanted one below %u", index, session->lanes->count);
  const ord_lane *asked = &session->lanes->lane[index];
  made.plan = asked->name;
  made.is_captured = asked->capture != NULL;
  made.why_not = asked->capture ? NULL : asked->why_eager ? asked->why_eager : "it was not asked for";
  made.steps = asked->plan->step_count;
  made.capture_ns = asked->capture_ns;
  if (asked->capture) {
    made.launches = asked->capture->report.launch_count;
    made.library_steps = asked->capture->report.library_count;
    made.graph_nodes = asked->capture->report.node_count;
    made.bytes = asked->capture->report.bytes;
  }
  return ord_struct_give(&made, "ord_capture_state", out, sizeof made, err);
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
  device->table->release(device, lanes->worker);
  ord_arena_finish(&lanes->arena);
  free(lanes);
}
