/* SPDX-License-Identifier: MIT
 *
 * The matmul level avx2: tiles of 6 rows by 16 columns, 12 of the 16 registers being accumulators.
 */
#include <immintrin.h>

#include "bits.h"
#include "packed_matmul.h"

#define TILE_ROWS 6
#define TILE_VECTORS 4

typedef __m256i tile_vector;
INLINE tile_vector tile_zero(void) { return _mm256_setzero_si256(); }
INLINE tile_vector tile_load(const char *from) { return _mm256_loadu_si256((const __m256i *)from); }
INLINE void tile_store(uint32_t *into, tile_vector value) { _mm256_storeu_si256((__m256i *)into, value); }
INLINE tile_vector tile_broadcast(const uint32_t *from) { return _mm256_set1_epi32((int)*from); }
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
/* Not the intrinsic: of its three forms gcc takes those that copy the sum, and runs out of registers. */
INLINE tile_vector f32_multiply(tile_vector sum, tile_vector weight, tile_vector x) {
  __asm__("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(weight), "x"(x));
  return sum;
}

/* Two bf16 of a word as f32. */
INLINE tile_vector widened_part(tile_vector word, int part) {
  return _mm256_slli_epi32(part ? _mm256_srli_epi32(word, 16) : word, 16);
}
#define widened_multiply f32_multiply

/* Four unsigned bytes of a word as two pairs of 16 bits: bytes 0 and 2, bytes 1 and 3. */
INLINE tile_vector i16_part(tile_vector word, int part) {
  return _mm256_srli_epi16(part ? word : _mm256_slli_epi16(word, 8), 8);
}
INLINE tile_vector i16_multiply(tile_vector sum, tile_vector weight, tile_vector x) {
  return tile_keep(_mm256_add_epi32(sum, _mm256_madd_epi16(weight, x)));
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

const matmul_level matmul_level_avx2 = {PLAIN_LEVEL_avx2, TILE_ROWS, sizeof maths / sizeof *maths, maths};
