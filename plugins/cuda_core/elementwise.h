/* SPDX-License-Identifier: MIT
 *
 * Arguments of the kernels in elementwise.cu: tensors of equal sizes, whose axes were joined where that was possible.
 * With is_vector, which is_small goes with, the numbers of the last axis are taken four at a time, and its size and
 * strides are those of vectors. is_small: counts fit into 31 bits.
 */
#ifndef CORE_ELEMENTWISE_H
#define CORE_ELEMENTWISE_H

#include "tensor.h"

typedef struct pointwise_arguments {
  core_tensor out, in;
  uint32_t is_vector, is_small;
} pointwise_arguments;

typedef struct binary_arguments {
  core_tensor out, in[2]; /* without data: `number` stands for it */
  float number;
  uint32_t is_vector, is_small;
} binary_arguments;

enum { ELEMENTWISE_THREADS = 256, ELEMENTWISE_IN_FLIGHT = 4 };

#endif
