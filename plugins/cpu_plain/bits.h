/* SPDX-License-Identifier: MIT
 *
 * For loops over numbers: floats as bits, a product with a sum, and what the compiler has to be told.
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

/* a * b + c. One rounding where the level has such an instruction, two where it would be a call. */
#if defined(__FMA__)
INLINE float multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#else
INLINE float multiply_add(float a, float b, float c) { return a * b + c; }
#endif

#endif
