/* SPDX-License-Identifier: MIT
 *
 * What is asked of a YAML tree.
 */
#include "models/yaml.h"

#include <string.h>

const ord_yaml_node *ord_yaml_find(const ord_yaml_node *map, const char *key) {
  for (const ord_yaml_node *at = map->first; at; at = at->next)
    if (strcmp(at->text, key) == 0) return at->value;
  return NULL;
}

uint32_t ord_yaml_column(const ord_yaml_node *scalar, size_t offset) {
  if (!scalar->is_verbatim) return scalar->column;
  const char *at = scalar->text, *const end = scalar->text + (offset < scalar->bytes ? offset : scalar->bytes);
  uint32_t column = scalar->text_column;
  for (; at < end; at += ord_yaml_character(at, end)) column++;
  return column;
}
