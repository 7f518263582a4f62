/* SPDX-License-Identifier: MIT
 *
 * Compares what a kernel left in a case's results and states with what is wanted; cases.h states the tolerance.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/case.h"

bool ord_case_fail(ord_case_result *result, const char *format, ...) {
  result->verdict = ORD_CASE_FAILED;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(result->text, sizeof result->text, format, arguments);
  va_end(arguments);
  return false;
}

typedef struct tolerance {
  double absolute, relative;
} tolerance;

/* As cases.h states it. */
static tolerance tolerance_of(const ord_case_setup *setup, double largest, ord_dtype dtype) {
  int64_t longest = 0;
  for (uint32_t i = 0; i < setup->entry_count && !(setup->op->flags & ORD_OP_POINTWISE); i++)
    for (uint32_t axis = 0; axis < setup->tensor[i].rank; axis++)
      if (setup->tensor[i].run[axis] > longest) longest = setup->tensor[i].run[axis];
  const double scale = fmax(1, largest);
  return (tolerance){(0x1p-23 * (16 + (double)longest) + 8 * ord_compute_half_step(setup->compute)) * scale,
                     2 * ord_half_step(dtype)};
}

static bool is_float(ord_dtype dtype) { return dtype == ORD_F32 || dtype == ORD_F16 || dtype == ORD_BF16; }

/* Part of its tolerance that a number is off; infinite if it is wrong in kind. */
static double difference(double got, double wanted, ord_dtype dtype, tolerance allowed) {
  if (isnan(wanted) || isnan(got)) return isnan(wanted) && isnan(got) ? 0 : (double)INFINITY;
  if (!is_float(dtype) || isinf(wanted) || isinf(got)) return got == wanted ? 0 : (double)INFINITY;
  return fabs(got - wanted) / (allowed.absolute + allowed.relative * fabs(wanted));
}

/* An element of which no byte changed since the block was filled. NaNs that arithmetic makes have other bits. */
static bool is_unwritten(const ord_case_tensor *tensor, const char *at) {
  static const unsigned char filled[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  return is_float(tensor->dtype) && memcmp(at, filled, ord_dtype_get(tensor->dtype)->block_bytes) == 0;
}

static void print_index(char *text, size_t bytes, const int64_t *index, uint32_t rank) {
  size_t length = 0;
  text[0] = '\0';
  for (uint32_t axis = 0; axis < rank && length < bytes; axis++)
    length += (size_t)snprintf(text + length, bytes - length, axis ? ",%lld" : "%lld", (long long)index[axis]);
}

static bool compare(const ord_case_tensor *got, const ord_case_tensor *wanted, uint32_t which, tolerance allowed,
                    ord_case_result *result) {
  const ord_reference_tensor got_view = ord_case_view(got), wanted_view = ord_case_view(wanted);
  int64_t index[ORD_RANK_MAX] = {0}, wrong = 0;
  const int64_t count = ord_reference_count(&got_view);
  for (int64_t i = 0; i < count; i++) {
    ord_reference_index(&got_view, i, index);
    const double found = ord_reference_read(&got_view, index), right = ord_reference_read(&wanted_view, index);
    const bool is_missing = is_unwritten(got, ord_reference_at(&got_view, index));
    const double error = is_missing ? (double)INFINITY : difference(found, right, got->dtype, allowed);
    if (error > result->error) result->error = error;
    if (error <= 1 || wrong++) continue;
    char place[96];
    print_index(place, sizeof place, index, got->rank);
    ord_case_fail(result, "%s %u [%s]: found %.9g%s; wanted %.9g within %.3g", got->name, which, place, found,
                  is_missing ? " (not written, or read where nothing was)" : "", right,
                  allowed.absolute + allowed.relative * fabs(right));
  }
  if (!wrong) return true;
  const size_t length = strlen(result->text);
  snprintf(result->text + length, sizeof result->text - length, "; %lld of %lld numbers are wrong", (long long)wrong,
           (long long)count);
  return false;
}

/* Rows of a cache that hold tokens after the run; row n of the run is row n of the cache. */
static int64_t row_limit(const ord_case_setup *setup, int64_t row, int64_t length) {
  const ord_case_tensor *lengths = ord_case_entry(setup, "lengths");
  int64_t fresh = ord_case_entry(setup, "k")->run[2]; /* a case with states has one, or it could not be made */
  if (lengths) {
    const ord_reference_tensor view = ord_case_view(lengths);
    const int64_t given = (int64_t)ord_reference_read(&view, &row);
    if (given < fresh) fresh = given > 0 ? given : 0;
  }
  const ord_reference_tensor past = ord_case_view(&setup->tensor[setup->first_scalar]);
  const int64_t limit = (int64_t)ord_reference_read(&past, &row) + fresh;
  return limit < length ? limit : length;
}

/* A state: equal in the rows that hold tokens, unchanged in rows of the batch that the run does not have, finite in the
 * rest. */
static bool compare_state(const ord_case_setup *setup, const ord_case_tensor *got, const ord_case_tensor *wanted,
                          ord_case_result *result) {
  const ord_reference_tensor view = ord_case_view_whole(got), right = ord_case_view_whole(wanted);
  int64_t index[ORD_RANK_MAX] = {0};
  for (int64_t i = 0; i < ord_reference_count(&view); i++) {
    ord_reference_index(&view, i, index);
    const bool is_running = index[0] < got->run[0];
    const double found = ord_reference_read(&view, index), expected = ord_reference_read(&right, index);
    const bool is_free = is_running && index[2] >= row_limit(setup, index[0], got->dim[2]);
    if (is_free ? isfinite(found) : found == expected) continue;
    char place[96];
    print_index(place, sizeof place, index, got->rank);
    return ord_case_fail(result, "%s [%s]: found %.9g; wanted %.9g", got->name, place, found, expected);
  }
  return true;
}

bool ord_case_judge(const ord_case_setup *setup, const ord_case_wanted *wanted, ord_case_result *result) {
  uint32_t output = 0, state = 0;
  for (uint32_t i = 0; i < setup->tensor_count; i++) {
    const ord_case_tensor *got = &setup->tensor[i];
    if (got->role == ORD_STATE && !compare_state(setup, got, &wanted->state[state++], result)) return false;
    if (got->role != ORD_OUTPUT) continue;
    const tolerance allowed = tolerance_of(setup, wanted->largest, got->dtype);
    if (!compare(got, &wanted->tensor[output], output, allowed, result)) return false;
    output++;
  }
  return true;
}
