// SPDX-License-Identifier: MIT
// D [m, n] = alpha op(A) [m, k] op(B) [k, n] + beta C [m, n] + bias [m], column by column. A thread makes one number of
// D, or of one slice of its sum. The order of a sum depends on k and the slices alone.
#include "cuda_builtins.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "gemm.h"

using simulated_blas::gemm;

static __device__ float to_float(float value) { return value; }
static __device__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
static __device__ float to_float(__half value) { return __half2float(value); }

// A number in f32 whose fraction is rounded to 10 bits, to nearest, before it is multiplied; of two as near, away from
// 0.
struct rounded {
  float value;
};
static __device__ float to_float(rounded number) {
  const unsigned bits = __float_as_uint(number.value);
  const bool is_finite = (bits & 0x7f800000u) != 0x7f800000u;
  return is_finite ? __uint_as_float((bits + 0x1000u) & ~0x1fffu) : number.value;
}

static __device__ float read(const void *numbers, simulated_blas::number_type type, long long at) {
  if (type == simulated_blas::number_bf16) return to_float(static_cast<const __nv_bfloat16 *>(numbers)[at]);
  if (type == simulated_blas::number_f16) return to_float(static_cast<const __half *>(numbers)[at]);
  return static_cast<const float *>(numbers)[at];
}

static __device__ void write(void *numbers, simulated_blas::number_type type, long long at, float value) {
  if (type == simulated_blas::number_bf16)
    static_cast<__nv_bfloat16 *>(numbers)[at] = __float2bfloat16_rn(value);
  else if (type == simulated_blas::number_f16)
    static_cast<__half *>(numbers)[at] = __float2half_rn(value);
  else
    static_cast<float *>(numbers)[at] = value;
}

// Eight sums side by side, so that the host's vectors are of use.
template <typename Number>
static __device__ float multiply_dense(const Number *a, const Number *b, long long first, long long end) {
  float sum[8] = {}, total = 0.0f;
  long long i = first;
  for (; i + 8 <= end; i += 8)
    for (int lane = 0; lane < 8; lane++) sum[lane] += to_float(a[i + lane]) * to_float(b[i + lane]);
  for (; i < end; i++) total += to_float(a[i]) * to_float(b[i]);
  for (int lane = 0; lane < 8; lane++) total += sum[lane];
  return total;
}

template <typename Number>
static __device__ float multiply_strided(const Number *a, long long a_step, const Number *b, long long b_step,
                                         long long first, long long end) {
  float total = 0.0f;
  for (long long i = first; i < end; i++) total += to_float(a[i * a_step]) * to_float(b[i * b_step]);
  return total;
}

// Slice `slice` of the sum for row `row` and column `column` of D.
template <typename Number>
static __device__ float multiply_slice(const gemm &p, long long row, long long column, long long slice) {
  const long long first = p.k * slice / p.slices, end = p.k * (slice + 1) / p.slices;
  const Number *a = static_cast<const Number *>(p.a) + (p.turns_a ? row * p.a_stride : row);
  const Number *b = static_cast<const Number *>(p.b) + (p.turns_b ? column : column * p.b_stride);
  if (p.turns_a && !p.turns_b) return multiply_dense(a, b, first, end);
  return multiply_strided(a, p.turns_a ? 1 : p.a_stride, b, p.turns_b ? p.b_stride : 1, first, end);
}

static __device__ float multiply_any(const gemm &p, long long row, long long column, long long slice) {
  if (p.input == simulated_blas::number_bf16) return multiply_slice<__nv_bfloat16>(p, row, column, slice);
  if (p.input == simulated_blas::number_f16) return multiply_slice<__half>(p, row, column, slice);
  if (p.input == simulated_blas::number_tf32) return multiply_slice<rounded>(p, row, column, slice);
  return multiply_slice<float>(p, row, column, slice);
}

static __device__ void finish(const gemm &p, long long row, long long column, float sum) {
  float value = p.alpha * sum;
  if (p.beta != 0.0f) value += p.beta * read(p.c, p.output, column * p.c_stride + row);
  if (p.bias) value += read(p.bias, p.output, row);
  write(p.d, p.output, column * p.d_stride + row, value);
}

extern "C" __global__ void multiply(const gemm p) {
  const long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at < p.m * p.n) finish(p, at % p.m, at / p.m, multiply_any(p, at % p.m, at / p.m, 0));
}
EXPORT_KERNEL(multiply);

// ---------------------------------------------------------------------------------------------------------------------

extern "C" __global__ void multiply_slices(const gemm p) {
  const long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x, size = p.m * p.n;
  if (at < size * p.slices) p.workspace[at] = multiply_any(p, at % p.m, at % size / p.m, at / size);
}
EXPORT_KERNEL(multiply_slices);

// ---------------------------------------------------------------------------------------------------------------------

extern "C" __global__ void add_slices(const gemm p) {
  const long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x, size = p.m * p.n;
  if (at >= size) return;
  float sum = 0.0f;
  for (int slice = 0; slice < p.slices; slice++) sum += p.workspace[slice * size + at];
  finish(p, at % p.m, at / p.m, sum);
}
EXPORT_KERNEL(add_slices);
