// SPDX-License-Identifier: MIT
//
// cache_append: new keys and values go behind each row's past. Nothing is written outside the cache, whatever past and
// lengths hold.
#include "cache.h"
#include "tensor.cuh"

INLINE int64_t read_entry(const core_tensor &numbers, int64_t row) {
  return *(const int32_t *)(numbers.data + row * numbers.stride[0]);
}

template <int WIDTH> INLINE void append(const cache_arguments &a, const cache_side &side) {
  const core_tensor &from = side.from, &cache = side.cache;
  const int64_t heads = axis_size(from, 1), tokens = axis_size(from, 2), columns = axis_size(from, 3) / WIDTH;
  const int64_t count = axis_size(from, 0) * heads * tokens * columns, places = axis_size(cache, 2);
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
    const int64_t line = i / columns, column = i % columns * WIDTH;
    const int64_t token = line % tokens, head = line / tokens % heads, row = line / tokens / heads;
    const int64_t place = read_entry(a.past, row) + token;
    if (a.lengths.data && token >= read_entry(a.lengths, row)) continue;
    if (place < 0 || place >= places) continue;
    float number[WIDTH];
    read_numbers(from.data + row * from.stride[0] + head * from.stride[1] + token * from.stride[2] +
                     column * from.stride[3],
                 from.type, number);
    write_numbers(cache.data + row * cache.stride[0] + head * cache.stride[1] + place * cache.stride[2] +
                      column * cache.stride[3],
                  cache.type, number);
  }
}

extern "C" __global__ void cache_append(const cache_arguments a) {
  ord_dependency_wait();
  const cache_side &side = a.side[blockIdx.y];
  if (side.is_vector)
    append<CACHE_VECTOR>(a, side);
  else
    append<1>(a, side);
}
ORD_EXPORT_KERNEL(cache_append);
