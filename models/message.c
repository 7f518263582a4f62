/* SPDX-License-Identifier: MIT
 *
 * Diagnostics as text: the place and the sentence, the line of the file, and a caret under the place. Tabs are shown
 * as arrows and control characters as question marks, so that the caret stands where it should, and long lines are cut
 * around it.
 */
#include <string.h>

#include "models/description.h"
#include "models/yaml.h"

enum { SHOWN_MAX = 100, BEFORE_CARET_MAX = 60 };

/* One character of the source, as it can be shown in one column. */
static void add_character(ord_text *text, const char *at, size_t bytes) {
  const unsigned char first = (unsigned char)*at;
  const bool is_c1 = first == 0xc2 && bytes == 2 && (unsigned char)at[1] < 0xa0;
  if (*at == '\t')
    ord_text_add(text, "→");
  else if ((bytes > 1 && !is_c1) || (first >= 0x20 && first < 0x7f))
    ord_text_add_n(text, at, bytes);
  else
    ord_text_add(text, "?");
}

static void add_line(ord_text *text, const char *line, size_t bytes, uint32_t column) {
  const char *const end = line + bytes;
  const uint32_t skipped = column > BEFORE_CARET_MAX ? column - BEFORE_CARET_MAX : 0;
  const char *at = line;
  for (uint32_t i = 0; i < skipped && at < end; i++) at += ord_yaml_character(at, end);
  ord_text_add(text, "    %s", skipped ? "…" : "");
  for (uint32_t i = 0; i < SHOWN_MAX && at < end; i++) {
    const size_t length = ord_yaml_character(at, end);
    add_character(text, at, length);
    at += length;
  }
  ord_text_add(text, "%s\n    %*s^\n", at < end ? "…" : "", (int)(column - skipped) - (skipped ? 0 : 1), "");
}

/* A line that was found, from which the next one is looked for: entries are sorted by line. */
typedef struct line_cursor {
  const char *at;
  uint32_t line;
} line_cursor;

static const char *find_line(const ord_diagnostics *list, line_cursor *cursor, uint32_t line, size_t *out_bytes) {
  const char *const end = list->source + list->source_bytes;
  if (!cursor->at || cursor->line > line) *cursor = (line_cursor){list->source, 1};
  const char *found = ord_yaml_line(cursor->at, (size_t)(end - cursor->at), line - cursor->line + 1, out_bytes);
  if (found) *cursor = (line_cursor){found, line};
  return found;
}

static void add_entry(ord_text *text, const ord_diagnostics *list, const ord_diagnostic *entry, line_cursor *cursor) {
  ord_text_add(text, "%s:", list->file);
  if (entry->line) ord_text_add(text, "%u:%u:", entry->line, entry->column);
  if (entry->warning) ord_text_add(text, " warning[%s]:", entry->warning);
  ord_text_add(text, " %s\n", entry->text);
  size_t bytes = 0;
  const char *line = entry->line && list->source ? find_line(list, cursor, entry->line, &bytes) : NULL;
  if (line) add_line(text, line, bytes, entry->column ? entry->column : 1);
}

void ord_diagnostics_print(const ord_diagnostics *list, ord_text *text) {
  line_cursor cursor = {NULL, 1};
  for (uint32_t i = 0; i < list->count; i++) add_entry(text, list, &list->entry[i], &cursor);
  if (list->error_count > ORD_DIAGNOSTIC_LIMIT)
    ord_text_add(text, "%s: and %u more error%s\n", list->file, list->error_count - ORD_DIAGNOSTIC_LIMIT,
                 ord_plural(list->error_count - ORD_DIAGNOSTIC_LIMIT));
  if (list->out_of_memory) ord_text_add(text, "%s: out of memory while checking the model\n", list->file);
}
