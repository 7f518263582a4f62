/* SPDX-License-Identifier: MIT
 *
 * What `generate` appends to a graph: the op sample behind the logits, with one input per thing that the caller may
 * choose for each row.
 */
#include <string.h>

#include "graphs/edit.h"

/* A graph's names of the slots of sample behind the first, which takes the logits. */
static const struct {
  const char *slot, *input;
  ord_dtype dtype;
} CHOICE[] = {{"temperature", "sample.temperature", ORD_F32},
              {"top_k", "sample.top_k", ORD_I32},
              {"top_p", "sample.top_p", ORD_F32},
              {"seed", "sample.seed", ORD_I64},
              {"counter", "sample.counter", ORD_I64}};
enum { CHOICE_COUNT = sizeof CHOICE / sizeof *CHOICE };

static bool add_inputs(ord_graph *graph, ord_size batch, uint32_t value[CHOICE_COUNT]) {
  ord_graph_input *input = ord_arena_take(&graph->arena, (size_t)graph->input_count + CHOICE_COUNT, sizeof *input);
  if (!input) return false;
  if (graph->input_count) memcpy(input, graph->input, graph->input_count * sizeof *input);
  graph->input = input;
  for (uint32_t i = 0; i < CHOICE_COUNT; i++) {
    const ord_value made = {.kind = ORD_VALUE_INPUT,
                            .index = graph->input_count,
                            .name = CHOICE[i].input,
                            .path = CHOICE[i].input,
                            .dtype = CHOICE[i].dtype,
                            .rank = 1,
                            .dim = {batch}};
    value[i] = ord_graph_add_value(graph, &made);
    if (value[i] == ORD_NONE) return false;
    graph->input[graph->input_count++] = (ord_graph_input){.name = CHOICE[i].input, .value = value[i]};
  }
  return true;
}

static bool append(ord_graph *graph, uint32_t logits, ord_error *err) {
  const ord_op *op = ord_op_find("sample");
  if (!op || op->slot_count != 1 + CHOICE_COUNT)
    return ord_fail(err, ORD_INTERNAL, "there is no op 'sample' with %d slots", 1 + CHOICE_COUNT);
  uint32_t choice[CHOICE_COUNT], in[1 + CHOICE_COUNT] = {logits}, sampled;
  if (!add_inputs(graph, graph->value[logits].dim[0], choice))
    return ord_fail_memory(err, "appending sample to a graph");
  for (uint32_t i = 0; i < CHOICE_COUNT; i++) {
    const uint32_t slot = ord_op_find_slot(op, CHOICE[i].slot);
    if (slot == ORD_NONE) return ord_fail(err, ORD_INTERNAL, "op 'sample' has no slot '%s'", CHOICE[i].slot);
    in[slot] = choice[i];
  }
  static const char *const NAME[] = {"sample.id"};
  const ord_node_spec spec = {.op = op,
                              .in = in,
                              .in_count = op->slot_count,
                              .cache = ORD_NONE,
                              .out_name = NAME,
                              .out_path = NAME,
                              .out_count = 1,
                              .path = *NAME};
  return ord_graph_add_node(graph, &spec, &sampled, err) && ord_graph_add_output(graph, *NAME, sampled, err);
}

bool ord_graph_append_sample(const ord_graph *graph, const char *logits, ord_graph **out, ord_error *err) {
  const uint32_t output = ord_graph_find_output(graph, logits);
  if (output == ORD_NONE) return ord_fail(err, ORD_INVALID, "output '%s' is not there; wanted the logits", logits);
  const uint32_t value = graph->output[output].value;
  if (graph->value[value].rank != 2)
    return ord_fail(err, ORD_INVALID, "output '%s' has rank %u; wanted [batch, vocab]", logits,
                    graph->value[value].rank);
  ord_graph *copy = NULL;
  if (!ord_graph_copy(graph, &copy, err)) return false;
  if (!append(copy, value, err)) {
    ord_graph_destroy(copy);
    return false;
  }
  *out = copy;
  return true;
}
