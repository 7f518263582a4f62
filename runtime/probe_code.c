/* SPDX-License-Identifier: MIT
 *
 * What the probes do on any machine, and all they can do on one that is not x86-64 (there: probe_x86.c). Accumulators
 * are single variables that begin with different numbers: enough of them to hide the latency of a multiply-add, none
 * that a compiler would spill, none that it could compute once for two.
 */
#include "runtime/probe_code.h"

typedef float float4 __attribute__((vector_size(16)));
typedef uint64_t two_words __attribute__((vector_size(16)));

uint64_t ord_read_plain(const unsigned char *memory, size_t count, uint32_t streams) {
  two_words a = {0}, b = {0}, c = {0}, d = {0};
  for (size_t i = 0; i < count; i++)
    for (uint32_t s = 0; s < streams; s++) {
      const two_words *from = (const two_words *)(const void *)(memory + (s * count + i) * ORD_READ_CODE_BYTES);
      for (int k = 0; k < 16; k += 4) {
        a ^= from[k];
        b ^= from[k + 1];
        c ^= from[k + 2];
        d ^= from[k + 3];
      }
    }
  const two_words all = a ^ b ^ c ^ d;
  return all[0] ^ all[1];
}

float ord_multiply_plain(uint64_t rounds) {
  const float4 x = {0.5f, 0.25f, 0.5f, 0.25f}, y = {1, 2, 3, 4};
  float4 a = y, b = y + 1, c = y + 2, d = y + 3, e = y + 4, f = y + 5, g = y + 6, h = y + 7, i = y + 8, j = y + 9,
         k = y + 10, l = y + 11;
  for (uint64_t round = 0; round < rounds; round++) {
    a = a * x + y;
    b = b * x + y;
    c = c * x + y;
    d = d * x + y;
    e = e * x + y;
    f = f * x + y;
    g = g * x + y;
    h = h * x + y;
    i = i * x + y;
    j = j * x + y;
    k = k * x + y;
    l = l * x + y;
  }
  const float4 all = a + b + c + d + e + f + g + h + i + j + k + l;
  return all[0] + all[1] + all[2] + all[3];
}

#if !defined(__x86_64__)
ord_read_code_fn ord_read_code_choose(uint64_t features) {
  (void)features;
  return ord_read_plain;
}

const ord_peak_code ord_peak_codes[] = {ORD_PEAK_CODE_PLAIN};
const uint32_t ord_peak_code_count = 1;
#endif
