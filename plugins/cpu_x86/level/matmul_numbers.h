/* SPDX-License-Identifier: MIT
 *
 * Rows of f32 to bf16 and int8, in loops that vectorise. Every operation is one that IEEE 754 fixes, so that the
 * results do not depend on the level.
 */
#ifndef X86_MATMUL_NUMBERS_H
#define X86_MATMUL_NUMBERS_H

#include "bits.h"

INLINE void numbers_to_bf16(const float *restrict from, int64_t count, uint16_t *restrict into) {
  for (int64_t i = 0; i < count; i++) into[i] = (uint16_t)(bf16_rounded(from[i]) >> 16);
}

/* As f32. */
INLINE void numbers_round_to_bf16(const float *restrict from, int64_t count, float *restrict into) {
  for (int64_t i = 0; i < count; i++) into[i] = from_bits(bf16_rounded(from[i]) & 0xffff0000u);
}

/* The bits of the largest magnitude, which order as the numbers do: infinity and NaN come out above all others. */
INLINE int32_t numbers_largest(const float *from, int64_t count) {
  int32_t largest = 0;
  for (int64_t i = 0; i < count; i++) {
    const int32_t size = (int32_t)(to_bits(from[i]) & 0x7fffffffu);
    largest = size > largest ? size : largest;
  }
  return largest;
}

/* The step of int8 for numbers up to the largest. A row that holds an infinity or a NaN has no step: all that it makes
 * is NaN. Numbers below 2^-100 count as zeros, so that 1 / step is finite. */
INLINE float numbers_scale(int32_t largest) {
  if (largest >= 0x7f800000) return from_bits(0x7fc00000u);
  const float size = from_bits((uint32_t)largest);
  return size < 0x1p-100f ? 0.0f : size / 127.0f;
}
INLINE float numbers_inverse(float scale) { return scale > 0.0f ? 1.0f / scale : 0.0f; }

/* number / scale to nearest even, plus `zero`; returns their sum without it (of 2^32). The sum of a number and
 * 1.5 * 2^23 has the whole number in its low bits. */
INLINE uint32_t numbers_to_int8(const float *restrict from, int64_t count, float inverse, int32_t zero,
                                int8_t *restrict into) {
  uint32_t sum = 0;
  for (int64_t i = 0; i < count; i++) {
    const uint32_t whole = to_bits(from[i] * inverse + 12582912.0f) - 0x4b400000u;
    sum += whole;
    into[i] = (int8_t)(whole + (uint32_t)zero);
  }
  return sum;
}

#endif
