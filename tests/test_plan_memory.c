/* SPDX-License-Identifier: MIT
 *
 * Pass plan_memory: with it values share memory and ops write in place, without it each has its own.
 */
#include "graph_fixture.h"

/* x -> three ops in a row -> y, 64 floats each. */
static ord_graph *make_chain(void) {
  ord_graph *graph = new_graph();
  const uint32_t x = add_input(graph, "x", ORD_F32, "64");
  const uint32_t a = add_unary(graph, "relu", "a", x), b = add_unary(graph, "silu", "b", a);
  add_output(graph, "y", add_unary(graph, "tanh", "y", add_unary(graph, "silu", "c", b)));
  return bind(graph, -1);
}

static size_t arena_bytes(kernel_stage *stage, const ord_graph *graph) {
  const ord_lower_options options = {.chooser = &stage->chooser, .dry = true};
  ord_plan *plan = NULL;
  MUST(ord_plan_create(graph, &options, &plan, &err));
  const size_t bytes = plan->arena_bytes;
  ord_plan_destroy(plan);
  return bytes;
}

static void memory_is_shared_only_with_it(void **state) {
  (void)state;
  kernel_stage stage;
  test_kernel kernel[] = {make_kernel("silu_test", "silu"), make_kernel("tanh_test", "tanh")};
  kernel[0].alias_mask = 1;
  open_kernels(&stage, kernel, 2);
  ord_graph *graph = make_chain();
  assert_int_equal(arena_bytes(&stage, graph), 5 * 256);
  graph = run_pass(&stage, "plan_memory", graph);
  assert_true(graph->shares_memory);
  assert_int_equal(arena_bytes(&stage, graph), 3 * 256); /* x and y for the whole run; a, b and c in one place */
  ord_graph_destroy(graph);
  close_kernels(&stage);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(memory_is_shared_only_with_it)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
