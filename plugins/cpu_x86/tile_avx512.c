/* SPDX-License-Identifier: MIT
 *
 * The matmul level avx512, and its tiles that need no more than AVX-512 F and BW.
 */
#include "tile_avx512.h"

enum { f32_PARTS = 1, widened_PARTS = 2, i16_PARTS = 2 };

INLINE tile_vector f32_part(tile_vector word, int part) {
  (void)part;
  return word;
}
INLINE tile_vector f32_multiply(tile_vector sum, tile_vector weight, tile_vector x) {
  return _mm512_castps_si512(
      _mm512_fmadd_ps(_mm512_castsi512_ps(weight), _mm512_castsi512_ps(x), _mm512_castsi512_ps(sum)));
}

/* Two bf16 of a word as f32. */
INLINE tile_vector widened_part(tile_vector word, int part) {
  return part ? _mm512_maskz_mov_epi16(0xaaaaaaaa, word) : _mm512_slli_epi32(word, 16);
}
#define widened_multiply f32_multiply

/* Four unsigned bytes of a word as two pairs of 16 bits: bytes 0 and 2, bytes 1 and 3. */
INLINE tile_vector i16_part(tile_vector word, int part) {
  return part ? _mm512_srli_epi16(word, 8) : _mm512_maskz_mov_epi8(0x5555555555555555, word);
}
INLINE tile_vector i16_multiply(tile_vector sum, tile_vector weight, tile_vector x) {
  return tile_keep(_mm512_add_epi32(sum, _mm512_madd_epi16(weight, x)));
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
    {"bf16 vdpbf16ps", ORD_CPU_AVX512_BF16, ORD_BF16, ORD_BF16, MATMUL_X_BF16, tile_bf16_dot, tile_bf16_round},
    {"bf16", 0, ORD_BF16, ORD_BF16, MATMUL_X_F32_ROUNDED, tile_widened, NULL},
    {"int8 vpdpbusd", ORD_CPU_AVX512_VNNI, ORD_I8, ORD_I8, MATMUL_X_I8, tile_i8_dot, NULL},
    {"int8", 0, ORD_I8, ORD_I8, MATMUL_X_I16, tile_i16, NULL},
};

const matmul_level matmul_level_avx512 = {PLAIN_LEVEL_avx512, TILE_ROWS, sizeof maths / sizeof *maths, maths};
