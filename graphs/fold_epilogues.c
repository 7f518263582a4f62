/* SPDX-License-Identifier: MIT
 *
 * Pass fold_epilogues: what follows a projection (bias, activation, gate, residual, norm) becomes an item of its
 * epilogue list, as far as its kernel takes the list. A value in between that others read too is stored on the way
 * (the x behind a residual).
 */
#include <string.h>

#include "graphs/edit.h"
#include "graphs/passes.h"

typedef struct epilogue_fold {
  ord_graph *graph;
  const ord_pass_options *options;
  const ord_kernel *kernel; /* of the producer */
  ord_readers readers;
  uint32_t *part; /* [values]: the first value that a node makes inside this one (a concat's), the next of the same */
} epilogue_fold;

static const char DOING[] = "folding epilogues";

/* Longer lists no kernel gains by, and each item copies those before it. */
enum { EPILOGUE_MAX = 32 };

static bool has_maker(const ord_graph *graph, uint32_t value) {
  return graph->value[value].kind == ORD_VALUE_RESULT && graph->value[value].index != ORD_NONE;
}

/* A value with parts is no part itself, so that one link serves both. */
static bool list_parts(epilogue_fold *folding, ord_error *err) {
  const ord_graph *graph = folding->graph;
  folding->part = ord_arena_take(&folding->graph->arena, graph->value_count, sizeof *folding->part);
  if (!folding->part) return ord_fail_memory(err, DOING);
  for (uint32_t i = 0; i < graph->value_count; i++) folding->part[i] = ORD_NONE;
  for (uint32_t i = 0; i < graph->value_count; i++) {
    if (graph->value[i].storage != ORD_STORAGE_VIEW || !has_maker(graph, i)) continue;
    folding->part[i] = folding->part[graph->value[i].base];
    folding->part[graph->value[i].base] = i;
  }
  return true;
}

/* Is all that lies in the memory of `value` there before node `at`? */
static bool is_made_before(const epilogue_fold *folding, uint32_t value, uint32_t at) {
  const ord_graph *graph = folding->graph;
  for (uint32_t i = ord_value_base(graph, value); i != ORD_NONE; i = folding->part[i])
    if (has_maker(graph, i) && graph->value[i].index >= at) return false;
  return true;
}

static bool have_equal_dims(const ord_value *a, const ord_value *b) {
  if (a->rank != b->rank) return false;
  for (uint32_t axis = 0; axis < a->rank; axis++)
    if (!ord_size_equal(a->dim[axis], b->dim[axis])) return false;
  return true;
}

/* A vector along the last axis of `value`. */
static bool is_along_last(const ord_graph *graph, const ord_value *value, uint32_t operand) {
  const ord_value *vector = &graph->value[operand];
  return vector->kind == ORD_VALUE_WEIGHT && vector->rank == 1 && vector->dtype != ORD_I8 && value->rank > 0 &&
         ord_size_equal(vector->dim[0], value->dim[value->rank - 1]);
}

/* add and mul: the operand that is not `value`. */
static bool read_pair(const epilogue_fold *folding, const ord_graph_node *node, uint32_t value, uint32_t producer,
                      ord_graph_epilogue *out) {
  const ord_graph *graph = folding->graph;
  if (node->in_count != 2) return false;
  const uint32_t other = node->in[0] == value ? node->in[1] : node->in[0];
  if (other == ORD_NONE) return false;
  out->operand[0] = other;
  const ord_value *own = &graph->value[value];
  if ((node->op->flags & ORD_OP_ADDS) && is_along_last(graph, own, other)) return true;
  return graph->value[other].kind != ORD_VALUE_WEIGHT && graph->value[other].dtype == own->dtype &&
         have_equal_dims(own, &graph->value[other]) && is_made_before(folding, other, producer);
}

static bool read_norm(const ord_graph *graph, const ord_graph_node *node, uint32_t value, ord_graph_epilogue *out) {
  static const char *const SLOT[] = {"weight", "bias"};
  if (node->in[0] != value) return false;
  for (uint32_t i = 0; i < 2; i++) {
    const uint32_t slot = ord_op_find_slot(node->op, SLOT[i]);
    if (slot >= node->in_count || node->in[slot] == ORD_NONE) continue;
    if (!is_along_last(graph, &graph->value[value], node->in[slot])) return false;
    out->operand[i] = node->in[slot];
  }
  return true;
}

/* `node` as an item behind `value`, which node `producer` makes; false if it is none. */
static bool read_item(const epilogue_fold *folding, const ord_graph_node *node, uint32_t value, uint32_t producer,
                      ord_graph_epilogue *out) {
  const ord_graph *graph = folding->graph;
  *out = (ord_graph_epilogue){.op = node->op,
                              .operand = {ORD_NONE, ORD_NONE},
                              .result = ORD_NONE,
                              .attr = node->attr,
                              .attr_count = node->attr_count};
  if (!node->op || node->out_count != 1 || node->epilogue_count || node->cache != ORD_NONE) return false;
  if (ord_node_count_reads(node, value) != 1) return false;
  const ord_value *own = &graph->value[value], *made = &graph->value[node->out[0]];
  if (made->dtype != own->dtype || !have_equal_dims(made, own)) return false;
  if (node->op->flags & ORD_OP_POINTWISE) return true;
  if (node->op->flags & (ORD_OP_ADDS | ORD_OP_MULTIPLIES)) return read_pair(folding, node, value, producer, out);
  return (node->op->flags & ORD_OP_NORM) && read_norm(graph, node, value, out);
}

/* The producer with the item behind what it does already. A value that stays visible is the result of the last item;
 * of a bare product there is none. */
static bool extend(const epilogue_fold *folding, const ord_graph_node *producer, const ord_graph_node *node,
                   const ord_graph_epilogue *item, bool stays_visible, ord_graph_node *out, bool *out_fits,
                   ord_error *err) {
  *out = *producer;
  *out_fits = !stays_visible || producer->epilogue_count > 0;
  if (!*out_fits) return true;
  ord_arena *arena = &folding->graph->arena;
  out->epilogue = ord_arena_take(arena, (size_t)producer->epilogue_count + 1, sizeof *item);
  out->out = ord_arena_copy(arena, node->out, 1, sizeof *node->out);
  if (!out->epilogue || !out->out || !ord_node_add_paths(arena, out, node)) return ord_fail_memory(err, DOING);
  if (producer->epilogue_count) memcpy(out->epilogue, producer->epilogue, producer->epilogue_count * sizeof *item);
  if (stays_visible) out->epilogue[out->epilogue_count - 1].result = producer->out[0];
  out->epilogue[out->epilogue_count++] = *item;
  return true;
}

/* Does anybody but one reader look at the value? A part of a joined value is seen by the readers of the whole. */
static bool is_visible(const epilogue_fold *folding, uint32_t value) {
  const ord_readers *readers = &folding->readers;
  return readers->begin[value + 1] - readers->begin[value] != 1 || readers->is_output[value] ||
         readers->view_count[value] || folding->graph->value[value].storage == ORD_STORAGE_VIEW;
}

/* Folds one reader of the producer's result into it, the first that its kernel takes. */
static bool fold_one(const epilogue_fold *folding, uint32_t at, bool *out_done, ord_error *err) {
  ord_graph *graph = folding->graph;
  ord_graph_node *producer = &graph->node[at];
  const uint32_t value = producer->out[0];
  const bool stays_visible = is_visible(folding, value);
  *out_done = false;
  if (producer->epilogue_count == EPILOGUE_MAX) return true;
  uint32_t count;
  const uint32_t *reader = ord_readers_from(&folding->readers, value, at + 1, &count);
  for (uint32_t i = 0; i < count; i++) {
    ord_graph_node *node = &graph->node[reader[i]], whole;
    ord_graph_epilogue item;
    bool fits;
    if (!read_item(folding, node, value, at, &item)) continue;
    if (!extend(folding, producer, node, &item, stays_visible, &whole, &fits, err)) return false;
    if (!fits || !ord_pins_allow(folding->options, node, &whole)) continue;
    ord_asked asked;
    if (!ord_graph_ask(graph, &whole, folding->options, &asked, err)) return false;
    if (asked.kernel != folding->kernel) continue;
    *producer = whole;
    graph->value[whole.out[0]].index = at;
    ord_node_remove(node);
    *out_done = true;
    return true;
  }
  return true;
}

static bool rewrite(epilogue_fold *folding, ord_error *err) {
  ord_graph *graph = folding->graph;
  if (!ord_readers_make(graph, &graph->arena, &folding->readers, err) || !list_parts(folding, err)) return false;
  for (uint32_t n = 0; n < graph->node_count; n++) {
    const ord_graph_node *node = &graph->node[n];
    if (!node->op || !(node->op->flags & ORD_OP_PROJECTION) || node->out_count != 1) continue;
    ord_asked asked;
    if (!ord_graph_ask(graph, node, folding->options, &asked, err)) return false;
    folding->kernel = asked.kernel;
    bool is_done = asked.kernel != NULL;
    while (is_done)
      if (!fold_one(folding, n, &is_done, err)) return false;
  }
  ord_graph_close_gaps(graph);
  return true;
}

bool ord_pass_fold_epilogues(const ord_graph *graph, const ord_pass_options *options, ord_graph **out, ord_error *err) {
  epilogue_fold folding = {.options = options};
  if (!ord_graph_copy(graph, &folding.graph, err)) return false;
  if (!rewrite(&folding, err)) {
    ord_graph_destroy(folding.graph);
    return false;
  }
  *out = folding.graph;
  return true;
}
