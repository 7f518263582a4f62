/* SPDX-License-Identifier: MIT
 *
 * The argument of cache.cu.
 */
#ifndef CORE_CACHE_H
#define CORE_CACHE_H

#include "tensor.h"

enum { CACHE_THREADS = 128, CACHE_VECTOR = 4 };

/* Keys or values and where they go. */
typedef struct cache_side {
  core_tensor from;   // [batch, heads, tokens, width]
  core_tensor cache;  // [batch, heads, places, width]
  uint32_t is_vector; /* numbers are taken CACHE_VECTOR at a time */
  uint32_t reserved;
} cache_side;

typedef struct cache_arguments {
  cache_side side[2];  /* counted by the grid's y */
  core_tensor past;    // [batch], i32
  core_tensor lengths; // [batch], i32; or without data
} cache_arguments;

#endif
