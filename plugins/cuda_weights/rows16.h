/* SPDX-License-Identifier: MIT
 *
 * How CUDA kernels of matmul want their weights: rows one behind the other, each of whole units of 16 aligned bytes,
 * the rest of the last unit zero. Many weights are stored so; the others are packed. Host side, for plugins that share
 * such packs; this folder is no plugin.
 */
#ifndef CUDA_WEIGHTS_ROWS16_H
#define CUDA_WEIGHTS_ROWS16_H

#include <math.h>
#include <stdbool.h>

#include "ordito_plugin.h"

enum { ROWS16_UNIT = 16 }; /* bytes */

/* The keys of the layouts, by type. */
#define KEY_ROWS16_F32 UINT64_C(0x6f72726f77163201)
#define KEY_ROWS16_F16 UINT64_C(0x6f72726f77161602)
#define KEY_ROWS16_BF16 UINT64_C(0x6f72726f7716b603)
#define KEY_ROWS16_I8 UINT64_C(0x6f72726f77160804)
#define KEY_ROWS16_I8_SCALED UINT64_C(0x6f72726f77160805) /* f32 [rows] of scales behind the rows */

/* Types: f32, f16, bf16, i8. */
static inline int64_t rows16_number_bytes(uint16_t type) { return type == ORD_F32 ? 4 : type == ORD_I8 ? 1 : 2; }

static inline uint64_t rows16_key(uint16_t type) {
  return type == ORD_F32   ? KEY_ROWS16_F32
         : type == ORD_F16 ? KEY_ROWS16_F16
         : type == ORD_I8  ? KEY_ROWS16_I8
                           : KEY_ROWS16_BF16;
}

/* Is the matrix [rows, length] stored so, in this type? */
static inline bool rows16_are_stored(const ord_operand *operand, uint16_t type) {
  const int64_t bytes = rows16_number_bytes(type);
  int64_t row_bytes;
  if (operand->dtype != type || __builtin_mul_overflow(operand->dim[1], bytes, &row_bytes)) return false;
  const bool has_rows = operand->dim[1] <= 1 || operand->stride[1] == bytes;
  const bool is_one = operand->segment_count <= 1 || operand->stride[0] == row_bytes;
  return has_rows && is_one && row_bytes % ROWS16_UNIT == 0 && operand->stride[0] % ROWS16_UNIT == 0 &&
         1 << operand->align_log2 >= ROWS16_UNIT;
}

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

static inline float rows16_float_of_bits(uint32_t bits) {
  float number;
  memcpy(&number, &bits, sizeof number);
  return number;
}

static inline uint32_t rows16_bits_of_float(float number) {
  uint32_t bits;
  memcpy(&bits, &number, sizeof bits);
  return bits;
}

static inline float rows16_float_of_f16(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = half >> 10 & 31u, fraction = half & 0x3ffu;
  if (exponent == 31) return rows16_float_of_bits(sign | 0x7f800000u | fraction << 13);
  if (exponent) return rows16_float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
  const float small = (float)fraction * 0x1p-24f;
  return sign ? -small : small;
}

/* To nearest even, as the next. */
static inline uint16_t rows16_bf16_of_float(float number) {
  const uint32_t bits = rows16_bits_of_float(number);
  if (number != number) return (uint16_t)(bits >> 16 | 0x40u);
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static inline uint16_t rows16_f16_of_float(float number) {
  const uint16_t sign = (uint16_t)(rows16_bits_of_float(number) >> 16 & 0x8000u);
  const float size = fabsf(number);
  if (number != number) return (uint16_t)(sign | 0x7e00u);
  if (size >= 65520.0f) return (uint16_t)(sign | 0x7c00u);
  if (size < 0x1p-14f) return (uint16_t)(sign | (uint16_t)lrintf(size * 0x1p24f));
  const uint32_t bits = rows16_bits_of_float(size) - (UINT32_C(112) << 23);
  return (uint16_t)(sign | (bits + 0xfffu + (bits >> 13 & 1u)) >> 13);
}

static inline float rows16_read(const char *at, uint16_t type) {
  float number;
  uint16_t half;
  switch (type) {
  case ORD_F32:
    memcpy(&number, at, sizeof number);
    return number;
  case ORD_I8:
    return (float)*(const int8_t *)at;
  default:
    memcpy(&half, at, sizeof half);
    return type == ORD_BF16 ? rows16_float_of_bits((uint32_t)half << 16) : rows16_float_of_f16(half);
  }
}

static inline void rows16_write(char *at, uint16_t type, float number) {
  if (type == ORD_F32) {
    memcpy(at, &number, sizeof number);
  } else if (type == ORD_I8) {
    *(int8_t *)at = (int8_t)lrintf(number);
  } else {
    const uint16_t half = type == ORD_BF16 ? rows16_bf16_of_float(number) : rows16_f16_of_float(number);
    memcpy(at, &half, sizeof half);
  }
}

/* ---- pack ------------------------------------------------------------------------------------------------------- */

/* Row `row` of an operand whose segments begin at these addresses. */
static inline const char *rows16_find(const ord_operand *operand, const void *const *segment, int64_t row) {
  uint32_t i = 0;
  for (; row >= operand->segment[i].rows; i++) row -= operand->segment[i].rows;
  return (const char *)segment[i] + row * operand->stride[0];
}

/* `length` numbers of type `stored` that lie `stride` bytes apart become numbers of `type` side by side. */
static inline void rows16_convert(const char *from, int64_t stride, uint16_t stored, int64_t length, uint16_t type,
                                  char *into) {
  const int64_t bytes = rows16_number_bytes(type);
  if (stored == type && stride == bytes)
    memcpy(into, from, (size_t)(length * bytes));
  else
    for (int64_t i = 0; i < length; i++) rows16_write(into + i * bytes, type, rows16_read(from + i * stride, stored));
}

#endif
