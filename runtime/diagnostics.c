/* SPDX-License-Identifier: MIT
 *
 * The list of faults. Appending never fails: what memory does not allow is remembered and told by
 * ord_diagnostics_fail.
 */
#include "runtime/diagnostics.h"

#include <stdlib.h>

#include "runtime/text.h"

void ord_diagnostics_init(ord_diagnostics *list) { *list = (ord_diagnostics){.file = ""}; }

void ord_diagnostics_finish(ord_diagnostics *list) {
  ord_arena_finish(&list->arena);
  ord_diagnostics_init(list);
}

void ord_diagnostics_source(ord_diagnostics *list, const char *file, const char *source, size_t bytes) {
  const char *copy = ord_arena_text(&list->arena, file);
  if (!copy) list->out_of_memory = true;
  list->file = copy ? copy : "";
  list->source = source;
  list->source_bytes = bytes;
}

static void append(ord_diagnostics *list, const char *warning, uint32_t line, uint32_t column, const char *format,
                   va_list arguments) {
  ord_text text = {0};
  ord_text_add_list(&text, format, arguments);
  const char *copy = text.failed ? NULL : ord_arena_text_n(&list->arena, text.bytes, text.length);
  const char *name = warning && copy ? ord_arena_text(&list->arena, warning) : NULL;
  ord_text_finish(&text);
  if (!copy || (warning && !name) ||
      !ord_arena_grow(&list->arena, &list->entry, &list->capacity, list->count + 1, sizeof *list->entry)) {
    list->out_of_memory = true;
    return;
  }
  list->entry[list->count] = (ord_diagnostic){name, line, column, copy, list->count};
  list->count++;
}

void ord_diagnose(ord_diagnostics *list, uint32_t line, uint32_t column, const char *format, ...) {
  if (list->error_count++ >= ORD_DIAGNOSTIC_LIMIT) return;
  va_list arguments;
  va_start(arguments, format);
  append(list, NULL, line, column, format, arguments);
  va_end(arguments);
}

void ord_diagnose_warning(ord_diagnostics *list, const char *name, uint32_t line, uint32_t column, const char *format,
                          ...) {
  list->warning_count++;
  va_list arguments;
  va_start(arguments, format);
  append(list, name, line, column, format, arguments);
  va_end(arguments);
}

static int compare(uint32_t a, uint32_t b) { return (a > b) - (a < b); }

static int compare_places(const void *left, const void *right) {
  const ord_diagnostic *a = left, *b = right;
  /* line 0, no place, wraps to the largest number and so stays last */
  const int by_line = compare(a->line - 1, b->line - 1);
  if (by_line) return by_line;
  const int by_column = compare(a->column, b->column);
  return by_column ? by_column : compare(a->order, b->order);
}

void ord_diagnostics_sort(ord_diagnostics *list) {
  if (list->count) qsort(list->entry, list->count, sizeof *list->entry, compare_places);
}

bool ord_diagnostics_fail(const ord_diagnostics *list, ord_error *err) {
  if (list->out_of_memory) return ord_fail_memory(err, "checking the model");
  for (uint32_t i = 0; i < list->count; i++) {
    const ord_diagnostic *entry = &list->entry[i];
    /* Without an error the caller is strict about warnings: the first one is the fault. */
    if (entry->warning && list->error_count) continue;
    return ord_fail_at(err, ORD_INVALID, list->file, entry->line, entry->column, "%s", entry->text);
  }
  return ord_fail(err, ORD_INTERNAL, "%s: a check failed without a reason", list->file);
}
