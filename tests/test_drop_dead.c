/* SPDX-License-Identifier: MIT
 *
 * Pass drop_dead: what an output needs, through views and epilogues too, stays; the rest goes.
 */
#include "graph_fixture.h"

static void what_nobody_needs_goes(void **state) {
  (void)state;
  kernel_stage stage;
  open_kernels(&stage, NULL, 0);
  ord_graph *graph = new_graph();
  const uint32_t x = add_input(graph, "x", ORD_F32, "2,8");
  const uint32_t a = add_unary(graph, "relu", "a", x), dead = add_unary(graph, "relu", "dead", a);
  (void)add_unary(graph, "relu", "more", dead);
  add_output(graph, "y", add_unary(graph, "silu", "y", a));
  graph = bind(graph, -1);
  assert_int_equal(graph->node_count, 2); /* binding drops it already */
  add_unary(graph, "relu", "late", a);
  graph = run_pass(&stage, "drop_dead", graph);
  assert_int_equal(graph->node_count, 2);
  assert_null(find_node(graph, "late"));
  assert_int_equal(graph->value[dead].index, ORD_NONE);
  assert_int_equal(graph->value[graph->output[0].value].index, 1);
  ord_graph_destroy(graph);
  close_kernels(&stage);
}

static void makers_of_parts_and_side_results_stay(void **state) {
  (void)state;
  kernel_stage stage;
  test_kernel kernel = make_kernel("matmul_test", "matmul");
  kernel.epilogue_max = 2;
  open_kernels(&stage, &kernel, 1);
  ord_graph *graph = new_graph();
  const uint32_t x = add_input(graph, "x", ORD_F32, "2,8");
  const uint32_t a = add_unary(graph, "relu", "a", x), b = add_unary(graph, "silu", "b", x);
  const ord_attr axis = {.name = "axis", .kind = ORD_ATTR_INT, .count = 1, .value.i = -1};
  add_output(
      graph, "joined",
      add_node(graph, (node_text){"concat", "joined", .in = {a, b}, .in_count = 2, .attr = {axis}, .attr_count = 1}));
  const uint32_t h = add_matmul(graph, "h", x, add_weight(graph, "w", 8, 8, false));
  const uint32_t sum = add_binary(graph, "add", "sum", h, x);
  add_output(graph, "norm", add_norm(graph, "norm", sum));
  add_output(graph, "sum", add_unary(graph, "relu", "y", sum));
  graph = run_pass(&stage, "fold_epilogues", run_pass(&stage, "make_views", bind(graph, -1)));
  graph->output[1].value = graph->output[2].value; /* nobody wants the norm any more, but the sum behind y */
  graph = run_pass(&stage, "drop_dead", graph);
  assert_int_equal(count_op(graph, "concat"), 0);
  assert_non_null(find_node(graph, "a")); /* each makes a part of joined, which no node makes */
  assert_non_null(find_node(graph, "b"));
  assert_non_null(find_node(graph, "sum"));
  assert_ptr_equal(find_node(graph, "sum"), find_node(graph, "norm"));
  assert_int_equal(graph->node_count, 4);
  ord_graph_destroy(graph);
  close_kernels(&stage);
}

static void results_that_nobody_reads_are_not_asked_for(void **state) {
  (void)state;
  kernel_stage stage;
  open_kernels(&stage, NULL, 0);
  ord_graph *graph = new_graph();
  const uint32_t q = add_input(graph, "q", ORD_F32, "1,2,seq,4");
  const ord_attr causal = {.name = "causal", .kind = ORD_ATTR_BOOL, .count = 1};
  uint32_t out[4];
  add_results(graph,
              (node_text){"attention", "a", .in = {q, q, q}, .in_count = 3, .out = {"a", "p"}, .out_count = 2,
                          .attr = {causal}, .attr_count = 1},
              out);
  add_output(graph, "a", out[0]);
  add_output(graph, "p", out[1]);
  assert_int_equal(graph->node[0].out_count, 2);
  graph = bind(graph, -1);
  assert_int_equal(graph->node[0].out_count, 2);
  graph->output_count = 1;
  graph = run_pass(&stage, "drop_dead", graph);
  assert_int_equal(graph->node[0].out_count, 1);
  ord_graph_destroy(graph);
  close_kernels(&stage);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_nobody_needs_goes),
      cmocka_unit_test(makers_of_parts_and_side_results_stay),
      cmocka_unit_test(results_that_nobody_reads_are_not_asked_for),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
