/* SPDX-License-Identifier: MIT
 *
 * softmax and l2_normalize: ops on whole rows along any axis.
 */
#include "row.h"
#include "core.h"

typedef struct row_state {
  core_state base;
  core_work work;
  core_view rows[2], axis[2]; /* of the result and of in */
  double eps;
  uint32_t is_vector;
} row_state;

static ord_status row_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  static const core_rule rules[] = {{"in", CORE_FLOATS}, {"out", CORE_FLOATS}, {NULL, 0}};
  (void)kernel;
  if (core_is_laid_out_alike(node, 0)) answer->alias_mask = 1u << 0;
  return core_check(node, rules, answer);
}

/* The view without the axis. */
static core_view without_axis(const core_view *view, uint32_t axis) {
  core_view rest = *view;
  rest.rank = axis;
  for (uint32_t from = axis + 1; from < view->rank; from++, rest.rank++) {
    rest.extent[rest.rank] = view->extent[from];
    rest.dim[rest.rank] = view->dim[from];
    rest.limit[rest.rank] = view->limit[from];
    rest.stride[rest.rank] = view->stride[from];
  }
  return rest;
}

/* So many that each has a few numbers of a row. */
static uint32_t thread_count(int64_t width) {
  uint32_t threads = 32;
  while (threads < 512 && width > 8 * (int64_t)threads) threads *= 2;
  return threads;
}

static ord_status row_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                              const ord_host *host, void **state, ord_plugin_error *err) {
  static const struct {
    const char *op, *symbol;
  } known[] = {
#define ROW(op, symbol) {#op, #symbol},
#include "kernels.def"
  };
  row_state *made = core_state_create(node, answer, host, sizeof *made, err);
  if (!made) return ORD_NO_MEMORY;
  size_t which = 0;
  while (strcmp(known[which].op, kernel->op) != 0) which++;
  const core_view view[] = {core_view_of(node, ord_node_output(node, 0)), core_view_of(node, 0)};
  const uint32_t axis = core_axis(node, view[0].rank);
  made->eps = ord_node_number(node, "eps", 0);
  made->is_vector = axis + 1 == view[0].rank;
  for (int i = 0; i < 2; i++) {
    made->is_vector = made->is_vector && core_view_has_groups(&view[i], ROW_VECTOR);
    made->rows[i] = without_axis(&view[i], axis);
    made->axis[i] = core_view_part(&view[i], axis, 1);
  }
  core_view_merge(made->rows, 2);
  core_work_spread(&made->work, core_view_count(&made->rows[0]), 1); /* a block for each row */
  made->work.threads[0] = thread_count(made->axis[0].limit[0]);
  const ord_status status = core_work_prepare(&made->base, "row", known[which].symbol, 0, &made->work, err);
  return core_state_prepared(made, status, state);
}

static ord_status row_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  const row_state *made = state;
  const row_arguments arguments = {.out_rows = core_view_tensor(&made->rows[0], exec),
                                   .in_rows = core_view_tensor(&made->rows[1], exec),
                                   .out_axis = core_view_tensor(&made->axis[0], exec),
                                   .in_axis = core_view_tensor(&made->axis[1], exec),
                                   .eps = made->eps,
                                   .is_vector = made->is_vector};
  return core_work_launch(&made->base, exec, &made->work, &arguments, sizeof arguments, err);
}

#define ROW(which, symbol) CORE_KERNEL(which, .query = row_query, .prepare = row_prepare, .launch = row_launch);
#include "kernels.def"
