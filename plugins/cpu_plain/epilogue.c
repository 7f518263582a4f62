/* SPDX-License-Identifier: MIT
 *
 * Bias, residual, gate and pointwise ops on tiles of a matmul's result.
 */
#include "epilogue.h"

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
    bool multiplies = false;
    (void)epilogue_is_binary(from->op, &multiplies);
    out->item[out->count++] = (epilogue_item){.pointwise = plain_pointwise_find(from->op),
                                              .multiplies = multiplies,
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
