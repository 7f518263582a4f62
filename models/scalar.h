/* SPDX-License-Identifier: MIT
 *
 * Scalars as their field wants them. YAML decides no type: the field's reader takes the raw text and says yes, or says
 * what was found, what is wanted and, where the meaning is plain, what to write.
 */
#ifndef ORDITO_MODELS_SCALAR_H
#define ORDITO_MODELS_SCALAR_H

#include <stddef.h>

#include "runtime/error.h"

#define ORD_NAME_BYTES_MAX 200

/* Why a text was refused. The reader of the field adds the place and the path. */
typedef struct ord_fault {
  size_t offset;      /* bytes into the scalar: what the message points at */
  bool is_silent;     /* it follows from a fault that was told already */
  bool out_of_memory; /* the text is no fault */
  char text[1024];
} ord_fault;

/* Fills the fault and returns false. */
bool ord_fault_set(ord_fault *fault, size_t offset, const char *format, ...) ORD_PRINTF(3, 4);

/* A decimal number that f32 holds: 0, or a size from FLT_MIN to FLT_MAX. `field` begins the message. */
ORD_MUST_CHECK bool ord_scalar_number(const char *field, const char *text, double *out, ord_fault *fault);
ORD_MUST_CHECK bool ord_scalar_bool(const char *field, const char *text, bool *out, ord_fault *fault);
/* One of `word` (ended by NULL); *out is its number. */
ORD_MUST_CHECK bool ord_scalar_word(const char *field, const char *text, const char *const *word, uint32_t *out,
                                    ord_fault *fault);

/* Letters, digits and '_', not starting with a digit. `what` begins the message: "dim". */
ORD_MUST_CHECK bool ord_scalar_name(const char *what, const char *text, ord_fault *fault);
/* As a name, but '-' and '.' may stand in it and a digit may come first: models, sizes. */
ORD_MUST_CHECK bool ord_scalar_label(const char *what, const char *text, ord_fault *fault);

/* `token` begins like a number but is no row of plain digits: says so and, where it can, what to write. False. */
bool ord_scalar_refuse_digits(const char *token, size_t offset, ord_fault *fault);

#endif
