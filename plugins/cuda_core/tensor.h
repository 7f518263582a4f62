/* SPDX-License-Identifier: MIT
 *
 * An operand as a kernel of this plugin gets it, by value, inside the kernel's one argument. C11 and CUDA C++ alike.
 */
#ifndef CORE_TENSOR_H
#define CORE_TENSOR_H

#include <stdint.h>

enum { CORE_RANK_MAX = 6 };

/* What a thread moves at once where it can. */
enum { CORE_VECTOR_BYTES = 16 };

/* A size of the run lies in device memory: where extent[axis] is given, the axis has *extent[axis] * dim[axis] places
 * (dim is then what was joined to it; 1 as a rule), else dim[axis]. Strides are in bytes. */
typedef struct core_tensor {
  char *data; /* NULL: absent */
  const int64_t *extent[CORE_RANK_MAX];
  int64_t dim[CORE_RANK_MAX], stride[CORE_RANK_MAX];
  uint32_t rank, type; /* ORD_F32, .. */
} core_tensor;

#endif
