// SPDX-License-Identifier: MIT
// The functions of ordito_device.h, one or two in each kernel, and what may be done wrong with them.
#include "ordito_device.h"

// a [16, 16], b [8, 16] (its columns as rows), sum [16, 8]; the fragments are filled by hand.
template <typename Multiply>
static __device__ void multiply_tile(const uint16_t *a, const uint16_t *b, float *sum, Multiply multiply) {
  const unsigned g = threadIdx.x / 4, t = threadIdx.x % 4;
  const auto pair = [](const uint16_t *at) { return at[0] | static_cast<uint32_t>(at[1]) << 16; };
  const uint32_t left[4] = {pair(a + g * 16 + t * 2), pair(a + (g + 8) * 16 + t * 2), pair(a + g * 16 + t * 2 + 8),
                            pair(a + (g + 8) * 16 + t * 2 + 8)};
  float own[4];
  for (unsigned i = 0; i < 4; i++) own[i] = sum[(g + i / 2 * 8) * 8 + t * 2 + i % 2];
  multiply(own, left, pair(b + g * 16 + t * 2), pair(b + g * 16 + t * 2 + 8));
  for (unsigned i = 0; i < 4; i++) sum[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = own[i];
}

extern "C" __global__ void multiply_bf16(const uint16_t *a, const uint16_t *b, float *sum) {
  multiply_tile(a, b, sum, [](auto &own, auto &left, uint32_t b0, uint32_t b1) { ord_mma_bf16(own, left, b0, b1); });
}
ORD_EXPORT_KERNEL(multiply_bf16);

extern "C" __global__ void multiply_f16(const uint16_t *a, const uint16_t *b, float *sum) {
  multiply_tile(a, b, sum, [](auto &own, auto &left, uint32_t b0, uint32_t b1) { ord_mma_f16(own, left, b0, b1); });
}
ORD_EXPORT_KERNEL(multiply_f16);

// a [16, 16], b [16, 8], sum [16, 8] in bf16, through shared memory: what attention does with its weights and values.
extern "C" __global__ void multiply_loaded(const uint16_t *a, const uint16_t *b, float *sum) {
  __shared__ __align__(16) uint16_t left[16 * 16];
  __shared__ __align__(16) uint16_t right[16 * 16]; // columns 8 and up are another matrix
  const unsigned lane = threadIdx.x, g = lane / 4, t = lane % 4;
  for (unsigned i = lane; i < 256; i += 32) {
    left[i] = a[i];
    right[i] = i % 16 < 8 ? b[i / 16 * 8 + i % 16] : 0x3f80;
  }
  __syncwarp();
  uint32_t of_a[4], of_b[4];
  ord_load_matrix_x4(of_a, left + lane % 16 * 16 + lane / 16 * 8);
  ord_load_matrix_x4_transposed(of_b, right + lane % 16 * 16 + lane / 16 * 8);
  float own[4] = {0, 0, 0, 0};
  ord_mma_bf16(own, of_a, of_b[0], of_b[1]);
  for (unsigned i = 0; i < 4; i++) sum[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = own[i];
}
ORD_EXPORT_KERNEL(multiply_loaded);

// x, y [4 * 32]: the upper half is not copied. Without the wait nothing is there yet.
static __device__ void copy_row(const float *x, float *y, bool waits) {
  __shared__ __align__(16) float row[128];
  ord_copy16_async(row + threadIdx.x * 4, x + threadIdx.x * 4, threadIdx.x < 16);
  ord_copy_commit();
  if (waits) ord_copy_wait<0>();
  __syncthreads();
  for (unsigned i = threadIdx.x; i < 128; i += 32) y[i] = row[127 - i];
}

extern "C" __global__ void copy_and_wait(const float *x, float *y) { copy_row(x, y, true); }
ORD_EXPORT_KERNEL(copy_and_wait);

extern "C" __global__ void copy_without_wait(const float *x, float *y) { copy_row(x, y, false); }
ORD_EXPORT_KERNEL(copy_without_wait);

// x, y [2, 4], one thread: the first of two groups is waited for.
extern "C" __global__ void copy_in_groups(const float *x, float *y) {
  __shared__ __align__(16) float rows[8];
  for (unsigned i = 0; i < 2; i++) {
    ord_copy16_async(rows + i * 4, x + i * 4, true);
    ord_copy_commit();
  }
  ord_copy_wait<1>();
  for (unsigned i = 0; i < 8; i++) y[i] = rows[i];
}
ORD_EXPORT_KERNEL(copy_in_groups);

extern "C" __global__ void copy_without_commit(const float *x, float *y) {
  __shared__ __align__(16) float row[4];
  ord_copy16_async(row, x, true);
  ord_copy_wait<0>();
  *y = row[0];
}
ORD_EXPORT_KERNEL(copy_without_commit);

extern "C" __global__ void copy_unaligned(const float *x) {
  __shared__ __align__(16) float row[4];
  ord_copy16_async(row, x + 1, true);
}
ORD_EXPORT_KERNEL(copy_unaligned);

extern "C" __global__ void load_unaligned(const float *x, float *y) { *y = __uint_as_float(ord_load16(x + 1).x); }
ORD_EXPORT_KERNEL(load_unaligned);

extern "C" __global__ void matrix_unaligned(uint32_t *y) {
  __shared__ __align__(16) uint16_t rows[512];
  uint32_t out[4];
  ord_load_matrix_x4(out, rows + threadIdx.x * 4);
  *y = out[0];
}
ORD_EXPORT_KERNEL(matrix_unaligned);

extern "C" __global__ void divergent_mma(float *y) {
  float sum[4] = {0, 0, 0, 0};
  const uint32_t a[4] = {0, 0, 0, 0};
  if (threadIdx.x < 16) ord_mma_bf16(sum, a, 0, 0);
  y[threadIdx.x] = sum[0] + __shfl_sync(0xffffffffu, 1.0f, 0);
}
ORD_EXPORT_KERNEL(divergent_mma);

// x [threads], y [3]: sum, largest, what the streaming load finds.
extern "C" __global__ void reduce_block(const float *x, float *y) {
  ORD_DYNAMIC_SHARED(float, scratch);
  ord_dependency_wait();
  const float sum = ord_block_sum(x[threadIdx.x], scratch), largest = ord_block_max(x[threadIdx.x], scratch);
  ord_dependency_trigger();
  if (threadIdx.x == 0) {
    const uint4 four = ord_load16(x);
    y[0] = sum;
    y[1] = largest;
    y[2] = __uint_as_float(four.y) + __uint_as_float(four.w);
  }
}
ORD_EXPORT_KERNEL(reduce_block);

// parts [blocks], sum [1]: each block leaves a part, the last one adds them up.
extern "C" __global__ void sum_by_last(float *parts, float *sum, unsigned *ticket) {
  __shared__ unsigned scratch;
  if (threadIdx.x == 0) parts[blockIdx.x] = static_cast<float>(blockIdx.x + 1);
  if (!ord_is_last_block(ticket, gridDim.x, &scratch)) return;
  if (threadIdx.x) return;
  float all = 0;
  for (unsigned i = 0; i < gridDim.x; i++) all += parts[i];
  *sum += all;
}
ORD_EXPORT_KERNEL(sum_by_last);

// x [2 n] -> bf16 [n] pairs and f16 [n] pairs, and back into y [4 n].
extern "C" __global__ void convert_pairs(const float *x, uint32_t *pairs, float *y) {
  const unsigned i = threadIdx.x, n = blockDim.x;
  pairs[i] = ord_pack_bf16(x[i * 2], x[i * 2 + 1]);
  pairs[n + i] = ord_pack_f16(x[i * 2], x[i * 2 + 1]);
  const float2 bf16 = ord_unpack_bf16(pairs[i]), f16 = ord_unpack_f16(pairs[n + i]);
  y[i * 2] = bf16.x, y[i * 2 + 1] = bf16.y;
  y[(n + i) * 2] = f16.x, y[(n + i) * 2 + 1] = f16.y;
}
ORD_EXPORT_KERNEL(convert_pairs);

// Answers the host's word in mapped memory.
extern "C" __global__ void answer_word(const uint32_t *question, uint64_t *answer) {
  uint32_t word;
  while (!(word = ord_load_acquire_system(question))) {
  }
  ord_store_release_system(answer, uint64_t{word} << 32 | 7u);
}
ORD_EXPORT_KERNEL(answer_word);

extern "C" __global__ void set_condition_of(uint64_t handle) { ord_set_condition(handle, true); }
ORD_EXPORT_KERNEL(set_condition_of);
