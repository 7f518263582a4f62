// SPDX-License-Identifier: MIT
// One mistake each.
#include "cuda_builtins.h"

extern "C" __global__ void write_at(float *x, long index) { x[index] = 1.0f; }
EXPORT_KERNEL(write_at);

extern "C" __global__ void divergent_barrier(int *x) {
  if (threadIdx.x < 16) __syncthreads();
  x[threadIdx.x] = 1;
}
EXPORT_KERNEL(divergent_barrier);

extern "C" __global__ void two_barriers() {
  if (threadIdx.x % 2)
    __syncthreads();
  else
    __syncthreads();
}
EXPORT_KERNEL(two_barriers);

extern "C" __global__ void barrier_against_shuffle(int *x) {
  if (threadIdx.x < 16)
    __syncthreads();
  else
    x[threadIdx.x] = __shfl_sync(0xffffffffu, x[threadIdx.x], 0);
}
EXPORT_KERNEL(barrier_against_shuffle);

extern "C" __global__ void exited_lanes(int *x) {
  if (threadIdx.x >= 16) return;
  x[threadIdx.x] = __shfl_sync(0xffffffffu, x[threadIdx.x], 0);
}
EXPORT_KERNEL(exited_lanes);

extern "C" __global__ void mask_without_itself() { __syncwarp(0xfffffffeu); }
EXPORT_KERNEL(mask_without_itself);

extern "C" __global__ void lane_outside_mask(int *x) {
  if (threadIdx.x < 16) x[threadIdx.x] = __shfl_sync(0x0000ffffu, x[threadIdx.x], 20);
}
EXPORT_KERNEL(lane_outside_mask);

extern "C" __global__ void vote_against_shuffle(int *x) {
  if (threadIdx.x % 2)
    x[0] = static_cast<int>(__ballot_sync(0xffffffffu, 1));
  else
    x[1] = __shfl_sync(0xffffffffu, 1, 0);
}
EXPORT_KERNEL(vote_against_shuffle);

extern "C" __global__ void endless(volatile int *x) {
  while (*x != 1) {
  }
}
EXPORT_KERNEL(endless);

extern "C" __global__ void beyond_shared(int index, float *x) {
  DYNAMIC_SHARED(float, tile);
  tile[index] = 1.0f;
  *x = tile[index];
}
EXPORT_KERNEL(beyond_shared);

// Reads what no thread wrote.
extern "C" __global__ void read_shared(float *x) {
  __shared__ float tile[32];
  DYNAMIC_SHARED(float, other);
  if (threadIdx.x > 64) tile[threadIdx.x % 32] = 0.0f;
  x[0] = tile[threadIdx.x];
  x[1] = other[0];
}
EXPORT_KERNEL(read_shared);

static __device__ int descend(volatile int *x, int depth) {
  volatile int frame[1024];
  frame[depth % 1024] = *x;
  return depth < 1000000 ? descend(x, depth + 1) + frame[depth % 1024] : 0;
}
extern "C" __global__ void deep_stack(int *x) { *x = descend(x, 0); }
EXPORT_KERNEL(deep_stack);

extern "C" __global__ void trapped() { __trap(); }
EXPORT_KERNEL(trapped);

extern "C" __global__ void divided(volatile int *x) { *x = 100 / *x; }
EXPORT_KERNEL(divided);

// x [32]: without the barrier a thread may read what its neighbour has not yet written.
extern "C" __global__ void missing_barrier(int *x) {
  __shared__ int row[32];
  row[threadIdx.x] = static_cast<int>(threadIdx.x);
  x[threadIdx.x] = row[31 - threadIdx.x];
}
EXPORT_KERNEL(missing_barrier);

extern "C" __global__ void set_condition(cudaGraphConditionalHandle handle) { cudaGraphSetConditional(handle, 1); }
EXPORT_KERNEL(set_condition);
