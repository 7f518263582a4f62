// SPDX-License-Identifier: MIT
//
// matmul for few rows by weights of bf16; see matmul_gemv.cuh.
#include "matmul_gemv.cuh"

GEMV_SHAPES(GEMV, bf16)
