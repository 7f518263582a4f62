// SPDX-License-Identifier: MIT
//
// attention for a few queries of a row (decoding): the keys of a head are shared out to several blocks.
//
// Queries that read the same key head (of several heads, or several of one head) are the rows of a tile. Each block
// takes a range of keys. A few lanes hold a key together, 16 bytes each, and keep for each row the largest score so
// far, the sum of weights and the weighted sum of values: a record. Records are merged in the warp, in the block, and,
// where several blocks shared the keys, by the block that comes last: one kernel, and no block waits for another.
//
// The number of keys is read on the device. The grid is fixed; blocks for which there are no keys leave at once, and
// which blocks share the keys depends on their number alone, so that equal inputs give equal bits.
//
// New keys and values are taken from the operands and appended to the cache here, rounded as they are stored.
#include "cuda_attention/attention.cuh"
#include "split.h"

// ---- sixteen bytes of a row ----

struct f32_piece {
  enum { NUMBERS = 4, BYTES = 4 };
  INLINE void unpack(const uint4 &bits, float (&x)[4]) {
    x[0] = __uint_as_float(bits.x), x[1] = __uint_as_float(bits.y);
    x[2] = __uint_as_float(bits.z), x[3] = __uint_as_float(bits.w);
  }
  INLINE uint4 pack(const float (&x)[4]) {
    return make_uint4(__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]), __float_as_uint(x[3]));
  }
};

struct bf16_piece {
  enum { NUMBERS = 8, BYTES = 2 };
  INLINE void unpack(const uint4 &bits, float (&x)[8]) {
    const float2 pair[] = {ord_unpack_bf16(bits.x), ord_unpack_bf16(bits.y), ord_unpack_bf16(bits.z),
                           ord_unpack_bf16(bits.w)};
#pragma unroll
    for (int i = 0; i < 8; i++) x[i] = i % 2 ? pair[i / 2].y : pair[i / 2].x;
  }
  INLINE uint4 pack(const float (&x)[8]) {
    return make_uint4(ord_pack_bf16(x[0], x[1]), ord_pack_bf16(x[2], x[3]), ord_pack_bf16(x[4], x[5]),
                      ord_pack_bf16(x[6], x[7]));
  }
};

struct f16_piece {
  enum { NUMBERS = 8, BYTES = 2 };
  INLINE void unpack(const uint4 &bits, float (&x)[8]) {
    const float2 pair[] = {ord_unpack_f16(bits.x), ord_unpack_f16(bits.y), ord_unpack_f16(bits.z),
                           ord_unpack_f16(bits.w)};
#pragma unroll
    for (int i = 0; i < 8; i++) x[i] = i % 2 ? pair[i / 2].y : pair[i / 2].x;
  }
  INLINE uint4 pack(const float (&x)[8]) {
    return make_uint4(ord_pack_f16(x[0], x[1]), ord_pack_f16(x[2], x[3]), ord_pack_f16(x[4], x[5]),
                      ord_pack_f16(x[6], x[7]));
  }
};

// Numbers from `column` on of a row of any type, zeros from `width` on.
template <int count>
INLINE void gather(const attention_tensor &tensor, const char *row, int column, int width, float (&x)[count]) {
  if (tensor.is_vector && tensor.dtype == ORD_F32 && column + count <= width) {
#pragma unroll
    for (int i = 0; i < count; i += 4) {
      const float4 four = *(const float4 *)(row + (column + i) * 4);
      x[i] = four.x, x[i + 1] = four.y, x[i + 2] = four.z, x[i + 3] = four.w;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < count; i++)
    x[i] = column + i < width ? read_number(row + (column + i) * tensor.stride[3], tensor.dtype) : 0;
}

template <typename Piece>
INLINE uint4 gather_piece(const attention_tensor &tensor, const char *row, int column, int width) {
  float x[Piece::NUMBERS];
  gather(tensor, row, column, width, x);
  return Piece::pack(x);
}

// ---- what a tile and a block are ----

template <typename Piece, int WIDTH> struct layout {
  enum {
    PIECES = WIDTH / Piece::NUMBERS,
    LANES = PIECES < 32 ? PIECES : 32, // that hold a key together
    PIECES_OF_LANE = PIECES / LANES,
    NUMBERS = PIECES_OF_LANE * Piece::NUMBERS, // of a row, in a lane
    GROUPS = 32 / LANES,                       // keys that a warp holds at a time
    KEYS = SPLIT_WARPS * GROUPS * SPLIT_STEPS  // that the block has under way at once
  };
};

// What a block does.
struct block_part {
  int n, key_head, tile, split; // of the grid
  int rows, queries;            // rows that share the key head, as [heads of the group, queries]
  int begin, end;               // keys of this block
  int block_count;              // that share the keys of the tile
  int fresh_first;              // keys from here on are in the operands k and v, which begin at key `past`
  batch_row row;
};

// One row of the tile and the keys that it sees.
struct query_row {
  int head, query;
  key_span seen;
};

INLINE query_row find_row(const attention_arguments &a, const block_part &part, int r) {
  const bool is_there = r < part.rows;
  query_row made;
  made.head = part.key_head * (a.heads / a.key_heads) + (is_there ? r / part.queries : 0);
  made.query = is_there ? r % part.queries : 0;
  made.seen = is_there ? find_span(a, part.row, made.query) : key_span{0, 0};
  return made;
}

// The keys that any query of the row sees, in equal ranges of whole turns.
INLINE void share_keys(const attention_arguments &a, int keys_of_turn, block_part *part) {
  const key_span first = find_span(a, part->row, 0), last = find_span(a, part->row, part->queries - 1);
  const int count = last.end > first.first ? last.end - first.first : 0;
  const int range = (count + a.split_count * keys_of_turn - 1) / (a.split_count * keys_of_turn) * keys_of_turn;
  part->block_count = count ? (count + range - 1) / range : 1;
  part->begin = first.first + part->split * range;
  part->end = min(part->begin + range, first.first + count);
}

// k, v [given, width] -> the cache, behind what it holds; nothing is written outside it.
INLINE void append_rows(const attention_arguments &a, const attention_tensor &from, const attention_tensor &cache,
                        const block_part &part, int width) {
  for (int i = 0; i < part.row.fresh; i++) {
    const int64_t key = part.row.past + i;
    if (key < 0 || key >= size_of(a.keys)) continue;
    const char *row = row_of(from, part.n, part.key_head, i);
    char *into = row_of(cache, part.n, part.key_head, key);
    for (int c = (int)threadIdx.x; c < width; c += SPLIT_THREADS)
      write_number(into + c * cache.stride[3], cache.dtype, read_number(row + c * from.stride[3], from.dtype));
  }
}

// ---- records ----

INLINE float weight_of(float score, float largest) {
  const float log2_of_e = 1.4426950408889634f;
  return score == -INFINITY ? 0 : ord_exp2((score - largest) * log2_of_e);
}

// What a lane knows of one query.
template <int NUMBERS> struct record {
  float largest, sum;
  float mixed[NUMBERS];
};

template <int NUMBERS> INLINE void merge_groups(int lanes, record<NUMBERS> &own) {
#pragma unroll
  for (int distance = 16; distance >= lanes; distance /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, own.largest, distance);
    const float sum = __shfl_xor_sync(0xffffffffu, own.sum, distance), largest = fmaxf(own.largest, other);
    const float mine = weight_of(own.largest, largest), theirs = weight_of(other, largest);
    own.largest = largest;
    own.sum = fmaf(own.sum, mine, sum * theirs);
#pragma unroll
    for (int i = 0; i < NUMBERS; i++)
      own.mixed[i] = fmaf(own.mixed[i], mine, __shfl_xor_sync(0xffffffffu, own.mixed[i], distance) * theirs);
  }
}

// ---- a turn: SPLIT_STEPS keys of each group of lanes ----

template <typename Piece, int WIDTH> struct turn {
  typedef layout<Piece, WIDTH> of;
  uint4 bits[SPLIT_STEPS][of::PIECES_OF_LANE];

  // The key of a step; the first lanes of the block hold the first keys.
  INLINE int key_of(int begin, int step) {
    const int warp = (int)threadIdx.x / 32, group = (int)threadIdx.x % 32 / of::LANES;
    return begin + (step * SPLIT_WARPS + warp) * of::GROUPS + group;
  }
  INLINE int column_of(int piece) { return (piece * of::LANES + (int)threadIdx.x % of::LANES) * Piece::NUMBERS; }

  // Rows of `stored` [keys, width]; all loads are under way before one is waited for.
  __device__ __forceinline__ void load(const attention_tensor &stored, const block_part &part, int begin, int width) {
    const int end = min(part.end, part.fresh_first);
#pragma unroll
    for (int step = 0; step < SPLIT_STEPS; step++)
#pragma unroll
      for (int piece = 0; piece < of::PIECES_OF_LANE; piece++) bits[step][piece] = make_uint4(0, 0, 0, 0);
    if (stored.is_vector) {
#pragma unroll
      for (int step = 0; step < SPLIT_STEPS; step++)
#pragma unroll
        for (int piece = 0; piece < of::PIECES_OF_LANE; piece++) {
          const int key = key_of(begin, step), column = column_of(piece);
          const char *row = row_of(stored, part.n, part.key_head, key);
          if (key < end && column < width) bits[step][piece] = *(const uint4 *)(row + column * Piece::BYTES);
        }
    } else {
      for_each(begin, begin, end, [&](int key, int column) {
        return gather_piece<Piece>(stored, row_of(stored, part.n, part.key_head, key), column, width);
      });
    }
  }

  // Rows of `fresh` [given, width], for keys that the cache does not hold yet.
  __device__ __forceinline__ void load_fresh(const attention_tensor &fresh, const block_part &part, int begin,
                                             int width) {
    if (begin + of::KEYS <= part.fresh_first) return;
    for_each(begin, part.fresh_first, part.end, [&](int key, int column) {
      const char *row = row_of(fresh, part.n, part.key_head, key - part.row.past);
      return gather_piece<Piece>(fresh, row, column, width);
    });
  }

  // One step after the other, since few of them bring anything: the code of `get` is long.
  template <typename Get> __device__ __forceinline__ void for_each(int begin, int first, int end, Get get) {
#pragma unroll 1
    for (int step = 0; step < SPLIT_STEPS; step++) {
      const int key = key_of(begin, step);
      if (key < first || key >= end) continue;
#pragma unroll
      for (int piece = 0; piece < of::PIECES_OF_LANE; piece++) {
        const uint4 got = get(key, column_of(piece));
#pragma unroll
        for (int own = 0; own < SPLIT_STEPS; own++)
          if (own == step) bits[own][piece] = got;
      }
    }
  }
};

// q [width], in this lane's places
template <typename Piece, int WIDTH, int NUMBERS>
INLINE void load_query(const attention_arguments &a, int n, const query_row &row, float (&q)[NUMBERS]) {
  const char *at = row_of(a.q, n, row.head, row.query);
#pragma unroll
  for (int piece = 0; piece < NUMBERS / Piece::NUMBERS; piece++) {
    float x[Piece::NUMBERS];
    gather(a.q, at, turn<Piece, WIDTH>::column_of(piece), a.width, x);
#pragma unroll
    for (int i = 0; i < Piece::NUMBERS; i++) q[piece * Piece::NUMBERS + i] = x[i];
  }
}

// q . k in all lanes that hold the key
template <typename Piece, int WIDTH, int NUMBERS>
INLINE float dot(const float (&q)[NUMBERS], const uint4 (&bits)[NUMBERS / Piece::NUMBERS]) {
  float sum = 0;
#pragma unroll
  for (int piece = 0; piece < NUMBERS / Piece::NUMBERS; piece++) {
    float x[Piece::NUMBERS];
    Piece::unpack(bits[piece], x);
#pragma unroll
    for (int i = 0; i < Piece::NUMBERS; i++) sum = fmaf(q[piece * Piece::NUMBERS + i], x[i], sum);
  }
#pragma unroll
  for (int distance = layout<Piece, WIDTH>::LANES / 2; distance; distance /= 2)
    sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  return sum;
}

// The scores of the turn's keys for one row; -infinity where it does not see one.
template <typename Piece, int WIDTH, int NUMBERS>
INLINE void score_keys(const attention_arguments &a, int n, const query_row &row, const float (&q)[NUMBERS],
                       const turn<Piece, WIDTH> &keys, int begin, float (&score)[SPLIT_STEPS]) {
  const char *mask = row_of(a.mask, n, row.head, row.query);
#pragma unroll
  for (int step = 0; step < SPLIT_STEPS; step++) {
    const int key = keys.key_of(begin, step);
    const bool is_seen = key >= row.seen.first && key < row.seen.end;
    const float added = !is_seen ? -INFINITY : a.mask.data ? mask_at(a, mask, key) : 0;
    const float score_of_key = score_of(a, dot<Piece, WIDTH>(q, keys.bits[step])) + added;
    score[step] = added == -INFINITY ? -INFINITY : score_of_key; // a hidden key's numbers may be no numbers
  }
}

// A hidden key's value may be anything, so it is not even multiplied by 0.
template <typename Piece, int WIDTH, int NUMBERS>
INLINE void mix_values(const float (&score)[SPLIT_STEPS], const turn<Piece, WIDTH> &values, record<NUMBERS> &own) {
  float largest = own.largest;
#pragma unroll
  for (int step = 0; step < SPLIT_STEPS; step++) largest = fmaxf(largest, score[step]);
  const float kept = weight_of(own.largest, largest);
  own.largest = largest;
  own.sum *= kept;
#pragma unroll
  for (int i = 0; i < NUMBERS; i++) own.mixed[i] *= kept;
#pragma unroll
  for (int step = 0; step < SPLIT_STEPS; step++) {
    const float weight = weight_of(score[step], largest);
    own.sum += weight;
    if (!(weight > 0)) continue;
#pragma unroll
    for (int piece = 0; piece < NUMBERS / Piece::NUMBERS; piece++) {
      float x[Piece::NUMBERS];
      Piece::unpack(values.bits[step][piece], x);
#pragma unroll
      for (int i = 0; i < Piece::NUMBERS; i++)
        own.mixed[piece * Piece::NUMBERS + i] = fmaf(weight, x[i], own.mixed[piece * Piece::NUMBERS + i]);
    }
  }
}

// ---- results ----

// shared [warps, rows, record]: what the lanes of each warp know together.
template <typename Piece, int WIDTH, int ROWS, int NUMBERS>
INLINE void leave_records(record<NUMBERS> (&own)[ROWS], float *shared) {
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    merge_groups(layout<Piece, WIDTH>::LANES, own[r]);
    float *into = shared + (warp * ROWS + r) * SPLIT_RECORD(WIDTH);
    if (lane >= layout<Piece, WIDTH>::LANES) continue;
#pragma unroll
    for (int i = 0; i < NUMBERS; i++)
      into[turn<Piece, WIDTH>::column_of(i / Piece::NUMBERS) + i % Piece::NUMBERS] = own[r].mixed[i];
    if (lane) continue;
    into[WIDTH] = own[r].largest;
    into[WIDTH + 1] = own[r].sum;
  }
}

// What record `i` of `count` counts for, in lane i; *sum in all lanes. The records are `stride` numbers apart.
INLINE float weigh_records(const float *records, int stride, int count, int width, float *sum) {
  const int lane = (int)threadIdx.x % 32;
  const float largest = lane < count ? records[lane * stride + width] : -INFINITY;
  const float weight = weight_of(largest, ord_warp_max(largest));
  *sum = ord_warp_sum(lane < count ? weight * records[lane * stride + width + 1] : 0);
  return weight;
}

INLINE float mix_records(const float *records, int stride, int count, float weight, int column, bool is_there) {
  float mixed = 0;
  for (int i = 0; i < count; i++) {
    const float part = __shfl_sync(0xffffffffu, weight, i);
    if (is_there) mixed = fmaf(part, records[i * stride + column], mixed);
  }
  return mixed;
}

// records [count, rows, record] -> out [value width] of each row. Every warp takes 32 columns at a time.
template <int WIDTH, int ROWS>
INLINE void write_rows(const attention_arguments &a, const block_part &part, const float *records, int count) {
  for (int r = 0; r < ROWS && part.tile * ROWS + r < part.rows; r++) {
    const float *first = records + r * SPLIT_RECORD(WIDTH);
    const query_row row = find_row(a, part, part.tile * ROWS + r);
    char *out = row_of(a.out, part.n, row.head, row.query);
    float sum;
    const float weight = weigh_records(first, ROWS * SPLIT_RECORD(WIDTH), count, WIDTH, &sum);
    for (int base = (int)threadIdx.x / 32 * 32; base < a.value_width; base += SPLIT_THREADS) {
      const int column = base + (int)threadIdx.x % 32;
      const bool is_there = column < a.value_width;
      const float mixed = mix_records(first, ROWS * SPLIT_RECORD(WIDTH), count, weight, column, is_there);
      if (is_there) write_number(out + column * a.out.stride[3], a.out.dtype, sum == 0 ? 0 : mixed / sum);
    }
  }
}

// shared [warps, rows, record] -> into [rows, record]
template <int WIDTH, int ROWS> INLINE void write_records(int value_width, const float *shared, float *into) {
  for (int r = 0; r < ROWS; r++, into += SPLIT_RECORD(WIDTH)) {
    const float *first = shared + r * SPLIT_RECORD(WIDTH);
    float sum, largest = -INFINITY;
    const float weight = weigh_records(first, ROWS * SPLIT_RECORD(WIDTH), SPLIT_WARPS, WIDTH, &sum);
    for (int i = 0; i < SPLIT_WARPS; i++) largest = fmaxf(largest, first[i * ROWS * SPLIT_RECORD(WIDTH) + WIDTH]);
    for (int base = (int)threadIdx.x / 32 * 32; base < value_width; base += SPLIT_THREADS) {
      const int column = base + (int)threadIdx.x % 32;
      const bool is_there = column < value_width;
      const float mixed = mix_records(first, ROWS * SPLIT_RECORD(WIDTH), SPLIT_WARPS, weight, column, is_there);
      if (is_there) into[column] = mixed;
    }
    if (threadIdx.x == 0) into[WIDTH] = largest, into[WIDTH + 1] = sum;
  }
}

// ---- the kernel ----

// This block's place in the grid [batch, key heads, tiles, split_count]; false if there is nothing to do.
template <int ROWS> INLINE bool open_part(const attention_arguments &a, int keys_of_turn, block_part *part) {
  const int group = a.heads / a.key_heads, tiles = (group * (int)a.queries.most + ROWS - 1) / ROWS;
  int rest = (int)blockIdx.x;
  part->split = rest % a.split_count, rest /= a.split_count;
  part->tile = rest % tiles, rest /= tiles;
  part->key_head = rest % a.key_heads;
  part->n = rest / a.key_heads;
  if (part->n >= size_of(a.batch)) return false;
  part->row = open_batch_row(a, part->n);
  part->queries = (int)size_of(a.queries);
  part->rows = group * part->queries;
  part->fresh_first = a.past.data ? (int)clamp(part->row.past, 0, part->row.valid) : part->row.valid;
  if (part->tile * ROWS >= part->rows) return false;
  share_keys(a, keys_of_turn, part);
  return part->split < part->block_count;
}

// a.scratch [batch, key heads, tiles, split_count, rows, record]; a.persistent [batch, key heads, tiles] tickets.
template <typename Piece, int WIDTH, int ROWS> INLINE void attend(const attention_arguments &a) {
  typedef layout<Piece, WIDTH> of;
  ORD_DYNAMIC_SHARED(float, shared); // [warps, rows, record]
  __shared__ unsigned ticket;
  ord_dependency_wait();
  ord_dependency_trigger();
  block_part part;
  if (!open_part<ROWS>(a, of::KEYS, &part)) return;
  if (a.past.data && part.split == 0 && part.tile == 0) {
    append_rows(a, a.k, a.key, part, a.width);
    append_rows(a, a.v, a.value, part, a.value_width);
  }
  float q[ROWS][of::NUMBERS];
  query_row row[ROWS];
  record<of::NUMBERS> own[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    row[r] = find_row(a, part, part.tile * ROWS + r);
    load_query<Piece, WIDTH>(a, part.n, row[r], q[r]);
    own[r].largest = -INFINITY, own[r].sum = 0;
#pragma unroll
    for (int i = 0; i < of::NUMBERS; i++) own[r].mixed[i] = 0;
  }
  for (int begin = part.begin; begin < part.end; begin += of::KEYS) {
    turn<Piece, WIDTH> keys, values;
    keys.load(a.key, part, begin, a.width);
    values.load(a.value, part, begin, a.value_width);
    keys.load_fresh(a.k, part, begin, a.width);
    values.load_fresh(a.v, part, begin, a.value_width);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      float score[SPLIT_STEPS];
      score_keys(a, part.n, row[r], q[r], keys, begin, score);
      mix_values(score, values, own[r]);
    }
  }
  leave_records<Piece, WIDTH>(own, shared);
  __syncthreads();
  if (part.block_count == 1) {
    write_rows<WIDTH, ROWS>(a, part, shared, SPLIT_WARPS);
    return;
  }
  const int tile = (int)blockIdx.x / a.split_count; // over the whole grid
  float *records = (float *)a.scratch + (int64_t)tile * a.split_count * ROWS * SPLIT_RECORD(WIDTH);
  write_records<WIDTH, ROWS>(a.value_width, shared, records + part.split * ROWS * SPLIT_RECORD(WIDTH));
  if (!ord_is_last_block((unsigned *)a.persistent + tile, (unsigned)part.block_count, &ticket)) return;
  write_rows<WIDTH, ROWS>(a, part, records, part.block_count);
}

// ---- the instances: type of keys and values, numbers of a row at most, rows of a tile ----

#define SPLIT_KERNEL(type, width, rows)                                                                                \
  extern "C" __global__ void __launch_bounds__(SPLIT_THREADS, 2)                                                       \
      split_##type##_##width##_##rows(const attention_arguments a) {                                                   \
    attend<type##_piece, width, rows>(a);                                                                              \
  }                                                                                                                    \
  ORD_EXPORT_KERNEL(split_##type##_##width##_##rows)
#define SPLIT_KERNELS(type)                                                                                            \
  SPLIT_KERNEL(type, 32, 1);                                                                                           \
  SPLIT_KERNEL(type, 32, 4);                                                                                           \
  SPLIT_KERNEL(type, 64, 1);                                                                                           \
  SPLIT_KERNEL(type, 64, 4);                                                                                           \
  SPLIT_KERNEL(type, 128, 1);                                                                                          \
  SPLIT_KERNEL(type, 128, 4);                                                                                          \
  SPLIT_KERNEL(type, 256, 1);                                                                                          \
  SPLIT_KERNEL(type, 256, 4)

SPLIT_KERNELS(f32);
SPLIT_KERNELS(bf16);
SPLIT_KERNELS(f16);
