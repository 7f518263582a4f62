/* SPDX-License-Identifier: MIT
 *
 * Recursive descent, evaluated on the way. The depth of brackets is bounded, a row of minus signs is counted, so that
 * no text can exhaust the stack.
 */
#include "models/expression.h"

#include <string.h>

enum { BRACKET_LIMIT = 32, SHOWN_MAX = 80 };

typedef struct expression_reader {
  const ord_expression_scope *scope;
  const char *text, *at;
  ord_fault *fault;
  uint32_t depth;
} expression_reader;

static bool read_sum(expression_reader *reader, ord_size *out);

static bool is_word_byte(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') || byte == '_' ||
         byte == '.';
}

static bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

static size_t offset_of(const expression_reader *reader, const char *at) { return (size_t)(at - reader->text); }

static char peek(expression_reader *reader) {
  while (*reader->at == ' ') reader->at++;
  return *reader->at;
}

static int shown(size_t bytes) { return bytes < SHOWN_MAX ? (int)bytes : SHOWN_MAX; }

static bool fail_memory(expression_reader *reader) {
  reader->fault->out_of_memory = true;
  return false;
}

/* A step of arithmetic that gave `status`: `left` and `right` are its operands, `begin` to reader->at its text. */
static bool check_step(expression_reader *reader, ord_size_status status, const char *begin, const char *sign,
                       ord_size left, ord_size right, ord_size *out) {
  if (status == ORD_SIZE_OK) return true;
  if (status == ORD_SIZE_NO_MEMORY) return fail_memory(reader);
  if (reader->scope->is_open && *reader->scope->is_open)
    return ord_size_constant(reader->scope->arena, 1, out) == ORD_SIZE_OK || fail_memory(reader);
  const size_t at = offset_of(reader, sign);
  const int found = shown((size_t)(reader->at - begin));
  int64_t dividend = 0, divisor = 1;
  switch (status) {
  case ORD_SIZE_REST:
    (void)ord_size_is_constant(left, &dividend);
    (void)ord_size_is_constant(right, &divisor);
    return ord_fault_set(reader->fault, at, "%lld / %lld leaves a rest of %lld; found %.*s; wanted a whole number",
                         (long long)dividend, (long long)divisor, (long long)(dividend % divisor), found, begin);
  case ORD_SIZE_NOT_FIXED:
    return ord_fault_set(reader->fault, at, "'/' works on fixed dims only; found %.*s; wanted no run-time dim in it",
                         found, begin);
  case ORD_SIZE_ZERO:
    return ord_fault_set(reader->fault, at, "a division by 0; found %.*s; wanted another divisor", found, begin);
  default:
    return ord_fault_set(reader->fault, at, "the number grows too large; found %.*s; wanted less than 2^40", found,
                         begin);
  }
}

static bool read_digits(expression_reader *reader, ord_size *out) {
  const char *begin = reader->at;
  while (is_word_byte(*reader->at) ||
         ((*reader->at == '+' || *reader->at == '-') && (reader->at[-1] == 'e' || reader->at[-1] == 'E') &&
          begin[1] != 'x' && is_digit(reader->at[1])))
    reader->at++;
  const size_t bytes = (size_t)(reader->at - begin);
  char token[ORD_NAME_BYTES_MAX + 1];
  if (bytes >= sizeof token)
    return ord_fault_set(reader->fault, offset_of(reader, begin),
                         "the number grows too large; found %zu characters; "
                         "wanted less than 2^40",
                         bytes);
  memcpy(token, begin, bytes);
  token[bytes] = '\0';
  if (strspn(token, "0123456789") != bytes || (token[0] == '0' && bytes > 1))
    return ord_scalar_refuse_digits(token, offset_of(reader, begin), reader->fault);
  int64_t value = 0;
  for (const char *digit = token; *digit && value < ORD_SIZE_LIMIT; digit++) value = value * 10 + (*digit - '0');
  const ord_size_status status = ord_size_constant(reader->scope->arena, value, out);
  return check_step(reader, status, begin, begin, *out, *out, out);
}

static bool read_name(expression_reader *reader, ord_size *out) {
  const char *begin = reader->at;
  while (is_word_byte(*reader->at)) reader->at++;
  const size_t bytes = (size_t)(reader->at - begin), offset = offset_of(reader, begin);
  char name[ORD_NAME_BYTES_MAX + 1];
  if (bytes >= sizeof name)
    return ord_fault_set(reader->fault, offset, "a name is too long; found %zu bytes; wanted at most %d", bytes,
                         ORD_NAME_BYTES_MAX);
  memcpy(name, begin, bytes);
  name[bytes] = '\0';
  if (!reader->scope->find(reader->scope->context, name, out, reader->fault)) {
    reader->fault->offset = offset;
    return false;
  }
  int64_t value;
  if (!reader->scope->allows_run && !ord_size_is_constant(*out, &value))
    return ord_fault_set(reader->fault, offset,
                         "'%s' is a run-time dim; found it in a fixed expression; wanted fixed dims", name);
  return true;
}

static bool read_brackets(expression_reader *reader, ord_size *out) {
  const char *begin = reader->at++;
  if (++reader->depth > BRACKET_LIMIT)
    return ord_fault_set(reader->fault, offset_of(reader, begin),
                         "nested too deep; found %d levels of brackets; wanted at "
                         "most %d",
                         BRACKET_LIMIT + 1, BRACKET_LIMIT);
  if (!read_sum(reader, out)) return false;
  if (peek(reader) != ')')
    return ord_fault_set(reader->fault, offset_of(reader, begin),
                         "a bracket is not closed; found '('; wanted ')' behind it");
  reader->at++;
  reader->depth--;
  return true;
}

static bool read_factor(expression_reader *reader, ord_size *out) {
  *out = (ord_size){NULL, 0};
  const char *begin = reader->at;
  bool is_negative = false;
  for (; peek(reader) == '-'; reader->at++) is_negative = !is_negative;
  const char first = *reader->at;
  if (first == '(') {
    if (!read_brackets(reader, out)) return false;
  } else if (is_digit(first) || first == '.') {
    if (!read_digits(reader, out)) return false;
  } else if (is_word_byte(first)) {
    if (!read_name(reader, out)) return false;
  } else if (!first) {
    return ord_fault_set(reader->fault, offset_of(reader, reader->at),
                         "the expression ends too early; found '%.*s'; wanted a number or a name behind it",
                         shown(strlen(reader->text)), reader->text);
  } else {
    return ord_fault_set(reader->fault, offset_of(reader, reader->at),
                         "'%.1s' cannot stand in an expression here; found %.*s; wanted a number, a name, '-' or '('",
                         (unsigned char)first < 0x80 ? reader->at : "?", shown(strlen(reader->text)), reader->text);
  }
  if (!is_negative) return true;
  const ord_size_status status = ord_size_difference(reader->scope->arena, (ord_size){NULL, 0}, *out, out);
  return check_step(reader, status, begin, begin, *out, *out, out);
}

static bool read_term(expression_reader *reader, ord_size *out) {
  (void)peek(reader);
  const char *begin = reader->at;
  if (!read_factor(reader, out)) return false;
  while (peek(reader) == '*' || *reader->at == '/') {
    const char *sign = reader->at++;
    const ord_size left = *out;
    ord_size right = {NULL, 0};
    if (!read_factor(reader, &right)) return false;
    const ord_size_status status = *sign == '*' ? ord_size_product(reader->scope->arena, left, right, out)
                                                : ord_size_quotient(reader->scope->arena, left, right, out);
    if (!check_step(reader, status, begin, sign, left, right, out)) return false;
  }
  return true;
}

static bool read_sum(expression_reader *reader, ord_size *out) {
  (void)peek(reader);
  const char *begin = reader->at;
  if (!read_term(reader, out)) return false;
  while (peek(reader) == '+' || *reader->at == '-') {
    const char *sign = reader->at++;
    const ord_size left = *out;
    ord_size right = {NULL, 0};
    if (!read_term(reader, &right)) return false;
    const ord_size_status status = *sign == '+' ? ord_size_sum(reader->scope->arena, left, right, out)
                                                : ord_size_difference(reader->scope->arena, left, right, out);
    if (!check_step(reader, status, begin, sign, left, right, out)) return false;
  }
  return true;
}

bool ord_expression_evaluate(const ord_expression_scope *scope, const char *text, ord_size *out, ord_fault *fault) {
  expression_reader reader = {.scope = scope, .text = text, .at = text, .fault = fault};
  *fault = (ord_fault){.offset = 0};
  *out = (ord_size){NULL, 0};
  if (scope->is_open) *scope->is_open = false;
  if (!read_sum(&reader, out)) return false;
  if (!peek(&reader)) return true;
  return ord_fault_set(fault, offset_of(&reader, reader.at),
                       "the expression has ended; found '%.*s' behind it; wanted '+', '-', '*', '/' or nothing",
                       shown(strlen(reader.at)), reader.at);
}
