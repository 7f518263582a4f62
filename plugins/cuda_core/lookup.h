/* SPDX-License-Identifier: MIT
 *
 * The argument of lookup.cu.
 */
#ifndef CORE_LOOKUP_H
#define CORE_LOOKUP_H

#include "tensor.h"

enum { LOOKUP_THREADS = 128, LOOKUP_VECTOR = 4 };

typedef struct lookup_arguments {
  core_tensor out;   // [.., width]
  core_tensor ids;   // [..], i32
  core_tensor in;    // [.., width], what the row is added to; or without data
  core_tensor table; // [rows, width]
  core_tensor scale; // [rows], f32; or without data
  int64_t offset;
  uint32_t is_vector; /* columns are taken LOOKUP_VECTOR at a time */
  uint32_t is_small;  /* counts fit into 31 bits */
} lookup_arguments;

#endif
