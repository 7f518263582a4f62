/* SPDX-License-Identifier: MIT
 *
 * What a conversion writes: a list of tensors, each made of pieces of the source's tensors. convert_plan.c makes the
 * list, convert.c writes it. Lives in the plan's arena; changes no more once it is made.
 */
#ifndef ORDITO_MODELS_CONVERT_H
#define ORDITO_MODELS_CONVERT_H

#include "models/weight_format.h"

/* Runs of a tensor of the source. Number i of all pieces of a tensor follow one another, then come the numbers i + 1.
 */
typedef struct ord_convert_piece {
  uint32_t tensor; /* ORD_NONE: zeros */
  ord_dtype dtype; /* of the source */
  ord_weight_span span;
} ord_convert_piece;

/* How the numbers of a tensor are made from those of its pieces. */
typedef enum {
  ORD_MAKE_COPY,   /* the bytes as they are */
  ORD_MAKE_FLOAT,  /* another float type */
  ORD_MAKE_INT8,   /* codes */
  ORD_MAKE_SCALES, /* the scales of those codes: the pieces are those of the codes */
  ORD_MAKE_NUMBERS /* floats from codes and scales */
} ord_convert_make;

typedef struct ord_convert_tensor {
  const char *name, *type_name;
  ord_convert_make make;
  ord_dtype dtype;      /* of what is written */
  ord_weight_rows rows; /* INT8, SCALES, NUMBERS */
  uint32_t scale;       /* NUMBERS: the tensor of the source that holds the scales */
  uint32_t rank;
  int64_t dim[ORD_FILE_RANK_MAX];
  uint64_t bytes;
  uint32_t first_piece, piece_count;
} ord_convert_tensor;

typedef struct ord_convert_plan {
  ord_arena arena;
  ord_convert_tensor *tensor;
  uint32_t tensor_count, tensor_capacity;
  ord_convert_piece *piece;
  uint32_t piece_count, piece_capacity;
} ord_convert_plan;

/* Fills a zeroed plan; finish its arena also after a failure. */
ORD_MUST_CHECK bool ord_convert_plan_make(const ord_weight_file *file, const ord_description *description,
                                          const ord_graph *graph, const ord_convert_options *options,
                                          ord_convert_plan *plan, ord_error *err);

#endif
