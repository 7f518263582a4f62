// SPDX-License-Identifier: MIT
//
// attention for many queries, in tiles on tensor cores: numbers of two bytes, sums in f32.
//
// A block takes 64 or 128 queries of one head, 16 or 32 to a warp, and goes through the keys that any of them sees, 64
// or 32 at a time: scores = queries x keys, their largest so far, weights = e to the difference, mixed = mixed * (what
// the old largest counts for) + weights x values. While scores are made the values are on their way, while values are
// mixed the next keys. A thread holds of every 16 x 8 scores rows g and g + 8, columns 2t and 2t + 1 (g = lane / 4,
// t = lane % 4): of a query's row four lanes know a part.
#ifndef FLASH_CUH
#define FLASH_CUH

#include "tile.cuh"

// What a block is for.
struct flash_block {
  int n, head, query, queries; // query: the first one; queries: of the run
  batch_row row;
  key_span all;   // keys that any of its queries sees
  key_span inner; // keys that lengths, causal and windows let all of them see
};

INLINE bool open_block(const attention_arguments &a, int queries_of_block, flash_block *block) {
  const int tiles = ((int)a.queries.most + queries_of_block - 1) / queries_of_block;
  // The last queries, which see most keys, come first.
  block->query = (tiles - 1 - (int)blockIdx.x % tiles) * queries_of_block;
  block->head = (int)blockIdx.x / tiles % a.heads;
  block->n = (int)blockIdx.x / tiles / a.heads;
  block->queries = (int)size_of(a.queries);
  if (block->n >= size_of(a.batch) || block->query >= block->queries) return false;
  block->row = open_batch_row(a, block->n);
  const int last_query = min(block->query + queries_of_block, block->queries) - 1;
  const key_span first = find_span(a, block->row, block->query), last = find_span(a, block->row, last_query);
  block->all = key_span{first.first, last.end};
  block->inner = key_span{last.first, first.end};
  return true;
}

// The query of this thread's row `r` of 2 * TILES, counted from the block's first.
template <int TILES> INLINE int query_of(int r) {
  return (int)threadIdx.x / 32 * 16 * TILES + r * 8 + (int)threadIdx.x % 32 / 4;
}

// ---- scores ----

// Key j of a tile, score i of 4: its column.
INLINE int column_of(int j, int i) { return j * 8 + (int)threadIdx.x % 4 * 2 + i % 2; }

// Soft cap and mask, where there are any. Returns nothing to be read again: a hidden key's score becomes -infinity.
template <int TILES, int COLUMNS>
INLINE void finish_scores(const attention_arguments &a, const flash_block &block, int begin,
                          float (&score)[TILES][COLUMNS][4]) {
#pragma unroll
  for (int r = 0; r < TILES * 2; r++) {
    const int query = min(block.query + query_of<TILES>(r), block.queries - 1);
    const key_span seen = find_span(a, block.row, query);
    const char *mask = row_of(a.mask, block.n, block.head, query);
#pragma unroll
    for (int j = 0; j < COLUMNS; j++)
#pragma unroll
      for (int i = 0; i < 2; i++) {
        float &one = score[r / 2][j][r % 2 * 2 + i];
        const int key = begin + column_of(j, i);
        const bool is_seen = key >= seen.first && key < seen.end;
        const float added = !is_seen ? -INFINITY : a.mask.data ? mask_at(a, mask, key) : 0;
        one = added == -INFINITY ? -INFINITY : score_of(a, one) + added; // what is hidden may be no number
      }
  }
}

// The same where there is neither: only what lengths, causal and windows hide.
template <int TILES, int COLUMNS>
INLINE void hide_keys(const attention_arguments &a, const flash_block &block, int begin,
                      float (&score)[TILES][COLUMNS][4]) {
#pragma unroll
  for (int r = 0; r < TILES * 2; r++) {
    const int query = min(block.query + query_of<TILES>(r), block.queries - 1);
    const key_span seen = find_span(a, block.row, query);
#pragma unroll
    for (int j = 0; j < COLUMNS; j++)
#pragma unroll
      for (int i = 0; i < 2; i++) {
        const int key = begin + column_of(j, i);
        if (key < seen.first || key >= seen.end) score[r / 2][j][r % 2 * 2 + i] = -INFINITY;
      }
  }
}

// ---- weights ----

// What rows of a thread know of the keys so far: the largest score, this thread's part of the sum of weights.
template <int TILES> struct row_state { float largest[TILES * 2], sum[TILES * 2]; };

// score -> weights; `factor` turns differences of scores into exponents of 2. Mixed values count for less where a
// larger score came. What is_plain is multiplied before the difference is taken, so that this is one instruction;
// scores with a mask may be as large as a float can be, so of these the difference comes first.
template <int WIDTH, int TILES, int COLUMNS>
INLINE void weigh_keys(bool is_plain, float factor, float (&score)[TILES][COLUMNS][4], row_state<TILES> &state,
                       float (&mixed)[TILES][WIDTH / 8][4]) {
#pragma unroll
  for (int r = 0; r < TILES * 2; r++) {
    float largest = state.largest[r], sum = 0;
#pragma unroll
    for (int j = 0; j < COLUMNS; j++)
      largest = fmaxf(largest, fmaxf(score[r / 2][j][r % 2 * 2], score[r / 2][j][r % 2 * 2 + 1]));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
    const float base = largest == -INFINITY ? 0 : largest; // of a row that has seen nothing yet
    const float before = is_plain ? 0 : base, behind = is_plain ? -(base * factor) : 0;
    const float kept = ord_exp2((state.largest[r] - before) * factor + behind);
    if (!is_plain) {
#pragma unroll
      for (int j = 0; j < COLUMNS; j++)
#pragma unroll
        for (int i = 0; i < 2; i++) score[r / 2][j][r % 2 * 2 + i] -= before;
    }
#pragma unroll
    for (int j = 0; j < COLUMNS; j++)
#pragma unroll
      for (int i = 0; i < 2; i++) {
        float &one = score[r / 2][j][r % 2 * 2 + i];
        one = ord_exp2(fmaf(one, factor, behind));
        sum += one;
      }
    state.largest[r] = largest;
    state.sum[r] = state.sum[r] * kept + sum;
#pragma unroll
    for (int j = 0; j < WIDTH / 8; j++)
#pragma unroll
      for (int i = 0; i < 2; i++) mixed[r / 2][j][r % 2 * 2 + i] *= kept;
  }
}

// The special numbers of values [8 COLUMNS, width] go to the queries that give their key a weight. A key's weights of a
// row are held by one of the four lanes that know a part of it.
template <typename Half, int WIDTH, int TILES, int COLUMNS>
INLINE void mix_special_values(const float (&weight)[TILES][COLUMNS][4], const char *values,
                               float (&mixed)[TILES][WIDTH / 8][4]) {
  const int first_lane = (int)threadIdx.x % 32 / 4 * 4;
#pragma unroll 1
  for (int key = 0; key < COLUMNS * 8; key++, values += FLASH_STRIDE(WIDTH)) {
    bool is_seen[TILES * 2];
#pragma unroll
    for (int r = 0; r < TILES * 2; r++) {
      float own = 0;
#pragma unroll
      for (int j = 0; j < COLUMNS; j++) {
        const float first = weight[r / 2][j][r % 2 * 2], second = weight[r / 2][j][r % 2 * 2 + 1];
        if (j == key / 8) own = key % 2 ? second : first;
      }
      is_seen[r] = __shfl_sync(0xffffffffu, own, first_lane + key % 8 / 2) > 0;
    }
#pragma unroll
    for (int j = 0; j < WIDTH / 8; j++) {
      const float2 two = Half::unpack(*(const uint32_t *)(values + column_of(j, 0) * 2));
      const float special[2] = {two.x - two.x == 0 ? 0 : two.x, two.y - two.y == 0 ? 0 : two.y};
#pragma unroll
      for (int i = 0; i < TILES * 4; i++)
        if (is_seen[i / 2]) mixed[i / 4][j][i % 4] += special[i % 2];
    }
  }
}

// ---- results ----

template <int WIDTH, int TILES>
INLINE void write_rows(const attention_arguments &a, const flash_block &block, const row_state<TILES> &state,
                       const float (&mixed)[TILES][WIDTH / 8][4]) {
#pragma unroll
  for (int r = 0; r < TILES * 2; r++) {
    float sum = state.sum[r];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    const float part = sum == 0 ? 0 : 1 / sum;
    const int query = block.query + query_of<TILES>(r);
    char *out = row_of(a.out, block.n, block.head, query);
#pragma unroll
    for (int j = 0; j < WIDTH / 8; j++)
#pragma unroll
      for (int i = 0; i < 2; i++) {
        const int column = column_of(j, i);
        if (query < block.queries && column < a.value_width)
          write_number(out + column * a.out.stride[3], a.out.dtype, mixed[r / 2][j][r % 2 * 2 + i] * part);
      }
  }
}

// ---- the kernel ----

template <typename Half, int WIDTH, int TILES> INLINE void attend(const attention_arguments &a) {
  enum {
    QUERIES = FLASH_QUERIES(TILES),
    KEYS = FLASH_KEYS(WIDTH),
    TILE_BYTES = KEYS * FLASH_STRIDE(WIDTH),
    // Queries stay in registers where these have room for them.
    KEPT = TILES == 1 && WIDTH <= 128 ? WIDTH / 16 : 1
  };
  ORD_DYNAMIC_SHARED(char, shared);
  char *const keys = shared, *const values = keys + TILE_BYTES, *const queries = values + TILE_BYTES;
  ord_dependency_wait();
  ord_dependency_trigger();
  flash_block block;
  if (!open_block(a, QUERIES, &block)) return;
  const int key_head = key_head_of(a, block.head), first = block.all.first / KEYS * KEYS;
  load_tile<Half, WIDTH>(a.q, block.n, block.head, block.query, QUERIES, 0, block.queries, a.width, queries);
  load_tile<Half, WIDTH>(a.key, block.n, key_head, first, KEYS, block.all.first, block.all.end, a.width, keys);
  ord_copy_commit();
  // Scores grow with products. Large tiles leave no registers for what else scores may be made of.
  const bool is_plain = TILES > 1 || FLASH_IS_PLAIN(a.mask.data, a.soft_cap, a.scale);
  const bool has_mask = !is_plain && a.mask.data;
  const float log2_of_e = 1.4426950408889634f, factor = is_plain ? a.scale * log2_of_e : log2_of_e;
  row_state<TILES> state;
  float mixed[TILES][WIDTH / 8][4];
#pragma unroll
  for (int t = 0; t < TILES; t++) {
    state.largest[t * 2] = state.largest[t * 2 + 1] = -INFINITY;
    state.sum[t * 2] = state.sum[t * 2 + 1] = 0;
#pragma unroll
    for (int j = 0; j < WIDTH / 8; j++)
#pragma unroll
      for (int i = 0; i < 4; i++) mixed[t][j][i] = 0;
  }
  ord_copy_wait<0>();
  __syncthreads();
  const char *const own = queries + (int)threadIdx.x / 32 * 16 * TILES * FLASH_STRIDE(WIDTH);
  uint32_t kept[KEPT][TILES][4];
  if (KEPT == WIDTH / 16) {
#pragma unroll
    for (int step = 0; step < KEPT; step++)
#pragma unroll
      for (int t = 0; t < TILES; t++) ord_load_matrix_x4(kept[step][t], corner_of<WIDTH>(own, t * 16, step * 16));
  }
  for (int begin = first; begin < block.all.end; begin += KEYS) {
    load_tile<Half, WIDTH>(a.value, block.n, key_head, begin, KEYS, block.all.first, block.all.end, a.value_width,
                           values);
    ord_copy_commit();
    float score[TILES][KEYS / 8][4];
    multiply_keys<Half, WIDTH>(kept, own, keys, score);
    const bool is_inner = begin >= block.inner.first && begin + KEYS <= block.inner.end;
    if (!is_plain)
      finish_scores(a, block, begin, score);
    else if (!is_inner)
      hide_keys(a, block, begin, score);
    ord_copy_wait<0>();
    const bool is_finite = (is_inner && !has_mask) || own_is_finite<Half, WIDTH>(values, KEYS);
    const bool has_special = __syncthreads_or(!is_finite); // the values are there, the keys are read no more
    if (begin + KEYS < block.all.end) {
      load_tile<Half, WIDTH>(a.key, block.n, key_head, begin + KEYS, KEYS, block.all.first, block.all.end, a.width,
                             keys);
      ord_copy_commit();
    }
    weigh_keys<WIDTH>(is_plain, factor, score, state, mixed);
    if (has_special) {
      mix_special_values<Half, WIDTH>(score, values, mixed);
      __syncthreads();
      clear_own_special<Half, WIDTH>(values, KEYS);
      __syncthreads();
    }
    multiply_values<Half, WIDTH>(score, values, a.is_exact, mixed);
    ord_copy_wait<0>();
    __syncthreads(); // the next keys are there, the values are read no more
  }
  write_rows<WIDTH>(a, block, state, mixed);
}

// type, numbers of a row at most, sixteens of queries in a warp
#define FLASH_KERNEL(type, width, tiles)                                                                               \
  extern "C" __global__ void __launch_bounds__(FLASH_THREADS, 2)                                                       \
      flash_##type##_##width##_##tiles(const attention_arguments a) {                                                  \
    attend<type, width, tiles>(a);                                                                                     \
  }                                                                                                                    \
  ORD_EXPORT_KERNEL(flash_##type##_##width##_##tiles)
#define FLASH_KERNELS(type)                                                                                            \
  FLASH_KERNEL(type, 32, 1);                                                                                           \
  FLASH_KERNEL(type, 64, 1);                                                                                           \
  FLASH_KERNEL(type, 64, 2);                                                                                           \
  FLASH_KERNEL(type, 96, 1);                                                                                           \
  FLASH_KERNEL(type, 128, 1);                                                                                          \
  FLASH_KERNEL(type, 192, 1);                                                                                          \
  FLASH_KERNEL(type, 256, 1)

#endif
