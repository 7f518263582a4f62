// SPDX-License-Identifier: MIT
//
// layernorm and rmsnorm of some rows by one block. The mean is taken before the deviations from it are squared.
#ifndef CORE_NORM_CUH
#define CORE_NORM_CUH

#include "epilogue.cuh"
#include "sums.cuh"

INLINE float read_column(const core_place &place, int64_t column, float otherwise) {
  return place.data ? read_number(place.data + column * place.column_stride, place.type) : otherwise;
}

// In all threads of the block; for_each(use) calls use(row, number) for all numbers of this thread.
template <int ROWS, typename ForEach>
INLINE void find_means(const ForEach &for_each, int64_t columns, float *partial, float (&mean)[ROWS]) {
  for_each([&](int row, float x) { mean[row] += x; });
  sum_over_block(mean, partial);
  UNROLL
  for (int row = 0; row < ROWS; row++) mean[row] /= (float)columns;
}

// The same: what a deviation from the mean is multiplied by.
template <int ROWS, typename ForEach>
INLINE void find_factors(const norm_arguments &norm, const ForEach &for_each, int64_t columns,
                         const float (&mean)[ROWS], float *partial, float (&factor)[ROWS]) {
  float scale[ROWS];
  UNROLL
  for (int row = 0; row < ROWS; row++) scale[row] = 1.0f;
  bool is_too_large = true;
  ROLLED
  for (int pass = 0; pass < 2 && is_too_large; pass++) {
    is_too_large = false;
    UNROLL
    for (int row = 0; row < ROWS; row++) factor[row] = 0.0f;
    for_each([&](int row, float x) {
      const float own = (x - mean[row]) * scale[row];
      factor[row] = fmaf(own, own, factor[row]);
    });
    sum_over_block(factor, partial);
    UNROLL
    for (int row = 0; row < ROWS; row++) {
      if (factor[row] != INFINITY) continue;
      is_too_large = true;
      scale[row] = 0x1p-80f; // once more, of numbers so small that their squares can be added
    }
  }
  UNROLL
  for (int row = 0; row < ROWS; row++)
    factor[row] = scale[row] / sqrtf(factor[row] / (float)columns + norm.eps * scale[row] * scale[row]);
}

// read(row, column) and write(row, column, number) reach rows 0 .. ROWS - 1. The first KEPT numbers of a thread stay in
// registers; those of longer rows are read again. `partial`: shared, ROWS numbers for each warp.
template <int ROWS, int KEPT, typename Read, typename Write>
INLINE void normalize_rows(const norm_arguments &norm, int64_t columns, float *partial, Read read, Write write) {
  float number[ROWS][KEPT] = {}, weight[KEPT] = {}, bias[KEPT] = {}, mean[ROWS] = {}, factor[ROWS] = {};
  const int64_t step = blockDim.x, rest = threadIdx.x + KEPT * step;
  UNROLL
  for (int i = 0; i < KEPT; i++) {
    const int64_t column = threadIdx.x + i * step;
    if (column >= columns) continue;
    UNROLL
    for (int row = 0; row < ROWS; row++) number[row][i] = read(row, column);
    weight[i] = read_column(norm.weight, column, 1.0f);
    bias[i] = read_column(norm.bias, column, 0.0f);
  }
  const auto for_each = [&](auto use) { // of each row by ascending columns
    UNROLL
    for (int i = 0; i < KEPT; i++) {
      if (threadIdx.x + i * step >= columns) continue;
      UNROLL
      for (int row = 0; row < ROWS; row++) use(row, number[row][i]);
    }
    ROLLED
    for (int64_t column = rest; column < columns; column += step) {
      float found[ROWS];
      UNROLL
      for (int row = 0; row < ROWS; row++) found[row] = read(row, column);
      UNROLL
      for (int row = 0; row < ROWS; row++) use(row, found[row]);
    }
  };
  if (norm.is_centred) find_means(for_each, columns, partial, mean);
  find_factors(norm, for_each, columns, mean, partial, factor);
  UNROLL
  for (int i = 0; i < KEPT; i++) {
    const int64_t column = threadIdx.x + i * step;
    if (column >= columns) continue;
    UNROLL
    for (int row = 0; row < ROWS; row++)
      write(row, column, fmaf((number[row][i] - mean[row]) * factor[row], weight[i], bias[i]));
  }
  ROLLED
  for (int64_t column = rest; column < columns; column += step) {
    const float own_weight = read_column(norm.weight, column, 1.0f), own_bias = read_column(norm.bias, column, 0.0f);
    float found[ROWS];
    UNROLL
    for (int row = 0; row < ROWS; row++) found[row] = read(row, column);
    UNROLL
    for (int row = 0; row < ROWS; row++)
      write(row, column, fmaf((found[row] - mean[row]) * factor[row], own_weight, own_bias));
  }
}

// Rows that all blocks of a group have stored, read past the first cache, in place.
template <int ROWS, int KEPT>
INLINE void normalize_result(const norm_arguments &norm, char *const (&data)[ROWS], int row_count,
                             int64_t column_stride, int64_t columns, float *partial) {
  const auto read = [&](int row, int64_t column) {
    return row < row_count ? __ldcg((const float *)(data[row] + column * column_stride)) : 0.0f;
  };
  const auto write = [&](int row, int64_t column, float number) {
    if (row < row_count) *(float *)(data[row] + column * column_stride) = number;
  };
  normalize_rows<ROWS, KEPT>(norm, columns, partial, read, write);
}

#endif
