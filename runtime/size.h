/* SPDX-License-Identifier: MIT
 *
 * A size of a tensor: a polynomial in the model's run-time dims with whole-number factors, in canonical form, so that
 * two sizes are equal exactly if they are equal as polynomials. A fixed size is a constant polynomial. Sizes are
 * plain values that point into an arena; they are never changed.
 */
#ifndef ORDITO_RUNTIME_SIZE_H
#define ORDITO_RUNTIME_SIZE_H

#include "runtime/arena.h"
#include "runtime/text.h"

#define ORD_RUN_DIM_MAX 16
#define ORD_SIZE_LIMIT ((int64_t)1 << 40) /* every factor and every constant stays below */

typedef struct ord_size_term {
  int64_t factor;                 /* never 0 */
  uint8_t power[ORD_RUN_DIM_MAX]; /* of run-time dim i */
} ord_size_term;

typedef struct ord_size {
  const ord_size_term *term; /* sorted by descending power; NULL if term_count is 0 */
  uint32_t term_count;       /* 0: the number 0 */
} ord_size;

typedef enum {
  ORD_SIZE_OK,
  ORD_SIZE_OVERFLOW,  /* a number of ORD_SIZE_LIMIT or more */
  ORD_SIZE_REST,      /* a division that leaves a rest */
  ORD_SIZE_NOT_FIXED, /* a division with a run-time dim in it */
  ORD_SIZE_ZERO,      /* a division by 0 */
  ORD_SIZE_NO_MEMORY
} ord_size_status;

ord_size_status ord_size_constant(ord_arena *arena, int64_t value, ord_size *out);
ord_size_status ord_size_run_dim(ord_arena *arena, uint32_t run_dim, ord_size *out);
ord_size_status ord_size_sum(ord_arena *arena, ord_size a, ord_size b, ord_size *out);
ord_size_status ord_size_difference(ord_arena *arena, ord_size a, ord_size b, ord_size *out);
ord_size_status ord_size_product(ord_arena *arena, ord_size a, ord_size b, ord_size *out);
/* Both constant and without a rest. */
ord_size_status ord_size_quotient(ord_arena *arena, ord_size a, ord_size b, ord_size *out);

bool ord_size_equal(ord_size a, ord_size b);
/* True if the size holds no run-time dim; then *out is its value. */
bool ord_size_is_constant(ord_size size, int64_t *out);
/* True if the size is one run-time dim and nothing else; then *out is its number. */
bool ord_size_is_run_dim(ord_size size, uint32_t *out);
/* The value for these values of the run-time dims; false on overflow of int64. */
ORD_MUST_CHECK bool ord_size_evaluate(ord_size size, const int64_t *run_dim_value, int64_t *out);
/* Replaces run-time dim i by `value[i]` wherever value[i] >= 0. */
ord_size_status ord_size_bind(ord_arena *arena, ord_size size, const int64_t *value, ord_size *out);

/* As the messages write it: "384*seq", "past + seq", "0". */
void ord_size_print(ord_text *text, ord_size size, const char *const *run_dim_name);

#endif
