/* SPDX-License-Identifier: MIT
 *
 * Rows of f32 to bf16 and int8, in loops that vectorise. Every operation is one that IEEE 754 fixes, so that the
 * results do not depend on the level.
 */
#ifndef X86_MATMUL_NUMBERS_H
#define X86_MATMUL_NUMBERS_H

#include <stdint.h>
#include <string.h>

#define NUMBERS_INLINE static inline __attribute__((always_inline))

NUMBERS_INLINE uint32_t numbers_bits(float number) {
  uint32_t bits;
  memcpy(&bits, &number, sizeof bits);
  return bits;
}

NUMBERS_INLINE float numbers_from_bits(uint32_t bits) {
  float number;
  memcpy(&number, &bits, sizeof number);
  return number;
}

/* To nearest even. A NaN keeps its upper bits and stays one. */
NUMBERS_INLINE uint32_t numbers_rounded(float number) {
  const uint32_t bits = numbers_bits(number);
  const uint32_t rounded = bits + 0x7fffu + (bits >> 16 & 1u);
  return (bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x400000u : rounded;
}

NUMBERS_INLINE void numbers_to_bf16(const float *restrict from, int64_t count, uint16_t *restrict into) {
  for (int64_t i = 0; i < count; i++) into[i] = (uint16_t)(numbers_rounded(from[i]) >> 16);
}

/* As f32. */
NUMBERS_INLINE void numbers_round_to_bf16(const float *restrict from, int64_t count, float *restrict into) {
  for (int64_t i = 0; i < count; i++) into[i] = numbers_from_bits(numbers_rounded(from[i]) & 0xffff0000u);
}

/* The bits of the largest magnitude, which order as the numbers do: infinity and NaN come out above all others. */
NUMBERS_INLINE int32_t numbers_largest(const float *from, int64_t count) {
  int32_t largest = 0;
  for (int64_t i = 0; i < count; i++) {
    const int32_t size = (int32_t)(numbers_bits(from[i]) & 0x7fffffffu);
    largest = size > largest ? size : largest;
  }
  return largest;
}

/* The step of int8 for numbers up to the largest. A row that holds an infinity or a NaN has no step: all that it makes
 * is NaN. Numbers below 2^-100 count as zeros, so that 1 / step is finite. */
NUMBERS_INLINE float numbers_scale(int32_t largest) {
  if (largest >= 0x7f800000) return numbers_from_bits(0x7fc00000u);
  const float size = numbers_from_bits((uint32_t)largest);
  return size < 0x1p-100f ? 0.0f : size / 127.0f;
}
NUMBERS_INLINE float numbers_inverse(float scale) { return scale > 0.0f ? 1.0f / scale : 0.0f; }

/* number / scale to nearest even, plus `zero`; returns their sum without it (of
 * 2^32). The sum of a number and 1.5 * 2^23 has the
 * whole number in its low bits. */
NUMBERS_INLINE uint32_t numbers_to_int8(const float *restrict from, int64_t count, float inverse, int32_t zero,
                                        int8_t *restrict into) {
  uint32_t sum = 0;
  for (int64_t i = 0; i < count; i++) {
    const uint32_t whole = numbers_bits(from[i] * inverse + 12582912.0f) - 0x4b400000u;
    sum += whole;
    into[i] = (int8_t)(whole + (uint32_t)zero);
  }
  return sum;
}

#endif
