/* SPDX-License-Identifier: MIT
 *
 * The tiles of level avx512 that multiply pairs of bf16. The instruction takes subnormal numbers, also sums, as zero.
 */
#include "tile_avx512.h"

enum { bf16_dot_PARTS = 1 };
INLINE tile_vector bf16_dot_part(tile_vector word, int part) {
  (void)part;
  return word;
}
INLINE tile_vector bf16_dot_multiply(tile_vector sum, tile_vector weight, tile_vector x) {
  return _mm512_castps_si512(_mm512_dpbf16_ps(_mm512_castsi512_ps(sum), (__m512bh)weight, (__m512bh)x));
}

#define TILE_SHARED
#define TILE bf16_dot
#include "tile.def"

void tile_bf16_round(const float *from, int64_t count, uint16_t *into) {
  enum { LANES = 16 };
  for (; count >= 2 * LANES; count -= 2 * LANES, from += 2 * LANES, into += 2 * LANES) {
    const __m512 low = _mm512_loadu_ps(from), high = _mm512_loadu_ps(from + LANES);
    _mm512_storeu_si512(into, (__m512i)_mm512_cvtne2ps_pbh(high, low));
  }
  for (; count > 0; count -= LANES, from += LANES, into += LANES) {
    const __mmask16 mask = (__mmask16)(count < LANES ? (1u << count) - 1 : 0xffffu);
    _mm256_mask_storeu_epi16(into, mask, (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, from)));
  }
}
