/* SPDX-License-Identifier: MIT
 *
 * slice. From `start` to before `end` along an axis, every `step`-th. Negative numbers count from the end. On a fixed
 * axis the attributes become plain places, 0 .. size; on a run-time axis they stay counted from the end, where the axis
 * of the run decides, and what a run does not have reads as zeros.
 */
#include <string.h>

#include "ops/op_check.h"
#include "ops/reference.h"

static bool slice_place(ord_infer *infer, const ord_infer_operand *in, uint32_t axis, int64_t size, const char *name,
                        int64_t *place) {
  const ord_attr *given = ord_infer_attr(infer, name);
  if (!given) return true;
  *place = given->value.i < 0 ? given->value.i + size : given->value.i;
  if (*place >= 0 && *place <= size) return true;
  return ord_infer_fail(infer, name, 0, "%s %lld lies outside axis %u of in %s; wanted %lld to %lld", name,
                        (long long)given->value.i, axis, in->described, (long long)-size, (long long)size);
}

static bool slice_fixed(ord_infer *infer, const ord_infer_operand *in, uint32_t axis, int64_t size, int64_t step,
                        int64_t *count) {
  int64_t start = 0, end = size;
  if (!slice_place(infer, in, axis, size, "start", &start) || !slice_place(infer, in, axis, size, "end", &end))
    return false;
  if (start > end)
    return ord_infer_fail(infer, "start", 0, "start %lld lies behind end %lld on axis %u of in %s; wanted start <= end",
                          (long long)start, (long long)end, axis, in->described);
  *count = (end - start) / step + ((end - start) % step != 0);
  return ord_infer_set_int(infer, "start", start) && ord_infer_set_int(infer, "end", end);
}

/* `size` stays as it is if the whole axis is taken. */
static bool slice_run_time(ord_infer *infer, const ord_infer_operand *in, uint32_t axis, int64_t step, ord_size *size) {
  const ord_attr *given_start = ord_infer_attr(infer, "start"), *given_end = ord_infer_attr(infer, "end");
  const int64_t start = given_start ? given_start->value.i : 0, end = given_end ? given_end->value.i : 0;
  if (start == 0 && !given_end && step == 1) return true;
  if (start >= 0 || end < start || end > 0 || (given_end && end == 0))
    return ord_infer_fail(
        infer,
        given_start ? "start"
        : given_end ? "end"
                    : "step",
        0, "axis %u of in %s is %s; wanted the whole axis, or start and end counted from its end (-1, ..)", axis,
        in->described, ord_infer_size_text(infer, in->dim[axis]));
  return ord_infer_size(infer, ord_size_constant(infer->arena, (end - start + step - 1) / step, size));
}

static bool slice_infer(ord_infer *infer) {
  const ord_infer_operand *in = ord_infer_slot(infer, "in");
  uint32_t axis;
  if (!ord_infer_axis(infer, "axis", in->rank, &axis)) return false;
  const int64_t step = ord_infer_attr(infer, "step")->value.i;
  if (step < 1) return ord_infer_fail(infer, "step", 0, "step %lld is too small; wanted at least 1", (long long)step);
  ord_size dim[ORD_RANK_MAX] = {{0}};
  for (uint32_t other = 0; other < in->rank; other++) dim[other] = in->dim[other];
  int64_t size, count = 0;
  if (!ord_size_is_constant(in->dim[axis], &size)) {
    if (!slice_run_time(infer, in, axis, step, &dim[axis])) return false;
  } else if (!slice_fixed(infer, in, axis, size, step, &count) ||
             !ord_infer_size(infer, ord_size_constant(infer->arena, count, &dim[axis])))
    return false;
  ord_infer_set_result(infer, 0, in->dtype, in->rank, dim);
  return true;
}

static bool slice_view(ord_view_request *request) {
  const int64_t axis = ord_attr_find(request->attr, request->attr_count, "axis")->value.i;
  const ord_attr *start = ord_attr_find(request->attr, request->attr_count, "start");
  const int64_t step = ord_attr_find(request->attr, request->attr_count, "step")->value.i;
  if (start->value.i < 0) return false; /* where it begins depends on the run */
  for (uint32_t i = 0; i < request->out_rank; i++) request->out_stride[i] = request->in_stride[i];
  request->out_stride[axis] *= step;
  request->out_offset = start->value.i * request->in_stride[axis];
  return true;
}

static ord_status slice_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const ord_node *node = state;
  const ord_reference_tensor in = ord_reference_slot(node, exec, "in"); /* [..] */
  const ord_reference_tensor out = ord_reference_output(node, exec, 0); /* as in, shorter along axis */
  const int64_t axis = ord_reference_int(node, "axis", 0), step = ord_reference_int(node, "step", 1);
  int64_t start = ord_reference_int(node, "start", 0);
  if (start < 0) start += in.dim[axis];
  int64_t from[ORD_RANK_MAX] = {0}, to[ORD_RANK_MAX] = {0};
  for (int64_t i = 0; i < ord_reference_count(&out); i++) {
    ord_reference_index(&out, i, to);
    memcpy(from, to, sizeof from);
    from[axis] = start + to[axis] * step;
    if (from[axis] >= 0 && from[axis] < in.dim[axis])
      ord_reference_move(&in, from, &out, to);
    else
      ord_reference_write(&out, to, 0);
  }
  return ORD_OK;
}

static const ord_kernel slice_reference = {
    .struct_size = sizeof slice_reference,
    .priority = ORD_REFERENCE_PRIORITY,
    .name = "slice_reference",
    .op = "slice",
    .query = ord_reference_query,
    .prepare = ord_reference_prepare,
    .launch = slice_launch,
    .retire = ord_reference_retire,
};

static const ord_case slice_cases[] = {
    {"in[3,$]", "axis=1 end=1 $=1..130"},
    {"in[130]", "axis=0 start=3 end=127 step=5"},
    {"in[5,33]", "axis=-1 start=-20"},
    {"in[5,33]", "axis=0 start=1 end=-1"},
    {"in[2,3,4,5,6,7]", "axis=3 start=1 end=4 step=2"},
    {"in[4]", "axis=0 start=2 end=2"},
    {"in[4]", "axis=0 step=9"},
    {"in[0,3]", "axis=0"},
    {"in^[6,35]", "axis=1 start=3"},
    {"in+[6,35] out+", "axis=0 end=2"},
    {"in[6,35] out^", "axis=1 step=3"},
    {"in[2,3/8,4]", "axis=2 start=1"},
    {"in[2,3/8,4]", "axis=1 start=-1"},
    {"in[2,3/8,4]", "axis=1 start=-3 end=-1"},
    {"in[2,3/8,4]", "axis=1 start=-3 step=2"},
    {"in[2,1/8,4]", "axis=1 start=-2"},
    {"in[2,3/8,4]", "axis=1"},
    {"in:i32[6]", "axis=0 start=1"},
    {"in:f16[6,7]", "axis=0 start=1"},
    {"in:bf16[6,7]", "axis=0 start=1"},
    {"in:bool[6,7]", "axis=1 step=2"},
    {"in[6]=nan,inf,-inf,-0,1,3e38", "axis=0 end=5"},
    {NULL, NULL},
};

static const ord_slot slice_slot[] = {{"in", 0, 0, NULL}};

static const ord_attr_rule slice_attr[] = {
    {.name = "axis",
     .kind = ORD_RULE_INT,
     .required = true,
     .wanted = "the number of an axis, from 0, or -1 for the last"},
    {.name = "start",
     .kind = ORD_RULE_INT,
     .default_text = "0",
     .default_value = {.name = "start", .kind = ORD_ATTR_INT, .count = 1, .value.i = 0},
     .wanted = "a whole number"},
    {.name = "end", .kind = ORD_RULE_INT, .default_text = "size", .wanted = "a whole number"},
    {.name = "step",
     .kind = ORD_RULE_INT,
     .default_text = "1",
     .default_value = {.name = "step", .kind = ORD_ATTR_INT, .count = 1, .value.i = 1},
     .wanted = "a whole number of at least 1"},
};

const ord_op ord_op_slice = {
    .name = "slice",
    .version = 1,
    .slot = slice_slot,
    .slot_count = sizeof slice_slot / sizeof *slice_slot,
    .attr = slice_attr,
    .attr_count = sizeof slice_attr / sizeof *slice_attr,
    .result_min = 1,
    .result_max = 1,
    .about = "from start to before end; negative counts from the end",
    .infer = slice_infer,
    .view = slice_view,
    .reference = &slice_reference,
    .cases = slice_cases,
};
