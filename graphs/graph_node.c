/* SPDX-License-Identifier: MIT
 *
 * Adding a node: defaults are filled in, the op's shape rule is run, the node and its results are appended. The one
 * way in which a node of a model or of a lowered composite comes into being.
 */
#include <string.h>

#include "graphs/edit.h"

/* Who hears of a fault, and whether one was told: a rule that fails in silence ran out of memory. */
typedef struct fault_report {
  const ord_node_spec *spec;
  ord_error *err;
  bool was_told;
} fault_report;

static void tell_fault(ord_infer *infer, const char *slot_or_attr, uint32_t entry, const char *text) {
  fault_report *fault = infer->report_context;
  const ord_node_spec *spec = fault->spec;
  fault->was_told = true;
  if (!spec->report) {
    ord_fail(fault->err, infer->out_of_memory ? ORD_NO_MEMORY : ORD_INVALID, "%s (in %s)", text, spec->path);
    return;
  }
  infer->report_context = spec->report_context;
  spec->report(infer, slot_or_attr, entry, text);
  infer->report_context = fault;
}

/* "'h' [1, seq, 384] (line 29)" or "weight 'h.0.wq' [out 384, in 768] (line 17)"; NULL when out of memory. */
static const char *describe_value(ord_graph *graph, uint32_t index) {
  const ord_value *value = &graph->value[index];
  ord_text text = {0};
  ord_text_add(&text, "%s'%s' ", value->kind == ORD_VALUE_WEIGHT ? "weight " : "", value->name);
  ord_graph_print_shape(&text, graph, index);
  if (value->line) ord_text_add(&text, " (line %u)", value->line);
  const char *described = text.failed ? NULL : ord_arena_text(&graph->arena, text.bytes);
  ord_text_finish(&text);
  return described;
}

static bool make_operands(ord_graph *graph, const ord_node_spec *spec, ord_infer *infer) {
  ord_infer_operand *operand = ord_arena_take(&graph->arena, spec->in_count, sizeof *operand);
  if (!operand) return false;
  infer->operand = operand;
  infer->operand_count = spec->in_count;
  for (uint32_t i = 0; i < spec->in_count; i++, operand++) {
    operand->slot = i < spec->op->slot_count ? i : spec->op->slot_count - 1;
    if (spec->in[i] == ORD_NONE) {
      operand->is_absent = true;
      operand->has_number = spec->has_number && spec->has_number[i];
      operand->number = operand->has_number ? spec->number[i] : 0;
      continue;
    }
    const ord_value *value = &graph->value[spec->in[i]];
    operand->is_weight = value->kind == ORD_VALUE_WEIGHT;
    operand->name = value->name;
    operand->described = describe_value(graph, spec->in[i]);
    if (!operand->described) return false;
    /* Whatever a weight is stored as, the rules compute with its numbers. */
    operand->dtype = operand->is_weight ? ORD_F32 : value->dtype;
    operand->rank = value->rank;
    for (uint32_t axis = 0; axis < value->rank; axis++) operand->dim[axis] = value->dim[axis];
  }
  return true;
}

static uint32_t count_numbers(const ord_infer *infer) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < infer->operand_count; i++) count += infer->operand[i].has_number;
  return count;
}

/* The given attributes and the defaults, in the order of the op's rules. */
static bool make_attributes(ord_graph *graph, const ord_node_spec *spec, ord_infer *infer) {
  const ord_op *op = spec->op;
  infer->attr = ord_arena_take(&graph->arena, (size_t)op->attr_count + count_numbers(infer), sizeof *infer->attr);
  if (!infer->attr) return false;
  for (uint32_t i = 0; i < op->attr_count; i++) {
    const ord_attr_rule *rule = &op->attr[i];
    const ord_attr *given = ord_attr_find(spec->attr, spec->attr_count, rule->name);
    const ord_attr *from = given ? given : rule->default_value.name ? &rule->default_value : NULL;
    if (from && !ord_attr_copy(&graph->arena, from, &infer->attr[infer->attr_count++])) return false;
  }
  return true;
}

/* A plain number in place of an operand travels to the kernel as an attribute. */
static void add_numbers(ord_infer *infer) {
  for (uint32_t i = 0; i < infer->operand_count; i++)
    if (infer->operand[i].has_number)
      infer->attr[infer->attr_count++] =
          (ord_attr){.name = "number", .kind = ORD_ATTR_NUMBER, .count = 1, .value = {.f = infer->operand[i].number}};
}

/* A square matrix that lies the wrong way round would not be seen: which axis is which has to be written down. */
static bool check_named_axes(const ord_graph *graph, const ord_node_spec *spec, ord_infer *infer) {
  for (uint32_t i = 0; i < infer->operand_count; i++) {
    const ord_infer_operand *operand = &infer->operand[i];
    const ord_slot *slot = &spec->op->slot[operand->slot];
    if (!operand->is_weight || !(slot->flags & ORD_SLOT_MATRIX)) continue;
    const ord_graph_weight *weight = &graph->weight[graph->value[spec->in[i]].index];
    if (weight->has_axes) continue;
    ord_text shape = {0};
    ord_graph_print_shape(&shape, graph, spec->in[i]);
    if (!shape.failed)
      ord_infer_fail(infer, slot->name, 0,
                     "weight '%s' %s has no named axes; wanted shape: [out: .., in: ..] or [in: .., out: ..] (line %u)",
                     weight->name, shape.bytes, weight->line);
    ord_text_finish(&shape);
    return false;
  }
  return true;
}

/* The shapes of a cache follow from the attention that reads it. */
static bool note_cache(ord_graph *graph, const ord_node_spec *spec, const ord_infer *infer, ord_error *err) {
  if (spec->cache == ORD_NONE) return true;
  ord_graph_cache *cache = &graph->cache[spec->cache];
  const ord_infer_operand *k = ord_infer_slot(infer, "k"), *v = ord_infer_slot(infer, "v");
  if (!k || !v || k->rank != 4 || v->rank != 4 || !ord_size_is_constant(k->dim[1], &cache->kv_heads) ||
      !ord_size_is_constant(k->dim[3], &cache->k_dim) || !ord_size_is_constant(v->dim[3], &cache->v_dim))
    return ord_fail(err, ORD_INVALID, "%s: cache '%s' needs k and v [b, g, t, d] with fixed g and d", spec->path,
                    cache->name);
  cache->batch = k->dim[0];
  return true;
}

static bool append_results(ord_graph *graph, const ord_node_spec *spec, const ord_infer *infer, uint32_t *out,
                           ord_error *err) {
  for (uint32_t i = 0; i < infer->result_count; i++) {
    const ord_infer_result *result = &infer->result[i];
    const bool is_named = spec->out_name[i] != NULL;
    ord_value value = {.kind = ORD_VALUE_RESULT, .index = graph->node_count, .line = spec->line};
    value.name = ord_arena_text(&graph->arena, is_named ? spec->out_name[i] : "_");
    value.path = is_named ? ord_arena_text(&graph->arena, spec->out_path[i]) : value.name;
    value.dtype = result->dtype;
    value.rank = result->rank;
    for (uint32_t axis = 0; axis < result->rank; axis++) value.dim[axis] = result->dim[axis];
    if (!value.name || !value.path) return ord_fail_memory(err, "adding a node to a graph");
    if (graph->is_bound && !ord_value_set_dense(graph, &value, err)) return false;
    out[i] = ord_graph_add_value(graph, &value);
    if (out[i] == ORD_NONE) return ord_fail_memory(err, "adding a node to a graph");
  }
  return true;
}

static bool append_node(ord_graph *graph, const ord_node_spec *spec, const ord_infer *infer, ord_error *err) {
  ord_arena *arena = &graph->arena;
  ord_graph_node node = {.op = spec->op,
                         .in_count = spec->in_count,
                         .out_count = infer->result_count,
                         .attr = infer->attr,
                         .attr_count = infer->attr_count,
                         .cache = spec->cache,
                         .path_count = 1,
                         .line = spec->line,
                         .column = spec->column};
  node.in = ord_arena_copy(arena, spec->in, spec->in_count, sizeof *node.in);
  node.out = ord_arena_take(arena, infer->result_count, sizeof *node.out);
  node.path = ord_arena_take(arena, 1, sizeof *node.path);
  char *path = ord_arena_text(arena, spec->path);
  if (!node.in || !node.out || !node.path || !path ||
      !ord_arena_grow(arena, &graph->node, &graph->node_capacity, graph->node_count + 1, sizeof node))
    return ord_fail_memory(err, "adding a node to a graph");
  node.path[0] = path;
  if (!append_results(graph, spec, infer, node.out, err)) return false;
  graph->node[graph->node_count++] = node;
  return true;
}

/* Optional results at the end that nobody named are not asked for. Of an op with any number of results each counts:
 * how many there are may say how the input is cut. */
static uint32_t count_results(const ord_node_spec *spec) {
  uint32_t count = spec->out_count;
  if (spec->op->result_max == UINT32_MAX) return count;
  while (count > spec->op->result_min && !spec->out_name[count - 1]) count--;
  return count;
}

bool ord_graph_add_node(ord_graph *graph, const ord_node_spec *spec, uint32_t *out_value, ord_error *err) {
  fault_report fault = {.spec = spec, .err = err};
  ord_infer infer = {.op = spec->op,
                     .arena = &graph->arena,
                     .run_dim_name = graph->run_dim_name,
                     .shape = spec->shape,
                     .shape_rank = spec->shape_rank,
                     .has_cache = spec->cache != ORD_NONE,
                     .result_count = count_results(spec),
                     .report = tell_fault,
                     .report_context = &fault};
  if (infer.has_cache) infer.cache_length = graph->cache[spec->cache].length;
  infer.result = ord_arena_take(&graph->arena, infer.result_count, sizeof *infer.result);
  if (!infer.result || !make_operands(graph, spec, &infer) || !make_attributes(graph, spec, &infer))
    return ord_fail_memory(err, "adding a node to a graph");
  if (!check_named_axes(graph, spec, &infer) || !spec->op->infer(&infer))
    return fault.was_told ? false : ord_fail_memory(err, "finding the shape of a node");
  add_numbers(&infer);
  if (!note_cache(graph, spec, &infer, err)) return false;
  if (!append_node(graph, spec, &infer, err)) return false;
  const ord_graph_node *node = &graph->node[graph->node_count - 1];
  for (uint32_t i = 0; i < spec->out_count; i++) out_value[i] = i < node->out_count ? node->out[i] : ORD_NONE;
  return true;
}
