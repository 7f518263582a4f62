/* SPDX-License-Identifier: MIT
 *
 * pool: one row for each text, the mean of its tokens, its first or its last.
 */
#include "pool.h"
#include "core.h"

typedef struct pool_state {
  core_state base;
  core_work work;
  uint32_t in, lengths, out; /* operands; ORD_NONE: absent */
  uint32_t kind;
} pool_state;

static ord_status pool_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  static const core_rule rules[] = {{"in", CORE_FLOATS}, {"lengths", CORE_I32}, {"out", CORE_FLOATS}, {NULL, 0}};
  (void)kernel;
  return core_check(node, rules, answer);
}

static ord_status pool_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                               const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel;
  pool_state *made = core_state_create(node, answer, host, sizeof *made, err);
  if (!made) return ORD_NO_MEMORY;
  made->in = ord_node_find(node, "in");
  made->lengths = ord_node_find(node, "lengths");
  made->out = ord_node_output(node, 0);
  made->kind = core_word_is(node, "kind", "mean")   ? POOL_MEAN
               : core_word_is(node, "kind", "last") ? POOL_LAST
                                                    : POOL_FIRST;
  const ord_operand *out = &node->operand[made->out];
  const int64_t tiles = (out->dim[1] + POOL_COLUMNS - 1) / POOL_COLUMNS;
  core_work_spread(&made->work, core_multiply(out->dim[0], tiles), 1); /* a block for each tile */
  made->work.threads[0] = POOL_WARPS * 32;
  const ord_status status = core_work_prepare(&made->base, "pool", "pool_tokens", 0, &made->work, err);
  return core_state_prepared(made, status, state);
}

static ord_status pool_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  const pool_state *made = state;
  const pool_arguments arguments = {.out = core_tensor_of(&made->base, exec, made->out),
                                    .in = core_tensor_of(&made->base, exec, made->in),
                                    .lengths = core_tensor_of(&made->base, exec, made->lengths),
                                    .kind = made->kind};
  return core_work_launch(&made->base, exec, &made->work, &arguments, sizeof arguments, err);
}

CORE_KERNEL(pool, .query = pool_query, .prepare = pool_prepare, .launch = pool_launch);
