/* SPDX-License-Identifier: MIT
 *
 * Shape rules and conformance cases of the ops that work number by number.
 */
#include "ops/op_pointwise.h"

#include "ops/op_check.h"

const ord_slot ord_pointwise_slot[1] = {{"in", 0, 0, NULL}};

bool ord_pointwise_infer(ord_infer *infer) {
  const ord_infer_operand *in = ord_infer_slot(infer, "in");
  if (!ord_infer_check_float(infer, in)) return false;
  ord_infer_set_result(infer, 0, in->dtype, in->rank, in->dim);
  return true;
}

/* Minus infinity is left out: x * f(x) with f(x) towards 0 gives NaN or 0 there, as the formula is written. */
const ord_case ord_pointwise_cases[] = {
    {"in[$]", "$=1..130"},
    {"in[]", ""},
    {"in[3,130]", ""},
    {"in[2,3,4,5,6,7]", ""},
    {"in[3,0,5]", ""},
    {"in^[5,33]", ""},
    {"in+[5,33] out+", ""},
    {"in[4,33] out^", ""},
    {"in[2,3/8,16]", ""},
    {"in+[2,0/8,16]", ""},
    {"in:f16[3,37]", ""},
    {"in:bf16[3,37]", ""},
    {"in[8]=0,-0,1,-1,30,-30,inf,nan", ""},
    {"in[2]=1e30,-1e30", ""},
    {NULL, NULL},
};

const ord_slot ord_binary_slot[1] = {{"in", ORD_SLOT_LIST | ORD_SLOT_NUMBER, 2, "[a, b], one may be a number"}};

static bool broadcast_axis(ord_size a, ord_size b, ord_size *out) {
  int64_t value;
  *out = ord_size_is_constant(a, &value) && value == 1 ? b : a;
  return ord_size_equal(*out, b) || (ord_size_is_constant(b, &value) && value == 1);
}

/* Trailing axes align; an axis that one operand lacks counts as 1. */
static bool infer_broadcast(ord_infer *infer, const ord_infer_operand *a, const ord_infer_operand *b) {
  const ord_infer_operand *longer = a->rank >= b->rank ? a : b, *shorter = longer == a ? b : a;
  const uint32_t lacking = longer->rank - shorter->rank;
  ord_size dim[ORD_RANK_MAX] = {{0}};
  for (uint32_t axis = 0; axis < longer->rank; axis++) {
    dim[axis] = longer->dim[axis];
    if (axis < lacking || broadcast_axis(longer->dim[axis], shorter->dim[axis - lacking], &dim[axis])) continue;
    return ord_infer_fail(infer, "in", 1, "in %s and in %s do not broadcast: axis %d is %s and %s; wanted equal, or 1",
                          a->described, b->described, (int)axis - (int)longer->rank,
                          ord_infer_size_text(infer, a->dim[axis + a->rank - longer->rank]),
                          ord_infer_size_text(infer, b->dim[axis + b->rank - longer->rank]));
  }
  ord_infer_set_result(infer, 0, a->dtype, longer->rank, dim);
  return true;
}

static bool check_numbers(ord_infer *infer, const ord_infer_operand *operand) {
  if (operand->dtype != ORD_BOOL || operand->is_weight) return true;
  return ord_infer_fail(infer, "in", ord_infer_entry(infer, operand), "in %s is bool; wanted numbers",
                        operand->described);
}

bool ord_binary_infer(ord_infer *infer) {
  if (infer->operand_count != 2)
    return ord_infer_fail(infer, "in", 0, "in has %u entries; wanted 2", infer->operand_count);
  const ord_infer_operand *a = &infer->operand[0], *b = &infer->operand[1];
  if (a->is_absent && b->is_absent)
    return ord_infer_fail(infer, "in", 0, "in holds two numbers; wanted at least one value");
  const ord_infer_operand *only = a->is_absent ? b : b->is_absent ? a : NULL;
  if (only) {
    if (!check_numbers(infer, only)) return false;
    ord_infer_set_result(infer, 0, only->dtype, only->rank, only->dim);
    return true;
  }
  if (!check_numbers(infer, a) || !check_numbers(infer, b)) return false;
  if (a->dtype != b->dtype)
    return ord_infer_fail(infer, "in", 1, "in %s is %s, in %s is %s; wanted the same", a->described,
                          ord_dtype_name(a->dtype), b->described, ord_dtype_name(b->dtype));
  return infer_broadcast(infer, a, b);
}

const ord_case ord_binary_cases[] = {
    {"in[$] in[$]", "$=1..130"},
    {"in[] in[]", ""},
    {"in[3,130] in[3,130]", ""},
    {"in[3,130] in=2.5", ""},
    {"in=-0.5 in[3,130]", ""},
    {"in[5,33] in[33]", ""},
    {"in[33] in[5,33]", ""},
    {"in[5,1] in[1,33]", ""},
    {"in[2,1,4,1,6,7] in[3,1,5,1,1]", ""},
    {"in[2,3] in[]", ""},
    {"in[3,0,5] in[3,1,5]", ""},
    {"in^[5,33] in[5,33]", ""},
    {"in+[5,33] in^[5,33] out+", ""},
    {"in[4,33] in+[33] out^", ""},
    {"in[5,33] in*[33]", ""},
    {"in[2,3/8,16] in[2,3/8,16]", ""},
    {"in[2,3/8,16] in[16]", ""},
    {"in[3/8,16] in[2,3/8,1]", ""},
    {"in[2,0/8,16] in[2,0/8,16]", ""},
    {"in:i32[7] in:i32[7]", ""},
    {"in:f16[3,37] in:f16[37]", ""},
    {"in:bf16[3,37] in:bf16[37]", ""},
    {"in[5]=1,1e30,inf,inf,nan in[5]=nan,1e30,2,-inf,2", ""},
    {NULL, NULL},
};
