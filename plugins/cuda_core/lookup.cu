// SPDX-License-Identifier: MIT
//
// embedding and position: rows of a table, read as the table is stored. A row that the table does not have is zeros.
#include "lookup.h"
#include "tensor.cuh"

// WIDTH columns of one row.
template <int WIDTH> INLINE void look_up(const lookup_arguments &a, const int64_t *offset, int64_t column) {
  float number[WIDTH] = {};
  const int last = (int)a.out.rank - 1;
  const int64_t row = *(const int32_t *)(a.ids.data + offset[1]) + a.offset;
  if (row >= 0 && row < axis_size(a.table, 0)) {
    read_numbers(a.table.data + row * a.table.stride[0] + column * a.table.stride[1], a.table.type, number);
    const float scale = a.scale.data ? *(const float *)(a.scale.data + row * a.scale.stride[0]) : 1.0f;
    UNROLL
    for (int i = 0; i < WIDTH; i++) number[i] *= scale;
  }
  if (a.in.data) {
    float added[WIDTH];
    read_numbers(a.in.data + offset[2] + column * a.in.stride[last], a.in.type, added);
    UNROLL
    for (int i = 0; i < WIDTH; i++) number[i] += added[i];
  }
  write_numbers(a.out.data + offset[0] + column * a.out.stride[last], a.out.type, number);
}

template <int WIDTH, typename Index> INLINE void look_up_all(const lookup_arguments &a) {
  const int axes = (int)a.out.rank - 1;
  const int64_t columns = axis_size(a.table, 1) / WIDTH, count = count_of(a.out, axes) * columns;
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
    const Index row = (Index)i / (Index)columns;
    int64_t offset[3];
    find_offsets<Index>(a.out, axes, row, offset, a.out, a.ids, a.in);
    look_up<WIDTH>(a, offset, (i - (int64_t)row * columns) * WIDTH);
  }
}

extern "C" __global__ void lookup_rows(const lookup_arguments a) {
  ord_dependency_wait();
  if (a.is_vector)
    look_up_all<LOOKUP_VECTOR, uint32_t>(a);
  else if (a.is_small)
    look_up_all<1, uint32_t>(a);
  else
    look_up_all<1, uint64_t>(a);
}
ORD_EXPORT_KERNEL(lookup_rows);
