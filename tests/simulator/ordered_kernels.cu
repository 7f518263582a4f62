// SPDX-License-Identifier: MIT
// Kernels whose threads do much together, and all of it in order: a checked run has nothing to say.
#include "ordito_device.h"

// x [blocks, threads] -> sums [blocks]: shuffles in each warp, then the warps' sums through shared memory, twice in the
// same memory.
extern "C" __global__ void sum_by_warps(const float *x, float *sums) {
  __shared__ float of_warp[32];
  const unsigned t = threadIdx.x, warps = (blockDim.x + 31) / 32;
  float total = 0;
  for (unsigned round = 0; round < 2; round++) {
    float sum = x[blockIdx.x * blockDim.x + t];
    for (unsigned offset = 16; offset; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    if (t % 32 == 0) of_warp[t / 32] = sum;
    __syncthreads();
    if (t == 0)
      for (unsigned i = 0; i < warps; i++) total += of_warp[i];
    __syncthreads();
  }
  if (t == 0) sums[blockIdx.x] = total / 2;
}
ORD_EXPORT_KERNEL(sum_by_warps);

// a [n, n], b [n, n] -> c [n, n], 16 x 16 threads.
extern "C" __global__ void multiply_tiled(const float *a, const float *b, float *c, int n) {
  __shared__ float of_a[16][17], of_b[16][17];
  const int row = static_cast<int>(threadIdx.x / 16), column = static_cast<int>(threadIdx.x % 16);
  const int tiles = n / 16, i = static_cast<int>(blockIdx.x) / tiles * 16,
            j = static_cast<int>(blockIdx.x) % tiles * 16;
  float sum = 0;
  for (int k = 0; k < n; k += 16) {
    of_a[row][column] = a[(i + row) * n + k + column];
    of_b[row][column] = b[(k + row) * n + j + column];
    __syncthreads();
    for (int m = 0; m < 16; m++) sum += of_a[row][m] * of_b[m][column];
    __syncthreads();
  }
  c[(i + row) * n + j + column] = sum;
}
ORD_EXPORT_KERNEL(multiply_tiled);

// x [steps, threads] -> y [threads]: one buffer is filled while the other is read, one barrier for each step.
extern "C" __global__ void sum_double_buffered(const float *x, float *y, int steps) {
  ORD_DYNAMIC_SHARED(float, buffers); // [2, threads]
  const unsigned t = threadIdx.x, n = blockDim.x;
  buffers[t] = x[t];
  float sum = 0;
  for (int i = 0; i < steps; i++) {
    __syncthreads();
    if (i + 1 < steps) buffers[static_cast<unsigned>((i + 1) % 2) * n + t] = x[static_cast<unsigned>(i + 1) * n + t];
    sum += buffers[static_cast<unsigned>(i % 2) * n + n - 1 - t];
  }
  y[t] = sum;
}
ORD_EXPORT_KERNEL(sum_double_buffered);

// The same with copies that do not pass through registers: x [steps, 4 * threads] -> y [threads].
extern "C" __global__ void sum_copied(const float *x, float *y, int steps) {
  __shared__ __align__(16) float buffers[2][128];
  const unsigned t = threadIdx.x;
  const auto begin = [&](int step) {
    ord_copy16_async(buffers[step % 2] + t * 4, x + step * 128 + static_cast<int>(t) * 4, true);
    ord_copy_commit();
  };
  float sum = 0;
  begin(0);
  for (int i = 0; i < steps; i++) {
    ord_copy_wait<0>();
    __syncthreads();
    if (i + 1 < steps) begin(i + 1);
    sum += buffers[i % 2][127 - t];
  }
  y[t] = sum;
}
ORD_EXPORT_KERNEL(sum_copied);

// x [blocks, threads] -> *sum: the last block to finish adds the parts [blocks], and sets the ticket back.
// who: 0, thread 0 stores a part behind a barrier, and fences; 1, every thread fences, then a barrier; 2, a part comes
// from the lanes of a warp, whose first one fences.
extern "C" __global__ void combine_by_last(const float *x, float *parts, unsigned *ticket, float *sum, int who) {
  __shared__ bool is_last;
  __shared__ float row[64];
  const unsigned t = threadIdx.x;
  float *own = parts + blockIdx.x * 64;
  row[t] = x[blockIdx.x * 64 + t];
  __syncthreads();
  if (who == 0) {
    own[t] = row[63 - t];
    __syncthreads();
    if (t == 0) __threadfence();
  } else if (who == 1) {
    own[t] = row[63 - t];
    __threadfence();
    __syncthreads();
  } else {
    if (t < 32) {
      own[t] = row[t];
      own[t + 32] = row[t + 32];
      __syncwarp();
      if (t == 0) __threadfence();
    }
  }
  if (t == 0) is_last = atomicAdd(ticket, 1u) == gridDim.x - 1;
  __syncthreads();
  if (!is_last) return;
  float all = 0;
  for (unsigned i = t; i < gridDim.x * 64; i += 64) all += parts[i];
  row[t] = all;
  __syncthreads();
  if (t) return;
  for (unsigned i = 1; i < 64; i++) all += row[i];
  *sum = all;
  *ticket = 0;
}
ORD_EXPORT_KERNEL(combine_by_last);

// The last warp of a block, found by a counter in shared memory, adds what the others stored. sums [blocks]
extern "C" __global__ void combine_by_last_warp(const float *x, float *sums) {
  __shared__ unsigned count;
  __shared__ float of_warp[8];
  const unsigned t = threadIdx.x, warps = blockDim.x / 32;
  if (t == 0) count = 0;
  __syncthreads();
  float sum = x[blockIdx.x * blockDim.x + t];
  for (unsigned offset = 16; offset; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  if (t % 32) return;
  of_warp[t / 32] = sum;
  __threadfence_block();
  if (atomicAdd(&count, 1u) != warps - 1) return;
  float all = 0;
  for (unsigned i = 0; i < warps; i++) all += of_warp[i];
  sums[blockIdx.x] = all;
}
ORD_EXPORT_KERNEL(combine_by_last_warp);

// x [blocks, threads] of bytes below 16 -> counts [16].
extern "C" __global__ void count_values(const unsigned char *x, unsigned *counts) {
  __shared__ unsigned own[16];
  if (threadIdx.x < 16) own[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&own[x[blockIdx.x * blockDim.x + threadIdx.x]], 1u);
  __syncthreads();
  if (threadIdx.x < 16) atomicAdd(&counts[threadIdx.x], own[threadIdx.x]);
}
ORD_EXPORT_KERNEL(count_values);

// x [threads] -> y [threads] turned around within each half of each warp, by the lanes of the half.
extern "C" __global__ void reverse_half_warps(const float *x, float *y) {
  __shared__ float rows[1024];
  const unsigned t = threadIdx.x;
  rows[t] = x[t];
  __syncwarp(t % 32 < 16 ? 0x0000ffffu : 0xffff0000u);
  y[t] = rows[t / 16 * 16 + 15 - t % 16];
}
ORD_EXPORT_KERNEL(reverse_half_warps);

// Neighbours store into the same word: bytes, halves of a word, then all four as one.
extern "C" __global__ void store_narrow(unsigned char *bytes, unsigned short *pairs, unsigned *words) {
  const unsigned t = threadIdx.x;
  bytes[t] = static_cast<unsigned char>(t);
  pairs[t] = static_cast<unsigned short>(t);
  __syncthreads();
  unsigned word;
  memcpy(&word, bytes + t / 4 * 4, 4);
  words[t] = word + pairs[t ^ 1];
  __syncthreads();
  if (t % 4 == 0) *reinterpret_cast<unsigned *>(bytes + t) = 0;
  __syncthreads();
  words[t] += bytes[t ^ 3];
}
ORD_EXPORT_KERNEL(store_narrow);

struct sample {
  float values[12];
  int index;
};
extern "C" __global__ void copy_samples(const sample *from, sample *to, float4 *rows) {
  sample own = from[threadIdx.x];
  own.values[own.index & 7] += 1.0f;
  to[threadIdx.x] = own;
  rows[threadIdx.x] = float4{own.values[0], own.values[1], own.values[2], own.values[3]};
}
ORD_EXPORT_KERNEL(copy_samples);

// Mapped memory: values [n], and the word that says how many of them there are.
extern "C" __global__ void publish(uint64_t *word, float *values, int n) {
  for (int i = 0; i < n; i++) {
    values[i] = static_cast<float>(i);
    ord_store_release_system(word, static_cast<uint64_t>(i + 1));
  }
}
ORD_EXPORT_KERNEL(publish);

// 64 threads look at the host's word, and each block at what all may write.
extern "C" __global__ void look_at_word(const uint64_t *word, volatile unsigned *seen) {
  if (ord_load_acquire_system(word) > 2) *seen = 1;
}
ORD_EXPORT_KERNEL(look_at_word);

__constant__ float factors[4] = {1, 2, 3, 4};
extern "C" __global__ void scale_by_constants(float *x) { x[threadIdx.x] *= factors[threadIdx.x % 4]; }
ORD_EXPORT_KERNEL(scale_by_constants);
