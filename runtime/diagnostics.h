/* SPDX-License-Identifier: MIT
 *
 * The list of errors and warnings that checking a model gives. Each entry is one fault with its place; the reader,
 * the builder and the weight check append to the same list. Owns copies of all text.
 */
#ifndef ORDITO_RUNTIME_DIAGNOSTICS_H
#define ORDITO_RUNTIME_DIAGNOSTICS_H

#include "runtime/arena.h"
#include "runtime/error.h"

#define ORD_DIAGNOSTIC_LIMIT 20 /* errors kept; further ones are counted */

typedef struct ord_diagnostic {
  const char *warning;   /* NULL: an error; else the warning's name, "unused-dim" */
  uint32_t line, column; /* 1-based; 0: no place */
  const char *text;      /* "what is wrong; found; wanted (in path)", without the place */
  uint32_t order;        /* of appending; keeps sorting stable */
} ord_diagnostic;

typedef struct ord_diagnostics {
  ord_arena arena;
  const char *file;   /* as messages name it; borrowed from `arena` */
  const char *source; /* the text, for the line and the caret; borrowed from its owner, may be NULL */
  size_t source_bytes;
  ord_diagnostic *entry;
  uint32_t count, capacity;
  uint32_t error_count; /* all, also those beyond the limit */
  uint32_t warning_count;
  bool out_of_memory;
} ord_diagnostics;

void ord_diagnostics_init(ord_diagnostics *list);
void ord_diagnostics_finish(ord_diagnostics *list);
/* Names the file; copies the name, borrows the source text. */
void ord_diagnostics_source(ord_diagnostics *list, const char *file, const char *source, size_t bytes);

void ord_diagnose(ord_diagnostics *list, uint32_t line, uint32_t column, const char *format, ...) ORD_PRINTF(4, 5);
void ord_diagnose_warning(ord_diagnostics *list, const char *name, uint32_t line, uint32_t column, const char *format,
                          ...) ORD_PRINTF(5, 6);

/* Sorts by place; errors and warnings mixed. Entries without a place stay last. Stable. */
void ord_diagnostics_sort(ord_diagnostics *list);

/* The first error, or where there is none the first warning, as an ord_error: "file:line:col: text", code ORD_INVALID
 * (or ORD_NO_MEMORY). Returns false. */
bool ord_diagnostics_fail(const ord_diagnostics *list, ord_error *err);

#endif
