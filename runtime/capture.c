/* SPDX-License-Identifier: MIT
 *
 * A capture is one block: the steps of a plan with everything resolved that a launch needs, and behind them the
 * pointers of their operands. A replay walks it; an eager run resolves one step at a time and walks the same way, so
 * that both make exactly the same calls.
 */
#include "runtime/capture.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"

/* One step, ready to launch. */
typedef struct {
  const ord_step *step; /* for messages, the kernel and its state */
  void *const *operand;
  void *scratch, *persistent;
} captured_step;

typedef struct cpu_capture {
  ord_capture base;
  unsigned char *worker; /* memory of thread 0 */
  size_t worker_stride;
  captured_step step[]; /* [base.report.step_count] */
} cpu_capture;

/* ---- resolving ---- */

static void *locate(const ord_plan *plan, const ord_memory *memory, const ord_location *place) {
  unsigned char *base = NULL;
  switch (place->space) {
  case ORD_SPACE_NONE:
    return NULL;
  case ORD_SPACE_ARENA:
    base = memory->arena;
    break;
  case ORD_SPACE_WEIGHT:
    base =
        (unsigned char *)(uintptr_t)plan->weight[place->index]; /* kernels only read it; the ABI has one pointer type */
    break;
  case ORD_SPACE_CACHE:
    base = memory->cache[place->index];
    break;
  case ORD_SPACE_PAST:
    base = (unsigned char *)memory->past;
    break;
  case ORD_SPACE_EXTENT:
    base = (unsigned char *)&memory->extent[place->index];
    break;
  }
  return base + place->offset;
}

void ord_plan_operands(const ord_plan *plan, const ord_memory *memory, const ord_step *step, void **operand) {
  for (uint32_t i = 0; i < step->node.operand_count; i++) operand[i] = locate(plan, memory, &step->place[i]);
}

/* Fills `operand` [step->node.operand_count], which the result points to. */
static captured_step resolve(const ord_plan *plan, const ord_memory *memory, const ord_step *step, void **operand) {
  unsigned char *arena = memory->arena;
  ord_plan_operands(plan, memory, step, operand);
  const ord_answer *answer = &step->choice.answer;
  return (captured_step){.step = step,
                         .operand = operand,
                         .scratch = answer->scratch_bytes ? arena + step->scratch_offset : NULL,
                         .persistent = answer->persistent_bytes ? arena + step->persistent_offset : NULL};
}

/* ---- running ---- */

/* One phase of one step in flight. Lives on the caller's stack. */
typedef struct {
  const captured_step *captured;
  uint32_t phase;
  unsigned char *worker;
  size_t worker_stride;
  ord_phase_time *time; /* of this phase, one each `time_stride` for the threads; NULL: no timing */
  size_t time_stride;
  atomic_flag has_failed; /* the first failure is kept */
  ord_status status;
  ord_plugin_error error;
} launch;

static bool launch_chunk(void *context, uint32_t chunk, uint32_t chunk_count, uint32_t worker) {
  launch *run = context;
  const captured_step *captured = run->captured;
  const ord_exec exec = {.struct_size = sizeof exec,
                         .phase = run->phase,
                         .chunk = chunk,
                         .chunk_count = chunk_count,
                         .operand = captured->operand,
                         .scratch = captured->scratch,
                         .worker = run->worker ? run->worker + worker * run->worker_stride : NULL,
                         .persistent = captured->persistent};
  ord_plugin_error error;
  error.struct_size = sizeof error;
  error.native = 0;
  error.text[0] = '\0';
  const ord_status status = captured->step->choice.kernel->launch(captured->step->state, &exec, &error);
  if (status == ORD_OK) return true;
  if (!atomic_flag_test_and_set(&run->has_failed)) {
    run->status = status;
    run->error = error;
  }
  return false;
}

static bool launch_timed_chunk(void *context, uint32_t chunk, uint32_t chunk_count, uint32_t worker) {
  const launch *run = context;
  ord_phase_time *time = run->time + worker * run->time_stride;
  const uint64_t begin = ord_clock_ns();
  const bool is_done = launch_chunk(context, chunk, chunk_count, worker);
  time->ns += ord_clock_ns() - begin;
  time->chunks++;
  return is_done;
}

static bool fail_launch(const launch *run, ord_error *err) {
  const ord_step *step = run->captured->step;
  ord_fail_plugin(err, run->status, &run->error, step->choice.kernel->name);
  return ord_fail_prefix(err, "%s: launch failed in plugin %s", step->node.label, step->choice.plugin->manifest->name);
}

/* A run of a plan: where it is, and what its launches share. Lives on the caller's stack. */
typedef struct {
  ord_pool *pool;
  const ord_run_options *options; /* may be NULL */
  unsigned char *worker;
  size_t worker_stride;
  uint32_t step, phase; /* how many are done */
} walk;

static bool run_step(walk *at, const captured_step *captured, ord_error *err) {
  const ord_answer *answer = &captured->step->choice.answer;
  ord_phase_time *time = at->options ? at->options->phase : NULL;
  launch run = {.captured = captured,
                .worker = at->worker,
                .worker_stride = at->worker_stride,
                .time_stride = time ? at->options->phase_stride : 0,
                .has_failed = ATOMIC_FLAG_INIT};
  for (uint32_t phase = 0; phase < answer->phase_count; phase++, at->phase++) {
    run.phase = phase;
    run.time = time ? time + at->phase : NULL;
    if (!ord_pool_phase(at->pool, time ? launch_timed_chunk : launch_chunk, &run, answer->chunk_limit[phase]))
      return fail_launch(&run, err);
  }
  return true;
}

/* The next step with what the caller asked for around it: cancel before, timing. */
static bool run_next(walk *at, const captured_step *captured, ord_error *err) {
  const ord_run_options *options = at->options;
  if (options && options->cancel && atomic_load_explicit(options->cancel, memory_order_relaxed))
    return ord_fail(err, ORD_CANCELLED, "the run was cancelled before %s", captured->step->node.label);
  const uint64_t begin = options && options->step_ns ? ord_clock_ns() : 0;
  const bool is_done = run_step(at, captured, err);
  if (options && options->step_ns) options->step_ns[at->step] += ord_clock_ns() - begin;
  at->step++;
  return is_done;
}

bool ord_capture_replay(ord_queue *queue, const ord_capture *capture, const ord_run_options *options, ord_error *err) {
  const cpu_capture *own = (const cpu_capture *)capture;
  ord_pool *pool = queue->device->pool;
  walk at = {.pool = pool, .options = options, .worker = own->worker, .worker_stride = own->worker_stride};
  bool is_done = true;
  ord_pool_lease(pool);
  for (uint32_t i = 0; is_done && i < capture->report.step_count; i++) is_done = run_next(&at, &own->step[i], err);
  ord_pool_release(pool);
  return is_done;
}

static uint32_t count_operands(const ord_plan *plan, uint32_t *out_largest) {
  uint32_t all = 0;
  *out_largest = 0;
  for (uint32_t i = 0; i < plan->step_count; i++) {
    const uint32_t count = plan->step[i].node.operand_count;
    all += count;
    if (count > *out_largest) *out_largest = count;
  }
  return all;
}

bool ord_plan_run_eager(ord_queue *queue, const ord_plan *plan, const ord_memory *memory,
                        const ord_run_options *options, ord_error *err) {
  ord_pool *pool = queue->device->pool;
  uint32_t largest;
  count_operands(plan, &largest);
  void **operand = calloc((size_t)largest + 1, sizeof *operand);
  if (!operand) return ord_fail_memory(err, "running a plan");
  walk at = {.pool = pool, .options = options, .worker = memory->worker, .worker_stride = memory->worker_stride};
  bool is_done = true;
  ord_pool_lease(pool);
  for (uint32_t i = 0; is_done && i < plan->step_count; i++) {
    const captured_step resolved = resolve(plan, memory, &plan->step[i], operand);
    is_done = run_next(&at, &resolved, err);
  }
  ord_pool_release(pool);
  free(operand);
  return is_done;
}

static ord_capture_report describe(const ord_plan *plan, size_t bytes) {
  return (ord_capture_report){.step_count = plan->step_count, .launch_count = plan->phase_count, .bytes = bytes};
}

bool ord_capture_create(ord_queue *queue, const ord_plan *plan, const ord_memory *memory, ord_capture **out,
                        ord_error *err) {
  (void)queue;
  uint32_t largest;
  const uint32_t operand_count = count_operands(plan, &largest);
  size_t step_bytes, operand_bytes, bytes;
  if (!ord_size_multiply(plan->step_count, sizeof(captured_step), &step_bytes) ||
      !ord_size_multiply(operand_count, sizeof(void *), &operand_bytes) ||
      !ord_size_add(step_bytes, sizeof(cpu_capture), &step_bytes) || !ord_size_add(step_bytes, operand_bytes, &bytes))
    return ord_fail(err, ORD_INVALID, "the plan is too large to be captured; found %u steps", plan->step_count);
  cpu_capture *capture = malloc(bytes);
  if (!capture) return ord_fail_memory(err, "capturing a plan");
  *capture = (cpu_capture){
      .base = {.report = describe(plan, bytes)}, .worker = memory->worker, .worker_stride = memory->worker_stride};
  void **operand = (void **)((unsigned char *)capture + step_bytes);
  for (uint32_t i = 0; i < plan->step_count; i++) {
    capture->step[i] = resolve(plan, memory, &plan->step[i], operand);
    operand += plan->step[i].node.operand_count;
  }
  *out = &capture->base;
  return true;
}

void ord_capture_destroy(ord_capture *capture) { free(capture); }
