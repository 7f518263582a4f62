/* SPDX-License-Identifier: MIT
 *
 * The argument of rope.cu.
 */
#ifndef CORE_ROPE_H
#define CORE_ROPE_H

#include "tensor.h"

enum { ROPE_THREADS = 128, ROPE_HEADS = 4 };

typedef struct rope_arguments {
  core_tensor out, in;      // [batch, heads, tokens, width]
  core_tensor positions;    // [batch, tokens], i32; without data: cosine and sine
  core_tensor cosine, sine; // [batch, tokens, half]
  core_tensor factors;      // [half]; or without data
  int64_t half;             /* pairs */
  double exponent;          /* pair i turns by 2^(i * exponent) for each position */
  uint32_t is_interleaved;  /* a pair are numbers 2i and 2i + 1; else i and i + half */
  uint32_t is_small;        /* counts fit into 31 bits */
} rope_arguments;

#endif
