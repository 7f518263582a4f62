/* SPDX-License-Identifier: MIT
 *
 * The driver of the passes: order, switching off, records, and prints.
 */
#include "graph_fixture.h"

/* Two projections of x; one is reshaped, three pointwise ops behind. */
static ord_graph *make_graph(void) {
  ord_graph *graph = new_graph();
  const uint32_t x = add_input(graph, "x", ORD_F32, "2,seq,8");
  const uint32_t a = add_matmul(graph, "a", x, add_weight(graph, "wa", 8, 8, false));
  const uint32_t b = add_matmul(graph, "b", x, add_weight(graph, "wb", 8, 8, false));
  const uint32_t r = add_reshape(graph, "r", add_unary(graph, "silu", "s", a), "2,seq,2,4");
  const uint32_t t = add_unary(graph, "tanh", "t", r), u = add_unary(graph, "sigmoid", "u", t);
  add_output(graph, "y", add_unary(graph, "relu", "y", u));
  add_output(graph, "z", add_matmul(graph, "z", b, add_weight(graph, "wz", 4, 8, false)));
  return bind(graph, -1);
}

static void the_list_is_as_documented(void **state) {
  (void)state;
  static const char *const wanted[] = {"lower_composites", "fuse_siblings", "make_views",
                                       "fold_epilogues",   "drop_dead",     "plan_memory"};
  assert_int_equal(ord_pass_count(), sizeof wanted / sizeof *wanted);
  for (uint32_t i = 0; i < ord_pass_count(); i++) assert_string_equal(ord_pass_get(i)->name, wanted[i]);
  assert_null(ord_pass_get(ord_pass_count()));
}

static void count_print(void *context, const ord_pass *pass, const ord_graph *graph) {
  (void)pass, (void)graph;
  ++*(int *)context;
}

static void records_tell_what_each_did(void **state) {
  (void)state;
  kernel_stage stage;
  test_kernel kernel = make_kernel("matmul_test", "matmul");
  kernel.epilogue_max = 4;
  open_kernels(&stage, &kernel, 1);
  ord_graph *graph = make_graph(), *out = NULL;
  ord_pass_record record[6];
  int prints = 0;
  MUST(ord_passes_run(graph, &stage.options, record, count_print, &prints, &out, &err));
  assert_int_equal(record[0].ops_before, 8);
  assert_int_equal(record[1].ops_after, 8); /* two matmuls became one and a split */
  assert_int_equal(record[1].moved_after - record[1].moved_before, 2 * 2 * 16 * 8 * 4);
  assert_int_equal(record[2].ops_after, 6);
  assert_int_equal(record[2].moved_after, 0);
  assert_int_equal(record[5].ops_after, out->node_count);
  assert_true(record[5].peak_after < record[5].peak_before);
  for (uint32_t i = 1; i < 6; i++) {
    assert_int_equal(record[i].ops_before, record[i - 1].ops_after);
    assert_int_equal(record[i].moved_before, record[i - 1].moved_after);
    assert_int_equal(record[i].peak_before, record[i - 1].peak_after);
    assert_false(record[i].was_disabled);
  }
  assert_int_equal(prints, 1 + 3); /* before; siblings, views, memory */
  assert_int_equal(graph->node_count, 8);
  ord_graph_destroy(out);
  ord_graph_destroy(graph);
  close_kernels(&stage);
}

static void each_can_be_switched_off(void **state) {
  (void)state;
  kernel_stage stage;
  test_kernel kernel = make_kernel("matmul_test", "matmul");
  open_kernels(&stage, &kernel, 1);
  ord_graph *graph = make_graph();
  const char *all[6];
  for (uint32_t i = 0; i < 6; i++) all[i] = ord_pass_get(i)->name;
  for (uint32_t i = 0; i < 6; i++) {
    ord_graph *out = NULL;
    ord_pass_record record[6];
    stage.options.disabled = &all[i];
    stage.options.disabled_count = 1;
    MUST(ord_passes_run(graph, &stage.options, record, NULL, NULL, &out, &err));
    assert_true(record[i].was_disabled);
    assert_int_equal(record[i].ops_before, record[i].ops_after);
    assert_int_equal(out->shares_memory, i != 5);
    ord_graph_destroy(out);
  }
  ord_graph *out = NULL;
  stage.options.disabled = all;
  stage.options.disabled_count = 6;
  MUST(ord_passes_run(graph, &stage.options, NULL, NULL, NULL, &out, &err));
  assert_int_equal(out->node_count, graph->node_count);
  ord_graph_destroy(out);
  static const char *const wrong[] = {"make_view"};
  stage.options.disabled = wrong;
  stage.options.disabled_count = 1;
  MUST_FAIL(ord_passes_run(graph, &stage.options, NULL, NULL, NULL, &out, &err),
            "--disable-pass: found 'make_view'; wanted one of lower_composites, fuse_siblings, make_views, ");
  ord_graph_destroy(graph);
  close_kernels(&stage);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_list_is_as_documented),
      cmocka_unit_test(records_tell_what_each_did),
      cmocka_unit_test(each_can_be_switched_off),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
