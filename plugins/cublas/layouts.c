/* SPDX-License-Identifier: MIT */
#include "layouts.h"

#include "cuda_weights/rows16.h"

#define KEY_VECTOR_F32 UINT64_C(0x6f72766563743201)

int64_t layouts_row_bytes(int64_t length, uint16_t type) {
  return (length * rows16_number_bytes(type) + ROWS16_UNIT - 1) / ROWS16_UNIT * ROWS16_UNIT;
}

ord_pack layouts_rows_pack(const ord_operand *operand, uint16_t type) {
  return (ord_pack){rows16_key(type), (uint64_t)(operand->dim[0] * layouts_row_bytes(operand->dim[1], type)), 1};
}

ord_pack layouts_vector_pack(const ord_operand *operand) {
  return (ord_pack){KEY_VECTOR_F32, (uint64_t)operand->dim[0] * sizeof(float), 1};
}

static uint16_t type_of_key(uint64_t key) {
  return key == KEY_ROWS16_F16 ? ORD_F16 : key == KEY_ROWS16_BF16 ? ORD_BF16 : ORD_F32;
}

void layouts_pack(const ord_operand *operand, uint64_t key, const void *const *segment, uint32_t slice,
                  uint32_t slice_count, void *packed) {
  const uint16_t type = type_of_key(key);
  const int64_t length = operand->rank > 1 ? operand->dim[1] : 1, bytes = rows16_number_bytes(type);
  const int64_t row_bytes = key == KEY_VECTOR_F32 ? bytes : layouts_row_bytes(length, type);
  const int64_t stride = operand->rank > 1 ? operand->stride[1] : bytes;
  const int64_t count = operand->dim[0], end = count * (slice + 1) / slice_count;
  for (int64_t row = count * slice / slice_count; row < end; row++) {
    char *into = (char *)packed + row * row_bytes;
    memset(into + length * bytes, 0, (size_t)(row_bytes - length * bytes));
    rows16_convert(rows16_find(operand, segment, row), stride, operand->dtype, length, type, into);
  }
}
