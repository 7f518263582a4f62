/* SPDX-License-Identifier: MIT
 *
 * embedding and position: rows of a table, read as the table is stored. A row that the table does not have is zeros.
 */
#include "lookup.h"
#include "core.h"

typedef struct lookup_state {
  core_state base;
  core_work work;
  uint32_t in, ids, table, scale, out; /* operands; ORD_NONE: absent */
  int64_t offset;
  uint32_t is_vector, is_small;
} lookup_state;

static ord_status embedding_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  static const core_rule rules[] = {
      {"in", CORE_I32}, {"weight", CORE_NUMBERS}, {"weight_scale", CORE_F32}, {"out", CORE_FLOATS}, {NULL, 0}};
  (void)kernel;
  return core_check(node, rules, answer);
}

static ord_status position_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  static const core_rule rules[] = {{"in", CORE_FLOATS},        {"positions", CORE_I32}, {"weight", CORE_NUMBERS},
                                    {"weight_scale", CORE_F32}, {"out", CORE_FLOATS},    {NULL, 0}};
  (void)kernel;
  if (core_is_laid_out_alike(node, 0)) answer->alias_mask = 1u << 0;
  return core_check(node, rules, answer);
}

static bool has_vectors(const ord_node *node, uint32_t which) {
  const core_view view = core_view_of(node, which);
  return which == ORD_NONE || core_view_has_groups(&view, LOOKUP_VECTOR);
}

static ord_status lookup_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                                 const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel;
  lookup_state *made = core_state_create(node, answer, host, sizeof *made, err);
  if (!made) return ORD_NO_MEMORY;
  const uint32_t in = ord_node_find(node, "in"), positions = ord_node_find(node, "positions");
  made->in = positions == ORD_NONE ? ORD_NONE : in;
  made->ids = positions == ORD_NONE ? in : positions;
  made->table = ord_node_find(node, "weight");
  made->scale = ord_node_find(node, "weight_scale");
  made->out = ord_node_output(node, 0);
  made->offset = ord_node_int(node, "offset", 0);
  int64_t count = core_count(&node->operand[made->out]);
  made->is_small = count <= INT32_MAX;
  made->is_vector =
      made->is_small && has_vectors(node, made->out) && has_vectors(node, made->table) && has_vectors(node, made->in);
  if (made->is_vector) count /= LOOKUP_VECTOR;
  core_work_spread(&made->work, count, LOOKUP_THREADS);
  const ord_status status = core_work_prepare(&made->base, "lookup", "lookup_rows", 0, &made->work, err);
  return core_state_prepared(made, status, state);
}

static ord_status lookup_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  const lookup_state *made = state;
  const lookup_arguments arguments = {.out = core_tensor_of(&made->base, exec, made->out),
                                      .ids = core_tensor_of(&made->base, exec, made->ids),
                                      .in = core_tensor_of(&made->base, exec, made->in),
                                      .table = core_tensor_of(&made->base, exec, made->table),
                                      .scale = core_tensor_of(&made->base, exec, made->scale),
                                      .offset = made->offset,
                                      .is_vector = made->is_vector,
                                      .is_small = made->is_small};
  return core_work_launch(&made->base, exec, &made->work, &arguments, sizeof arguments, err);
}

CORE_KERNEL(embedding, .query = embedding_query, .prepare = lookup_prepare, .launch = lookup_launch);

CORE_KERNEL(position, .query = position_query, .prepare = lookup_prepare, .launch = lookup_launch);
