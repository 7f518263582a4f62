/* SPDX-License-Identifier: MIT
 *
 * Bias, residual, gate and pointwise ops on tiles of a matmul's result.
 */
#include "epilogue.h"

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
  uint32_t served = 0;
  for (; served < node->epilogue_count && served + 1 < EPILOGUE_MAX; served++) {
    const ord_epilogue *item = &node->epilogue[served];
    const bool is_binary = find_binary(item->op) >= 0;
    if (!is_binary && !plain_pointwise_find(item->op)) break;
    if (is_binary && !accepts_operand(node, item->operand[0], width)) break;
    if (item->output != ORD_NONE && !accepts_operand(node, item->output, width)) break;
    if (is_binary) plain_want_dense(node, item->operand[0], answer);
  }
  return served;
}

static epilogue_operand find_operand(const ord_node *node, const ord_answer *answer, uint32_t which) {
  epilogue_operand found = {which, -1};
  if (which == ORD_NONE) return found;
  const ord_operand *operand = &node->operand[which], *out = &node->operand[ord_node_output(node, 0)];
  const int64_t width = out->dim[out->rank - 1], count = plain_dense_count(operand);
  const bool is_row = plain_count(operand) == width && (count >= 0 || answer->pack[which].key);
  if (is_row) found.row_bytes = 0;
  if (!is_row && count >= 0 && count == plain_dense_count(out)) found.row_bytes = width * (int64_t)sizeof(float);
  return found;
}

void epilogue_resolve(const ord_node *node, const ord_answer *answer, epilogue_list *out) {
  const uint32_t bias = ord_node_find(node, "bias");
  *out = (epilogue_list){0};
  if (bias != ORD_NONE)
    out->item[out->count++] = (epilogue_item){.operand = find_operand(node, answer, bias), .output = {ORD_NONE, -1}};
  for (uint32_t i = 0; i < answer->epilogue_served; i++) {
    const ord_epilogue *from = &node->epilogue[i];
    out->item[out->count++] = (epilogue_item){.pointwise = plain_pointwise_find(from->op),
                                              .multiplies = find_binary(from->op) == ITEM_MULTIPLY,
                                              .operand = find_operand(node, answer, from->operand[0]),
                                              .output = find_operand(node, answer, from->output)};
  }
}

/* Offsets of the rows of an operand of the result's shape, or of one that is broadcast to it. */
static void begin_rows(const plain_state *state, const ord_exec *exec, epilogue_operand operand, plain_view *rows) {
  if (operand.row_bytes >= 0) {
    rows->data = exec->operand[operand.which];
    rows->rank = 1;
    rows->stride[0] = operand.row_bytes;
    return;
  }
  const plain_view out = plain_view_output(state, exec, 0), view = plain_view_of(state, exec, operand.which);
  *rows = plain_view_leading(plain_view_broadcast(view, &out), out.rank - 1);
  plain_view_merge(rows, 1);
}

void epilogue_begin(const epilogue_list *list, const plain_state *state, const ord_exec *exec, epilogue_run *run) {
  run->count = list->count;
  for (uint32_t i = 0; i < list->count; i++) {
    const epilogue_item *item = &list->item[i];
    epilogue_step *step = &run->step[i];
    step->pointwise = item->pointwise;
    step->multiplies = item->multiplies;
    if (!item->pointwise) begin_rows(state, exec, item->operand, &step->operand);
    step->output.data = NULL;
    if (item->output.which != ORD_NONE) begin_rows(state, exec, item->output, &step->output);
  }
}

/* ---- on a tile ---- */

enum { WIDTH = 32 }; /* of most tiles: a loop of known length has neither prologue nor tail */

static inline __attribute__((always_inline)) void combine(float *restrict value, const float *restrict operand,
                                                          int64_t count, bool multiplies) {
  for (int64_t i = 0; i < count; i++) value[i] = multiplies ? value[i] * operand[i] : value[i] + operand[i];
}

static inline __attribute__((always_inline)) void combine_rows(const plain_view *view, int64_t row, int64_t row_count,
                                                               plain_range column, float *value, int64_t stride,
                                                               bool multiplies) {
  for (int64_t r = 0; r < row_count; r++) {
    const float *operand = (const float *)(view->data + plain_view_offset(view, row + r)) + column.first;
    const int64_t count = column.end - column.first;
    if (count == WIDTH)
      combine(value + r * stride, operand, WIDTH, multiplies);
    else
      combine(value + r * stride, operand, count, multiplies);
  }
}

static void store_rows(const plain_view *view, int64_t row, int64_t row_count, plain_range column, const float *value,
                       int64_t stride) {
  for (int64_t r = 0; r < row_count; r++) {
    float *into = (float *)(view->data + plain_view_offset(view, row + r)) + column.first;
    const int64_t count = column.end - column.first;
    if (count == WIDTH)
      memcpy(into, value + r * stride, WIDTH * sizeof *value); /* of known length: no call */
    else
      memcpy(into, value + r * stride, (size_t)count * sizeof *value);
  }
}

static void apply_pointwise(plain_pointwise_fn pointwise, int64_t row_count, int64_t width, float *value,
                            int64_t stride) {
  if (stride == width) {
    pointwise(value, value, row_count * width);
  } else {
    for (int64_t r = 0; r < row_count; r++) pointwise(value + r * stride, value + r * stride, width);
  }
}

void epilogue_apply(const epilogue_run *run, int64_t row, int64_t row_count, plain_range column, float *value,
                    int64_t stride) {
  for (uint32_t i = 0; i < run->count; i++) {
    const epilogue_step *step = &run->step[i];
    if (step->pointwise)
      apply_pointwise(step->pointwise, row_count, column.end - column.first, value, stride);
    else if (step->multiplies)
      combine_rows(&step->operand, row, row_count, column, value, stride, true);
    else
      combine_rows(&step->operand, row, row_count, column, value, stride, false);
    if (step->output.data) store_rows(&step->output, row, row_count, column, value, stride);
  }
}
