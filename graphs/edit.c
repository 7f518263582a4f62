/* SPDX-License-Identifier: MIT
 *
 * Reading and changing a graph that a pass works on: dims at the maximum, who reads what, taking nodes out.
 */
#include "graphs/edit.h"

#include <string.h>

bool ord_value_dims(const ord_graph *graph, const ord_value *value, int64_t dim[ORD_RANK_MAX], ord_error *err) {
  for (uint32_t axis = 0; axis < value->rank; axis++)
    if (!ord_size_evaluate(value->dim[axis], graph->bound, &dim[axis]) || dim[axis] < 0)
      return ord_fail(err, ORD_INVALID, "'%s': axis %u is too large or negative; wanted a size from 0", value->name,
                      axis);
  return true;
}

bool ord_value_set_dense(const ord_graph *graph, ord_value *value, ord_error *err) {
  int64_t dim[ORD_RANK_MAX], stride = 1;
  if (!ord_value_dims(graph, value, dim, err)) return false;
  value->storage = ORD_STORAGE_OWN;
  value->base = ORD_NONE;
  value->offset = 0;
  for (uint32_t axis = value->rank; axis-- > 0;) {
    value->stride[axis] = stride;
    if (__builtin_mul_overflow(stride, dim[axis] > 0 ? dim[axis] : 1, &stride))
      return ord_fail(err, ORD_INVALID, "'%s' is too large: found more than 2^63 elements", value->name);
  }
  return true;
}

bool ord_value_bytes(const ord_graph *graph, const ord_value *value, size_t *out, ord_error *err) {
  int64_t dim[ORD_RANK_MAX];
  if (!ord_value_dims(graph, value, dim, err)) return false;
  return ord_tensor_bytes(value->dtype, value->rank, dim, out) ||
         ord_fail(err, ORD_INVALID, "'%s' is too large for memory", value->name);
}

uint32_t ord_value_base(const ord_graph *graph, uint32_t value) {
  return graph->value[value].storage == ORD_STORAGE_VIEW ? graph->value[value].base : value;
}

uint32_t ord_node_count_reads(const ord_graph_node *node, uint32_t value) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < node->in_count; i++) count += node->in[i] == value;
  for (uint32_t i = 0; i < node->epilogue_count; i++)
    count += (node->epilogue[i].operand[0] == value) + (node->epilogue[i].operand[1] == value);
  return count;
}

bool ord_graph_append_node(ord_graph *graph, const ord_graph_node *node, ord_error *err) {
  if (!ord_arena_grow(&graph->arena, &graph->node, &graph->node_capacity, graph->node_count + 1, sizeof *node))
    return ord_fail_memory(err, "rewriting a graph");
  graph->node[graph->node_count++] = *node;
  return true;
}

void ord_node_remove(ord_graph_node *node) { *node = (ord_graph_node){.cache = ORD_NONE}; }

void ord_graph_close_gaps(ord_graph *graph) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < graph->node_count; i++)
    if (graph->node[i].op) graph->node[kept++] = graph->node[i];
  graph->node_count = kept;
  for (uint32_t i = 0; i < graph->value_count; i++)
    if (graph->value[i].kind == ORD_VALUE_RESULT) graph->value[i].index = ORD_NONE;
  for (uint32_t n = 0; n < graph->node_count; n++) {
    const ord_graph_node *node = &graph->node[n];
    for (uint32_t i = 0; i < node->out_count; i++) graph->value[node->out[i]].index = n;
    for (uint32_t i = 0; i < node->epilogue_count; i++)
      if (node->epilogue[i].result != ORD_NONE) graph->value[node->epilogue[i].result].index = n;
  }
}

bool ord_node_add_paths(ord_arena *arena, ord_graph_node *node, const ord_graph_node *other) {
  const char **path = ord_arena_take(arena, (size_t)node->path_count + other->path_count, sizeof *path);
  if (!path) return false;
  memcpy(path, node->path, node->path_count * sizeof *path);
  memcpy(path + node->path_count, other->path, other->path_count * sizeof *path);
  node->path = path;
  node->path_count += other->path_count;
  return true;
}

/* ---- what the outputs need ------------------------------------------------------------------------------------ */

static void need(const ord_graph *graph, bool *needed, uint32_t value) {
  if (value != ORD_NONE) needed[ord_value_base(graph, value)] = true;
}

static bool node_is_needed(const ord_graph *graph, const bool *needed, const ord_graph_node *node) {
  for (uint32_t i = 0; i < node->out_count; i++)
    if (needed[ord_value_base(graph, node->out[i])]) return true;
  for (uint32_t i = 0; i < node->epilogue_count; i++) {
    const uint32_t result = node->epilogue[i].result;
    if (result != ORD_NONE && needed[ord_value_base(graph, result)]) return true;
  }
  return false;
}

/* Marks the memory of values that needed nodes read; makers come before readers, so one way back does. Tells whether
 * a needed node has a cache. */
static bool mark_needed(const ord_graph *graph, bool needs_caches, bool *needed, bool *node_needed) {
  bool has_cache = false;
  for (uint32_t n = graph->node_count; n-- > 0;) {
    const ord_graph_node *node = &graph->node[n];
    node_needed[n] = (needs_caches && node->cache != ORD_NONE) || node_is_needed(graph, needed, node);
    if (!node_needed[n]) continue;
    has_cache = has_cache || node->cache != ORD_NONE;
    for (uint32_t i = 0; i < node->in_count; i++) need(graph, needed, node->in[i]);
    for (uint32_t i = 0; i < node->epilogue_count; i++) {
      need(graph, needed, node->epilogue[i].operand[0]);
      need(graph, needed, node->epilogue[i].operand[1]);
    }
  }
  return has_cache;
}

/* Optional results that nobody needs are not asked for. */
static void drop_results(const ord_graph *graph, const bool *needed, ord_graph_node *node) {
  if (node->op->result_max == UINT32_MAX) return;
  while (node->out_count > node->op->result_min && !needed[ord_value_base(graph, node->out[node->out_count - 1])])
    node->out_count--;
}

bool ord_graph_prune(ord_graph *graph, ord_error *err) {
  bool *needed = ord_arena_take(&graph->arena, graph->value_count, sizeof *needed);
  bool *node_needed = ord_arena_take(&graph->arena, graph->node_count, sizeof *node_needed);
  if (!needed || !node_needed) return ord_fail_memory(err, "dropping what no output needs");
  for (uint32_t i = 0; i < graph->output_count; i++) need(graph, needed, graph->output[i].value);
  if (mark_needed(graph, false, needed, node_needed)) (void)mark_needed(graph, true, needed, node_needed);
  for (uint32_t n = 0; n < graph->node_count; n++) {
    if (node_needed[n])
      drop_results(graph, needed, &graph->node[n]);
    else
      ord_node_remove(&graph->node[n]);
  }
  ord_graph_close_gaps(graph);
  return true;
}
