/* SPDX-License-Identifier: MIT
 *
 * The argument of the kernels in cast.cu. Strides are in numbers.
 */
#ifndef CUBLAS_CAST_H
#define CUBLAS_CAST_H

#include <stdint.h>

enum { CAST_GROUP = 8, CAST_THREADS = 256 }; /* numbers that a thread converts */

typedef struct cast_arguments {
  const float *in; /* [rows, width] */
  uint16_t *out;   /* [rows, width], 16-byte aligned, out_stride a multiple of CAST_GROUP */
  int64_t rows, width;
  int64_t in_row_stride, in_number_stride, out_stride;
  uint32_t has_vectors; /* groups of `in` are 16-byte aligned and dense */
} cast_arguments;

#endif
