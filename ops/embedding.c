/* SPDX-License-Identifier: MIT
 *
 * embedding. The row of a table for each id; an id outside the rows gives zeros (ids from the caller are checked before
 * a run).
 */
#include "ops/op_check.h"
#include "ops/reference.h"

static bool embedding_infer(ord_infer *infer) {
  const ord_infer_operand *in = ord_infer_slot(infer, "in"), *weight = ord_infer_slot(infer, "weight");
  if (!ord_infer_check_dtype(infer, in, ORD_I32) || !ord_infer_check_float(infer, weight) ||
      !ord_infer_check_rank(infer, weight, 2, "[rows, width]"))
    return false;
  if (in->rank == ORD_RANK_MAX)
    return ord_infer_fail(infer, "in", 0, "in %s has %u axes and the result one more; wanted at most %d", in->described,
                          in->rank, ORD_RANK_MAX);
  ord_size dim[ORD_RANK_MAX] = {{0}};
  for (uint32_t axis = 0; axis < in->rank; axis++) dim[axis] = in->dim[axis];
  dim[in->rank] = weight->dim[1];
  ord_infer_set_result(infer, 0, ORD_F32, in->rank + 1, dim);
  return true;
}

static ord_status embedding_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const ord_node *node = state;
  const ord_reference_tensor in = ord_reference_slot(node, exec, "in");         /* [..] */
  const ord_reference_tensor weight = ord_reference_slot(node, exec, "weight"); /* [rows, d] */
  const ord_reference_tensor out = ord_reference_output(node, exec, 0);         /* [.., d] */
  int64_t index[ORD_RANK_MAX] = {0};
  for (int64_t i = 0; i < ord_reference_count(&out); i++) {
    ord_reference_index(&out, i, index);
    const int64_t row = (int64_t)ord_reference_read(&in, index);
    const bool is_inside = row >= 0 && row < weight.dim[0];
    ord_reference_write(&out, index,
                        is_inside ? ord_reference_read(&weight, (const int64_t[]){row, index[in.rank]}) : 0);
  }
  return ORD_OK;
}

static const ord_kernel embedding_reference = {
    .struct_size = sizeof embedding_reference,
    .priority = ORD_REFERENCE_PRIORITY,
    .name = "embedding_reference",
    .op = "embedding",
    .query = ord_reference_query,
    .prepare = ord_reference_prepare,
    .launch = embedding_launch,
    .retire = ord_reference_retire,
};

static const ord_case embedding_cases[] = {
    {"in:i32[2,5]<7 weight[7,$]", "$=1..130"},
    {"in:i32[]<7 weight[7,5]", ""},
    {"in:i32[2,3,1,4,2]<9 weight[9,5]", ""},
    {"in:i32[0]<7 weight[7,5]", ""},
    {"in:i32[5]=0,6,7,-1,2147483647 weight[7,33]", ""},
    {"in+:i32[2,5]<7 weight^[7,33]", ""},
    {"in^:i32[2,5]<7 weight+[7,33] out+", ""},
    {"in:i32[2,5]<7 weight[7,33] out^", ""},
    {"in:i32[2,3/8]<7 weight[7,16]", ""},
    {"in:i32[2,0/8]<7 weight[7,16]", ""},
    {"in:i32[11]<7 weight:f16[7,37]", ""},
    {"in:i32[11]<7 weight:bf16[7,37]", ""},
    {"in:i32[11]<7 weight:i8[7,37]", ""},
    {"in:i32[3]<2 weight[2,2]=nan,inf,-inf,3e38", ""},
    {NULL, NULL},
};

static const ord_slot embedding_slot[] = {{"in", ORD_SLOT_INDEX, 0, "i32 [..]"},
                                          {"weight", ORD_SLOT_TABLE, 0, "[rows, d]"}};

const ord_op ord_op_embedding = {
    .name = "embedding",
    .version = 1,
    .slot = embedding_slot,
    .slot_count = sizeof embedding_slot / sizeof *embedding_slot,
    .result_min = 1,
    .result_max = 1,
    .about = "[.., d]; an id outside the rows is an error before the run",
    .infer = embedding_infer,
    .reference = &embedding_reference,
    .cases = embedding_cases,
};
