// SPDX-License-Identifier: MIT
//
// softmax and l2_normalize along any axis. A block works on one row after the other; the numbers of a row are read
// once for each pass, from the second time on out of a cache.
#include "row.h"
#include "tensor.cuh"

// One row. each(use) calls use(column) for all columns of this thread, WIDTH at a time.
template <int WIDTH> struct row_view {
  const char *from;
  char *into;
  int64_t width, from_stride, into_stride;
  uint32_t from_type, into_type;

  template <typename Use> __device__ __forceinline__ void each(Use use) const {
    for (int64_t column = threadIdx.x * WIDTH; column < width; column += blockDim.x * WIDTH) use(column);
  }
  __device__ __forceinline__ void read(int64_t column, float (&number)[WIDTH]) const {
    read_numbers(from + column * from_stride, from_type, number);
  }
  __device__ __forceinline__ void write(int64_t column, const float (&number)[WIDTH]) const {
    write_numbers(into + column * into_stride, into_type, number);
  }
};

// Calls apply(row) for all rows of this block.
template <int WIDTH, typename Apply> INLINE void for_rows(const row_arguments &a, Apply apply) {
  const int axes = (int)a.out_rows.rank;
  const int64_t rows = count_of(a.out_rows, axes);
  row_view<WIDTH> row;
  row.width = axis_size(a.out_axis, 0);
  row.from_stride = a.in_axis.stride[0], row.into_stride = a.out_axis.stride[0];
  row.from_type = a.in_rows.type, row.into_type = a.out_rows.type;
  for (int64_t i = blockIdx.x; i < rows; i += gridDim.x) {
    int64_t offset[2];
    find_offsets<uint64_t>(a.out_rows, axes, i, offset, a.out_rows, a.in_rows);
    row.into = a.out_rows.data + offset[0];
    row.from = a.in_rows.data + offset[1];
    apply(row);
  }
}

// ---- softmax -------------------------------------------------------------------------------------------------------

// A NaN never is the largest, but e to it makes the sum and so the row NaN. A row of -infinity alone gives zeros.
template <int WIDTH> INLINE void softmax_row(const row_view<WIDTH> &row, float *scratch) {
  float largest = -INFINITY, sum = 0.0f, number[WIDTH];
  bool has_nan = false;
  row.each([&](int64_t column) {
    row.read(column, number);
    UNROLL
    for (int i = 0; i < WIDTH; i++) {
      largest = fmaxf(largest, number[i]);
      has_nan |= number[i] != number[i];
    }
  });
  largest = ord_block_max(largest, scratch);
  const bool is_empty = !__syncthreads_or(has_nan) && largest == -INFINITY;
  row.each([&](int64_t column) {
    row.read(column, number);
    UNROLL
    for (int i = 0; i < WIDTH; i++) sum += expf(number[i] - largest);
  });
  const float factor = 1.0f / ord_block_sum(sum, scratch);
  row.each([&](int64_t column) {
    row.read(column, number);
    UNROLL
    for (int i = 0; i < WIDTH; i++) number[i] = is_empty ? 0.0f : expf(number[i] - largest) * factor;
    row.write(column, number);
  });
}

extern "C" __global__ void softmax_rows(const row_arguments a) {
  __shared__ float scratch[32];
  ord_dependency_wait();
  if (a.is_vector)
    for_rows<ROW_VECTOR>(a, [&](const row_view<ROW_VECTOR> &row) { softmax_row(row, scratch); });
  else
    for_rows<1>(a, [&](const row_view<1> &row) { softmax_row(row, scratch); });
}
ORD_EXPORT_KERNEL(softmax_rows);

// ---- l2_normalize --------------------------------------------------------------------------------------------------

// In every thread of the block, all of which call it; `scratch` is free again when the call returns.
INLINE double sum_over_block(double value, double *scratch) {
  for (int distance = 16; distance; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  value = 0;
  for (unsigned warp = 0; warp < blockDim.x / 32; warp++) value += scratch[warp];
  __syncthreads();
  return value;
}

// Squares are added in double, which holds those of every float.
template <int WIDTH> INLINE void l2_normalize_row(const row_view<WIDTH> &row, double eps, double *scratch) {
  float number[WIDTH];
  double sum = 0;
  row.each([&](int64_t column) {
    row.read(column, number);
    UNROLL
    for (int i = 0; i < WIDTH; i++) sum += (double)number[i] * (double)number[i];
  });
  const double length = sqrt(sum_over_block(sum, scratch));
  const double factor = 1.0 / (length < eps ? eps : length); // a length may be beyond every float
  row.each([&](int64_t column) {
    row.read(column, number);
    UNROLL
    for (int i = 0; i < WIDTH; i++) number[i] = (float)((double)number[i] * factor);
    row.write(column, number);
  });
}

extern "C" __global__ void l2_normalize_rows(const row_arguments a) {
  __shared__ double scratch[32];
  ord_dependency_wait();
  if (a.is_vector)
    for_rows<ROW_VECTOR>(a, [&](const row_view<ROW_VECTOR> &row) { l2_normalize_row(row, a.eps, scratch); });
  else
    for_rows<1>(a, [&](const row_view<1> &row) { l2_normalize_row(row, a.eps, scratch); });
}
ORD_EXPORT_KERNEL(l2_normalize_rows);
