/* SPDX-License-Identifier: MIT
 *
 * What matmul does to a row before it leaves it: bias, residual, gate and pointwise ops. Norms need the whole row,
 * which no chunk has, and are left to their own kernels.
 */
#include "matmul.h"

enum { ITEM_ADD, ITEM_MULTIPLY };

/* ITEM_ADD or ITEM_MULTIPLY; -1 for another op. */
static int find_binary(const char *op) {
  static const char *const names[] = {[ITEM_ADD] = "add", [ITEM_MULTIPLY] = "mul"};
  for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
    if (strcmp(names[i], op) == 0) return i;
  return -1;
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
    return operand->dtype < 32 && PLAIN_FLOATS & 1u << operand->dtype && operand->rank > 0 &&
           operand->dim[operand->rank - 1] == width;
  return operand->dtype == ORD_F32 && has_dense_rows(operand, width);
}

uint32_t epilogue_accept(const ord_node *node, ord_answer *answer) {
  const ord_operand *out = &node->operand[ord_node_output(node, 0)];
  const int64_t width = out->dim[out->rank - 1];
  for (uint32_t i = 0; i < node->epilogue_count; i++) {
    const ord_epilogue *item = &node->epilogue[i];
    const bool is_binary = find_binary(item->op) >= 0;
    if (!is_binary && !plain_pointwise_find(item->op)) return i;
    if (is_binary && !accepts_operand(node, item->operand[0], width)) return i;
    if (item->output != ORD_NONE && !accepts_operand(node, item->output, width)) return i;
    if (is_binary) plain_want_dense(node, item->operand[0], answer);
  }
  return node->epilogue_count;
}

void epilogue_resolve(const ord_node *node, uint32_t count, epilogue_item *item) {
  for (uint32_t i = 0; i < count; i++) {
    const ord_epilogue *from = &node->epilogue[i];
    item[i] = (epilogue_item){.pointwise = plain_pointwise_find(from->op),
                              .multiplies = find_binary(from->op) == ITEM_MULTIPLY,
                              .operand = from->operand[0],
                              .output = from->output};
  }
}

/* Row offsets of an operand of the result's shape, or of one that is broadcast to it. */
static plain_view row_view(plain_view view, const plain_view *out) {
  plain_view rows = plain_view_leading(plain_view_broadcast(view, out), out->rank - 1);
  plain_view_merge(&rows, 1);
  return rows;
}

epilogue_step epilogue_begin(const plain_state *state, const ord_exec *exec, epilogue_item item,
                             const plain_view *out) {
  epilogue_step step = {.item = item};
  if (!item.pointwise) step.operand = row_view(plain_view_of(state, exec, item.operand), out);
  if (item.output != ORD_NONE) step.output = row_view(plain_view_of(state, exec, item.output), out);
  return step;
}

static void add_row(float *restrict value, const float *restrict operand, int64_t count) {
  for (int64_t i = 0; i < count; i++) value[i] += operand[i];
}

static void multiply_row(float *restrict value, const float *restrict operand, int64_t count) {
  for (int64_t i = 0; i < count; i++) value[i] *= operand[i];
}

void epilogue_apply(const epilogue_step *step, int64_t row, plain_range range, float *value) {
  const int64_t count = range.end - range.first;
  if (step->item.pointwise) {
    step->item.pointwise(value, count);
  } else {
    const float *operand = (const float *)(step->operand.data + plain_view_offset(&step->operand, row)) + range.first;
    (step->item.multiplies ? multiply_row : add_row)(value, operand, count);
  }
  if (step->item.output == ORD_NONE) return;
  float *output = (float *)(step->output.data + plain_view_offset(&step->output, row)) + range.first;
  memcpy(output, value, (size_t)count * sizeof *value);
}
