// SPDX-License-Identifier: MIT
//
// matmul for few rows: in [rows, depth] by weight [columns, depth]. It is as fast as the weights can be read, once, so
// all of it is about loads of 16 bytes, many under way at a time, the first of them before the kernels that make `in`
// are over.
//
// A block makes COLUMNS columns of the result for at most ROWS rows. Its warps share the depth: of each column a warp
// takes 32 units of 16 bytes, one a lane, then the next warp the next 32, and so on round and round. A lane adds up its
// products by ascending depth, then lanes and warps are added in a fixed order (sums.cuh). Neither ROWS nor COLUMNS
// changes the order, so that a row gets the same bits alone and in a batch.
#include "matmul.h"
#include "norm.cuh"

// ---- weights: four numbers of a unit ----

struct weight_f32 {
  static constexpr int numbers = 4;
  static __device__ __forceinline__ void unpack(const uint4 &unit, int, float (&number)[4]) {
    number[0] = __uint_as_float(unit.x), number[1] = __uint_as_float(unit.y);
    number[2] = __uint_as_float(unit.z), number[3] = __uint_as_float(unit.w);
  }
};

struct weight_bf16 {
  static constexpr int numbers = 8;
  static __device__ __forceinline__ void unpack(const uint4 &unit, int part, float (&number)[4]) {
    const float2 low = ord_unpack_bf16(part ? unit.z : unit.x), high = ord_unpack_bf16(part ? unit.w : unit.y);
    number[0] = low.x, number[1] = low.y, number[2] = high.x, number[3] = high.y;
  }
};

struct weight_f16 {
  static constexpr int numbers = 8;
  static __device__ __forceinline__ void unpack(const uint4 &unit, int part, float (&number)[4]) {
    const float2 low = ord_unpack_f16(part ? unit.z : unit.x), high = ord_unpack_f16(part ? unit.w : unit.y);
    number[0] = low.x, number[1] = low.y, number[2] = high.x, number[3] = high.y;
  }
};

struct weight_i8 {
  static constexpr int numbers = 16;
  static __device__ __forceinline__ void unpack(const uint4 &unit, int part, float (&number)[4]) {
    const uint32_t word = part == 0 ? unit.x : part == 1 ? unit.y : part == 2 ? unit.z : unit.w;
    UNROLL
    for (int i = 0; i < 4; i++) number[i] = (float)(int8_t)(word >> 8 * i);
  }
};

// ---- products ----

// The same unit of all columns of the block; beyond the depth zeros. What is beyond the last column is read from it.
template <int COLUMNS>
INLINE void load_units(const gemv_arguments &a, int64_t first, int last, int unit, int unit_count,
                       uint4 (&units)[COLUMNS]) {
  const char *from = a.weight + first * a.weight_stride + (int64_t)unit * UNIT_BYTES;
  UNROLL
  for (int column = 0; column < COLUMNS; column++) {
    units[column] = make_uint4(0, 0, 0, 0);
    if (unit < unit_count) units[column] = ord_load16(from + min(column, last) * a.weight_stride);
  }
}

// in[k] .. in[k + 3] of a row; zeros beyond the depth. A vector is whole.
template <bool IS_VECTOR> INLINE float4 read_in(const gemv_arguments &a, const char *row, int k, int depth) {
  if constexpr (IS_VECTOR) {
    return k < depth ? *(const float4 *)(row + (int64_t)k * 4) : make_float4(0, 0, 0, 0);
  } else {
    float number[4];
    UNROLL
    for (int i = 0; i < 4; i++) number[i] = k + i < depth ? *(const float *)(row + (k + i) * a.in.column_stride) : 0.0f;
    return make_float4(number[0], number[1], number[2], number[3]);
  }
}

template <typename Weight, int ROWS, int COLUMNS, bool IS_VECTOR>
INLINE void multiply(const gemv_arguments &a, int64_t first, int last, char *const (&in)[ROWS], int row_count,
                     uint4 (&ahead)[COLUMNS], float (&sum)[ROWS * COLUMNS]) {
  const int depth = (int)a.depth, unit_count = (depth + Weight::numbers - 1) / Weight::numbers;
  const int lane = threadIdx.x % 32, step = blockDim.x;
  for (int begin = threadIdx.x - lane; begin < unit_count; begin += step) {
    const int unit = begin + lane;
    uint4 units[COLUMNS];
    UNROLL
    for (int column = 0; column < COLUMNS; column++) units[column] = ahead[column];
    load_units(a, first, last, unit + step, unit_count, ahead);
    UNROLL
    for (int part = 0; part < Weight::numbers / 4; part++) {
      float weight[COLUMNS][4];
      UNROLL
      for (int column = 0; column < COLUMNS; column++) Weight::unpack(units[column], part, weight[column]);
      UNROLL
      for (int row = 0; row < ROWS; row++) {
        if (row >= row_count) continue;
        const float4 x = read_in<IS_VECTOR>(a, in[row], unit * Weight::numbers + part * 4, depth);
        UNROLL
        for (int column = 0; column < COLUMNS; column++) {
          float &total = sum[row * COLUMNS + column];
          total = fmaf(x.x, weight[column][0], total);
          total = fmaf(x.y, weight[column][1], total);
          total = fmaf(x.z, weight[column][2], total);
          total = fmaf(x.w, weight[column][3], total);
        }
      }
    }
  }
}

// ---- the kernel ----

template <typename Weight, int ROWS, int COLUMNS> INLINE void gemv(const gemv_arguments &a) {
  constexpr int count = ROWS * COLUMNS;
  __shared__ float partial[GEMV_WARPS_MAX * count];
  __shared__ char *row_data[ROWS];
  __shared__ unsigned scratch;
  const int64_t first = (int64_t)blockIdx.x * COLUMNS;
  const uint32_t first_row = blockIdx.y * ROWS;
  const int last = (int)min((long long)COLUMNS, (long long)(a.columns - first)) - 1;
  const int unit_count = ((int)a.depth + Weight::numbers - 1) / Weight::numbers;
  uint4 ahead[COLUMNS];
  ord_dependency_trigger();
  load_units(a, first, last, threadIdx.x, unit_count, ahead);
  ord_dependency_wait();
  const int64_t rows_left = count_rows(a.rows) - first_row;
  if (rows_left <= 0) return;
  const int row_count = (int)min((long long)ROWS, (long long)rows_left);

  const int own_row = threadIdx.x / COLUMNS, own_column = threadIdx.x % COLUMNS;
  const int64_t column = first + own_column;
  const bool is_own = own_row < row_count && own_column <= last;
  const uint32_t row = first_row + own_row;
  float operand[EPILOGUE_ITEMS], scale = 1.0f;
  if (is_own) {
    read_epilogue(a.epilogue, a.rows, row, column, operand);
    if (a.scale) scale = a.scale[column];
  }

  char *in[ROWS];
  float sum[count] = {};
  find_rows(a.in, a.rows, first_row, row_count, in, row_data);
  if (a.is_vector)
    multiply<Weight, ROWS, COLUMNS, true>(a, first, last, in, row_count, ahead, sum);
  else
    multiply<Weight, ROWS, COLUMNS, false>(a, first, last, in, row_count, ahead, sum);
  store_warp_sums(sum, partial);
  __syncthreads();
  if (is_own) {
    const float value = sum_of_warps(partial, count, threadIdx.x) * scale;
    *(float *)(row_of(a.out, a.rows, row) + column * a.out.column_stride) =
        apply_epilogue(a.epilogue, a.rows, row, column, operand, value);
  }
  if (!a.norm.is_wanted || !ord_is_last_block(a.norm.ticket + blockIdx.y, gridDim.x, &scratch)) return;
  char *out[ROWS];
  find_rows(a.out, a.rows, first_row, row_count, out, row_data);
  normalize_result < ROWS, ROWS<8 ? 8 / ROWS : 1>(a.norm, out, row_count, a.out.column_stride, a.columns, partial);
}

#define GEMV(name, rows, columns)                                                                                      \
  extern "C" __global__ void __launch_bounds__(GEMV_WARPS_MAX * 32, 1)                                                 \
      gemv_##name##_##rows##x##columns(const __grid_constant__ gemv_arguments a) {                                     \
    gemv<weight_##name, rows, columns>(a);                                                                             \
  }                                                                                                                    \
  ORD_EXPORT_KERNEL(gemv_##name##_##rows##x##columns);
#define TYPE(type, name) GEMV_SHAPES(GEMV, name)
GEMV_TYPES(TYPE)
