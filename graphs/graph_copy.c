/* SPDX-License-Identifier: MIT
 *
 * Deep copies: of sizes and attributes into an arena, and of a whole graph, so that each stage and each pass owns
 * what it works on.
 */
#include "graphs/edit.h"

bool ord_size_copy(ord_arena *arena, ord_size *size) {
  if (size->term_count == 0) return true;
  size->term = ord_arena_copy(arena, size->term, size->term_count, sizeof *size->term);
  return size->term != NULL;
}

bool ord_attr_copy(ord_arena *arena, const ord_attr *attr, ord_attr *out) {
  *out = *attr;
  out->name = ord_arena_text(arena, attr->name);
  if (!out->name) return false;
  if (attr->kind == ORD_ATTR_WORD) return (out->value.s = ord_arena_text(arena, attr->value.s)) != NULL;
  if (attr->kind == ORD_ATTR_INTS)
    return (out->value.ints = ord_arena_copy(arena, attr->value.ints, attr->count, sizeof *attr->value.ints)) != NULL;
  return true;
}

ord_attr *ord_attrs_copy(ord_arena *arena, const ord_attr *attr, uint32_t count) {
  ord_attr *copy = ord_arena_take(arena, count, sizeof *copy);
  for (uint32_t i = 0; copy && i < count; i++)
    if (!ord_attr_copy(arena, &attr[i], &copy[i])) return NULL;
  return copy;
}

static bool copy_text(ord_arena *arena, const char **text) {
  if (!*text) return true;
  *text = ord_arena_text(arena, *text);
  return *text != NULL;
}

const char **ord_texts_copy(ord_arena *arena, const char *const *text, uint32_t count) {
  const char **copy = ord_arena_take(arena, count, sizeof *copy);
  for (uint32_t i = 0; copy && i < count; i++)
    if (!(copy[i] = ord_arena_text(arena, text[i]))) return NULL;
  return copy;
}

static bool copy_run_dims(ord_arena *arena, const ord_graph *from, ord_graph *to) {
  to->run_dim = ord_arena_copy(arena, from->run_dim, from->run_dim_count, sizeof *to->run_dim);
  to->run_dim_name = ord_arena_take(arena, from->run_dim_count, sizeof *to->run_dim_name);
  if (!to->run_dim || !to->run_dim_name) return false;
  for (uint32_t i = 0; i < from->run_dim_count; i++) {
    if (!copy_text(arena, &to->run_dim[i].name)) return false;
    to->run_dim_name[i] = to->run_dim[i].name;
  }
  to->bound = NULL;
  if (!from->bound) return true;
  to->bound = ord_arena_copy(arena, from->bound, from->run_dim_count, sizeof *to->bound);
  return to->bound != NULL;
}

static bool copy_declarations(ord_arena *arena, const ord_graph *from, ord_graph *to) {
  to->input = ord_arena_copy(arena, from->input, from->input_count, sizeof *to->input);
  to->weight = ord_arena_copy(arena, from->weight, from->weight_count, sizeof *to->weight);
  to->cache = ord_arena_copy(arena, from->cache, from->cache_count, sizeof *to->cache);
  to->fused = ord_arena_copy(arena, from->fused, from->fused_count, sizeof *to->fused);
  to->output = ord_arena_copy(arena, from->output, from->output_count, sizeof *to->output);
  if (!to->input || !to->weight || !to->cache || !to->fused || !to->output) return false;
  to->fused_capacity = from->fused_count;
  to->output_capacity = from->output_count;
  for (uint32_t i = 0; i < to->input_count; i++)
    if (!copy_text(arena, &to->input[i].name)) return false;
  for (uint32_t i = 0; i < to->weight_count; i++)
    if (!copy_text(arena, &to->weight[i].name) || !copy_text(arena, &to->weight[i].file_name)) return false;
  for (uint32_t i = 0; i < to->cache_count; i++)
    if (!copy_text(arena, &to->cache[i].name) || !ord_size_copy(arena, &to->cache[i].length) ||
        !ord_size_copy(arena, &to->cache[i].batch))
      return false;
  for (uint32_t i = 0; i < to->fused_count; i++) {
    ord_fused_weight *fused = &to->fused[i];
    fused->part = ord_arena_copy(arena, fused->part, fused->part_count, sizeof *fused->part);
    if (!fused->part) return false;
  }
  for (uint32_t i = 0; i < to->output_count; i++)
    if (!copy_text(arena, &to->output[i].name)) return false;
  return true;
}

static bool copy_values(ord_arena *arena, const ord_graph *from, ord_graph *to) {
  to->value = ord_arena_copy(arena, from->value, from->value_count, sizeof *to->value);
  if (!to->value) return false;
  to->value_capacity = from->value_count;
  for (uint32_t i = 0; i < to->value_count; i++) {
    ord_value *value = &to->value[i];
    if (!copy_text(arena, &value->name) || !copy_text(arena, &value->path)) return false;
    for (uint32_t axis = 0; axis < value->rank; axis++)
      if (!ord_size_copy(arena, &value->dim[axis])) return false;
  }
  return true;
}

static bool copy_node(ord_arena *arena, ord_graph_node *node) {
  node->in = ord_arena_copy(arena, node->in, node->in_count, sizeof *node->in);
  node->out = ord_arena_copy(arena, node->out, node->out_count, sizeof *node->out);
  node->attr = ord_attrs_copy(arena, node->attr, node->attr_count);
  node->epilogue = ord_arena_copy(arena, node->epilogue, node->epilogue_count, sizeof *node->epilogue);
  node->path = ord_texts_copy(arena, node->path, node->path_count);
  if (!node->in || !node->out || !node->attr || !node->epilogue || !node->path) return false;
  for (uint32_t i = 0; i < node->epilogue_count; i++) {
    ord_graph_epilogue *item = &node->epilogue[i];
    item->attr = ord_attrs_copy(arena, item->attr, item->attr_count);
    if (!item->attr) return false;
  }
  return true;
}

static bool copy_nodes(ord_arena *arena, const ord_graph *from, ord_graph *to) {
  to->node = ord_arena_copy(arena, from->node, from->node_count, sizeof *to->node);
  if (!to->node) return false;
  to->node_capacity = from->node_count;
  for (uint32_t i = 0; i < to->node_count; i++)
    if (!copy_node(arena, &to->node[i])) return false;
  return true;
}

bool ord_graph_copy(const ord_graph *graph, ord_graph **out, ord_error *err) {
  ord_graph *copy = NULL;
  if (!ord_graph_create(&copy, err)) return false;
  /* Counts and flags come along; every pointer is replaced below, from an arena of the copy's own. */
  ord_arena arena = {0};
  *copy = *graph;
  const bool is_whole = copy_text(&arena, &copy->model_name) && copy_run_dims(&arena, graph, copy) &&
                        copy_declarations(&arena, graph, copy) && copy_values(&arena, graph, copy) &&
                        copy_nodes(&arena, graph, copy);
  copy->arena = arena;
  if (!is_whole) {
    ord_graph_destroy(copy);
    return ord_fail_memory(err, "copying a graph");
  }
  *out = copy;
  return true;
}
