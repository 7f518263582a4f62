/* SPDX-License-Identifier: MIT
 *
 * What a pass asks before it changes a node: would a kernel other than the reference compute it like this, and does a
 * pin of the caller stand against it?
 */
#include "graphs/edit.h"

static bool choose(const ord_graph *graph, const ord_graph_node *node, const ord_chooser *chooser, ord_arena *arena,
                   ord_asked *out, ord_error *err) {
  ord_described described;
  ord_choice choice;
  if (!ord_describe_node(graph, node, chooser, arena, &described, err)) return false;
  if (!ord_choose(chooser, &described.node, node->path, node->path_count, arena, &choice, err)) return false;
  if (choice.plugin->is_reference || choice.answer.epilogue_served < described.node.epilogue_count) return true;
  out->kernel = choice.kernel;
  out->packs_matrices = true;
  for (uint32_t i = 0; i < described.node.operand_count; i++) {
    const ord_operand *operand = &described.node.operand[i];
    if (operand->role == ORD_WEIGHT && operand->rank == 2 && choice.answer.pack[i].key == 0)
      out->packs_matrices = false;
  }
  return true;
}

bool ord_graph_ask(const ord_graph *graph, const ord_graph_node *node, const ord_pass_options *options, ord_asked *out,
                   ord_error *err) {
  ord_arena arena = {0};
  ord_error refusal = ORD_ERROR_INIT;
  *out = (ord_asked){0};
  const bool is_answered = choose(graph, node, options->chooser, &arena, out, &refusal);
  ord_arena_finish(&arena);
  if (is_answered || refusal.code != ORD_NO_MEMORY) return true;
  return ord_fail_memory(err, "asking kernels about a node");
}

bool ord_node_is_pinned(const ord_graph_node *node, const ord_pass_options *options) {
  for (uint32_t i = 0; i < options->chooser->pin_count; i++)
    if (ord_pin_selects(options->chooser, i, node->op->name, node->path, node->path_count)) return true;
  return false;
}

bool ord_pins_allow(const ord_pass_options *options, const ord_graph_node *part, const ord_graph_node *whole) {
  for (uint32_t i = 0; i < options->chooser->pin_count; i++)
    if (ord_pin_selects(options->chooser, i, part->op->name, part->path, part->path_count) &&
        !ord_pin_selects(options->chooser, i, whole->op->name, whole->path, whole->path_count))
      return false;
  return true;
}
