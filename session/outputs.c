/* SPDX-License-Identifier: MIT
 *
 * What came out of a run: read in place where the device's memory is the host's and the values lie dense, else copied.
 */
#include <stdlib.h>
#include <string.h>

#include "session/parts.h"

/* ---- where it lies ------------------------------------------------------------------------------------------------
 */

size_t ord_plan_tensor_span(const ord_plan_tensor *tensor, const int64_t *dim) {
  int64_t last = 0;
  for (uint32_t axis = 0; axis < tensor->rank; axis++) {
    if (dim[axis] == 0) return 0;
    last += (dim[axis] - 1) * tensor->stride[axis];
  }
  return (size_t)last + ord_dtype_get(tensor->dtype)->block_bytes;
}

static char *address_of(const ord_lane *lane, const ord_plan_tensor *output) {
  const bool is_weight = output->place.space == ORD_SPACE_WEIGHT;
  char *base = is_weight ? (char *)(uintptr_t)lane->plan->weight[output->place.index] : lane->memory.arena;
  return base + output->place.offset;
}

static bool is_dense(const ord_plan_tensor *output, const int64_t *dim) {
  int64_t stride[ORD_RANK_MAX];
  ord_tensor_strides(output->dtype, output->rank, dim, stride);
  for (uint32_t i = 0; i < output->rank; i++)
    if (dim[i] > 1 && stride[i] != output->stride[i]) return false;
  return true;
}

bool ord_outputs_poison(ord_session *session, const ord_lane *lane, ord_error *err) {
  char poison[4096];
  memset(poison, 0xff, sizeof poison);
  for (uint32_t i = 0; i < lane->plan->output_count; i++) {
    const ord_plan_tensor *output = &lane->plan->output[i];
    const size_t span = ord_plan_tensor_span(output, output->dim);
    if (output->place.space != ORD_SPACE_ARENA) continue;
    for (size_t at = 0; at < span; at += sizeof poison)
      if (!session->queue->device->table->write(session->queue, address_of(lane, output) + at, poison,
                                                span - at < sizeof poison ? span - at : sizeof poison, err))
        return false;
  }
  return true;
}

/* ---- copies --------------------------------------------------------------------------------------------------------
 */

static bool reserve(ord_output_copy *copy, size_t bytes, ord_error *err) {
  if (copy->data && bytes <= copy->capacity) return true;
  void *grown = realloc(copy->data, bytes ? bytes : 1);
  if (!grown) return ord_fail_memory(err, "reading an output");
  copy->data = grown;
  copy->capacity = bytes;
  return true;
}

bool ord_output_read(ord_session *session, const ord_lane *lane, const ord_plan_tensor *output, const int64_t *dim,
                     void *dense, ord_error *err) {
  const ord_device *device = session->queue->device;
  const size_t span = ord_plan_tensor_span(output, dim);
  const char *from = address_of(lane, output);
  if (!device->is_host_memory && is_dense(output, dim))
    return device->table->read(session->queue, dense, from, span, err);
  if (!device->is_host_memory) {
    if (!reserve(&session->strided_copy, span, err) ||
        !device->table->read(session->queue, session->strided_copy.data, from, span, err))
      return false;
    from = session->strided_copy.data;
  }
  ord_tensor_pack(output->dtype, output->rank, dim, output->stride, from, dense);
  return true;
}

/* Each output has one copy, which serves until the next is made. */
static bool copy_output(ord_session *session, const ord_lane *lane, uint32_t index, ord_tensor *out, ord_error *err) {
  const uint32_t count = lane->plan->output_count;
  if (session->output_copy_count < count) {
    ord_output_copy *grown = realloc(session->output_copy, count * sizeof *grown);
    if (!grown) return ord_fail_memory(err, "reading an output");
    session->output_copy = grown;
    while (session->output_copy_count < count) grown[session->output_copy_count++] = (ord_output_copy){0};
  }
  ord_output_copy *copy = &session->output_copy[index];
  if (!reserve(copy, out->bytes, err)) return false;
  out->data = copy->data;
  return ord_output_read(session, lane, &lane->plan->output[index], out->dim, copy->data, err);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static bool find_output(const ord_plan *plan, const char *name, uint32_t *out, ord_error *err) {
  for (*out = 0; *out < plan->output_count; ++*out)
    if (strcmp(plan->output[*out].name, name) == 0) return true;
  ord_text known = {0};
  for (uint32_t i = 0; i < plan->output_count; i++) ord_text_add(&known, i ? ", %s" : "%s", plan->output[i].name);
  ord_fail(err, ORD_INVALID, "the run has no output '%s'; wanted one of: %s", name, known.bytes ? known.bytes : "none");
  ord_text_finish(&known);
  return false;
}

bool ord_session_get(ord_session *session, const char *name, ord_tensor *out, ord_error *err) {
  const ord_lane *lane = session->last;
  if (!lane)
    return ord_fail(err, ORD_INVALID, "there is no output '%s'; found %s", name,
                    session->has_run ? "tokens that the device made by itself (loop off keeps outputs)"
                                     : "no finished run before");
  uint32_t index = 0;
  if (!find_output(lane->plan, name, &index, err)) return false;
  const ord_plan_tensor *output = &lane->plan->output[index];
  ord_tensor made = {.dtype = output->dtype, .rank = output->rank, .data = address_of(lane, output)};
  for (uint32_t i = 0; i < output->rank; i++)
    if (!ord_size_evaluate(output->size[i], session->run_dim, &made.dim[i]))
      return ord_fail(err, ORD_INTERNAL, "output '%s' has no size", name);
  if (!ord_tensor_bytes(output->dtype, output->rank, made.dim, &made.bytes))
    return ord_fail(err, ORD_INTERNAL, "output '%s' is too large", name);
  const bool is_readable = session->queue->device->is_host_memory && is_dense(output, made.dim);
  return (is_readable || copy_output(session, lane, index, &made, err)) &&
         ord_struct_give(&made, "ord_tensor", out, sizeof made, err);
}
