// SPDX-License-Identifier: MIT
//
// The order of tokens in a row of logits, and what a block of SAMPLE_THREADS threads finds out about it. Greater logits
// come first, of equal ones the lower id: a key is a number of 64 bits that is the greater the earlier its token comes,
// and 0 where there is no candidate.
#ifndef CORE_ORDER_CUH
#define CORE_ORDER_CUH

#include "sample.h"
#include "tensor.cuh"

#include <float.h>

// ---- keys ----

// NaN and -infinity are no candidates, +infinity counts as FLT_MAX, and the two zeros are equal.
INLINE uint64_t key_of(float logit, uint32_t id) {
  if (!(logit > -INFINITY)) return 0;
  const uint32_t bits = __float_as_uint(logit == 0.0f ? 0.0f : fminf(logit, FLT_MAX));
  const uint32_t order = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return (uint64_t)order << 32 | (uint32_t)~id;
}

INLINE int32_t id_of(uint64_t key) { return (int32_t) ~(uint32_t)key; }

INLINE float logit_of(uint64_t key) {
  const uint32_t order = (uint32_t)(key >> 32);
  return __uint_as_float(order & 0x80000000u ? order ^ 0x80000000u : ~order);
}

// ---- what all threads know together ----

typedef struct block_memory {
  uint64_t list[SAMPLE_THREADS];
  uint64_t of_warp[SAMPLE_THREADS / 32];
  double sum_of_warp[SAMPLE_THREADS / 32];
  unsigned count;
} block_memory;

// In every thread, all of which call it; always joined in the same order. `of_warp` is free again when it returns.
template <typename Value, typename Join> INLINE Value over_block(Value value, Value *of_warp, Join join) {
  for (int distance = 16; distance; distance /= 2) value = join(value, __shfl_xor_sync(0xffffffffu, value, distance));
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  value = of_warp[0];
  for (unsigned warp = 1; warp < blockDim.x / 32; warp++) value = join(value, of_warp[warp]);
  __syncthreads();
  return value;
}

INLINE uint64_t block_max(uint64_t value, block_memory *memory) {
  return over_block(value, memory->of_warp, [](uint64_t a, uint64_t b) { return a < b ? b : a; });
}
INLINE uint64_t block_min(uint64_t value, block_memory *memory) {
  return over_block(value, memory->of_warp, [](uint64_t a, uint64_t b) { return a < b ? a : b; });
}
INLINE uint64_t block_count(uint64_t value, block_memory *memory) {
  return over_block(value, memory->of_warp, [](uint64_t a, uint64_t b) { return a + b; });
}
INLINE double block_sum(double value, block_memory *memory) {
  return over_block(value, memory->sum_of_warp, [](double a, double b) { return a + b; });
}

// The sum of the values of this thread and those before it.
INLINE double sum_up_to_here(double value, block_memory *memory) {
  const unsigned lane = threadIdx.x % 32, own_warp = threadIdx.x / 32;
  for (unsigned distance = 1; distance < 32; distance *= 2) {
    const double before = __shfl_up_sync(0xffffffffu, value, distance);
    if (lane >= distance) value += before;
  }
  if (lane == 31) memory->sum_of_warp[own_warp] = value;
  __syncthreads();
  double sum = 0;
  for (unsigned warp = 0; warp < own_warp; warp++) sum += memory->sum_of_warp[warp];
  __syncthreads();
  return sum + value;
}

// Thread number i gets the i-th greatest of the threads' numbers: a bitonic sort, whose near exchanges are shuffles.
INLINE uint64_t sorted(uint64_t own, block_memory *memory) {
  for (unsigned size = 2; size <= SAMPLE_THREADS; size *= 2)
    for (unsigned distance = size / 2; distance; distance /= 2) {
      uint64_t other;
      if (distance < 32) {
        other = __shfl_xor_sync(0xffffffffu, own, distance);
      } else {
        memory->list[threadIdx.x] = own;
        __syncthreads();
        other = memory->list[threadIdx.x ^ distance];
        __syncthreads();
      }
      const bool takes_greater = !(threadIdx.x & distance) == !(threadIdx.x & size);
      own = (own < other) == takes_greater ? other : own;
    }
  return own;
}

// ---- a row ----

struct token_row {
  const char *logit;
  int64_t stride;
  uint32_t type;
  int32_t vocab;
};

// Calls use(id, logit) for this thread's share of the row.
template <typename Use> INLINE void for_logits(const token_row &row, Use use) {
  const bool is_vector = row.type == ORD_F32 && row.stride == sizeof(float) && (uintptr_t)row.logit % 16 == 0;
  const int32_t first_single = is_vector ? row.vocab / 4 * 4 : 0;
  for (int32_t id = (int32_t)threadIdx.x * 4; id < first_single; id += SAMPLE_THREADS * 4) {
    const float4 four = *(const float4 *)(row.logit + (int64_t)id * sizeof(float));
    use(id, four.x), use(id + 1, four.y), use(id + 2, four.z), use(id + 3, four.w);
  }
  for (int64_t id = first_single + (int64_t)threadIdx.x; id < row.vocab; id += SAMPLE_THREADS)
    use((int32_t)id, read_number(row.logit + id * row.stride, row.type));
}

// The list of the first tokens in order, at least `wanted` of them if there are as many: thread number i gets the key
// of the i-th, 0 behind the last. `own` is the first key of the thread's share: as many tokens as threads are at least
// as good as the wanted-th of these. False, in all threads, if more than fit are that good.
INLINE bool list_first(const token_row &row, uint64_t own, unsigned wanted, uint64_t *key, block_memory *memory) {
  const uint64_t first_keys = sorted(own, memory);
  if (threadIdx.x == wanted - 1) memory->of_warp[0] = first_keys ? first_keys : 1; // 1: every candidate
  if (threadIdx.x == 0) memory->count = 0;
  __syncthreads();
  const uint64_t least = memory->of_warp[0];
  for_logits(row, [&](int32_t id, float logit) {
    const uint64_t found = key_of(logit, (uint32_t)id);
    if (found < least) return;
    const unsigned place = atomicAdd(&memory->count, 1u);
    if (place < SAMPLE_THREADS) memory->list[place] = found;
  });
  __syncthreads();
  const unsigned count = memory->count;
  const uint64_t listed = threadIdx.x < count ? memory->list[threadIdx.x] : 0;
  __syncthreads();
  if (count > SAMPLE_THREADS) return false;
  *key = sorted(listed, memory);
  return true;
}

// The greatest key for which reached(key) is true in all threads, given that it is for every smaller one; 0: none.
template <typename Reached> INLINE uint64_t find_cut(Reached reached) {
  uint64_t cut = 0;
  for (int bit = 63; bit >= 0; bit--)
    if (reached(cut | UINT64_C(1) << bit)) cut |= UINT64_C(1) << bit;
  return cut;
}

#endif
