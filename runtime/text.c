/* SPDX-License-Identifier: MIT
 *
 * Growing text, its JSON form, and "did you mean": the restricted Damerau-Levenshtein distance between names.
 */
#include "runtime/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 256, COMPARED_NAME_MAX = 255, AFFIX_MIN = 3 };

/* Room for `more` bytes and the terminator. */
static bool reserve(ord_text *text, size_t more) {
  if (text->failed) return false;
  size_t wanted;
  if (__builtin_add_overflow(text->length, more, &wanted) || wanted >= SIZE_MAX / 2) {
    text->failed = true;
    return false;
  }
  if (wanted < text->capacity) return true;
  size_t capacity = text->capacity ? text->capacity : FIRST_CAPACITY;
  while (capacity <= wanted) capacity *= 2;
  char *grown = realloc(text->bytes, capacity);
  if (!grown) {
    text->failed = true;
    return false;
  }
  text->bytes = grown;
  text->capacity = capacity;
  return true;
}

void ord_text_add_list(ord_text *text, const char *format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  const int length = vsnprintf(NULL, 0, format, arguments);
  if (length < 0)
    text->failed = true;
  else if (reserve(text, (size_t)length)) {
    vsnprintf(text->bytes + text->length, (size_t)length + 1, format, again);
    text->length += (size_t)length;
  }
  va_end(again);
}

void ord_text_add(ord_text *text, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  ord_text_add_list(text, format, arguments);
  va_end(arguments);
}

void ord_text_add_n(ord_text *text, const char *bytes, size_t length) {
  if (!reserve(text, length)) return;
  if (length) memcpy(text->bytes + text->length, bytes, length);
  text->length += length;
  text->bytes[text->length] = '\0';
}

/* Bytes of the UTF-8 character at `at`, 0 if there is none: overlong forms, surrogates and numbers beyond U+10FFFF do
 * not count. The text ends with a 0, which is no continuation byte, so that nothing behind it is read. */
static size_t utf8_length(const unsigned char *at) {
  static const struct {
    unsigned char first_low, first_high, second_low, second_high, bytes;
  } form[] = {{0x01, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
              {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
              {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
  for (size_t i = 0; i < sizeof form / sizeof *form; i++) {
    if (at[0] < form[i].first_low || at[0] > form[i].first_high) continue;
    if (form[i].bytes > 1 && (at[1] < form[i].second_low || at[1] > form[i].second_high)) return 0;
    for (size_t next = 2; next < form[i].bytes; next++)
      if ((at[next] & 0xc0u) != 0x80u) return 0;
    return form[i].bytes;
  }
  return 0;
}

/* C0, delete, and C1, which in UTF-8 is two bytes: a terminal may take any of them for the begin of a command. */
static bool is_control(const unsigned char *at) {
  return at[0] < 0x20 || at[0] == 0x7f || (at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0);
}

size_t ord_text_printable(const char *text) {
  const unsigned char *const start = (const unsigned char *)text, *at = start;
  while (*at == '\n' || *at == '\t' || !is_control(at)) {
    const size_t bytes = utf8_length(at);
    if (!bytes) break;
    at += bytes;
  }
  return (size_t)(at - start);
}

size_t ord_text_json(const char *text, char out[ORD_JSON_BYTES]) {
  static const char escaped[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
  const unsigned char *const at = (const unsigned char *)text;
  const char *special = strchr(escaped, *text);
  const size_t bytes = utf8_length(at);
  if (special)
    snprintf(out, ORD_JSON_BYTES, "\\%c", letter[special - escaped]);
  else if (is_control(at))
    snprintf(out, ORD_JSON_BYTES, "\\u%04x", at[bytes - 1]); /* of C1 the second byte is the code point */
  else
    snprintf(out, ORD_JSON_BYTES, "%.*s", bytes ? (int)bytes : 3, bytes ? text : "\xef\xbf\xbd");
  return bytes ? bytes : 1;
}

void ord_text_add_json(ord_text *text, const char *string) {
  ord_text_add_n(text, "\"", 1);
  while (*string) {
    char piece[ORD_JSON_BYTES];
    string += ord_text_json(string, piece);
    ord_text_add_n(text, piece, strlen(piece));
  }
  ord_text_add_n(text, "\"", 1);
}

void ord_text_finish(ord_text *text) {
  free(text->bytes);
  *text = (ord_text){0};
}

bool ord_text_give(ord_text *text, const char *what, char **out, ord_error *err) {
  *out = NULL;
  if (text->failed) {
    ord_text_finish(text);
    return ord_fail_memory(err, what);
  }
  *out = text->bytes;
  *text = (ord_text){0};
  return true;
}

bool ord_ends_with(const char *text, const char *ending) {
  const size_t length = strlen(text), wanted = strlen(ending);
  return length >= wanted && strcmp(text + length - wanted, ending) == 0;
}

const char *ord_join_words(const char *const *word, const char *last, char *buffer, size_t bytes) {
  size_t length = 0;
  buffer[0] = '\0';
  for (; *word && length < bytes; word++) {
    const char *before = length == 0 ? "" : word[1] ? ", " : last;
    length += (size_t)snprintf(buffer + length, bytes - length, "%s%s", before, *word);
  }
  return buffer;
}

const char *ord_plural(uint64_t count) { return count == 1 ? "" : "s"; }

static uint16_t least(uint16_t a, uint16_t b) { return a < b ? a : b; }

/* A name for comparing: ASCII letters in lower case. */
static void fold_case(const char *name, size_t length, char *out) {
  for (size_t i = 0; i < length; i++) out[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] - 'A' + 'a' : name[i]);
}

/* Insertions, deletions, replacements and swaps of neighbours. Both lengths are at most COMPARED_NAME_MAX. */
static uint16_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length) {
  uint16_t rows[3][COMPARED_NAME_MAX + 1];
  uint16_t *before = rows[0], *above = rows[1], *row = rows[2];
  for (size_t j = 0; j <= b_length; j++) above[j] = (uint16_t)j;
  for (size_t i = 1; i <= a_length; i++) {
    row[0] = (uint16_t)i;
    for (size_t j = 1; j <= b_length; j++) {
      const uint16_t replaced = (uint16_t)(above[j - 1] + (a[i - 1] != b[j - 1]));
      row[j] = least(replaced, (uint16_t)(least(above[j], row[j - 1]) + 1));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = least(row[j], (uint16_t)(before[j - 2] + 1));
    }
    uint16_t *free_row = before;
    before = above;
    above = row;
    row = free_row;
  }
  return above[b_length];
}

/* Bytes of the shorter name if the longer begins or ends with it ("epsilon" and "eps", "wte.weight" and
 * "model.wte.weight"), else 0. */
static size_t shared_affix(const char *a, size_t a_length, const char *b, size_t b_length) {
  const bool a_is_longer = a_length >= b_length;
  const char *longer = a_is_longer ? a : b, *shorter = a_is_longer ? b : a;
  const size_t length = a_is_longer ? b_length : a_length, rest = a_length + b_length - 2 * length;
  const bool is_affix = !memcmp(longer, shorter, length) || !memcmp(longer + rest, shorter, length);
  return length >= AFFIX_MIN && is_affix ? length : 0;
}

/* The lower, the nearer; UINT16_MAX: not near. Names near by distance come before those that share an affix, and of
 * these the one that shares most. */
static uint16_t rank_name(const char *name, size_t length, const char *other, size_t other_length) {
  const uint16_t near_enough = length / 3 > 1 ? (uint16_t)(length / 3) : 1;
  const uint16_t distance = edit_distance(name, length, other, other_length);
  /* Names that share no letter are not near, however short they are. */
  const bool shares_nothing = distance > 0 && distance >= (length > other_length ? length : other_length);
  if (distance <= near_enough && !shares_nothing) return distance;
  const size_t shared = shared_affix(name, length, other, other_length);
  return shared ? (uint16_t)(2 * COMPARED_NAME_MAX - shared) : UINT16_MAX;
}

const char *ord_nearest_name(const char *name, const char *const *candidate, size_t count) {
  const size_t length = strlen(name);
  char folded[COMPARED_NAME_MAX], other[COMPARED_NAME_MAX];
  if (length > COMPARED_NAME_MAX) return NULL;
  fold_case(name, length, folded);
  const char *nearest = NULL;
  uint16_t nearest_rank = UINT16_MAX;
  for (size_t i = 0; i < count; i++) {
    const size_t other_length = candidate[i] ? strlen(candidate[i]) : SIZE_MAX;
    if (other_length > COMPARED_NAME_MAX) continue;
    fold_case(candidate[i], other_length, other);
    const uint16_t rank = rank_name(folded, length, other, other_length);
    if (rank >= nearest_rank) continue;
    nearest = candidate[i];
    nearest_rank = rank;
  }
  return nearest;
}
