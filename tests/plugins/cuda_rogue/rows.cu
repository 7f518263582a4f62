// SPDX-License-Identifier: MIT
// Rows of a table for tests of kernels that go wrong.
#include "ordito_device.h"

// out [rows, width] = the rows of table that ids [rows] name; rows is *extent where there is one. The run that is
// number `last` finds no table. <<<rows at most, 32>>>
extern "C" __global__ void rogue_rows(const int *ids, const float *table, float *out, const long long *extent,
                                      int width, int *runs, int last) {
  const long long row = blockIdx.x;
  if (row == 0 && threadIdx.x == 0 && ++*runs == last) table = nullptr;
  if (extent && row >= *extent) return;
  for (int i = static_cast<int>(threadIdx.x); i < width; i += 32) out[row * width + i] = table[ids[row] * width + i];
}
ORD_EXPORT_KERNEL(rogue_rows);
