/* SPDX-License-Identifier: MIT
 *
 * Sums in double, in a fixed number of lanes that are added up at the end, and what is made of them: the norms. There
 * are four vectors of lanes, so that an addition need not wait for the one before.
 */
#include <math.h>

#include "bits.h"
#include "number.h"

/* Doubles of a vector. */
enum { WIDTH_plain = 2, WIDTH_baseline = 2, WIDTH_avx2 = 4, WIDTH_avx512 = 8, WIDTH = PLAIN_NAME(WIDTH) };
enum { PARTS = 4, LANES = WIDTH * PARTS };
typedef double doubles __attribute__((vector_size(WIDTH * sizeof(double))));

/* ---- sums ---- */

/* A vector of number[i] - subtract, or of its squares. */
INLINE doubles terms(const float *number, float subtract, bool is_square) {
  double value[WIDTH];
  doubles part;
  for (int l = 0; l < WIDTH; l++) value[l] = (double)(number[l] - subtract);
  memcpy(&part, value, sizeof part);
  return is_square ? part * part : part;
}

INLINE double add_lanes(const doubles *total) {
  double lane[8] = {0};
  const doubles all = (total[0] + total[2]) + (total[1] + total[3]);
  memcpy(lane, &all, sizeof all);
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* What lacks to whole vectors at the end counts as 0. */
INLINE double sum_of(const float *number, int64_t count, float subtract, bool is_square) {
  doubles total[PARTS] = {{0}};
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES)
    for (int p = 0; p < PARTS; p++) total[p] += terms(number + i + p * WIDTH, subtract, is_square);
  if (i < count) {
    float rest[LANES];
    for (int l = 0; l < LANES; l++) rest[l] = i + l < count ? number[i + l] : subtract;
    for (int p = 0; p < PARTS; p++) total[p] += terms(rest + p * WIDTH, subtract, is_square);
  }
  return add_lanes(total);
}

double plain_sum(const float *number, int64_t count) { return sum_of(number, count, 0, false); }

double plain_sum_of_squares(const float *number, int64_t count) { return sum_of(number, count, 0, true); }

float plain_largest(const float *number, int64_t count) {
  enum { MANY = 64 };
  float lane[MANY];
  for (int l = 0; l < MANY; l++) lane[l] = -INFINITY;
  int64_t i = 0;
  for (; i + MANY <= count; i += MANY)
    for (int l = 0; l < MANY; l++) lane[l] = number[i + l] > lane[l] ? number[i + l] : lane[l];
  for (; i < count; i++) lane[i % MANY] = number[i] > lane[i % MANY] ? number[i] : lane[i % MANY];
  for (int half = MANY / 2; half > 0; half /= 2)
    for (int l = 0; l < half; l++) lane[l] = lane[l + half] > lane[l] ? lane[l + half] : lane[l];
  return lane[0];
}

/* ---- norms ---- */

INLINE void scale_row(const plain_norm *norm, const float *from, float *into, int64_t width, float mean, float factor,
                      bool has_weight, bool has_bias) {
  const float *weight = norm->weight, *bias = norm->bias;
  EACH_ALONE for (int64_t i = 0; i < width; i++) {
    float value = (from[i] - mean) * factor;
    if (has_weight) value *= weight[i];
    if (has_bias) value += bias[i];
    into[i] = value;
  }
}

void plain_norm_row(const plain_norm *norm, const float *from, float *into, int64_t width) {
  const float mean = norm->is_centred ? (float)(plain_sum(from, width) / (double)width) : 0;
  const double square = sum_of(from, width, mean, true) / (double)width;
  const float factor = (float)(1.0 / sqrt(square + norm->eps));
  if (norm->weight && norm->bias)
    scale_row(norm, from, into, width, mean, factor, true, true);
  else if (norm->weight)
    scale_row(norm, from, into, width, mean, factor, true, false);
  else if (norm->bias)
    scale_row(norm, from, into, width, mean, factor, false, true);
  else
    scale_row(norm, from, into, width, mean, factor, false, false);
}
