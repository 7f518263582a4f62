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
//
// One image for each type of weights, so that they are compiled side by side.
#ifndef CORE_MATMUL_GEMV_CUH
#define CORE_MATMUL_GEMV_CUH

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
    // The bits of 2^23 + 128 + number: there is a conversion for it, but a device makes few of them at a time.
    UNROLL
    for (int i = 0; i < 4; i++)
      number[i] = __uint_as_float(__byte_perm(word ^ 0x80808080u, 0x4b000000u, 0x7440u + i)) - (0x1p23f + 128);
  }
};

// ---- products ----

// Where this thread's first unit of each column lies. What is beyond the last column is read from it.
template <int COLUMNS>
INLINE void find_units(const gemv_arguments &a, int64_t first, int last, const char *(&at)[COLUMNS]) {
  UNROLL
  for (int column = 0; column < COLUMNS; column++)
    at[column] = a.weight + (first + min(column, last)) * a.weight_stride + threadIdx.x * UNIT_BYTES;
}

// The units that are next for this thread, of all columns; beyond the depth zeros.
template <int COLUMNS> INLINE void load_units(const char *(&at)[COLUMNS], bool is_inside, uint4 (&units)[COLUMNS]) {
  UNROLL
  for (int column = 0; column < COLUMNS; column++) {
    units[column] = is_inside ? ord_load16(at[column]) : make_uint4(0, 0, 0, 0);
    at[column] += blockDim.x * UNIT_BYTES;
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

// Rows that are not there are multiplied like the last one: without branches all loads are under way together. Where
// rows are no vectors, parts of a unit are not taken side by side: loads are slow then anyhow.
template <typename Weight, int ROWS, int COLUMNS, bool IS_VECTOR>
INLINE void multiply(const gemv_arguments &a, const char *(&at)[COLUMNS], char *const (&in)[ROWS],
                     uint4 (&ahead)[COLUMNS], float (&sum)[ROWS * COLUMNS]) {
  const int depth = (int)a.depth, unit_count = (depth + Weight::numbers - 1) / Weight::numbers;
  const int lane = threadIdx.x % 32, step = blockDim.x;
  for (int begin = threadIdx.x - lane; begin < unit_count; begin += step) {
    const int unit = begin + lane;
    uint4 units[COLUMNS];
    UNROLL
    for (int column = 0; column < COLUMNS; column++) units[column] = ahead[column];
    load_units(at, unit + step < unit_count, ahead);
#pragma unroll(IS_VECTOR ? Weight::numbers / 4 : 1)
    for (int part = 0; part < Weight::numbers / 4; part++) {
      float weight[COLUMNS][4];
      UNROLL
      for (int column = 0; column < COLUMNS; column++) Weight::unpack(units[column], part, weight[column]);
      UNROLL
      for (int row = 0; row < ROWS; row++) {
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
  __shared__ int64_t row_offset[ROWS];
  __shared__ unsigned scratch;
  const int64_t first = (int64_t)blockIdx.x * COLUMNS;
  const uint32_t first_row = blockIdx.y * ROWS;
  const int last = (int)min((long long)COLUMNS, (long long)(a.columns - first)) - 1;
  const int unit_count = ((int)a.depth + Weight::numbers - 1) / Weight::numbers;
  const char *at[COLUMNS];
  uint4 ahead[COLUMNS];
  ord_dependency_trigger();
  find_units(a, first, last, at);
  load_units(at, (int)threadIdx.x < unit_count, ahead);
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
  find_rows(a.in, a.rows, first_row, row_count, in, row_offset);
  if (a.is_vector)
    multiply<Weight, ROWS, COLUMNS, true>(a, at, in, ahead, sum);
  else
    multiply<Weight, ROWS, COLUMNS, false>(a, at, in, ahead, sum);
  store_warp_sums(sum, partial);
  __syncthreads();
  if (is_own) {
    const float value = sum_of_warps(partial, count, threadIdx.x) * scale;
    *(float *)(row_of(a.out, a.rows, row) + column * a.out.column_stride) =
        apply_epilogue(a.epilogue, a.rows, row, column, operand, value);
  }
  if (!a.norm.is_wanted || !ord_is_last_block(a.norm.ticket + blockIdx.y, gridDim.x, &scratch)) return;
  char *out[ROWS];
  find_rows(a.out, a.rows, first_row, row_count, out, row_offset);
  normalize_result < ROWS, ROWS<8 ? 8 / ROWS : 1>(a.norm, out, row_count, a.out.column_stride, a.columns, partial);
}

#define GEMV(name, rows, columns)                                                                                      \
  extern "C" __global__ void __launch_bounds__(GEMV_WARPS_MAX * 32, 1)                                                 \
      gemv_##name##_##rows##x##columns(const __grid_constant__ gemv_arguments a) {                                     \
    gemv<weight_##name, rows, columns>(a);                                                                             \
  }                                                                                                                    \
  ORD_EXPORT_KERNEL(gemv_##name##_##rows##x##columns);

#endif
