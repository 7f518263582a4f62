/* SPDX-License-Identifier: MIT
 *
 * Pass lower_composites: a composite that no kernel but the reference serves is written out as the ops that it is made
 * of. One that a pin selects stays whole for the pinned kernel.
 */
#include <string.h>

#include "graphs/edit.h"
#include "graphs/passes.h"

typedef struct composite {
  ord_graph *graph;
  const ord_graph_node *node;
  uint32_t first; /* of the nodes that stand for it */
  ord_error *err;
  bool is_told; /* *err is filled */
} composite;

/* "layer.0.h.matmul", the next of the same op "layer.0.h.matmul#2". */
static const char *make_path(composite *of, const char *op) {
  uint32_t earlier = 0;
  for (uint32_t i = of->first; i < of->graph->node_count; i++) earlier += strcmp(of->graph->node[i].op->name, op) == 0;
  if (!earlier) return ord_arena_format(&of->graph->arena, "%s.%s", of->node->path[0], op);
  return ord_arena_format(&of->graph->arena, "%s.%s#%u", of->node->path[0], op, earlier + 1);
}

static bool add_part(ord_lowering *lowering, const char *name, const uint32_t *in, uint32_t in_count,
                     const ord_attr *attr, uint32_t attr_count, const ord_size *shape, uint32_t shape_rank,
                     uint32_t *out) {
  composite *of = lowering->graph;
  const ord_op *op = ord_op_find(name);
  const char *path = make_path(of, name);
  of->is_told = true;
  if (!op)
    return ord_fail(of->err, ORD_INTERNAL, "%s: is made of op '%s', which does not exist", of->node->op->name, name);
  if (!path) return ord_fail_memory(of->err, "writing out a composite");
  const ord_node_spec spec = {.op = op,
                              .in = in,
                              .in_count = in_count,
                              .attr = attr,
                              .attr_count = attr_count,
                              .shape = shape,
                              .shape_rank = shape_rank,
                              .cache = ORD_NONE,
                              .out_name = &path,
                              .out_path = &path,
                              .out_count = 1,
                              .path = path,
                              .line = of->node->line,
                              .column = of->node->column};
  if (!ord_graph_add_node(of->graph, &spec, out, of->err)) return false;
  of->is_told = false;
  return true;
}

/* The part that makes the result makes the composite's own value, so that its name and its readers stay. */
static bool take_result(composite *of, uint32_t result) {
  const uint32_t own = of->node->out[0];
  bool is_made = false;
  for (uint32_t n = of->first; n < of->graph->node_count; n++) {
    ord_graph_node *part = &of->graph->node[n];
    for (uint32_t i = 0; i < part->in_count; i++)
      if (part->in[i] == result) part->in[i] = own;
    for (uint32_t i = 0; i < part->out_count; i++) {
      if (part->out[i] != result) continue;
      part->out[i] = own;
      is_made = true;
    }
  }
  return is_made || ord_fail(of->err, ORD_INTERNAL, "%s: its parts do not make its result", of->node->op->name);
}

static bool write_out(ord_graph *graph, const ord_graph_node *node, ord_error *err) {
  composite of = {.graph = graph, .node = node, .first = graph->node_count, .err = err};
  const ord_value in = graph->value[node->in[0]]; /* a copy: the parts may move the array of values */
  ord_lowering lowering = {.graph = &of,
                           .in = node->in,
                           .attr = node->attr,
                           .attr_count = node->attr_count,
                           .in_dim = in.dim,
                           .arena = &graph->arena,
                           .add = add_part,
                           .result = ORD_NONE};
  if (!node->op->lower(&lowering)) return of.is_told ? false : ord_fail_memory(err, "writing out a composite");
  return take_result(&of, lowering.result);
}

static bool stays_whole(const ord_graph *graph, const ord_graph_node *node, const ord_pass_options *options, bool *out,
                        ord_error *err) {
  *out = !node->op->lower || ord_node_is_pinned(node, options);
  if (*out) return true;
  ord_asked asked;
  if (!ord_graph_ask(graph, node, options, &asked, err)) return false;
  *out = asked.kernel != NULL;
  return true;
}

static bool rewrite(const ord_graph *graph, const ord_pass_options *options, ord_graph *copy, ord_error *err) {
  const ord_graph_node *old = copy->node;
  copy->node = NULL;
  copy->node_count = copy->node_capacity = 0;
  for (uint32_t n = 0; n < graph->node_count; n++) {
    bool is_whole;
    if (!stays_whole(graph, &graph->node[n], options, &is_whole, err)) return false;
    if (is_whole ? !ord_graph_append_node(copy, &old[n], err) : !write_out(copy, &old[n], err)) return false;
  }
  ord_graph_close_gaps(copy);
  return true;
}

bool ord_pass_lower_composites(const ord_graph *graph, const ord_pass_options *options, ord_graph **out,
                               ord_error *err) {
  ord_graph *copy = NULL;
  if (!ord_graph_copy(graph, &copy, err)) return false;
  if (!rewrite(graph, options, copy, err)) {
    ord_graph_destroy(copy);
    return false;
  }
  *out = copy;
  return true;
}
