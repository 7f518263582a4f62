// SPDX-License-Identifier: MIT
//
// matmul for any number of rows, by a weight or by a value in any layout, in f32 without tensor cores: in [batches,
// rows, depth] by `by` [batches, depth, columns]. A block makes a tile of 64 rows and 64 columns, a thread 4 x 4
// numbers of it. Every number is one sum over ascending depth, so that it does not depend on the rows beside it.
#include "matmul.h"
#include "norm.cuh"

enum {
  IN_FLIGHT = TILE_DEPTH * TILE_ROWS / TILE_THREADS, // numbers that a thread brings for a tile, of either side
  SHARED_ROW = TILE_ROWS + 4                         // so that rows of shared memory begin in different banks
};
static_assert(TILE_ROWS == TILE_COLUMNS, "either side of a tile is brought alike");

// Where the numbers of a tile lie.
struct tile_place {
  int64_t first_row, first_column, batch; // first_row: of the batch
  int64_t row_count, column_count;        // left from there on
  int64_t rows_before;                    // of all batches before
};

// in[row][k] and by[k][column] of this thread, zeros outside. Its numbers lie along the axis that is dense in memory.
struct tile_numbers {
  float in[IN_FLIGHT], by[IN_FLIGHT];
};

INLINE void load_numbers(const tiled_arguments &a, const tile_place &tile, const int64_t *in_row, const char *by,
                         int64_t depth, int64_t k, bool is_depth_dense, tile_numbers &numbers) {
  const int in_k = threadIdx.x % TILE_DEPTH, in_first = threadIdx.x / TILE_DEPTH;
  UNROLL
  for (int i = 0; i < IN_FLIGHT; i++) {
    const int row = in_first + i * (TILE_THREADS / TILE_DEPTH);
    const bool is_inside = row < tile.row_count && k + in_k < depth;
    numbers.in[i] = is_inside ? *(const float *)(a.in.data + in_row[row] + (k + in_k) * a.in.column_stride) : 0.0f;
  }
  UNROLL
  for (int i = 0; i < IN_FLIGHT; i++) {
    const int number = threadIdx.x + i * TILE_THREADS;
    const int by_k = is_depth_dense ? number % TILE_DEPTH : number / TILE_COLUMNS;
    const int column = is_depth_dense ? number / TILE_DEPTH : number % TILE_COLUMNS;
    const bool is_inside = column < tile.column_count && k + by_k < depth;
    const char *at = by + (tile.first_column + column) * a.by.column_stride + (k + by_k) * a.depth_stride;
    numbers.by[i] = is_inside ? read_number(at, a.by.type) : 0.0f;
  }
}

INLINE void store_numbers(const tile_numbers &numbers, bool is_depth_dense, float (*in)[SHARED_ROW],
                          float (*by)[SHARED_ROW]) {
  UNROLL
  for (int i = 0; i < IN_FLIGHT; i++) {
    const int number = threadIdx.x + i * TILE_THREADS;
    in[threadIdx.x % TILE_DEPTH][threadIdx.x / TILE_DEPTH + i * (TILE_THREADS / TILE_DEPTH)] = numbers.in[i];
    if (is_depth_dense)
      by[number % TILE_DEPTH][number / TILE_DEPTH] = numbers.by[i];
    else
      by[number / TILE_COLUMNS][number % TILE_COLUMNS] = numbers.by[i];
  }
}

// This thread makes 4 x 4 numbers from here on.
INLINE int own_row() { return threadIdx.x / (TILE_COLUMNS / TILE_OWN) * TILE_OWN; }
INLINE int own_column() { return threadIdx.x % (TILE_COLUMNS / TILE_OWN) * TILE_OWN; }

// sum[4][4] += in [TILE_DEPTH, rows] by by [TILE_DEPTH, columns], of this thread's rows and columns.
INLINE void multiply_tile(const float (*in)[SHARED_ROW], const float (*by)[SHARED_ROW],
                          float (&sum)[TILE_OWN][TILE_OWN]) {
  UNROLL
  for (int k = 0; k < TILE_DEPTH; k++) {
    const float4 x = *(const float4 *)&in[k][own_row()], y = *(const float4 *)&by[k][own_column()];
    const float xs[] = {x.x, x.y, x.z, x.w}, ys[] = {y.x, y.y, y.z, y.w};
    UNROLL
    for (int i = 0; i < TILE_OWN; i++) {
      UNROLL
      for (int j = 0; j < TILE_OWN; j++) sum[i][j] = fmaf(xs[i], ys[j], sum[i][j]);
    }
  }
}

// The tile's numbers to the result, a row of the tile at a time, so that neighbours are stored together.
INLINE void store_tile(const tiled_arguments &a, const tile_place &tile, const float (*result)[SHARED_ROW]) {
  for (int number = threadIdx.x; number < TILE_ROWS * TILE_COLUMNS; number += TILE_THREADS) {
    const int tile_row = number / TILE_COLUMNS, tile_column = number % TILE_COLUMNS;
    if (tile_row >= tile.row_count || tile_column >= tile.column_count) continue;
    const uint32_t row = tile.rows_before + tile.first_row + tile_row;
    const int64_t column = tile.first_column + tile_column;
    float operand[EPILOGUE_ITEMS];
    read_epilogue(a.epilogue, a.rows, row, column, operand);
    const float value = result[tile_row][tile_column] * (a.scale ? a.scale[column] : 1.0f);
    *(float *)(row_of(a.out, a.rows, row) + column * a.out.column_stride) =
        apply_epilogue(a.epilogue, a.rows, row, column, operand, value);
  }
}

INLINE void normalize_tile(const tiled_arguments &a, const tile_place &tile, int64_t columns, const int64_t *out_row,
                           float *partial) {
  for (int row = 0; row < TILE_ROWS && row < tile.row_count; row++) {
    char *const data[1] = {a.out.data + out_row[row]};
    normalize_result<1, 8>(a.norm, data, 1, a.out.column_stride, columns, partial);
  }
}

extern "C" __global__ void __launch_bounds__(TILE_THREADS) matmul_tiled(const __grid_constant__ tiled_arguments a) {
  __shared__ __align__(16) float in[TILE_DEPTH][SHARED_ROW], by[TILE_DEPTH][SHARED_ROW];
  __shared__ float result[TILE_ROWS][SHARED_ROW], partial[TILE_THREADS / 32];
  __shared__ int64_t in_row[TILE_ROWS], out_row[TILE_ROWS]; // offsets of the tile's rows
  __shared__ unsigned scratch;
  ord_dependency_trigger();
  ord_dependency_wait();
  const int64_t columns = size_of(a.columns), depth = size_of(a.depth), all_rows = count_rows(a.rows);
  const int64_t rows = a.batches.rank ? size_of(a.batch_rows) : all_rows;
  const int64_t row_tiles = (rows + TILE_ROWS - 1) / TILE_ROWS, tiles = rows ? all_rows / rows * row_tiles : 0;
  tile_place tile;
  tile.first_column = (int64_t)blockIdx.x * TILE_COLUMNS;
  tile.column_count = columns - tile.first_column;
  if (tile.column_count <= 0) return;
  const bool is_depth_dense = a.depth_stride < a.by.column_stride;
  for (int64_t number = blockIdx.y; number < tiles; number += gridDim.y) {
    tile.batch = number / row_tiles;
    tile.first_row = number % row_tiles * TILE_ROWS;
    tile.row_count = rows - tile.first_row;
    tile.rows_before = tile.batch * rows;
    const char *by_data = row_of(a.by, a.batches, tile.batch);
    if (threadIdx.x < TILE_ROWS && threadIdx.x < tile.row_count) {
      const uint32_t row = tile.rows_before + tile.first_row + threadIdx.x;
      in_row[threadIdx.x] = row_of(a.in, a.rows, row) - a.in.data;
      out_row[threadIdx.x] = row_of(a.out, a.rows, row) - a.out.data;
    }
    __syncthreads();
    float sum[TILE_OWN][TILE_OWN] = {};
    tile_numbers numbers;
    load_numbers(a, tile, in_row, by_data, depth, 0, is_depth_dense, numbers);
    for (int64_t k = 0; k < depth; k += TILE_DEPTH) {
      store_numbers(numbers, is_depth_dense, in, by);
      __syncthreads();
      if (k + TILE_DEPTH < depth)
        load_numbers(a, tile, in_row, by_data, depth, k + TILE_DEPTH, is_depth_dense, numbers);
      multiply_tile(in, by, sum);
      __syncthreads();
    }
    UNROLL
    for (int i = 0; i < TILE_OWN; i++) {
      UNROLL
      for (int j = 0; j < TILE_OWN; j++) result[own_row() + i][own_column() + j] = sum[i][j];
    }
    __syncthreads();
    store_tile(a, tile, result);
    if (a.norm.is_wanted && ord_is_last_block(a.norm.ticket + number, gridDim.x, &scratch))
      normalize_tile(a, tile, columns, out_row, partial);
    __syncthreads();
  }
}
ORD_EXPORT_KERNEL(matmul_tiled);
