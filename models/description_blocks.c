/* SPDX-License-Identifier: MIT
 *
 * blocks: names and signatures. Bodies stay as they are written; build.c reads them where they are called.
 */
#include <string.h>

#include "models/description_fields.h"

static bool check_name(ord_reader *reader, const ord_yaml_node *key) {
  ord_teller *teller = &reader->teller;
  ord_fault fault;
  if (!ord_scalar_name("a block", key->text, &fault)) {
    ord_tell_fault(teller, key, &fault);
    return false;
  }
  const bool is_op = ord_op_find(key->text) || strcmp(key->text, ORD_REPEAT) == 0;
  if (is_op) ord_tell(teller, key, "block '%s' has the name of an op; wanted another name", key->text);
  return !is_op;
}

/* A parameter may not have the name of a dim, weight or block: inside the body it would hide them. */
static bool check_parameter_name(ord_reader *reader, const ord_yaml_node *key) {
  const ord_description *description = reader->description;
  ord_teller *teller = &reader->teller;
  ord_fault fault;
  if (!ord_scalar_name("a parameter", key->text, &fault)) {
    ord_tell_fault(teller, key, &fault);
    return false;
  }
  const ord_dim *dim = ord_names_find(&description->dim_of_name, key->text);
  const ord_block *block = ord_names_find(&description->block_of_name, key->text);
  int64_t value[ORD_HOLE_MAX];
  const ord_family *second, *weight = ord_families_find(&description->weights, key->text, value, &second);
  const ord_yaml_node *other = dim ? dim->key : block ? block->key : weight ? weight->key : NULL;
  if (strcmp(key->text, "out") == 0) {
    ord_tell(teller, key, "a parameter cannot be called 'out', which binds the results; wanted another name");
    return false;
  }
  if (!other) return true;
  ord_tell(teller, key, "parameter '%s' has the name of a %s (line %u); wanted another name", key->text,
           dim     ? "dim"
           : block ? "block"
                   : "weight",
           other->line);
  return false;
}

static bool read_takes(ord_reader *reader, const ord_yaml_node *takes, ord_block *block) {
  static const char *const kind[] = {"value", "int", NULL};
  ord_teller *teller = &reader->teller;
  if (!ord_field_is_map(teller, takes, "takes", "a mapping of parameters to value or int")) return false;
  if (takes->count > ORD_PARAMETER_MAX) {
    ord_tell(teller, takes, "takes: found %u parameters; wanted at most %d", takes->count, ORD_PARAMETER_MAX);
    return false;
  }
  block->parameter = ord_reader_take(reader, takes->count, sizeof *block->parameter);
  if (!block->parameter) return false;
  bool is_good = true;
  for (const ord_yaml_node *key = takes->first; key; key = key->next) {
    ord_parameter *parameter = &block->parameter[block->parameter_count++];
    *parameter = (ord_parameter){.name = key->text, .key = key};
    is_good &= check_parameter_name(reader, key);
    if (!ord_field_is_scalar(teller, key->value, key->text, "value or int")) {
      is_good = false;
      continue;
    }
    ord_fault fault;
    uint32_t number = 0;
    if (!ord_scalar_word(key->text, key->value->text, kind, &number, &fault)) {
      ord_tell_fault(teller, key->value, &fault);
      is_good = false;
    }
    parameter->is_int = number == 1;
  }
  return is_good;
}

static bool check_gives(ord_reader *reader, const ord_yaml_node *gives) {
  ord_teller *teller = &reader->teller;
  if (!ord_field_is_list(teller, gives, "gives", "a list of names that the body binds")) return false;
  if (!gives->count) ord_tell(teller, gives, "gives: found none; wanted at least one name that the body binds");
  bool is_good = gives->count > 0;
  ord_names seen = {0};
  for (const ord_yaml_node *name = gives->first; name; name = name->next) {
    ord_fault fault;
    if (!ord_field_is_scalar(teller, name, "gives", "a name that the body binds")) {
      is_good = false;
    } else if (!ord_scalar_name("a value", name->text, &fault)) {
      ord_tell_fault(teller, name, &fault);
      is_good = false;
    } else if (ord_names_find(&seen, name->text)) {
      ord_tell(teller, name, "gives: '%s' stands twice; wanted once", name->text);
      is_good = false;
    } else if (!ord_names_put(&seen, &reader->description->arena, name->text, (void *)name)) {
      is_good = ord_tell_memory(teller);
    }
  }
  return is_good;
}

static bool check_body(ord_reader *reader, const ord_yaml_node *body) {
  if (!ord_field_is_list(&reader->teller, body, "body", "a list of items")) return false;
  if (!body->count) ord_tell(&reader->teller, body, "body: found no items; wanted at least one");
  return body->count > 0;
}

static void read_block(ord_reader *reader, const ord_yaml_node *key, ord_block *block) {
  static const ord_key known[] = {{"takes", "a mapping of parameters to value or int"},
                                  {"gives", "a list of names that the body binds"},
                                  {"body", "a list of items"}};
  const ord_yaml_node *map = key->value;
  const bool has_name = check_name(reader, key);
  if (!ord_field_is_map(&reader->teller, map, key->text, "{takes: {..}, gives: [..], body: [..]}")) return;
  const bool has_keys = ord_field_check_keys(&reader->teller, map, "a block", known, 3);
  const ord_yaml_node *takes = ord_yaml_find(map, "takes");
  block->gives = ord_yaml_find(map, "gives");
  block->body = ord_yaml_find(map, "body");
  const bool has_takes = takes && read_takes(reader, takes, block);
  const bool has_gives = block->gives && check_gives(reader, block->gives);
  const bool has_body = block->body && check_body(reader, block->body);
  block->is_known = has_name && has_keys && has_takes && has_gives && has_body;
}

void ord_description_read_blocks(ord_reader *reader, const ord_yaml_node *blocks) {
  ord_description *description = reader->description;
  if (!ord_field_is_map(&reader->teller, blocks, "blocks", "a mapping of names to blocks")) return;
  description->block = ord_reader_take(reader, blocks->count, sizeof *description->block);
  if (!description->block) return;
  for (const ord_yaml_node *key = blocks->first; key; key = key->next) {
    ord_block *block = &description->block[description->block_count];
    *block = (ord_block){.name = key->text, .key = key, .number = description->block_count++};
    if (!ord_names_put(&description->block_of_name, &description->arena, block->name, block))
      (void)ord_tell_memory(&reader->teller);
  }
  for (uint32_t i = 0; i < description->block_count; i++)
    read_block(reader, description->block[i].key, &description->block[i]);
}
