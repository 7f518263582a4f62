/* SPDX-License-Identifier: MIT
 *
 * What writes a body out: a repeat, pass by pass in a scope inside the one around it, and the call of a block, in a
 * scope of its own.
 */
#include <stdio.h>
#include <string.h>

#include "models/builder_item.h"

/* ---- repeat ----------------------------------------------------------------------------------------------------- */

/* index NULL: its fault was told. */
static void build_pass(ord_builder *builder, ord_scope *pass, const ord_yaml_node *key, const ord_yaml_node *body,
                       const char *index, int64_t number) {
  const size_t path_length = builder->path.length;
  char part[24];
  snprintf(part, sizeof part, "%lld", (long long)number);
  ord_path_add(builder, part);
  builder->scope = pass;
  ord_binding *binding = index ? ord_binding_add(builder, index, ORD_BOUND_INDEX, NULL) : NULL;
  if (binding && ord_size_constant(&builder->graph->arena, number, &binding->number) != ORD_SIZE_OK)
    (void)ord_builder_fail_memory(builder);
  ord_build_items(builder, body);
  if (!builder->has_stopped) ord_pass_end(builder, pass, body, key);
  builder->scope = pass->outer;
  ord_path_leave(builder, path_length);
}

static bool check_body(ord_builder *builder, const ord_yaml_node *body) {
  if (!ord_field_is_list(&builder->teller, body, "body", "a list of items")) return false;
  if (!body->count) ord_tell(&builder->teller, body, "body: found no items; wanted at least one");
  return body->count > 0;
}

void ord_build_repeat(ord_builder *builder, const ord_yaml_node *key) {
  static const ord_key known[] = {
      {"count", "how often the body stands"}, {"index", "a new name for 0, 1, .."}, {"body", "a list of items"}};
  ord_teller *teller = &builder->teller;
  const ord_yaml_node *map = key->value;
  if (!ord_field_is_map(teller, map, ORD_REPEAT, "{count: .., index: .., body: [..]}")) {
    builder->has_lost_names = true;
    return;
  }
  (void)ord_field_check_keys(teller, map, ORD_REPEAT, known, 3);
  const ord_yaml_node *body = ord_yaml_find(map, "body"), *index = ord_yaml_find(map, "index"),
                      *count_node = ord_yaml_find(map, "count");
  /* Where count or index fail, one pass still shows the faults of the body. */
  int64_t count = 1;
  if (count_node && !ord_field_whole(teller, &builder->fixed, count_node, "count", 1, &count)) count = 1;
  const bool has_index = index && ord_field_is_scalar(teller, index, "index", "a new name for 0, 1, ..") &&
                         ord_name_is_new(builder, index);
  builder->has_lost_numbers |= !has_index;
  if (!body || !check_body(builder, body) || builder->has_stopped) {
    builder->has_lost_names = true;
    return;
  }
  const size_t path_length = ord_path_enter(builder, key, has_index ? index->text : ORD_REPEAT);
  ord_scope pass = {.outer = builder->scope};
  for (int64_t i = 0; i < count && !builder->has_stopped; i++)
    if (ord_builder_count_item(builder, key)) build_pass(builder, &pass, key, body, has_index ? index->text : NULL, i);
  ord_path_leave(builder, path_length);
}

/* ---- the call of a block ---------------------------------------------------------------------------------------- */

/* Evaluates the arguments in the scope of the call, binds them in the body's. */
static void bind_parameter(ord_builder *builder, ord_scope *body, const ord_parameter *parameter,
                           const ord_yaml_node *argument) {
  ord_scope *caller = builder->scope;
  ord_size number = {NULL, 0};
  uint32_t value = ORD_NONE;
  bool is_known = false;
  if (argument && parameter->is_int)
    is_known = ord_builder_spend(builder, argument) &&
               ord_field_size(&builder->teller, &builder->fixed, argument, parameter->name, -ORD_SIZE_LIMIT, &number);
  else if (argument)
    is_known = ord_read_value(builder, argument, parameter->name, &value);
  builder->scope = body;
  const ord_bound_kind kind = parameter->is_int ? ORD_BOUND_INT : is_known ? ORD_BOUND_VALUE : ORD_BOUND_UNKNOWN;
  ord_binding *binding =
      ord_binding_add(builder, parameter->name, kind, ord_use_of(builder, parameter->key, "unread-value"));
  if (binding) {
    binding->value = value;
    binding->number = number;
    binding->is_unknown_int = !is_known;
  }
  builder->scope = caller;
}

static bool check_keys(ord_builder *builder, const ord_yaml_node *map, const ord_block *block) {
  ord_key known[ORD_PARAMETER_MAX + 1];
  for (uint32_t i = 0; i < block->parameter_count; i++)
    known[i] =
        (ord_key){block->parameter[i].name, block->parameter[i].is_int ? "a whole number" : "the name of a value"};
  known[block->parameter_count] = (ord_key){"out", "a name for what the block gives"};
  return ord_field_check_keys(&builder->teller, map, block->name, known, block->parameter_count + 1);
}

/* The value that the body left under `name`. */
static uint32_t take_given(ord_builder *builder, const ord_block *block, const ord_yaml_node *name) {
  const ord_binding *binding = ord_names_find(&builder->scope->bound, name->text);
  if (binding && binding->kind != ORD_BOUND_INT) {
    if (binding->use) binding->use->is_read = true;
    return binding->value;
  }
  if (builder->has_lost_names) return ORD_NONE;
  uint32_t count;
  const char **candidate = ord_builder_candidates(builder, &count);
  const char *nearest = candidate ? ord_nearest_name(name->text, candidate, count) : NULL;
  ord_tell(&builder->teller, name, "gives: '%s' is not a value at the end of the body of '%s'%s%s%s", name->text,
           block->name, nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
  return ORD_NONE;
}

/* Builds the body in `scope`, which holds the parameters; value[i] receives what it gives. */
static void build_body(ord_builder *builder, ord_scope *scope, const ord_yaml_node *key, const ord_block *block,
                       uint32_t *value) {
  const size_t path_length = ord_path_enter(builder, key, block->name), calls_length = builder->calls.length;
  const uint32_t block_limit = builder->block_limit;
  ord_text_add(&builder->calls, "%u:%u/", key->line, key->column);
  builder->teller.calls = builder->calls.failed ? "" : builder->calls.bytes;
  builder->scope = scope;
  builder->block_limit = block->number;
  builder->call_depth++;
  ord_build_items(builder, block->body);
  uint32_t i = 0;
  for (const ord_yaml_node *name = block->gives->first; name && !builder->has_stopped; name = name->next)
    value[i++] = take_given(builder, block, name);
  builder->call_depth--;
  builder->block_limit = block_limit;
  builder->scope = scope->caller;
  builder->calls.length = calls_length;
  if (builder->calls.failed)
    (void)ord_builder_fail_memory(builder);
  else
    builder->calls.bytes[calls_length] = '\0';
  ord_path_leave(builder, path_length);
}

/* May the block be called here? */
static bool check_callable(ord_builder *builder, const ord_yaml_node *key, const ord_block *block) {
  if (block->number >= builder->block_limit) {
    ord_tell(&builder->teller, key, "block '%s' is not above this one; it begins at line %u; wanted a block from above",
             block->name, block->key->line);
    return false;
  }
  if (builder->call_depth == ORD_CALL_DEPTH_LIMIT) {
    builder->teller.path = "";
    builder->has_stopped = true;
    ord_tell(&builder->teller, key, "nested too deep; found %d blocks inside each other; wanted at most %d",
             ORD_CALL_DEPTH_LIMIT + 1, ORD_CALL_DEPTH_LIMIT);
    return false;
  }
  return true;
}

void ord_build_call(ord_builder *builder, const ord_yaml_node *key, const ord_block *block) {
  const ord_yaml_node *map = key->value;
  builder->block_is_used[block->number] = true;
  if (!ord_field_is_map(&builder->teller, map, block->name, "a mapping of parameters")) {
    builder->has_lost_names = true;
    return;
  }
  ord_results results;
  if (!block->is_known || !check_callable(builder, key, block)) {
    ord_read_results(builder, map, block->name, 0, UINT32_MAX, &results);
    ord_bind_unknown(builder, &results);
    return;
  }
  (void)check_keys(builder, map, block);
  ord_read_results(builder, map, block->name, block->gives->count, block->gives->count, &results);
  ord_scope scope = {.caller = builder->scope};
  for (uint32_t i = 0; i < block->parameter_count && !builder->has_stopped; i++)
    bind_parameter(builder, &scope, &block->parameter[i], ord_yaml_find(map, block->parameter[i].name));
  uint32_t *value = ord_builder_take(builder, block->gives->count, sizeof *value);
  if (!value || builder->has_stopped) return;
  build_body(builder, &scope, key, block, value);
  for (uint32_t i = 0; i < results.count && !builder->has_stopped; i++)
    if (results.name[i]) ord_bind_result(builder, results.name[i], results.is_good ? value[i] : ORD_NONE);
}
