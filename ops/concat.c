/* SPDX-License-Identifier: MIT
 *
 * concat. Values one behind the other along an axis; the other axes are equal.
 */
#include <string.h>

#include "ops/op_check.h"
#include "ops/reference.h"

static bool concat_check(ord_infer *infer, const ord_infer_operand *first, const ord_infer_operand *next,
                         uint32_t axis) {
  const uint32_t entry = ord_infer_entry(infer, next);
  if (next->rank != first->rank)
    return ord_infer_fail(infer, "in", entry, "in %s and in %s differ in rank; wanted equal", next->described,
                          first->described);
  if (next->dtype != first->dtype)
    return ord_infer_fail(infer, "in", entry, "in %s is %s, in %s is %s; wanted the same", next->described,
                          ord_dtype_name(next->dtype), first->described, ord_dtype_name(first->dtype));
  for (uint32_t other = 0; other < first->rank; other++)
    if (other != axis && !ord_size_equal(first->dim[other], next->dim[other]))
      return ord_infer_fail(infer, "in", entry, "axis %u of in %s is %s, of in %s is %s; wanted equal but for axis %u",
                            other, next->described, ord_infer_size_text(infer, next->dim[other]), first->described,
                            ord_infer_size_text(infer, first->dim[other]), axis);
  return true;
}

static bool concat_infer(ord_infer *infer) {
  const ord_infer_operand *first = &infer->operand[0];
  uint32_t axis;
  if (!ord_infer_axis(infer, "axis", first->rank, &axis)) return false;
  ord_size dim[ORD_RANK_MAX] = {{0}};
  for (uint32_t other = 0; other < first->rank; other++) dim[other] = first->dim[other];
  for (uint32_t i = 1; i < infer->operand_count; i++) {
    const ord_infer_operand *next = &infer->operand[i];
    if (!concat_check(infer, first, next, axis)) return false;
    if (!ord_infer_size(infer, ord_size_sum(infer->arena, dim[axis], next->dim[axis], &dim[axis]))) return false;
  }
  ord_infer_set_result(infer, 0, first->dtype, first->rank, dim);
  return true;
}

static ord_status concat_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const ord_node *node = state;
  const ord_reference_tensor out = ord_reference_output(node, exec, 0); /* joined */
  const int64_t axis = ord_reference_int(node, "axis", 0);
  int64_t begin = 0, from[ORD_RANK_MAX] = {0}, to[ORD_RANK_MAX] = {0};
  for (uint32_t which = 0; which < ord_node_output(node, 0); which++) {
    const ord_reference_tensor in = ord_reference_operand(node, exec, which); /* [..] */
    for (int64_t i = 0; i < ord_reference_count(&in); i++) {
      ord_reference_index(&in, i, from);
      memcpy(to, from, sizeof to);
      to[axis] += begin;
      ord_reference_move(&in, from, &out, to);
    }
    begin += in.dim[axis];
  }
  return ORD_OK;
}

static const ord_kernel concat_reference = {
    .struct_size = sizeof concat_reference,
    .priority = ORD_REFERENCE_PRIORITY,
    .name = "concat_reference",
    .op = "concat",
    .query = ord_reference_query,
    .prepare = ord_reference_prepare,
    .launch = concat_launch,
    .retire = ord_reference_retire,
};

static const ord_case concat_cases[] = {
    {"in[3,$] in[3,5]", "axis=1 $=0..130"},
    {"in[7]", "axis=0"},
    {"in[7] in[1] in[4]", "axis=0"},
    {"in[2,3,4] in[2,5,4]", "axis=-2"},
    {"in[2,3,4,5,6,7] in[2,3,4,1,6,7]", "axis=3"},
    {"in[3,0] in[3,0]", "axis=1"},
    {"in[0,3] in[0,2]", "axis=1"},
    {"in^[6,35] in[6,5]", "axis=1"},
    {"in+[6,35] in^[2,35] out+", "axis=0"},
    {"in[6,35] in[6,2] out^", "axis=1"},
    {"in[2,3/8,4] in[2,3/8,5]", "axis=2"},
    {"in[2,3/8,4] in[2,2/4,4]", "axis=1"},
    {"in[2,0/8,4] in[2,2,4]", "axis=1"},
    {"in:i32[6] in:i32[2]", "axis=0"},
    {"in:f16[6,7] in:f16[6,2]", "axis=1"},
    {"in:bool[6,7] in:bool[1,7]", "axis=0"},
    {"in[3]=nan,inf,-inf in[2]=-0,3e38", "axis=0"},
    {NULL, NULL},
};

static const ord_slot concat_slot[] = {{"in", ORD_SLOT_LIST, 0, NULL}};

static const ord_attr_rule concat_attr[] = {
    {.name = "axis",
     .kind = ORD_RULE_INT,
     .required = true,
     .wanted = "the number of an axis, from 0, or -1 for the last"},
};

const ord_op ord_op_concat = {
    .name = "concat",
    .version = 1,
    .flags = ORD_OP_JOINS,
    .slot = concat_slot,
    .slot_count = sizeof concat_slot / sizeof *concat_slot,
    .attr = concat_attr,
    .attr_count = sizeof concat_attr / sizeof *concat_attr,
    .result_min = 1,
    .result_max = 1,
    .about = "joined",
    .infer = concat_infer,
    .reference = &concat_reference,
    .cases = concat_cases,
};
