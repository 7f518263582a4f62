/* SPDX-License-Identifier: MIT
 *
 * The argument of the kernels in row.cu: rows along one axis of equal tensors.
 */
#ifndef CORE_ROW_H
#define CORE_ROW_H

#include "tensor.h"

enum { ROW_VECTOR = 4 };

typedef struct row_arguments {
  core_tensor out_rows, in_rows; /* every other axis; data: here */
  core_tensor out_axis, in_axis; /* the axis */
  double eps;
  uint32_t is_vector; /* the numbers of a row follow one another and are taken ROW_VECTOR at a time */
} row_arguments;

#endif
