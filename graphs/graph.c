/* SPDX-License-Identifier: MIT
 *
 * The op graph as an object: made, freed, its values and outputs listed, its parameters counted. Nodes are added in
 * graph_node.c, copies are made in graph_copy.c, text in graph_print.c.
 */
#include <stdlib.h>
#include <string.h>

#include "graphs/edit.h"

bool ord_graph_create(ord_graph **out, ord_error *err) {
  *out = calloc(1, sizeof **out);
  return *out ? true : ord_fail_memory(err, "making a graph");
}

void ord_graph_destroy(ord_graph *graph) {
  if (!graph) return;
  ord_arena_finish(&graph->arena);
  free(graph);
}

uint32_t ord_graph_add_value(ord_graph *graph, const ord_value *value) {
  if (!ord_arena_grow(&graph->arena, &graph->value, &graph->value_capacity, graph->value_count + 1, sizeof *value))
    return ORD_NONE;
  graph->value[graph->value_count] = *value;
  return graph->value_count++;
}

bool ord_graph_add_output(ord_graph *graph, const char *name, uint32_t value, ord_error *err) {
  char *copy = ord_arena_text(&graph->arena, name);
  if (!copy || !ord_arena_grow(&graph->arena, &graph->output, &graph->output_capacity, graph->output_count + 1,
                               sizeof *graph->output))
    return ord_fail_memory(err, "adding an output to a graph");
  graph->output[graph->output_count++] = (ord_graph_output){.name = copy, .value = value};
  return true;
}

uint32_t ord_graph_find_output(const ord_graph *graph, const char *name) {
  for (uint32_t i = 0; i < graph->output_count; i++)
    if (strcmp(graph->output[i].name, name) == 0) return i;
  return ORD_NONE;
}

uint32_t ord_graph_find_input(const ord_graph *graph, const char *name) {
  for (uint32_t i = 0; i < graph->input_count; i++)
    if (strcmp(graph->input[i].name, name) == 0) return i;
  return ORD_NONE;
}

const ord_fused_weight *ord_graph_find_fused(const ord_graph *graph, uint32_t value) {
  uint32_t low = 0;
  for (uint32_t high = graph->fused_count; low < high;) {
    const uint32_t middle = low + (high - low) / 2;
    if (graph->fused[middle].value < value)
      low = middle + 1;
    else
      high = middle;
  }
  return low < graph->fused_count && graph->fused[low].value == value ? &graph->fused[low] : NULL;
}
