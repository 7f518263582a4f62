/* SPDX-License-Identifier: MIT
 *
 * Vectors of 4 numbers in the compiler's own notation, for any CPU; lanes_avx512.h says what each name means. A sum of
 * products rounds twice here, since plain x86-64 has no fused one.
 */
#ifndef ATTENTION_FLASH_LANES_H
#define ATTENTION_FLASH_LANES_H

#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum { LANES = 4, TILE_ROWS = 4 };
typedef float lanes __attribute__((vector_size(16)));
typedef int32_t lane_bits __attribute__((vector_size(16)));

INLINE lanes lanes_load(const float *from) {
  lanes made;
  memcpy(&made, from, sizeof made);
  return made;
}
INLINE void lanes_store(float *into, lanes a) { memcpy(into, &a, sizeof a); }
INLINE lanes lanes_all(float value) { return (lanes){value, value, value, value}; }
INLINE lanes lanes_fma(lanes a, lanes b, lanes sum) { return a * b + sum; }

INLINE lanes lanes_choose(lane_bits mask, lanes yes, lanes no) {
  return (lanes)(((lane_bits)yes & mask) | ((lane_bits)no & ~mask));
}
INLINE lanes lanes_if_less(lanes a, lanes b, lanes less, lanes otherwise) {
  return lanes_choose(a < b, less, otherwise);
}
INLINE lanes lanes_max(lanes a, lanes b) { return lanes_choose(a > b, a, b); }
INLINE lanes lanes_min(lanes a, lanes b) { return lanes_choose(a < b, a, b); }

INLINE float lanes_largest(lanes a) {
  const float low = a[0] > a[2] ? a[0] : a[2], high = a[1] > a[3] ? a[1] : a[3];
  return low > high ? low : high;
}
INLINE float lanes_sum(lanes a) { return (a[0] + a[2]) + (a[1] + a[3]); }

INLINE lanes lanes_size(lanes a) { return (lanes)((lane_bits)a & 0x7fffffff); }
INLINE lanes lanes_signed(lanes size, lanes sign) { return (lanes)((lane_bits)size | ((lane_bits)sign & INT32_MIN)); }

/* Adding 1.5 * 2^23 leaves no room for a fraction. */
INLINE lanes lanes_round(lanes a) { return (a + 12582912.0f) - 12582912.0f; }
/* The sum has n in its low bits. In two halves, since 2^-160 is no number. */
INLINE lanes lanes_scale(lanes a, lanes n) {
  const lane_bits whole = ((lane_bits)(n + 12582912.0f) & 0x7fffff) - 0x400000, half = whole >> 1;
  return a * (lanes)((half + 127) << 23) * (lanes)((whole - half + 127) << 23);
}

INLINE lanes lanes_low_halves(lanes pairs) { return (lanes)((lane_bits)pairs << 16); }
INLINE lanes lanes_high_halves(lanes pairs) { return (lanes)((lane_bits)pairs & (int32_t)0xffff0000u); }
INLINE lanes lanes_load_bf16(const uint16_t *from) {
  const lane_bits half = {from[0], from[1], from[2], from[3]};
  return (lanes)(half << 16);
}

INLINE void lanes_load_columns(const char *from, int64_t stride, lanes *column) {
  lanes a[4];
  for (int i = 0; i < 4; i++) memcpy(&a[i], from + i * stride, sizeof a[i]);
  const lanes low = __builtin_shufflevector(a[0], a[1], 0, 4, 1, 5);
  const lanes high = __builtin_shufflevector(a[0], a[1], 2, 6, 3, 7);
  const lanes low_next = __builtin_shufflevector(a[2], a[3], 0, 4, 1, 5);
  const lanes high_next = __builtin_shufflevector(a[2], a[3], 2, 6, 3, 7);
  column[0] = __builtin_shufflevector(low, low_next, 0, 1, 4, 5);
  column[1] = __builtin_shufflevector(low, low_next, 2, 3, 6, 7);
  column[2] = __builtin_shufflevector(high, high_next, 0, 1, 4, 5);
  column[3] = __builtin_shufflevector(high, high_next, 2, 3, 6, 7);
}

#endif
