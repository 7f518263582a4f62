// SPDX-License-Identifier: MIT
//
// Device side of rows.h: finding rows, and what is done to a number before it is stored.
#ifndef CORE_EPILOGUE_CUH
#define CORE_EPILOGUE_CUH

#include "function.cuh"
#include "rows.h"

// Before a loop whose body is long.
#ifdef __CUDACC__
#define ROLLED _Pragma("unroll 1")
#else
#define ROLLED
#endif

// ---- rows ----

INLINE int64_t size_of(const core_size &size) { return size.extent ? *size.extent * size.dim : size.dim; }

INLINE int64_t count_rows(const core_rows &rows) {
  int64_t count = 1;
  UNROLL
  for (uint32_t axis = 0; axis < ROWS_AXES; axis++)
    if (axis < rows.rank) count *= size_of(rows.size[axis]);
  return count;
}

// Row `number`, counted over all leading axes. As a rule one axis is left of them; else the number is taken apart.
INLINE char *row_of(const core_place &place, const core_rows &rows, uint32_t number) {
  char *data = place.data;
  ROLLED
  for (uint32_t axis = rows.rank; axis-- > 1;) {
    const uint32_t size = (uint32_t)size_of(rows.size[axis]), outer = number / size;
    data += (int64_t)(number - outer * size) * place.stride[axis];
    number = outer;
  }
  return data + (int64_t)number * place.stride[0];
}

// The same of several rows; those beyond `count` are the last one again. All threads of the block call it: numbers that
// have to be taken apart are so once, and what is found goes through `shared` as an offset, since of a pointer from
// there the compiler does not know that it leads to global memory.
template <int ROWS>
INLINE void find_rows(const core_place &place, const core_rows &rows, uint32_t first, int count, char *(&found)[ROWS],
                      int64_t *shared) {
  UNROLL
  for (int row = 0; row < ROWS; row++)
    found[row] = place.data + (int64_t)(first + min(row, count - 1)) * place.stride[0];
  if (rows.rank <= 1) return;
  if ((int)threadIdx.x < count) shared[threadIdx.x] = row_of(place, rows, first + threadIdx.x) - place.data;
  __syncthreads();
  UNROLL
  for (int row = 0; row < ROWS; row++) found[row] = place.data + shared[min(row, count - 1)];
  __syncthreads();
}

INLINE float read_place(const core_place &place, const core_rows &rows, uint32_t row, int64_t column) {
  return read_number(row_of(place, rows, row) + column * place.column_stride, place.type);
}

// ---- epilogues ----

INLINE float apply_function(uint32_t kind, float x) {
  switch (kind) {
#define POINTWISE(op, function)                                                                                        \
  case EPILOGUE_##op:                                                                                                  \
    return function(x);
#include "kernels.def"
  default:
    return x;
  }
}

// What the items read for one number: early, so that it is there when the number is.
INLINE void read_epilogue(const epilogue_list &list, const core_rows &rows, uint32_t row, int64_t column,
                          float (&operand)[EPILOGUE_ITEMS]) {
  UNROLL
  for (uint32_t i = 0; i < EPILOGUE_ITEMS; i++) {
    operand[i] = 0.0f;
    if (i < list.count && list.item[i].operand.data) operand[i] = read_place(list.item[i].operand, rows, row, column);
  }
}

// Takes the operands one after the other, so that they stay in registers.
INLINE float apply_epilogue(const epilogue_list &list, const core_rows &rows, uint32_t row, int64_t column,
                            float (&operand)[EPILOGUE_ITEMS], float value) {
  ROLLED
  for (uint32_t i = 0; i < list.count; i++) {
    const epilogue_item &item = list.item[i];
    if (item.kind == EPILOGUE_ADD)
      value += operand[0];
    else if (item.kind == EPILOGUE_MULTIPLY)
      value *= operand[0];
    else
      value = apply_function(item.kind, value);
    if (item.output.data) *(float *)(row_of(item.output, rows, row) + column * item.output.column_stride) = value;
    UNROLL
    for (int next = 1; next < EPILOGUE_ITEMS; next++) operand[next - 1] = operand[next];
  }
  return value;
}

#endif
