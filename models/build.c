/* SPDX-License-Identifier: MIT
 *
 * From a description to an op graph: run-time dims and inputs first, then the items in order, then what can be checked
 * only once the graph stands. Weights and caches come into being where they are used first.
 */
#include <string.h>

#include "models/builder.h"

/* ---- memory and limits ------------------------------------------------------------------------------------------ */

bool ord_builder_fail_memory(ord_builder *builder) {
  builder->has_stopped = true;
  return ord_tell_memory(&builder->teller);
}

void *ord_builder_take(ord_builder *builder, size_t count, size_t element_bytes) {
  void *taken = ord_arena_take(&builder->scratch, count, element_bytes);
  if (!taken) (void)ord_builder_fail_memory(builder);
  return taken;
}

bool ord_builder_copy_size(ord_builder *builder, ord_size size, ord_size *out) {
  const ord_size_term *term = ord_arena_copy(&builder->graph->arena, size.term, size.term_count, sizeof *term);
  *out = (ord_size){size.term_count ? term : NULL, size.term_count};
  return term || ord_builder_fail_memory(builder);
}

/* Stops building with one message, which speaks of the whole and so names no path. */
static bool stop(ord_builder *builder, const ord_yaml_node *place, unsigned long long limit, const char *what) {
  if (!builder->has_stopped) {
    builder->teller.path = "";
    ord_tell(&builder->teller, place,
             "the graph grows too large; found more than %llu %s after expansion; wanted fewer", limit, what);
  }
  builder->has_stopped = true;
  return false;
}

bool ord_builder_count_item(ord_builder *builder, const ord_yaml_node *place) {
  const uint32_t limit = builder->description->item_limit;
  return builder->item_count++ < limit || stop(builder, place, limit, "items");
}

bool ord_builder_spend(ord_builder *builder, const ord_yaml_node *node) {
  enum { BYTES_PER_WORK = 8 };
  const uint64_t limit = (uint64_t)builder->description->item_limit * ORD_WORK_PER_ITEM;
  builder->work += 1 + node->bytes / BYTES_PER_WORK;
  return builder->work <= limit || stop(builder, node, limit, "names and numbers");
}

/* ---- the beginning ---------------------------------------------------------------------------------------------- */

static bool add_run_dims(ord_builder *builder) {
  const ord_description *description = builder->description;
  ord_graph *graph = builder->graph;
  graph->run_dim = ord_arena_take(&graph->arena, description->run_dim_count, sizeof *graph->run_dim);
  graph->run_dim_name = ord_arena_take(&graph->arena, description->run_dim_count, sizeof *graph->run_dim_name);
  if (!graph->run_dim || !graph->run_dim_name) return false;
  graph->run_dim_count = description->run_dim_count;
  for (uint32_t i = 0; i < description->dim_count; i++) {
    const ord_dim *dim = &description->dim[i];
    if (!dim->is_run || !dim->is_known) continue;
    const char *name = ord_arena_text(&graph->arena, dim->name);
    if (!name) return false;
    graph->run_dim[dim->run_number] = (ord_graph_run_dim){.name = name, .min = dim->min, .max = dim->max};
    graph->run_dim_name[dim->run_number] = name;
  }
  return true;
}

static bool add_input(ord_builder *builder, const ord_input *input) {
  ord_graph *graph = builder->graph;
  ord_binding *binding =
      ord_binding_add(builder, input->name, ORD_BOUND_UNKNOWN, ord_use_of(builder, input->key, "unused-input"));
  if (!binding) return false;
  if (!input->is_known) return true;
  ord_value value = {.kind = ORD_VALUE_INPUT,
                     .index = graph->input_count,
                     .name = ord_arena_text(&graph->arena, input->name),
                     .line = input->key->line,
                     .dtype = input->dtype,
                     .rank = input->rank};
  value.path = value.name;
  for (uint32_t axis = 0; axis < input->rank; axis++)
    if (!ord_builder_copy_size(builder, input->dim[axis], &value.dim[axis])) return false;
  binding->kind = ORD_BOUND_VALUE;
  binding->value = value.name ? ord_graph_add_value(graph, &value) : ORD_NONE;
  graph->input[graph->input_count++] = (ord_graph_input){
      .name = value.name, .value = binding->value, .fill = input->fill, .fill_number = input->fill_number};
  if (input->fill == ORD_FILL_LENGTHS) builder->lengths_value = binding->value;
  return binding->value != ORD_NONE;
}

static bool begin(ord_builder *builder) {
  const ord_description *description = builder->description;
  ord_graph *graph = builder->graph;
  graph->model_name = ord_arena_text(&graph->arena, description->full_name ? description->full_name : "");
  graph->input = ord_arena_take(&graph->arena, description->input_count, sizeof *graph->input);
  builder->dim_is_used = ord_builder_take(builder, description->dim_count, sizeof *builder->dim_is_used);
  builder->weight_is_used = ord_builder_take(builder, description->weights.count, sizeof *builder->weight_is_used);
  builder->cache_is_used = ord_builder_take(builder, description->caches.count, sizeof *builder->cache_is_used);
  builder->block_is_used = ord_builder_take(builder, description->block_count, sizeof *builder->block_is_used);
  if (!graph->model_name || !graph->input || builder->has_stopped || !add_run_dims(builder)) return false;
  for (uint32_t i = 0; i < description->input_count; i++)
    if (!add_input(builder, &description->input[i])) return false;
  return true;
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

static void build_parts(ord_builder *builder) {
  if (!begin(builder)) {
    (void)ord_builder_fail_memory(builder);
    return;
  }
  if (builder->description->graph) ord_build_items(builder, builder->description->graph);
  if (builder->has_stopped) return;
  ord_build_outputs(builder);
  ord_check_text(builder);
  ord_check_order(builder);
  if (!builder->teller.list->error_count) ord_warn_unused(builder);
}

/* Builds into a new graph; NULL when out of memory. */
static ord_graph *build(const ord_description *description, ord_diagnostics *list) {
  ord_builder builder = {.description = description,
                         .block_limit = UINT32_MAX,
                         .lengths_value = ORD_NONE,
                         .has_lost_names = description->has_lost_names || !description->graph};
  builder.teller =
      (ord_teller){.list = list, .path = "", .calls = "", .told = &builder.told, .arena = &builder.scratch};
  if (!ord_graph_create(&builder.graph, NULL)) {
    list->out_of_memory = true;
    return NULL;
  }
  builder.fixed =
      (ord_expression_scope){.find = ord_builder_find_number, .context = &builder, .arena = &builder.graph->arena};
  builder.any = builder.fixed;
  builder.any.allows_run = true;
  ord_scope scope = {.outer = NULL};
  builder.scope = &scope;
  build_parts(&builder);
  ord_text_finish(&builder.path);
  ord_text_finish(&builder.calls);
  ord_arena_finish(&builder.scratch);
  return builder.graph;
}

void ord_graph_check(const ord_description *description, ord_diagnostics *list) {
  ord_graph_destroy(build(description, list));
}

bool ord_graph_build(const ord_description *description, ord_diagnostics *list, ord_graph **out) {
  *out = NULL;
  ord_graph *graph = build(description, list);
  ord_diagnostics_sort(list);
  if (graph && !list->error_count && !list->out_of_memory) {
    *out = graph;
    return true;
  }
  ord_graph_destroy(graph);
  return false;
}
