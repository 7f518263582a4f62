// SPDX-License-Identifier: MIT
//
// matmul for few rows by weights of f16; see matmul_gemv.cuh.
#include "matmul_gemv.cuh"

GEMV_SHAPES(GEMV, f16)
