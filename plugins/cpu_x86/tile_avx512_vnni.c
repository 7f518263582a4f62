/* SPDX-License-Identifier: MIT
 *
 * The tiles of level avx512 that multiply groups of four unsigned weights by four signed activations.
 */
#include "tile_avx512.h"

enum { i8_dot_PARTS = 1 };
INLINE tile_vector i8_dot_part(tile_vector word, int part) {
  (void)part;
  return word;
}
INLINE tile_vector i8_dot_multiply(tile_vector sum, tile_vector weight, tile_vector x) {
  return _mm512_dpbusd_epi32(sum, weight, x);
}

#define TILE_SHARED
#define TILE i8_dot
#include "tile.def"
