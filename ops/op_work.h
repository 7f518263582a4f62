/* SPDX-License-Identifier: MIT
 *
 * Counting the useful operations of matrix products, for the ops that make them (the field `work` of ord_op).
 */
#ifndef ORDITO_OPS_OP_WORK_H
#define ORDITO_OPS_OP_WORK_H

#include "ops/op.h"

/* Operations of the product with weight operand number `weight`, [out, in], for each of `rows` rows; 0 if absent. */
uint64_t ord_work_product(const ord_node *node, uint32_t weight, uint64_t rows);

/* The product of all but the last axis of the result, in this run. */
uint64_t ord_work_rows(const ord_node *node, const ord_exec *exec);

/* The field `work` of an op that makes each row of its result with the weight in slot `weight`. */
void ord_work_weight(const ord_node *node, const ord_exec *exec, ord_work *out);

#endif
