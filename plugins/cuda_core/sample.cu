// SPDX-License-Identifier: MIT
//
// sample: the next token of each row, one block a row. Which token it is must not depend on the kernel, so this follows
// ops/sample.c step by step: candidates, order, top-k, double weights, top-p, one Philox number. What is kept is mostly
// a few tokens, which a list holds, one for each thread; where they are too many, a cut in the order stands for them
// and their weights lie in global memory. Sums are made in double, in a fixed order, but not one by one: where a number
// of the rule falls within their rounding of a border between two tokens, the other one may come out.
#include "order.cuh"
#include "sample.h"

// How many tokens of a top-k, or of a top-p alone, are looked for in the list.
enum { FIRST_MAX = 256 };

// ---- the generator: Philox 4x32-10 ---------------------------------------------------------------------------------

enum { PHILOX_ROUNDS = 10 };

INLINE double uniform(uint64_t seed, uint64_t counter) {
  uint32_t word[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0};
  uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  UNROLL
  for (int round = 0; round < PHILOX_ROUNDS; round++) {
    const uint64_t a = UINT64_C(0xD2511F53) * word[0], b = UINT64_C(0xCD9E8D57) * word[2];
    const uint32_t third = (uint32_t)(a >> 32) ^ word[3] ^ key[1];
    word[0] = (uint32_t)(b >> 32) ^ word[1] ^ key[0];
    word[1] = (uint32_t)b;
    word[2] = third;
    word[3] = (uint32_t)a;
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return (double)(((uint64_t)word[1] << 32 | word[0]) >> 11) * 0x1p-53;
}

// ---- a request -----------------------------------------------------------------------------------------------------

struct request {
  float temperature, top_p;
  int32_t top_k; // 0: none
  uint64_t seed, counter;
};

INLINE const char *entry(const core_tensor &numbers, int64_t row) { return numbers.data + row * numbers.stride[0]; }

INLINE request read_request(const sample_arguments &a, int64_t row, int32_t vocab) {
  request made;
  made.temperature = *(const float *)entry(a.temperature, row);
  made.top_p = *(const float *)entry(a.top_p, row);
  made.seed = *(const uint64_t *)entry(a.seed, row);
  made.counter = *(const uint64_t *)entry(a.counter, row);
  const int32_t top_k = *(const int32_t *)entry(a.top_k, row);
  made.top_k = top_k > 0 && top_k < vocab ? top_k : 0;
  return made;
}

INLINE double weight_of(float logit, float best, float temperature) {
  return exp(((double)logit - (double)best) / (double)temperature);
}

// ---- of a list -----------------------------------------------------------------------------------------------------

// How many of the first `count` tokens reach the share of `total` together; count + 1 if they do not.
INLINE unsigned count_of_mass(double weight, unsigned count, double wanted, block_memory *memory) {
  const double sum = sum_up_to_here(threadIdx.x < count ? weight : 0.0, memory);
  return (unsigned)block_min(threadIdx.x < count && sum >= wanted ? threadIdx.x + 1 : count + 1, memory);
}

// One of the first `count` tokens of the list, in ascending order of the ids.
INLINE int32_t draw_from_list(uint64_t key, unsigned count, float best, const request &wish, block_memory *memory) {
  const uint64_t exchanged = threadIdx.x < count ? key << 32 | key >> 32 : 0;
  const uint64_t by_id = sorted(exchanged, memory), own = by_id << 32 | by_id >> 32;
  const bool is_kept = threadIdx.x < count;
  const double sum = sum_up_to_here(is_kept ? weight_of(logit_of(own), best, wish.temperature) : 0.0, memory);
  if (threadIdx.x == count - 1) memory->sum_of_warp[0] = sum;
  __syncthreads();
  const double wanted = uniform(wish.seed, wish.counter) * memory->sum_of_warp[0];
  const unsigned chosen = (unsigned)block_min(is_kept && sum > wanted ? threadIdx.x : count - 1, memory);
  if (threadIdx.x == chosen) memory->list[0] = own;
  __syncthreads();
  const int32_t token = id_of(memory->list[0]);
  __syncthreads();
  return token;
}

// ---- of the whole row ----------------------------------------------------------------------------------------------

// Weights of the tokens from `cut` on in order, 0 for all others; returns their sum.
INLINE double weigh(const token_row &row, uint64_t cut, float best, float temperature, double *weight,
                    block_memory *memory) {
  double sum = 0;
  for_logits(row, [&](int32_t id, float logit) {
    const uint64_t key = key_of(logit, (uint32_t)id);
    weight[id] = key >= cut ? weight_of(logit_of(key), best, temperature) : 0.0;
    sum += weight[id];
  });
  return block_sum(sum, memory);
}

INLINE double mass_from(const token_row &row, uint64_t cut, const double *weight, block_memory *memory) {
  double sum = 0;
  for_logits(row, [&](int32_t id, float logit) {
    if (key_of(logit, (uint32_t)id) >= cut) sum += weight[id];
  });
  return block_sum(sum, memory);
}

INLINE uint64_t count_from(const token_row &row, uint64_t cut, block_memory *memory) {
  uint64_t count = 0;
  for_logits(row, [&](int32_t id, float logit) { count += key_of(logit, (uint32_t)id) >= cut; });
  return block_count(count, memory);
}

// The token at which the sum of weights in ascending order of the ids exceeds `u` of them all. Each warp adds a part of
// the ids; the part that has the token is cut again, until one is left.
INLINE int32_t draw_from_all(const double *weight, int32_t vocab, double u, block_memory *memory) {
  enum { PARTS = SAMPLE_THREADS / 32 };
  const uint32_t lane = threadIdx.x % 32, own_part = threadIdx.x / 32;
  uint32_t first = 0, end = (uint32_t)vocab;
  double before = 0, wanted = -1;
  while (end - first > 1) {
    const uint32_t length = (end - first + PARTS - 1) / PARTS, part_first = first + own_part * length;
    const uint32_t part_end = part_first + length < end ? part_first + length : end;
    double sum = 0;
    for (uint32_t id = part_first + lane; id < part_end; id += 32) sum += weight[id];
    for (int distance = 16; distance; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    if (lane == 0) memory->sum_of_warp[own_part] = sum;
    __syncthreads();
    if (wanted < 0) {
      wanted = 0;
      for (int part = 0; part < PARTS; part++) wanted += memory->sum_of_warp[part];
      wanted *= u;
    }
    uint32_t chosen = 0; // where rounding leaves none: the last that has something
    double until = before;
    for (uint32_t part = 0; part < PARTS && !(until > wanted); part++) {
      if (!(memory->sum_of_warp[part] > 0)) continue;
      chosen = part;
      before = until;
      until += memory->sum_of_warp[part];
    }
    first += chosen * length;
    end = first + length < end ? first + length : end;
    __syncthreads();
  }
  return (int32_t)first;
}

// ---- the kernel ----------------------------------------------------------------------------------------------------

// Where the list does not hold what is kept, or is not tried.
INLINE int32_t choose_from_all(const token_row &row, uint64_t own, uint64_t best_key, const request &wish,
                               double *weight, block_memory *memory) {
  const float best = logit_of(best_key);
  uint64_t cut = 1;
  if (wish.top_k) {
    const uint64_t last = find_cut([&](uint64_t key) { return count_from(row, key, memory) >= (uint64_t)wish.top_k; });
    if (last > cut) cut = last;
  }
  const double total = weigh(row, cut, best, wish.temperature, weight, memory);
  __syncthreads(); // all weights are there
  if (wish.top_p < 1.0f) {
    const double wanted = (double)wish.top_p * total;
    uint64_t key;
    if (list_first(row, own, FIRST_MAX, &key, memory)) {
      const unsigned listed = (unsigned)block_count(key >= cut, memory);
      const unsigned count =
          count_of_mass(key ? weight_of(logit_of(key), best, wish.temperature) : 0.0, listed, wanted, memory);
      if (count <= listed) return draw_from_list(key, count, best, wish, memory);
    }
    const uint64_t last = find_cut([&](uint64_t at) { return mass_from(row, at, weight, memory) >= wanted; });
    cut = last < best_key ? last : best_key;
    weigh(row, cut > 1 ? cut : 1, best, wish.temperature, weight, memory);
    __syncthreads();
  }
  return draw_from_all(weight, row.vocab, uniform(wish.seed, wish.counter), memory);
}

INLINE int32_t choose(const token_row &row, const request &wish, double *weight, block_memory *memory) {
  uint64_t own = 0, key;
  for_logits(row, [&](int32_t id, float logit) {
    const uint64_t found = key_of(logit, (uint32_t)id);
    own = own < found ? found : own;
  });
  const uint64_t best_key = block_max(own, memory);
  if (best_key == 0) return 0;
  if (!(wish.temperature > 0.0f)) return id_of(best_key);
  const bool is_short = wish.top_k > 0 && wish.top_k <= FIRST_MAX;
  if (!is_short || !list_first(row, own, (unsigned)wish.top_k, &key, memory))
    return choose_from_all(row, own, best_key, wish, weight, memory);
  const float best = logit_of(best_key);
  unsigned count = (unsigned)block_count(key != 0, memory);
  if (count > (unsigned)wish.top_k) count = (unsigned)wish.top_k;
  if (wish.top_p < 1.0f) {
    const double own_weight = threadIdx.x < count ? weight_of(logit_of(key), best, wish.temperature) : 0.0;
    const double total = block_sum(own_weight, memory);
    const unsigned reaching = count_of_mass(own_weight, count, (double)wish.top_p * total, memory);
    if (reaching < count) count = reaching;
  }
  return draw_from_list(key, count, best, wish, memory);
}

extern "C" __global__ void __launch_bounds__(SAMPLE_THREADS, 1) sample_rows(const sample_arguments a) {
  __shared__ block_memory memory;
  __shared__ request wish; // not in registers, which are few for so many threads
  ord_dependency_wait();
  const int64_t rows = axis_size(a.in, 0), vocab = axis_size(a.in, 1);
  for (int64_t i = blockIdx.x; i < rows; i += gridDim.x) {
    const token_row row = {a.in.data + i * a.in.stride[0], a.in.stride[1], a.in.type, (int32_t)vocab};
    if (threadIdx.x == 0) wish = read_request(a, i, row.vocab);
    __syncthreads();
    const int32_t token = choose(row, wish, a.weight + blockIdx.x * vocab, &memory);
    if (threadIdx.x == 0) *(int32_t *)(a.out.data + i * a.out.stride[0]) = token;
    __syncthreads();
  }
}
ORD_EXPORT_KERNEL(sample_rows);
