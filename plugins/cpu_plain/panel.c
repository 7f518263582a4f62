/* SPDX-License-Identifier: MIT
 *
 * The inner loops of matmul. One accumulator per element of the result and k ascending, whatever the number of rows:
 * a row gives the same bits alone and in a batch. Sums of four columns are one vector of the compiler's, since gcc
 * turns plain arrays into shuffles here; three rows of 16 columns fill twelve of the sixteen SSE registers.
 */
#include "matmul.h"

typedef float quad __attribute__((vector_size(16), may_alias));
enum { QUADS = PANEL_WIDTH / 4, BLOCK = 64 };

static void multiply_1(const quad *restrict panel, int64_t depth, const float *restrict x, quad *restrict sum) {
  quad total[QUADS] = {{0}};
  for (int64_t k = 0; k < depth; k++, panel += QUADS)
    for (int q = 0; q < QUADS; q++) total[q] += x[k] * panel[q];
  for (int q = 0; q < QUADS; q++) sum[q] = total[q];
}

static void multiply_3(const quad *restrict panel, int64_t depth, const float *const *x, quad *restrict sum) {
  const float *restrict x0 = x[0], *restrict x1 = x[1], *restrict x2 = x[2];
  quad total[PANEL_ROWS][QUADS] = {{{0}}};
  for (int64_t k = 0; k < depth; k++, panel += QUADS)
    for (int q = 0; q < QUADS; q++) {
      total[0][q] += x0[k] * panel[q];
      total[1][q] += x1[k] * panel[q];
      total[2][q] += x2[k] * panel[q];
    }
  for (int row = 0; row < PANEL_ROWS; row++)
    for (int q = 0; q < QUADS; q++) sum[row * QUADS + q] = total[row][q];
}

void panel_multiply(const float *panel, int64_t depth, const float *const *x, int rows, float sum[][PANEL_WIDTH]) {
  if (rows == PANEL_ROWS)
    multiply_3((const quad *)panel, depth, x, (quad *)sum);
  else
    multiply_1((const quad *)panel, depth, x[0], (quad *)sum);
}

/* By blocks of 64 k: columns are read along k, the panel is written along its columns. */
void panel_fill(const panel_source *source, int64_t depth, float *panel) {
  float block[PANEL_WIDTH][BLOCK];
  for (int64_t begin = 0; begin < depth; begin += BLOCK) {
    const int64_t length = depth - begin < BLOCK ? depth - begin : BLOCK;
    for (int c = 0; c < PANEL_WIDTH; c++) {
      if (source->column[c])
        source->read(block[c], source->column[c] + begin * source->depth_stride, source->depth_stride, length);
      else
        memset(block[c], 0, sizeof block[c]);
    }
    for (int64_t k = 0; k < length; k++)
      for (int c = 0; c < PANEL_WIDTH; c++) panel[(begin + k) * PANEL_WIDTH + c] = block[c][k];
  }
}
