/* SPDX-License-Identifier: MIT
 *
 * gather. Takes slices of a value along an axis, in the order of an index. An index counts from 0, or from the end as
 * -1; one that lies outside gives zeros (indices from the caller are checked before a run).
 */
#include "ops/op_check.h"
#include "ops/reference.h"

static bool gather_infer(ord_infer *infer) {
  const ord_infer_operand *in = ord_infer_slot(infer, "in"), *index = ord_infer_slot(infer, "index");
  uint32_t axis;
  if (!ord_infer_check_dtype(infer, index, ORD_I32) || !ord_infer_axis(infer, "axis", in->rank, &axis)) return false;
  const uint32_t rank = in->rank - 1 + index->rank;
  if (rank > ORD_RANK_MAX)
    return ord_infer_fail(infer, "index", 0, "in %s and index %s make %u axes; wanted at most %d", in->described,
                          index->described, rank, ORD_RANK_MAX);
  ord_size dim[ORD_RANK_MAX] = {{0}};
  for (uint32_t i = 0; i < rank; i++)
    dim[i] = i < axis ? in->dim[i] : i < axis + index->rank ? index->dim[i - axis] : in->dim[i - index->rank + 1];
  ord_infer_set_result(infer, 0, in->dtype, rank, dim);
  return true;
}

static ord_status gather_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const ord_node *node = state;
  const ord_reference_tensor in = ord_reference_slot(node, exec, "in");       /* [before.., axis, behind..] */
  const ord_reference_tensor index = ord_reference_slot(node, exec, "index"); /* [..] */
  const ord_reference_tensor out = ord_reference_output(node, exec, 0);       /* [before.., index.., behind..] */
  const uint32_t axis = (uint32_t)ord_reference_int(node, "axis", 0);
  int64_t from[ORD_RANK_MAX] = {0}, to[ORD_RANK_MAX] = {0};
  for (int64_t i = 0; i < ord_reference_count(&out); i++) {
    ord_reference_index(&out, i, to);
    for (uint32_t other = 0; other < axis; other++) from[other] = to[other];
    for (uint32_t other = axis + 1; other < in.rank; other++) from[other] = to[other + index.rank - 1];
    const int64_t place = (int64_t)ord_reference_read(&index, to + axis);
    from[axis] = place < 0 ? place + in.dim[axis] : place;
    if (from[axis] >= 0 && from[axis] < in.dim[axis])
      ord_reference_move(&in, from, &out, to);
    else
      ord_reference_write(&out, to, 0);
  }
  return ORD_OK;
}

static const ord_kernel gather_reference = {
    .struct_size = sizeof gather_reference,
    .priority = ORD_REFERENCE_PRIORITY,
    .name = "gather_reference",
    .op = "gather",
    .query = ord_reference_query,
    .prepare = ord_reference_prepare,
    .launch = gather_launch,
    .retire = ord_reference_retire,
};

static const ord_case gather_cases[] = {
    {"in[$,5] index:i32[3]<$", "axis=0 $=1..130"},
    {"in[3,7,4] index:i32[5]<7", "axis=1"},
    {"in[3,7] index:i32[]<7", "axis=-1"},
    {"in[7] index:i32[]<7", "axis=0"},
    {"in[3,7,2,2] index:i32[2,3,2]<7", "axis=1"},
    {"in[7,3] index:i32[0]", "axis=0"},
    {"in[7,0] index:i32[3]<7", "axis=0"},
    {"in[7,5] index:i32[8]=0,6,7,-1,-7,-8,2147483647,-2147483648", "axis=0"},
    {"in^[7,33] index+:i32[5]<7", "axis=0"},
    {"in+[7,33] index:i32[2,2]<33 out+", "axis=1"},
    {"in[7,33] index^:i32[2,4]<7 out^", "axis=0"},
    {"in[2,3/8,4] index:i32[2]=2,-1", "axis=1"},
    {"in[2,7,4] index:i32[3/8]<7", "axis=1"},
    {"in[2,3/8,4] index:i32[2]=3,-4", "axis=1"},
    {"in:i32[6] index:i32[3]<6", "axis=0"},
    {"in:f16[6,7] index:i32[3]<6", "axis=0"},
    {"in*:bf16[6,7] index:i32[3]<6", "axis=0"},
    {"in:bool[6,7] index:i32[3]<7", "axis=1"},
    {"in[4]=nan,inf,-inf,3e38 index:i32[4]=3,2,1,0", "axis=0"},
    {NULL, NULL},
};

static const ord_slot gather_slot[] = {{"in", ORD_SLOT_TABLE, 0, NULL}, {"index", ORD_SLOT_INDEX, 0, "i32 [..]"}};

static const ord_attr_rule gather_attr[] = {
    {.name = "axis",
     .kind = ORD_RULE_INT,
     .required = true,
     .wanted = "the number of an axis, from 0, or -1 for the last"},
};

const ord_op ord_op_gather = {
    .name = "gather",
    .version = 1,
    .slot = gather_slot,
    .slot_count = sizeof gather_slot / sizeof *gather_slot,
    .attr = gather_attr,
    .attr_count = sizeof gather_attr / sizeof *gather_attr,
    .result_min = 1,
    .result_max = 1,
    .about = "the axis replaced by index's axes",
    .infer = gather_infer,
    .reference = &gather_reference,
    .cases = gather_cases,
};
