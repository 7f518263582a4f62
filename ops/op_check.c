/* SPDX-License-Identifier: MIT
 *
 * The checks of op_check.h, each with its message. Texts live in the arena of the graph that is built.
 */
#include "ops/op_check.h"

#include <string.h>

/* A fault whose text finds no memory is told as out of memory. */
static const char *or_unknown(ord_infer *infer, const char *text) {
  infer->out_of_memory |= !text;
  return text ? text : "?";
}

static const char *slot_name(const ord_infer *infer, const ord_infer_operand *operand) {
  return infer->op->slot[operand->slot].name;
}

ord_axis ord_axis_last(const ord_infer_operand *operand) { return (ord_axis){operand, operand->rank - 1, NULL}; }

const char *ord_infer_operand_text(ord_infer *infer, const ord_infer_operand *operand) {
  const char *slot = slot_name(infer, operand);
  if (operand->is_weight && strcmp(slot, "weight") == 0) return operand->described; /* "weight 'w' [..]" */
  return or_unknown(infer, ord_arena_format(infer->arena, "%s %s", slot, operand->described));
}

const char *ord_infer_size_text(ord_infer *infer, ord_size size) {
  ord_text text = {0};
  ord_size_print(&text, size, infer->run_dim_name);
  const char *made = text.failed ? NULL : ord_arena_text(infer->arena, text.bytes);
  ord_text_finish(&text);
  return or_unknown(infer, made);
}

static bool fail(ord_infer *infer, const ord_infer_operand *operand, const char *found, const char *wanted) {
  return ord_infer_fail(infer, slot_name(infer, operand), ord_infer_entry(infer, operand), "%s %s; wanted %s",
                        ord_infer_operand_text(infer, operand), found, wanted);
}

static bool fail_dtype(ord_infer *infer, const ord_infer_operand *operand, const char *wanted) {
  const char *found = ord_arena_format(infer->arena, "is %s", ord_dtype_name(operand->dtype));
  return fail(infer, operand, or_unknown(infer, found), wanted);
}

bool ord_infer_check_float(ord_infer *infer, const ord_infer_operand *operand) {
  if (!operand || operand->is_weight) return true;
  if (operand->dtype == ORD_F32 || operand->dtype == ORD_F16 || operand->dtype == ORD_BF16) return true;
  return fail_dtype(infer, operand, "f32, f16 or bf16");
}

bool ord_infer_check_dtype(ord_infer *infer, const ord_infer_operand *operand, ord_dtype wanted) {
  return !operand || operand->dtype == wanted || fail_dtype(infer, operand, ord_dtype_name(wanted));
}

static bool fail_rank(ord_infer *infer, const ord_infer_operand *operand, const char *shape) {
  const char *found =
      ord_arena_format(infer->arena, "has %u %s", (unsigned)operand->rank, operand->rank == 1 ? "axis" : "axes");
  return fail(infer, operand, or_unknown(infer, found), shape);
}

bool ord_infer_check_rank(ord_infer *infer, const ord_infer_operand *operand, uint32_t rank, const char *shape) {
  return !operand || operand->rank == rank || fail_rank(infer, operand, shape);
}

bool ord_infer_check_rank_min(ord_infer *infer, const ord_infer_operand *operand, uint32_t rank, const char *shape) {
  return !operand || operand->rank >= rank || fail_rank(infer, operand, shape);
}

bool ord_infer_check_matrix(ord_infer *infer, const ord_infer_operand *operand) {
  if (!operand || (operand->is_weight && operand->rank == 2)) return true;
  return fail(infer, operand, operand->is_weight ? "is no matrix" : "is a value", "a weight with the axes out and in");
}

/* "in 'h' [1, seq, 384] (line 29) ends in 384", "weight 'w' [out 384, in 768] (line 17) has in = 768" */
static const char *axis_text(ord_infer *infer, ord_axis axis) {
  const char *operand = ord_infer_operand_text(infer, axis.operand);
  const char *size = ord_infer_size_text(infer, axis.operand->dim[axis.axis]);
  return or_unknown(infer, axis.name ? ord_arena_format(infer->arena, "%s has %s = %s", operand, axis.name, size)
                                     : ord_arena_format(infer->arena, "%s ends in %s", operand, size));
}

bool ord_infer_check_equal(ord_infer *infer, ord_axis a, ord_axis b) {
  if (!a.operand || !b.operand) return true;
  if (ord_size_equal(a.operand->dim[a.axis], b.operand->dim[b.axis])) return true;
  return ord_infer_fail(infer, slot_name(infer, b.operand), ord_infer_entry(infer, b.operand), "%s, %s; wanted equal",
                        axis_text(infer, a), axis_text(infer, b));
}

bool ord_infer_check_fixed(ord_infer *infer, ord_axis axis, int64_t *out) {
  if (ord_size_is_constant(axis.operand->dim[axis.axis], out)) return true;
  return ord_infer_fail(infer, slot_name(infer, axis.operand), ord_infer_entry(infer, axis.operand),
                        "%s; wanted a fixed size", axis_text(infer, axis));
}

bool ord_infer_check_bias(ord_infer *infer, const ord_infer_operand *bias, ord_axis out) {
  return ord_infer_check_float(infer, bias) && ord_infer_check_rank(infer, bias, 1, "[out]") &&
         (!bias || ord_infer_check_equal(infer, out, ord_axis_last(bias)));
}

bool ord_infer_check_either(ord_infer *infer, const char *slot_a, const char *slot_b) {
  const bool has_a = ord_infer_slot(infer, slot_a) != NULL, has_b = ord_infer_slot(infer, slot_b) != NULL;
  if (has_a != has_b) return true;
  return ord_infer_fail(infer, has_b ? slot_b : NULL, 0, "found %s; wanted either %s or %s", has_a ? "both" : "neither",
                        slot_a, slot_b);
}

void ord_infer_set_result(ord_infer *infer, uint32_t which, ord_dtype dtype, uint32_t rank, const ord_size *dim) {
  if (which >= infer->result_count) return;
  ord_infer_result *result = &infer->result[which];
  result->dtype = dtype;
  result->rank = rank;
  for (uint32_t axis = 0; axis < rank; axis++) result->dim[axis] = dim[axis];
}
