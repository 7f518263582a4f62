/* SPDX-License-Identifier: MIT
 *
 * One launch and one step. Every kernel of a plugin goes through ord_cuda_gpu_launch, which checks its arguments
 * against the kernel's own parameters. While a step is recorded the launch is noted as well: graphs are built from
 * these notes. The capture meanwhile shows what else the step puts on the stream: nothing, or the calls of a library,
 * which are kept as a graph.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/capture.h"
#include "runtime/cuda.h"

/* ---- one launch ---- */

static const char *kernel_name(ord_cuda_device *device, CUkernel kernel) {
  const char *name = NULL;
  ord_cuda_count_call(device);
  return device->call.KernelGetName(&name, kernel) == CUDA_SUCCESS && name ? name : "?";
}

static bool check_shape(const ord_gpu_launch *launch, const char *name, ord_error *err) {
  const uint32_t *grid = launch->grid, *block = launch->block;
  if (launch->flags & ~(uint32_t)ORD_LAUNCH_DEPENDENT)
    return ord_fail(err, ORD_INVALID, "kernel '%s': found flags %u; wanted 0 or ORD_LAUNCH_DEPENDENT", name,
                    launch->flags);
  if (launch->reserved0 || launch->reserved[0] || launch->reserved[1])
    return ord_fail(err, ORD_INVALID, "kernel '%s': found something in a reserved field; wanted 0", name);
  for (int axis = 0; axis < 3; axis++)
    if (!grid[axis] || !block[axis])
      return ord_fail(err, ORD_INVALID, "kernel '%s': found grid [%u, %u, %u], block [%u, %u, %u]; wanted no 0", name,
                      grid[0], grid[1], grid[2], block[0], block[1], block[2]);
  return true;
}

static bool check_arguments(ord_cuda_device *device, const ord_gpu_launch *launch, const char *name, ord_error *err) {
  uint32_t count = 0, wrong = UINT32_MAX;
  size_t wanted = 0;
  for (;; count++) {
    size_t offset, bytes;
    const CUresult code = device->call.KernelGetParamInfo(launch->kernel, count, &offset, &bytes);
    if (code == CUDA_ERROR_INVALID_VALUE) { /* the one behind the last */
      ord_cuda_count_call(device);
      break;
    }
    if (!ord_cuda_check(device, code, "cuKernelGetParamInfo", name, err)) return false;
    if (wrong != UINT32_MAX || count >= launch->argument_count) continue;
    if (bytes == launch->argument_bytes[count] && launch->argument[count]) continue;
    wrong = count;
    wanted = bytes;
  }
  if (count != launch->argument_count)
    return ord_fail(err, ORD_INVALID, "kernel '%s': found %u arguments; wanted %u", name, launch->argument_count,
                    count);
  if (wrong != UINT32_MAX)
    return ord_fail(err, ORD_INVALID, "kernel '%s': argument %u: found %u bytes%s; wanted %zu", name, wrong,
                    launch->argument_bytes[wrong], launch->argument[wrong] ? "" : " at NULL", wanted);
  return true;
}

/* The driver does not tell which call broke a capture. */
static const char *const BROKEN =
    "the launch did what no capture allows (it allocated, freed, loaded, synchronised or asked)";

static bool run_launch(const ord_cuda_stream *stream, const ord_gpu_launch *launch, const char *name, ord_error *err) {
  ord_cuda_device *device = stream->device;
  CUlaunchAttribute dependent = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                 .value.programmaticStreamSerializationAllowed = 1};
  const bool is_dependent = device->has_dependent_launch && launch->flags & ORD_LAUNCH_DEPENDENT;
  const CUlaunchConfig config = {.gridDimX = launch->grid[0],
                                 .gridDimY = launch->grid[1],
                                 .gridDimZ = launch->grid[2],
                                 .blockDimX = launch->block[0],
                                 .blockDimY = launch->block[1],
                                 .blockDimZ = launch->block[2],
                                 .sharedMemBytes = launch->shared_bytes,
                                 .hStream = ord_cuda_handle(stream),
                                 .attrs = &dependent,
                                 .numAttrs = is_dependent};
  char what[240];
  /* A CUkernel stands for its function here. The driver only reads the arguments. */
  const CUresult code =
      device->call.LaunchKernelEx(&config, (CUfunction)launch->kernel, (void **)(uintptr_t)launch->argument, NULL);
  const bool is_broken = code == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  snprintf(what, sizeof what, "%s%skernel '%s'", is_broken ? BROKEN : "", is_broken ? ": " : "", name);
  return ord_cuda_check(device, code, "cuLaunchKernelEx", what, err);
}

/* Pointers to the values, and behind them the values. */
static void **copy_arguments(ord_cuda_recording *recording, const ord_gpu_launch *launch) {
  enum { ALIGNMENT = 16 };
  const size_t list = (launch->argument_count * sizeof(void *) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  size_t bytes = list;
  for (uint32_t i = 0; i < launch->argument_count; i++)
    bytes += ((size_t)launch->argument_bytes[i] + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  void **argument = ord_arena_take(&recording->arena, bytes + 1, 1);
  if (!argument) return NULL;
  unsigned char *value = (unsigned char *)argument + list;
  for (uint32_t i = 0; i < launch->argument_count; i++) {
    argument[i] = memcpy(value, launch->argument[i], launch->argument_bytes[i]);
    value += ((size_t)launch->argument_bytes[i] + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  }
  recording->argument_bytes += bytes;
  return argument;
}

static bool note_launch(ord_cuda_recording *recording, const ord_gpu_launch *launch, ord_error *err) {
  void **argument = copy_arguments(recording, launch);
  if (!argument || !ord_arena_grow(&recording->arena, &recording->launch, &recording->launch_capacity,
                                   recording->launch_count + 1, sizeof *recording->launch))
    return ord_fail_memory(err, "recording a launch");
  ord_cuda_launch *noted = &recording->launch[recording->launch_count++];
  *noted = (ord_cuda_launch){
      .kernel = launch->kernel, .shared_bytes = launch->shared_bytes, .flags = launch->flags, .argument = argument};
  memcpy(noted->grid, launch->grid, sizeof noted->grid);
  memcpy(noted->block, launch->block, sizeof noted->block);
  return true;
}

static bool take_launch(const ord_cuda_stream *stream, const ord_gpu_launch *launch, ord_error *err) {
  if (!launch->kernel) return ord_fail(err, ORD_INVALID, "found no kernel to launch; wanted one of image_kernel");
  const char *name = kernel_name(stream->device, launch->kernel);
  return check_shape(launch, name, err) && check_arguments(stream->device, launch, name, err) &&
         run_launch(stream, launch, name, err) && (!stream->recording || note_launch(stream->recording, launch, err));
}

ord_status ord_cuda_gpu_launch(void *context, ord_gpu_stream *base, const ord_gpu_launch *launch,
                               ord_plugin_error *err) {
  (void)context; /* the stream knows its device */
  ord_cuda_stream *stream = (ord_cuda_stream *)base;
  ord_error failure = ORD_ERROR_INIT;
  if (take_launch(stream, launch, &failure)) return ORD_OK;
  if (!stream->has_failed) stream->failure = failure;
  stream->has_failed = true;
  return ord_cuda_tell_plugin(&failure, err);
}

/* ---- one step ---- */

bool ord_cuda_fail_step(const ord_step *step, const char *what, ord_error *err) {
  return ord_fail_prefix(err, "%s: kernel %s of plugin %s: %s", step->node.label, step->choice.kernel->name,
                         step->choice.plugin->manifest->name, what);
}

/* Of a library's calls the driver's answers are not seen: has one of them found the device lost? */
static bool is_lost(const ord_cuda_stream *stream, uint32_t flags, ord_error *err) {
  if (flags & ORD_CAPTURING) return false; /* asking is no part of a capture */
  const CUresult code = stream->device->call.StreamQuery(ord_cuda_handle(stream));
  return code != CUDA_ERROR_NOT_READY && !ord_cuda_check(stream->device, code, "cuStreamQuery", "launching", err);
}

/* What the driver said of a launch counts more than what its kernel made of that. */
static bool fail_launch(const ord_cuda_stream *stream, const ord_step *step, ord_status status,
                        const ord_plugin_error *error, uint32_t flags, ord_error *err) {
  const char *const what = flags & ORD_CAPTURING ? "capture failed"
                           : flags & ORD_WARMUP  ? "warm-up failed"
                                                 : "launch failed";
  char who[160];
  if (stream->has_failed) ord_fail(err, stream->failure.code, "%s", stream->failure.text);
  if (stream->has_failed || is_lost(stream, flags, err)) return ord_cuda_fail_step(step, what, err);
  snprintf(who, sizeof who, "kernel %s of plugin %s: %s", step->choice.kernel->name,
           step->choice.plugin->manifest->name, what);
  ord_fail_plugin(err, status, error, who);
  return ord_fail_prefix(err, "%s", step->node.label);
}

static _Thread_local bool is_launching;

bool ord_cuda_is_launching(void) { return is_launching; }

static ord_status call_launch(const ord_step *step, const ord_exec *exec, ord_plugin_error *error) {
  is_launching = true;
  const ord_status status = step->choice.kernel->launch(step->state, exec, error);
  is_launching = false;
  return status;
}

bool ord_cuda_step_launch(ord_cuda_stream *stream, const ord_cuda_binding *binding, const ord_step *step,
                          uint32_t flags, ord_error *err) {
  unsigned char *arena = binding->memory->arena;
  const ord_answer *answer = &step->choice.answer;
  ord_plan_operands(binding->plan, binding->memory, step, binding->operand);
  const ord_exec exec = {.struct_size = sizeof exec,
                         .flags = flags,
                         .chunk_count = 1,
                         .operand = binding->operand,
                         .scratch = answer->scratch_bytes ? arena + step->scratch_offset : NULL,
                         .persistent = answer->persistent_bytes ? arena + step->persistent_offset : NULL,
                         .stream = &stream->base};
  ord_plugin_error error = {.struct_size = sizeof error};
  stream->has_failed = false;
  const ord_status status = call_launch(step, &exec, &error);
  return (status == ORD_OK && !stream->has_failed) || fail_launch(stream, step, status, &error, flags, err);
}

/* ---- recording ---- */

static bool fail_capture(ord_cuda_device *device, const ord_step *step, CUresult code, ord_error *err) {
  const char *what = "ending the capture";
  if (code == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) what = BROKEN;
  if (code == CUDA_ERROR_STREAM_CAPTURE_UNJOINED) what = "the launch left a stream forked";
  return ord_cuda_check(device, code, "cuStreamEndCapture", what, err) ||
         ord_cuda_fail_step(step, "capture failed", err);
}

/* Only work of this thread can break the capture, and the gate keeps out what would break it from elsewhere. The
 * capture is ended on every path. */
static bool capture_step(ord_cuda_queue *queue, const ord_cuda_binding *binding, const ord_step *step,
                         ord_cuda_recording *recording, CUgraph *out, ord_error *err) {
  ord_cuda_device *device = recording->device;
  ord_cuda_stream *stream = &queue->capture;
  ord_cuda_begin_capturing();
  CUresult code = device->call.StreamBeginCapture(ord_cuda_handle(stream), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  if (!ord_cuda_check(device, code, "cuStreamBeginCapture", "capture failed", err)) {
    ord_cuda_end_capturing();
    return ord_fail_prefix(err, "%s", step->node.label);
  }
  stream->recording = recording;
  const bool is_launched = ord_cuda_step_launch(stream, binding, step, ORD_CAPTURING, err);
  stream->recording = NULL;
  code = device->call.StreamEndCapture(ord_cuda_handle(stream), out);
  ord_cuda_end_capturing();
  return is_launched && (code == CUDA_SUCCESS || fail_capture(device, step, code, err));
}

static void destroy_graph(const ord_cuda_device *device, CUgraph graph) {
  if (graph) (void)device->call.GraphDestroy(graph);
}

bool ord_cuda_step_record(ord_cuda_queue *queue, const ord_cuda_binding *binding, const ord_step *step,
                          ord_cuda_recording *recording, ord_error *err) {
  ord_cuda_step made = {.step = step, .first_launch = recording->launch_count};
  CUgraph graph = NULL;
  uint32_t node_count = 0;
  if (!capture_step(queue, binding, step, recording, &graph, err) ||
      !ord_cuda_audit(recording->device, step, graph, recording->launch_count - made.first_launch, &node_count, err)) {
    destroy_graph(recording->device, graph);
    return false;
  }
  if (step->choice.answer.flags & ORD_RUNS_LIBRARY) {
    recording->launch_count = made.first_launch; /* they are in the graph too */
    made.child = graph;
    made.child_node_count = node_count;
  } else {
    made.launch_count = recording->launch_count - made.first_launch;
    destroy_graph(recording->device, graph);
  }
  recording->step[recording->step_count++] = made;
  return true;
}

void ord_cuda_recording_finish(ord_cuda_recording *recording) {
  for (uint32_t i = 0; i < recording->step_count; i++) destroy_graph(recording->device, recording->step[i].child);
  ord_arena_finish(&recording->arena);
}
