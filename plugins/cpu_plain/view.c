/* SPDX-License-Identifier: MIT
 *
 * Operands as they are in a run (dims of the run, strides of the plan) and walks over them.
 */
#include "plain.h"

plain_view plain_view_of(const plain_state *state, const ord_exec *exec, uint32_t which) {
  plain_view view; /* of the axes behind `rank` nothing is said: to clear them takes longer than the rest */
  view.data = NULL;
  view.rank = 0;
  if (which == ORD_NONE || state->node->operand[which].role == ORD_ABSENT) return view;
  const ord_operand *operand = &state->node->operand[which];
  view.data = exec->operand[which];
  view.rank = operand->rank;
  int64_t dense = (int64_t)sizeof(float);
  for (uint32_t axis = view.rank; axis-- > 0;) {
    view.dim[axis] = ord_exec_dim(state->node, exec, which, axis);
    view.stride[axis] = state->answer->pack[which].key ? dense : operand->stride[axis];
    dense *= operand->dim[axis];
  }
  return view;
}

plain_view plain_view_slot(const plain_state *state, const ord_exec *exec, const char *name) {
  return plain_view_of(state, exec, ord_node_find(state->node, name));
}

plain_view plain_view_output(const plain_state *state, const ord_exec *exec, uint32_t which) {
  return plain_view_of(state, exec, ord_node_output(state->node, which));
}

plain_view plain_view_broadcast(plain_view view, const plain_view *like) {
  plain_view wide = *like;
  wide.data = view.data;
  for (uint32_t axis = 0; axis < wide.rank; axis++) {
    const uint32_t missing = wide.rank - view.rank;
    const bool repeats = axis < missing || view.dim[axis - missing] == 1;
    wide.stride[axis] = repeats ? 0 : view.stride[axis - missing];
  }
  return wide;
}

plain_view plain_view_leading(plain_view view, uint32_t rank) {
  view.rank = rank;
  return view;
}

int64_t plain_view_count(const plain_view *view) {
  int64_t count = 1;
  for (uint32_t axis = 0; axis < view->rank; axis++) count *= view->dim[axis];
  return count;
}

int64_t plain_view_offset(const plain_view *view, int64_t number) {
  int64_t offset = 0;
  if (number == 0) return 0;
  for (uint32_t axis = view->rank; axis-- > 1;) {
    offset += number % view->dim[axis] * view->stride[axis];
    number /= view->dim[axis];
  }
  return view->rank ? offset + number * view->stride[0] : 0;
}

plain_range plain_chunk_range(const ord_exec *exec, int64_t count) {
  if (exec->chunk_count == 1) return (plain_range){0, count};
  return (plain_range){count * exec->chunk / exec->chunk_count, count * (exec->chunk + 1) / exec->chunk_count};
}

/* Does axis `inner` follow axis `outer` so that both are one axis, in every view? */
static bool joins(const plain_view *view, uint32_t count, uint32_t outer, uint32_t inner) {
  for (uint32_t i = 0; i < count; i++)
    if (view[i].stride[outer] != view[i].stride[inner] * view[i].dim[inner]) return false;
  return true;
}

static void move_axis(plain_view *view, uint32_t count, uint32_t from, uint32_t to) {
  for (uint32_t i = 0; i < count; i++) {
    view[i].dim[to] = view[i].dim[from];
    view[i].stride[to] = view[i].stride[from];
  }
}

void plain_view_merge(plain_view *view, uint32_t count) {
  uint32_t kept = 0;
  for (uint32_t axis = 0; axis < view->rank; axis++) {
    if (view->dim[axis] == 1) continue;
    if (kept > 0 && joins(view, count, kept - 1, axis)) {
      const int64_t outer = view->dim[kept - 1];
      move_axis(view, count, axis, kept - 1);
      for (uint32_t i = 0; i < count; i++) view[i].dim[kept - 1] *= outer;
    } else {
      move_axis(view, count, axis, kept++);
    }
  }
  for (uint32_t i = 0; i < count; i++) view[i].rank = kept;
}

void plain_walk(const plain_view *view, uint32_t count, plain_range range, plain_run_fn run, const void *context) {
  plain_view merged[PLAIN_WALK_MAX];
  memcpy(merged, view, count * sizeof *view);
  plain_view_merge(merged, count);
  const uint32_t last = merged->rank ? merged->rank - 1 : 0;
  const int64_t width = merged->rank ? merged->dim[last] : 1;
  int64_t stride[PLAIN_WALK_MAX];
  for (uint32_t i = 0; i < count; i++) stride[i] = merged->rank ? merged[i].stride[last] : 0;
  int64_t rest = range.first < range.end ? width - range.first % width : 0;
  for (int64_t number = range.first; number < range.end; rest = width) {
    const int64_t length = rest < range.end - number ? rest : range.end - number;
    char *at[PLAIN_WALK_MAX];
    for (uint32_t i = 0; i < count; i++) at[i] = merged[i].data + plain_view_offset(&merged[i], number);
    run(context, at, stride, length);
    number += length;
  }
}
