/* SPDX-License-Identifier: MIT
 *
 * The functions behind the pointwise ops, softmax and rope. They use only operations that IEEE 754 fixes and select
 * instead of branching, so that the compiler vectorises them and a number gives the same bits in the vector part of a
 * loop and in its tail. Polynomials were fitted at Chebyshev nodes.
 */
#include <math.h>

#include "bits.h"
#include "number.h"

/* ---- exponential ---- */

/* 2^n * e^r with |r| <= ln(2)/2. Rounding to n by adding 1.5 * 2^23 leaves n in the low bits of the sum. 2^n is applied
 * as 2^(n + bias), which must be a normal number, and 2^-bias. A NaN travels through r. */
INLINE float exponential(float x, uint32_t bias, float unbias) {
  const float shifted = multiply_add(x, 1.44269504f, 12582912.0f);
  const float n = shifted - 12582912.0f;
  /* ln 2 in two parts, the first short, so that its product is exact. */
  const float r = multiply_add(n, -0x1.7f7d1cp-20f, multiply_add(n, -0x1.62e4p-1f, x));
  const float tail = multiply_add(
      r, multiply_add(r, multiply_add(r, multiply_add(r, 0.00139269268f, 0.00836377405f), 0.0416665487f), 0.166665733f),
      0.5f);
  const float power = 1.0f + multiply_add(r * r, tail, r);
  return power * from_bits((to_bits(shifted) << 23) + ((127u + bias) << 23)) * unbias;
}

/* For x up to 40; subnormal results come out right. */
INLINE float exponential_falling(float x) { return exponential(x < -105.0f ? -105.0f : x, 64, 0x1p-64f); }

/* For any x where a result below 2^-125 may be 2^-125; infinite above 2^128. */
INLINE float exponential_rising(float x) {
  const float low = x < -86.0f ? -86.0f : x;
  return exponential(low > 89.0f ? 89.0f : low, (uint32_t)-1, 2.0f);
}

void plain_exp_of_difference(float *into, const float *from, int64_t count, float subtract) {
  EACH_ALONE for (int64_t i = 0; i < count; i++) into[i] = exponential_falling(from[i] - subtract);
}

/* ---- of one number ---- */

INLINE float sigmoid(float x) { return 1.0f / (1.0f + exponential_rising(-x)); }

INLINE float hyperbolic_tangent(float x) {
  const float size = from_bits(to_bits(x) & 0x7fffffffu);
  const float square = x * x;
  float series = multiply_add(square, 0.0022695018f, -0.00832318701f);
  series = multiply_add(square, series, 0.0217625033f);
  series = multiply_add(square, series, -0.0539584607f);
  series = multiply_add(square, series, 0.133332998f);
  series = multiply_add(square, series, -0.333333343f);
  const float near = multiply_add(x * square, series, x);
  const float beyond = 1.0f - 2.0f / (exponential_rising(2.0f * size) + 1.0f);
  const float far = from_bits(to_bits(beyond) | (to_bits(x) & 0x80000000u));
  return size < 0.625f ? near : far;
}

/* 1 - erf(a) for a >= 0: a series below 1, e to a polynomial up to 4, beyond that less than half a unit of 1. */
INLINE float error_complement(float a) {
  const float square = a * a;
  float series = multiply_add(square, 7.87587487e-05f, -0.00080168643f);
  series = multiply_add(square, series, 0.00518908724f);
  series = multiply_add(square, series, -0.0268542115f);
  series = multiply_add(square, series, 0.112835944f);
  series = multiply_add(square, series, -0.37612626f);
  series = multiply_add(square, series, 0.128379166f);
  const float near = 1.0f - multiply_add(a, series, a);
  float logarithm = multiply_add(a, 1.6371514e-06f, -4.60580413e-05f);
  logarithm = multiply_add(a, logarithm, 0.00059680565f);
  logarithm = multiply_add(a, logarithm, -0.0047595962f);
  logarithm = multiply_add(a, logarithm, 0.0264211353f);
  logarithm = multiply_add(a, logarithm, -0.110080086f);
  logarithm = multiply_add(a, logarithm, -0.631826043f);
  logarithm = multiply_add(a, logarithm, -1.13023341f);
  logarithm = multiply_add(a, logarithm, 0.00032013806f);
  const float far = a < 4.0f ? exponential_falling(logarithm) : 0.0f;
  return a < 1.0f ? near : far;
}

/* x times the share of a normal distribution below x. */
INLINE float gelu_erf(float x) {
  const float size = from_bits(to_bits(x) & 0x7fffffffu);
  const float beyond = 0.5f * error_complement(size * 0.707106781f);
  return x * (x < 0.0f ? beyond : 1.0f - beyond);
}

INLINE float silu(float x) { return x / (1.0f + exponential_rising(-x)); }

/* 0.5 * (1 + tanh(u)) is sigmoid(2u), which loses nothing where x is negative. */
INLINE float gelu_tanh(float x) {
  const float inner = x * multiply_add(x * x, 1.5957691216f * 0.044715f, 1.5957691216f);
  return x / (1.0f + exponential_rising(-inner));
}

INLINE float relu(float x) { return x < 0.0f ? 0.0f : x; }
INLINE float relu2(float x) { return relu(x) * relu(x); }

#define POINTWISE(op, function)                                                                                        \
  static void op##_numbers(float *into, const float *from, int64_t count) {                                            \
    EACH_ALONE for (int64_t i = 0; i < count; i++) into[i] = function(from[i]);                                        \
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

/* ---- in double ---- */

INLINE double double_of_bits(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

INLINE uint64_t bits_of_double(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* As `exponential`, with a series that is good for a double. */
INLINE double double_exponential(double x) {
  const double shift = 0x1.8p52, shifted = x * 1.4426950408889634 + shift, n = shifted - shift;
  const double r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
  double tail = 1.0 / 6227020800;
  tail = tail * r + 1.0 / 479001600;
  tail = tail * r + 1.0 / 39916800;
  tail = tail * r + 1.0 / 3628800;
  tail = tail * r + 1.0 / 362880;
  tail = tail * r + 1.0 / 40320;
  tail = tail * r + 1.0 / 5040;
  tail = tail * r + 1.0 / 720;
  tail = tail * r + 1.0 / 120;
  tail = tail * r + 1.0 / 24;
  tail = tail * r + 1.0 / 6;
  tail = tail * r + 1.0 / 2;
  const double power = 1 + (r + r * r * tail);
  const uint64_t bias = 200;
  return power * double_of_bits((bits_of_double(shifted) << 52) + ((1023 + bias) << 52)) * 0x1p-200;
}

void plain_exp_falling(double *number, int64_t count) {
  for (int64_t i = 0; i < count; i++) number[i] = double_exponential(number[i] < -750 ? -750 : number[i]);
}

static const double FAR = 0x1p31;

/* For |angle| below FAR. The quarter turns n are taken off in four parts of pi/2 of 22 bits, whose products with n are
 * exact; the series are good for a float. Odd quarters exchange cosine and sine. */
INLINE void turn(double angle, float *cosine, float *sine) {
  const double shift = 0x1.8p52, shifted = angle * 0.63661977236758134 + shift, n = shifted - shift;
  const double r =
      (((angle - n * 0x1.921fbp+0) - n * 0x1.5110bp-22) - n * 0x1.1846980000000p-44) - n * 0x1.3198a00000000p-69;
  const double square = r * r;
  const double c =
      1 + square * (-1.0 / 2 +
                    square * (1.0 / 24 + square * (-1.0 / 720 + square * (1.0 / 40320 - square * (1.0 / 3628800)))));
  const double s =
      r + r * square *
              (-1.0 / 6 + square * (1.0 / 120 + square * (-1.0 / 5040 + square * (1.0 / 362880 - square / 39916800))));
  const uint64_t quarter = bits_of_double(shifted), is_odd = 0 - (quarter & 1);
  const uint64_t c_bits = bits_of_double(c), s_bits = bits_of_double(s);
  const uint64_t even_part = (c_bits & ~is_odd) | (s_bits & is_odd), odd_part = (s_bits & ~is_odd) | (c_bits & is_odd);
  *cosine = (float)double_of_bits(even_part ^ ((quarter + 1) & 2) << 62);
  *sine = (float)double_of_bits(odd_part ^ (quarter & 2) << 62);
}

void plain_turns(float *restrict cosine, float *restrict sine, const double *restrict angle, int64_t count) {
  uint64_t far_count = 0;
  for (int64_t i = 0; i < count; i++) {
    turn(angle[i], &cosine[i], &sine[i]);
    far_count += (bits_of_double(angle[i]) & INT64_MAX) >= bits_of_double(FAR);
  }
  for (int64_t i = 0; far_count && i < count; i++) {
    cosine[i] = (float)cos(angle[i]);
    sine[i] = (float)sin(angle[i]);
  }
}
