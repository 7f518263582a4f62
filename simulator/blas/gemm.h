// SPDX-License-Identifier: MIT
// The one argument of the kernels in kernels.cu. Matrices are stored column by column; strides are in elements.
#ifndef SIMULATOR_BLAS_GEMM_H
#define SIMULATOR_BLAS_GEMM_H

namespace simulated_blas {

enum number_type : int { number_f32, number_bf16, number_f16, number_tf32 }; // tf32: stored in f32

struct gemm {
  const void *a, *b, *c, *bias; // bias: null where there is none
  void *d;
  float *workspace; // [slices, n, m]
  long long a_stride, b_stride, c_stride, d_stride;
  long long m, n, k;
  int slices; // of the sum over k
  int turns_a, turns_b;
  number_type input, output;
  float alpha, beta; // c is not read where beta is 0
};

} // namespace simulated_blas

#endif
