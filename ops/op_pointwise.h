/* SPDX-License-Identifier: MIT
 *
 * What the ops share that compute each number of the result from the numbers at the same place of their inputs: one
 * input (gelu_erf, relu, ..) or two that are broadcast (add, sub, mul). An op's file adds its formula.
 */
#ifndef ORDITO_OPS_OP_POINTWISE_H
#define ORDITO_OPS_OP_POINTWISE_H

#include "ops/op.h"
#include "ops/reference.h"

/* ---- one input ------------------------------------------------------------------------------------------------ */
extern const ord_slot ord_pointwise_slot[1];
extern const ord_case ord_pointwise_cases[];
bool ord_pointwise_infer(ord_infer *infer);

static inline ord_status ord_pointwise_launch(const ord_node *node, const ord_exec *exec, double (*apply)(double)) {
  const ord_reference_tensor in = ord_reference_slot(node, exec, "in"); /* [..] */
  const ord_reference_tensor out = ord_reference_output(node, exec, 0); /* as in */
  int64_t index[ORD_RANK_MAX] = {0};
  for (int64_t i = 0; i < ord_reference_count(&out); i++) {
    ord_reference_index(&out, i, index);
    ord_reference_write(&out, index, apply(ord_reference_read(&in, index)));
  }
  return ORD_OK;
}

/* ---- two inputs, one of which may be a number ------------------------------------------------------------------ */
extern const ord_slot ord_binary_slot[1];
extern const ord_case ord_binary_cases[];
bool ord_binary_infer(ord_infer *infer);

static inline double ord_binary_read(const ord_reference_tensor *in, const int64_t *index, uint32_t rank,
                                     double number) {
  if (!in->data) return number;
  int64_t at[ORD_RANK_MAX] = {0};
  ord_reference_broadcast(in, index, rank, at);
  return ord_reference_read(in, at);
}

static inline ord_status ord_binary_launch(const ord_node *node, const ord_exec *exec,
                                           double (*apply)(double, double)) {
  const ord_reference_tensor a = ord_reference_operand(node, exec, 0);  /* [..] */
  const ord_reference_tensor b = ord_reference_operand(node, exec, 1);  /* [..] */
  const ord_reference_tensor out = ord_reference_output(node, exec, 0); /* broadcast of both */
  const double number = ord_reference_float(node, "number", 0);         /* stands for the absent operand */
  int64_t index[ORD_RANK_MAX] = {0};
  for (int64_t i = 0; i < ord_reference_count(&out); i++) {
    ord_reference_index(&out, i, index);
    ord_reference_write(
        &out, index, apply(ord_binary_read(&a, index, out.rank, number), ord_binary_read(&b, index, out.rank, number)));
  }
  return ORD_OK;
}

#endif
