/* SPDX-License-Identifier: MIT
 *
 * Vectors of 16 numbers in AVX-512. The same names stand in lanes_avx2.h and lanes_baseline.h, so that tile.h is
 * written once: LANES numbers in a vector, TILE_ROWS queries in a full tile (with two vectors of sums each, what is
 * added, and a factor, they fill the registers). + - * / of C work on vectors. Products that are summed go through
 * lanes_fma alone, so that no compiler decides about their rounding.
 */
#ifndef ATTENTION_FLASH_LANES_H
#define ATTENTION_FLASH_LANES_H

#include <immintrin.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))

enum { LANES = 16, TILE_ROWS = 12 };
typedef __m512 lanes;

INLINE lanes lanes_load(const float *from) { return _mm512_loadu_ps(from); }
INLINE void lanes_store(float *into, lanes a) { _mm512_storeu_ps(into, a); }
INLINE lanes lanes_all(float value) { return _mm512_set1_ps(value); }
INLINE lanes lanes_fma(lanes a, lanes b, lanes sum) { return _mm512_fmadd_ps(a, b, sum); }
/* The larger; b where one is NaN. */
INLINE lanes lanes_max(lanes a, lanes b) { return _mm512_max_ps(a, b); }
INLINE lanes lanes_min(lanes a, lanes b) { return _mm512_min_ps(a, b); }
INLINE float lanes_largest(lanes a) { return _mm512_reduce_max_ps(a); }
INLINE float lanes_sum(lanes a) { return _mm512_reduce_add_ps(a); }

INLINE lanes lanes_size(lanes a) { return _mm512_abs_ps(a); }
/* The size of `size` with the sign of `sign`. */
INLINE lanes lanes_signed(lanes size, lanes sign) {
  return _mm512_or_ps(size, _mm512_and_ps(sign, _mm512_set1_ps(-0.0f)));
}
/* `less` where a < b, else `otherwise`. */
INLINE lanes lanes_if_less(lanes a, lanes b, lanes less, lanes otherwise) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), otherwise, less);
}

INLINE lanes lanes_round(lanes a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
/* a * 2^n for a whole n in [-160, 160]. */
INLINE lanes lanes_scale(lanes a, lanes n) { return _mm512_scalef_ps(a, n); }

/* 2 * LANES numbers in bf16, pairs of which are taken for one number, and what each pair holds. */
INLINE lanes lanes_low_halves(lanes pairs) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(pairs), 16));
}
INLINE lanes lanes_high_halves(lanes pairs) {
  return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(pairs), _mm512_set1_epi32((int)0xffff0000u)));
}
INLINE lanes lanes_load_bf16(const uint16_t *from) {
  const __m256i half = _mm256_loadu_si256((const __m256i *)from);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

/* Four numbers from each of four rows that lie four rows apart. */
INLINE lanes load_quarters(const char *from, int64_t stride) {
  lanes made = _mm512_castps128_ps512(_mm_loadu_ps((const float *)from));
  made = _mm512_mask_broadcast_f32x4(made, 0x00f0, _mm_loadu_ps((const float *)(from + 4 * stride)));
  made = _mm512_mask_broadcast_f32x4(made, 0x0f00, _mm_loadu_ps((const float *)(from + 8 * stride)));
  return _mm512_mask_broadcast_f32x4(made, 0xf000, _mm_loadu_ps((const float *)(from + 12 * stride)));
}

/* column[j], j < 4, gets number j of each of LANES rows that lie `stride` bytes apart. */
INLINE void lanes_load_columns(const char *from, int64_t stride, lanes *column) {
  const lanes a = load_quarters(from, stride), b = load_quarters(from + stride, stride);
  const lanes c = load_quarters(from + 2 * stride, stride), d = load_quarters(from + 3 * stride, stride);
  const lanes low = _mm512_unpacklo_ps(a, b), high = _mm512_unpackhi_ps(a, b);
  const lanes low_next = _mm512_unpacklo_ps(c, d), high_next = _mm512_unpackhi_ps(c, d);
  column[0] = _mm512_shuffle_ps(low, low_next, 0x44);
  column[1] = _mm512_shuffle_ps(low, low_next, 0xee);
  column[2] = _mm512_shuffle_ps(high, high_next, 0x44);
  column[3] = _mm512_shuffle_ps(high, high_next, 0xee);
}

#endif
