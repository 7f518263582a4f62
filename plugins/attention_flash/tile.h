/* SPDX-License-Identifier: MIT
 *
 * What runs on vectors, for one level of instructions: lanes.h of that level was included before. Both products are
 * the same small multiplication: TILE_ROWS numbers of a column, each in all lanes, times two vectors of a row.
 */
#ifndef ATTENTION_FLASH_TILE_H
#define ATTENTION_FLASH_TILE_H

#include <math.h>

#include "pack.h"

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

/* 2^x for x <= 0: a whole power times a polynomial of what is left, in [-1/2, 1/2]; relative error 3e-9 before
 * rounding. -infinity gives 0, NaN stays. */
INLINE lanes exponential(lanes x) {
  const lanes in_range = lanes_max(lanes_all(-160.0f), x), n = lanes_round(in_range), f = in_range - n;
  lanes power = lanes_all(0.000155946775f);
  power = lanes_fma(power, f, lanes_all(0.00134066439f));
  power = lanes_fma(power, f, lanes_all(0.00961769297f));
  power = lanes_fma(power, f, lanes_all(0.0555031055f));
  power = lanes_fma(power, f, lanes_all(0.240226528f));
  power = lanes_fma(power, f, lanes_all(0.693147215f));
  return lanes_scale(lanes_fma(power, f, lanes_all(1.0f)), n);
}

/* A series near 0, where the difference from 1 would lose digits. */
INLINE lanes hyperbolic_tangent(lanes x) {
  const lanes square = x * x, size = lanes_size(x);
  lanes series = lanes_all(-0.00571704535f);
  series = lanes_fma(series, square, lanes_all(0.0206505876f));
  series = lanes_fma(series, square, lanes_all(-0.0537434982f));
  series = lanes_fma(series, square, lanes_all(0.133314913f));
  series = lanes_fma(series, square, lanes_all(-0.333332839f));
  const lanes near = lanes_fma(x * square, series, x);
  const lanes falling = exponential(size * lanes_all(-2.88539008f)); /* e^(-2 size) */
  const lanes one = lanes_all(1.0f), far = lanes_signed((one - falling) / (one + falling), x);
  return lanes_if_less(size, lanes_all(0.625f), near, far);
}

/* ---- scores ----------------------------------------------------------------------------------------------------- */

/* score[row][key] for `rows` queries and one panel of keys: sums over the width in order. */
INLINE void score_rows(const int rows, const float *query, const float *panel, int64_t width, float *score) {
  lanes sum[TILE_ROWS][2];
#pragma GCC unroll 16
  for (int r = 0; r < rows; r++) sum[r][0] = sum[r][1] = lanes_all(0);
  for (int64_t c = 0; c < width; c++, query += rows, panel += PANEL) {
    const lanes low = lanes_load(panel), high = lanes_load(panel + LANES);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
      const lanes all = lanes_all(query[r]);
      sum[r][0] = lanes_fma(all, low, sum[r][0]);
      sum[r][1] = lanes_fma(all, high, sum[r][1]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; r++) {
    lanes_store(score + r * FLASH_SCORE_STRIDE, sum[r][0]);
    lanes_store(score + r * FLASH_SCORE_STRIDE + LANES, sum[r][1]);
  }
}

static void score_panel(int64_t room, const float *query, const float *panel, int64_t width, float *score) {
  if (room == 1)
    score_rows(1, query, panel, width, score);
  else if (room == 2)
    score_rows(2, query, panel, width, score);
  else if (room == 4)
    score_rows(4, query, panel, width, score);
  else if (room == 8 && TILE_ROWS > 8)
    score_rows(8, query, panel, width, score);
  else
    score_rows(TILE_ROWS, query, panel, width, score);
}

/* All queries of the unit against one panel. */
static void score_tiles(const flash_block *block, const float *panel, float *score) {
  for (int64_t row = 0; row < block->rows; row += TILE_ROWS)
    score_panel(tile_room(block->rows - row), block->query + row * block->width, panel, block->width,
                score + row * FLASH_SCORE_STRIDE);
}

/* The same sums for LANES keys without packing, where few queries would not use a packed panel often enough: the keys
 * are turned into columns in registers. 16 * LANES bytes of keys go into four f32 or eight bf16 columns. */
INLINE void score_in_place(const int rows, const bool is_half, const float *query, const flash_matrix *key,
                           int64_t width, float *score) {
  const int64_t step = is_half ? 8 : 4;
  const char *ahead = key->data;
  lanes sum[SINGLE_PASS_ROWS];
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) sum[r] = lanes_all(0);
  int64_t c = 0;
  for (; c + step <= width; c += step, query += step * rows, ahead += 16 * LANES) {
    lanes column[8];
    fetch_ahead(ahead, 16 * LANES);
    load_key_columns(is_half, key, c, column);
#pragma GCC unroll 8
    for (int i = 0; i < step; i++)
#pragma GCC unroll 4
      for (int r = 0; r < rows; r++) sum[r] = lanes_fma(lanes_all(query[i * rows + r]), column[i], sum[r]);
  }
  for (; c < width; c++, query += rows) {
    float column[LANES];
    for (int i = 0; i < LANES; i++) column[i] = read_number(key, i, c);
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) sum[r] = lanes_fma(lanes_all(query[r]), lanes_load(column), sum[r]);
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) lanes_store(score + r * FLASH_SCORE_STRIDE, sum[r]);
}

INLINE void score_few(const bool is_half, const flash_block *block, const flash_matrix *key, float *score) {
  const int64_t room = tile_room(block->rows);
  if (room == 1)
    score_in_place(1, is_half, block->query, key, block->width, score);
  else if (room == 2)
    score_in_place(2, is_half, block->query, key, block->width, score);
  else
    score_in_place(SINGLE_PASS_ROWS, is_half, block->query, key, block->width, score);
}

/* False where the keys must be packed. */
static bool score_keys(const flash_block *block, const flash_matrix *key, float *score) {
  const bool is_half = is_dense_half(key);
  if (block->rows > SINGLE_PASS_ROWS || !(is_half || is_dense_single(key))) return false;
  if (is_half)
    score_few(true, block, key, score);
  else
    score_few(false, block, key, score);
  return true;
}

/* Where the keys were not packed before: a panel of at most `count` keys. */
static void score_unpacked(const flash_block *block, int64_t key, int64_t count) {
  flash_matrix keys = block->key;
  keys.data += key * keys.row;
  flash_matrix next = keys;
  next.data += LANES * next.row;
  float *score = block->score + key;
  if (count >= PANEL && score_keys(block, &keys, score) && score_keys(block, &next, score + LANES)) return;
  pack_keys(&keys, count, block->width, block->panel_room);
  score_tiles(block, block->panel_room, score);
}

static void score_block(const flash_block *block) {
  for (int64_t key = block->begin; key < block->end; key += PANEL)
    if (block->panel)
      score_tiles(block, block->panel + key * block->width, block->score + key);
    else
      score_unpacked(block, key, block->end - key);
}

/* ---- weights ---------------------------------------------------------------------------------------------------- */

/* Adds row `row` of the mask to the scores of the keys that are seen; what it hides gets -infinity. */
static void mask_row(const flash_block *block, int64_t row, float *score) {
  const flash_matrix *mask = &block->mask;
  const char *at = mask->data + row * mask->row;
  const flash_span seen = block->seen[row];
  if (mask->dtype == ORD_BOOL) {
    for (int64_t key = seen.first; key < seen.end; key++)
      if (!at[key * mask->column]) score[key] = -INFINITY;
    return;
  }
  for (int64_t key = seen.first; key < seen.end; key++) {
    float added;
    memcpy(&added, at + key * mask->column, sizeof added);
    score[key] = added == -INFINITY ? -INFINITY : score[key] + added;
  }
}

/* Products become scores. */
static void shape_row(const flash_block *block, int64_t row, float *score) {
  const lanes scale = lanes_all(block->scale), cap = lanes_all(block->soft_cap);
  for (int64_t key = block->begin; key < block->end; key += LANES) {
    lanes scaled = lanes_load(score + key) * scale;
    if (block->soft_cap > 0) scaled = cap * hyperbolic_tangent(scaled / cap);
    lanes_store(score + key, scaled);
  }
  if (block->mask.data) mask_row(block, row, score);
}

/* Scores become weights, of hidden keys 0; ends the record with the largest score and the sum of the weights. Key j is
 * summed in lane j modulo the panel, so that it does not matter where the hidden keys begin. */
static void weigh_row(const flash_block *block, int64_t row) {
  const int64_t stop = flash_round_up(block->end, PANEL);
  const flash_span seen = block->seen[row];
  float *score = block->score + row * FLASH_SCORE_STRIDE;
  float *end_of_record = block->record + row * block->record_stride + flash_round_up(block->value_width, LANES);
  if (!block->is_plain) shape_row(block, row, score);
  for (int64_t key = block->begin; key < seen.first; key++) score[key] = -INFINITY;
  for (int64_t key = seen.end; key < stop; key++) score[key] = -INFINITY;
  lanes top = lanes_all(-INFINITY), high = top;
  for (int64_t key = block->begin; key < stop; key += PANEL) {
    top = lanes_max(lanes_load(score + key), top);
    high = lanes_max(lanes_load(score + key + LANES), high);
  }
  const float largest = lanes_largest(lanes_max(top, high));
  const lanes from = lanes_all(largest == -INFINITY ? 0 : largest), exponent = lanes_all(block->exponent);
  lanes low_sum = lanes_all(0), high_sum = low_sum;
  for (int64_t key = block->begin; key < stop; key += PANEL) {
    const lanes low_weight = exponential((lanes_load(score + key) - from) * exponent);
    const lanes high_weight = exponential((lanes_load(score + key + LANES) - from) * exponent);
    lanes_store(score + key, low_weight);
    lanes_store(score + key + LANES, high_weight);
    low_sum += low_weight;
    high_sum += high_weight;
  }
  end_of_record[0] = largest;
  end_of_record[1] = lanes_sum(low_sum + high_sum);
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

/* Some columns of the values of a block, and where their weighted sums go. */
typedef struct columns {
  const float *weight; /* [rows of a tile][FLASH_SCORE_STRIDE] */
  const char *value;   /* the first of the columns, of the block's first key */
  int64_t stride;      /* bytes */
  int64_t begin, end;  /* keys */
  float *sum;          /* [rows][sum_stride] */
  int64_t rows, sum_stride;
} columns;

INLINE lanes load_values(bool is_half, const char *from, int64_t vector) {
  return is_half ? lanes_load_bf16((const uint16_t *)from + vector * LANES)
                 : lanes_load((const float *)from + vector * LANES);
}

/* Sums over the keys in order. */
INLINE void mix_rows(const int rows, const int vectors, const bool is_half, const columns *mix) {
  lanes sum[TILE_ROWS][4];
#pragma GCC unroll 16
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) sum[r][v] = lanes_all(0);
  const char *value = mix->value + mix->begin * mix->stride;
  const float *weight = mix->weight + mix->begin, *end = mix->weight + mix->end;
  const int64_t stride = mix->stride;
  for (; weight < end; weight++, value += stride) {
    lanes at[4];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) at[v] = load_values(is_half, value, v);
    if (rows <= SINGLE_PASS_ROWS) fetch_ahead(value, vectors * LANES * (is_half ? 2 : 4));
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
      const lanes all = lanes_all(weight[r * FLASH_SCORE_STRIDE]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++) sum[r][v] = lanes_fma(all, at[v], sum[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++)
      if (r < mix->rows) lanes_store(mix->sum + r * mix->sum_stride + v * LANES, sum[r][v]);
}

/* As many vectors at once as the registers hold beside the rows. */
INLINE int64_t vectors_at_once(int64_t rows) { return 4 * rows <= LANES ? 4 : 2; }

INLINE void mix_vectors(const int rows, const bool is_half, int64_t vectors, const columns *mix) {
  if (vectors == 4 && 4 * rows <= LANES)
    mix_rows(rows, 4, is_half, mix);
  else if (vectors == 2)
    mix_rows(rows, 2, is_half, mix);
  else
    mix_rows(rows, 1, is_half, mix);
}

INLINE void mix_some(int64_t room, const bool is_half, int64_t vectors, const columns *mix) {
  if (room == 1)
    mix_vectors(1, is_half, vectors, mix);
  else if (room == 2)
    mix_vectors(2, is_half, vectors, mix);
  else if (room == 4)
    mix_vectors(4, is_half, vectors, mix);
  else if (room == 8 && TILE_ROWS > 8)
    mix_vectors(8, is_half, vectors, mix);
  else
    mix_vectors(TILE_ROWS, is_half, vectors, mix);
}

/* `width` columns, a multiple of LANES. */
static void mix_columns(columns mix, bool is_half, int64_t width) {
  const int64_t room = tile_room(mix.rows);
  for (int64_t vectors = vectors_at_once(room); width > 0; vectors /= 2)
    for (; width >= vectors * LANES; width -= vectors * LANES) {
      if (is_half)
        mix_some(room, true, vectors, &mix);
      else
        mix_some(room, false, vectors, &mix);
      mix.value += vectors * LANES * (is_half ? 2 : 4);
      mix.sum += vectors * LANES;
    }
}

/* The same sum where a value is infinite or NaN: it must not come through a weight of 0. */
static void mix_row_carefully(const flash_block *block, int64_t row) {
  const float *weight = block->score + row * FLASH_SCORE_STRIDE;
  float *sum = block->record + row * block->record_stride;
  for (int64_t c = 0; c < block->value_width; c++) {
    lanes one = lanes_all(0);
    for (int64_t key = block->begin; key < block->end; key++)
      if (weight[key] != 0) one = lanes_fma(lanes_all(weight[key]), lanes_all(read_number(&block->value, key, c)), one);
    sum[c] = one[0];
  }
}

static bool is_row_finite(const flash_block *block, int64_t row) {
  const float *sum = block->record + row * block->record_stride;
  lanes zero = lanes_all(0);
  for (int64_t c = 0; c < block->value_width; c += LANES) zero += lanes_load(sum + c) * lanes_all(0);
  const float all = lanes_sum(zero);
  return all == all;
}

static void mix_block(const flash_block *block) {
  const bool is_half = block->value.dtype == ORD_BF16;
  const int64_t body = block->body, rest = flash_round_up(block->value_width - body, LANES);
  const float *packed = block->value_packed;
  if (!packed && rest) {
    flash_matrix value = block->value;
    value.data += block->begin * value.row;
    pack_values(&value, block->end - block->begin, body, block->value_width, block->value_room + block->begin * rest);
    packed = block->value_room;
  }
  for (int64_t row = 0; row < block->rows; row += TILE_ROWS) {
    const int64_t rows = block->rows - row < TILE_ROWS ? block->rows - row : TILE_ROWS;
    columns mix = {.weight = block->score + row * FLASH_SCORE_STRIDE,
                   .value = block->value.data,
                   .stride = block->value.row,
                   .begin = block->begin,
                   .end = block->end,
                   .sum = block->record + row * block->record_stride,
                   .rows = rows,
                   .sum_stride = block->record_stride};
    mix_columns(mix, is_half, body);
    mix.value = (const char *)packed;
    mix.stride = rest * (int64_t)sizeof *packed;
    mix.sum += body;
    mix_columns(mix, false, rest);
  }
  for (int64_t row = 0; row < block->rows; row++)
    if (!is_row_finite(block, row)) mix_row_carefully(block, row);
}

/* ---- the table's functions -------------------------------------------------------------------------------------- */

static void attend(const flash_block *block) {
  score_block(block);
  for (int64_t row = 0; row < block->rows; row++) weigh_row(block, row);
  mix_block(block);
}

static void combine(float *total, const float *record, int64_t padded, float exponent) {
  float *largest = total + padded, *sum = largest + 1;
  const float other = record[padded], other_sum = record[padded + 1];
  if (other_sum == 0) return; /* nothing of the block is seen */
  const float top = other > *largest ? other : *largest, from = top == -INFINITY ? 0 : top;
  const lanes old_weight = exponential(lanes_all((*largest - from) * exponent));
  const lanes new_weight = exponential(lanes_all((other - from) * exponent));
  /* What weighs 0 counts as hidden: it may hold infinite sums. Scores that are NaN make all NaN. */
  if (new_weight[0] == 0 && other_sum == other_sum) return;
  if (old_weight[0] == 0 && *sum == *sum) {
    memcpy(total, record, (size_t)(padded + 2) * sizeof *total);
    return;
  }
  for (int64_t c = 0; c < padded; c += LANES)
    lanes_store(total + c, lanes_fma(lanes_load(total + c), old_weight, lanes_load(record + c) * new_weight));
  *sum = *sum * old_weight[0] + other_sum * new_weight[0];
  *largest = top;
}

static void finish(const float *total, int64_t padded, int64_t width, char *out, int64_t stride) {
  const float sum = total[padded + 1];
  const lanes share = lanes_all(sum == 0 ? 0 : 1 / sum);
  int64_t c = 0;
  if (stride == sizeof *total)
    for (; c + LANES <= width; c += LANES) lanes_store((float *)out + c, lanes_load(total + c) * share);
  for (; c < width; c++) {
    const float value = (lanes_all(total[c]) * share)[0];
    memcpy(out + c * stride, &value, sizeof value);
  }
}

#define FLASH_LEVEL(level_name, needs)                                                                                 \
  {                                                                                                                    \
    .name = level_name, .features = (needs), .lanes = LANES, .tile_rows = TILE_ROWS, .panel = PANEL,                   \
    .pack_queries = pack_queries, .pack_keys = pack_keys, .pack_values = pack_values, .attend = attend,                \
    .combine = combine, .finish = finish                                                                               \
  }

#endif
