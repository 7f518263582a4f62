/* SPDX-License-Identifier: MIT
 *
 * The parts of matmul: panels of 16 columns (panel.c), the kernel (matmul.c) and the epilogue (epilogue.h).
 */
#ifndef PLAIN_MATMUL_H
#define PLAIN_MATMUL_H

#include "epilogue.h"

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

#endif
