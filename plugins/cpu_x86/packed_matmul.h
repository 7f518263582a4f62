/* SPDX-License-Identifier: MIT
 *
 * The packed matmul. One layout of weights, "pack32", serves every level of instructions and any number of rows:
 * blocks of 32 output rows; in a block one line pair for each group of k, 32 words of 4 bytes, one an output row: a
 * word holds 1 f32, 2 bf16 or 4 int8 of that row. The depth is padded with zeros to whole groups. int8 is stored as
 * unsigned w + 128, and a block ends with 32 scales in f32 (1 where the weight was stored as int8).
 * Activations are laid out as tiles of some rows, in a tile k-major: word (group, row).
 * Every output is one accumulator over ascending k, so that a row alone and in a batch gets the same bits.
 *
 *   matmul_plan.c            query; how a node is computed and cut (compiled once, runs on any CPU)
 *   tile_*.c                 register tiles
 *   level/matmul_pack.c      weights and `by` to pack32                     } compiled once a level
 *   level/matmul_rows.c      activations to tiles, tiles to results         }
 *   level/matmul_launch.c    phases and chunks; the kernel                  }
 */
#ifndef X86_MATMUL_H
#define X86_MATMUL_H

#include "epilogue.h"
#include "number.h"

enum {
  MATMUL_BLOCK = 32,        /* output rows (columns of the result) */
  MATMUL_GROUP_BYTES = 128, /* of a block */
  MATMUL_TILE_ROWS_MAX = 12
};

/* sum[r][c] = x row r by panel column c over all groups; 32 words a row, f32 or (of int8) i32. x is one tile. Meanwhile
 * the panel at `next` is fetched into the second cache. */
typedef void (*matmul_tile_fn)(const char *panel, const char *next, const uint32_t *x, int64_t groups, uint32_t *sum);

/* To bf16, to nearest even; subnormal numbers may become zero. */
typedef void (*matmul_round_fn)(const float *from, int64_t count, uint16_t *into);

/* What a word of activations holds. */
typedef enum {
  MATMUL_X_F32,         /* one f32 */
  MATMUL_X_F32_ROUNDED, /* one f32 that was rounded to bf16 */
  MATMUL_X_BF16,        /* two bf16 */
  MATMUL_X_I8,          /* four int8, scaled by row */
  MATMUL_X_I16          /* the same as 16 bits, of a group: k 0 and 2, then k 1 and 3 */
} matmul_x;

/* A way to make products. */
typedef struct matmul_math {
  const char *name;
  uint64_t features; /* of the device, beyond the level's */
  uint16_t compute;  /* the node's */
  uint16_t packed;   /* weights: ORD_F32, ORD_BF16, ORD_I8 */
  matmul_x x;
  const matmul_tile_fn *tile; /* by rows - 1 */
  matmul_round_fn to_bf16;    /* of MATMUL_X_BF16 */
} matmul_math;

typedef struct matmul_level {
  plain_level level;
  int tile_rows; /* the most rows of a tile */
  uint32_t math_count;
  const matmul_math *math; /* the first that fits is taken */
} matmul_level;

extern const matmul_level matmul_level_baseline, matmul_level_avx2, matmul_level_avx512;
extern const matmul_tile_fn tile_bf16_dot[], tile_i8_dot[];
void tile_bf16_round(const float *from, int64_t count, uint16_t *into);

/* ---- the plan of a node (matmul_plan.c) ---- */

/* What is known of a row of int8 activations: value = scale * (sum of products - offset). */
typedef struct matmul_row {
  float scale;
  uint32_t offset; /* modulo 2^32, as the sums are */
} matmul_row;

enum { MATMUL_LAY_OUT, MATMUL_MULTIPLY, MATMUL_NORM, MATMUL_PHASES };

typedef struct matmul_plan {
  const matmul_level *level;
  const matmul_math *math;
  uint32_t in, weight, weight_scale, by, out; /* operands, or ORD_NONE */
  bool has_batches;                           /* the leading axes of `by` are batches; else all rows are one */
  bool is_single; /* one row at most: chunks lay it out for themselves, or take it as it is */
  uint32_t norm;  /* the epilogue item that is a norm, or ORD_NONE */
  int64_t block_bytes;
  uint64_t rows_offset, by_offset, scratch_bytes; /* in scratch: activations, matmul_row of each row, `by` */
  uint64_t worker_bytes;
  uint32_t phase_count, phase[MATMUL_PHASES], chunks[MATMUL_PHASES]; /* phase: MATMUL_LAY_OUT, .. */
} matmul_plan;

/* Words of activations in a row of `depth`; groups in `depth`. */
static inline int64_t matmul_groups(const matmul_math *math, int64_t depth) {
  const int64_t elements = math->packed == ORD_F32 ? 1 : math->packed == ORD_BF16 ? 2 : 4;
  return depth / elements + (depth % elements > 0);
}
static inline int64_t matmul_words(const matmul_math *math, int64_t depth) {
  const bool is_wide = math->x == MATMUL_X_I16 || (math->packed == ORD_BF16 && math->x != MATMUL_X_BF16);
  return matmul_groups(math, depth) * (is_wide ? 2 : 1);
}
static inline int64_t matmul_blocks(int64_t columns) { return columns / MATMUL_BLOCK + (columns % MATMUL_BLOCK > 0); }

/* Tile `tile` of `rows` rows: whole tiles of the most rows, and the last two share what is left. */
int64_t matmul_tiles(const matmul_level *level, int64_t rows);
plain_range matmul_tile_rows(const matmul_level *level, int64_t rows, int64_t tile);
/* Groups of tiles that go through one block of weights together. */
int64_t matmul_row_groups(int64_t rows);

/* The ops that are norms of the last axis. */
bool matmul_is_norm(const char *op, bool *out_is_centred);

ord_status matmul_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer);
/* Of a node that was accepted. */
matmul_plan matmul_plan_make(const matmul_level *level, const ord_node *node, uint32_t epilogue_served);

/* ---- the kernel ---- */

typedef struct matmul_kernel {
  plain_kernel base;
  const matmul_level *level;
} matmul_kernel;

typedef struct matmul_state {
  plain_state base;
  matmul_plan plan;
  epilogue_list epilogue; /* all items but the norm */
  plain_norm norm;        /* without its weight and bias */
} matmul_state;

/* ---- parts compiled once a level ---- */

#define matmul_pack PLAIN_NAME(matmul_pack)
#define matmul_pack_by PLAIN_NAME(matmul_pack_by)
#define matmul_lay_out PLAIN_NAME(matmul_lay_out)
#define matmul_finish PLAIN_NAME(matmul_finish)

ord_status matmul_pack(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer, uint32_t weight,
                       const void *const *segment, uint32_t slice, uint32_t slice_count, void *packed);
/* Block `block` of a value [k, n] of f32, whose axes are those of `by`, as a block of weights. */
void matmul_pack_by(const plain_view *by, int64_t block, char *packed);

/* Rows of `depth` f32, `stride` bytes apart, as one tile of words. `row` is filled where activations are int8.
 * `worker` has the plan's worker_bytes. */
void matmul_lay_out(const matmul_plan *plan, const char *const *from, int row_count, int64_t stride, int64_t depth,
                    uint32_t *into, matmul_row *row, void *worker);
/* Sums of a tile, in place, to numbers: row r lies at value + r * 32. `scale`: of the columns, or NULL. */
void matmul_finish(const matmul_plan *plan, const matmul_row *row, int row_count, const float *block_scale,
                   const float *scale, int64_t column_count, float *value);

#endif
