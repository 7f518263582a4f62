/* SPDX-License-Identifier: MIT
 *
 * The matmul level baseline, SSE2: tiles of 4 rows by 8 columns.
 */
#include <emmintrin.h>

#include "bits.h"
#include "packed_matmul.h"

#define TILE_ROWS 4
#define TILE_VECTORS 8

typedef __m128i tile_vector;
INLINE tile_vector tile_zero(void) { return _mm_setzero_si128(); }
INLINE tile_vector tile_load(const char *from) { return _mm_loadu_si128((const __m128i *)from); }
INLINE void tile_store(uint32_t *into, tile_vector value) { _mm_storeu_si128((__m128i *)into, value); }
INLINE tile_vector tile_broadcast(const uint32_t *from) { return _mm_set1_epi32((int)*from); }
/* The value, in a register here: else gcc moves products about until it has no register left. */
INLINE tile_vector tile_keep(tile_vector value) {
  __asm__("" : "+x"(value));
  return value;
}

enum { f32_PARTS = 1, widened_PARTS = 2, i16_PARTS = 2 };

INLINE tile_vector f32_part(tile_vector word, int part) {
  (void)part;
  return word;
}
INLINE tile_vector f32_multiply(tile_vector sum, tile_vector weight, tile_vector x) {
  const __m128 product = _mm_mul_ps(_mm_castsi128_ps(weight), _mm_castsi128_ps(x));
  return tile_keep(_mm_castps_si128(_mm_add_ps(_mm_castsi128_ps(sum), product)));
}

/* Two bf16 of a word as f32. */
INLINE tile_vector widened_part(tile_vector word, int part) {
  return _mm_slli_epi32(part ? _mm_srli_epi32(word, 16) : word, 16);
}
#define widened_multiply f32_multiply

/* Four unsigned bytes of a word as two pairs of 16 bits: bytes 0 and 2, bytes 1 and 3. */
INLINE tile_vector i16_part(tile_vector word, int part) {
  return _mm_srli_epi16(part ? word : _mm_slli_epi16(word, 8), 8);
}
INLINE tile_vector i16_multiply(tile_vector sum, tile_vector weight, tile_vector x) {
  return tile_keep(_mm_add_epi32(sum, _mm_madd_epi16(weight, x)));
}

#define TILE f32
#include "tile.def"
#define TILE widened
#include "tile.def"
#define TILE i16
#include "tile.def"

static const matmul_math maths[] = {
    {"f32", 0, ORD_F32, ORD_F32, MATMUL_X_F32, tile_f32, NULL},
    {"f32 by bf16", 0, ORD_F32, ORD_BF16, MATMUL_X_F32, tile_widened, NULL},
    {"bf16", 0, ORD_BF16, ORD_BF16, MATMUL_X_F32_ROUNDED, tile_widened, NULL},
    {"int8", 0, ORD_I8, ORD_I8, MATMUL_X_I16, tile_i16, NULL},
};

const matmul_level matmul_level_baseline = {PLAIN_LEVEL_baseline, TILE_ROWS, sizeof maths / sizeof *maths, maths};
