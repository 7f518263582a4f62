/* SPDX-License-Identifier: MIT
 *
 * What timed runs tell about each step: wall time, the time of the busiest threads, and the work that the step has.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/capture.h"
#include "session/parts.h"

typedef struct step_sums {
  uint64_t ns, busy_ns;
  ord_work work;
  uint64_t weight_bytes;
} step_sums;

struct ord_lane_times {
  step_sums *step; /* [step_count] */
  uint64_t step_runs, thread_runs;
  /* Of one run: */
  uint64_t *step_ns;     /* [step_count] */
  ord_phase_time *phase; /* [threads][phase_stride] */
  size_t phase_stride, phase_bytes;
  void **operand;  /* of the step with the most */
  double clock_ns; /* that one look at the clock takes */
};

/* ---- room -------------------------------------------------------------------------------------------------------- */

/* The best of a few rounds; a longer one was interrupted. */
static double measure_clock(void) {
  enum { ROUNDS = 8, LOOKS = 200 };
  double best = 1e9;
  for (int round = 0; round < ROUNDS; round++) {
    const uint64_t begin = ord_clock_ns();
    uint64_t end = begin;
    for (int look = 0; look < LOOKS; look++) end = ord_clock_ns();
    if ((double)(end - begin) / LOOKS < best) best = (double)(end - begin) / LOOKS;
  }
  return best;
}

/* Threads write next to each other: each gets cache lines of its own. */
static bool make_phases(ord_lane_times *times, uint32_t phases, uint32_t threads) {
  enum { LINE_BYTES = 64, PER_LINE = LINE_BYTES / sizeof(ord_phase_time) };
  times->phase_stride = (size_t)(phases / PER_LINE + 1) * PER_LINE;
  times->phase_bytes = threads * times->phase_stride * sizeof *times->phase;
  times->phase = aligned_alloc(LINE_BYTES, times->phase_bytes);
  return times->phase != NULL;
}

static bool make_times(const ord_session *session, ord_lane *lane, ord_error *err) {
  const ord_plan *plan = lane->plan;
  ord_lane_times *times = calloc(1, sizeof *times);
  if (!times) return ord_fail_memory(err, "timing a run");
  uint32_t most = 0;
  for (uint32_t i = 0; i < plan->step_count; i++)
    if (plan->step[i].node.operand_count > most) most = plan->step[i].node.operand_count;
  times->clock_ns = measure_clock();
  times->step = calloc((size_t)plan->step_count + 1, sizeof *times->step);
  times->step_ns = calloc((size_t)plan->step_count + 1, sizeof *times->step_ns);
  times->operand = calloc((size_t)most + 1, sizeof *times->operand);
  if (times->step && times->step_ns && times->operand &&
      make_phases(times, plan->phase_count, ord_pool_threads(session->model->context->device->pool))) {
    lane->times = times;
    return true;
  }
  ord_lane_times_destroy(times);
  return ord_fail_memory(err, "timing a run");
}

void ord_lane_times_destroy(ord_lane_times *times) {
  if (!times) return;
  free(times->step);
  free(times->step_ns);
  free(times->phase);
  free(times->operand);
  free(times);
}

bool ord_lane_times_begin(const ord_session *session, ord_lane *lane, const ord_timing *timing,
                          ord_run_options *options, ord_error *err) {
  if (!timing->by_step && !timing->by_thread) return true;
  if (!lane->times && !make_times(session, lane, err)) return false;
  if (timing->by_step) {
    memset(lane->times->step_ns, 0, lane->plan->step_count * sizeof *lane->times->step_ns);
    options->step_ns = lane->times->step_ns;
  }
  if (timing->by_thread) {
    memset(lane->times->phase, 0, lane->times->phase_bytes);
    options->phase = lane->times->phase;
    options->phase_stride = lane->times->phase_stride;
  }
  return true;
}

/* ---- work -------------------------------------------------------------------------------------------------------- */

static uint64_t elements(const ord_node *node, const ord_exec *exec, uint32_t which) {
  uint64_t count = 1;
  for (uint32_t axis = 0; axis < node->operand[which].rank; axis++)
    count *= (uint64_t)ord_exec_dim(node, exec, which, axis);
  return count;
}

/* Bytes of operand number `which`, which lies in the weights, as the kernel reads them. */
static uint64_t weight_bytes(const ord_step *step, const ord_exec *exec, const ord_op *op, uint32_t which) {
  const ord_node *node = &step->node;
  const ord_operand *operand = &node->operand[which];
  const bool is_table = op && which < op->slot_count && (op->slot[which].flags & ORD_SLOT_TABLE);
  if (!is_table && step->choice.answer.pack[which].key) return step->choice.answer.pack[which].bytes;
  const uint64_t count = elements(node, exec, is_table ? ord_node_output(node, 0) : which);
  return count * operand->block_bytes / operand->block_elements;
}

/* Where the host can read what sizes and lengths a step finds: those that the host wrote itself. */
static void find_operands(const ord_lane *lane, const ord_step *step, bool is_host_memory, void **operand) {
  ord_memory seen = lane->memory;
  seen.extent = lane->extent;
  seen.past = lane->past;
  ord_plan_operands(lane->plan, &seen, step, operand);
  for (uint32_t i = 0; !is_host_memory && i < step->node.operand_count; i++) {
    if (step->place[i].space != ORD_SPACE_ARENA) continue;
    operand[i] = NULL;
    for (uint32_t input = 0; input < lane->plan->input_count; input++)
      if (lane->plan->input[input].place.space == ORD_SPACE_ARENA &&
          lane->plan->input[input].place.offset == step->place[i].offset)
        operand[i] = lane->input[input];
  }
}

static void note_work(ord_lane *lane, bool is_host_memory, uint32_t index, uint64_t empty_ns) {
  const ord_step *step = &lane->plan->step[index];
  const ord_op *op = ord_op_find(step->node.op);
  step_sums *sums = &lane->times->step[index];
  find_operands(lane, step, is_host_memory, lane->times->operand);
  const ord_exec exec = {.struct_size = sizeof exec, .chunk_count = 1, .operand = lane->times->operand};
  const uint64_t step_ns = lane->times->step_ns[index];
  sums->ns += step_ns > empty_ns ? step_ns - empty_ns : 0;
  sums->work = (ord_work){0};
  sums->weight_bytes = 0;
  if (op && op->work) op->work(&step->node, &exec, &sums->work);
  for (uint32_t i = 0; i < step->node.operand_count; i++)
    if (step->place[i].space == ORD_SPACE_WEIGHT) sums->weight_bytes += weight_bytes(step, &exec, op, i);
}

/* ---- the busiest threads ----------------------------------------------------------------------------------------- */

/* Of phase number `phase`: the longest time inside kernels; each chunk was lengthened by one look at the clock. */
static double busiest(const ord_lane_times *times, uint32_t threads, uint32_t phase, uint64_t *out_chunks) {
  double most = 0;
  *out_chunks = 0;
  for (uint32_t thread = 0; thread < threads; thread++) {
    const ord_phase_time *time = &times->phase[thread * times->phase_stride + phase];
    const double ns = (double)time->ns - (double)time->chunks * times->clock_ns;
    if (ns <= most) continue;
    most = ns;
    *out_chunks = time->chunks;
  }
  return most;
}

static void note_threads(const ord_session *session, const ord_lane *lane, ord_timing *timing) {
  const uint32_t threads = ord_pool_threads(session->model->context->device->pool);
  const ord_lane_times *times = lane->times;
  double all_ns = 0, clock_ns = 0;
  uint32_t phase = 0;
  for (uint32_t i = 0; i < lane->plan->step_count; i++) {
    double step_ns = 0;
    for (uint32_t p = 0; p < lane->plan->step[i].choice.answer.phase_count; p++, phase++) {
      uint64_t chunks = 0;
      step_ns += busiest(times, threads, phase, &chunks);
      clock_ns += 2 * (double)chunks * times->clock_ns;
    }
    times->step[i].busy_ns += (uint64_t)step_ns;
    all_ns += step_ns;
  }
  timing->busy_ns = (uint64_t)all_ns;
  timing->clock_ns = (uint64_t)clock_ns;
}

void ord_lane_times_end(const ord_session *session, ord_lane *lane, ord_timing *timing) {
  timing->phases = lane->plan->phase_count;
  if (timing->by_thread) {
    note_threads(session, lane, timing);
    lane->times->thread_runs++;
  }
  if (!timing->by_step) return;
  uint64_t all_ns = 0;
  for (uint32_t i = 0; i < lane->plan->step_count; i++) {
    note_work(lane, session->queue->device->is_host_memory, i, timing->empty_ns);
    all_ns += lane->times->step_ns[i];
  }
  /* The marks around the steps are read before the one behind the run is made. */
  if (session->queue->device->table->clock_create) timing->device_ns = all_ns;
  lane->times->step_runs++;
}

/* ---- telling ----------------------------------------------------------------------------------------------------- */

bool ord_session_step_time(const ord_session *session, uint32_t index, ord_step_time *out) {
  const ord_lane *lane = session->last;
  if (!lane || index >= lane->plan->step_count) return false;
  const ord_step *step = &lane->plan->step[index];
  ord_step_time made = {.phases = step->choice.answer.phase_count,
                        .path = step->node.label,
                        .op = step->node.op,
                        .kernel = step->choice.kernel->name};
  if (lane->times) {
    const step_sums *sums = &lane->times->step[index];
    made.ns = sums->ns;
    made.runs = lane->times->step_runs;
    made.busy_ns = sums->busy_ns;
    made.busy_runs = lane->times->thread_runs;
    made.operations = sums->work.operations;
    made.weight_bytes = sums->weight_bytes;
    made.cache_bytes = sums->work.state_bytes;
  }
  return ord_struct_give(&made, "ord_step_time", out, sizeof made, NULL);
}

void ord_session_times_reset(ord_session *session) {
  for (uint32_t i = 0; i < session->lanes->count; i++) {
    ord_lane_times *times = session->lanes->lane[i].times;
    if (!times) continue;
    memset(times->step, 0, session->lanes->lane[i].plan->step_count * sizeof *times->step);
    times->step_runs = times->thread_runs = 0;
  }
}
