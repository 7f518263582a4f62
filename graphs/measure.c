/* SPDX-License-Identifier: MIT
 *
 * What a bound graph costs at the plan's maximum: how long the memory of each value is needed, how many bytes are only
 * moved, how many are alive at once.
 */
#include "graphs/edit.h"
#include "graphs/lower.h"

/* The memory of `value` is needed at node `at`. */
static void extend(const ord_graph *graph, ord_lifetime *life, uint32_t value, uint32_t at) {
  if (value == ORD_NONE) return;
  const uint32_t base = ord_value_base(graph, value);
  if (graph->value[base].kind == ORD_VALUE_WEIGHT) return;
  ord_lifetime *it = &life[base];
  if (!it->has_memory || at < it->first) it->first = at;
  if (!it->has_memory || at > it->last) it->last = at;
  it->has_memory = true;
}

bool ord_graph_lifetimes(const ord_graph *graph, ord_arena *arena, ord_lifetime **out, ord_error *err) {
  ord_lifetime *life = ord_arena_take(arena, graph->value_count, sizeof *life);
  if (!life) return ord_fail_memory(err, "planning memory");
  for (uint32_t n = 0; n < graph->node_count; n++) {
    const ord_graph_node *node = &graph->node[n];
    for (uint32_t i = 0; i < node->in_count; i++) extend(graph, life, node->in[i], n);
    for (uint32_t i = 0; i < node->out_count; i++) extend(graph, life, node->out[i], n);
    for (uint32_t i = 0; i < node->epilogue_count; i++) {
      extend(graph, life, node->epilogue[i].operand[0], n);
      extend(graph, life, node->epilogue[i].operand[1], n);
      extend(graph, life, node->epilogue[i].result, n);
    }
  }
  const uint32_t end = graph->node_count ? graph->node_count - 1 : 0;
  for (uint32_t i = 0; i < graph->input_count + graph->output_count; i++) {
    const uint32_t value = i < graph->input_count ? graph->input[i].value : graph->output[i - graph->input_count].value;
    extend(graph, life, value, 0);
    extend(graph, life, value, end);
  }
  for (uint32_t i = 0; i < graph->value_count; i++)
    if (life[i].has_memory && !ord_value_bytes(graph, &graph->value[i], &life[i].bytes, err)) return false;
  *out = life;
  return true;
}

bool ord_graph_moved_bytes(const ord_graph *graph, uint64_t *out, ord_error *err) {
  uint64_t sum = 0;
  for (uint32_t n = 0; n < graph->node_count; n++) {
    const ord_graph_node *node = &graph->node[n];
    if (!node->op->view && !(node->op->flags & ORD_OP_JOINS)) continue;
    for (uint32_t i = 0; i < node->out_count; i++) {
      size_t bytes;
      if (!ord_value_bytes(graph, &graph->value[node->out[i]], &bytes, err)) return false;
      sum += bytes;
    }
  }
  *out = sum;
  return true;
}

/* Without sharing all live at once, as the planner would lay them out. */
static bool place(const ord_graph *graph, const ord_lifetime *life, ord_arena *arena, uint64_t *out, ord_error *err) {
  ord_memory_item *item = ord_arena_take(arena, graph->value_count, sizeof *item);
  if (!item) return ord_fail_memory(err, "planning memory");
  uint32_t count = 0;
  uint64_t sum = 0;
  for (uint32_t i = 0; i < graph->value_count; i++) {
    if (!life[i].has_memory) continue;
    item[count++] = (ord_memory_item){.bytes = life[i].bytes, .first = life[i].first, .last = life[i].last};
    sum += (life[i].bytes + ORD_MEMORY_ALIGNMENT - 1) / ORD_MEMORY_ALIGNMENT * ORD_MEMORY_ALIGNMENT;
  }
  *out = sum;
  if (!graph->shares_memory) return true;
  size_t bytes;
  if (!ord_memory_place(item, count, &bytes, err)) return false;
  *out = bytes;
  return true;
}

bool ord_graph_peak_bytes(const ord_graph *graph, uint64_t *out, ord_error *err) {
  ord_arena arena = {0};
  ord_lifetime *life = NULL;
  const bool done = ord_graph_lifetimes(graph, &arena, &life, err) && place(graph, life, &arena, out, err);
  ord_arena_finish(&arena);
  return done;
}
