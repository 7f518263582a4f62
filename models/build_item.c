/* SPDX-License-Identifier: MIT
 *
 * The items of a graph or body: an op, a repeat, or the call of a block.
 */
#include <string.h>

#include "models/builder_item.h"
#include "runtime/text.h"

/* ---- an item that is none --------------------------------------------------------------------------------------- */

/* What an item that failed as a whole would have bound is unknown. */
static void bind_what_it_gives(ord_builder *builder, const ord_yaml_node *map) {
  ord_results results;
  if (map->kind != ORD_YAML_MAP) {
    builder->has_lost_names = true;
    return;
  }
  ord_read_results(builder, map, "an item", 0, UINT32_MAX, &results);
  ord_bind_unknown(builder, &results);
}

static void tell_item(ord_builder *builder, const ord_yaml_node *item) {
  char found[200];
  builder->has_lost_names |= item->kind != ORD_YAML_MAP || !item->count;
  if (item->kind == ORD_YAML_REFUSED) return;
  if (item->kind != ORD_YAML_MAP || !item->count) {
    ord_tell(&builder->teller, item, "an item is one op; found %s; wanted OP: {SLOT: NAME, .., out: NAME}",
             item->kind == ORD_YAML_MAP ? "no key" : ord_field_found(item, found, sizeof found));
    return;
  }
  const char *name[5] = {NULL};
  uint32_t count = 0;
  for (const ord_yaml_node *key = item->first; key && count < 4; key = key->next) name[count++] = key->text;
  char list[300];
  ord_tell(&builder->teller, item, "an item is one op; found %u keys: %s%s; wanted each behind its own '-'",
           item->count, ord_join_words(name, ", ", list, sizeof list), item->count > 4 ? ", .." : "");
  for (const ord_yaml_node *key = item->first; key && !builder->has_stopped; key = key->next)
    bind_what_it_gives(builder, key->value);
}

/* Some words are wrong in a way that an op knows: "gelu". */
static const char *find_hint(const char *word) {
  for (uint32_t i = 0; i < ord_op_count(); i++) {
    const ord_op *op = ord_op_get(i);
    for (uint32_t a = 0; a < op->attr_count; a++)
      for (const char *const *pair = op->attr[a].wrong_hint; pair && *pair; pair += 2)
        if (strcmp(*pair, word) == 0) return pair[1];
  }
  return NULL;
}

static void tell_unknown_op(ord_builder *builder, const ord_yaml_node *key) {
  const ord_description *description = builder->description;
  if (!ord_tell_is_new(&builder->teller, key)) return;
  const char *hint = find_hint(key->text);
  if (hint) {
    ord_tell(&builder->teller, key, "op '%s' %s", key->text, hint);
    return;
  }
  const uint32_t most = ord_op_count() + description->block_count + 2;
  const char **name = ord_builder_take(builder, most, sizeof *name);
  if (!name) return;
  uint32_t count = 0;
  for (uint32_t i = 0; i < ord_op_count(); i++)
    if (!(ord_op_get(i)->flags & ORD_OP_HOST)) name[count++] = ord_op_get(i)->name;
  name[count++] = ORD_REPEAT;
  char list[600];
  ord_join_words(name, " or ", list, sizeof list);
  for (uint32_t i = 0; i < description->block_count; i++) name[count++] = description->block[i].name;
  const bool is_kept = builder->teller.list->error_count < ORD_DIAGNOSTIC_LIMIT;
  const char *nearest = is_kept ? ord_nearest_name(key->text, name, count) : NULL;
  if (nearest)
    ord_tell(&builder->teller, key, "op '%.200s' is unknown; did you mean '%s'?", key->text, nearest);
  else
    ord_tell(&builder->teller, key, "op '%.200s' is unknown; wanted a block or %s", key->text, list);
}

/* ---- one item --------------------------------------------------------------------------------------------------- */

static void build_item(ord_builder *builder, const ord_yaml_node *item) {
  if (item->kind != ORD_YAML_MAP || item->count != 1) {
    tell_item(builder, item);
    return;
  }
  const ord_yaml_node *key = item->first;
  const ord_block *block = ord_names_find(&builder->description->block_of_name, key->text);
  const ord_op *op = ord_op_find(key->text);
  if (strcmp(key->text, ORD_REPEAT) == 0) {
    ord_build_repeat(builder, key);
  } else if (!ord_builder_count_item(builder, key)) {
    return;
  } else if (block) {
    ord_build_call(builder, key, block);
  } else if (op && !(op->flags & ORD_OP_HOST)) {
    ord_build_op(builder, key, op);
  } else {
    if (op)
      ord_tell(&builder->teller, key, "op '%s' is put in by the program; found it in a model; wanted it left out",
               op->name);
    else
      tell_unknown_op(builder, key);
    bind_what_it_gives(builder, key->value);
  }
}

void ord_build_items(ord_builder *builder, const ord_yaml_node *list) {
  for (const ord_yaml_node *item = list->first; item && !builder->has_stopped; item = item->next)
    build_item(builder, item);
}
