/* SPDX-License-Identifier: MIT
 *
 * Syntax errors of YAML in words that help. libyaml says where it stopped; what a person meant is seen in the text
 * around that place: a tab, a '*' or ': ' inside a text, braces in a name. All else is said by the table at the end.
 */
#include <string.h>

#include "models/yaml.h"
#include "runtime/text.h"

enum { SHOWN_MAX = 40 };

/* A place in the text: the line around it and the character it points at. */
typedef struct text_place {
  const char *begin, *end; /* of the line */
  const char *at;          /* end: behind the last character */
  uint32_t line, column;
} text_place;

typedef struct syntax_words {
  const char *problem; /* how libyaml's sentence begins */
  const char *what, *wanted;
  bool tells_begin;                           /* where the thing began helps to find the fault */
  enum { AT_STOP, AT_BEGIN, AT_LINE } points; /* where libyaml stopped, where the thing began, the line's first word */
} syntax_words;

static text_place find_place(const char *text, size_t bytes, uint32_t line, uint32_t column) {
  text_place place = {.line = line, .column = column};
  size_t length = 0;
  place.begin = ord_yaml_line(text, bytes, line, &length);
  if (!place.begin) place.begin = text + bytes;
  place.end = place.begin + length;
  place.at = place.begin;
  for (uint32_t i = 1; i < column && place.at < place.end; i++) place.at += ord_yaml_character(place.at, place.end);
  return place;
}

static uint32_t column_of(const text_place *place, const char *at) {
  uint32_t column = 1;
  for (const char *walk = place->begin; walk < at; walk += ord_yaml_character(walk, at)) column++;
  return column;
}

/* How many bytes of a text a message shows: whole characters. */
static int shown_bytes(const char *text, const char *end) {
  const char *at = text;
  for (int i = 0; i < SHOWN_MAX && at < end; i++) at += ord_yaml_character(at, end);
  return (int)(at - text);
}

static bool is_blank(char byte) { return byte == ' ' || byte == '\t'; }

/* The word around `at` as YAML's flow style would cut it, braces inside it kept: "h.{layer}.wq". */
static void find_word(const text_place *place, const char *at, const char **out_begin, const char **out_end) {
  const char *begin = at, *end = at;
  while (begin > place->begin && !is_blank(begin[-1]) && !strchr(",[\"'", begin[-1])) begin--;
  uint32_t open_braces = 0;
  for (const char *walk = begin; walk < at; walk++) open_braces += *walk == '{' ? 1 : *walk == '}' ? -1u : 0;
  for (; end < place->end && !is_blank(*end) && !strchr(",]\"'", *end); end++) {
    if (*end == '}' && open_braces == 0) break;
    open_braces += *end == '{' ? 1 : *end == '}' ? -1u : 0;
  }
  *out_begin = begin;
  *out_end = end;
}

static bool tell_tab(const text_place *place, ord_diagnostics *list) {
  if (place->at == place->end || *place->at != '\t') return false;
  ord_diagnose(list, place->line, place->column, "tab used for indentation; found a tab; wanted spaces");
  return true;
}

/* "*.bias": an alias to YAML, a text to the person. */
static bool tell_star(const text_place *begin, const char *problem, ord_diagnostics *list) {
  if (!strstr(problem, "alphabetic or numeric character") || begin->at == begin->end || *begin->at != '*') return false;
  const char *word, *end;
  find_word(begin, begin->at, &word, &end);
  const int shown = shown_bytes(word, end);
  ord_diagnose(list, begin->line, begin->column,
               "'*' at the start of a text is an alias to YAML; found %.*s; wanted quotes: \"%.*s\"", shown, word,
               shown, word);
  return true;
}

/* "h.{layer}.wq": the brace ends the word for YAML. */
static bool tell_braces(const text_place *place, ord_diagnostics *list) {
  if (place->at == place->begin || place->at == place->end) return false;
  const bool opens_in_word = *place->at == '{' && !is_blank(place->at[-1]) && !strchr(",[{:", place->at[-1]);
  const bool goes_on = place->at[-1] == '}' && !is_blank(*place->at) && !strchr(",]}", *place->at);
  if (!opens_in_word && !goes_on) return false;
  const char *word, *end;
  find_word(place, place->at, &word, &end);
  const char *open = memchr(word, '{', (size_t)(end - word));
  const char *close = open ? memchr(open, '}', (size_t)(end - open)) : NULL;
  if (!close) return false;
  ord_diagnose(list, place->line, column_of(place, word), "'%.*s' has braces; an index in a name is written <%.*s>",
               shown_bytes(word, end), word, shown_bytes(open + 1, close), open + 1);
  return true;
}

static const char *skip_blanks(const char *at, const char *end) {
  while (at < end && is_blank(*at)) at++;
  return at;
}

/* A second ": " behind the key's own one. */
static bool tell_colon(const text_place *place, ord_diagnostics *list) {
  if (place->at == place->end || *place->at != ':') return false;
  const char *value = NULL;
  for (const char *walk = place->begin; walk + 1 < place->at; walk++)
    if (*walk == ':' && is_blank(walk[1])) value = walk + 1;
  if (!value) return false;
  value = skip_blanks(value, place->at);
  ord_diagnose(list, place->line, place->column,
               "': ' inside a text ends it for YAML; found %.*s; wanted the text in quotes",
               shown_bytes(value, place->end), value);
  return true;
}

static const syntax_words words[];

static void tell_by_table(const text_place *stop, const text_place *begin, const char *problem, ord_diagnostics *list) {
  const syntax_words *row = words;
  while (row->problem && strncmp(row->problem, problem, strlen(row->problem)) != 0) row++;
  const char *first = skip_blanks(stop->begin, stop->end);
  const bool has_second = row->problem && row[1].problem && strcmp(row[1].problem, row->problem) == 0;
  if (has_second && stop->at != first) row++;
  const text_place word = {stop->begin, stop->end, first, stop->line, column_of(stop, first)};
  const text_place *place = row->points == AT_BEGIN ? begin : row->points == AT_LINE ? &word : stop;
  ord_text found = {0}, where = {0};
  if (place->at < place->end)
    ord_text_add(&found, "%.*s", shown_bytes(place->at, place->end), place->at);
  else
    ord_text_add(&found, "the end of the line");
  if (!row->problem) ord_text_add(&where, " (the reader of YAML says: %s)", problem);
  if (row->tells_begin && begin->line != place->line) ord_text_add(&where, " (it begins at line %u)", begin->line);
  if (found.failed || where.failed)
    list->out_of_memory = true;
  else
    ord_diagnose(list, place->line, place->column, "%s; found %s; wanted %s%s", row->what, found.bytes, row->wanted,
                 where.bytes ? where.bytes : "");
  ord_text_finish(&found);
  ord_text_finish(&where);
}

void ord_yaml_tell_syntax(const char *text, size_t bytes, const ord_yaml_stop *stop, ord_diagnostics *list) {
  const text_place place = find_place(text, bytes, stop->line, stop->column);
  const text_place begin = find_place(text, bytes, stop->begin_line ? stop->begin_line : stop->line,
                                      stop->begin_line ? stop->begin_column : stop->column);
  if (tell_tab(&place, list) || tell_star(&begin, stop->problem, list) || tell_braces(&place, list) ||
      tell_colon(&place, list))
    return;
  tell_by_table(&place, &begin, stop->problem, list);
}

/* Of two rows with the same problem the second is for a place that is not the first word of its line. */
static const syntax_words words[] = {
    {"found character that cannot start any token", "a text cannot begin like this", "it in quotes", false, AT_STOP},
    {"could not find expected ':'", "a line is neither 'key: value' nor an item", "':' behind a key", false, AT_BEGIN},
    {"mapping values are not allowed", "a key stands deeper than the line above allows",
     "it in the column of its neighbours", false, AT_LINE},
    {"did not find expected key", "the indentation fits no line above", "a key in the column of its neighbours", true,
     AT_STOP},
    {"did not find expected key", "the value has ended", "the end of the line", false, AT_STOP},
    {"did not find expected '-' indicator", "the indentation fits no line above", "'-' in the column of its neighbours",
     true, AT_STOP},
    {"did not find expected '-' indicator", "the value has ended", "the end of the line", false, AT_STOP},
    {"did not find expected ',' or ']'", "a list is not closed", "',' or ']'", true, AT_STOP},
    {"did not find expected ',' or '}'", "a mapping is not closed", "',' or '}'", true, AT_STOP},
    {"did not find expected node content", "a value is missing", "a value", false, AT_STOP},
    {"did not find expected <document start>", "the document has ended", "the end of the file", false, AT_STOP},
    {"found unexpected end of stream", "a quote is not closed", "a closing quote", false, AT_BEGIN},
    {"found unexpected document indicator", "a quote is not closed", "a closing quote", false, AT_BEGIN},
    {"found unknown escape character", "an escape that YAML does not know", "one such as \\n, \\\" or \\\\", false,
     AT_STOP},
    {"block sequence entries are not allowed", "an item cannot stand here", "the list on a line of its own", false,
     AT_STOP},
    {"mapping keys are not allowed", "a '?' cannot stand here", "a word and ':'", false, AT_STOP},
    {NULL, "not valid YAML", "the YAML of the format", false, AT_STOP},
};
