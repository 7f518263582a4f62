/* SPDX-License-Identifier: MIT
 *
 * Activations to tiles of words, and the sums of a tile to numbers.
 */
#include "matmul_numbers.h"
#include "matmul_transpose.h"
#include "packed_matmul.h"

/* ---- activations ---- */

/* Four int8 as two words: k 0 and 2, k 1 and 3, 16 bits each. In place from the end: words get longer. */
static void widen(char *row, int64_t groups) {
  for (int64_t group = groups; group-- > 0;) {
    int8_t from[4];
    memcpy(from, row + group * 4, sizeof from);
    const int16_t into[4] = {from[0], from[2], from[1], from[3]};
    memcpy(row + group * 8, into, sizeof into);
  }
}

/* `depth` numbers as words, zeros behind them. */
static void make_words(const matmul_math *math, const float *from, int64_t depth, char *into, matmul_row *row) {
  const int64_t groups = matmul_groups(math, depth), words = matmul_words(math, depth);
  const int64_t lacking = (words - depth) * (int64_t)sizeof(float); /* of words that hold one number */
  switch (math->x) {
  case MATMUL_X_F32:
    memcpy(into, from, (size_t)depth * sizeof *from);
    memset(into + depth * (int64_t)sizeof *from, 0, (size_t)lacking);
    break;
  case MATMUL_X_F32_ROUNDED:
    numbers_round_to_bf16(from, depth, (float *)into);
    memset(into + depth * (int64_t)sizeof *from, 0, (size_t)lacking);
    break;
  case MATMUL_X_BF16:
    memset(into + (words - (words > 0)) * 4, 0, words > 0 ? 4 : 0);
    math->to_bf16(from, depth, (uint16_t *)into);
    break;
  case MATMUL_X_I8:
  case MATMUL_X_I16:
    row->scale = numbers_scale(numbers_largest(from, depth));
    row->offset = 128 * numbers_to_int8(from, depth, numbers_inverse(row->scale), 0, (int8_t *)into);
    memset(into + depth, 0, (size_t)(groups * 4 - depth));
    if (math->x == MATMUL_X_I16) widen(into, groups);
    break;
  }
}

void matmul_lay_out(const matmul_plan *plan, const char *const *from, int row_count, int64_t stride, int64_t depth,
                    uint32_t *into, matmul_row *row, void *worker) {
  const matmul_math *math = plan->math;
  const int64_t words = matmul_words(math, depth), step = row_count * (int64_t)sizeof *into;
  if (math->x == MATMUL_X_F32 && stride == (int64_t)sizeof(float)) { /* numbers are words as they are */
    matmul_transpose(from, row_count, depth, (char *)into, step);
    memset(into + depth * row_count, 0, (size_t)((words - depth) * step));
    return;
  }
  const char *made[MATMUL_TILE_ROWS_MAX];
  float *gathered = (float *)((char *)worker + words * 4 * plan->level->tile_rows);
  for (int r = 0; r < row_count; r++) {
    char *words_of_row = row_count == 1 ? (char *)into : (char *)worker + words * 4 * r;
    const float *number = (const float *)(const void *)from[r];
    if (stride != (int64_t)sizeof(float)) {
      plain_reader(ORD_F32)(gathered, from[r], stride, depth);
      number = gathered;
    }
    make_words(math, number, depth, words_of_row, row + r);
    made[r] = words_of_row;
  }
  if (row_count > 1) matmul_transpose(made, row_count, words, (char *)into, step);
}

/* ---- sums ---- */

static void scale_row(float *restrict value, const float *restrict scale, int64_t count) {
  if (count == MATMUL_BLOCK)
    for (int i = 0; i < MATMUL_BLOCK; i++) value[i] *= scale[i];
  else
    for (int64_t i = 0; i < count; i++) value[i] *= scale[i];
}

static void to_numbers(float *restrict value, const matmul_row *row, const float *restrict scale) {
  for (int i = 0; i < MATMUL_BLOCK; i++) {
    const int32_t sum = (int32_t)(to_bits(value[i]) - row->offset);
    value[i] = (float)sum * row->scale * scale[i];
  }
}

void matmul_finish(const matmul_plan *plan, const matmul_row *row, int row_count, const float *block_scale,
                   const float *scale, int64_t column_count, float *value) {
  for (int r = 0; r < row_count; r++, value += MATMUL_BLOCK) {
    if (plan->math->packed == ORD_I8) to_numbers(value, row + r, block_scale);
    if (scale) scale_row(value, scale, column_count);
  }
}
