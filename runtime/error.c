/* SPDX-License-Identifier: MIT
 *
 * Filling an ord_error. Every text is made in a buffer of its own first, so that the arguments may point into the
 * error that is being filled, and is cut between characters where it does not fit.
 */
#include "runtime/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

typedef struct {
  char bytes[sizeof(((ord_error *)0)->text)];
  size_t length;
  size_t room; /* of the caller's error, at most that of `bytes` */
} error_text;

/* A caller that was built with another header may have a shorter text. */
static error_text begin_text(const ord_error *err) {
  const size_t begin = offsetof(ord_error, text);
  const bool is_shorter = err->struct_size > begin && err->struct_size < sizeof *err;
  return (error_text){.room = is_shorter ? err->struct_size - begin : sizeof err->text};
}

static void append(error_text *text, const char *format, va_list arguments) {
  const size_t room = text->room - text->length;
  const int wanted = vsnprintf(text->bytes + text->length, room, format, arguments);
  if (wanted < 0) {
    text->bytes[text->length] = '\0';
    return;
  }
  if ((size_t)wanted < room) {
    text->length += (size_t)wanted;
    return;
  }
  /* Cut: drop the rest of a UTF-8 character that lost its end, at most three bytes and its first one. */
  size_t end = text->room - 1;
  size_t start = end;
  while (start > 0 && end - start < 3 && ((unsigned char)text->bytes[start - 1] & 0xc0u) == 0x80u) start--;
  if (start > 0 && (unsigned char)text->bytes[start - 1] >= 0xc0u) {
    const unsigned char lead = (unsigned char)text->bytes[start - 1];
    const size_t bytes = lead >= 0xf0u ? 4 : lead >= 0xe0u ? 3 : 2;
    if (end - (start - 1) < bytes) end = start - 1;
  }
  text->bytes[end] = '\0';
  text->length = end;
}

static void append_format(error_text *text, const char *format, ...) ORD_PRINTF(2, 3);
static void append_format(error_text *text, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  append(text, format, arguments);
  va_end(arguments);
}

static void store(ord_error *err, ord_status code, const char *file, uint32_t line, uint32_t column,
                  const error_text *text) {
  err->code = code;
  err->line = line;
  err->column = column;
  snprintf(err->file, sizeof err->file, "%s", file);
  memcpy(err->text, text->bytes, text->length);
  err->text[text->length] = '\0';
}

bool ord_fail(ord_error *err, ord_status code, const char *format, ...) {
  if (!err) return false;
  error_text text = begin_text(err);
  va_list arguments;
  va_start(arguments, format);
  append(&text, format, arguments);
  va_end(arguments);
  store(err, code, "", 0, 0, &text);
  return false;
}

bool ord_fail_at(ord_error *err, ord_status code, const char *file, uint32_t line, uint32_t column, const char *format,
                 ...) {
  if (!err) return false;
  error_text text = begin_text(err);
  if (line && column)
    append_format(&text, "%s:%u:%u: ", file, line, column);
  else if (line)
    append_format(&text, "%s:%u: ", file, line);
  else if (*file)
    append_format(&text, "%s: ", file);
  va_list arguments;
  va_start(arguments, format);
  append(&text, format, arguments);
  va_end(arguments);
  store(err, code, file, line, line ? column : 0, &text);
  return false;
}

bool ord_fail_prefix(ord_error *err, const char *format, ...) {
  if (!err) return false;
  error_text text = begin_text(err);
  va_list arguments;
  va_start(arguments, format);
  append(&text, format, arguments);
  va_end(arguments);
  append_format(&text, ": %s", err->text);
  memcpy(err->text, text.bytes, text.length);
  err->text[text.length] = '\0';
  return false;
}

bool ord_fail_plugin(ord_error *err, ord_status code, const ord_plugin_error *from, const char *who) {
  if (!err) return false;
  /* A plugin's word is checked like any input: a code that is no failure of a plugin becomes one, a
   * text may lack its end. */
  const bool is_failure = code > ORD_NO && code <= ORD_UNSUPPORTED;
  const int bytes = (int)strnlen(from->text, sizeof from->text);
  error_text text = begin_text(err);
  if (bytes)
    append_format(&text, "%s: %.*s", who, bytes, from->text);
  else if (code == ORD_NO_MEMORY)
    append_format(&text, "%s: out of memory", who);
  else
    append_format(&text, "%s: failed without a reason (status %d)", who, (int)code);
  if (from->native) append_format(&text, " (native code %d)", from->native);
  store(err, is_failure ? code : ORD_INTERNAL, "", 0, 0, &text);
  return false;
}

ord_status ord_status_of_errno(int number) {
  static const int wrong_name[] = {ENOENT, ENOTDIR, EISDIR, EACCES, EPERM, EROFS, ELOOP, ENAMETOOLONG, ENXIO};
  if (number == ENOMEM) return ORD_NO_MEMORY;
  for (size_t i = 0; i < sizeof wrong_name / sizeof *wrong_name; i++)
    if (wrong_name[i] == number) return ORD_INVALID;
  return ORD_IO;
}
