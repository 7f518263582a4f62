/* SPDX-License-Identifier: MIT
 *
 * Ops that only move numbers, for where the plan could not turn them into strides: reshape, transpose, slice, split,
 * concat, gather. Any type and any strides; a weight that is stored narrower than its result is widened on the way.
 */
#include "plain.h"

typedef void (*copy_fn)(const plain_state *state, const ord_exec *exec);

typedef struct copy_state {
  plain_state base;
  copy_fn copy;
  plain_read_fn widen; /* NULL: bytes are copied as they are */
  size_t bytes;        /* of an element of the result */
} copy_state;

/* ---- one run of numbers ---- */

static inline __attribute__((always_inline)) void copy_strided(char *into, int64_t into_stride, const char *from,
                                                               int64_t from_stride, int64_t count, size_t bytes) {
  for (int64_t i = 0; i < count; i++) memcpy(into + i * into_stride, from + i * from_stride, bytes);
}

/* at[0] is written, at[1] read. A copy of known size is one move, so each size has its own loop. */
static void copy_run(const void *context, char *const *at, const int64_t *stride, int64_t count) {
  const copy_state *state = context;
  const int64_t bytes = (int64_t)state->bytes;
  if (state->widen) {
    const bool is_dense = stride[0] == bytes;
    for (int64_t i = 0; i < (is_dense ? 1 : count); i++)
      state->widen((float *)(at[0] + i * stride[0]), at[1] + i * stride[1], stride[1], is_dense ? count : 1);
  } else if (stride[0] == bytes && stride[1] == bytes) {
    memcpy(at[0], at[1], (size_t)(count * bytes));
  } else if (bytes == 4) {
    copy_strided(at[0], stride[0], at[1], stride[1], count, 4);
  } else if (bytes == 2) {
    copy_strided(at[0], stride[0], at[1], stride[1], count, 2);
  } else if (bytes == 8) {
    copy_strided(at[0], stride[0], at[1], stride[1], count, 8);
  } else {
    copy_strided(at[0], stride[0], at[1], stride[1], count, 1);
  }
}

/* This chunk's part of a copy between views of equal dims. */
static void copy_part(const plain_state *state, const ord_exec *exec, plain_view into, plain_view from) {
  const plain_view view[] = {into, from};
  plain_walk(view, 2, plain_chunk_range(exec, plain_view_count(&into)), copy_run, state);
}

static plain_view cut_axis(plain_view view, uint32_t axis, int64_t begin, int64_t count, int64_t step) {
  view.data += begin * view.stride[axis];
  view.dim[axis] = count;
  view.stride[axis] *= step;
  return view;
}

/* ---- the ops ---- */

/* Both are walked row-major; a run ends where either side's does. */
static void reshape_chunk(const plain_state *state, const ord_exec *exec) {
  plain_view into = plain_view_output(state, exec, 0), from = plain_view_of(state, exec, 0);
  const plain_range range = plain_chunk_range(exec, plain_view_count(&into));
  plain_view_merge(&into, 1);
  plain_view_merge(&from, 1);
  const int64_t into_width = into.rank ? into.dim[into.rank - 1] : 1,
                from_width = from.rank ? from.dim[from.rank - 1] : 1;
  const int64_t stride[] = {into.rank ? into.stride[into.rank - 1] : 0, from.rank ? from.stride[from.rank - 1] : 0};
  for (int64_t number = range.first; number < range.end;) {
    const int64_t into_rest = into_width - number % into_width, from_rest = from_width - number % from_width;
    int64_t length = into_rest < from_rest ? into_rest : from_rest;
    if (length > range.end - number) length = range.end - number;
    char *const at[] = {into.data + plain_view_offset(&into, number), from.data + plain_view_offset(&from, number)};
    copy_run(state, at, stride, length);
    number += length;
  }
}

static void transpose_chunk(const plain_state *state, const ord_exec *exec) {
  const plain_view into = plain_view_output(state, exec, 0), in = plain_view_of(state, exec, 0);
  const int64_t *axes = ord_node_attr(state->node, "axes")->value.ints;
  plain_view from = into;
  from.data = in.data;
  for (uint32_t axis = 0; axis < into.rank; axis++) from.stride[axis] = in.stride[axes[axis]];
  copy_part(state, exec, into, from);
}

/* A start counted from the end of a run-time axis may lie before the first number: what is not there is zero. */
static void slice_chunk(const plain_state *state, const ord_exec *exec) {
  static const char zero[8];
  const plain_view into = plain_view_output(state, exec, 0), in = plain_view_of(state, exec, 0);
  const uint32_t axis = plain_axis(state->node, in.rank);
  const int64_t step = ord_node_int(state->node, "step", 1), given = ord_node_int(state->node, "start", 0);
  const int64_t start = given < 0 ? given + in.dim[axis] : given, wanted = into.dim[axis];
  const int64_t before = start < 0 ? (-start + step - 1) / step : 0, missing = before < wanted ? before : wanted;
  plain_view nothing = cut_axis(into, axis, 0, missing, 1);
  nothing.data = (char *)(uintptr_t)zero;
  memset(nothing.stride, 0, sizeof nothing.stride);
  copy_part(state, exec, cut_axis(into, axis, 0, missing, 1), nothing);
  copy_part(state, exec, cut_axis(into, axis, missing, wanted - missing, 1),
            cut_axis(in, axis, start + missing * step, wanted - missing, step));
}

static void split_chunk(const plain_state *state, const ord_exec *exec) {
  const plain_view in = plain_view_of(state, exec, 0);
  const uint32_t axis = plain_axis(state->node, in.rank);
  const ord_attr *sizes = ord_node_attr(state->node, "sizes");
  int64_t begin = 0;
  for (uint32_t part = 0; part < sizes->count; part++) {
    const plain_view into = plain_view_of(state, exec, 1 + part); /* absent if nobody asked for it */
    if (into.data) copy_part(state, exec, into, cut_axis(in, axis, begin, sizes->value.ints[part], 1));
    begin += sizes->value.ints[part];
  }
}

static void concat_chunk(const plain_state *state, const ord_exec *exec) {
  const uint32_t count = ord_node_output(state->node, 0);
  const plain_view into = plain_view_output(state, exec, 0);
  const uint32_t axis = plain_axis(state->node, into.rank);
  int64_t begin = 0;
  for (uint32_t i = 0; i < count; i++) {
    const plain_view from = plain_view_of(state, exec, i);
    copy_part(state, exec, cut_axis(into, axis, begin, from.dim[axis], 1), from);
    begin += from.dim[axis];
  }
}

/* The axes behind `axis`. */
static plain_view behind(const plain_view *view, uint32_t axis) {
  plain_view rest = {.data = view->data, .rank = view->rank - axis - 1};
  memcpy(rest.dim, view->dim + axis + 1, rest.rank * sizeof *rest.dim);
  memcpy(rest.stride, view->stride + axis + 1, rest.rank * sizeof *rest.stride);
  return rest;
}

/* One block of the axes behind `axis` for each place before it and each index; outside the axis lie zeros. */
static void gather_chunk(const plain_state *state, const ord_exec *exec) {
  static const char zero[8];
  const plain_view into = plain_view_output(state, exec, 0), in = plain_view_slot(state, exec, "in");
  const plain_view index = plain_view_slot(state, exec, "index");
  const uint32_t axis = plain_axis(state->node, in.rank);
  const plain_view before = plain_view_leading(in, axis), places = plain_view_leading(into, axis + index.rank);
  const plain_range range = plain_chunk_range(exec, plain_view_count(&places));
  const int64_t index_count = plain_view_count(&index);
  for (int64_t i = range.first; i < range.end; i++) {
    int32_t given;
    memcpy(&given, index.data + plain_view_offset(&index, i % index_count), sizeof given);
    const int64_t place = given < 0 ? given + in.dim[axis] : given;
    plain_view view[] = {behind(&into, axis + index.rank - 1), behind(&in, axis)};
    view[0].data += plain_view_offset(&places, i);
    if (place >= 0 && place < in.dim[axis]) {
      view[1].data += plain_view_offset(&before, i / index_count) + place * in.stride[axis];
    } else {
      view[1].data = (char *)(uintptr_t)zero;
      memset(view[1].stride, 0, sizeof view[1].stride);
    }
    plain_walk(view, 2, (plain_range){0, plain_view_count(view)}, copy_run, state);
  }
}

/* ---- the kernels ---- */

static ord_status copy_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  static const plain_rule rules[] = {
      {"in", PLAIN_MOVED, 0}, {"index", PLAIN_I32, 0}, {"out", PLAIN_MOVED, 0}, {NULL, 0, 0}};
  (void)kernel;
  const ord_operand *in = &node->operand[0];
  int64_t count = 0; /* of the larger side: split has several results, concat several inputs */
  for (uint32_t i = 1; i < node->operand_count; i++) {
    const ord_operand *other = &node->operand[i];
    const bool is_moved = other->role == ORD_OUTPUT || (other->role != ORD_ABSENT && strcmp(other->name, "in") == 0);
    const bool is_widened =
        other->role == ORD_OUTPUT && other->dtype == ORD_F32 && plain_is_one_of(in->dtype, PLAIN_FLOATS);
    if (is_moved && plain_count(other) > count) count = plain_count(other);
    if (is_moved && other->dtype != in->dtype && !is_widened)
      return plain_refuse(answer, "%s is %s, %s is %s; wanted the same type", in->name, plain_type_name(in->dtype),
                          other->name, plain_type_name(other->dtype));
  }
  return plain_check(node, rules, plain_chunks(PLAIN_HERE, count), answer);
}

static ord_status copy_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                               const ord_host *host, void **state, ord_plugin_error *err) {
  static const struct {
    const char *op;
    copy_fn copy;
  } known[] = {
#define COPY(op, function) {#op, function},
#include "kernels.def"
  };
  copy_state *made = plain_state_create(node, answer, host, sizeof *made, err);
  if (!made) return ORD_NO_MEMORY;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(known[i].op, kernel->op) == 0) made->copy = known[i].copy;
  const ord_operand *in = &node->operand[0], *out = &node->operand[ord_node_output(node, 0)];
  made->widen = in->dtype == out->dtype ? NULL : plain_reader(in->dtype);
  made->bytes = out->block_bytes;
  *state = made;
  return ORD_OK;
}

static ord_status copy_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const copy_state *made = state;
  made->copy(&made->base, exec);
  return ORD_OK;
}

#define COPY(which, function) PLAIN_KERNEL(which, copy_query, .prepare = copy_prepare, .launch = copy_launch);
#include "kernels.def"
