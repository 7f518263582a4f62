/* SPDX-License-Identifier: MIT
 *
 * Arithmetic on sizes. A result is built term by term in a small sorted list on the stack and copied into the arena
 * when it is whole. A size of more than TERM_MAX terms counts as too large, so that a hostile file stays cheap.
 */
#include "runtime/size.h"

#include <string.h>

enum { TERM_MAX = 64 };

typedef struct {
  ord_size_term term[TERM_MAX];
  uint32_t count;
} size_builder;

/* Above 0 if `a` stands before `b`: the higher degree first, then the earlier dim. */
static int compare_powers(const ord_size_term *a, const ord_size_term *b) {
  int degree = 0;
  for (uint32_t i = 0; i < ORD_RUN_DIM_MAX; i++) degree += a->power[i] - b->power[i];
  return degree ? degree : memcmp(a->power, b->power, sizeof a->power);
}

static bool is_within_limit(int64_t factor) { return factor < ORD_SIZE_LIMIT && factor > -ORD_SIZE_LIMIT; }

static ord_size_status add_term(size_builder *builder, const ord_size_term *term) {
  if (!is_within_limit(term->factor)) return ORD_SIZE_OVERFLOW;
  if (!term->factor) return ORD_SIZE_OK;
  uint32_t at = 0;
  while (at < builder->count && compare_powers(&builder->term[at], term) > 0) at++;
  ord_size_term *place = &builder->term[at];
  const size_t behind = builder->count - at;
  if (behind && compare_powers(place, term) == 0) {
    place->factor += term->factor;
    if (!is_within_limit(place->factor)) return ORD_SIZE_OVERFLOW;
    if (!place->factor) {
      memmove(place, place + 1, (behind - 1) * sizeof *place);
      builder->count--;
    }
    return ORD_SIZE_OK;
  }
  if (builder->count == TERM_MAX) return ORD_SIZE_OVERFLOW;
  memmove(place + 1, place, behind * sizeof *place);
  *place = *term;
  builder->count++;
  return ORD_SIZE_OK;
}

static ord_size_status add_scaled(size_builder *builder, ord_size size, int64_t scale) {
  for (uint32_t i = 0; i < size.term_count; i++) {
    ord_size_term term = size.term[i];
    term.factor *= scale; /* 1 or -1 */
    const ord_size_status status = add_term(builder, &term);
    if (status != ORD_SIZE_OK) return status;
  }
  return ORD_SIZE_OK;
}

static ord_size_status build(ord_arena *arena, const size_builder *builder, ord_size *out) {
  *out = (ord_size){NULL, 0};
  if (!builder->count) return ORD_SIZE_OK;
  const ord_size_term *term = ord_arena_copy(arena, builder->term, builder->count, sizeof *term);
  if (!term) return ORD_SIZE_NO_MEMORY;
  *out = (ord_size){term, builder->count};
  return ORD_SIZE_OK;
}

static ord_size_status build_term(ord_arena *arena, const ord_size_term *term, ord_size *out) {
  size_builder builder = {.count = 0};
  const ord_size_status status = add_term(&builder, term);
  return status == ORD_SIZE_OK ? build(arena, &builder, out) : status;
}

ord_size_status ord_size_constant(ord_arena *arena, int64_t value, ord_size *out) {
  return build_term(arena, &(ord_size_term){.factor = value}, out);
}

ord_size_status ord_size_run_dim(ord_arena *arena, uint32_t run_dim, ord_size *out) {
  if (run_dim >= ORD_RUN_DIM_MAX) return ORD_SIZE_OVERFLOW;
  ord_size_term term = {.factor = 1};
  term.power[run_dim] = 1;
  return build_term(arena, &term, out);
}

static ord_size_status add_sizes(ord_arena *arena, ord_size a, ord_size b, int64_t sign, ord_size *out) {
  size_builder builder = {.count = 0};
  ord_size_status status = add_scaled(&builder, a, 1);
  if (status == ORD_SIZE_OK) status = add_scaled(&builder, b, sign);
  return status == ORD_SIZE_OK ? build(arena, &builder, out) : status;
}

ord_size_status ord_size_sum(ord_arena *arena, ord_size a, ord_size b, ord_size *out) {
  return add_sizes(arena, a, b, 1, out);
}

ord_size_status ord_size_difference(ord_arena *arena, ord_size a, ord_size b, ord_size *out) {
  return add_sizes(arena, a, b, -1, out);
}

static ord_size_status multiply_terms(const ord_size_term *a, const ord_size_term *b, ord_size_term *out) {
  if (__builtin_mul_overflow(a->factor, b->factor, &out->factor)) return ORD_SIZE_OVERFLOW;
  for (uint32_t i = 0; i < ORD_RUN_DIM_MAX; i++)
    if (__builtin_add_overflow(a->power[i], b->power[i], &out->power[i])) return ORD_SIZE_OVERFLOW;
  return ORD_SIZE_OK;
}

ord_size_status ord_size_product(ord_arena *arena, ord_size a, ord_size b, ord_size *out) {
  size_builder builder = {.count = 0};
  for (uint32_t i = 0; i < a.term_count; i++)
    for (uint32_t j = 0; j < b.term_count; j++) {
      ord_size_term term;
      ord_size_status status = multiply_terms(&a.term[i], &b.term[j], &term);
      if (status == ORD_SIZE_OK) status = add_term(&builder, &term);
      if (status != ORD_SIZE_OK) return status;
    }
  return build(arena, &builder, out);
}

ord_size_status ord_size_quotient(ord_arena *arena, ord_size a, ord_size b, ord_size *out) {
  int64_t dividend, divisor;
  if (!ord_size_is_constant(a, &dividend) || !ord_size_is_constant(b, &divisor)) return ORD_SIZE_NOT_FIXED;
  if (!divisor) return ORD_SIZE_ZERO;
  if (dividend % divisor) return ORD_SIZE_REST;
  return ord_size_constant(arena, dividend / divisor, out);
}

bool ord_size_equal(ord_size a, ord_size b) {
  if (a.term_count != b.term_count) return false;
  for (uint32_t i = 0; i < a.term_count; i++)
    if (a.term[i].factor != b.term[i].factor || compare_powers(&a.term[i], &b.term[i]) != 0) return false;
  return true;
}

bool ord_size_is_constant(ord_size size, int64_t *out) {
  static const ord_size_term one = {.factor = 1};
  if (size.term_count > 1 || (size.term_count == 1 && compare_powers(&size.term[0], &one) != 0)) return false;
  *out = size.term_count ? size.term[0].factor : 0;
  return true;
}

bool ord_size_is_run_dim(ord_size size, uint32_t *out) {
  if (size.term_count != 1 || size.term[0].factor != 1) return false;
  uint32_t degree = 0;
  for (uint32_t dim = 0; dim < ORD_RUN_DIM_MAX; dim++) {
    degree += size.term[0].power[dim];
    if (size.term[0].power[dim]) *out = dim;
  }
  return degree == 1;
}

bool ord_size_evaluate(ord_size size, const int64_t *run_dim_value, int64_t *out) {
  int64_t sum = 0;
  for (uint32_t i = 0; i < size.term_count; i++) {
    int64_t product = size.term[i].factor;
    for (uint32_t dim = 0; dim < ORD_RUN_DIM_MAX; dim++)
      for (uint32_t n = 0; n < size.term[i].power[dim]; n++)
        if (__builtin_mul_overflow(product, run_dim_value[dim], &product)) return false;
    if (__builtin_add_overflow(sum, product, &sum)) return false;
  }
  *out = sum;
  return true;
}

ord_size_status ord_size_bind(ord_arena *arena, ord_size size, const int64_t *value, ord_size *out) {
  size_builder builder = {.count = 0};
  for (uint32_t i = 0; i < size.term_count; i++) {
    ord_size_term term = size.term[i];
    for (uint32_t dim = 0; dim < ORD_RUN_DIM_MAX; dim++) {
      if (!term.power[dim] || value[dim] < 0) continue;
      for (; term.power[dim]; term.power[dim]--)
        if (__builtin_mul_overflow(term.factor, value[dim], &term.factor)) return ORD_SIZE_OVERFLOW;
    }
    const ord_size_status status = add_term(&builder, &term);
    if (status != ORD_SIZE_OK) return status;
  }
  return build(arena, &builder, out);
}

static void print_term(ord_text *text, const ord_size_term *term, const char *const *run_dim_name) {
  const long long factor = term->factor < 0 ? -term->factor : term->factor;
  const char *between = "";
  bool has_dim = false;
  for (uint32_t dim = 0; dim < ORD_RUN_DIM_MAX; dim++) has_dim |= term->power[dim] > 0;
  if (factor != 1 || !has_dim) {
    ord_text_add(text, "%lld", factor);
    between = "*";
  }
  for (uint32_t dim = 0; dim < ORD_RUN_DIM_MAX; dim++)
    for (uint32_t n = 0; n < term->power[dim]; n++) {
      ord_text_add(text, "%s%s", between, run_dim_name[dim]);
      between = "*";
    }
}

void ord_size_print(ord_text *text, ord_size size, const char *const *run_dim_name) {
  if (!size.term_count) ord_text_add(text, "0");
  for (uint32_t i = 0; i < size.term_count; i++) {
    const bool is_negative = size.term[i].factor < 0;
    ord_text_add(text, "%s", i ? (is_negative ? " - " : " + ") : (is_negative ? "-" : ""));
    print_term(text, &size.term[i], run_dim_name);
  }
}
