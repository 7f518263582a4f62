/* SPDX-License-Identifier: MIT
 *
 * The op graph as text for people: shapes as messages write them, and the whole graph, a line per node.
 */
#include "graphs/edit.h"

static void print_axes_named(ord_text *text, const ord_graph *graph, const ord_value *value, bool in_first) {
  static const char *const AXIS_NAME[] = {"out", "in"};
  ord_text_add(text, "[");
  for (uint32_t i = 0; i < 2; i++) {
    const uint32_t axis = in_first ? 1 - i : i;
    ord_text_add(text, "%s%s ", i ? ", " : "", AXIS_NAME[axis]);
    ord_size_print(text, value->dim[axis], graph->run_dim_name);
  }
  ord_text_add(text, "]");
}

void ord_graph_print_shape(ord_text *text, const ord_graph *graph, uint32_t index) {
  const ord_value *value = &graph->value[index];
  const ord_graph_weight *weight = value->kind == ORD_VALUE_WEIGHT ? &graph->weight[value->index] : NULL;
  if (weight && weight->has_axes && value->rank == 2) {
    print_axes_named(text, graph, value, weight->in_first);
    return;
  }
  ord_text_add(text, "[");
  for (uint32_t axis = 0; axis < value->rank; axis++) {
    ord_text_add(text, "%s", axis ? ", " : "");
    ord_size_print(text, value->dim[axis], graph->run_dim_name);
  }
  ord_text_add(text, "]");
}

/* "q f32 [1, seq, 384]", with "at (s, s, 1) of x + 384" if it is a view, "strides (s, s, 1)" if it is permuted. */
static void print_value(ord_text *text, const ord_graph *graph, uint32_t index) {
  const ord_value *value = &graph->value[index];
  ord_text_add(text, "%s %s ", value->path ? value->path : value->name, ord_dtype_name(value->dtype));
  ord_graph_print_shape(text, graph, index);
  if (!graph->is_bound) return;
  ord_value dense = *value;
  bool is_dense = value->storage == ORD_STORAGE_OWN && ord_value_set_dense(graph, &dense, NULL);
  for (uint32_t axis = 0; axis < value->rank; axis++) is_dense = is_dense && dense.stride[axis] == value->stride[axis];
  if (is_dense) return;
  ord_text_add(text, " strides (");
  for (uint32_t axis = 0; axis < value->rank; axis++)
    ord_text_add(text, "%s%lld", axis ? ", " : "", (long long)value->stride[axis]);
  ord_text_add(text, ")");
  if (value->storage == ORD_STORAGE_VIEW)
    ord_text_add(text, " of %s + %lld", graph->value[value->base].name, (long long)value->offset);
}

static void print_attribute(ord_text *text, const ord_attr *attr) {
  ord_text_add(text, " %s=", attr->name);
  if (attr->kind == ORD_ATTR_NUMBER)
    ord_text_add(text, "%g", attr->value.f);
  else if (attr->kind == ORD_ATTR_WORD)
    ord_text_add(text, "%s", attr->value.s);
  else if (attr->kind == ORD_ATTR_INTS)
    for (uint32_t i = 0; i < attr->count; i++)
      ord_text_add(text, "%s%lld", i ? "," : "", (long long)attr->value.ints[i]);
  else if (attr->value.i == ORD_LAST)
    ord_text_add(text, "last");
  else
    ord_text_add(text, "%lld", (long long)attr->value.i);
}

static void print_epilogue(ord_text *text, const ord_graph *graph, const ord_graph_epilogue *item) {
  ord_text_add(text, "\n      then %s", item->op->name);
  for (uint32_t i = 0; i < item->attr_count; i++) print_attribute(text, &item->attr[i]);
  for (uint32_t i = 0; i < 2; i++) {
    if (item->operand[i] == ORD_NONE) continue;
    ord_text_add(text, "  ");
    print_value(text, graph, item->operand[i]);
  }
  if (item->result == ORD_NONE) return;
  ord_text_add(text, " -> ");
  print_value(text, graph, item->result);
}

static void print_node(ord_text *text, const ord_graph *graph, const ord_graph_node *node) {
  ord_text_add(text, "  %s", node->op->name);
  for (uint32_t i = 0; i < node->attr_count; i++) print_attribute(text, &node->attr[i]);
  if (node->cache != ORD_NONE) ord_text_add(text, " cache=%s", graph->cache[node->cache].name);
  for (uint32_t i = 0; i < node->path_count; i++) ord_text_add(text, "%s%s", i ? ", " : "  # ", node->path[i]);
  for (uint32_t i = 0; i < node->in_count; i++) {
    if (node->in[i] == ORD_NONE) continue;
    ord_text_add(text, "\n      ");
    print_value(text, graph, node->in[i]);
  }
  for (uint32_t i = 0; i < node->epilogue_count; i++) print_epilogue(text, graph, &node->epilogue[i]);
  for (uint32_t i = 0; i < node->out_count; i++) {
    ord_text_add(text, "\n      -> ");
    print_value(text, graph, node->out[i]);
  }
  ord_text_add(text, "\n");
}

void ord_graph_print(ord_text *text, const ord_graph *graph) {
  for (uint32_t i = 0; i < graph->input_count; i++) {
    ord_text_add(text, "  input ");
    print_value(text, graph, graph->input[i].value);
    ord_text_add(text, "\n");
  }
  for (uint32_t i = 0; i < graph->node_count; i++) print_node(text, graph, &graph->node[i]);
  for (uint32_t i = 0; i < graph->output_count; i++) {
    ord_text_add(text, "  output %s: ", graph->output[i].name);
    print_value(text, graph, graph->output[i].value);
    ord_text_add(text, "\n");
  }
}
