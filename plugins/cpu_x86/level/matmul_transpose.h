/* SPDX-License-Identifier: MIT
 *
 * The one way in which weights and activations get their layout: rows of words become columns.
 */
#ifndef X86_MATMUL_TRANSPOSE_H
#define X86_MATMUL_TRANSPOSE_H

#include <emmintrin.h>
#include <stdint.h>
#include <string.h>

enum { TRANSPOSE_RUN = 16 }; /* words of a row that are read together: a cache line */

/* Words [begin, begin + 4) of four rows. */
static inline void matmul_transpose_square(const char *const *row, int64_t begin, char *into, int64_t step) {
  const int64_t at = begin * 4;
  const __m128i a = _mm_loadu_si128((const __m128i *)(row[0] + at)),
                b = _mm_loadu_si128((const __m128i *)(row[1] + at)),
                c = _mm_loadu_si128((const __m128i *)(row[2] + at)),
                d = _mm_loadu_si128((const __m128i *)(row[3] + at));
  const __m128i ab_low = _mm_unpacklo_epi32(a, b), ab_high = _mm_unpackhi_epi32(a, b);
  const __m128i cd_low = _mm_unpacklo_epi32(c, d), cd_high = _mm_unpackhi_epi32(c, d);
  _mm_storeu_si128((__m128i *)into, _mm_unpacklo_epi64(ab_low, cd_low));
  _mm_storeu_si128((__m128i *)(into + step), _mm_unpackhi_epi64(ab_low, cd_low));
  _mm_storeu_si128((__m128i *)(into + 2 * step), _mm_unpacklo_epi64(ab_high, cd_high));
  _mm_storeu_si128((__m128i *)(into + 3 * step), _mm_unpackhi_epi64(ab_high, cd_high));
}

/* Word w of row r comes to lie at `into` + w * step + r * 4. Few rows are read at a time: rows that lie a multiple of
 * 4 KiB apart share the few places that a cache has for them. */
static inline void matmul_transpose(const char *const *row, int row_count, int64_t word_count, char *into,
                                    int64_t step) {
  for (int64_t run = 0; run < word_count; run += TRANSPOSE_RUN) {
    const int64_t end = run + TRANSPOSE_RUN < word_count ? run + TRANSPOSE_RUN : word_count;
    const int64_t whole = run + (end - run) / 4 * 4;
    for (int r = 0; r + 4 <= row_count; r += 4) {
      for (int64_t w = run; w < whole; w += 4) matmul_transpose_square(row + r, w, into + w * step + r * 4, step);
      for (int64_t w = whole; w < end; w++)
        for (int i = r; i < r + 4; i++) memcpy(into + w * step + i * 4, row[i] + w * 4, 4);
    }
    for (int r = row_count / 4 * 4; r < row_count; r++)
      for (int64_t w = run; w < end; w++) memcpy(into + w * step + r * 4, row[r] + w * 4, 4);
  }
}

#endif
