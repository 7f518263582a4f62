// SPDX-License-Identifier: MIT
//
// matmul for few rows by weights of i8; see matmul_gemv.cuh.
#include "matmul_gemv.cuh"

GEMV_SHAPES(GEMV, i8)
