/* SPDX-License-Identifier: MIT
 *
 * layernorm and rmsnorm.
 */
#include "norm.h"

#include <stdio.h>

#include "epilogue.h"

typedef struct norm_state {
  core_state base;
  core_work work;
  rows_plan rows;
  uint32_t in, weight, bias; /* places */
} norm_state;

static ord_status norm_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  static const core_rule rules[] = {
      {"in", CORE_FLOATS}, {"weight", CORE_FLOATS}, {"bias", CORE_FLOATS}, {"out", CORE_FLOATS}, {NULL, 0}};
  (void)kernel;
  const ord_status status = core_check(node, rules, answer);
  if (status != ORD_OK) return status;
  if (rows_limit(node) > INT32_MAX)
    return core_refuse(answer, "%lld rows; wanted %d at most", (long long)rows_limit(node), INT32_MAX);
  if (core_is_laid_out_alike(node, ord_node_find(node, "in"))) answer->alias_mask = 1u << ord_node_find(node, "in");
  snprintf(answer->variant, sizeof answer->variant, "a block a row");
  return ORD_OK;
}

static ord_status norm_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                               const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel;
  norm_state *made = core_state_create(node, answer, host, sizeof *made, err);
  if (!made) return ORD_NO_MEMORY;
  rows_begin(&made->rows, node);
  made->in = rows_add(&made->rows, ord_node_find(node, "in"));
  made->weight = rows_add(&made->rows, ord_node_find(node, "weight"));
  made->bias = rows_add(&made->rows, ord_node_find(node, "bias"));
  rows_join(&made->rows);
  const ord_operand *in = &node->operand[ord_node_find(node, "in")];
  const int64_t threads = (in->dim[in->rank - 1] / NORM_KEPT + 32) / 32 * 32;
  made->work.threads[0] = threads < NORM_THREADS_MAX ? (uint32_t)threads : NORM_THREADS_MAX;
  made->work.blocks[0] = (uint32_t)rows_limit(node);
  const ord_status status = core_work_prepare(&made->base, "norm", "norm_rows", 0, &made->work, err);
  return core_state_prepared(made, status, state);
}

static ord_status norm_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  const norm_state *made = state;
  const ord_node *node = made->base.node;
  const uint32_t in = ord_node_find(node, "in");
  norm_rows_arguments arguments = {.rows = rows_of(&made->rows, exec),
                                   .in = rows_place(&made->rows, made->in, exec),
                                   .out = rows_place(&made->rows, 0, exec),
                                   .columns = core_size_of(node, exec, in, node->operand[in].rank - 1)};
  arguments.norm = (norm_arguments){.is_centred = strcmp(node->op, "layernorm") == 0,
                                    .eps = (float)ord_node_number(node, "eps", 0),
                                    .weight = rows_place(&made->rows, made->weight, exec),
                                    .bias = rows_place(&made->rows, made->bias, exec)};
  return core_work_launch(&made->base, exec, &made->work, &arguments, sizeof arguments, err);
}

CORE_KERNEL(layernorm, .query = norm_query, .prepare = norm_prepare, .launch = norm_launch);
CORE_KERNEL(rmsnorm, .query = norm_query, .prepare = norm_prepare, .launch = norm_launch);
