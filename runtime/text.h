/* SPDX-License-Identifier: MIT
 *
 * A growing text for reports and messages. Out of memory is remembered and told once, at the end, so that callers need
 * not check each append. ord_text_printable and ord_nearest_name of ordito.h are here too.
 */
#ifndef ORDITO_RUNTIME_TEXT_H
#define ORDITO_RUNTIME_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/error.h"

typedef struct ord_text {
  char *bytes; /* always terminated once something was appended */
  size_t length, capacity;
  bool failed; /* an append ran out of memory; what is there is cut */
} ord_text;

void ord_text_add(ord_text *text, const char *format, ...) ORD_PRINTF(2, 3);
void ord_text_add_list(ord_text *text, const char *format, va_list arguments) ORD_PRINTF(2, 0);
void ord_text_add_n(ord_text *text, const char *bytes, size_t length);

/* Appends a JSON string with quotes, control characters as escapes; bytes that are not UTF-8 become U+FFFD. */
void ord_text_add_json(ord_text *text, const char *string);

void ord_text_finish(ord_text *text);
/* Hands the bytes over: *out is malloc'ed, NULL if nothing was appended. If the text is cut, it is freed instead and
 * the error says "out of memory while <what>". Either way `text` is finished. */
ORD_MUST_CHECK bool ord_text_give(ord_text *text, const char *what, char **out, ord_error *err);

bool ord_ends_with(const char *text, const char *ending);

/* Words (ended by NULL) as a sentence has them, "f32, f16 or bf16" where `last` is " or ", into `buffer`; cut where it
 * is too small. Returns `buffer`. */
const char *ord_join_words(const char *const *word, const char *last, char *buffer, size_t bytes);

/* What a regular noun takes behind its number: "" for 1, else "s". */
const char *ord_plural(uint64_t count);

#endif
