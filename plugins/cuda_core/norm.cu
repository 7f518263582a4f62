// SPDX-License-Identifier: MIT
//
// layernorm and rmsnorm: one block for each row of the last axis.
#include "norm.cuh"
#include "norm.h"

extern "C" __global__ void __launch_bounds__(NORM_THREADS_MAX)
    norm_rows(const __grid_constant__ norm_rows_arguments a) {
  __shared__ float partial[NORM_THREADS_MAX / 32];
  ord_dependency_trigger();
  ord_dependency_wait();
  if (blockIdx.x >= count_rows(a.rows)) return;
  const char *in = row_of(a.in, a.rows, blockIdx.x); // [columns]
  char *out = row_of(a.out, a.rows, blockIdx.x);     // [columns]
  const auto read = [&](int, int64_t column) { return read_number(in + column * a.in.column_stride, a.in.type); };
  const auto write = [&](int, int64_t column, float number) {
    write_number(out + column * a.out.column_stride, a.out.type, number);
  };
  normalize_rows<1, NORM_KEPT>(a.norm, size_of(a.columns), partial, read, write);
}
ORD_EXPORT_KERNEL(norm_rows);
