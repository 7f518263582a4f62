/* SPDX-License-Identifier: MIT
 *
 * Symmetric int8 with one scale per row: number = scale * code, codes from -127 to 127. A tensor comes in pieces of any
 * size; `first` is the place of a piece's first number in it.
 */
#ifndef ORDITO_MODELS_INT8_H
#define ORDITO_MODELS_INT8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Number i of a tensor lies in row i / inner % count. */
typedef struct ord_weight_rows {
  uint64_t count, inner;
} ord_weight_rows;

/* Raises largest[row] to the magnitudes of a piece. False at a number that is not finite, *out_bad its place in it. */
bool ord_int8_note(const ord_weight_rows *rows, uint64_t first, const float *number, size_t count, float *largest,
                   size_t *out_bad);
/* Turns the largest magnitude of each row into its scale. A row of zeros, or of numbers so small that the scale would
 * be subnormal, gets scale 1 and with it codes 0. */
void ord_int8_scales(uint64_t count, float *largest);
/* Rounds to the nearest code, ties to even. */
void ord_int8_encode(const ord_weight_rows *rows, uint64_t first, const float *number, size_t count, const float *scale,
                     int8_t *out);
void ord_int8_decode(const ord_weight_rows *rows, uint64_t first, const int8_t *code, size_t count, const float *scale,
                     float *out);

#endif
