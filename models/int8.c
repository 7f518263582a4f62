/* SPDX-License-Identifier: MIT
 *
 * Floats to int8 codes with one scale per row, and back.
 */
#include "models/int8.h"

#include <float.h>
#include <math.h>

enum { CODE_MAX = 127 };

/* The numbers from place `at` on that lie in one row: which row, and how many of `left`. */
static size_t stretch(const ord_weight_rows *rows, uint64_t at, size_t left, uint64_t *out_row) {
  const uint64_t rest = rows->inner - at % rows->inner;
  *out_row = at / rows->inner % rows->count;
  return rest < left ? (size_t)rest : left;
}

bool ord_int8_note(const ord_weight_rows *rows, uint64_t first, const float *number, size_t count, float *largest,
                   size_t *out_bad) {
  for (size_t i = 0; i < count;) {
    uint64_t row;
    const size_t end = i + stretch(rows, first + i, count - i, &row);
    float most = largest[row];
    for (; i < end; i++) {
      if (!isfinite(number[i])) {
        *out_bad = i;
        return false;
      }
      most = fmaxf(most, fabsf(number[i]));
    }
    largest[row] = most;
  }
  return true;
}

void ord_int8_scales(uint64_t count, float *largest) {
  for (uint64_t row = 0; row < count; row++) {
    largest[row] /= CODE_MAX;
    if (largest[row] < FLT_MIN) largest[row] = 1;
  }
}

/* Within the range whatever the scale. */
static int8_t encode(float number, double scale) {
  return (int8_t)fmin(CODE_MAX, fmax(-CODE_MAX, rint(number / scale)));
}

void ord_int8_encode(const ord_weight_rows *rows, uint64_t first, const float *number, size_t count, const float *scale,
                     int8_t *out) {
  for (size_t i = 0; i < count;) {
    uint64_t row;
    const size_t end = i + stretch(rows, first + i, count - i, &row);
    for (; i < end; i++) out[i] = encode(number[i], scale[row]);
  }
}

void ord_int8_decode(const ord_weight_rows *rows, uint64_t first, const int8_t *code, size_t count, const float *scale,
                     float *out) {
  for (size_t i = 0; i < count;) {
    uint64_t row;
    const size_t end = i + stretch(rows, first + i, count - i, &row);
    for (; i < end; i++) out[i] = scale[row] * (float)code[i];
  }
}
