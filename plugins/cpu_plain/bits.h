/* SPDX-License-Identifier: MIT
 *
 * For loops over numbers: floats as bits and as bf16, a product with a sum, and what the compiler has to be told.
 */
#ifndef PLAIN_BITS_H
#define PLAIN_BITS_H

#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* Before a loop over numbers none of which depends on another, also where what it writes may be what it reads. */
#if defined(__clang__)
#define EACH_ALONE
#else
#define EACH_ALONE _Pragma("GCC ivdep")
#endif

INLINE float from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

INLINE uint32_t to_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* A number whose upper 16 bits are the nearest bf16, to even; the lower ones mean nothing. A NaN keeps its upper bits
 * and stays one. */
INLINE uint32_t bf16_rounded(float value) {
  const uint32_t bits = to_bits(value);
  const uint32_t rounded = bits + 0x7fffu + (bits >> 16 & 1u);
  return (bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x400000u : rounded;
}

/* a * b + c. One rounding where the level has such an instruction, two where it would be a call. */
#if defined(__FMA__)
INLINE float multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#else
INLINE float multiply_add(float a, float b, float c) { return a * b + c; }
#endif

#endif
