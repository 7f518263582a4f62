/* SPDX-License-Identifier: MIT
 *
 * Which items of an epilogue are applied: known ops, on operands that can be read row by row.
 */
#include "epilogue.h"

bool epilogue_is_binary(const char *op, bool *out_multiplies) {
  *out_multiplies = strcmp(op, "mul") == 0;
  return *out_multiplies || strcmp(op, "add") == 0;
}

static bool has_dense_rows(const ord_operand *operand, int64_t width) {
  const uint32_t last = operand->rank - 1;
  return operand->rank > 0 && operand->dim[last] == width &&
         (width == 1 || operand->stride[last] == (int64_t)sizeof(float));
}

/* A weight of any float type may be packed to dense f32; a value must have dense rows of f32. */
static bool accepts_operand(const ord_node *node, uint32_t which, int64_t width) {
  if (which == ORD_NONE) return false;
  const ord_operand *operand = &node->operand[which];
  if (operand->role == ORD_WEIGHT)
    return plain_is_one_of(operand->dtype, PLAIN_FLOATS) && operand->rank > 0 &&
           operand->dim[operand->rank - 1] == width;
  return operand->dtype == ORD_F32 && has_dense_rows(operand, width);
}

uint32_t epilogue_accept(const ord_node *node, ord_answer *answer) {
  const ord_operand *out = &node->operand[ord_node_output(node, 0)];
  const int64_t width = out->dim[out->rank - 1];
  uint32_t served = 0;
  for (; served < node->epilogue_count && served + 1 < EPILOGUE_MAX; served++) {
    const ord_epilogue *item = &node->epilogue[served];
    bool multiplies;
    const bool is_binary = epilogue_is_binary(item->op, &multiplies);
    if (!is_binary && !plain_pointwise_find(item->op)) break;
    if (is_binary && !accepts_operand(node, item->operand[0], width)) break;
    if (item->output != ORD_NONE && !accepts_operand(node, item->output, width)) break;
    if (is_binary) plain_want_dense(node, item->operand[0], answer);
  }
  return served;
}
