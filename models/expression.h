/* SPDX-License-Identifier: MIT
 *
 * Expressions: sums and products over dims, indices and int parameters, evaluated to a size, a polynomial in the
 * run-time dims. Every step is checked; a fault names the place inside the text.
 *
 *   sum = term {("+" | "-") term}    term = factor {("*" | "/") factor}    factor = digits | name | "-" factor | "("
 * sum ")"
 */
#ifndef ORDITO_MODELS_EXPRESSION_H
#define ORDITO_MODELS_EXPRESSION_H

#include "models/scalar.h"
#include "runtime/size.h"

typedef struct ord_expression_scope {
  /* The value of a name; false with a fault (its offset is set by the caller), a silent one where the name stands for
   * something that failed before. */
  bool (*find)(void *context, const char *name, ord_size *out, ord_fault *fault);
  void *context;
  ord_arena *arena; /* of the result */
  bool allows_run;  /* run-time dims may stand in it */
  /* Not NULL: `find` sets it where a name has no value yet (and gives any); then what the numbers come to is not
   * looked at. */
  bool *is_open;
} ord_expression_scope;

ORD_MUST_CHECK bool ord_expression_evaluate(const ord_expression_scope *scope, const char *text, ord_size *out,
                                            ord_fault *fault);

#endif
