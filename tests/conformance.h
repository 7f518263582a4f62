/* SPDX-License-Identifier: MIT
 *
 * Runs the kernels of a plugin on the conformance rows of their ops. Included by test programs only.
 */
#ifndef ORDITO_TESTS_CONFORMANCE_H
#define ORDITO_TESTS_CONFORMANCE_H

#include "ops/cases.h"
#include "tests/by_hand.h"

static inline bool conformance_is_known(const char *text, const char *const *reason) {
  while (*reason && !strstr(text, *reason)) reason++;
  return *reason != NULL;
}

/* All rows of the op: right, or refused for one of the reasons (a part of its text; NULL-terminated). `options` as in
 * ord_case_run. */
static inline void conformance_run_on(const ord_kernel *kernel, const ord_case_options *options,
                                      const char *const *reason) {
  const ord_op *op = ord_op_find(kernel->op);
  assert_non_null(op);
  for (const ord_case *row = op->cases; row->operands; row++) {
    ord_error err = ORD_ERROR_INIT;
    ord_case_result result;
    if (!ord_case_run(op, row, kernel, options, &result, &err))
      fail_msg("%s: %s %s: %s", kernel->name, row->operands, row->attributes, err.text);
    const bool is_fine = result.verdict == ORD_CASE_PASSED ||
                         (result.verdict == ORD_CASE_REFUSED && conformance_is_known(result.text, reason));
    if (!is_fine) fail_msg("%s: %s %s: %s", kernel->name, row->operands, row->attributes, result.text);
  }
}

static inline void conformance_run(const ord_kernel *kernel, const char *const *reason) {
  conformance_run_on(kernel, NULL, reason);
}

/* The row must be served, and right. */
static inline void conformance_serves_on(const ord_kernel *kernel, const ord_case_options *options,
                                         const char *operands, const char *attributes) {
  const ord_case row = {operands, attributes};
  ord_error err = ORD_ERROR_INIT;
  ord_case_result result;
  if (!ord_case_run(ord_op_find(kernel->op), &row, kernel, options, &result, &err))
    fail_msg("%s: %s", operands, err.text);
  if (result.verdict != ORD_CASE_PASSED || result.refused_count)
    fail_msg("%s: %s %s: %s", kernel->name, operands, attributes, result.text);
}

static inline void conformance_serves(const ord_kernel *kernel, const char *operands, const char *attributes) {
  conformance_serves_on(kernel, NULL, operands, attributes);
}

#endif
