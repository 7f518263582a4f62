/* SPDX-License-Identifier: MIT
 *
 * Words for people. What came out of a file, a plugin or the command line reaches a terminal with control characters
 * and bytes that are no UTF-8 written as \x1b; generated text does not pass here.
 */
#include <stdarg.h>
#include <string.h>

#include "cli/cli.h"

enum { SAID_MAX = 8192 }; /* longer than any ord_error; an argument that is longer still is cut */

void cli_write(FILE *to, const char *text) {
  for (;;) {
    const size_t bytes = ord_text_printable(text);
    fwrite(text, 1, bytes, to);
    text += bytes;
    if (!*text) return;
    fprintf(to, "\\x%02x", (unsigned)(unsigned char)*text++);
  }
}

void cli_write_json(FILE *to, const char *text, size_t length) {
  const char *const end = text + strnlen(text, length);
  putc('"', to);
  while (text < end) {
    char piece[ORD_JSON_BYTES];
    text += ord_text_json(text, piece);
    fputs(piece, to);
  }
  putc('"', to);
}

void cli_say(FILE *to, const char *format, ...) {
  char text[SAID_MAX];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  cli_write(to, text);
}

const char *cli_plural(uint64_t count) { return count == 1 ? "" : "s"; }
