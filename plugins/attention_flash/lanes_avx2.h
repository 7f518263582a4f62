/* SPDX-License-Identifier: MIT
 *
 * Vectors of 8 numbers in AVX2 with FMA; lanes_avx512.h says what each name means.
 */
#ifndef ATTENTION_FLASH_LANES_H
#define ATTENTION_FLASH_LANES_H

#include <immintrin.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))

enum { LANES = 8, TILE_ROWS = 6 };
typedef __m256 lanes;

INLINE lanes lanes_load(const float *from) { return _mm256_loadu_ps(from); }
INLINE void lanes_store(float *into, lanes a) { _mm256_storeu_ps(into, a); }
INLINE lanes lanes_all(float value) { return _mm256_set1_ps(value); }
INLINE lanes lanes_fma(lanes a, lanes b, lanes sum) { return _mm256_fmadd_ps(a, b, sum); }
INLINE lanes lanes_max(lanes a, lanes b) { return _mm256_max_ps(a, b); }
INLINE lanes lanes_min(lanes a, lanes b) { return _mm256_min_ps(a, b); }

INLINE float lanes_largest(lanes a) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
INLINE float lanes_sum(lanes a) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

INLINE lanes lanes_size(lanes a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
INLINE lanes lanes_signed(lanes size, lanes sign) {
  return _mm256_or_ps(size, _mm256_and_ps(sign, _mm256_set1_ps(-0.0f)));
}
INLINE lanes lanes_if_less(lanes a, lanes b, lanes less, lanes otherwise) {
  return _mm256_blendv_ps(otherwise, less, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}

INLINE lanes lanes_round(lanes a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
/* In two halves, since 2^-160 is no number. */
INLINE lanes lanes_scale(lanes a, lanes n) {
  const __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1), bias = _mm256_set1_epi32(127);
  const __m256i rest = _mm256_sub_epi32(whole, half);
  const lanes power = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
  return a * power * _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
}

INLINE lanes lanes_low_halves(lanes pairs) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(pairs), 16));
}
INLINE lanes lanes_high_halves(lanes pairs) {
  return _mm256_castsi256_ps(_mm256_and_si256(_mm256_castps_si256(pairs), _mm256_set1_epi32((int)0xffff0000u)));
}
INLINE lanes lanes_load_bf16(const uint16_t *from) {
  const __m128i half = _mm_loadu_si128((const __m128i *)from);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

/* Four numbers from each of two rows that lie four rows apart. */
INLINE lanes load_halves(const char *from, int64_t stride) {
  const __m256 first = _mm256_castps128_ps256(_mm_loadu_ps((const float *)from));
  return _mm256_insertf128_ps(first, _mm_loadu_ps((const float *)(from + 4 * stride)), 1);
}

INLINE void lanes_load_columns(const char *from, int64_t stride, lanes *column) {
  const lanes a = load_halves(from, stride), b = load_halves(from + stride, stride);
  const lanes c = load_halves(from + 2 * stride, stride), d = load_halves(from + 3 * stride, stride);
  const lanes low = _mm256_unpacklo_ps(a, b), high = _mm256_unpackhi_ps(a, b);
  const lanes low_next = _mm256_unpacklo_ps(c, d), high_next = _mm256_unpackhi_ps(c, d);
  column[0] = _mm256_shuffle_ps(low, low_next, 0x44);
  column[1] = _mm256_shuffle_ps(low, low_next, 0xee);
  column[2] = _mm256_shuffle_ps(high, high_next, 0x44);
  column[3] = _mm256_shuffle_ps(high, high_next, 0xee);
}

#endif
