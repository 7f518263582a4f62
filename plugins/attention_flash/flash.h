/* SPDX-License-Identifier: MIT
 *
 * Attention by blocks of keys. Every query treats the keys in blocks of FLASH_BLOCK, counted from key 0: scores, their
 * largest, weights 2^((score - largest) * exponent), their sum and the weighted sum of values. That is a record;
 * records of one query are then combined in the order of the blocks. Prefill (a tile of queries goes through all
 * blocks) and decode (one chunk for each block) run the same code on a block, so that a query gives the same bits
 * either way.
 *
 * What runs on vectors stands in tile.h, compiled once for each level of instructions; a flash_level is its table.
 */
#ifndef ATTENTION_FLASH_H
#define ATTENTION_FLASH_H

#include <stdbool.h>

#include "ordito_plugin.h"

enum {
  FLASH_BLOCK = 256,                    /* keys; a multiple of every level's panel */
  FLASH_SCORE_STRIDE = FLASH_BLOCK + 16 /* numbers between the scores of two rows: 1 KB would share cache sets */
};

/* Rows and columns of numbers in f32 or bf16, of a mask also bool. */
typedef struct flash_matrix {
  const char *data;
  int64_t row, column; /* bytes from one to the next; 0 where it repeats */
  uint32_t dtype;
} flash_matrix;

/* Keys [first, end) that a query sees. */
typedef struct flash_span {
  int64_t first, end;
} flash_span;

/* Several queries (of one head, or of the heads that share a key head) against the keys of one block. */
typedef struct flash_block {
  int64_t rows, width, value_width;
  const float *query; /* as pack_queries leaves it */

  int64_t begin, end;     /* keys of the block to look at; begin is a multiple of the panel */
  const flash_span *seen; /* [rows], within [begin, end) */
  flash_matrix key;       /* [keys of the block][width] */
  const float *panel;     /* the keys as pack_keys leaves them; NULL: they are packed into panel_room, one at a time */
  float *panel_room;

  flash_matrix value;        /* [keys of the block][value width]; columns below `body` are read here .. */
  int64_t body;              /* .. a multiple of the level's lanes */
  const float *value_packed; /* .. and the others here, as pack_values leaves them; NULL: packed into value_room */
  float *value_room;

  bool is_plain; /* no mask, no soft cap: `exponent` includes the scale */
  float scale, soft_cap, exponent;
  flash_matrix mask; /* [rows][keys of the block]; data NULL: none */

  float *score;          /* room: [rows of whole tiles][FLASH_SCORE_STRIDE] */
  float *record;         /* result, [rows] records */
  int64_t record_stride; /* numbers */
} flash_block;

/* A record: weighted sums of values [padded value width], the largest score, the sum of weights. */
typedef struct flash_level {
  const char *name;
  uint64_t features;        /* of the device that it needs */
  int64_t lanes, tile_rows; /* numbers in a vector; queries that are multiplied at once */
  int64_t panel;            /* keys that are packed together */

  /* `rows` queries as tiles, [tile][width][rows of the tile]. */
  void (*pack_queries)(const flash_matrix *query, int64_t rows, int64_t width, float *into);
  /* At most a panel of keys, [width][panel], with zeros behind the last key. */
  void (*pack_keys)(const flash_matrix *key, int64_t keys, int64_t width, float *into);
  /* Columns from `body` to `width` in f32, padded with zeros to whole vectors: [keys][padded]. */
  void (*pack_values)(const flash_matrix *value, int64_t keys, int64_t body, int64_t width, float *into);
  /* Makes a record for each row. */
  void (*attend)(const flash_block *block);
  /* Adds the record of the next block to `total`, which begins as sums of 0 and a largest score of -infinity. */
  void (*combine)(float *total, const float *record, int64_t padded, float exponent);
  /* The sums over the sum of weights, or zeros if there were none. */
  void (*finish)(const float *total, int64_t padded, int64_t width, char *out, int64_t stride);
} flash_level;

extern const flash_level flash_baseline, flash_avx2, flash_avx512;

static inline int64_t flash_round_up(int64_t count, int64_t step) { return (count + step - 1) / step * step; }

/* ---- the kernel ------------------------------------------------------------------------------------------------- */

enum {
  FLASH_UNIT_ROWS = 24,  /* queries that go through the blocks together; a multiple of every level's tile_rows */
  FLASH_RECORD_TAIL = 16 /* numbers of a record behind its sums, so that records begin on cache lines */
};

/* What the sizes of a node amount to, at the plan's maximum. Room counts numbers (f32). */
typedef struct flash_layout {
  const flash_level *level;
  bool is_decode; /* one query in each row: chunks over the blocks of keys, then their records are combined */
  int64_t batch, heads, key_heads, queries, keys, width, value_width;
  int64_t blocks;        /* of keys */
  int64_t body;          /* columns of the values that are read in place */
  int64_t padded;        /* value width in whole vectors */
  int64_t record_stride; /* padded and the tail */
  int64_t parts;         /* prefill: chunks that share the queries of a head */
  /* Scratch of prefill: for each key head `panels_room` for its keys, then `values_room` for its values. */
  uint64_t panels_room, values_room;
  /* Worker memory, in this order; 0 what the mode lacks. */
  uint64_t query_room, score_room, record_room, total_room, panel_room, value_room;
} flash_layout;

/* layout.c: false, with a reason, if the kernel does not serve the node. */
bool flash_lay_out(const ord_node *node, flash_layout *out, ord_answer *answer);
ord_status flash_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer);

/* attention.c */
extern const ord_kernel attention_flash;

#endif
