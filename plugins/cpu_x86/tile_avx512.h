/* SPDX-License-Identifier: MIT
 *
 * The vectors of level avx512, for tile.def: 12 rows by 32 columns, 24 of the 32 registers being accumulators.
 */
#ifndef X86_TILE_AVX512_H
#define X86_TILE_AVX512_H

#include <immintrin.h>

#include "bits.h"
#include "packed_matmul.h"

#define TILE_ROWS 12
#define TILE_VECTORS 2

typedef __m512i tile_vector;
INLINE tile_vector tile_zero(void) { return _mm512_setzero_si512(); }
INLINE tile_vector tile_load(const char *from) { return _mm512_loadu_si512(from); }
INLINE void tile_store(uint32_t *into, tile_vector value) { _mm512_storeu_si512(into, value); }
INLINE tile_vector tile_broadcast(const uint32_t *from) { return _mm512_set1_epi32((int)*from); }
/* The value, in a register here: else gcc moves products about until it has no register left. */
INLINE tile_vector tile_keep(tile_vector value) {
  __asm__("" : "+v"(value));
  return value;
}

#endif
