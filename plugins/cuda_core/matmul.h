/* SPDX-License-Identifier: MIT
 *
 * Arguments of the kernels in matmul_gemv.cuh and matmul_tiled.cu.
 */
#ifndef CORE_MATMUL_H
#define CORE_MATMUL_H

#include "rows.h"

/* The kernels of matmul_gemv.cuh: for each type of weights GEMV(name, rows, columns), which makes so many columns for
 * at most so many rows. Two columns are for results that are too narrow to keep a device busy with blocks of four. */
#define GEMV_TYPES(TYPE) TYPE(ORD_F32, f32) TYPE(ORD_F16, f16) TYPE(ORD_BF16, bf16) TYPE(ORD_I8, i8)
#define GEMV_SHAPES(GEMV, name)                                                                                        \
  GEMV(name, 1, 2)                                                                                                     \
  GEMV(name, 1, 4)                                                                                                     \
  GEMV(name, 4, 2)                                                                                                     \
  GEMV(name, 4, 4)                                                                                                     \
  GEMV(name, 8, 2)                                                                                                     \
  GEMV(name, 8, 4)

enum { GEMV_WARPS_MIN = 2, GEMV_WARPS_MAX = 8, UNIT_BYTES = 16 };

/* in [rows, depth] f32 by weight [columns, depth], whose rows lie weight_stride bytes apart, each padded with zeros to
 * whole units of 16 aligned bytes. */
typedef struct gemv_arguments {
  core_rows rows;
  core_place in, out;
  uint32_t is_vector; /* rows of `in` are whole aligned vectors of four */
  const char *weight;
  int64_t weight_stride;
  const float *scale; /* [columns], or NULL */
  int64_t columns, depth;
  epilogue_list epilogue;
  norm_arguments norm; /* of the result, in place */
} gemv_arguments;

enum { TILE_ROWS = 64, TILE_COLUMNS = 64, TILE_DEPTH = 16, TILE_THREADS = 256, TILE_OWN = 4 };

/* in [batches, rows, depth] by `by` [batches, depth, columns], which may be a weight, in any layout. */
typedef struct tiled_arguments {
  core_rows rows;       /* batches and rows, all leading axes of the result */
  core_rows batches;    /* as `by` has them; no axis: one batch */
  core_size batch_rows; /* rows of a batch, where there are several */
  core_size columns, depth;
  core_place in, out;
  core_place by;        /* along `batches` */
  int64_t depth_stride; /* of `by` */
  const float *scale;   /* [columns], or NULL */
  epilogue_list epilogue;
  norm_arguments norm; /* of the result, in place */
} tiled_arguments;

#endif
