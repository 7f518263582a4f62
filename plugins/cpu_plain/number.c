/* SPDX-License-Identifier: MIT
 *
 * Storage types to f32 and back. All select instead of branching, so that the compiler vectorises them.
 */
#include "number.h"
#include "bits.h"

/* ---- reading ---- */

INLINE float f32_at(const char *from) {
  float value;
  memcpy(&value, from, sizeof value);
  return value;
}

INLINE uint16_t half_at(const char *from) {
  uint16_t half;
  memcpy(&half, from, sizeof half);
  return half;
}

INLINE float bf16_at(const char *from) { return from_bits((uint32_t)half_at(from) << 16); }

/* The exponent is moved by a product, which gets subnormals right; infinities and NaN keep a full exponent. */
INLINE float f16_at(const char *from) {
  const uint32_t half = half_at(from);
  const float size = from_bits((half & 0x7fffu) << 13) * 0x1p112f;
  const uint32_t full = (half & 0x7c00u) == 0x7c00u ? 0x7f800000u : 0;
  return from_bits(to_bits(size) | full | (half & 0x8000u) << 16);
}

INLINE float i8_at(const char *from) { return (float)*(const int8_t *)from; }

/* The dense case apart, so that it becomes vector loads, and one number for all. */
INLINE void read_all(float (*number_at)(const char *), int64_t bytes, float *into, const char *from, int64_t stride,
                     int64_t count) {
  if (stride == bytes) {
    for (int64_t i = 0; i < count; i++) into[i] = number_at(from + i * bytes);
  } else if (stride == 0 && count > 0) {
    const float number = number_at(from);
    for (int64_t i = 0; i < count; i++) into[i] = number;
  } else {
    for (int64_t i = 0; i < count; i++) into[i] = number_at(from + i * stride);
  }
}

static void read_f32(float *into, const char *from, int64_t stride, int64_t count) {
  read_all(f32_at, 4, into, from, stride, count);
}
static void read_f16(float *into, const char *from, int64_t stride, int64_t count) {
  read_all(f16_at, 2, into, from, stride, count);
}
static void read_bf16(float *into, const char *from, int64_t stride, int64_t count) {
  read_all(bf16_at, 2, into, from, stride, count);
}
static void read_i8(float *into, const char *from, int64_t stride, int64_t count) {
  read_all(i8_at, 1, into, from, stride, count);
}

plain_read_fn plain_reader(uint16_t type) {
  static const plain_read_fn readers[] = {
      [ORD_F32] = read_f32, [ORD_F16] = read_f16, [ORD_BF16] = read_bf16, [ORD_I8] = read_i8};
  return readers[type];
}

/* ---- writing ---- */

static void write_f32(char *into, int64_t stride, const float *from, int64_t count) {
  if (stride == (int64_t)sizeof *from)
    memcpy(into, from, (size_t)count * sizeof *from);
  else
    for (int64_t i = 0; i < count; i++) memcpy(into + i * stride, &from[i], sizeof *from);
}

INLINE uint16_t to_bf16(float value) { return (uint16_t)(bf16_rounded(value) >> 16); }

/* To nearest even. Below 2^-14 the sum with 0.5, whose last place is the smallest half, does the rounding. */
INLINE uint16_t to_f16(float value) {
  const uint32_t bits = to_bits(value), size = bits & 0x7fffffffu, sign = bits >> 16 & 0x8000u;
  const uint32_t normal = (size + 0xfffu + (size >> 13 & 1u) - 0x38000000u) >> 13;
  const uint32_t subnormal = to_bits(from_bits(size) + 0.5f) - to_bits(0.5f);
  const uint32_t finite = size < 0x38800000u ? subnormal : normal;
  const uint32_t rounded = size >= 0x477ff000u ? 0x7c00u : finite;
  return (uint16_t)(sign | (size > 0x7f800000u ? 0x7e00u : rounded));
}

/* The dense case apart, so that it becomes vector stores. */
INLINE void write_halves(uint16_t (*half_of)(float), char *into, int64_t stride, const float *from, int64_t count) {
  if (stride == (int64_t)sizeof(uint16_t))
    for (int64_t i = 0; i < count; i++) {
      const uint16_t half = half_of(from[i]);
      memcpy(into + i * (int64_t)sizeof half, &half, sizeof half);
    }
  else
    for (int64_t i = 0; i < count; i++) {
      const uint16_t half = half_of(from[i]);
      memcpy(into + i * stride, &half, sizeof half);
    }
}

static void write_f16(char *into, int64_t stride, const float *from, int64_t count) {
  write_halves(to_f16, into, stride, from, count);
}
static void write_bf16(char *into, int64_t stride, const float *from, int64_t count) {
  write_halves(to_bf16, into, stride, from, count);
}

plain_write_fn plain_writer(uint16_t type) {
  static const plain_write_fn writers[] = {[ORD_F32] = write_f32, [ORD_F16] = write_f16, [ORD_BF16] = write_bf16};
  return writers[type];
}
