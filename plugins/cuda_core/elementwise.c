/* SPDX-License-Identifier: MIT
 *
 * Ops that compute each number of the result from the numbers at the same place: the pointwise ops, and add, sub, mul
 * with broadcasting. Any strides will do; f32 in whole aligned vectors of four is the quick case.
 */
#include "elementwise.h"
#include "core.h"

enum { VIEWS_MAX = 3 };

typedef struct elementwise_state {
  core_state base;
  core_work work;
  core_view view[VIEWS_MAX]; /* the result, then what it is made of */
  float number;              /* stands for an absent operand */
  uint32_t is_vector, is_small;
} elementwise_state;

/* Of views with the dims of the result. */
static void plan_walk(elementwise_state *state, uint32_t view_count) {
  core_view *view = state->view;
  core_view_merge(view, view_count);
  state->is_small = core_view_count(&view[0]) <= INT32_MAX;
  state->is_vector = state->is_small;
  for (uint32_t i = 0; i < view_count; i++)
    if (view[i].which != ORD_NONE && !(view[i].type == ORD_F32 && core_view_has_vectors(&view[i], i > 0)))
      state->is_vector = false;
  for (uint32_t i = 0; state->is_vector && i < view_count; i++)
    if (view[i].which != ORD_NONE) core_view_take_vectors(&view[i]);
  const int64_t count = core_view_count(&view[0]);
  core_work_spread(&state->work, (count + ELEMENTWISE_IN_FLIGHT - 1) / ELEMENTWISE_IN_FLIGHT, ELEMENTWISE_THREADS);
}

/* ---- one input ---- */

static ord_status pointwise_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  static const core_rule rules[] = {{"in", CORE_FLOATS}, {"out", CORE_FLOATS}, {NULL, 0}};
  (void)kernel;
  if (core_is_laid_out_alike(node, 0)) answer->alias_mask = 1u << 0;
  return core_check(node, rules, answer);
}

static ord_status pointwise_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                                    const ord_host *host, void **state, ord_plugin_error *err) {
  static const struct {
    const char *op, *symbol;
  } known[] = {
#define POINTWISE(op, function) {#op, "pointwise_" #op},
#include "kernels.def"
  };
  elementwise_state *made = core_state_create(node, answer, host, sizeof *made, err);
  if (!made) return ORD_NO_MEMORY;
  size_t which = 0;
  while (strcmp(known[which].op, kernel->op) != 0) which++;
  made->view[0] = core_view_of(node, ord_node_output(node, 0));
  made->view[1] = core_view_of(node, 0);
  const ord_status status = core_work_prepare(&made->base, "elementwise", known[which].symbol, 0, &made->work, err);
  plan_walk(made, 2);
  return core_state_prepared(made, status, state);
}

static ord_status pointwise_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  const elementwise_state *made = state;
  const pointwise_arguments arguments = {.out = core_view_tensor(&made->view[0], exec),
                                         .in = core_view_tensor(&made->view[1], exec),
                                         .is_vector = made->is_vector,
                                         .is_small = made->is_small};
  return core_work_launch(&made->base, exec, &made->work, &arguments, sizeof arguments, err);
}

/* ---- two inputs, one of which may be a number ---- */

static ord_status binary_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  static const core_rule rules[] = {{"in", CORE_FLOATS}, {"out", CORE_FLOATS}, {NULL, 0}};
  (void)kernel;
  for (uint32_t i = 0; i < 2; i++)
    if (core_is_laid_out_alike(node, i)) answer->alias_mask |= 1u << i;
  return core_check(node, rules, answer);
}

static ord_status binary_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                                 const ord_host *host, void **state, ord_plugin_error *err) {
  static const struct {
    const char *op, *symbol;
  } known[] = {
#define BINARY(op, function) {#op, "binary_" #op},
#include "kernels.def"
  };
  elementwise_state *made = core_state_create(node, answer, host, sizeof *made, err);
  if (!made) return ORD_NO_MEMORY;
  size_t which = 0;
  while (strcmp(known[which].op, kernel->op) != 0) which++;
  made->number = (float)ord_node_number(node, "number", 0);
  made->view[0] = core_view_of(node, ord_node_output(node, 0));
  for (uint32_t i = 0; i < 2; i++) {
    const core_view in = core_view_of(node, i);
    made->view[1 + i] = core_view_broadcast(&in, &made->view[0]);
  }
  const ord_status status = core_work_prepare(&made->base, "elementwise", known[which].symbol, 0, &made->work, err);
  plan_walk(made, 3);
  return core_state_prepared(made, status, state);
}

static ord_status binary_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  const elementwise_state *made = state;
  binary_arguments arguments = {.out = core_view_tensor(&made->view[0], exec),
                                .number = made->number,
                                .is_vector = made->is_vector,
                                .is_small = made->is_small};
  for (uint32_t i = 0; i < 2; i++) arguments.in[i] = core_view_tensor(&made->view[1 + i], exec);
  return core_work_launch(&made->base, exec, &made->work, &arguments, sizeof arguments, err);
}

/* ---- the tables ---- */

#define POINTWISE(which, function)                                                                                     \
  CORE_KERNEL(which, .query = pointwise_query, .prepare = pointwise_prepare, .launch = pointwise_launch);
#define BINARY(which, function)                                                                                        \
  CORE_KERNEL(which, .query = binary_query, .prepare = binary_prepare, .launch = binary_launch);
#include "kernels.def"
