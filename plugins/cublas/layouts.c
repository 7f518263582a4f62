/* SPDX-License-Identifier: MIT */
#include "layouts.h"

#include <math.h>

enum { UNIT_BYTES = 16 };

#define KEY_ROWS16_F32 UINT64_C(0x6f72726f77163201)
#define KEY_ROWS16_F16 UINT64_C(0x6f72726f77161602)
#define KEY_ROWS16_BF16 UINT64_C(0x6f72726f7716b603)
#define KEY_VECTOR_F32 UINT64_C(0x6f72766563743201)

int64_t layouts_number_bytes(uint16_t type) { return type == ORD_F32 ? 4 : 2; }

int64_t layouts_row_bytes(int64_t length, uint16_t type) {
  return (length * layouts_number_bytes(type) + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES;
}

bool layouts_rows_are_stored(const ord_operand *operand, uint16_t type) {
  const int64_t bytes = layouts_number_bytes(type), row_bytes = operand->dim[1] * bytes;
  const bool has_rows = operand->dim[1] <= 1 || operand->stride[1] == bytes;
  const bool is_one = operand->segment_count <= 1 || operand->stride[0] == row_bytes;
  return operand->dtype == type && has_rows && is_one && row_bytes % UNIT_BYTES == 0 &&
         operand->stride[0] % UNIT_BYTES == 0 && 1 << operand->align_log2 >= UNIT_BYTES;
}

ord_pack layouts_rows_pack(const ord_operand *operand, uint16_t type) {
  const uint64_t key = type == ORD_F32 ? KEY_ROWS16_F32 : type == ORD_F16 ? KEY_ROWS16_F16 : KEY_ROWS16_BF16;
  return (ord_pack){key, (uint64_t)(operand->dim[0] * layouts_row_bytes(operand->dim[1], type)), 1};
}

ord_pack layouts_vector_pack(const ord_operand *operand) {
  return (ord_pack){KEY_VECTOR_F32, (uint64_t)operand->dim[0] * sizeof(float), 1};
}

/* ---- numbers ---- */

static float float_of_bits(uint32_t bits) {
  float number;
  memcpy(&number, &bits, sizeof number);
  return number;
}

static uint32_t bits_of_float(float number) {
  uint32_t bits;
  memcpy(&bits, &number, sizeof bits);
  return bits;
}

static float float_of_f16(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = half >> 10 & 31u, fraction = half & 0x3ffu;
  if (exponent == 31) return float_of_bits(sign | 0x7f800000u | fraction << 13);
  if (exponent) return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
  const float small = (float)fraction * 0x1p-24f;
  return sign ? -small : small;
}

/* To nearest even, as the next. */
static uint16_t bf16_of_float(float number) {
  const uint32_t bits = bits_of_float(number);
  if (number != number) return (uint16_t)(bits >> 16 | 0x40u);
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static uint16_t f16_of_float(float number) {
  const uint16_t sign = (uint16_t)(bits_of_float(number) >> 16 & 0x8000u);
  const float size = fabsf(number);
  if (number != number) return (uint16_t)(sign | 0x7e00u);
  if (size >= 65520.0f) return (uint16_t)(sign | 0x7c00u);
  if (size < 0x1p-14f) return (uint16_t)(sign | (uint16_t)lrintf(size * 0x1p24f));
  const uint32_t bits = bits_of_float(size) - (UINT32_C(112) << 23);
  return (uint16_t)(sign | (bits + 0xfffu + (bits >> 13 & 1u)) >> 13);
}

static float read_number(const char *at, uint16_t type) {
  float number;
  uint16_t half;
  if (type == ORD_F32) {
    memcpy(&number, at, sizeof number);
    return number;
  }
  memcpy(&half, at, sizeof half);
  return type == ORD_BF16 ? float_of_bits((uint32_t)half << 16) : float_of_f16(half);
}

static void write_number(char *at, uint16_t type, float number) {
  if (type == ORD_F32) {
    memcpy(at, &number, sizeof number);
    return;
  }
  const uint16_t half = type == ORD_BF16 ? bf16_of_float(number) : f16_of_float(number);
  memcpy(at, &half, sizeof half);
}

/* ---- pack ---- */

static uint16_t type_of_key(uint64_t key) {
  return key == KEY_ROWS16_F16 ? ORD_F16 : key == KEY_ROWS16_BF16 ? ORD_BF16 : ORD_F32;
}

static const char *find_row(const ord_operand *operand, const void *const *segment, int64_t row) {
  uint32_t i = 0;
  for (; row >= operand->segment[i].rows; i++) row -= operand->segment[i].rows;
  return (const char *)segment[i] + row * operand->stride[0];
}

void layouts_pack(const ord_operand *operand, uint64_t key, const void *const *segment, uint32_t slice,
                  uint32_t slice_count, void *packed) {
  const uint16_t type = type_of_key(key), stored = operand->dtype;
  const int64_t length = operand->rank > 1 ? operand->dim[1] : 1, bytes = layouts_number_bytes(type);
  const int64_t row_bytes = key == KEY_VECTOR_F32 ? bytes : layouts_row_bytes(length, type);
  const int64_t stride = operand->rank > 1 ? operand->stride[1] : bytes;
  const int64_t count = operand->dim[0], end = count * (slice + 1) / slice_count;
  for (int64_t row = count * slice / slice_count; row < end; row++) {
    const char *from = find_row(operand, segment, row);
    char *into = (char *)packed + row * row_bytes;
    memset(into + length * bytes, 0, (size_t)(row_bytes - length * bytes));
    if (stored == type && stride == bytes)
      memcpy(into, from, (size_t)(length * bytes));
    else
      for (int64_t i = 0; i < length; i++) write_number(into + i * bytes, type, read_number(from + i * stride, stored));
  }
}
