// SPDX-License-Identifier: MIT
// One mistake each, on the line that is marked with the kernel's name: what a checked run has to find, and what a plain
// run may miss. x [n] holds 0, 1, 2 .., y [n] zeros.
#include "ordito_device.h"

// 64 threads: what a neighbour stored is read without a barrier.
extern "C" __global__ void load_without_barrier(const float *x, float *y, int) {
  __shared__ float tile[64];
  const unsigned t = threadIdx.x;
  tile[t] = x[t];
  y[t] = tile[63 - t]; // [load_without_barrier]
}
ORD_EXPORT_KERNEL(load_without_barrier);

// 64 threads: the next tile is stored while others may still read this one.
extern "C" __global__ void reload_without_barrier(const float *x, float *y, int) {
  __shared__ float tile[64];
  const unsigned t = threadIdx.x;
  float sum = 0;
  for (unsigned i = 0; i < 2; i++) {
    tile[t] = x[i * 64 + t]; // [reload_without_barrier]
    __syncthreads();
    sum += tile[63 - t];
  }
  y[t] = sum;
}
ORD_EXPORT_KERNEL(reload_without_barrier);

// 32 threads: a shuffle brings the lanes together, but orders nothing that they do to memory.
extern "C" __global__ void missing_warp_sync(const float *x, float *y, int) {
  __shared__ float row[32];
  const unsigned t = threadIdx.x;
  row[t] = x[t];
  const float sum = __shfl_xor_sync(0xffffffffu, x[t], 1);
  y[t] = row[t ^ 1] + sum; // [missing_warp_sync]
}
ORD_EXPORT_KERNEL(missing_warp_sync);

// The lanes of one half wait for each other, and read what the other half stored.
extern "C" __global__ void narrow_warp_sync(const float *x, float *y, int) {
  __shared__ float row[32];
  const unsigned t = threadIdx.x;
  row[t] = x[t];
  __syncwarp(t < 16 ? 0x0000ffffu : 0xffff0000u);
  y[t] = row[31 - t]; // [narrow_warp_sync]
}
ORD_EXPORT_KERNEL(narrow_warp_sync);

// y [blocks, 16], 17 threads: each block writes into the next one's row.
extern "C" __global__ void long_row(const float *, float *y, int) {
  y[blockIdx.x * 16 + threadIdx.x] = 1.0f; // [long_row]
}
ORD_EXPORT_KERNEL(long_row);

extern "C" __global__ void one_past_the_end(const float *, float *y, int n) {
  y[n] = 1.0f; // [one_past_the_end]
}
ORD_EXPORT_KERNEL(one_past_the_end);

// The first of four numbers still lies inside.
extern "C" __global__ void vector_past_the_end(float *x, float *, int n) {
  reinterpret_cast<float4 *>(x)[n / 4] = float4{1, 2, 3, 4}; // [vector_past_the_end]
}
ORD_EXPORT_KERNEL(vector_past_the_end);

extern "C" __global__ void before_the_start(const float *x, float *y, int) {
  y[0] = x[-1]; // [before_the_start]
}
ORD_EXPORT_KERNEL(before_the_start);

// 32 threads: the copy is begun and not waited for.
extern "C" __global__ void forgotten_wait(const float *x, float *y, int) {
  __shared__ __align__(16) float row[128];
  ord_copy16_async(row + threadIdx.x * 4, x + threadIdx.x * 4, true);
  ord_copy_commit();
  __syncthreads();
  y[threadIdx.x] = row[threadIdx.x]; // [forgotten_wait]
}
ORD_EXPORT_KERNEL(forgotten_wait);

// The second copy into the same row begins while others may still read the first; that it is waited for behind a
// barrier does not help.
extern "C" __global__ void early_copy(const float *x, float *y, int) {
  __shared__ __align__(16) float row[128];
  const unsigned t = threadIdx.x;
  float sum = 0;
  for (unsigned i = 0; i < 2; i++) {
    ord_copy16_async(row + t * 4, x + t * 4, true); // [early_copy]
    ord_copy_commit();
    __syncthreads();
    ord_copy_wait<0>();
    __syncthreads();
    sum += row[127 - t];
  }
  y[t] = sum;
}
ORD_EXPORT_KERNEL(early_copy);

extern "C" __global__ void sum_without_atomic(const float *x, float *y, int) {
  *y += x[blockIdx.x * blockDim.x + threadIdx.x]; // [sum_without_atomic]
}
ORD_EXPORT_KERNEL(sum_without_atomic);

// Between the threads of one block.
extern "C" __global__ void read_neighbour(const float *x, float *y, int) {
  y[threadIdx.x] = x[threadIdx.x];
  if (threadIdx.x) y[threadIdx.x + 64] = y[threadIdx.x - 1]; // [read_neighbour]
}
ORD_EXPORT_KERNEL(read_neighbour);

extern "C" __global__ void read_other_block(const float *x, float *y, int) {
  if (blockIdx.x) y[blockIdx.x + 64] = y[blockIdx.x - 1]; // [read_other_block]
  y[blockIdx.x] = x[blockIdx.x];
}
ORD_EXPORT_KERNEL(read_other_block);

// y [blocks] is overwritten by the next block, which the one before has read.
extern "C" __global__ void write_other_block(float *x, float *y, int) {
  y[blockIdx.x] = x[blockIdx.x + 1];
  x[blockIdx.x] = 0.0f; // [write_other_block]
}
ORD_EXPORT_KERNEL(write_other_block);

// An atomic sum that is read before all have added to it.
extern "C" __global__ void early_sum(const float *, float *y, int) {
  atomicAdd(y, 1.0f); // [early_sum]
  y[threadIdx.x + 1] = *y;
}
ORD_EXPORT_KERNEL(early_sum);

// y: [0] a ticket, [1] the sum, [2 + blocks] the parts. The last block adds them, but no fence is between a part and
// the ticket, or one that is for the block only.
template <typename Fence> static __device__ void add_parts(const float *x, float *y, Fence fence) {
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    y[2 + blockIdx.x] = x[blockIdx.x];
    fence();
    is_last = atomicAdd(reinterpret_cast<unsigned *>(y), 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last || threadIdx.x) return;
  float sum = 0;
  for (unsigned i = 0; i < gridDim.x; i++) sum += y[2 + i]; // [missing_fence] [narrow_fence]
  y[1] = sum;
}
extern "C" __global__ void missing_fence(const float *x, float *y, int) {
  add_parts(x, y, [] {});
}
ORD_EXPORT_KERNEL(missing_fence);
extern "C" __global__ void narrow_fence(const float *x, float *y, int) {
  add_parts(x, y, [] { __threadfence_block(); });
}
ORD_EXPORT_KERNEL(narrow_fence);

// The parts are stored behind the fence.
extern "C" __global__ void early_fence(const float *x, float *y, int) {
  if (threadIdx.x) return;
  __threadfence();
  y[2 + blockIdx.x] = x[blockIdx.x];
  if (atomicAdd(reinterpret_cast<unsigned *>(y), 1u) != gridDim.x - 1) return;
  for (unsigned i = 0; i < gridDim.x; i++) y[1] += y[2 + i]; // [early_fence]
}
ORD_EXPORT_KERNEL(early_fence);

extern "C" __global__ void index_overflow(const float *x, float *y, int n) {
  y[0] = x[(n * n) & 15]; // [index_overflow]
}
ORD_EXPORT_KERNEL(index_overflow);

extern "C" __global__ void bad_shift(const float *, float *y, int n) {
  y[0] = static_cast<float>(1u << n); // [bad_shift]
}
ORD_EXPORT_KERNEL(bad_shift);

extern "C" __global__ void bad_index(const float *x, float *y, int n) {
  __shared__ float rows[2][16], other[16];
  rows[0][threadIdx.x] = other[threadIdx.x] = x[threadIdx.x];
  y[threadIdx.x] = rows[0][n]; // [bad_index]
}
ORD_EXPORT_KERNEL(bad_index);

static __device__ float last_of(const float *row, int n) {
  return row[n]; // [beyond_static_shared]
}
extern "C" __global__ void beyond_static_shared(const float *x, float *y, int n) {
  __shared__ float row[16];
  row[threadIdx.x] = x[threadIdx.x];
  y[threadIdx.x] = last_of(row, n);
}
ORD_EXPORT_KERNEL(beyond_static_shared);

extern "C" __global__ void beyond_dynamic_shared(const float *x, float *y, int n) {
  ORD_DYNAMIC_SHARED(float, row);
  row[n] = x[0]; // [beyond_dynamic_shared]
  y[0] = row[n];
}
ORD_EXPORT_KERNEL(beyond_dynamic_shared);

extern "C" __global__ void misaligned_vector(const float *x, float *y, int) {
  y[0] = reinterpret_cast<const float2 *>(x + 1)->x; // [misaligned_vector]
}
ORD_EXPORT_KERNEL(misaligned_vector);

extern "C" __global__ void unwritten_shared(const float *x, float *y, int) {
  __shared__ float row[32];
  if (threadIdx.x < 31) row[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = row[threadIdx.x]; // [unwritten_shared]
}
ORD_EXPORT_KERNEL(unwritten_shared);

// Of what is given it reads x; what x must be for this to be a mistake, the test knows.
extern "C" __global__ void read_given(const float *x, float *y, int) {
  y[0] = x[0]; // [read_given]
}
ORD_EXPORT_KERNEL(read_given);
