/* SPDX-License-Identifier: MIT
 *
 * transpose. The axes in another order: axis i of the result is axis axes[i] of the input.
 */
#include "ops/op_check.h"
#include "ops/reference.h"

static bool transpose_infer(ord_infer *infer) {
  const ord_infer_operand *in = ord_infer_slot(infer, "in");
  const ord_attr *axes = ord_infer_attr(infer, "axes");
  if (axes->count != in->rank)
    return ord_infer_fail(infer, "axes", 0, "axes names %u, in %s has %u; wanted each axis once", axes->count,
                          in->described, in->rank);
  ord_size dim[ORD_RANK_MAX] = {{0}};
  int64_t order[ORD_RANK_MAX] = {0};
  bool is_taken[ORD_RANK_MAX] = {false};
  for (uint32_t i = 0; i < in->rank; i++) {
    const int64_t given = axes->value.ints[i];
    order[i] = given < 0 ? given + in->rank : given;
    if (order[i] < 0 || order[i] >= in->rank)
      return ord_infer_fail(infer, "axes", i, "axis %lld lies outside in %s; wanted %d to %d", (long long)given,
                            in->described, -(int)in->rank, (int)in->rank - 1);
    if (is_taken[order[i]])
      return ord_infer_fail(infer, "axes", i, "axis %lld of in %s is listed twice; wanted each axis once",
                            (long long)given, in->described);
    is_taken[order[i]] = true;
    dim[i] = in->dim[order[i]];
  }
  if (!ord_infer_set_ints(infer, "axes", order, in->rank)) return false;
  ord_infer_set_result(infer, 0, in->dtype, in->rank, dim);
  return true;
}

static bool transpose_view(ord_view_request *request) {
  const ord_attr *axes = ord_attr_find(request->attr, request->attr_count, "axes");
  for (uint32_t i = 0; i < request->out_rank; i++) request->out_stride[i] = request->in_stride[axes->value.ints[i]];
  request->out_offset = 0;
  return true;
}

static ord_status transpose_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const ord_node *node = state;
  const ord_reference_tensor in = ord_reference_slot(node, exec, "in"); /* [..] */
  const ord_reference_tensor out = ord_reference_output(node, exec, 0); /* axes reordered */
  const int64_t *axes = ord_node_attr(node, "axes")->value.ints;
  int64_t from[ORD_RANK_MAX] = {0}, to[ORD_RANK_MAX] = {0};
  for (int64_t i = 0; i < ord_reference_count(&out); i++) {
    ord_reference_index(&out, i, to);
    for (uint32_t axis = 0; axis < out.rank; axis++) from[axes[axis]] = to[axis];
    ord_reference_move(&in, from, &out, to);
  }
  return ORD_OK;
}

static const ord_kernel transpose_reference = {
    .struct_size = sizeof transpose_reference,
    .priority = ORD_REFERENCE_PRIORITY,
    .name = "transpose_reference",
    .op = "transpose",
    .query = ord_reference_query,
    .prepare = ord_reference_prepare,
    .launch = transpose_launch,
    .retire = ord_reference_retire,
};

static const ord_case transpose_cases[] = {
    {"in[$,7]", "axes=1,0 $=1..130"},
    {"in[2,5,3,33]", "axes=0,2,1,3"},
    {"in[2,3,4,5,6,7]", "axes=5,4,3,2,1,0"},
    {"in[2,3,4,5,6,7]", "axes=3,0,-1,1,2,4"},
    {"in[4]", "axes=0"},
    {"in[3,0,4]", "axes=2,1,0"},
    {"in^[6,35]", "axes=1,0"},
    {"in+[6,35] out+", "axes=1,0"},
    {"in[6,35] out^", "axes=1,0"},
    {"in[2,3/8,4,5]", "axes=0,2,1,3"},
    {"in+[2,0/8,4]", "axes=1,0,2"},
    {"in:i32[6,7]", "axes=1,0"},
    {"in:f16[6,7]", "axes=1,0"},
    {"in:bool[6,7]", "axes=1,0"},
    {"in[2,3]=nan,inf,-inf,-0,1,3e38", "axes=1,0"},
    {NULL, NULL},
};

static const ord_slot transpose_slot[] = {{"in", 0, 0, NULL}};

static const ord_attr_rule transpose_attr[] = {
    {.name = "axes", .kind = ORD_RULE_INTS, .required = true, .wanted = "a list with each axis once"},
};

const ord_op ord_op_transpose = {
    .name = "transpose",
    .version = 1,
    .slot = transpose_slot,
    .slot_count = sizeof transpose_slot / sizeof *transpose_slot,
    .attr = transpose_attr,
    .attr_count = sizeof transpose_attr / sizeof *transpose_attr,
    .result_min = 1,
    .result_max = 1,
    .about = "axes reordered",
    .infer = transpose_infer,
    .view = transpose_view,
    .reference = &transpose_reference,
    .cases = transpose_cases,
};
