/* SPDX-License-Identifier: MIT
 *
 * The argument of pool.cu.
 */
#ifndef CORE_POOL_H
#define CORE_POOL_H

#include "tensor.h"

enum { POOL_COLUMNS = 32, POOL_WARPS = 8 };

enum { POOL_MEAN, POOL_FIRST, POOL_LAST };

typedef struct pool_arguments {
  core_tensor out;     // [texts, width]
  core_tensor in;      // [texts, tokens, width]
  core_tensor lengths; // [texts], i32; or without data
  uint32_t kind;       /* POOL_MEAN, .. */
} pool_arguments;

#endif
