/* SPDX-License-Identifier: MIT
 *
 * Numbers: storage types to f32 and back, sums, and the functions behind the pointwise ops. The functions use only
 * operations that IEEE 754 fixes and select instead of branching, so that the compiler vectorises them and a number
 * gives the same bits in the vector part of a loop and in its tail. Polynomials were fitted at Chebyshev nodes.
 */
#include "plain.h"

#define INLINE static inline __attribute__((always_inline))

INLINE float from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

INLINE uint32_t to_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* ---- storage types ---- */

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

/* The dense case apart, so that it becomes vector loads. */
INLINE void read_all(float (*number_at)(const char *), int64_t bytes, float *into, const char *from, int64_t stride,
                     int64_t count) {
  if (stride == bytes)
    for (int64_t i = 0; i < count; i++) into[i] = number_at(from + i * bytes);
  else
    for (int64_t i = 0; i < count; i++) into[i] = number_at(from + i * stride);
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

static void write_f32(char *into, int64_t stride, const float *from, int64_t count) {
  if (stride == (int64_t)sizeof *from)
    memcpy(into, from, (size_t)count * sizeof *from);
  else
    for (int64_t i = 0; i < count; i++) memcpy(into + i * stride, &from[i], sizeof *from);
}

/* To nearest even. A NaN keeps its upper bits and stays one. */
static void write_bf16(char *into, int64_t stride, const float *from, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    const uint32_t bits = to_bits(from[i]);
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    const uint32_t rounded = is_nan ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1u);
    const uint16_t half = (uint16_t)(rounded >> 16);
    memcpy(into + i * stride, &half, sizeof half);
  }
}

/* To nearest even. Below 2^-14 the sum with 0.5, whose last place is the smallest half, does the rounding. */
INLINE uint16_t to_f16(float value) {
  const uint32_t bits = to_bits(value), size = bits & 0x7fffffffu, sign = bits >> 16 & 0x8000u;
  const uint32_t normal = (size + 0xfffu + (size >> 13 & 1u) - 0x38000000u) >> 13;
  const uint32_t subnormal = to_bits(from_bits(size) + 0.5f) - to_bits(0.5f);
  const uint32_t finite = size < 0x38800000u ? subnormal : normal;
  const uint32_t rounded = size >= 0x477ff000u ? 0x7c00u : finite;
  return (uint16_t)(sign | (size > 0x7f800000u ? 0x7e00u : rounded));
}

static void write_f16(char *into, int64_t stride, const float *from, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    const uint16_t half = to_f16(from[i]);
    memcpy(into + i * stride, &half, sizeof half);
  }
}

plain_write_fn plain_writer(uint16_t type) {
  static const plain_write_fn writers[] = {[ORD_F32] = write_f32, [ORD_F16] = write_f16, [ORD_BF16] = write_bf16};
  return writers[type];
}

/* ---- sums ---- */

enum { LANES = 8 };

static double add_lanes(const double *lane) {
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

double plain_sum(const float *number, int64_t count) {
  double lane[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES)
    for (int l = 0; l < LANES; l++) lane[l] += (double)number[i + l];
  for (; i < count; i++) lane[i % LANES] += (double)number[i];
  return add_lanes(lane);
}

double plain_sum_of_squares(const float *number, int64_t count) {
  double lane[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES)
    for (int l = 0; l < LANES; l++) lane[l] += (double)number[i + l] * (double)number[i + l];
  for (; i < count; i++) lane[i % LANES] += (double)number[i] * (double)number[i];
  return add_lanes(lane);
}

/* ---- functions ---- */

/* 2^n * e^r with |r| <= ln(2)/2. Rounding to n by adding 1.5 * 2^23 leaves n in the low bits of the sum. 2^n is
 * applied in two halves, so that results near the ends of the range come out right. A NaN travels through r. */
INLINE float exponential(float x) {
  const float low = x < -105.0f ? -105.0f : x;
  const float in_range = low > 89.0f ? 89.0f : low;
  const float shifted = in_range * 1.44269504f + 12582912.0f;
  const float n = shifted - 12582912.0f;
  const float r = (in_range - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f; /* ln 2, the first part short, so exact */
  const float tail = 0.5f + r * (0.166665733f + r * (0.0416665487f + r * (0.00836377405f + r * 0.00139269268f)));
  const float power = 1.0f + (r + r * r * tail);
  const int32_t exponent = (int32_t)(to_bits(shifted) - to_bits(12582912.0f));
  const int32_t half = exponent >> 1;
  return power * from_bits((uint32_t)(half + 127) << 23) * from_bits((uint32_t)(exponent - half + 127) << 23);
}

INLINE float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

INLINE float hyperbolic_tangent(float x) {
  const float size = from_bits(to_bits(x) & 0x7fffffffu);
  const float square = x * x;
  const float series =
      -0.333333343f +
      square *
          (0.133332998f +
           square * (-0.0539584607f + square * (0.0217625033f + square * (-0.00832318701f + square * 0.0022695018f))));
  const float near = x + x * square * series;
  const float far = from_bits(to_bits(1.0f - 2.0f / (exponential(2.0f * size) + 1.0f)) | (to_bits(x) & 0x80000000u));
  return size < 0.625f ? near : far;
}

/* 1 - erf(a) for a >= 0: a series below 1, e to a polynomial up to 4, beyond that less than half a unit of 1. */
INLINE float error_complement(float a) {
  const float square = a * a;
  const float series =
      0.128379166f +
      square * (-0.37612626f +
                square * (0.112835944f +
                          square * (-0.0268542115f + square * (0.00518908724f + square * (-0.00080168643f +
                                                                                          square * 7.87587487e-05f)))));
  const float near = 1.0f - (a + a * series);
  const float logarithm =
      0.00032013806f +
      a * (-1.13023341f +
           a * (-0.631826043f +
                a * (-0.110080086f +
                     a * (0.0264211353f +
                          a * (-0.0047595962f + a * (0.00059680565f + a * (-4.60580413e-05f + a * 1.6371514e-06f)))))));
  const float far = a < 4.0f ? exponential(logarithm) : 0.0f;
  return a < 1.0f ? near : far;
}

/* x times the share of a normal distribution below x. */
INLINE float gelu_erf(float x) {
  const float size = from_bits(to_bits(x) & 0x7fffffffu);
  const float beyond = 0.5f * error_complement(size * 0.707106781f);
  return x * (x < 0.0f ? beyond : 1.0f - beyond);
}

/* 0.5 * (1 + tanh(u)) is sigmoid(2u), which loses nothing where x is negative. */
INLINE float gelu_tanh(float x) { return x * sigmoid(1.5957691216f * (x + 0.044715f * x * x * x)); }

INLINE float relu(float x) { return x < 0.0f ? 0.0f : x; }
INLINE float relu2(float x) { return relu(x) * relu(x); }
INLINE float silu(float x) { return x * sigmoid(x); }

void plain_exp_of_difference(float *number, int64_t count, float subtract) {
  for (int64_t i = 0; i < count; i++) number[i] = exponential(number[i] - subtract);
}

#define POINTWISE(op, function)                                                                                        \
  static void op##_numbers(float *number, int64_t count) {                                                             \
    for (int64_t i = 0; i < count; i++) number[i] = function(number[i]);                                               \
  }
#include "kernels.def"

plain_pointwise_fn plain_pointwise_find(const char *op) {
  static const struct {
    const char *op;
    plain_pointwise_fn apply;
  } known[] = {
#define POINTWISE(op, function) {#op, op##_numbers},
#include "kernels.def"
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(known[i].op, op) == 0) return known[i].apply;
  return NULL;
}
