// SPDX-License-Identifier: MIT
//
// Sums of several numbers at once over a warp or a block. Lanes are added in pairs 16 apart, then 8, 4, 2, 1, and warps
// in their order, however many numbers there are, so that each sum has the same bits alone and among others.
#ifndef CORE_SUMS_CUH
#define CORE_SUMS_CUH

#include "tensor.cuh"

// COUNT is a power of two. Each step halves the numbers that a lane still has to do with. At the end lane l holds
// number l * COUNT / 32; of 64 numbers in value[0] and value[1] numbers 2l and 2l + 1.
template <int COUNT, int LEFT = COUNT, int DISTANCE = 16> INLINE void sum_over_warp(float (&value)[COUNT]) {
  constexpr int left = LEFT > 1 ? LEFT / 2 : 1;
  const bool is_upper = threadIdx.x & DISTANCE;
  UNROLL
  for (int i = 0; i < left; i++) {
    const float other_half = value[LEFT > 1 ? i + left : i];
    const float own = is_upper ? other_half : value[i], others = is_upper ? value[i] : other_half;
    value[i] = own + __shfl_xor_sync(0xffffffffu, others, DISTANCE);
  }
  if constexpr (DISTANCE > 1) sum_over_warp<COUNT, left, DISTANCE / 2>(value);
}

// Each warp's sums to partial[warp][COUNT], for who comes behind a barrier.
template <int COUNT> INLINE void store_warp_sums(float (&value)[COUNT], float *partial) {
  constexpr int own = COUNT > 32 ? COUNT / 32 : 1, lanes = COUNT < 32 ? 32 / COUNT : 1;
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  sum_over_warp(value);
  if (lane % lanes) return;
  UNROLL
  for (int i = 0; i < own; i++) partial[warp * COUNT + lane / lanes * own + i] = value[i];
}

INLINE float sum_of_warps(const float *partial, int count, int number) {
  float sum = 0.0f;
#pragma unroll 4
  for (unsigned warp = 0; warp < blockDim.x / 32; warp++) sum += partial[warp * count + number];
  return sum;
}

// In all threads of the block, all of which call it. `partial` is free again when the call returns.
template <int COUNT> INLINE void sum_over_block(float (&value)[COUNT], float *partial) {
  store_warp_sums(value, partial);
  __syncthreads();
  UNROLL
  for (int i = 0; i < COUNT; i++) value[i] = 0.0f;
#pragma unroll(COUNT < 4 ? 4 : 1)
  for (unsigned warp = 0; warp < blockDim.x / 32; warp++) {
    UNROLL
    for (int i = 0; i < COUNT; i++) value[i] += partial[warp * COUNT + i];
  }
  __syncthreads();
}

#endif
