// SPDX-License-Identifier: MIT
//
// Tiles of numbers of two bytes: from rows of any type in global memory into shared memory, and the products of tiles.
// In shared memory row r of a tile begins at byte r * FLASH_STRIDE(width).
#ifndef TILE_CUH
#define TILE_CUH

#include "cuda_attention/attention.cuh"
#include "flash.h"

struct bf16 {
  enum { TYPE = ORD_BF16, EXPONENT = 0x7f80 };
  INLINE uint32_t pack(float low, float high) { return ord_pack_bf16(low, high); }
  INLINE float2 unpack(uint32_t bits) { return ord_unpack_bf16(bits); }
  INLINE void multiply(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    ord_mma_bf16(sum, a, b0, b1);
  }
};

struct f16 {
  enum { TYPE = ORD_F16, EXPONENT = 0x7c00 };
  INLINE uint32_t pack(float low, float high) { return ord_pack_f16(low, high); }
  INLINE float2 unpack(uint32_t bits) { return ord_unpack_f16(bits); }
  INLINE void multiply(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    ord_mma_f16(sum, a, b0, b1);
  }
};

// ---- from global memory ----

// Eight numbers from `column` on of a row of any type; zeros from `width` on.
template <typename Half> INLINE uint4 gather(const attention_tensor &tensor, const char *row, int column, int width) {
  float x[8];
  if (tensor.is_vector && tensor.dtype == ORD_F32 && column + 8 <= width) {
    const float4 low = *(const float4 *)(row + column * 4), high = *(const float4 *)(row + column * 4 + 16);
    x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
    x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
  } else {
#pragma unroll
    for (int i = 0; i < 8; i++)
      x[i] = column + i < width ? read_number(row + (column + i) * tensor.stride[3], tensor.dtype) : 0;
  }
  return make_uint4(Half::pack(x[0], x[1]), Half::pack(x[2], x[3]), Half::pack(x[4], x[5]), Half::pack(x[6], x[7]));
}

// Begins to load `rows` tokens of a head from `token` on into a tile, a multiple of 32 of them; zeros for those outside
// [begin, end), which are not read. They are there after ord_copy_wait and a barrier.
template <typename Half, int WIDTH>
INLINE void load_tile(const attention_tensor &tensor, int n, int head, int token, int rows, int begin, int end,
                      int width, char *tile) {
  const char *first = row_of(tensor, n, head, token);
  const int steps = rows * (WIDTH / 8) / FLASH_THREADS;
  const auto at_piece = [&](int step, auto load) {
    const unsigned i = threadIdx.x + step * FLASH_THREADS, r = i / (WIDTH / 8), column = i % (WIDTH / 8) * 8;
    const bool is_there = token + (int)r >= begin && token + (int)r < end && (int)column < width;
    load(tile + r * FLASH_STRIDE(WIDTH) + column * 2, first + r * tensor.stride[2], (int)column, is_there);
  };
  if (tensor.is_vector && tensor.dtype == Half::TYPE) {
#pragma unroll 4
    for (int step = 0; step < steps; step++)
      at_piece(step, [](char *into, const char *row, int column, bool is_there) {
        ord_copy16_async(into, row + column * 2, is_there);
      });
    return;
  }
#pragma unroll 1 // scores and sums are in registers meanwhile
  for (int step = 0; step < steps; step++)
    at_piece(step, [&](char *into, const char *row, int column, bool is_there) {
      *(uint4 *)into = is_there ? gather<Half>(tensor, row, column, width) : make_uint4(0, 0, 0, 0);
    });
}

// ---- infinities and NaN ----
//
// A weight of 0 hides a number, but 0 times such a special one is NaN. In tiles of values of which not every query sees
// all, special numbers are therefore mixed apart and then count as 0.

// All bits of each half that is special.
template <typename Half> INLINE uint32_t find_special(uint32_t bits) {
  const uint32_t exponents = Half::EXPONENT * 0x10001u, lowest = exponents & ~(exponents << 1);
  return (((bits & exponents) + lowest) >> 15 & 0x10001u) * 0xffffu;
}

// use(piece) for the pieces that load_tile let this thread bring.
template <int WIDTH, typename Use> INLINE void for_own_pieces(char *tile, int rows, Use use) {
#pragma unroll 1
  for (unsigned i = threadIdx.x; i < (unsigned)rows * (WIDTH / 8); i += FLASH_THREADS)
    use(*(uint4 *)(tile + i / (WIDTH / 8) * FLASH_STRIDE(WIDTH) + i % (WIDTH / 8) * 16));
}

template <typename Half, int WIDTH> INLINE bool own_is_finite(char *tile, int rows) {
  uint32_t special = 0;
  for_own_pieces<WIDTH>(tile, rows, [&](const uint4 &piece) {
    special |= find_special<Half>(piece.x) | find_special<Half>(piece.y) | find_special<Half>(piece.z) |
               find_special<Half>(piece.w);
  });
  return special == 0;
}

template <typename Half, int WIDTH> INLINE void clear_own_special(char *tile, int rows) {
  for_own_pieces<WIDTH>(tile, rows, [&](uint4 &piece) {
    piece.x &= ~find_special<Half>(piece.x), piece.y &= ~find_special<Half>(piece.y);
    piece.z &= ~find_special<Half>(piece.z), piece.w &= ~find_special<Half>(piece.w);
  });
}

// ---- products of tiles ----

// The 16 x 16 numbers at (row, column) as the left side of a product, or, transposed, as two right sides of 8 columns:
// {0, 1} and {2, 3}.
template <int WIDTH> INLINE const char *corner_of(const char *tile, int row, int column) {
  const int lane = (int)threadIdx.x % 32;
  return tile + (row + lane % 16) * FLASH_STRIDE(WIDTH) + (column + lane / 16 * 8) * 2;
}

// The same numbers as two right sides whose columns are 8 rows each of the tile.
template <int WIDTH> INLINE const char *corner_of_rows(const char *tile, int row, int column) {
  const int lane = (int)threadIdx.x % 32;
  return tile + (row + lane / 16 * 8 + lane % 8) * FLASH_STRIDE(WIDTH) + (column + lane / 8 % 2 * 8) * 2;
}

// query [16 TILES, width] of this warp times keys [8 COLUMNS, width] -> score [16 TILES, 8 COLUMNS]. What of the
// queries is not kept in registers is read again.
template <typename Half, int WIDTH, int TILES, int COLUMNS, int KEPT>
INLINE void multiply_keys(const uint32_t (&kept)[KEPT][TILES][4], const char *query, const char *keys,
                          float (&score)[TILES][COLUMNS][4]) {
#pragma unroll
  for (int t = 0; t < TILES; t++)
#pragma unroll
    for (int j = 0; j < COLUMNS; j++)
#pragma unroll
      for (int i = 0; i < 4; i++) score[t][j][i] = 0;
#pragma unroll
  for (int step = 0; step < WIDTH / 16; step++) {
    uint32_t left[TILES][4];
#pragma unroll
    for (int t = 0; t < TILES; t++) {
      if (KEPT == WIDTH / 16) {
#pragma unroll
        for (int i = 0; i < 4; i++) left[t][i] = kept[step % KEPT][t][i];
      } else {
        ord_load_matrix_x4(left[t], corner_of<WIDTH>(query, t * 16, step * 16));
      }
    }
#pragma unroll
    for (int j = 0; j < COLUMNS / 2; j++) {
      uint32_t right[4];
      ord_load_matrix_x4(right, corner_of_rows<WIDTH>(keys, j * 16, step * 16));
#pragma unroll
      for (int t = 0; t < TILES; t++) {
        Half::multiply(score[t][j * 2], left[t], right[0], right[1]);
        Half::multiply(score[t][j * 2 + 1], left[t], right[2], right[3]);
      }
    }
  }
}

// mixed [16 TILES, width] += left [16 TILES, 16] times rows `row` to row + 15 of values.
template <typename Half, int WIDTH, int TILES>
INLINE void multiply_step(const uint32_t (&left)[TILES][4], const char *values, int row,
                          float (&mixed)[TILES][WIDTH / 8][4]) {
#pragma unroll
  for (int j = 0; j < WIDTH / 16; j++) {
    uint32_t right[4];
    ord_load_matrix_x4_transposed(right, corner_of<WIDTH>(values, row, j * 16));
#pragma unroll
    for (int t = 0; t < TILES; t++) {
      Half::multiply(mixed[t][j * 2], left[t], right[0], right[1]);
      Half::multiply(mixed[t][j * 2 + 1], left[t], right[2], right[3]);
    }
  }
}

// mixed [16 TILES, width] += weights [16 TILES, 8 COLUMNS] times values [8 COLUMNS, width]. is_exact: what rounding a
// weight to two bytes takes from it is multiplied too.
template <typename Half, int WIDTH, int TILES, int COLUMNS>
INLINE void multiply_values(const float (&weight)[TILES][COLUMNS][4], const char *values, bool is_exact,
                            float (&mixed)[TILES][WIDTH / 8][4]) {
#pragma unroll
  for (int step = 0; step < COLUMNS / 2; step++) {
    uint32_t left[TILES][4];
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const float(&one)[4] = weight[t][step * 2 + i / 2];
        left[t][i] = Half::pack(one[i % 2 * 2], one[i % 2 * 2 + 1]);
      }
    multiply_step<Half, WIDTH>(left, values, step * 16, mixed);
    if (!is_exact) continue;
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const float(&one)[4] = weight[t][step * 2 + i / 2];
        const float2 rounded = Half::unpack(left[t][i]);
        left[t][i] = Half::pack(one[i % 2 * 2] - rounded.x, one[i % 2 * 2 + 1] - rounded.y);
      }
    multiply_step<Half, WIDTH>(left, values, step * 16, mixed);
  }
}

#endif
