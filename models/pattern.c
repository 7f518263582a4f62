/* SPDX-License-Identifier: MIT
 *
 * Names with holes, and families found by the skeleton of a name. Since a hole of a key never touches a digit or
 * another hole, it stands for exactly one row of digits, and matching needs no search.
 */
#include "models/pattern.h"

#include <string.h>

static bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

static bool is_name_byte(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || is_digit(byte) || byte == '_' || byte == '.' ||
         byte == '-';
}

static bool check_hole(const char *text, const char *at, const char **out_end, ord_fault *fault) {
  const char *end = strchr(at, '>');
  if (!end)
    return ord_fault_set(fault, (size_t)(at - text), "'%.200s': a '<' is not closed; wanted '>' behind the index",
                         text);
  *out_end = end + 1;
  return true;
}

bool ord_pattern_check(const char *what, const char *text, ord_fault *fault) {
  if (!*text) return ord_fault_set(fault, 0, "%s: found an empty text; wanted a name", what);
  if (strlen(text) > ORD_NAME_BYTES_MAX)
    return ord_fault_set(fault, 0, "%s: the name is too long; found %zu bytes; wanted at most %d", what, strlen(text),
                         ORD_NAME_BYTES_MAX);
  if (strpbrk(text, "{}")) {
    const char *open = strchr(text, '{'), *close = open ? strchr(open, '}') : NULL;
    return ord_fault_set(fault, 0, "'%.200s' has braces; an index in a name is written <%.*s>", text,
                         close ? (int)(close - open - 1) : 5, close ? open + 1 : "layer");
  }
  for (const char *at = text; *at;) {
    if (*at == '<') {
      if (!check_hole(text, at, &at, fault)) return false;
    } else if (is_name_byte(*at)) {
      at++;
    } else {
      return ord_fault_set(fault, (size_t)(at - text),
                           "'%.200s' cannot be the name of %s; wanted letters, digits, '_', '.', '-' and <..>", text,
                           what);
    }
  }
  return true;
}

static bool add_hole(ord_arena *arena, ord_family *family, const char *name) {
  for (uint32_t i = 0; i < family->hole_count; i++)
    if (strcmp(family->hole[i], name) == 0) return true;
  char *copy = ord_arena_text(arena, name);
  if (copy) family->hole[family->hole_count++] = copy;
  return copy != NULL;
}

bool ord_pattern_read_holes(const char *text, ord_arena *arena, ord_family *family, ord_fault *fault) {
  for (const char *at = strchr(text, '<'); at; at = strchr(at + 1, '<')) {
    const char *end = at;
    if (!check_hole(text, at, &end, fault)) return false;
    const size_t offset = (size_t)(at - text);
    if ((at > text && (is_digit(at[-1]) || at[-1] == '>')) || is_digit(*end))
      return ord_fault_set(fault, offset, "'%.200s': an index touches a number; wanted other characters around <..>",
                           text);
    char name[ORD_NAME_BYTES_MAX + 1];
    const size_t bytes = (size_t)(end - at) - 2;
    if (bytes >= sizeof name || family->hole_count == ORD_HOLE_MAX)
      return ord_fault_set(fault, offset, "'%.200s' holds too much; wanted at most %d indices", text, ORD_HOLE_MAX);
    memcpy(name, at + 1, bytes);
    name[bytes] = '\0';
    if (!ord_scalar_name("an index in a key", name, fault)) {
      fault->offset += offset + 1;
      return false;
    }
    if (!add_hole(arena, family, name)) {
      fault->out_of_memory = true;
      return false;
    }
  }
  return true;
}

/* Evaluates the text between '<' and '>' and appends the number. */
static bool expand_hole(const ord_expression_scope *scope, const char *text, const char *at, const char *end,
                        ord_text *name, ord_fault *fault) {
  const size_t offset = (size_t)(at - text) + 1;
  ord_size size;
  int64_t value = 0;
  char *expression = ord_arena_text_n(scope->arena, at + 1, (size_t)(end - at) - 2);
  if (!expression) {
    fault->out_of_memory = true;
    return false;
  }
  if (!ord_expression_evaluate(scope, expression, &size, fault)) {
    fault->offset += offset;
    return false;
  }
  if (!ord_size_is_constant(size, &value) || value < 0)
    return ord_fault_set(fault, offset, "'%.200s': the index is %lld; wanted 0 or more", text, (long long)value);
  ord_text_add(name, "%lld", (long long)value);
  return true;
}

static bool expand(const ord_expression_scope *scope, const char *text, ord_text *name, ord_fault *fault) {
  for (const char *at = text; *at;) {
    const char *end = at + strcspn(at, "<");
    ord_text_add_n(name, at, (size_t)(end - at));
    at = end;
    if (!*at) break;
    if (!check_hole(text, at, &end, fault) || !expand_hole(scope, text, at, end, name, fault)) return false;
    at = end;
  }
  if (name->length > ORD_NAME_BYTES_MAX)
    return ord_fault_set(fault, 0, "the name is too long; found %zu bytes; wanted at most %d", name->length,
                         ORD_NAME_BYTES_MAX);
  return true;
}

bool ord_pattern_expand(const ord_expression_scope *scope, const char *text, ord_arena *arena, const char **out,
                        ord_fault *fault) {
  *fault = (ord_fault){.offset = 0};
  ord_text name = {0};
  bool is_good = expand(scope, text, &name, fault);
  if (is_good) {
    *out = name.failed ? NULL : ord_arena_text_n(arena, name.bytes, name.length);
    fault->out_of_memory = !*out;
    is_good = *out != NULL;
  }
  ord_text_finish(&name);
  return is_good;
}

static uint32_t hole_number(const ord_family *family, const char *name, size_t bytes) {
  uint32_t i = 0;
  while (strlen(family->hole[i]) != bytes || memcmp(family->hole[i], name, bytes) != 0) i++;
  return i;
}

/* Reads 0, 12, .. below ORD_SIZE_LIMIT; false for 012. */
static bool read_number(const char **at, int64_t *out) {
  const char *begin = *at;
  int64_t value = 0;
  while (is_digit(**at) && value < ORD_SIZE_LIMIT) value = value * 10 + (*(*at)++ - '0');
  *out = value;
  return *at > begin && value < ORD_SIZE_LIMIT && (*begin != '0' || *at == begin + 1);
}

bool ord_pattern_matches(const ord_family *family, const char *name, int64_t *value) {
  for (uint32_t i = 0; i < family->hole_count; i++) value[i] = -1;
  const char *at = family->name;
  while (*at) {
    if (*at != '<') {
      if (*at++ != *name++) return false;
      continue;
    }
    const char *end = strchr(at, '>');
    int64_t number;
    if (!read_number(&name, &number)) return false;
    int64_t *known = &value[hole_number(family, at + 1, (size_t)(end - at) - 1)];
    if (*known >= 0 && *known != number) return false;
    *known = number;
    at = end + 1;
  }
  return *name == '\0';
}

/* "h.<layer>.w2" and "h.3.w2" -> "h.#.w#". `skeleton` holds ORD_NAME_BYTES_MAX + 1 bytes. */
static void make_skeleton(const char *name, char *skeleton) {
  size_t length = 0;
  while (*name && length < ORD_NAME_BYTES_MAX) {
    const char *hole_end = *name == '<' ? strchr(name, '>') : NULL;
    const size_t digits = strspn(name, "0123456789");
    skeleton[length++] = hole_end || digits ? '#' : *name;
    name = hole_end ? hole_end + 1 : name + (digits ? digits : 1);
  }
  skeleton[length] = '\0';
}

static bool index_family(ord_families *families, ord_arena *arena, ord_family *family) {
  if (!family->hole_count) return ord_names_put(&families->by_name, arena, family->name, family);
  char skeleton[ORD_NAME_BYTES_MAX + 1];
  make_skeleton(family->name, skeleton);
  family->next = ord_names_find(&families->by_skeleton, skeleton);
  family->behind = family->next ? family->next->behind + 1 : 0;
  const char *copy = ord_arena_text(arena, skeleton);
  return copy && ord_names_put(&families->by_skeleton, arena, copy, family);
}

bool ord_families_index(ord_families *families, ord_arena *arena, const ord_family **out_crowded) {
  *out_crowded = NULL;
  for (uint32_t i = 0; i < families->count; i++) {
    if (!index_family(families, arena, &families->item[i])) return false;
    if (families->item[i].behind == ORD_FAMILY_MAX) *out_crowded = &families->item[i];
  }
  return true;
}

const ord_family *ord_families_find(const ord_families *families, const char *name, int64_t *value,
                                    const ord_family **out_second) {
  char skeleton[ORD_NAME_BYTES_MAX + 1];
  make_skeleton(name, skeleton);
  const ord_family *found = ord_names_find(&families->by_name, name);
  *out_second = NULL;
  for (const ord_family *family = ord_names_find(&families->by_skeleton, skeleton); family; family = family->next) {
    int64_t other[ORD_HOLE_MAX];
    if (!ord_pattern_matches(family, name, found ? other : value)) continue;
    if (found) {
      *out_second = family;
      break;
    }
    found = family;
  }
  return found;
}
