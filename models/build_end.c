/* SPDX-License-Identifier: MIT
 *
 * Once all items are built: outputs, the values that text handling asks for, the order of a checkpoint, and warnings
 * about what nobody uses or no fast kernel serves.
 */
#include <string.h>

#include "models/builder.h"
#include "runtime/text.h"

/* ---- outputs ---------------------------------------------------------------------------------------------------- */

static void tell_no_output(ord_builder *builder, const ord_yaml_node *name) {
  const ord_yaml_node *repeat = ord_names_find(&builder->scope->ended, name->text);
  if (repeat) {
    ord_tell(&builder->teller, name,
             "output '%s' ended with the repeat of line %u; wanted a value at the end of the graph", name->text,
             repeat->line);
    return;
  }
  if (builder->has_lost_names) return;
  uint32_t count;
  const char **candidate = ord_builder_candidates(builder, &count);
  const char *nearest = candidate ? ord_nearest_name(name->text, candidate, count) : NULL;
  ord_tell(&builder->teller, name, "output '%.200s' is not a value at the end of the graph%s%s%s", name->text,
           nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

static void add_output(ord_builder *builder, const ord_yaml_node *name) {
  ord_graph *graph = builder->graph;
  if (!ord_field_is_scalar(&builder->teller, name, "outputs", "the name of a value")) return;
  ord_binding *binding = ord_names_find(&builder->scope->bound, name->text);
  if (!binding) {
    tell_no_output(builder, name);
    return;
  }
  if (binding->use) binding->use->is_read = true;
  if (binding->kind == ORD_BOUND_UNKNOWN) return;
  const ord_value *value = &graph->value[binding->value];
  if (value->kind != ORD_VALUE_RESULT)
    ord_tell(&builder->teller, name, "output '%s' is %s '%s' (line %u); wanted a value that an op makes", name->text,
             value->kind == ORD_VALUE_INPUT ? "the input" : "the weight", value->name, value->line);
  else if (ord_graph_find_output(graph, name->text) != ORD_NONE)
    ord_tell(&builder->teller, name, "output '%s' is listed twice; wanted once", name->text);
  else if (!ord_graph_add_output(graph, name->text, binding->value, NULL))
    (void)ord_builder_fail_memory(builder);
}

void ord_build_outputs(ord_builder *builder) {
  const ord_yaml_node *outputs = builder->description->outputs;
  if (!outputs) return;
  for (const ord_yaml_node *name = outputs->first; name && ord_builder_spend(builder, name); name = name->next)
    add_output(builder, name);
}

/* ---- text ---------------------------------------------------------------------------------------------------------
 */

static bool is_listed(const ord_builder *builder, const char *name) {
  const ord_yaml_node *outputs = builder->description->outputs;
  for (const ord_yaml_node *at = outputs ? outputs->first : NULL; at; at = at->next)
    if (at->kind == ORD_YAML_SCALAR && strcmp(at->text, name) == 0) return true;
  return false;
}

/* An output of two axes, of which the second is fixed. */
static void check_matrix_output(ord_builder *builder, const ord_yaml_node *name, const char *what, const char *wanted) {
  const ord_graph *graph = builder->graph;
  const uint32_t output = ord_graph_find_output(graph, name->text);
  if (output == ORD_NONE) {
    if (is_listed(builder, name->text)) return; /* it failed there */
    ord_tell(&builder->teller, name, "%s: '%.200s' is not an output; wanted one of outputs, %s", what, name->text,
             wanted);
    return;
  }
  const ord_value *value = &graph->value[graph->output[output].value];
  int64_t width;
  if (value->rank == 2 && ord_size_is_constant(value->dim[1], &width)) return;
  ord_text shape = {0};
  ord_graph_print_shape(&shape, graph, graph->output[output].value);
  if (shape.failed)
    (void)ord_builder_fail_memory(builder);
  else
    ord_tell(&builder->teller, name, "%s: output '%s' is %s; wanted %s", what, name->text, shape.bytes, wanted);
  ord_text_finish(&shape);
}

/* A stop that is written as an id must be one of the logits; what a text stands for only the tokenizer knows. */
static void check_stops(ord_builder *builder) {
  const ord_graph *graph = builder->graph;
  const ord_generate_rules *rules = &builder->description->generate;
  const uint32_t output = ord_graph_find_output(graph, builder->description->generate_logits->text);
  int64_t vocab;
  if (output == ORD_NONE) return;
  const ord_value *logits = &graph->value[graph->output[output].value];
  if (logits->rank != 2 || !ord_size_is_constant(logits->dim[1], &vocab)) return;
  for (uint32_t i = 0; i < rules->stop_count; i++)
    if (!rules->stop[i].text && rules->stop[i].id >= vocab)
      ord_diagnose(builder->teller.list, rules->stop[i].line, rules->stop[i].column,
                   "stop: found id %lld; wanted one of the logits, 0 to %lld", (long long)rules->stop[i].id,
                   (long long)vocab - 1);
}

void ord_check_text(ord_builder *builder) {
  const ord_description *description = builder->description;
  if (description->generate_logits) {
    check_matrix_output(builder, description->generate_logits, "logits", "[batch, vocab]");
    check_stops(builder);
  }
  if (description->embed_vector) check_matrix_output(builder, description->embed_vector, "vector", "[batch, width]");
}

/* ---- the order of a checkpoint -------------------------------------------------------------------------------------
 */

static void tell_missing(ord_builder *builder, const ord_names *listed) {
  enum { SHOWN_MAX = 5 };
  const ord_graph *graph = builder->graph;
  const char *missing[SHOWN_MAX + 1] = {NULL};
  uint32_t count = 0;
  for (uint32_t i = 0; i < graph->weight_count; i++) {
    if (ord_names_find(listed, graph->weight[i].name)) continue;
    if (count < SHOWN_MAX) missing[count] = graph->weight[i].name;
    count++;
  }
  char list[1200];
  if (count)
    ord_tell(&builder->teller, builder->description->order_place[0],
             "the order lacks %u weight%s of the graph: %s%s; wanted each once", count, ord_plural(count),
             ord_join_words(missing, ", ", list, sizeof list), count > SHOWN_MAX ? ", .." : "");
}

void ord_check_order(ord_builder *builder) {
  const ord_description *description = builder->description;
  /* Where an item failed, the graph does not show which weights there are. */
  if (!description->order_count || builder->teller.list->error_count) return;
  ord_names listed = {0};
  for (uint32_t i = 0; i < description->order_count; i++) {
    const char *name = description->order[i];
    const ord_yaml_node *place = description->order_place[i], *first = ord_names_find(&listed, name);
    if (first) {
      ord_tell(&builder->teller, place, "'%s' stands in the order twice; first at line %u; wanted once", name,
               first->line);
      continue;
    }
    if (!ord_names_find(&builder->weight_of_name, name))
      ord_tell(&builder->teller, place, "'%s' is no weight that the graph reads; wanted the weights of the graph",
               name);
    if (!ord_names_put(&listed, &builder->scratch, name, (void *)place)) {
      (void)ord_builder_fail_memory(builder);
      return;
    }
  }
  tell_missing(builder, &listed);
}

/* ---- warnings ------------------------------------------------------------------------------------------------------
 */

static void warn(ord_builder *builder, const char *name, const ord_yaml_node *place, const char *what) {
  ord_diagnose_warning(builder->teller.list, name, place->line, place->column, "%s '%.200s' is never read", what,
                       place->text);
}

static void warn_places(ord_builder *builder) {
  for (uint32_t i = 0; i < builder->use_of_place.count; i++) {
    const ord_place_use *use = builder->use_of_place.entry[i].item;
    if (use->is_read || !use->warning) continue;
    warn(builder, use->warning, use->place, strcmp(use->warning, "unused-input") == 0 ? "input" : "value");
  }
}

static void warn_families(ord_builder *builder, const ord_families *families, const bool *is_used, const char *name,
                          const char *what) {
  for (uint32_t i = 0; i < families->count; i++)
    if (!is_used[i]) warn(builder, name, families->item[i].key, what);
}

/* The heads of an attention that vector registers cannot be filled with. Told once per place, not per pass. */
static void warn_slow(ord_builder *builder) {
  enum { VECTOR = 8 };
  const ord_graph *graph = builder->graph;
  for (uint32_t n = 0; n < graph->node_count; n++) {
    const ord_graph_node *node = &graph->node[n];
    if (!(node->op->flags & ORD_OP_ATTENDS)) continue;
    for (uint32_t slot = 0; slot < node->op->slot_count && slot < 3; slot++) {
      int64_t width;
      const ord_value *value = node->in[slot] == ORD_NONE ? NULL : &graph->value[node->in[slot]];
      if (!value || value->rank != 4 || !ord_size_is_constant(value->dim[3], &width) || width % VECTOR == 0) continue;
      char *key = ord_arena_format(&builder->scratch, "slow %u:%u", node->line, node->column);
      if (!key || ord_names_find(&builder->told, key) || !ord_names_put(&builder->told, &builder->scratch, key, key))
        break;
      ord_diagnose_warning(
          builder->teller.list, "slow-shape", node->line, node->column,
          "%s: heads of width %lld are legal but slow; wanted a multiple of %d, the vector kernels fall "
          "away (in %s)",
          node->op->name, (long long)width, VECTOR, node->path[0]);
      break;
    }
  }
}

void ord_warn_unused(ord_builder *builder) {
  const ord_description *description = builder->description;
  for (uint32_t i = 0; i < description->dim_count; i++)
    if (!description->dim[i].is_used && !builder->dim_is_used[i])
      warn(builder, "unused-dim", description->dim[i].key, "dim");
  for (uint32_t i = 0; i < description->block_count; i++)
    if (!builder->block_is_used[i])
      ord_diagnose_warning(builder->teller.list, "unused-block", description->block[i].key->line,
                           description->block[i].key->column, "block '%s' is never called", description->block[i].name);
  warn_families(builder, &description->weights, builder->weight_is_used, "unused-weight", "weight");
  warn_families(builder, &description->caches, builder->cache_is_used, "unused-cache", "cache");
  warn_places(builder);
  warn_slow(builder);
}
