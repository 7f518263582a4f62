// SPDX-License-Identifier: MIT
// Steps of small plans for the tests of captures and loops.
#include "ordito_device.h"

// *sum = the sum of x [n]. <<<1, 32>>>
extern "C" __global__ void sum_row(const int *x, int n, int *sum) {
  ord_dependency_wait();
  int own = 0;
  for (int i = static_cast<int>(threadIdx.x); i < n; i += 32) own += x[i];
  for (int distance = 16; distance; distance /= 2) own += __shfl_xor_sync(0xffffffffu, own, distance);
  if (threadIdx.x == 0) *sum = own;
}
ORD_EXPORT_KERNEL(sum_row);

// ---------------------------------------------------------------------------------------------------------------------

// y [n] = x [n] * weight + sum + past + extent; counts its runs.
extern "C" __global__ void mix_row(const int *x, const int *weight, const int *sum, const int *past,
                                   const long long *extent, int *runs, int *y, int n) {
  ord_dependency_wait();
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) y[i] = x[i] * *weight + *sum + *past + static_cast<int>(*extent);
  if (i == 0) *runs += 1;
}
ORD_EXPORT_KERNEL(mix_row);

// ---------------------------------------------------------------------------------------------------------------------

// What a model would do, in short: puts the token into cache [past] and makes an id of 0 .. 96 of all that it can
// see. <<<1, 1>>>
extern "C" __global__ void next_token(const int *token, const int *past, const int *position, const long long *counter,
                                      int *cache, int *sampled) {
  ord_dependency_wait();
  const int rows = *past + 1;
  cache[rows - 1] = *token;
  unsigned seen = 31u * static_cast<unsigned>(*position) + 17u * static_cast<unsigned>(*counter);
  for (int i = 0; i < rows; i++) seen = seen * 33u + static_cast<unsigned>(cache[i]);
  *sampled = static_cast<int>(seen % 97u);
}
ORD_EXPORT_KERNEL(next_token);

// ---------------------------------------------------------------------------------------------------------------------

// <<<1, 1>>>
extern "C" __global__ void add_number(int *at, int number) {
  ord_dependency_wait();
  *at += number;
}
ORD_EXPORT_KERNEL(add_number);
