/* SPDX-License-Identifier: MIT
 *
 * Numbers that lie in rows: storage types to f32 and back (number.c), sums, maxima and norms (sum.c), the functions
 * behind the pointwise ops (function.c). What becomes of a number does not depend on its neighbours, and the order of
 * a sum follows from its length alone; levels of instructions may differ by rounding.
 */
#ifndef PLAIN_NUMBER_H
#define PLAIN_NUMBER_H

#include <stdbool.h>

#include "level.h"

#define plain_reader PLAIN_NAME(plain_reader)
#define plain_writer PLAIN_NAME(plain_writer)
#define plain_pointwise_find PLAIN_NAME(plain_pointwise_find)
#define plain_exp_of_difference PLAIN_NAME(plain_exp_of_difference)
#define plain_exp_falling PLAIN_NAME(plain_exp_falling)
#define plain_turns PLAIN_NAME(plain_turns)
#define plain_sum PLAIN_NAME(plain_sum)
#define plain_sum_of_squares PLAIN_NAME(plain_sum_of_squares)
#define plain_largest PLAIN_NAME(plain_largest)
#define plain_norm_row PLAIN_NAME(plain_norm_row)

/* ---- storage types ---- */

/* Reads `count` numbers that lie `stride` bytes apart. */
typedef void (*plain_read_fn)(float *into, const char *from, int64_t stride, int64_t count);
plain_read_fn plain_reader(uint16_t type); /* for f32, f16, bf16 and i8, the last without its scale */

typedef void (*plain_write_fn)(char *into, int64_t stride, const float *from, int64_t count);
plain_write_fn plain_writer(uint16_t type); /* for f32, f16 and bf16; rounds to nearest even */

/* ---- functions; `into` may be `from` ---- */

/* A pointwise op; NULL for another op. */
typedef void (*plain_pointwise_fn)(float *into, const float *from, int64_t count);
plain_pointwise_fn plain_pointwise_find(const char *op);

/* into[i] = e^(from[i] - subtract), where no number is above `subtract`. */
void plain_exp_of_difference(float *into, const float *from, int64_t count, float subtract);

/* number[i] becomes e^number[i], where no number is above 0. */
void plain_exp_falling(double *number, int64_t count);

/* cosine[i] and sine[i] of angle[i]. */
void plain_turns(float *cosine, float *sine, const double *angle, int64_t count);

/* ---- sums ---- */

double plain_sum(const float *number, int64_t count);
double plain_sum_of_squares(const float *number, int64_t count);
float plain_largest(const float *number, int64_t count); /* NaN is passed over; -infinity if there is nothing else */

/* layernorm (centred) or rmsnorm of one row: into[i] = (from[i] - mean) * factor * weight[i] + bias[i], where weight
 * and bias may be NULL. `into` may be `from`. */
typedef struct plain_norm {
  bool is_centred;
  double eps;
  const float *weight, *bias;
} plain_norm;
void plain_norm_row(const plain_norm *norm, const float *from, float *into, int64_t width);

#endif
