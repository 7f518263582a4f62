/* SPDX-License-Identifier: MIT
 *
 * reshape. The same numbers, in row-major order, under another shape.
 */
#include <string.h>

#include "ops/op_check.h"
#include "ops/reference.h"

static bool size_of_shape(ord_infer *infer, uint32_t rank, const ord_size *dim, ord_size *out) {
  if (!ord_infer_size(infer, ord_size_constant(infer->arena, 1, out))) return false;
  for (uint32_t axis = 0; axis < rank; axis++)
    if (!ord_infer_size(infer, ord_size_product(infer->arena, *out, dim[axis], out))) return false;
  return true;
}

static const char *shape_text(ord_infer *infer, uint32_t rank, const ord_size *dim) {
  ord_text text = {0};
  ord_text_add(&text, "[");
  for (uint32_t axis = 0; axis < rank; axis++) {
    ord_text_add(&text, axis ? ", " : "");
    ord_size_print(&text, dim[axis], infer->run_dim_name);
  }
  ord_text_add(&text, "]");
  const char *made = text.failed ? NULL : ord_arena_text(infer->arena, text.bytes);
  ord_text_finish(&text);
  return made ? made : "?";
}

static bool reshape_infer(ord_infer *infer) {
  const ord_infer_operand *in = ord_infer_slot(infer, "in");
  ord_size found, wanted;
  if (!size_of_shape(infer, in->rank, in->dim, &found) ||
      !size_of_shape(infer, infer->shape_rank, infer->shape, &wanted))
    return false;
  if (!ord_size_equal(found, wanted))
    return ord_infer_fail(infer, "shape", 0, "in '%s' %s holds %s numbers, shape %s holds %s; wanted equal", in->name,
                          shape_text(infer, in->rank, in->dim), ord_infer_size_text(infer, found),
                          shape_text(infer, infer->shape_rank, infer->shape), ord_infer_size_text(infer, wanted));
  ord_infer_set_result(infer, 0, in->dtype, infer->shape_rank, infer->shape);
  return true;
}

/* Neighbouring axes of the input that make up neighbouring axes of the result, the shortest such. */
typedef struct axis_group {
  uint32_t in_begin, in_end, out_begin, out_end;
} axis_group;

/* An axis of the fixed size 1 adds nothing to a place. */
static bool is_one(int64_t dim, bool runs) { return dim == 1 && !runs; }

/* Are a * factor_a and b * factor_b the same polynomial? */
static bool sizes_agree(ord_size a, int64_t factor_a, ord_size b, int64_t factor_b) {
  if (a.term_count != b.term_count) return false;
  for (uint32_t i = 0; i < a.term_count; i++) {
    if (a.term[i].factor * factor_a != b.term[i].factor * factor_b) return false;
    if (memcmp(a.term[i].power, b.term[i].power, sizeof a.term[i].power) != 0) return false;
  }
  return true;
}

/* Only the first axis of a group may have a run-time size: the strides of the axes before it belong to the plan's
 * maximum, and merging or cutting behind a run-time size would need strides that change with the run. (An axis of the
 * result that runs and is not first has its like in the input, and that is not first either, or meets another kind.) */
static bool group_is_steady(const ord_view_request *request, const axis_group *group, bool is_only_run_axis) {
  int64_t in_rest = 1, out_rest = 1;
  for (uint32_t axis = group->in_begin + 1; axis < group->in_end; axis++) {
    if (request->in_runs[axis]) return false;
    in_rest *= request->in_dim[axis];
  }
  for (uint32_t axis = group->out_begin + 1; axis < group->out_end; axis++) out_rest *= request->out_dim[axis];
  if (request->in_runs[group->in_begin] != request->out_runs[group->out_begin]) return false;
  if (!request->in_runs[group->in_begin] || is_only_run_axis) return true;
  return request->in_size && request->out_size &&
         sizes_agree(request->in_size[group->in_begin], in_rest, request->out_size[group->out_begin], out_rest);
}

/* Strides of the result's axes of one group, or false if the input's axes are not one run in memory. */
static bool group_stride(ord_view_request *request, const axis_group *group) {
  int64_t stride = request->in_stride[group->in_end - 1], behind = stride * request->in_dim[group->in_end - 1];
  for (uint32_t axis = group->in_end - 1; axis-- > group->in_begin;) {
    if (is_one(request->in_dim[axis], request->in_runs[axis])) continue;
    if (request->in_stride[axis] != behind) return false;
    behind *= request->in_dim[axis];
  }
  for (uint32_t axis = group->out_end; axis-- > group->out_begin;) {
    request->out_stride[axis] = stride;
    stride *= request->out_dim[axis];
  }
  return true;
}

/* Extends the group from its begins until both sides hold equally many numbers at the maximum; false if they never
 * do. */
static bool group_extend(const ord_view_request *request, axis_group *group) {
  int64_t in_count = request->in_dim[group->in_begin], out_count = request->out_dim[group->out_begin];
  group->in_end = group->in_begin + 1;
  group->out_end = group->out_begin + 1;
  while (in_count != out_count) {
    if (group->in_end == request->in_rank && group->out_end == request->out_rank) return false;
    if (group->out_end == request->out_rank || (in_count < out_count && group->in_end < request->in_rank))
      in_count *= request->in_dim[group->in_end++];
    else
      out_count *= request->out_dim[group->out_end++];
  }
  return true;
}

static uint32_t skip_ones(uint32_t axis, uint32_t rank, const int64_t *dim, const bool *runs) {
  while (axis < rank && is_one(dim[axis], runs[axis])) axis++;
  return axis;
}

static uint32_t run_axes(uint32_t rank, const bool *runs) {
  uint32_t count = 0;
  for (uint32_t axis = 0; axis < rank; axis++) count += runs[axis];
  return count;
}

static bool reshape_view(ord_view_request *request) {
  for (uint32_t axis = 0; axis < request->in_rank; axis++)
    if (request->in_dim[axis] == 0) return false; /* nothing to move, and no groups to match */
  const bool is_only_run_axis =
      run_axes(request->in_rank, request->in_runs) == 1 && run_axes(request->out_rank, request->out_runs) == 1;
  for (uint32_t axis = 0; axis < request->out_rank; axis++) request->out_stride[axis] = 1;
  request->out_offset = 0;
  axis_group group = {0};
  for (;;) {
    group.in_begin = skip_ones(group.in_end, request->in_rank, request->in_dim, request->in_runs);
    group.out_begin = skip_ones(group.out_end, request->out_rank, request->out_dim, request->out_runs);
    if (group.in_begin == request->in_rank || group.out_begin == request->out_rank)
      return group.in_begin == request->in_rank && group.out_begin == request->out_rank;
    if (!group_extend(request, &group) || !group_is_steady(request, &group, is_only_run_axis) ||
        !group_stride(request, &group))
      return false;
  }
}

static ord_status reshape_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const ord_node *node = state;
  const ord_reference_tensor in = ord_reference_slot(node, exec, "in"); /* [..] */
  const ord_reference_tensor out = ord_reference_output(node, exec, 0); /* shape */
  int64_t from[ORD_RANK_MAX] = {0}, to[ORD_RANK_MAX] = {0};
  for (int64_t i = 0; i < ord_reference_count(&out); i++) {
    ord_reference_index(&in, i, from);
    ord_reference_index(&out, i, to);
    ord_reference_move(&in, from, &out, to);
  }
  return ORD_OK;
}

static const ord_kernel reshape_reference = {
    .struct_size = sizeof reshape_reference,
    .priority = ORD_REFERENCE_PRIORITY,
    .name = "reshape_reference",
    .op = "reshape",
    .query = ord_reference_query,
    .prepare = ord_reference_prepare,
    .launch = reshape_launch,
    .retire = ord_reference_retire,
};

static const ord_case reshape_cases[] = {
    {"in[$,6]", "shape=2,$,3 $=1..40"},
    {"in[2,3,4,5,6,7]", "shape=5040"},
    {"in[5040]", "shape=2,3,4,5,6,7"},
    {"in[12]", "shape=3,4"},
    {"in[1]", "shape=[]"},
    {"in[]", "shape=1,1"},
    {"in[3,0,4]", "shape=0,7"},
    {"in^[6,35]", "shape=5,42"},
    {"in+[6,35] out+", "shape=210"},
    {"in[6,35] out^", "shape=7,30"},
    {"in[2,3/8,12]", "shape=2,3/8,3,4"},
    {"in[2,3/8,3,4]", "shape=2,3/8*12"},
    {"in[2,3/8,4]", "shape=3/8,8"},
    {"in[2,3/8,4]", "shape=4,3/8,2"},
    {"in[2,0/8,4]", "shape=2,4,0/8"},
    {"in:i32[6]", "shape=2,3"},
    {"in:f16[6,7]", "shape=42"},
    {"in:bf16[6,7]", "shape=42"},
    {"in:bool[6,7]", "shape=7,6"},
    {"in[2,3]=nan,inf,-inf,-0,1,3e38", "shape=3,2"},
    {NULL, NULL},
};

static const ord_slot reshape_slot[] = {{"in", 0, 0, NULL}};

static const ord_attr_rule reshape_attr[] = {
    {.name = "shape", .kind = ORD_RULE_SHAPE, .required = true, .wanted = "a list of sizes, no -1"},
};

const ord_op ord_op_reshape = {
    .name = "reshape",
    .version = 1,
    .slot = reshape_slot,
    .slot_count = sizeof reshape_slot / sizeof *reshape_slot,
    .attr = reshape_attr,
    .attr_count = sizeof reshape_attr / sizeof *reshape_attr,
    .result_min = 1,
    .result_max = 1,
    .about = "shape; same count",
    .infer = reshape_infer,
    .view = reshape_view,
    .reference = &reshape_reference,
    .cases = reshape_cases,
};
