/* SPDX-License-Identifier: MIT
 *
 * Operands as device code sees them.
 */
#include "core.h"

core_view core_view_of(const ord_node *node, uint32_t which) {
  core_view view = {.which = ORD_NONE};
  if (which == ORD_NONE || node->operand[which].role == ORD_ABSENT) return view;
  const ord_operand *operand = &node->operand[which];
  view.which = which;
  view.rank = operand->rank;
  view.type = operand->dtype;
  view.bytes = operand->block_bytes;
  view.align_log2 = operand->align_log2;
  for (uint32_t axis = 0; axis < view.rank; axis++) {
    view.extent[axis] = operand->extent[axis];
    view.dim[axis] = operand->extent[axis] == ORD_NONE ? operand->dim[axis] : 1;
    view.limit[axis] = operand->dim[axis];
    view.stride[axis] = operand->stride[axis];
  }
  return view;
}

core_view core_view_slot(const ord_node *node, const char *name) {
  return core_view_of(node, ord_node_find(node, name));
}

core_view core_view_part(const core_view *view, uint32_t first, uint32_t count) {
  core_view part = *view;
  part.rank = count;
  memcpy(part.extent, view->extent + first, count * sizeof *part.extent);
  memcpy(part.dim, view->dim + first, count * sizeof *part.dim);
  memcpy(part.limit, view->limit + first, count * sizeof *part.limit);
  memcpy(part.stride, view->stride + first, count * sizeof *part.stride);
  return part;
}

static bool is_single(const core_view *view, uint32_t axis) {
  return view->extent[axis] == ORD_NONE && view->dim[axis] == 1;
}

core_view core_view_broadcast(const core_view *view, const core_view *like) {
  core_view wide = *like;
  wide.which = view->which;
  wide.type = view->type;
  wide.bytes = view->bytes;
  wide.align_log2 = view->align_log2;
  const uint32_t missing = wide.rank - view->rank;
  for (uint32_t axis = 0; axis < wide.rank; axis++) {
    const bool repeats = axis < missing || is_single(view, axis - missing);
    wide.stride[axis] = repeats ? 0 : view->stride[axis - missing];
  }
  return wide;
}

/* Does axis `inner` follow axis `outer` so that both are one axis, in every view? */
static bool joins(const core_view *view, uint32_t count, uint32_t outer, uint32_t inner) {
  if (view->extent[inner] != ORD_NONE) return false;
  for (uint32_t i = 0; i < count; i++)
    if (view[i].stride[outer] != view[i].stride[inner] * view[i].dim[inner]) return false;
  return true;
}

void core_view_merge(core_view *view, uint32_t count) {
  uint32_t kept = 0;
  for (uint32_t axis = 0; axis < view->rank; axis++) {
    if (is_single(view, axis)) continue;
    const bool is_joined = kept > 0 && joins(view, count, kept - 1, axis);
    const uint32_t to = is_joined ? kept - 1 : kept;
    for (uint32_t i = 0; i < count; i++) {
      view[i].dim[to] = is_joined ? view[i].dim[to] * view[i].dim[axis] : view[i].dim[axis];
      view[i].limit[to] = is_joined ? core_multiply(view[i].limit[to], view[i].dim[axis]) : view[i].limit[axis];
      view[i].stride[to] = view[i].stride[axis];
      if (!is_joined) view[i].extent[to] = view[i].extent[axis];
    }
    kept = to + 1;
  }
  for (uint32_t i = 0; i < count; i++) view[i].rank = kept;
}

bool core_view_has_groups(const core_view *view, uint32_t group) {
  if (view->rank == 0) return false;
  const uint32_t last = view->rank - 1;
  const int64_t bytes = (int64_t)group * view->bytes;
  if (view->dim[last] % group || view->stride[last] != view->bytes || (INT64_C(1) << view->align_log2) % bytes)
    return false;
  for (uint32_t axis = 0; axis < last; axis++)
    if (view->stride[axis] % bytes) return false;
  return true;
}

bool core_view_has_vectors(const core_view *view, bool may_repeat) {
  const uint32_t group = CORE_VECTOR_BYTES / view->bytes;
  if (may_repeat && view->rank > 0 && view->stride[view->rank - 1] == 0) return view->dim[view->rank - 1] % group == 0;
  return core_view_has_groups(view, group);
}

void core_view_take_vectors(core_view *view) {
  const uint32_t last = view->rank - 1, elements = CORE_VECTOR_BYTES / view->bytes;
  view->dim[last] /= elements;
  view->limit[last] /= elements;
  view->stride[last] *= elements;
  view->bytes = CORE_VECTOR_BYTES;
}

int64_t core_view_count(const core_view *view) {
  int64_t count = 1;
  for (uint32_t axis = 0; axis < view->rank; axis++) count = core_multiply(count, view->limit[axis]);
  return count;
}

core_tensor core_view_tensor(const core_view *view, const ord_exec *exec) {
  core_tensor tensor = {.rank = view->rank, .type = view->type};
  if (view->which == ORD_NONE) return tensor;
  tensor.data = exec->operand[view->which];
  for (uint32_t axis = 0; axis < view->rank; axis++) {
    tensor.extent[axis] = view->extent[axis] == ORD_NONE ? NULL : exec->operand[view->extent[axis]];
    tensor.dim[axis] = view->dim[axis];
    tensor.stride[axis] = view->stride[axis];
  }
  return tensor;
}

core_tensor core_tensor_of(const core_state *state, const ord_exec *exec, uint32_t which) {
  const core_view view = core_view_of(state->node, which);
  return core_view_tensor(&view, exec);
}
