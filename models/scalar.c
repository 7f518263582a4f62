/* SPDX-License-Identifier: MIT
 *
 * The readers of scalars and their hints. Independent of the process's locale.
 */
#include "models/scalar.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/text.h"

enum { HINT_BYTES = 64 };

bool ord_fault_set(ord_fault *fault, size_t offset, const char *format, ...) {
  *fault = (ord_fault){.offset = offset};
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(fault->text, sizeof fault->text, format, arguments);
  va_end(arguments);
  return false;
}

static bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

static bool is_letter(char byte) { return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_'; }

static size_t count_digits(const char *text) {
  size_t count = 0;
  while (is_digit(text[count])) count++;
  return count;
}

/* [-] digits [. [digits]] or [-] . digits, then [e [sign] digits]. */
static bool is_decimal(const char *text) {
  const char *at = text + (*text == '-');
  const size_t whole = count_digits(at);
  at += whole;
  size_t fraction = 0;
  if (*at == '.') {
    fraction = count_digits(at + 1);
    at += 1 + fraction;
  }
  if (whole + fraction == 0) return false;
  if (*at == 'e' || *at == 'E') {
    at += at[1] == '+' || at[1] == '-' ? 2 : 1;
    const size_t exponent = count_digits(at);
    if (exponent == 0) return false;
    at += exponent;
  }
  return *at == '\0';
}

/* strtod reads the caller's locale; a program with a decimal comma must read the same models. */
static bool decimal_value(const char *text, double *out) {
  if (!is_decimal(text)) return false;
  const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!plain) return false;
  *out = strtod_l(text, NULL, plain);
  freelocale(plain);
  return true;
}

static bool holds_nonzero_digit(const char *text) {
  for (; *text && *text != 'e' && *text != 'E'; text++)
    if (*text >= '1' && *text <= '9') return true;
  return false;
}

/* Copies `text` without the bytes of `left_out`; false if it does not fit. */
static bool copy_without(const char *text, const char *left_out, char *copy, size_t bytes) {
  size_t length = 0;
  for (; *text; text++) {
    if (strchr(left_out, *text)) continue;
    if (length + 1 >= bytes) return false;
    copy[length++] = *text;
  }
  copy[length] = '\0';
  return true;
}

/* "1/8" -> "0.125". */
static bool divide(const char *text, char *hint) {
  const char *slash = strchr(text, '/');
  char dividend[HINT_BYTES];
  if (!slash || (size_t)(slash - text) >= sizeof dividend) return false;
  memcpy(dividend, text, (size_t)(slash - text));
  dividend[slash - text] = '\0';
  double a, b;
  if (!decimal_value(dividend, &a) || !decimal_value(slash + 1, &b) || b == 0) return false;
  snprintf(hint, HINT_BYTES, "%.17g", a / b);
  for (int digits = 1; digits < 17; digits++) {
    char shorter[HINT_BYTES];
    double value;
    snprintf(shorter, sizeof shorter, "%.*g", digits, a / b);
    if (decimal_value(shorter, &value) && value == a / b) {
      memcpy(hint, shorter, sizeof shorter);
      return true;
    }
  }
  return true;
}

/* What the author of a number that is none probably meant. */
static bool guess_number(const char *text, char *hint) {
  double value;
  if (divide(text, hint)) return true;
  if (*text == '+' && is_decimal(text + 1) && copy_without(text, "+", hint, HINT_BYTES)) return true;
  return copy_without(text, "_", hint, HINT_BYTES) && strlen(hint) < strlen(text) && decimal_value(hint, &value);
}

static bool is_infinite_or_nan(const char *text) {
  static const char *const word[] = {"inf", ".inf", "infinity", "nan", ".nan"};
  const char *at = text + (*text == '-' || *text == '+');
  for (size_t i = 0; i < sizeof word / sizeof *word; i++)
    if (strcasecmp(at, word[i]) == 0) return true;
  return false;
}

/* Values are f32: what becomes infinite or 0 there would give NaN. The upper end is where rounding ends to give
 * FLT_MAX, which is written 3.4028235e38. */
static bool f32_holds(const char *text, double number) {
  const double size = fabs(number);
  return size == 0 ? !holds_nonzero_digit(text) : size >= FLT_MIN && size < 0x1.ffffffp127;
}

bool ord_scalar_number(const char *field, const char *text, double *out, ord_fault *fault) {
  char hint[HINT_BYTES];
  if (decimal_value(text, out)) {
    if (f32_holds(text, *out)) return true;
    return ord_fault_set(fault, 0,
                         "%s: found '%.60s', which f32 does not hold; wanted 0, or a size from 1.2e-38 to 3.4e+38",
                         field, text);
  }
  if (is_infinite_or_nan(text))
    return ord_fault_set(fault, 0, "%s: found '%.60s'; wanted a finite number such as 1e-5", field, text);
  if (guess_number(text, hint))
    return ord_fault_set(fault, 0, "%s: found '%.60s'; wanted a number; write %s", field, text, hint);
  return ord_fault_set(fault, 0, "%s: found '%.60s'; wanted a number such as 1e-5", field, text);
}

bool ord_scalar_bool(const char *field, const char *text, bool *out, ord_fault *fault) {
  static const char *const true_word[] = {"yes", "on", "y", "1", "true"};
  static const char *const false_word[] = {"no", "off", "n", "0", "false"};
  *out = strcmp(text, "true") == 0;
  if (*out || strcmp(text, "false") == 0) return true;
  const char *hint = "";
  for (size_t i = 0; i < sizeof true_word / sizeof *true_word; i++) {
    if (strcasecmp(text, true_word[i]) == 0) hint = "; write true";
    if (strcasecmp(text, false_word[i]) == 0) hint = "; write false";
  }
  return ord_fault_set(fault, 0, "%s: found '%.60s'; wanted true or false%s", field, text, hint);
}

bool ord_scalar_word(const char *field, const char *text, const char *const *word, uint32_t *out, ord_fault *fault) {
  uint32_t count = 0;
  for (; word[count]; count++) {
    if (strcmp(text, word[count]) != 0) continue;
    *out = count;
    return true;
  }
  char list[400];
  const char *nearest = ord_nearest_name(text, word, count);
  return ord_fault_set(fault, 0, "%s: found '%.60s'; wanted %s%s%s%s", field, text,
                       ord_join_words(word, " or ", list, sizeof list), nearest ? "; did you mean '" : "",
                       nearest ? nearest : "", nearest ? "'?" : "");
}

/* Length and braces, which every kind of name refuses alike. */
static bool check_shape_of_name(const char *what, const char *text, ord_fault *fault) {
  if (!*text) return ord_fault_set(fault, 0, "%s: found an empty text; wanted a name", what);
  if (strlen(text) > ORD_NAME_BYTES_MAX)
    return ord_fault_set(fault, 0, "%s: the name is too long; found %zu bytes; wanted at most %d", what, strlen(text),
                         ORD_NAME_BYTES_MAX);
  return true;
}

bool ord_scalar_name(const char *what, const char *text, ord_fault *fault) {
  if (!check_shape_of_name(what, text, fault)) return false;
  for (const char *at = text; *at; at++)
    if (!is_letter(*at) && (at == text || !is_digit(*at)))
      return ord_fault_set(fault, (size_t)(at - text),
                           "'%.60s' cannot be the name of %s; wanted letters, digits and '_', no digit first", text,
                           what);
  return true;
}

bool ord_scalar_label(const char *what, const char *text, ord_fault *fault) {
  if (!check_shape_of_name(what, text, fault)) return false;
  for (const char *at = text; *at; at++)
    if (!is_letter(*at) && !is_digit(*at) && (at == text || (*at != '-' && *at != '.')))
      return ord_fault_set(fault, (size_t)(at - text),
                           "'%.60s' cannot be the name of %s; wanted letters, digits, '_', '-' and '.', a letter or a "
                           "digit first",
                           text, what);
  return true;
}

/* "0012" -> "12", "0x10" -> "16", "1e3" -> "1000"; false where no whole number can be meant. */
static bool guess_digits(const char *token, char *hint) {
  char plain[HINT_BYTES] = "";
  if (!copy_without(token, "_", plain, sizeof plain)) return false;
  const int base = plain[0] != '0' ? 10 : plain[1] == 'x' ? 16 : plain[1] == 'o' ? 8 : plain[1] == 'b' ? 2 : 10;
  double value;
  if (base != 10) {
    char *end;
    value = (double)strtoull(plain + 2, &end, base);
    if (*end || end == plain + 2) return false;
  } else if (!decimal_value(plain, &value)) {
    return false;
  }
  if (value != floor(value) || value >= 0x1p40) return false;
  snprintf(hint, HINT_BYTES, "%.0f", value);
  return true;
}

bool ord_scalar_refuse_digits(const char *token, size_t offset, ord_fault *fault) {
  char hint[HINT_BYTES];
  if (guess_digits(token, hint))
    return ord_fault_set(fault, offset, "'%.60s' is not a whole number here; write %s", token, hint);
  return ord_fault_set(fault, offset, "'%.60s' is not a whole number here; wanted digits or the name of a dim", token);
}
