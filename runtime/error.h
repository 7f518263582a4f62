/* SPDX-License-Identifier: MIT
 *
 * Errors travel to the caller in an ord_error (ordito.h) that the caller owns. A function that can fail returns bool
 * and fills the error when it returns false; `err` may be NULL. Nothing in the library prints, aborts or exits.
 */
#ifndef ORDITO_RUNTIME_ERROR_H
#define ORDITO_RUNTIME_ERROR_H

#include <stdarg.h>
#include <stdbool.h>

#include "ordito.h"

#define ORD_PRINTF(text, first) __attribute__((format(printf, text, first)))

/* Fills `err` and returns false, so that a failing function ends with `return ord_fail(err, ORD_INVALID, ..)`.
 * Text that does not fit is cut. Keeps no pointer. */
bool ord_fail(ord_error *err, ord_status code, const char *format, ...) ORD_PRINTF(3, 4);

/* As ord_fail, with a place in a file; the text becomes "file:line:column: ..". line 0: the file alone. */
bool ord_fail_at(ord_error *err, ord_status code, const char *file, uint32_t line, uint32_t column, const char *format,
                 ...) ORD_PRINTF(6, 7);

/* "out of memory while <what>" with code ORD_NO_MEMORY. Here, so that whoever compiles a caller sees the false. */
static inline bool ord_fail_memory(ord_error *err, const char *what) {
  ord_fail(err, ORD_NO_MEMORY, "out of memory while %s", what);
  return false;
}

/* Puts "<prefix>: " before the text of an error that a callee filled; keeps its code and place. Returns false. */
bool ord_fail_prefix(ord_error *err, const char *format, ...) ORD_PRINTF(2, 3);

/* The error of a plugin call as an ord_error: "<who>: <text> (native code N)". Returns false. */
bool ord_fail_plugin(ord_error *err, ord_status code, const ord_plugin_error *from, const char *who);

#endif
