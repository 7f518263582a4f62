/* SPDX-License-Identifier: MIT
 *
 * Arguments of the kernels in copy.cu.
 */
#ifndef CORE_COPY_H
#define CORE_COPY_H

#include "tensor.h"

enum { COPY_THREADS = 256, COPY_IN_FLIGHT = 4, COPY_PARTS_MAX = 8, COPY_EXTENTS_MAX = 16 };

/* How the bytes of an element are moved. */
typedef struct copy_element {
  uint32_t bytes;    /* 1, 2, 4, 8; 16: a vector of several */
  uint32_t is_wider; /* instead: a float of any type becomes f32 */
} copy_element;

/* As many elements on both sides, in row-major order of each. */
typedef struct copy_part {
  core_tensor into, from;
} copy_part;

/* Parts of one result, or of one input, that the grid's y counts. Where sizes of a run lie before a part of a result
 * along the axis, it begins *extent[i] * into_stride bytes further on for each of the first extent_count[part]. */
typedef struct copy_arguments {
  copy_part part[COPY_PARTS_MAX];
  const int64_t *extent[COPY_EXTENTS_MAX];
  int64_t into_stride;
  uint32_t extent_count[COPY_PARTS_MAX];
  copy_element element;
  uint32_t is_small; /* counts fit into 31 bits */
} copy_arguments;

/* out[before, i, behind] = in[before, place, behind]: place is index[i], or start + i * step; if negative (of start and
 * step: the start), it counts from the end; outside of the axis lie zeros. Each group of axes is a tensor of its own.
 */
typedef struct take_arguments {
  core_tensor into_before, into_place, into_behind; /* data: in into_before */
  core_tensor from_before, from_behind;             /* data: in from_before */
  core_tensor axis;                                 /* of `in`: one axis */
  core_tensor index;                                /* sizes of into_place; without data: start and step */
  int64_t start, step;
  copy_element element;
  uint32_t is_small;
} take_arguments;

#endif
