/* SPDX-License-Identifier: MIT
 *
 * checkpoint: tensors that are not wanted, and the order of files without names, written out. Which weights there are
 * follows from the graph, so build.c compares the order with them.
 */
#include <string.h>

#include "models/description_fields.h"

/* An index of a repeat that is being written out. */
typedef struct index_value {
  const char *name;
  int64_t value;
  const struct index_value *outer;
} index_value;

typedef struct order_writer {
  ord_reader *reader;
  ord_arena scratch;
  const index_value *index;
  uint32_t name_capacity, place_capacity, pass_count;
  bool has_stopped; /* at the limit or out of memory */
} order_writer;

static void write_items(order_writer *writer, const ord_yaml_node *list);

static bool find_index(void *context, const char *name, ord_size *out, ord_fault *fault) {
  order_writer *writer = context;
  for (const index_value *index = writer->index; index; index = index->outer) {
    if (strcmp(index->name, name) != 0) continue;
    if (ord_size_constant(&writer->scratch, index->value, out) == ORD_SIZE_OK) return true;
    fault->out_of_memory = true;
    return false;
  }
  return writer->reader->fixed.find(writer->reader->fixed.context, name, out, fault);
}

static ord_expression_scope make_scope(order_writer *writer) {
  return (ord_expression_scope){.find = find_index, .context = writer, .arena = &writer->scratch};
}

static bool spend(order_writer *writer, const ord_yaml_node *place) {
  const ord_description *description = writer->reader->description;
  if (description->order_count + writer->pass_count < description->item_limit) return true;
  if (!writer->has_stopped)
    ord_tell(&writer->reader->teller, place,
             "the order grows too large; found more than %u names after expansion; wanted fewer",
             description->item_limit);
  writer->has_stopped = true;
  return false;
}

static void write_name(order_writer *writer, const ord_yaml_node *node) {
  ord_description *description = writer->reader->description;
  const ord_expression_scope scope = make_scope(writer);
  ord_fault fault;
  const char *name;
  if (!spend(writer, node)) return;
  if (!ord_field_is_scalar(&writer->reader->teller, node, "order", "the name of a weight")) return;
  if (!ord_pattern_check("a weight", node->text, &fault) ||
      !ord_pattern_expand(&scope, node->text, &description->arena, &name, &fault)) {
    ord_tell_fault(&writer->reader->teller, node, &fault);
    return;
  }
  if (!ord_arena_grow(&description->arena, &description->order, &writer->name_capacity, description->order_count + 1,
                      sizeof *description->order) ||
      !ord_arena_grow(&description->arena, &description->order_place, &writer->place_capacity,
                      description->order_count + 1, sizeof(const ord_yaml_node *))) {
    writer->has_stopped = !ord_tell_memory(&writer->reader->teller);
    return;
  }
  description->order[description->order_count] = name;
  description->order_place[description->order_count++] = node;
}

static bool index_is_new(order_writer *writer, const ord_yaml_node *node) {
  ord_teller *teller = &writer->reader->teller;
  ord_fault fault;
  if (!ord_field_is_scalar(teller, node, "index", "a new name")) return false;
  if (!ord_scalar_name("an index", node->text, &fault)) {
    ord_tell_fault(teller, node, &fault);
    return false;
  }
  bool is_taken = ord_names_find(&writer->reader->description->dim_of_name, node->text) != NULL;
  for (const index_value *index = writer->index; index; index = index->outer)
    is_taken |= strcmp(index->name, node->text) == 0;
  if (is_taken) ord_tell(teller, node, "index '%s' has a name that is taken; wanted a new name", node->text);
  return !is_taken;
}

static void write_repeat(order_writer *writer, const ord_yaml_node *map) {
  ord_teller *teller = &writer->reader->teller;
  static const ord_key known[] = {
      {"count", "how often the body stands"}, {"index", "a new name"}, {"body", "a list of names"}};
  if (!ord_field_is_map(teller, map, ORD_REPEAT, "{count: .., index: .., body: [..]}")) return;
  if (!ord_field_check_keys(teller, map, ORD_REPEAT, known, 3)) return;
  const ord_yaml_node *body = ord_yaml_find(map, "body"), *name = ord_yaml_find(map, "index");
  const ord_expression_scope scope = make_scope(writer);
  int64_t count;
  const bool has_count = ord_field_whole(teller, &scope, ord_yaml_find(map, "count"), "count", 1, &count);
  const bool has_index = index_is_new(writer, name);
  if (!ord_field_is_list(teller, body, "body", "a list of names") || !has_count || !has_index) return;
  index_value index = {.name = name->text, .outer = writer->index};
  const uint32_t errors = teller->list->error_count;
  /* A fault is told for the first pass that has it; then the rest of the passes has nothing to add. */
  for (; index.value < count && !writer->has_stopped && teller->list->error_count == errors; index.value++) {
    if (!spend(writer, body)) break;
    writer->pass_count++;
    writer->index = &index;
    write_items(writer, body);
    writer->index = index.outer;
  }
}

static void write_items(order_writer *writer, const ord_yaml_node *list) {
  if (!list->count) ord_tell(&writer->reader->teller, list, "order: found an empty list; wanted the names of weights");
  for (const ord_yaml_node *item = list->first; item && !writer->has_stopped; item = item->next) {
    if (item->kind != ORD_YAML_MAP)
      write_name(writer, item);
    else if (item->count == 1 && strcmp(item->first->text, ORD_REPEAT) == 0)
      write_repeat(writer, item->first->value);
    else
      ord_tell(&writer->reader->teller, item, "order: found a mapping; wanted a name or repeat: {count, index, body}");
  }
}

static void read_order(ord_reader *reader, const ord_yaml_node *order) {
  if (!ord_field_is_list(&reader->teller, order, "order", "a list of weight names")) return;
  order_writer writer = {.reader = reader};
  write_items(&writer, order);
  ord_arena_finish(&writer.scratch);
}

static void read_ignore(ord_reader *reader, const ord_yaml_node *ignore) {
  ord_description *description = reader->description;
  if (!ord_field_is_list(&reader->teller, ignore, "ignore", "a list of tensor names, * for any text")) return;
  description->ignore = ord_reader_take(reader, ignore->count, sizeof *description->ignore);
  if (!description->ignore) return;
  for (const ord_yaml_node *name = ignore->first; name; name = name->next) {
    if (!ord_field_is_scalar(&reader->teller, name, "ignore", "the name of a tensor, * for any text")) continue;
    if (!name->bytes) ord_tell(&reader->teller, name, "ignore: found an empty text; wanted the name of a tensor");
    description->ignore[description->ignore_count++] = name->text;
  }
}

void ord_description_read_checkpoint(ord_reader *reader, const ord_yaml_node *checkpoint) {
  static const ord_key known[] = {{"ignore", NULL}, {"order", NULL}};
  if (!ord_field_is_map(&reader->teller, checkpoint, "checkpoint", "a mapping with ignore or order")) return;
  (void)ord_field_check_keys(&reader->teller, checkpoint, "checkpoint", known, 2);
  const ord_yaml_node *ignore = ord_yaml_find(checkpoint, "ignore"), *order = ord_yaml_find(checkpoint, "order");
  if (ignore) read_ignore(reader, ignore);
  if (order) read_order(reader, order);
}

/* `*` is any text. Greedy with one place to return to, so that the time is bounded by the product of the lengths. */
static bool matches(const char *pattern, const char *text) {
  const char *star = NULL, *resume = NULL;
  while (*text) {
    if (*pattern == '*') {
      star = pattern++;
      resume = text;
    } else if (*pattern == *text) {
      pattern++;
      text++;
    } else if (star) {
      pattern = star + 1;
      text = ++resume;
    } else {
      return false;
    }
  }
  while (*pattern == '*') pattern++;
  return !*pattern;
}

bool ord_description_ignores(const ord_description *description, const char *tensor) {
  for (uint32_t i = 0; i < description->ignore_count; i++)
    if (matches(description->ignore[i], tensor)) return true;
  return false;
}

uint32_t ord_description_order(const ord_description *description, const char *const **out_name) {
  *out_name = description->order;
  return description->order_count;
}
