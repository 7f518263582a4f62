// SPDX-License-Identifier: MIT
//
// matmul for few rows by weights of f32; see matmul_gemv.cuh.
#include "matmul_gemv.cuh"

GEMV_SHAPES(GEMV, f32)
