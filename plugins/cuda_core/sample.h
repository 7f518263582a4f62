/* SPDX-License-Identifier: MIT
 *
 * The argument of sample.cu.
 */
#ifndef CORE_SAMPLE_H
#define CORE_SAMPLE_H

#include "tensor.h"

/* A thread for each place of the list of the first tokens in order. */
enum { SAMPLE_THREADS = 512, SAMPLE_BLOCKS_MAX = 128 };

typedef struct sample_arguments {
  core_tensor in;          // [batch, vocab]
  core_tensor temperature; // [batch], f32
  core_tensor top_k;       // [batch], i32
  core_tensor top_p;       // [batch], f32
  core_tensor seed;        // [batch], i64
  core_tensor counter;     // [batch], i64
  core_tensor out;         // [batch], i32
  double *weight;          // [blocks, vocab]
} sample_arguments;

#endif
