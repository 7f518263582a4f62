/* SPDX-License-Identifier: MIT
 *
 * Parameters per part of a model: for every part that a path names ("layer.3.self_attention"), how many numbers its
 * weights hold, parts that differ only in a number folded into one row ("layer.*.self_attention").
 */
#ifndef ORDITO_SESSION_PARAMETERS_H
#define ORDITO_SESSION_PARAMETERS_H

#include "graphs/graph.h"

typedef struct ord_part {
  const char *pattern; /* numbers of the path replaced by `*`; "" is the whole model */
  uint32_t count;      /* how many parts it stands for */
  int64_t each;        /* numbers in the first of them */
  int64_t all;         /* in all of them; a weight that several parts read counts in each */
} ord_part;

/* Rows in the order of their patterns, the whole first; in `arena`. */
ORD_MUST_CHECK bool ord_parts_make(const ord_graph *graph, ord_arena *arena, ord_part **out, uint32_t *out_count,
                                   ord_error *err);

#endif
