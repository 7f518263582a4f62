/* SPDX-License-Identifier: MIT
 *
 * Who reads a value, counted once for the whole graph, so that a pass need not search it at every node.
 */
#include "graphs/edit.h"

/* Calls for each operand of the graph: its value, and the node that reads it. */
static void visit(const ord_graph *graph, ord_readers *readers, void (*see)(ord_readers *, uint32_t, uint32_t)) {
  for (uint32_t n = 0; n < graph->node_count; n++) {
    const ord_graph_node *node = &graph->node[n];
    for (uint32_t i = 0; i < node->in_count; i++)
      if (node->in[i] != ORD_NONE) see(readers, node->in[i], n);
    for (uint32_t i = 0; i < node->epilogue_count; i++)
      for (uint32_t k = 0; k < 2; k++)
        if (node->epilogue[i].operand[k] != ORD_NONE) see(readers, node->epilogue[i].operand[k], n);
  }
}

static void count_read(ord_readers *readers, uint32_t value, uint32_t node) {
  (void)node;
  readers->begin[value + 2]++;
}

static void list_read(ord_readers *readers, uint32_t value, uint32_t node) {
  readers->node[readers->begin[value + 1]++] = node;
}

/* While they are filled, the list of value v begins at begin[v + 1]: when the last entry is in, that is its end. */
bool ord_readers_make(const ord_graph *graph, ord_arena *arena, ord_readers *out, ord_error *err) {
  const uint32_t count = graph->value_count;
  *out = (ord_readers){.begin = ord_arena_take(arena, (size_t)count + 2, sizeof *out->begin),
                       .view_count = ord_arena_take(arena, count, sizeof *out->view_count),
                       .is_output = ord_arena_take(arena, count, sizeof *out->is_output)};
  if (!out->begin || !out->view_count || !out->is_output) return ord_fail_memory(err, "listing who reads what");
  visit(graph, out, count_read);
  for (uint32_t i = 2; i < count + 2; i++) out->begin[i] += out->begin[i - 1];
  out->node = ord_arena_take(arena, out->begin[count + 1], sizeof *out->node);
  if (!out->node) return ord_fail_memory(err, "listing who reads what");
  visit(graph, out, list_read);
  for (uint32_t i = 0; i < count; i++)
    if (graph->value[i].storage == ORD_STORAGE_VIEW) out->view_count[graph->value[i].base]++;
  for (uint32_t i = 0; i < graph->output_count; i++) out->is_output[graph->output[i].value] = true;
  return true;
}

const uint32_t *ord_readers_from(const ord_readers *readers, uint32_t value, uint32_t first, uint32_t *out_count) {
  uint32_t low = readers->begin[value];
  const uint32_t end = readers->begin[value + 1];
  for (uint32_t high = end; low < high;) {
    const uint32_t middle = low + (high - low) / 2;
    if (readers->node[middle] < first)
      low = middle + 1;
    else
      high = middle;
  }
  *out_count = end - low;
  return readers->node + low;
}
