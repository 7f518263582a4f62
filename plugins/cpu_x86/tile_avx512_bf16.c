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
