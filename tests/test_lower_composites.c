/* SPDX-License-Identifier: MIT
 *
 * Pass lower_composites: written out where only the reference serves, whole where a kernel or a pin wants it; and what
 * a plan makes of a composite that the pass did not see.
 */
#include "graph_fixture.h"

static ord_graph *make_mlp(void) {
  ord_graph *graph = new_graph();
  const uint32_t x = add_input(graph, "x", ORD_F32, "1,seq,8");
  const uint32_t up = add_weight(graph, "up", 12, 8, false), down = add_weight(graph, "down", 8, 12, false);
  const uint32_t gate = add_weight(graph, "gate", 12, 8, false);
  const uint32_t h = add_node(
      graph, (node_text){"mlp", "layer.0.h", .in = {x, up, down, gate}, .in_count = 4,
                         .attr = {{.name = "activation", .kind = ORD_ATTR_WORD, .count = 1, .value.s = "silu"}},
                         .attr_count = 1});
  add_output(graph, "y", add_binary(graph, "add", "layer.0.y", x, h));
  return bind(graph, -1);
}

static void what_nobody_serves_is_written_out(void **state) {
  (void)state;
  kernel_stage stage;
  open_kernels(&stage, NULL, 0);
  ord_graph *graph = run_pass(&stage, "lower_composites", make_mlp());
  static const char *const wanted[] = {"layer.0.h.matmul",   "layer.0.h.silu",     "layer.0.h.mul",
                                       "layer.0.h.matmul#2", "layer.0.h.matmul#3", "layer.0.y"};
  assert_int_equal(count_op(graph, "mlp"), 0);
  assert_int_equal(graph->node_count, 6);
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
    if (!find_node(graph, wanted[i])) fail_msg("%s is not there", wanted[i]);
  /* The last part makes the composite's own value: name, path and readers stay. */
  const ord_graph_node *down = find_node(graph, "layer.0.h.matmul#3"), *add = find_node(graph, "layer.0.y");
  const ord_value *h = &graph->value[down->out[0]];
  assert_string_equal(h->path, "layer.0.h");
  assert_int_equal(add->in[1], down->out[0]);
  assert_ptr_equal(&graph->node[h->index], down);
  assert_int_equal(h->stride[1], 8);
  ord_graph_destroy(graph);
  close_kernels(&stage);
}

static void what_a_kernel_serves_stays(void **state) {
  (void)state;
  kernel_stage stage;
  test_kernel kernel = make_kernel("mlp_whole", "mlp");
  open_kernels(&stage, &kernel, 1);
  ord_graph *graph = run_pass(&stage, "lower_composites", make_mlp());
  assert_int_equal(count_op(graph, "mlp"), 1);
  ord_graph_destroy(graph);
  close_kernels(&stage);
}

static void what_a_pin_selects_stays(void **state) {
  (void)state;
  static const ord_pin pin[] = {{.selector = "layer.0.h", .kernel = "mlp_reference"}};
  kernel_stage stage;
  open_kernels(&stage, NULL, 0);
  stage.chooser.pin = pin;
  stage.chooser.pin_count = 1;
  ord_graph *graph = run_pass(&stage, "lower_composites", make_mlp());
  assert_int_equal(count_op(graph, "mlp"), 1);
  ord_graph_destroy(graph);
  close_kernels(&stage);
}

static void heads_are_joined_by_views(void **state) {
  (void)state;
  kernel_stage stage;
  open_kernels(&stage, NULL, 0);
  ord_graph *graph = new_graph();
  const uint32_t a = add_input(graph, "a", ORD_F32, "1,2,seq,4"), wo = add_weight(graph, "wo", 8, 8, false);
  add_output(graph, "y", add_node(graph, (node_text){"concat_projection", "y", .in = {a, wo}, .in_count = 2}));
  graph = run_pass(&stage, "lower_composites", bind(graph, -1));
  assert_int_equal(graph->node_count, 3);
  assert_non_null(find_node(graph, "y.transpose"));
  assert_non_null(find_node(graph, "y.reshape"));
  assert_non_null(find_node(graph, "y.matmul"));
  assert_string_equal(graph->value[graph->output[0].value].path, "y");
  ord_graph_destroy(graph);
  close_kernels(&stage);
}

static ord_plan *plan_without_pass(kernel_stage *stage, ord_graph *graph) {
  const ord_lower_options options = {.chooser = &stage->chooser, .dry = true};
  ord_plan *plan = NULL;
  MUST(ord_plan_create(graph, &options, &plan, &err));
  ord_graph_destroy(graph);
  return plan;
}

static void a_plan_writes_out_what_the_pass_left(void **state) {
  (void)state;
  static const char *const wanted[] = {"layer.0.h.matmul", "layer.0.h.matmul#2", "layer.0.h.silu",
                                       "layer.0.h.mul",    "layer.0.h.matmul#3", "layer.0.y"};
  kernel_stage stage;
  test_kernel kernel = make_kernel("matmul_test", "matmul");
  open_kernels(&stage, &kernel, 1);
  ord_plan *plan = plan_without_pass(&stage, make_mlp());
  assert_int_equal(plan->written_out_count, 1);
  assert_int_equal(plan->step_count, 6);
  for (uint32_t i = 0; i < 6; i++) {
    const ord_step *step = &plan->step[i];
    assert_string_equal(step->path[0], wanted[i]);
    assert_int_equal(step->choice.kernel == &kernel.kernel, strcmp(step->node.op, "matmul") == 0);
  }
  ord_plan_destroy(plan);
  close_kernels(&stage);
}

static void a_plan_leaves_whole_what_is_served_or_pinned(void **state) {
  (void)state;
  static const ord_pin pin[] = {{.selector = "mlp", .kernel = "mlp_reference"}};
  kernel_stage stage;
  test_kernel kernel[] = {make_kernel("matmul_test", "matmul"), make_kernel("mlp_whole", "mlp")};
  for (uint32_t is_pinned = 0; is_pinned < 2; is_pinned++) {
    open_kernels(&stage, kernel, 2 - is_pinned);
    stage.chooser.pin = pin;
    stage.chooser.pin_count = is_pinned;
    ord_plan *plan = plan_without_pass(&stage, make_mlp());
    assert_int_equal(plan->written_out_count, 0);
    assert_int_equal(plan->step_count, 2);
    assert_string_equal(plan->step[0].choice.kernel->name, is_pinned ? "mlp_reference" : "mlp_whole");
    ord_plan_destroy(plan);
    close_kernels(&stage);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_nobody_serves_is_written_out),
      cmocka_unit_test(what_a_kernel_serves_stays),
      cmocka_unit_test(what_a_pin_selects_stays),
      cmocka_unit_test(heads_are_joined_by_views),
      cmocka_unit_test(a_plan_writes_out_what_the_pass_left),
      cmocka_unit_test(a_plan_leaves_whole_what_is_served_or_pinned),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
