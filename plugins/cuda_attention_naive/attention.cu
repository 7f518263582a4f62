// SPDX-License-Identifier: MIT
//
// attention as it stands in a textbook: each query mixes the values of the keys that it sees.
//
// One block of threads for each (batch, head), which knows of no other head: scores of all keys, their largest,
// e to the difference, the sum, the mix. Everything in f32; a key that is hidden is not read.
#include "cuda_attention/attention.cuh"

enum { THREADS = 128 };

// q [width], k [width]
INLINE float dot(const attention_arguments &a, const char *q, const char *k) {
  float sum = 0;
  for (int d = 0; d < a.width; d++)
    sum = fmaf(read_number(q + d * a.q.stride[3], a.q.dtype), read_number(k + d * a.key.stride[3], a.key.dtype), sum);
  return sum;
}

// scores [keys]: those of the keys in `seen`, -infinity where the mask hides one. Returns the largest of this thread's.
INLINE float score_keys(const attention_arguments &a, int n, int head, int64_t i, key_span seen, float *scores) {
  const char *q = row_of(a.q, n, head, i), *mask = row_of(a.mask, n, head, i);
  const int key_head = key_head_of(a, head);
  float largest = -INFINITY;
  for (int key = seen.first + (int)threadIdx.x; key < seen.end; key += THREADS) {
    const float added = a.mask.data ? mask_at(a, mask, key) : 0;
    float score = -INFINITY;
    if (added != -INFINITY) score = score_of(a, dot(a, q, row_of(a.key, n, key_head, key))) + added;
    scores[key] = score;
    largest = fmaxf(largest, score);
  }
  return largest;
}

// scores [keys] -> weights; a hidden key's is 0. Returns the sum of this thread's.
INLINE float weigh_keys(key_span seen, float largest, float *scores) {
  float sum = 0;
  for (int key = seen.first + (int)threadIdx.x; key < seen.end; key += THREADS) {
    const float weight = scores[key] == -INFINITY ? 0 : expf(scores[key] - largest);
    scores[key] = weight;
    sum += weight;
  }
  return sum;
}

// weights [keys], values [keys, value width] -> out [value width]; zeros where no key is seen.
INLINE void mix_values(const attention_arguments &a, int n, int head, int64_t i, key_span seen, const float *weights,
                       float sum) {
  const int key_head = key_head_of(a, head);
  char *out = row_of(a.out, n, head, i);
  for (int e = (int)threadIdx.x; e < a.value_width; e += THREADS) {
    const char *value = row_of(a.value, n, key_head, 0) + e * a.value.stride[3];
    float mixed = 0;
    for (int key = seen.first; key < seen.end; key++)
      if (weights[key] != 0)
        mixed = fmaf(weights[key], read_number(value + key * a.value.stride[2], a.value.dtype), mixed);
    write_number(out + e * a.out.stride[3], a.out.dtype, sum == 0 ? 0 : mixed / sum);
  }
}

// weights [keys] -> probabilities [keys]
INLINE void write_probabilities(const attention_arguments &a, int n, int head, int64_t i, key_span seen,
                                const float *weights, float sum) {
  const int64_t keys = size_of(a.keys);
  char *out = row_of(a.probabilities, n, head, i);
  for (int64_t key = threadIdx.x; key < keys; key += THREADS) {
    const bool is_seen = key >= seen.first && key < seen.end && weights[key] != 0;
    write_number(out + key * a.probabilities.stride[3], a.probabilities.dtype, is_seen ? weights[key] / sum : 0);
  }
}

// grid: batch * heads blocks of THREADS; a.scratch [batch * heads, keys]: a score for each key
extern "C" __global__ void __launch_bounds__(THREADS, 4) attention_naive(const attention_arguments a) {
  ord_dependency_wait();
  __shared__ float largest_of_warps[THREADS / 32], sum_of_warps[THREADS / 32];
  const int n = (int)blockIdx.x / a.heads, head = (int)blockIdx.x % a.heads;
  if (n >= size_of(a.batch)) return;
  float *scores = (float *)a.scratch + blockIdx.x * a.keys.most;
  const batch_row row = open_batch_row(a, n);
  const int64_t queries = size_of(a.queries);
  for (int64_t i = 0; i < queries; i++) {
    const key_span seen = find_span(a, row, i);
    const float largest = ord_block_max(score_keys(a, n, head, i, seen, scores), largest_of_warps);
    const float sum = ord_block_sum(weigh_keys(seen, largest, scores), sum_of_warps);
    mix_values(a, n, head, i, seen, scores, sum);
    if (a.probabilities.data) write_probabilities(a, n, head, i, seen, scores, sum);
    __syncthreads(); // the scores are read no more
  }
}
ORD_EXPORT_KERNEL(attention_naive);
