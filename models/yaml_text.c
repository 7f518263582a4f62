/* SPDX-License-Identifier: MIT
 *
 * The raw text of a model file: is it text that YAML can hold, where does a line begin, how long is a character.
 * Lines end with LF, CR LF or CR; the separators of Unicode are refused, so that editors count the same lines.
 */
#include <string.h>

#include "models/yaml.h"

enum { NEXT_LINE = 0x85, LINE_SEPARATOR = 0x2028, PARAGRAPH_SEPARATOR = 0x2029, BYTE_ORDER_MARK = 0xfeff };

/* Reads a character of well-formed UTF-8; 0 bytes if it is not: overlong, a surrogate, beyond U+10FFFF or cut. */
static size_t decode(const unsigned char *at, const unsigned char *end, uint32_t *out) {
  static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const size_t bytes = at[0] < 0x80 ? 1 : at[0] < 0xc0 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : at[0] < 0xf8 ? 4 : 0;
  if (bytes == 0 || bytes > (size_t)(end - at)) return 0;
  uint32_t value = bytes == 1 ? at[0] : at[0] & (0xffu >> (bytes + 1));
  for (size_t i = 1; i < bytes; i++) {
    if ((at[i] & 0xc0) != 0x80) return 0;
    value = value << 6 | (at[i] & 0x3f);
  }
  if (value < smallest[bytes] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) return 0;
  *out = value;
  return bytes;
}

size_t ord_yaml_character(const char *at, const char *end) {
  uint32_t value;
  const size_t bytes = decode((const unsigned char *)at, (const unsigned char *)end, &value);
  return bytes ? bytes : 1;
}

size_t ord_yaml_mark_bytes(const char *text, size_t bytes) {
  return bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

static bool is_refused(uint32_t value) {
  const bool is_control = (value < 0x20 && value != '\t' && value != '\n' && value != '\r') ||
                          (value >= 0x7f && value < 0xa0) || value == 0xfffe || value == 0xffff;
  return is_control || value == LINE_SEPARATOR || value == PARAGRAPH_SEPARATOR || value == BYTE_ORDER_MARK;
}

static void tell_refused(uint32_t value, uint32_t line, uint32_t column, ord_diagnostics *list) {
  const char *what = value == 0                 ? " (NUL)"
                     : value == BYTE_ORDER_MARK ? " (a byte order mark inside the text)"
                     : value == NEXT_LINE || value == LINE_SEPARATOR || value == PARAGRAPH_SEPARATOR
                         ? " (a line separator)"
                         : "";
  ord_diagnose(list, line, column, "a character that does not belong into a text; found U+%04X%s; wanted text", value,
               what);
}

/* Tells every line whose indentation holds a tab, once per line, and the first character that no YAML may hold. */
static bool check_characters(const char *text, size_t bytes, ord_diagnostics *list) {
  const unsigned char *at = (const unsigned char *)text + ord_yaml_mark_bytes(text, bytes);
  const unsigned char *const end = (const unsigned char *)text + bytes;
  uint32_t line = 1, column = 1;
  bool is_indentation = true, has_tab = false;
  while (at < end) {
    uint32_t value = 0;
    const size_t length = decode(at, end, &value);
    if (length == 0) {
      ord_diagnose(list, line, column, "the file is not UTF-8; found byte 0x%02x; wanted UTF-8 text", *at);
      return false;
    }
    if (is_refused(value)) {
      tell_refused(value, line, column, list);
      return false;
    }
    if (value == '\t' && is_indentation) {
      ord_diagnose(list, line, column, "tab used for indentation; found a tab; wanted spaces");
      has_tab = true;
    }
    if (value != ' ') is_indentation = false;
    at += length;
    column++;
    if (value == '\n' || (value == '\r' && !(at < end && *at == '\n'))) {
      line++;
      column = 1;
      is_indentation = true;
    }
  }
  return !has_tab;
}

bool ord_yaml_check_text(const char *text, size_t bytes, size_t byte_limit, ord_diagnostics *list) {
  if (bytes > byte_limit) {
    ord_diagnose(list, 0, 0, "the text is too long; found %zu bytes; wanted at most %zu", bytes, byte_limit);
    return false;
  }
  return check_characters(text, bytes, list);
}

const char *ord_yaml_line(const char *text, size_t bytes, uint32_t line, size_t *out_bytes) {
  const char *at = text + ord_yaml_mark_bytes(text, bytes), *const end = text + bytes;
  for (;;) {
    const char *stop = at;
    while (stop < end && *stop != '\n' && *stop != '\r') stop++;
    if (line == 1) {
      *out_bytes = (size_t)(stop - at);
      return at;
    }
    if (stop == end) return NULL;
    at = stop + (*stop == '\r' && stop + 1 < end && stop[1] == '\n' ? 2 : 1);
    line--;
  }
}
