/* SPDX-License-Identifier: MIT
 *
 * The parts of matmul: panels of 16 columns (panel.c), the epilogue (epilogue.c) and the kernel (matmul.c).
 */
#ifndef PLAIN_MATMUL_H
#define PLAIN_MATMUL_H

#include "plain.h"

/* ---- panels ---- */

/* A panel holds 16 output columns, k-major: panel[k][16], f32, zeros in the columns beyond the last. */
enum { PANEL_WIDTH = 16, PANEL_ROWS = 3 };

static inline int64_t panel_count(int64_t columns) { return (columns + PANEL_WIDTH - 1) / PANEL_WIDTH; }

/* sum[r][c] = x[r][0] * panel[0][c] + x[r][1] * panel[1][c] + .. in this order, for `rows` rows (1 or PANEL_ROWS).
 * `panel` and `sum` are 16-byte aligned. */
void panel_multiply(const float *panel, int64_t depth, const float *const *x, int rows, float sum[][PANEL_WIDTH]);

/* Lays out columns [column, column + width) of a matrix: element (column c, k) lies at data + c * column_stride +
 * k * depth_stride. `read` knows its type. */
typedef struct panel_source {
  const char *column[PANEL_WIDTH]; /* element k = 0 of each; NULL: zeros */
  int64_t depth_stride;
  plain_read_fn read;
} panel_source;
void panel_fill(const panel_source *source, int64_t depth, float *panel);

/* ---- epilogue ---- */

typedef struct epilogue_item {
  plain_pointwise_fn pointwise; /* NULL: add or multiply `operand` */
  bool multiplies;
  uint32_t operand, output;
} epilogue_item;

/* How many items from the first this plugin applies; asks for the packs that they need. */
uint32_t epilogue_accept(const ord_node *node, ord_answer *answer);
void epilogue_resolve(const ord_node *node, uint32_t count, epilogue_item *item);

/* One item with its operands as they are in a run. */
typedef struct epilogue_step {
  epilogue_item item;
  plain_view operand, output; /* the leading axes of the result; merged */
} epilogue_step;
epilogue_step epilogue_begin(const plain_state *state, const ord_exec *exec, epilogue_item item, const plain_view *out);
/* Applies the item to columns [range.first, range.end) of row `row`, which lie at `value`. */
void epilogue_apply(const epilogue_step *step, int64_t row, plain_range range, float *value);

#endif
