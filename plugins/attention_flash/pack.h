/* SPDX-License-Identifier: MIT
 *
 * Queries, keys and values on their way into vectors, for one level of instructions: lanes.h of that level was included
 * before.
 */
#ifndef ATTENTION_FLASH_PACK_H
#define ATTENTION_FLASH_PACK_H

#include <string.h>

#include "flash.h"

/* PANEL: keys that are packed together. With at most SINGLE_PASS_ROWS queries, keys and values of a cache are used
 * where they lie, and once. */
enum { PANEL = 2 * LANES, SINGLE_PASS_ROWS = 4 };

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* Decode reads each key and value once, and between reads it computes, long enough for the memory to run idle. So lines
 * are asked for this many bytes ahead, into the second cache: the first takes in fewer at a time than the memory has
 * under way. A request beyond the end does no harm. */
enum { AHEAD_BYTES = 8192, LINE_BYTES = 64 };

INLINE void fetch_ahead(const char *from, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += LINE_BYTES) __builtin_prefetch(from + AHEAD_BYTES + at, 0, 2);
}

/* ---- packing ---------------------------------------------------------------------------------------------------- */

static inline float read_number(const flash_matrix *from, int64_t row, int64_t column) {
  const char *at = from->data + row * from->row + column * from->column;
  float value;
  if (from->dtype == ORD_BF16) {
    uint16_t half;
    memcpy(&half, at, sizeof half);
    const uint32_t bits = (uint32_t)half << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
  }
  memcpy(&value, at, sizeof value);
  return value;
}

/* Room for the rows of a tile, one of the numbers for which tile.h has code. */
INLINE int64_t tile_room(int64_t rows) {
  if (rows >= TILE_ROWS) return TILE_ROWS;
  return rows <= 1 ? 1 : rows <= 2 ? 2 : rows <= 4 ? 4 : rows <= 8 && TILE_ROWS > 8 ? 8 : TILE_ROWS;
}

static void pack_queries(const flash_matrix *query, int64_t rows, int64_t width, float *into) {
  for (int64_t first = 0; first < rows; first += TILE_ROWS) {
    const int64_t room = tile_room(rows - first);
    for (int64_t c = 0; c < width; c++)
      for (int64_t r = 0; r < room; r++) into[c * room + r] = first + r < rows ? read_number(query, first + r, c) : 0;
    into += TILE_ROWS * width;
  }
}

/* Columns from `column` on, one number after the other. */
static void pack_some(const flash_matrix *key, int64_t keys, int64_t column, int64_t width, float *into) {
  for (int64_t i = 0; i < keys; i++)
    for (int64_t c = column; c < width; c++) into[c * PANEL + i] = read_number(key, i, c);
}

/* Columns of LANES keys in f32 (4) or bf16 (8), turned from rows. */
INLINE void load_key_columns(bool is_half, const flash_matrix *key, int64_t column, lanes *into) {
  lanes pair[4];
  if (!is_half) {
    lanes_load_columns(key->data + 4 * column, key->row, into);
    return;
  }
  lanes_load_columns(key->data + 2 * column, key->row, pair);
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    into[2 * i] = lanes_low_halves(pair[i]);
    into[2 * i + 1] = lanes_high_halves(pair[i]);
  }
}

INLINE bool is_dense_single(const flash_matrix *from) { return from->dtype == ORD_F32 && from->column == 4; }
INLINE bool is_dense_half(const flash_matrix *from) { return from->dtype == ORD_BF16 && from->column == 2; }

INLINE int64_t pack_dense(bool is_half, const flash_matrix *key, int64_t width, float *into) {
  const int64_t step = is_half ? 8 : 4;
  int64_t c = 0;
  for (; c + step <= width; c += step) {
    lanes column[8];
    load_key_columns(is_half, key, c, column);
#pragma GCC unroll 8
    for (int64_t i = 0; i < step; i++) lanes_store(into + (c + i) * PANEL, column[i]);
  }
  return c;
}

/* LANES keys into half a panel. */
static void pack_lanes(const flash_matrix *key, int64_t width, float *into) {
  int64_t done = 0;
  if (is_dense_single(key)) done = pack_dense(false, key, width, into);
  if (is_dense_half(key)) done = pack_dense(true, key, width, into);
  pack_some(key, LANES, done, width, into);
}

static void pack_keys(const flash_matrix *key, int64_t keys, int64_t width, float *into) {
  flash_matrix from = *key;
  for (int64_t half = 0; half < PANEL; half += LANES, from.data += LANES * from.row) {
    if (keys - half >= LANES) {
      pack_lanes(&from, width, into + half);
      continue;
    }
    for (int64_t c = 0; c < width; c++) lanes_store(into + half + c * PANEL, lanes_all(0));
    pack_some(&from, keys - half, 0, width, into + half);
  }
}

static void pack_values(const flash_matrix *value, int64_t keys, int64_t body, int64_t width, float *into) {
  const int64_t padded = flash_round_up(width - body, LANES);
  for (int64_t key = 0; key < keys; key++, into += padded) {
    int64_t c = body;
    if (is_dense_single(value))
      for (; c + LANES <= width; c += LANES)
        lanes_store(into + c - body, lanes_load((const float *)(value->data + key * value->row) + c));
    if (is_dense_half(value))
      for (; c + LANES <= width; c += LANES)
        lanes_store(into + c - body, lanes_load_bf16((const uint16_t *)(value->data + key * value->row) + c));
    for (; c < width; c++) into[c - body] = read_number(value, key, c);
    for (; c < body + padded; c++) into[c - body] = 0;
  }
}

#endif
