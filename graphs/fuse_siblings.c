/* SPDX-License-Identifier: MIT
 *
 * Pass fuse_siblings: projections of the same value (W_Q, W_K, W_V and their biases) become one on a weight whose rows
 * are those of all, and a split that gives back what each made. The weights are not copied: the store lays the rows
 * one behind the other, once.
 */
#include "graphs/edit.h"
#include "graphs/passes.h"

/* The operands of a projection that matter here. */
typedef struct projection {
  uint32_t in, weight, bias; /* values; bias may be ORD_NONE */
} projection;

typedef struct sibling_fusion {
  const ord_graph *graph; /* as it was; indices of values are the same in `copy` */
  const ord_pass_options *options;
  ord_graph *copy;
  const ord_graph_node *node; /* of the copy, to move into its new list */
  ord_readers readers;
  bool *is_taken; /* [nodes]: went into a sibling before it */
} sibling_fusion;

static const char DOING[] = "fusing siblings";

/* More in one product gain nothing, and an attempt that no kernel serves is repeated for each of them. */
enum { SIBLING_MAX = 32 };

static uint32_t find_operand(const ord_graph_node *node, const char *slot) {
  const uint32_t place = ord_op_find_slot(node->op, slot);
  return place < node->in_count ? node->in[place] : ORD_NONE;
}

/* A weight that nobody else reads: else its rows would be there twice. */
static bool is_free_weight(const sibling_fusion *fusing, uint32_t value, uint32_t rank) {
  const ord_value *weight = &fusing->graph->value[value];
  return weight->kind == ORD_VALUE_WEIGHT && weight->rank == rank &&
         fusing->readers.begin[value + 1] - fusing->readers.begin[value] == 1;
}

static bool read_projection(const sibling_fusion *fusing, const ord_graph_node *node, projection *out) {
  if (!(node->op->flags & ORD_OP_PROJECTION) || node->out_count != 1 || node->epilogue_count) return false;
  *out = (projection){find_operand(node, "in"), find_operand(node, "weight"), find_operand(node, "bias")};
  if (out->in == ORD_NONE || out->weight == ORD_NONE || !is_free_weight(fusing, out->weight, 2)) return false;
  return out->bias == ORD_NONE || is_free_weight(fusing, out->bias, 1);
}

static bool have_equal_rows(const ord_graph *graph, uint32_t a, uint32_t b) {
  const ord_value *left = &graph->value[a], *right = &graph->value[b];
  for (uint32_t axis = 1; axis < left->rank; axis++)
    if (left->stride[axis] != right->stride[axis] || !ord_size_equal(left->dim[axis], right->dim[axis])) return false;
  return left->dtype == right->dtype && left->stride[0] == right->stride[0];
}

static bool are_siblings(const sibling_fusion *fusing, const projection *left, const ord_graph_node *other) {
  projection right;
  if (!read_projection(fusing, other, &right)) return false;
  if (left->in != right.in || (left->bias == ORD_NONE) != (right.bias == ORD_NONE)) return false;
  if (!have_equal_rows(fusing->graph, left->weight, right.weight)) return false;
  return left->bias == ORD_NONE || have_equal_rows(fusing->graph, left->bias, right.bias);
}

/* The node numbers of `n` and of its siblings behind it, SIBLING_MAX at most; returns how many. */
static uint32_t find_siblings(const sibling_fusion *fusing, uint32_t n, uint32_t *member) {
  const ord_graph *graph = fusing->graph;
  const ord_graph_node *node = &graph->node[n];
  projection own;
  uint32_t count = 0;
  if (!read_projection(fusing, node, &own)) return 0;
  uint32_t reader_count;
  const uint32_t *reader = ord_readers_from(&fusing->readers, own.in, n, &reader_count);
  for (uint32_t i = 0; i < reader_count && count < SIBLING_MAX; i++) {
    const ord_graph_node *other = &graph->node[reader[i]];
    if (other->op == node->op && !fusing->is_taken[reader[i]] && are_siblings(fusing, &own, other))
      member[count++] = reader[i];
  }
  return count;
}

/* A weight value whose rows are those of `part` (values), in order. */
static bool add_fused_weight(ord_graph *graph, const uint32_t *part, uint32_t count, uint32_t *out, ord_error *err) {
  ord_value value = graph->value[part[0]];
  uint32_t *weight = ord_arena_take(&graph->arena, count, sizeof *weight);
  ord_text name = {0};
  bool fits = weight != NULL;
  for (uint32_t i = 0; i < count && fits; i++) {
    const ord_value *one = &graph->value[part[i]];
    weight[i] = one->index;
    ord_text_add(&name, "%s%s", i ? "+" : "", one->name);
    if (i) fits = ord_size_sum(&graph->arena, value.dim[0], one->dim[0], &value.dim[0]) == ORD_SIZE_OK;
  }
  value.name = fits && !name.failed ? ord_arena_text(&graph->arena, name.bytes) : NULL;
  value.path = value.name;
  ord_text_finish(&name);
  if (!value.name || !ord_arena_grow(&graph->arena, &graph->fused, &graph->fused_capacity, graph->fused_count + 1,
                                     sizeof *graph->fused))
    return ord_fail_memory(err, DOING);
  *out = ord_graph_add_value(graph, &value);
  if (*out == ORD_NONE) return ord_fail_memory(err, DOING);
  graph->fused[graph->fused_count++] = (ord_fused_weight){.value = *out, .part = weight, .part_count = count};
  return true;
}

/* One projection in place of `count`; `member` are their nodes. */
static bool add_whole(sibling_fusion *fusing, const uint32_t *member, uint32_t count, ord_error *err) {
  const ord_graph_node *first = &fusing->node[member[0]];
  ord_arena *arena = &fusing->copy->arena;
  uint32_t *in = ord_arena_copy(arena, first->in, first->in_count, sizeof *in);
  uint32_t *weight = ord_arena_take(arena, count, sizeof *weight), *bias = ord_arena_take(arena, count, sizeof *bias);
  const char *name = ord_arena_format(arena, "%s.fused", first->path[0]);
  if (!in || !weight || !bias || !name) return ord_fail_memory(err, DOING);
  for (uint32_t i = 0; i < count; i++) {
    weight[i] = find_operand(&fusing->node[member[i]], "weight");
    bias[i] = find_operand(&fusing->node[member[i]], "bias");
  }
  if (!add_fused_weight(fusing->copy, weight, count, &in[ord_op_find_slot(first->op, "weight")], err)) return false;
  if (bias[0] != ORD_NONE &&
      !add_fused_weight(fusing->copy, bias, count, &in[ord_op_find_slot(first->op, "bias")], err))
    return false;
  const ord_node_spec spec = {.op = first->op,
                              .in = in,
                              .in_count = first->in_count,
                              .attr = first->attr,
                              .attr_count = first->attr_count,
                              .cache = ORD_NONE,
                              .out_name = &name,
                              .out_path = &name,
                              .out_count = 1,
                              .path = first->path[0],
                              .line = first->line,
                              .column = first->column};
  uint32_t made;
  if (!ord_graph_add_node(fusing->copy, &spec, &made, err)) return false;
  ord_graph_node *whole = &fusing->copy->node[fusing->copy->node_count - 1];
  whole->path_count = 0;
  for (uint32_t i = 0; i < count; i++)
    if (!ord_node_add_paths(arena, whole, &fusing->node[member[i]])) return ord_fail_memory(err, DOING);
  return true;
}

/* Gives each sibling its part of what the last node makes. */
static bool add_split(sibling_fusion *fusing, const uint32_t *member, uint32_t count, ord_error *err) {
  ord_graph *copy = fusing->copy;
  const ord_graph_node whole = copy->node[copy->node_count - 1];
  const char **name = ord_arena_take(&copy->arena, count, sizeof *name);
  const char **path = ord_arena_take(&copy->arena, count, sizeof *path);
  int64_t *size = ord_arena_take(&copy->arena, count, sizeof *size);
  uint32_t *part = ord_arena_take(&copy->arena, count, sizeof *part);
  const char *own_path = ord_arena_format(&copy->arena, "%s.split", whole.path[0]);
  if (!name || !path || !size || !part || !own_path) return ord_fail_memory(err, DOING);
  for (uint32_t i = 0; i < count; i++) {
    const ord_value *old = &copy->value[fusing->node[member[i]].out[0]];
    name[i] = old->name;
    path[i] = old->path;
    if (!ord_size_is_constant(old->dim[old->rank - 1], &size[i]))
      return ord_fail(err, ORD_INTERNAL, "'%s' ends in a run-time dim; wanted the rows of a weight", old->name);
  }
  const ord_attr attr[] = {{.name = "axis", .kind = ORD_ATTR_INT, .count = 1, .value.i = -1},
                           {.name = "sizes", .kind = ORD_ATTR_INTS, .count = count, .value.ints = size}};
  const ord_node_spec spec = {.op = ord_op_find("split"),
                              .in = &whole.out[0],
                              .in_count = 1,
                              .attr = attr,
                              .attr_count = 2,
                              .cache = ORD_NONE,
                              .out_name = name,
                              .out_path = path,
                              .out_count = count,
                              .path = own_path,
                              .line = whole.line,
                              .column = whole.column};
  if (!spec.op) return ord_fail(err, ORD_INTERNAL, "there is no op 'split'");
  if (!ord_graph_add_node(copy, &spec, part, err)) return false;
  ord_graph_node *split = &copy->node[copy->node_count - 1];
  for (uint32_t i = 0; i < count; i++) split->out[i] = fusing->node[member[i]].out[0];
  return true;
}

/* Rows that lie side by side in the file (in first) cannot lie behind one another: there the kernel must pack. */
static bool is_served(const sibling_fusion *fusing, const uint32_t *member, uint32_t count, bool *out, ord_error *err) {
  const ord_graph_node *whole = &fusing->copy->node[fusing->copy->node_count - 1];
  const ord_value *weight = &fusing->copy->value[find_operand(whole, "weight")];
  ord_asked asked;
  *out = false;
  for (uint32_t i = 0; i < count; i++)
    if (!ord_pins_allow(fusing->options, &fusing->node[member[i]], whole)) return true;
  if (!ord_graph_ask(fusing->copy, whole, fusing->options, &asked, err)) return false;
  *out = asked.kernel && (asked.packs_matrices || weight->stride[1] == 1);
  return true;
}

static bool fuse(sibling_fusion *fusing, const uint32_t *member, uint32_t count, bool *out_done, ord_error *err) {
  ord_graph *copy = fusing->copy;
  const uint32_t node_count = copy->node_count, value_count = copy->value_count, fused_count = copy->fused_count;
  if (!add_whole(fusing, member, count, err) || !is_served(fusing, member, count, out_done, err)) return false;
  if (*out_done) {
    for (uint32_t i = 0; i < count; i++) fusing->is_taken[member[i]] = true;
    return add_split(fusing, member, count, err);
  }
  copy->node_count = node_count;
  copy->value_count = value_count;
  copy->fused_count = fused_count;
  return true;
}

static bool rewrite(sibling_fusion *fusing, ord_error *err) {
  const ord_graph *graph = fusing->graph;
  ord_arena *arena = &fusing->copy->arena;
  uint32_t *member = ord_arena_take(arena, SIBLING_MAX, sizeof *member);
  fusing->is_taken = ord_arena_take(arena, graph->node_count, sizeof *fusing->is_taken);
  if (!member || !fusing->is_taken) return ord_fail_memory(err, DOING);
  if (!ord_readers_make(graph, arena, &fusing->readers, err)) return false;
  fusing->node = fusing->copy->node;
  fusing->copy->node = NULL;
  fusing->copy->node_count = fusing->copy->node_capacity = 0;
  for (uint32_t n = 0; n < graph->node_count; n++) {
    if (fusing->is_taken[n]) continue;
    const uint32_t count = find_siblings(fusing, n, member);
    bool is_done = false;
    if (count > 1 && !fuse(fusing, member, count, &is_done, err)) return false;
    if (!is_done && !ord_graph_append_node(fusing->copy, &fusing->node[n], err)) return false;
  }
  ord_graph_close_gaps(fusing->copy);
  return true;
}

bool ord_pass_fuse_siblings(const ord_graph *graph, const ord_pass_options *options, ord_graph **out, ord_error *err) {
  sibling_fusion fusing = {.graph = graph, .options = options};
  if (!ord_graph_copy(graph, &fusing.copy, err)) return false;
  if (!rewrite(&fusing, err)) {
    ord_graph_destroy(fusing.copy);
    return false;
  }
  *out = fusing.copy;
  return true;
}
