/* SPDX-License-Identifier: MIT
 *
 * An op of a graph or body: its slots, attributes and results, then the node. The op's table says what they are;
 * nothing here knows an op by name.
 */
#include <string.h>

#include "models/builder_item.h"

enum { KEY_MAX = 32 };

/* ---- keys ------------------------------------------------------------------------------------------------------ */

static uint32_t list_keys(const ord_op *op, ord_key *key) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < op->slot_count && count < KEY_MAX; i++)
    key[count++] = (ord_key){op->slot[i].name, op->slot[i].flags & ORD_SLOT_OPTIONAL ? NULL
                                               : op->slot[i].flags & ORD_SLOT_LIST   ? "a list of values"
                                                                                     : "the name of a value"};
  for (uint32_t i = 0; i < op->attr_count && count < KEY_MAX; i++)
    key[count++] = (ord_key){op->attr[i].name, op->attr[i].required ? op->attr[i].wanted : NULL};
  if (count < KEY_MAX) key[count++] = (ord_key){"out", "a name for the result"};
  return count;
}

/* ---- results --------------------------------------------------------------------------------------------------- */

static bool check_result(ord_builder *builder, const ord_yaml_node *name, const ord_results *before) {
  if (!ord_field_is_scalar(&builder->teller, name, "out", "a new name")) return false;
  for (uint32_t i = 0; i < before->count; i++) {
    if (!before->name[i] || strcmp(before->name[i]->text, name->text) != 0) continue;
    ord_tell(&builder->teller, name, "out: '%s' stands twice; wanted a name for each result", name->text);
    return false;
  }
  return ord_name_is_free(builder, name);
}

/* The value of a key `out`, also where it is misspelt so that nothing else can be meant. */
static const ord_yaml_node *find_out(const ord_yaml_node *map) {
  static const char *const out = "out";
  const ord_yaml_node *node = ord_yaml_find(map, out);
  for (const ord_yaml_node *key = map->first; key && !node; key = key->next)
    if (ord_nearest_name(key->text, &out, 1)) node = key->value;
  return node;
}

void ord_read_results(ord_builder *builder, const ord_yaml_node *map, const char *what, uint32_t min, uint32_t max,
                      ord_results *out) {
  *out = (ord_results){.is_good = false};
  const ord_yaml_node *node = find_out(map);
  builder->has_lost_names |= !node || node->kind == ORD_YAML_REFUSED || node->count > ORD_RESULT_MAX;
  if (!node || node->kind == ORD_YAML_REFUSED) return;
  const bool is_list = node->kind == ORD_YAML_LIST;
  const uint32_t count = is_list ? node->count : 1;
  if (count > ORD_RESULT_MAX) {
    ord_tell(&builder->teller, node, "%s: found %u names behind out; wanted at most %d", what, count, ORD_RESULT_MAX);
    return;
  }
  out->name = ord_builder_take(builder, count, sizeof(const ord_yaml_node *));
  if (!out->name) return;
  out->is_good = true;
  bool binds = false;
  for (const ord_yaml_node *name = is_list ? node->first : node; name && ord_builder_spend(builder, name);
       name = is_list ? name->next : NULL) {
    const bool is_dropped = name->kind == ORD_YAML_SCALAR && strcmp(name->text, "_") == 0;
    const bool is_usable = !is_dropped && check_result(builder, name, out);
    builder->has_lost_names |= !is_dropped && !is_usable;
    out->is_good &= is_dropped || is_usable;
    out->name[out->count++] = is_usable ? name : NULL;
    binds |= !is_dropped;
  }
  if (count < min || count > max) {
    ord_tell(&builder->teller, node, "%s: found %u names behind out; wanted %u%s", what, count, count < min ? min : max,
             min == max    ? ""
             : count < min ? " or more"
                           : " at most");
    out->is_good = false;
  } else if (!binds) {
    builder->has_lost_names = true;
    ord_tell(&builder->teller, node, "%s: every result is dropped; wanted a name behind out", what);
    out->is_good = false;
  }
}

void ord_bind_unknown(ord_builder *builder, const ord_results *results) {
  for (uint32_t i = 0; i < results->count; i++)
    if (results->name[i]) ord_bind_result(builder, results->name[i], ORD_NONE);
}

/* The paths of the results; the op has that of the first one. */
static void name_results(ord_builder *builder, ord_op_item *item) {
  const uint32_t count = item->results.count;
  item->out_name = ord_builder_take(builder, (size_t)count + 1, sizeof *item->out_name);
  item->out_path = ord_builder_take(builder, (size_t)count + 1, sizeof *item->out_path);
  item->path = item->op->name;
  if (!item->out_name || !item->out_path) return;
  bool is_first = true;
  for (uint32_t i = 0; i < count; i++) {
    if (!item->results.name[i]) continue;
    item->out_name[i] = item->results.name[i]->text;
    item->out_path[i] = ord_path_of(builder, item->out_name[i]);
    if (is_first && item->out_path[i]) item->path = item->out_path[i];
    is_first = false;
  }
}

/* ---- slots ----------------------------------------------------------------------------------------------------- */

static bool begins_number(const char *text) {
  const char first = *text == '-' || *text == '+' ? text[1] : *text;
  return (first >= '0' && first <= '9') || first == '.';
}

static void read_entry(ord_builder *builder, ord_op_item *item, const ord_slot *slot, const ord_yaml_node *node) {
  const uint32_t at = item->in_count++;
  item->in[at] = ORD_NONE;
  if ((slot->flags & ORD_SLOT_NUMBER) && node->kind == ORD_YAML_SCALAR && begins_number(node->text)) {
    ord_fault fault;
    item->has_number[at] = ord_scalar_number(slot->name, node->text, &item->number[at], &fault);
    if (item->has_number[at]) return;
    ord_tell_fault(&builder->teller, node, &fault);
    item->is_usable = false;
    return;
  }
  item->is_usable &= ord_read_value(builder, node, slot->name, &item->in[at]);
}

static void read_list(ord_builder *builder, ord_op_item *item, const ord_slot *slot, const ord_yaml_node *list) {
  if (!ord_field_is_list(&builder->teller, list, slot->name, "a list of values")) {
    item->is_usable = false;
    return;
  }
  if (list->count > ORD_RESULT_MAX) {
    ord_tell(&builder->teller, list, "%s: found %u values; wanted at most %d", slot->name, list->count, ORD_RESULT_MAX);
    item->is_usable = false;
    return;
  }
  if (!list->count || (slot->entries && list->count != slot->entries)) {
    ord_tell(&builder->teller, list, "%s: found %u values; wanted %u%s", slot->name, list->count,
             slot->entries ? slot->entries : 1, slot->entries ? "" : " or more");
    item->is_usable = false;
  }
  for (const ord_yaml_node *entry = list->first; entry && !builder->has_stopped; entry = entry->next)
    read_entry(builder, item, slot, entry);
}

static uint32_t most_operands(const ord_op *op, const ord_yaml_node *map) {
  uint32_t count = op->slot_count;
  for (const ord_yaml_node *key = map->first; key; key = key->next)
    count += key->value->count <= ORD_RESULT_MAX ? key->value->count : 0;
  return count;
}

static void read_slots(ord_builder *builder, ord_op_item *item) {
  const uint32_t most = most_operands(item->op, item->map);
  item->in = ord_builder_take(builder, most, sizeof *item->in);
  item->number = ord_builder_take(builder, most, sizeof *item->number);
  item->has_number = ord_builder_take(builder, most, sizeof *item->has_number);
  if (!item->in || !item->number || !item->has_number) return;
  for (uint32_t i = 0; i < item->op->slot_count && !builder->has_stopped; i++) {
    const ord_slot *slot = &item->op->slot[i];
    const ord_yaml_node *node = ord_yaml_find(item->map, slot->name);
    if (!node)
      item->in[item->in_count++] = ORD_NONE;
    else if (slot->flags & ORD_SLOT_LIST)
      read_list(builder, item, slot, node);
    else
      read_entry(builder, item, slot, node);
  }
}

/* Padding would enter the cache of an attention that does not know the lengths. */
static bool check_lengths(ord_builder *builder, const ord_op_item *item) {
  if (item->cache == ORD_NONE || builder->lengths_value == ORD_NONE) return true;
  const uint32_t slot = ord_op_find_slot(item->op, "lengths");
  if (slot == ORD_NONE || item->in[slot] == builder->lengths_value) return true;
  const ord_value *lengths = &builder->graph->value[builder->lengths_value];
  ord_tell(&builder->teller, ord_yaml_find(item->map, "cache"),
           "%s: a cache without the lengths of its rows; found the input '%s' with fill: lengths (line %u); wanted "
           "lengths: %s, or padding would enter the cache",
           item->op->name, lengths->name, lengths->line, lengths->name);
  return false;
}

/* ---- the node --------------------------------------------------------------------------------------------------- */

typedef struct node_report {
  ord_builder *builder;
  const ord_op_item *item;
  bool was_told;
} node_report;

/* A fault of the shape rule: at the slot or attribute that it names, else at the op's mapping. */
static void tell_shape_fault(ord_infer *infer, const char *slot_or_attr, uint32_t entry, const char *text) {
  node_report *report = infer->report_context;
  ord_teller *teller = &report->builder->teller;
  report->was_told = true;
  if (infer->out_of_memory) {
    (void)ord_builder_fail_memory(report->builder);
    return;
  }
  const ord_yaml_node *node = slot_or_attr ? ord_yaml_find(report->item->map, slot_or_attr) : NULL;
  if (!node) {
    ord_tell(teller, report->item->map, "%s", text);
    return;
  }
  /* Of the list of a slot the entry is meant, of that of an attribute the whole, unless the entry is named. */
  const bool is_entry =
      node->kind == ORD_YAML_LIST && (entry > 0 || ord_op_find_slot(report->item->op, slot_or_attr) != ORD_NONE);
  const ord_yaml_node *place = is_entry ? node->first : node;
  for (; is_entry && entry > 0 && place; entry--) place = place->next;
  const char *scope_path = teller->path;
  teller->path = report->item->path;
  ord_tell(teller, place ? place : node, "%s", text);
  teller->path = scope_path;
}

static void add_node(ord_builder *builder, const ord_op_item *item) {
  node_report report = {.builder = builder, .item = item};
  const ord_node_spec spec = {.op = item->op,
                              .in = item->in,
                              .in_count = item->in_count,
                              .number = item->number,
                              .has_number = item->has_number,
                              .attr = item->attr,
                              .attr_count = item->attr_count,
                              .shape = item->shape,
                              .shape_rank = item->shape_rank,
                              .cache = item->cache,
                              .out_name = item->out_name,
                              .out_path = item->out_path,
                              .out_count = item->results.count,
                              .path = item->path,
                              .line = item->key->line,
                              .column = item->key->column,
                              .report = tell_shape_fault,
                              .report_context = &report};
  ord_error err = ORD_ERROR_INIT;
  uint32_t *value = ord_builder_take(builder, item->results.count, sizeof *value);
  if (!value) return;
  if (!ord_graph_add_node(builder->graph, &spec, value, &err)) {
    if (!report.was_told && err.code == ORD_NO_MEMORY)
      (void)ord_builder_fail_memory(builder);
    else if (!report.was_told)
      ord_tell(&builder->teller, item->key, "%s", err.text);
    ord_bind_unknown(builder, &item->results);
    return;
  }
  for (uint32_t i = 0; i < item->results.count; i++)
    if (item->results.name[i]) ord_bind_result(builder, item->results.name[i], value[i]);
}

void ord_build_op(ord_builder *builder, const ord_yaml_node *key, const ord_op *op) {
  ord_op_item item = {.op = op, .key = key, .map = key->value, .is_usable = true, .cache = ORD_NONE};
  ord_key known[KEY_MAX];
  if (!ord_field_is_map(&builder->teller, key->value, op->name, "a mapping of slots and attributes")) {
    builder->has_lost_names = true;
    return;
  }
  item.is_usable = ord_field_check_keys(&builder->teller, item.map, op->name, known, list_keys(op, known));
  ord_read_results(builder, item.map, op->name, op->result_min, op->result_max, &item.results);
  name_results(builder, &item);
  read_slots(builder, &item);
  ord_read_attributes(builder, &item);
  if (builder->has_stopped) return;
  if (item.is_usable && item.results.is_good && check_lengths(builder, &item))
    add_node(builder, &item);
  else
    ord_bind_unknown(builder, &item.results);
}
