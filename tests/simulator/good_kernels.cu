// SPDX-License-Identifier: MIT
// Kernels that do nothing wrong, compiled by g++ for the simulated device and by nvcc for a real one.
#include "cuda_builtins.h"

extern "C" __global__ void set_value(int *at, int value) { *at = value; }
EXPORT_KERNEL(set_value);

extern "C" __global__ void add_value(int *at, int value) { *at += value; }
EXPORT_KERNEL(add_value);

extern "C" __global__ void mixed_parameters(char first, double second, int third, double *sum) {
  *sum = first + second + third;
}
EXPORT_KERNEL(mixed_parameters);

struct __align__(128) wide {
  int values[32];
};
extern "C" __global__ void wide_parameter(int first, const wide by_value, int *sum) {
  const bool is_aligned = reinterpret_cast<unsigned long long>(&by_value) % 128 == 0;
  *sum = first + by_value.values[31] + is_aligned;
}
EXPORT_KERNEL(wide_parameter);

// x [n]: each element is its own global index.
extern "C" __global__ void number_elements(int *x, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) x[i] = i;
}
EXPORT_KERNEL(number_elements);

// x [blocks, 256]: each block turns its row around.
extern "C" __global__ void reverse_rows(float *x) {
  __shared__ float row[256];
  const unsigned t = threadIdx.x;
  float *own = x + blockIdx.x * 256;
  row[t] = own[t];
  __syncthreads();
  own[t] = row[255 - t];
}
EXPORT_KERNEL(reverse_rows);

// x [blocks, threads] -> sums [blocks], by a tree in dynamic shared memory.
extern "C" __global__ void sum_rows(const float *x, float *sums) {
  DYNAMIC_SHARED(float, partial);
  const unsigned t = threadIdx.x;
  partial[t] = x[blockIdx.x * blockDim.x + t];
  for (unsigned half = blockDim.x / 2; half; half /= 2) {
    __syncthreads();
    if (t < half) partial[t] += partial[t + half];
  }
  if (t == 0) sums[blockIdx.x] = partial[0];
}
EXPORT_KERNEL(sum_rows);

// x [threads], result [threads, 8]: what each way of asking a warp answers.
extern "C" __global__ void ask_warp(const int *x, int *result) {
  const int value = x[threadIdx.x], lane = static_cast<int>(threadIdx.x % 32);
  int *own = result + threadIdx.x * 8;
  int sum = value;
  for (int offset = 16; offset; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  own[0] = sum;
  own[1] = __shfl_sync(0xffffffffu, value, 5);
  own[2] = __shfl_up_sync(0xffffffffu, value, 1);
  own[3] = __shfl_down_sync(0xffffffffu, value, 1);
  own[4] = __shfl_sync(0xffffffffu, value, 1, 8);
  own[5] = static_cast<int>(__ballot_sync(0xffffffffu, value % 2));
  own[6] = __any_sync(0xffffffffu, value == 7) * 2 + __all_sync(0xffffffffu, value >= 0);
  own[7] = -1;
  if (lane < 16) own[7] = __shfl_sync(0x0000ffffu, value, 3);
  __syncwarp();
}
EXPORT_KERNEL(ask_warp);

extern "C" __global__ void count_even(const int *x, int *counts) {
  const int even = x[threadIdx.x] % 2 == 0;
  const int count = __syncthreads_count(even), every = __syncthreads_and(even), some = __syncthreads_or(even);
  if (threadIdx.x == 0) {
    counts[0] = count;
    counts[1] = every != 0;
    counts[2] = some != 0;
  }
}
EXPORT_KERNEL(count_even);

extern "C" __global__ void count_threads(unsigned *count, float *sum, unsigned *ticket) {
  atomicAdd(count, 1u);
  atomicAdd(sum, 0.5f);
  atomicInc(ticket, 99u);
}
EXPORT_KERNEL(count_threads);

// The body of a loop: adds to *sum, and goes on while *left is not yet 0.
extern "C" __global__ void count_down(int *left, int *sum, cudaGraphConditionalHandle handle) {
  *sum += *left;
  *left -= 1;
  cudaGraphSetConditional(handle, *left > 0);
}
EXPORT_KERNEL(count_down);

// Waits for the host's word in mapped memory, then answers in the next one.
extern "C" __global__ void answer_host(volatile int *words) {
  while (words[0] == 0) {
  }
  words[1] = words[0] + 1;
}
EXPORT_KERNEL(answer_host);
