// SPDX-License-Identifier: MIT
//
// pool: one row for each text, the mean of its tokens, its first or its last. Tokens beyond the length are not read.
#include "pool.h"
#include "tensor.cuh"

// [first, end) of the tokens of a text that count.
INLINE void find_tokens(const pool_arguments &a, int64_t text, int64_t *first, int64_t *end) {
  int64_t valid = axis_size(a.in, 1);
  if (a.lengths.data) {
    const int64_t length = *(const int32_t *)(a.lengths.data + text * a.lengths.stride[0]);
    valid = length < 0 ? 0 : length < valid ? length : valid;
  }
  *first = a.kind == POOL_LAST && valid > 0 ? valid - 1 : 0;
  *end = a.kind == POOL_MEAN || valid == 0 ? valid : *first + 1;
}

// Each lane has a column, each warp every POOL_WARPS-th token; the warps' sums are added in their order.
extern "C" __global__ void pool_tokens(const pool_arguments a) {
  __shared__ float partial[POOL_WARPS][POOL_COLUMNS];
  ord_dependency_wait();
  const int64_t texts = axis_size(a.out, 0), width = axis_size(a.out, 1);
  const int64_t tiles = (width + POOL_COLUMNS - 1) / POOL_COLUMNS;
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int64_t tile = blockIdx.x; tile < texts * tiles; tile += gridDim.x) {
    const int64_t text = tile / tiles, column = tile % tiles * POOL_COLUMNS + lane;
    int64_t first, end;
    find_tokens(a, text, &first, &end);
    float sum = 0.0f;
    const char *from = a.in.data + text * a.in.stride[0] + column * a.in.stride[2];
    for (int64_t token = first + warp; column < width && token < end; token += POOL_WARPS)
      sum += read_number(from + token * a.in.stride[1], a.in.type);
    partial[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && column < width) {
      for (int other = 1; other < POOL_WARPS; other++) sum += partial[other][lane];
      const float count = end > first ? (float)(end - first) : 1.0f;
      write_number(a.out.data + text * a.out.stride[0] + column * a.out.stride[1], a.out.type, sum / count);
    }
    __syncthreads();
  }
}
ORD_EXPORT_KERNEL(pool_tokens);
