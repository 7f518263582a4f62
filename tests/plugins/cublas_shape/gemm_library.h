/* SPDX-License-Identifier: MIT
 *
 * A made-up library of matrix products, shaped as cuBLAS is: a handle that is made ahead, a workspace that is handed
 * to it, a product that is put on a stream and computed later. The test implements it; the plugin gets it from the
 * host under the name "library.gemm@1".
 */
#ifndef TESTS_GEMM_LIBRARY_H
#define TESTS_GEMM_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

typedef struct gemm_problem {
  int64_t m, n, k; /* c[m, n] = a[m, k] times b[n, k] transposed */
  const float *a, *b;
  float *c;
  int64_t a_stride, b_stride, c_stride; /* floats from row to row */
} gemm_problem;

typedef struct gemm_library {
  void *(*create)(void);
  void (*destroy)(void *handle);
  size_t workspace_bytes;
  /* Puts the product on `stream`; nothing is read or written before the stream runs. 0, or the library's own code. */
  int (*multiply)(void *handle, void *stream, void *workspace, const gemm_problem *problem);
} gemm_library;

#endif
