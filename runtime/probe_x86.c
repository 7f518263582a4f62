/* SPDX-License-Identifier: MIT
 *
 * The probes' instructions on x86-64: AVX2 and AVX-512 functions in a program built for the plain CPU.
 */
#include "runtime/probe_code.h"

#if defined(__x86_64__)
#include <immintrin.h>

/* ---- reads ---- */

__attribute__((target("avx2"))) static uint64_t fold(__m256i all) {
  const __m128i half = _mm_xor_si128(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
  return (uint64_t)_mm_cvtsi128_si64(half) ^ (uint64_t)_mm_extract_epi64(half, 1);
}

__attribute__((target("avx2"))) static uint64_t read_avx2(const unsigned char *memory, size_t count, uint32_t streams) {
  __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
  for (size_t i = 0; i < count; i++)
    for (uint32_t s = 0; s < streams; s++) {
      const __m256i *from = (const __m256i *)(const void *)(memory + (s * count + i) * ORD_READ_CODE_BYTES);
      a = _mm256_xor_si256(a, _mm256_load_si256(from));
      b = _mm256_xor_si256(b, _mm256_load_si256(from + 1));
      c = _mm256_xor_si256(c, _mm256_load_si256(from + 2));
      d = _mm256_xor_si256(d, _mm256_load_si256(from + 3));
      a = _mm256_xor_si256(a, _mm256_load_si256(from + 4));
      b = _mm256_xor_si256(b, _mm256_load_si256(from + 5));
      c = _mm256_xor_si256(c, _mm256_load_si256(from + 6));
      d = _mm256_xor_si256(d, _mm256_load_si256(from + 7));
    }
  const __m256i all = _mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d));
  return fold(all);
}

__attribute__((target("avx512f"))) static uint64_t read_avx512(const unsigned char *memory, size_t count,
                                                               uint32_t streams) {
  __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
  for (size_t i = 0; i < count; i++)
    for (uint32_t s = 0; s < streams; s++) {
      const __m512i *from = (const __m512i *)(const void *)(memory + (s * count + i) * ORD_READ_CODE_BYTES);
      a = _mm512_xor_si512(a, _mm512_load_si512(from));
      b = _mm512_xor_si512(b, _mm512_load_si512(from + 1));
      c = _mm512_xor_si512(c, _mm512_load_si512(from + 2));
      d = _mm512_xor_si512(d, _mm512_load_si512(from + 3));
    }
  const __m512i all = _mm512_xor_si512(_mm512_xor_si512(a, b), _mm512_xor_si512(c, d));
  return fold(_mm256_xor_si256(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1)));
}

ord_read_code_fn ord_read_code_choose(uint64_t features) {
  if (features & ORD_CPU_AVX512) return read_avx512;
  return features & ORD_CPU_AVX2 ? read_avx2 : ord_read_plain;
}

/* ---- multiply-adds: 12 chains, where they fit into the registers ---- */

/* Products and their sums, apart, so that nothing has to be kept twice: 16 registers hold 6 of both. */
static float i8_sse2(uint64_t rounds) {
  const __m128i by = _mm_set1_epi16(2);
  __m128i a = _mm_set1_epi32(0), b = _mm_set1_epi32(1), c = _mm_set1_epi32(2), d = _mm_set1_epi32(3),
          e = _mm_set1_epi32(4), f = _mm_set1_epi32(5);
  __m128i u = _mm_setzero_si128(), v = u, w = u, x = u, y = u, z = u;
  for (uint64_t round = 0; round < rounds; round++) {
    a = _mm_madd_epi16(a, by);
    u = _mm_add_epi32(u, a);
    b = _mm_madd_epi16(b, by);
    v = _mm_add_epi32(v, b);
    c = _mm_madd_epi16(c, by);
    w = _mm_add_epi32(w, c);
    d = _mm_madd_epi16(d, by);
    x = _mm_add_epi32(x, d);
    e = _mm_madd_epi16(e, by);
    y = _mm_add_epi32(y, e);
    f = _mm_madd_epi16(f, by);
    z = _mm_add_epi32(z, f);
    __asm__("" : "+x"(u), "+x"(v), "+x"(w), "+x"(x), "+x"(y), "+x"(z)); /* the compiler would keep copies of them */
  }
  return (float)_mm_cvtsi128_si32(
      _mm_add_epi32(_mm_add_epi32(_mm_add_epi32(u, v), _mm_add_epi32(w, x)), _mm_add_epi32(y, z)));
}

__attribute__((target("avx2,fma"))) static float f32_avx2(uint64_t rounds) {
  const __m256 x = _mm256_set1_ps(0.5f), y = _mm256_set1_ps(1.0f);
  __m256 a = _mm256_set1_ps(0.0f), b = _mm256_set1_ps(1.0f), c = _mm256_set1_ps(2.0f), d = _mm256_set1_ps(3.0f),
         e = _mm256_set1_ps(4.0f), f = _mm256_set1_ps(5.0f), g = _mm256_set1_ps(6.0f), h = _mm256_set1_ps(7.0f),
         i = _mm256_set1_ps(8.0f), j = _mm256_set1_ps(9.0f), k = _mm256_set1_ps(10.0f), l = _mm256_set1_ps(11.0f);
  for (uint64_t round = 0; round < rounds; round++) {
    a = _mm256_fmadd_ps(a, x, y);
    b = _mm256_fmadd_ps(b, x, y);
    c = _mm256_fmadd_ps(c, x, y);
    d = _mm256_fmadd_ps(d, x, y);
    e = _mm256_fmadd_ps(e, x, y);
    f = _mm256_fmadd_ps(f, x, y);
    g = _mm256_fmadd_ps(g, x, y);
    h = _mm256_fmadd_ps(h, x, y);
    i = _mm256_fmadd_ps(i, x, y);
    j = _mm256_fmadd_ps(j, x, y);
    k = _mm256_fmadd_ps(k, x, y);
    l = _mm256_fmadd_ps(l, x, y);
  }
  return _mm256_cvtss_f32(_mm256_add_ps(_mm256_add_ps(_mm256_add_ps(_mm256_add_ps(a, b), _mm256_add_ps(c, d)),
                                                      _mm256_add_ps(_mm256_add_ps(e, f), _mm256_add_ps(g, h))),
                                        _mm256_add_ps(_mm256_add_ps(i, j), _mm256_add_ps(k, l))));
}

__attribute__((target("avx2"))) static float i8_avx2(uint64_t rounds) {
  const __m256i by = _mm256_set1_epi8(2), one = _mm256_set1_epi16(1);
  __m256i a = _mm256_set1_epi32(0), b = _mm256_set1_epi32(1), c = _mm256_set1_epi32(2), d = _mm256_set1_epi32(3),
          e = _mm256_set1_epi32(4), f = _mm256_set1_epi32(5);
  __m256i u = _mm256_setzero_si256(), v = u, w = u, x = u, y = u, z = u;
  for (uint64_t round = 0; round < rounds; round++) {
    a = _mm256_madd_epi16(_mm256_maddubs_epi16(a, by), one);
    u = _mm256_add_epi32(u, a);
    b = _mm256_madd_epi16(_mm256_maddubs_epi16(b, by), one);
    v = _mm256_add_epi32(v, b);
    c = _mm256_madd_epi16(_mm256_maddubs_epi16(c, by), one);
    w = _mm256_add_epi32(w, c);
    d = _mm256_madd_epi16(_mm256_maddubs_epi16(d, by), one);
    x = _mm256_add_epi32(x, d);
    e = _mm256_madd_epi16(_mm256_maddubs_epi16(e, by), one);
    y = _mm256_add_epi32(y, e);
    f = _mm256_madd_epi16(_mm256_maddubs_epi16(f, by), one);
    z = _mm256_add_epi32(z, f);
    __asm__("" : "+x"(u), "+x"(v), "+x"(w), "+x"(x), "+x"(y), "+x"(z)); /* the compiler would keep copies of them */
  }
  return (float)_mm256_extract_epi32(
      _mm256_add_epi32(_mm256_add_epi32(_mm256_add_epi32(u, v), _mm256_add_epi32(w, x)), _mm256_add_epi32(y, z)), 0);
}

__attribute__((target("avx512f"))) static float f32_avx512(uint64_t rounds) {
  const __m512 x = _mm512_set1_ps(0.5f), y = _mm512_set1_ps(1.0f);
  __m512 a = _mm512_set1_ps(0.0f), b = _mm512_set1_ps(1.0f), c = _mm512_set1_ps(2.0f), d = _mm512_set1_ps(3.0f),
         e = _mm512_set1_ps(4.0f), f = _mm512_set1_ps(5.0f), g = _mm512_set1_ps(6.0f), h = _mm512_set1_ps(7.0f),
         i = _mm512_set1_ps(8.0f), j = _mm512_set1_ps(9.0f), k = _mm512_set1_ps(10.0f), l = _mm512_set1_ps(11.0f);
  for (uint64_t round = 0; round < rounds; round++) {
    a = _mm512_fmadd_ps(a, x, y);
    b = _mm512_fmadd_ps(b, x, y);
    c = _mm512_fmadd_ps(c, x, y);
    d = _mm512_fmadd_ps(d, x, y);
    e = _mm512_fmadd_ps(e, x, y);
    f = _mm512_fmadd_ps(f, x, y);
    g = _mm512_fmadd_ps(g, x, y);
    h = _mm512_fmadd_ps(h, x, y);
    i = _mm512_fmadd_ps(i, x, y);
    j = _mm512_fmadd_ps(j, x, y);
    k = _mm512_fmadd_ps(k, x, y);
    l = _mm512_fmadd_ps(l, x, y);
  }
  return _mm512_cvtss_f32(_mm512_add_ps(_mm512_add_ps(_mm512_add_ps(_mm512_add_ps(a, b), _mm512_add_ps(c, d)),
                                                      _mm512_add_ps(_mm512_add_ps(e, f), _mm512_add_ps(g, h))),
                                        _mm512_add_ps(_mm512_add_ps(i, j), _mm512_add_ps(k, l))));
}

__attribute__((target("avx512f,avx512bf16"))) static float bf16_avx512(uint64_t rounds) {
  const __m512bh x = (__m512bh)_mm512_set1_epi32(0x3f003f00), y = (__m512bh)_mm512_set1_epi32(0x3d003d00);
  __m512 a = _mm512_set1_ps(0.0f), b = _mm512_set1_ps(1.0f), c = _mm512_set1_ps(2.0f), d = _mm512_set1_ps(3.0f),
         e = _mm512_set1_ps(4.0f), f = _mm512_set1_ps(5.0f), g = _mm512_set1_ps(6.0f), h = _mm512_set1_ps(7.0f),
         i = _mm512_set1_ps(8.0f), j = _mm512_set1_ps(9.0f), k = _mm512_set1_ps(10.0f), l = _mm512_set1_ps(11.0f);
  for (uint64_t round = 0; round < rounds; round++) {
    a = _mm512_dpbf16_ps(a, x, y);
    b = _mm512_dpbf16_ps(b, x, y);
    c = _mm512_dpbf16_ps(c, x, y);
    d = _mm512_dpbf16_ps(d, x, y);
    e = _mm512_dpbf16_ps(e, x, y);
    f = _mm512_dpbf16_ps(f, x, y);
    g = _mm512_dpbf16_ps(g, x, y);
    h = _mm512_dpbf16_ps(h, x, y);
    i = _mm512_dpbf16_ps(i, x, y);
    j = _mm512_dpbf16_ps(j, x, y);
    k = _mm512_dpbf16_ps(k, x, y);
    l = _mm512_dpbf16_ps(l, x, y);
  }
  return _mm512_cvtss_f32(_mm512_add_ps(_mm512_add_ps(_mm512_add_ps(_mm512_add_ps(a, b), _mm512_add_ps(c, d)),
                                                      _mm512_add_ps(_mm512_add_ps(e, f), _mm512_add_ps(g, h))),
                                        _mm512_add_ps(_mm512_add_ps(i, j), _mm512_add_ps(k, l))));
}

__attribute__((target("avx512f,avx512vnni"))) static float i8_avx512(uint64_t rounds) {
  const __m512i x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(2);
  __m512i a = _mm512_set1_epi32(0), b = _mm512_set1_epi32(1), c = _mm512_set1_epi32(2), d = _mm512_set1_epi32(3),
          e = _mm512_set1_epi32(4), f = _mm512_set1_epi32(5), g = _mm512_set1_epi32(6), h = _mm512_set1_epi32(7),
          i = _mm512_set1_epi32(8), j = _mm512_set1_epi32(9), k = _mm512_set1_epi32(10), l = _mm512_set1_epi32(11);
  for (uint64_t round = 0; round < rounds; round++) {
    a = _mm512_dpbusd_epi32(a, x, y);
    b = _mm512_dpbusd_epi32(b, x, y);
    c = _mm512_dpbusd_epi32(c, x, y);
    d = _mm512_dpbusd_epi32(d, x, y);
    e = _mm512_dpbusd_epi32(e, x, y);
    f = _mm512_dpbusd_epi32(f, x, y);
    g = _mm512_dpbusd_epi32(g, x, y);
    h = _mm512_dpbusd_epi32(h, x, y);
    i = _mm512_dpbusd_epi32(i, x, y);
    j = _mm512_dpbusd_epi32(j, x, y);
    k = _mm512_dpbusd_epi32(k, x, y);
    l = _mm512_dpbusd_epi32(l, x, y);
  }
  return (float)_mm512_reduce_add_epi32(
      _mm512_add_epi32(_mm512_add_epi32(_mm512_add_epi32(_mm512_add_epi32(a, b), _mm512_add_epi32(c, d)),
                                        _mm512_add_epi32(_mm512_add_epi32(e, f), _mm512_add_epi32(g, h))),
                       _mm512_add_epi32(_mm512_add_epi32(i, j), _mm512_add_epi32(k, l))));
}

const ord_peak_code ord_peak_codes[] = {
    {"avx512 fma", ORD_F32, ORD_CPU_AVX512, 2.0 * 12 * 16, f32_avx512},
    {"avx512_bf16 vdpbf16ps", ORD_BF16, ORD_CPU_AVX512 | ORD_CPU_AVX512_BF16, 2.0 * 12 * 32, bf16_avx512},
    {"avx512_vnni vpdpbusd", ORD_I8, ORD_CPU_AVX512 | ORD_CPU_AVX512_VNNI, 2.0 * 12 * 64, i8_avx512},
    {"avx2 fma", ORD_F32, ORD_CPU_AVX2, 2.0 * 12 * 8, f32_avx2},
    {"avx2 vpmaddubsw", ORD_I8, ORD_CPU_AVX2, 2.0 * 6 * 32, i8_avx2},
    {"sse2 pmaddwd", ORD_I8, 0, 2.0 * 6 * 8, i8_sse2},
    ORD_PEAK_CODE_PLAIN,
};
const uint32_t ord_peak_code_count = sizeof ord_peak_codes / sizeof *ord_peak_codes;
#endif
