// SPDX-License-Identifier: MIT
// Streaming reads: what the memory of the device gives when nothing but reading is done, and what empties its caches.
// Each thread reads 16 bytes at a time, some of them in flight, those of a warp side by side.
#include "ordito_device.h"

// memory (count) of 16 bytes: each word gets its number. Neither equal nor few values, so that no memory can make less
// of them.
extern "C" __global__ void probe_fill(uint4 *memory, uint64_t count) {
  const uint64_t threads = (uint64_t)gridDim.x * blockDim.x;
  for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += threads) {
    const uint32_t first = (uint32_t)(4 * i);
    memory[i] = make_uint4(first, first + 1, first + 2, first + 3);
  }
}
ORD_EXPORT_KERNEL(probe_fill);

// ---------------------------------------------------------------------------------------------------------------------

static __device__ __forceinline__ uint32_t sum_words(uint4 value) { return value.x + value.y + value.z + value.w; }

// sum (threads): of what each thread read, so that it is read.
template <int in_flight>
static __device__ __forceinline__ void read_all(const uint4 *memory, uint64_t count, uint32_t *sum) {
  const uint64_t threads = (uint64_t)gridDim.x * blockDim.x;
  const uint64_t thread = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
  uint32_t own = 0;
  uint64_t i = thread;
  for (; i + (in_flight - 1) * threads < count; i += in_flight * threads) {
    uint4 value[in_flight];
#pragma unroll
    for (int n = 0; n < in_flight; n++) value[n] = ord_load16(&memory[i + n * threads]);
#pragma unroll
    for (int n = 0; n < in_flight; n++) own += sum_words(value[n]);
  }
  for (; i < count; i += threads) own += sum_words(ord_load16(&memory[i]));
  sum[thread] = own;
}

extern "C" __global__ void probe_read_2(const uint4 *memory, uint64_t count, uint32_t *sum) {
  read_all<2>(memory, count, sum);
}
ORD_EXPORT_KERNEL(probe_read_2);

extern "C" __global__ void probe_read_4(const uint4 *memory, uint64_t count, uint32_t *sum) {
  read_all<4>(memory, count, sum);
}
ORD_EXPORT_KERNEL(probe_read_4);

extern "C" __global__ void probe_read_8(const uint4 *memory, uint64_t count, uint32_t *sum) {
  read_all<8>(memory, count, sum);
}
ORD_EXPORT_KERNEL(probe_read_8);
