/* SPDX-License-Identifier: MIT
 *
 * Fields and the telling of faults. Every message about a model file but those of the YAML reader passes through
 * ord_tell_at.
 */
#include "models/field.h"

#include <stdio.h>
#include <string.h>

#include "runtime/text.h"

/* Beyond so many keys nobody looks for what a key may have meant. */
enum { CANDIDATE_MAX = 64, COMPARED_KEY_MAX = 100 };

/* Is the key among those told? With `is_noted` it is from now on. Out of memory counts as told: the check fails anyway.
 */
static bool is_told(ord_teller *teller, bool is_noted, const char *format, ...) ORD_PRINTF(3, 4);
static bool is_told(ord_teller *teller, bool is_noted, const char *format, ...) {
  ord_text key = {0};
  va_list arguments;
  va_start(arguments, format);
  ord_text_add_list(&key, format, arguments);
  va_end(arguments);
  bool was_told = key.failed || ord_names_find(teller->told, key.bytes);
  if (!was_told && is_noted) {
    char *copy = ord_arena_text_n(teller->arena, key.bytes, key.length);
    was_told = !copy || !ord_names_put(teller->told, teller->arena, copy, copy);
    if (was_told) (void)ord_tell_memory(teller);
  }
  if (key.failed) (void)ord_tell_memory(teller);
  ord_text_finish(&key);
  return was_told;
}

bool ord_tell_is_new(ord_teller *teller, const ord_yaml_node *node) {
  return !teller->told || !is_told(teller, false, "%u:%u/%s", node->line, node->column, teller->calls);
}

static bool is_new(ord_teller *teller, uint32_t line, uint32_t column, const char *text) {
  return !teller->told || (!is_told(teller, true, "%u:%u/%s", line, column, teller->calls) &&
                           !is_told(teller, true, "%u:%u=%s", line, column, text));
}

static void tell_list(ord_teller *teller, uint32_t line, uint32_t column, const char *format, va_list arguments) {
  ord_text text = {0};
  ord_text_add_list(&text, format, arguments);
  if (text.failed)
    teller->list->out_of_memory = true;
  else if (is_new(teller, line, column, text.bytes)) {
    if (*teller->path)
      ord_diagnose(teller->list, line, column, "%s (in %s)", text.bytes, teller->path);
    else
      ord_diagnose(teller->list, line, column, "%s", text.bytes);
  }
  ord_text_finish(&text);
}

void ord_tell_at(ord_teller *teller, uint32_t line, uint32_t column, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  tell_list(teller, line, column, format, arguments);
  va_end(arguments);
}

void ord_tell(ord_teller *teller, const ord_yaml_node *node, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  tell_list(teller, node->line, node->column, format, arguments);
  va_end(arguments);
}

void ord_tell_fault(ord_teller *teller, const ord_yaml_node *scalar, const ord_fault *fault) {
  if (fault->out_of_memory) teller->list->out_of_memory = true;
  if (fault->out_of_memory || fault->is_silent) return;
  /* A fault of the whole scalar points at its quote, one inside it at the character. */
  const uint32_t column = fault->offset ? ord_yaml_column(scalar, fault->offset) : scalar->column;
  ord_tell_at(teller, scalar->line, column, "%s", fault->text);
}

bool ord_tell_memory(ord_teller *teller) {
  teller->list->out_of_memory = true;
  return false;
}

const char *ord_field_found(const ord_yaml_node *node, char *buffer, size_t bytes) {
  if (node->kind == ORD_YAML_LIST) return "a list";
  if (node->kind == ORD_YAML_MAP) return "a mapping";
  if (node->is_nothing) return "nothing";
  const char *at = node->text, *const end = node->text + node->bytes;
  for (int i = 0; i < 40 && at < end; i++) at += ord_yaml_character(at, end);
  snprintf(buffer, bytes, "'%.*s'%s", (int)(at - node->text), node->text, at < end ? " .." : "");
  return buffer;
}

static bool check_kind(ord_teller *teller, const ord_yaml_node *node, ord_yaml_kind kind, const char *what,
                       const char *wanted) {
  if (node->kind == kind && !node->is_nothing) return true;
  if (node->kind == ORD_YAML_REFUSED) return false;
  char found[200];
  ord_tell(teller, node, "%s: found %s; wanted %s", what, ord_field_found(node, found, sizeof found), wanted);
  return false;
}

bool ord_field_is_map(ord_teller *teller, const ord_yaml_node *node, const char *what, const char *wanted) {
  return check_kind(teller, node, ORD_YAML_MAP, what, wanted);
}

bool ord_field_is_list(ord_teller *teller, const ord_yaml_node *node, const char *what, const char *wanted) {
  return check_kind(teller, node, ORD_YAML_LIST, what, wanted);
}

bool ord_field_is_scalar(ord_teller *teller, const ord_yaml_node *node, const char *what, const char *wanted) {
  return check_kind(teller, node, ORD_YAML_SCALAR, what, wanted);
}

static bool is_known(const char *name, const char *const *candidate, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (strcmp(candidate[i], name) == 0) return true;
  return false;
}

/* Is there an unknown key that means `name`? */
static bool is_misspelt(const ord_yaml_node *map, const char *name, const char *const *candidate, uint32_t count) {
  uint32_t compared = 0;
  for (const ord_yaml_node *at = map->first; at && compared < COMPARED_KEY_MAX; at = at->next, compared++) {
    if (is_known(at->text, candidate, count)) continue;
    const char *nearest = ord_nearest_name(at->text, candidate, count);
    if (nearest && strcmp(nearest, name) == 0) return true;
  }
  return false;
}

static void tell_unknown_key(ord_teller *teller, const ord_yaml_node *key, const char *what,
                             const char *const *candidate, uint32_t count) {
  const bool is_kept = teller->list->error_count < ORD_DIAGNOSTIC_LIMIT;
  const char *nearest = is_kept ? ord_nearest_name(key->text, candidate, count) : NULL;
  char list[400];
  if (nearest)
    ord_tell(teller, key, "%s has no key '%.200s'; did you mean '%s'?", what, key->text, nearest);
  else
    ord_tell(teller, key, "%s has no key '%.200s'; wanted %s", what, key->text,
             ord_join_words(candidate, " or ", list, sizeof list));
}

bool ord_field_check_keys(ord_teller *teller, const ord_yaml_node *map, const char *what, const ord_key *key,
                          uint32_t key_count) {
  const char *candidate[CANDIDATE_MAX + 1] = {NULL};
  for (uint32_t i = 0; i < key_count && i < CANDIDATE_MAX; i++) candidate[i] = key[i].name;
  bool is_good = true;
  for (const ord_yaml_node *at = map->first; at; at = at->next) {
    if (is_known(at->text, candidate, key_count)) continue;
    tell_unknown_key(teller, at, what, candidate, key_count);
    is_good = false;
  }
  for (uint32_t i = 0; i < key_count; i++) {
    if (!key[i].wanted || ord_yaml_find(map, key[i].name)) continue;
    is_good = false;
    if (is_misspelt(map, key[i].name, candidate, key_count)) continue;
    ord_tell(teller, map, "%s lacks '%s'; wanted %s", what, key[i].name, key[i].wanted);
  }
  return is_good;
}

bool ord_field_size(ord_teller *teller, const ord_expression_scope *scope, const ord_yaml_node *node, const char *what,
                    int64_t least, ord_size *out) {
  if (!ord_field_is_scalar(teller, node, what, "a number or an expression")) return false;
  ord_fault fault;
  if (!ord_expression_evaluate(scope, node->text, out, &fault)) {
    ord_tell_fault(teller, node, &fault);
    return false;
  }
  int64_t value;
  if ((scope->is_open && *scope->is_open) || !ord_size_is_constant(*out, &value) || value >= least) return true;
  ord_tell(teller, node, "%s: found %lld; wanted at least %lld", what, (long long)value, (long long)least);
  return false;
}

bool ord_field_whole(ord_teller *teller, const ord_expression_scope *scope, const ord_yaml_node *node, const char *what,
                     int64_t least, int64_t *out) {
  ord_size size;
  return ord_field_size(teller, scope, node, what, least, &size) && ord_size_is_constant(size, out);
}
