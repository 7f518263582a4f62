/* SPDX-License-Identifier: MIT
 *
 * What shape rules check again and again: number types, ranks, matrices and pairs of axes. Each function tells its
 * fault through ord_infer_fail and returns false; an operand that is NULL (an optional slot that was not given) passes.
 */
#ifndef ORDITO_OPS_OP_CHECK_H
#define ORDITO_OPS_OP_CHECK_H

#include "ops/op.h"

/* One axis of an operand, with its name in messages: "heads"; NULL: the last axis, "ends in 384". */
typedef struct ord_axis {
  const ord_infer_operand *operand;
  uint32_t axis;
  const char *name;
} ord_axis;

/* The last axis of an operand that is not NULL, named by "ends in". */
ord_axis ord_axis_last(const ord_infer_operand *operand);

/* Texts for messages, in the arena. The operand: "in 'h' [1, seq, 384] (line 29)"; a size: "384*seq". */
const char *ord_infer_operand_text(ord_infer *infer, const ord_infer_operand *operand);
const char *ord_infer_size_text(ord_infer *infer, ord_size size);

/* f32, f16 or bf16; a weight has whatever its file holds. */
bool ord_infer_check_float(ord_infer *infer, const ord_infer_operand *operand);
bool ord_infer_check_dtype(ord_infer *infer, const ord_infer_operand *operand, ord_dtype wanted);
/* `shape` tells the axes: "[batch, heads, tokens, width]". */
bool ord_infer_check_rank(ord_infer *infer, const ord_infer_operand *operand, uint32_t rank, const char *shape);
bool ord_infer_check_rank_min(ord_infer *infer, const ord_infer_operand *operand, uint32_t rank, const char *shape);
/* A weight with named axes, so that its dims are [out, in]. */
bool ord_infer_check_matrix(ord_infer *infer, const ord_infer_operand *operand);
/* The message points at b: the operand that is more likely wrong. */
bool ord_infer_check_equal(ord_infer *infer, ord_axis a, ord_axis b);
/* The axis has the same size in every run; *out receives it. */
bool ord_infer_check_fixed(ord_infer *infer, ord_axis axis, int64_t *out);
/* A bias [out] for this axis. */
bool ord_infer_check_bias(ord_infer *infer, const ord_infer_operand *bias, ord_axis out);
/* Exactly one of the two slots is given. */
bool ord_infer_check_either(ord_infer *infer, const char *slot_a, const char *slot_b);

/* Fills result `which`, if it is asked for. */
void ord_infer_set_result(ord_infer *infer, uint32_t which, ord_dtype dtype, uint32_t rank, const ord_size *dim);

#endif
