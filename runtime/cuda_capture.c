/* SPDX-License-Identifier: MIT
 *
 * Captures of a plan, their replays, and eager runs. A capture records the plan step by step (cuda_record.c) and makes
 * one graph of the recording (cuda_graph.c); a replay is one launch of it. An eager run calls the same kernels in the
 * same order.
 */
#include <stdlib.h>

#include "runtime/cuda.h"

static bool is_cancelled(const ord_run_options *options) {
  return options && options->cancel && atomic_load_explicit(options->cancel, memory_order_relaxed);
}

/* binding->operand: room for the operands of any step of the plan. */
static bool bind(const ord_plan *plan, const ord_memory *memory, ord_cuda_binding *out, ord_error *err) {
  uint32_t largest = 0;
  for (uint32_t i = 0; i < plan->step_count; i++)
    if (plan->step[i].node.operand_count > largest) largest = plan->step[i].node.operand_count;
  *out = (ord_cuda_binding){plan, memory, malloc(((size_t)largest + 1) * sizeof *out->operand)};
  return out->operand || ord_fail_memory(err, "running a plan");
}

/* ---- one step ---- */

static bool is_library(const ord_step *step) { return step->choice.answer.flags & ORD_RUNS_LIBRARY; }

/* Outside a capture. A library may load code at its first call, which must not happen in anybody's capture. */
static bool run_step(ord_cuda_queue *queue, const ord_cuda_binding *binding, const ord_step *step, uint32_t flags,
                     ord_error *err) {
  if (!is_library(step)) return ord_cuda_step_launch(&queue->run, binding, step, flags, err);
  ord_cuda_pause_captures();
  const bool done = ord_cuda_step_launch(&queue->run, binding, step, flags, err);
  ord_cuda_resume_captures();
  return done;
}

/* A run before the first one must leave no trace in what lasts from run to run. */
static bool check_warm_up(const ord_step *step, ord_error *err) {
  const char *lasts = step->choice.answer.persistent_bytes ? "persistent memory" : NULL;
  for (uint32_t i = 0; i < step->node.operand_count; i++)
    if (step->node.operand[i].role == ORD_STATE) lasts = "a state";
  if (!lasts) return true;
  ord_fail(err, ORD_INVALID,
           "a library's calls are made once before they are captured, which would change %s; wanted "
           "none of that with ORD_RUNS_LIBRARY",
           lasts);
  return ord_cuda_fail_step(step, "capture failed", err);
}

/* What a library loads at its first call is an allocation, so the calls of each such step are made once now, on the
 * values that the arena happens to hold. */
static bool warm_up(ord_cuda_queue *queue, const ord_cuda_binding *binding, ord_error *err) {
  const ord_plan *plan = binding->plan;
  for (uint32_t i = 0; i < plan->step_count; i++) {
    const ord_step *step = &plan->step[i];
    if (!is_library(step)) continue;
    if (!check_warm_up(step, err) || !run_step(queue, binding, step, ORD_WARMUP, err)) return false;
    if (!ord_cuda_wait(&queue->base, err)) return ord_cuda_fail_step(step, "warm-up failed", err);
  }
  return true;
}

/* ---- captures ---- */

static bool record(ord_cuda_queue *queue, const ord_cuda_binding *binding, ord_cuda_recording *recording,
                   ord_error *err) {
  const ord_plan *plan = binding->plan;
  recording->device = ord_cuda_of(&queue->base);
  recording->step = ord_arena_take(&recording->arena, (size_t)plan->step_count + 1, sizeof *recording->step);
  if (!recording->step) return ord_fail_memory(err, "recording a plan");
  for (uint32_t i = 0; i < plan->step_count; i++)
    if (!ord_cuda_step_record(queue, binding, &plan->step[i], recording, err)) return false;
  return true;
}

static bool build(ord_cuda_queue *queue, ord_cuda_capture *capture, ord_error *err) {
  ord_cuda_device *device = ord_cuda_of(&queue->base);
  if (!ord_cuda_check(device, device->call.GraphCreate(&capture->graph, 0), "cuGraphCreate", "building the graph", err))
    return false;
  ord_cuda_chain chain = {.device = device, .graph = capture->graph};
  const bool done = ord_cuda_chain_add(&chain, &capture->recording, err) &&
                    ord_cuda_graph_finish(queue, capture->graph, &chain, &capture->executable, err);
  ord_cuda_chain_finish(&chain);
  return done;
}

static ord_capture_report describe(const ord_cuda_recording *recording) {
  ord_capture_report report = {.step_count = recording->step_count,
                               .launch_count = recording->launch_count,
                               .node_count = recording->launch_count,
                               .bytes = sizeof(ord_cuda_capture) + recording->argument_bytes +
                                        recording->launch_capacity * sizeof *recording->launch +
                                        recording->step_count * sizeof *recording->step};
  for (uint32_t i = 0; i < recording->step_count; i++) {
    report.library_count += recording->step[i].child != NULL;
    report.node_count += recording->step[i].child_node_count;
  }
  return report;
}

bool ord_cuda_capture_create(ord_queue *base, const ord_plan *plan, const ord_memory *memory, ord_capture **out,
                             ord_error *err) {
  ord_cuda_queue *queue = (ord_cuda_queue *)base;
  ord_cuda_binding binding;
  *out = NULL;
  if (!ord_cuda_enter(ord_cuda_of(base), err) || !bind(plan, memory, &binding, err)) return false;
  ord_cuda_capture *capture = calloc(1, sizeof *capture);
  const bool done = capture ? warm_up(queue, &binding, err) && record(queue, &binding, &capture->recording, err) &&
                                  build(queue, capture, err)
                            : ord_fail_memory(err, "capturing a plan");
  free(binding.operand);
  if (!done) {
    ord_cuda_capture_destroy((ord_capture *)capture);
    return false;
  }
  capture->base.report = describe(&capture->recording);
  *out = &capture->base;
  return true;
}

void ord_cuda_capture_destroy(ord_capture *base) {
  ord_cuda_capture *capture = (ord_cuda_capture *)base;
  if (!capture) return;
  if (capture->recording.device) {
    ord_cuda_graph_destroy(capture->recording.device, capture->graph, capture->executable);
    ord_cuda_recording_finish(&capture->recording);
  }
  free(capture);
}

bool ord_cuda_replay(ord_queue *base, const ord_capture *capture, const ord_run_options *options, ord_error *err) {
  ord_cuda_device *device = ord_cuda_of(base);
  const CUgraphExec executable = ((const ord_cuda_capture *)capture)->executable;
  if (is_cancelled(options)) return ord_fail(err, ORD_CANCELLED, "the run was cancelled before it was launched");
  return ord_cuda_enter(device, err) &&
         ord_cuda_check(device, device->call.GraphLaunch(executable, ord_cuda_handle(&((ord_cuda_queue *)base)->run)),
                        "cuGraphLaunch", "replaying", err);
}

/* ---- eager runs ---- */

static bool run_steps(ord_cuda_queue *queue, const ord_cuda_binding *binding, const ord_run_options *options,
                      ord_device_clock *clock, ord_error *err) {
  const ord_plan *plan = binding->plan;
  if (clock && !ord_cuda_clock_mark(clock, err)) return false;
  for (uint32_t i = 0; i < plan->step_count; i++) {
    if (is_cancelled(options))
      return ord_fail(err, ORD_CANCELLED, "the run was cancelled before %s", plan->step[i].node.label);
    if (!run_step(queue, binding, &plan->step[i], 0, err) || (clock && !ord_cuda_clock_mark(clock, err))) return false;
  }
  return true;
}

bool ord_cuda_run_eager(ord_queue *base, const ord_plan *plan, const ord_memory *memory, const ord_run_options *options,
                        ord_error *err) {
  ord_cuda_queue *queue = (ord_cuda_queue *)base;
  uint64_t *step_ns = options ? options->step_ns : NULL;
  ord_device_clock *clock = NULL; /* of every step; NULL where no times are asked for */
  ord_cuda_binding binding;
  if (!ord_cuda_enter(ord_cuda_of(base), err) || !bind(plan, memory, &binding, err)) return false;
  const bool done = (!step_ns || ord_cuda_clock_create(base, plan->step_count + 1, &clock, err)) &&
                    run_steps(queue, &binding, options, clock, err) &&
                    (!step_ns || ord_cuda_clock_read(clock, step_ns, err));
  ord_cuda_clock_destroy(clock);
  free(binding.operand);
  return done;
}
