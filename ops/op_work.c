/* SPDX-License-Identifier: MIT
 *
 * Useful operations of matrix products.
 */
#include "ops/op_work.h"

uint64_t ord_work_product(const ord_node *node, uint32_t weight, uint64_t rows) {
  if (weight == ORD_NONE) return 0;
  const ord_operand *operand = &node->operand[weight];
  return 2 * rows * (uint64_t)operand->dim[0] * (uint64_t)operand->dim[1];
}

uint64_t ord_work_rows(const ord_node *node, const ord_exec *exec) {
  const uint32_t out = ord_node_output(node, 0);
  uint64_t rows = 1;
  for (uint32_t axis = 0; axis + 1 < node->operand[out].rank; axis++)
    rows *= (uint64_t)ord_exec_dim(node, exec, out, axis);
  return rows;
}

void ord_work_weight(const ord_node *node, const ord_exec *exec, ord_work *out) {
  out->operations += ord_work_product(node, ord_node_find(node, "weight"), ord_work_rows(node, exec));
}
