/* SPDX-License-Identifier: MIT
 *
 * Runs: check, write the inputs, replay (or walk eagerly), grow the caches; and reading what came out.
 */
#include <stdlib.h>
#include <string.h>

#include "session/parts.h"

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* The lane for this run: the one for single tokens where every row brings one. */
static ord_lane *choose_lane(ord_session *session) {
  const bool single = session->lanes->count == 2 && session->run_dim[session->token_dim] == 1;
  return &session->lanes->lane[single ? 1 : 0];
}

/* Readers of old outputs then see 0xff bytes: NaN, or -1. */
static void poison_outputs(const ord_lane *lane) {
  for (uint32_t i = 0; i < lane->plan->output_count; i++) {
    const ord_plan_tensor *output = &lane->plan->output[i];
    int64_t last = 0;
    for (uint32_t axis = 0; axis < output->rank; axis++) {
      if (output->dim[axis] == 0) last = -1;
      if (last >= 0) last += (output->dim[axis] - 1) * output->stride[axis];
    }
    if (last >= 0 && output->place.space == ORD_SPACE_ARENA)
      memset((char *)lane->memory.arena + output->place.offset, 0xff,
             (size_t)last + ord_dtype_get(output->dtype)->block_bytes);
  }
}

static void advance(ord_session *session) {
  if (session->graph->cache_count == 0) return;
  for (int64_t row = 0; row < session->rows; row++) session->past[row] += session->length[row];
}

void ord_session_forget_outputs(ord_session *session) {
  session->last = NULL;
  ord_lanes_destroy(session, session->kept);
  session->kept = NULL;
}

bool ord_session_run_once(ord_session *session, bool eager, ord_timing *timing, ord_error *err) {
  ord_device *device = session->model->context->device;
  ord_session_forget_outputs(session);
  if (!ord_inputs_resolve(session, err)) return false;
  ord_lane *lane = choose_lane(session);
  if (session->options.poison) poison_outputs(lane);
  if (!ord_inputs_write(session, lane, err)) return false;
  ord_run_options options = {.cancel = &session->cancel};
  if (timing && !ord_lane_times_begin(session, lane, timing, &options, err)) return false;
  const uint64_t begin = timing ? ord_clock_ns() : 0;
  const bool done = eager || !lane->capture ? device->table->run_eager(device, lane->plan, &lane->memory, &options, err)
                                            : device->table->replay(device, lane->capture, &options, err);
  if (timing) timing->run_ns = ord_clock_ns() - begin;
  if (!done) return false;
  if (timing) ord_lane_times_end(session, lane, timing);
  advance(session);
  session->last = lane;
  return true;
}

bool ord_session_run(ord_session *session, ord_error *err) {
  atomic_store(&session->cancel, false);
  return ord_session_run_once(session, session->options.eager, NULL, err);
}

bool ord_session_run_timed(ord_session *session, ord_timing *timing, ord_error *err) {
  atomic_store(&session->cancel, false);
  ord_timing own;
  return ord_struct_take(timing, "ord_timing", &own, sizeof own, err) &&
         ord_session_run_once(session, own.eager, &own, err) &&
         ord_struct_give(&own, "ord_timing", timing, sizeof own, err);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static const ord_plan_tensor *find_output(const ord_plan *plan, const char *name, uint32_t *out_index) {
  for (uint32_t i = 0; i < plan->output_count; i++)
    if (strcmp(plan->output[i].name, name) == 0) {
      *out_index = i;
      return &plan->output[i];
    }
  return NULL;
}

static bool fail_output(const ord_plan *plan, const char *name, ord_error *err) {
  ord_text known = {0};
  for (uint32_t i = 0; i < plan->output_count; i++) ord_text_add(&known, i ? ", %s" : "%s", plan->output[i].name);
  ord_fail(err, ORD_INVALID, "the run has no output '%s'; wanted one of: %s", name, known.bytes ? known.bytes : "none");
  ord_text_finish(&known);
  return false;
}

/* A dense copy of output `index`, which lies strided in the arena; kept until the next copy of it. */
static bool copy_dense(ord_session *session, uint32_t index, const ord_plan_tensor *output, const void *from,
                       ord_tensor *out, ord_error *err) {
  if (index >= session->output_copy_count) {
    void **grown = realloc(session->output_copy, (index + 1) * sizeof *grown);
    if (!grown) return ord_fail_memory(err, "reading an output");
    session->output_copy = grown;
    while (session->output_copy_count <= index) session->output_copy[session->output_copy_count++] = NULL;
  }
  void *copy = realloc(session->output_copy[index], out->bytes ? out->bytes : 1);
  if (!copy) return ord_fail_memory(err, "reading an output");
  session->output_copy[index] = copy;
  ord_tensor_pack(output->dtype, output->rank, out->dim, output->stride, from, copy);
  out->data = copy;
  return true;
}

static bool is_dense(const ord_plan_tensor *output, const int64_t *dim) {
  int64_t stride[ORD_RANK_MAX];
  ord_tensor_strides(output->dtype, output->rank, dim, stride);
  for (uint32_t i = 0; i < output->rank; i++)
    if (dim[i] > 1 && stride[i] != output->stride[i]) return false;
  return true;
}

bool ord_session_get(ord_session *session, const char *name, ord_tensor *out, ord_error *err) {
  const ord_lane *lane = session->last;
  if (!lane) return ord_fail(err, ORD_INVALID, "there is no output '%s'; found no finished run before", name);
  uint32_t index = 0;
  const ord_plan_tensor *output = find_output(lane->plan, name, &index);
  if (!output) return fail_output(lane->plan, name, err);
  ord_tensor made = {.dtype = output->dtype, .rank = output->rank};
  for (uint32_t i = 0; i < output->rank; i++)
    if (!ord_size_evaluate(output->size[i], session->run_dim, &made.dim[i]))
      return ord_fail(err, ORD_INTERNAL, "output '%s' has no size", name);
  if (!ord_tensor_bytes(output->dtype, output->rank, made.dim, &made.bytes))
    return ord_fail(err, ORD_INTERNAL, "output '%s' is too large", name);
  const char *base =
      output->place.space == ORD_SPACE_WEIGHT ? lane->plan->weight[output->place.index] : lane->memory.arena;
  made.data = base + output->place.offset;
  return (is_dense(output, made.dim) || copy_dense(session, index, output, made.data, &made, err)) &&
         ord_struct_give(&made, "ord_tensor", out, sizeof made, err);
}
