/* SPDX-License-Identifier: MIT
 *
 * Binding: a graph with run-time dims becomes the graph of one plan. Exact dims are put in, the others get their
 * maximum; weights get the type and the strides of their file; only what is asked for stays.
 */
#include <stdlib.h>
#include <string.h>

#include "graphs/edit.h"

static bool bind_size(ord_graph *graph, ord_size *size, const int64_t *exact, ord_error *err) {
  const ord_size_status status = ord_size_bind(&graph->arena, *size, exact, size);
  if (status == ORD_SIZE_OK) return true;
  if (status == ORD_SIZE_NO_MEMORY) return ord_fail_memory(err, "binding a graph");
  return ord_fail(err, ORD_INVALID, "a size of the graph is too large; wanted less than 2^40");
}

static bool bind_sizes(ord_graph *graph, const ord_binding *binding, ord_error *err) {
  graph->bound = ord_arena_take(&graph->arena, graph->run_dim_count, sizeof *graph->bound);
  if (!graph->bound) return ord_fail_memory(err, "binding a graph");
  for (uint32_t i = 0; i < graph->run_dim_count; i++)
    graph->bound[i] = binding->exact[i] >= 0 ? binding->exact[i] : binding->maximum[i];
  for (uint32_t i = 0; i < graph->value_count; i++)
    for (uint32_t axis = 0; axis < graph->value[i].rank; axis++)
      if (!bind_size(graph, &graph->value[i].dim[axis], binding->exact, err)) return false;
  for (uint32_t i = 0; i < graph->cache_count; i++)
    if (!bind_size(graph, &graph->cache[i].length, binding->exact, err) ||
        !bind_size(graph, &graph->cache[i].batch, binding->exact, err))
      return false;
  graph->is_bound = true;
  return true;
}

static bool set_storage(ord_graph *graph, const ord_weight_store *store, ord_error *err) {
  for (uint32_t i = 0; i < graph->value_count; i++) {
    ord_value *value = &graph->value[i];
    if (!ord_value_set_dense(graph, value, err)) return false;
    if (value->kind != ORD_VALUE_WEIGHT) continue;
    memcpy(value->stride, graph->weight[value->index].value_stride, sizeof value->stride);
    if (store) value->dtype = ord_weight_store_stored(store, value->index).dtype;
  }
  return true;
}

/* "kind 'name' is unknown; did you mean 'nearest'?" */
static bool fail_unknown(const char *kind, const char *name, const char *const *known, size_t count, ord_error *err) {
  const char *nearest = ord_nearest_name(name, known, count);
  if (nearest)
    return ord_fail(err, ORD_INVALID, "%s '%s' is not in the graph; did you mean '%s'?", kind, name, nearest);
  return ord_fail(err, ORD_INVALID, "%s '%s' is not in the graph; wanted one such as '%s'", kind, name,
                  count ? known[0] : "");
}

static bool select_outputs(ord_graph *graph, const ord_graph *from, const ord_bind_options *options, ord_error *err) {
  if (options->output_count == 0) return true;
  graph->output_count = 0;
  for (uint32_t i = 0; i < options->output_count; i++) {
    const char *name = options->output[i];
    const uint32_t found = ord_graph_find_output(from, name);
    if (found == ORD_NONE) {
      const char **known = ord_arena_take(&graph->arena, from->output_count, sizeof *known);
      if (!known) return ord_fail_memory(err, "binding a graph");
      for (uint32_t k = 0; k < from->output_count; k++) known[k] = from->output[k].name;
      return fail_unknown("output", name, known, from->output_count, err);
    }
    if (ord_graph_find_output(graph, name) != ORD_NONE) continue;
    if (!ord_graph_add_output(graph, name, from->output[found].value, err)) return false;
  }
  return true;
}

static bool fail_unknown_path(ord_graph *graph, const char *path, ord_error *err) {
  const char **known = ord_arena_take(&graph->arena, graph->value_count, sizeof *known);
  if (!known) return ord_fail_memory(err, "binding a graph");
  uint32_t count = 0;
  for (uint32_t i = 0; i < graph->value_count; i++)
    if (graph->value[i].kind == ORD_VALUE_RESULT) known[count++] = graph->value[i].path;
  return fail_unknown("layer path", path, known, count, err);
}

static bool keep_values(ord_graph *graph, const ord_bind_options *options, ord_error *err) {
  for (uint32_t k = 0; k < options->keep_count; k++) {
    const char *path = options->keep[k];
    uint32_t found = ORD_NONE;
    for (uint32_t i = 0; i < graph->value_count && found == ORD_NONE; i++)
      if (graph->value[i].kind == ORD_VALUE_RESULT && strcmp(graph->value[i].path, path) == 0) found = i;
    if (found == ORD_NONE) return fail_unknown_path(graph, path, err);
    if (ord_graph_find_output(graph, path) != ORD_NONE) continue;
    if (!ord_graph_add_output(graph, path, found, err)) return false;
  }
  return true;
}

bool ord_graph_bind(const ord_graph *graph, const ord_bind_options *options, ord_graph **out, ord_error *err) {
  ord_graph *bound = NULL;
  if (!ord_graph_copy(graph, &bound, err)) return false;
  if (!bind_sizes(bound, &options->binding, err) || !set_storage(bound, options->store, err) ||
      !select_outputs(bound, graph, options, err) || !keep_values(bound, options, err) ||
      !ord_graph_prune(bound, err)) {
    ord_graph_destroy(bound);
    return false;
  }
  *out = bound;
  return true;
}
