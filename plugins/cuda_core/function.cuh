// SPDX-License-Identifier: MIT
//
// The functions behind the pointwise ops, each of one number.
#ifndef CORE_FUNCTION_CUH
#define CORE_FUNCTION_CUH

#include "tensor.cuh"

INLINE float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

INLINE float silu(float x) { return x / (1.0f + expf(-x)); }

INLINE float hyperbolic_tangent(float x) { return tanhf(x); }

// x times the share of a normal distribution below x.
INLINE float gelu_erf(float x) { return x * (0.5f * erfcf(x * -0.707106781f)); }

// 0.5 * (1 + tanh(u)) is sigmoid(2u), which loses nothing where x is negative.
INLINE float gelu_tanh(float x) {
  const float inner = x * fmaf(x * x, 1.5957691216f * 0.044715f, 1.5957691216f);
  return x / (1.0f + expf(-inner));
}

INLINE float relu(float x) { return x < 0.0f ? 0.0f : x; } // a NaN stays one

INLINE float relu2(float x) { return relu(x) * relu(x); }

#endif
