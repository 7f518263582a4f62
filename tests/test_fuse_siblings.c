/* SPDX-License-Identifier: MIT
 *
 * Pass fuse_siblings: which projections become one, what the one looks like, and what keeps them apart.
 */
#include "graph_fixture.h"

/* What differs from three projections q [8], k [4], v [4] of the same x. */
typedef struct sibling_case {
  const char *about;
  bool in_first, with_bias, lacks_one_bias, other_input, shares_weight, has_other_dtype;
  bool no_kernel, packs;
  ord_pin pin;
  uint32_t wanted, fused; /* matmuls and fused weights afterwards */
} sibling_case;

static ord_graph *make_graph(const sibling_case *variant) {
  ord_graph *graph = new_graph();
  const uint32_t x = add_input(graph, "x", ORD_F32, "1,seq,8"), other = add_input(graph, "other", ORD_F32, "1,seq,8");
  static const char *const path[] = {"l.q", "l.k", "l.v"}, *const weight[] = {"wq", "wk", "wv"},
                           *const bias[] = {"bq", "bk", "bv"};
  for (uint32_t i = 0; i < 3; i++) {
    const int64_t rows = i == 0 && !variant->in_first ? 8 : 4;
    const uint32_t w = add_weight(graph, weight[i], rows, 8, variant->in_first);
    const bool has_bias = variant->with_bias && !(variant->lacks_one_bias && i == 2);
    const uint32_t b = has_bias ? add_weight(graph, bias[i], 0, rows, false) : ORD_NONE;
    const uint32_t from = variant->other_input && i == 2 ? other : x;
    const uint32_t y = add_node(graph, (node_text){"matmul", path[i], .in = {from, w, ORD_NONE, b}, .in_count = 4});
    add_output(graph, path[i], y);
    if (variant->shares_weight && i == 2) add_output(graph, "again", add_matmul(graph, "again", other, w));
  }
  graph = bind(graph, -1);
  if (variant->has_other_dtype) graph->value[graph->node[2].in[1]].dtype = ORD_BF16;
  return graph;
}

static ord_graph *fuse(const sibling_case *variant) {
  kernel_stage stage;
  test_kernel kernel = make_kernel("matmul_test", "matmul");
  kernel.packs = variant->packs;
  open_kernels(&stage, &kernel, variant->no_kernel ? 0 : 1);
  stage.chooser.pin = &variant->pin;
  stage.chooser.pin_count = variant->pin.selector != NULL;
  ord_graph *graph = run_pass(&stage, "fuse_siblings", make_graph(variant));
  close_kernels(&stage);
  return graph;
}

static void rows(void **state) {
  (void)state;
  static const sibling_case row[] = {
      {.about = "all alike", .wanted = 1, .fused = 1},
      {.about = "with biases", .with_bias = true, .wanted = 1, .fused = 2},
      {.about = "one lacks the bias", .with_bias = true, .lacks_one_bias = true, .wanted = 2, .fused = 2},
      {.about = "one reads another value", .other_input = true, .wanted = 2, .fused = 1},
      {.about = "a weight with another reader", .shares_weight = true, .wanted = 3, .fused = 1},
      {.about = "a weight of another type", .has_other_dtype = true, .wanted = 2, .fused = 1},
      {.about = "only the reference serves", .no_kernel = true, .wanted = 3, .fused = 0},
      {.about = "rows side by side, used as stored", .in_first = true, .wanted = 3, .fused = 0},
      {.about = "rows side by side, packed", .in_first = true, .packs = true, .wanted = 1, .fused = 1},
      {.about = "a pin on one of them, whose kernel serves",
       .pin = {"l.k", "matmul_test", NULL},
       .wanted = 1,
       .fused = 1},
      {.about = "a pin to the reference", .pin = {"l.k", "matmul_reference", NULL}, .wanted = 3, .fused = 0},
      {.about = "a pin on the op", .pin = {"matmul", "matmul_test", NULL}, .wanted = 1, .fused = 1},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_graph *graph = fuse(&row[i]);
    if (count_op(graph, "matmul") != row[i].wanted) fail_msg("%s: %u matmuls", row[i].about, count_op(graph, "matmul"));
    if (graph->fused_count != row[i].fused) fail_msg("%s: %u fused weights", row[i].about, graph->fused_count);
    ord_graph_destroy(graph);
  }
}

static void one_weight_of_three_parts_and_a_split(void **state) {
  (void)state;
  const sibling_case all = {.with_bias = true};
  ord_graph *graph = fuse(&all);
  assert_int_equal(graph->node_count, 2);
  const ord_graph_node *whole = &graph->node[0], *split = &graph->node[1];
  assert_int_equal(whole->path_count, 3);
  assert_ptr_equal(find_node(graph, "l.v"), whole);
  const ord_fused_weight *weight = &graph->fused[0];
  assert_int_equal(weight->value, whole->in[1]);
  assert_int_equal(weight->part_count, 3);
  static const char *const part[] = {"wq", "wk", "wv"};
  for (uint32_t i = 0; i < 3; i++) assert_string_equal(graph->weight[weight->part[i]].name, part[i]);
  int64_t out = 0, size = 0;
  assert_true(ord_size_is_constant(graph->value[whole->in[1]].dim[0], &out));
  assert_int_equal(out, 16);
  assert_int_equal(graph->value[whole->in[1]].stride[0], 8);
  assert_int_equal(graph->fused[1].value, whole->in[3]);
  assert_string_equal(split->op->name, "split");
  assert_int_equal(split->in[0], whole->out[0]);
  assert_int_equal(split->out_count, 3);
  for (uint32_t i = 0; i < 3; i++) {
    const ord_value *value = &graph->value[split->out[i]];
    assert_int_equal(split->out[i], graph->output[i].value); /* the old values, so their readers notice nothing */
    assert_int_equal(value->index, 1);
    assert_true(ord_size_is_constant(value->dim[2], &size));
    assert_int_equal(size, i == 0 ? 8 : 4);
  }
  ord_graph_destroy(graph);
}

static void many_siblings_become_several(void **state) {
  (void)state;
  static char path[40][8], weight[40][8];
  kernel_stage stage;
  test_kernel kernel = make_kernel("matmul_test", "matmul");
  open_kernels(&stage, &kernel, 1);
  ord_graph *graph = new_graph();
  const uint32_t x = add_input(graph, "x", ORD_F32, "1,seq,8");
  for (uint32_t i = 0; i < 40; i++) {
    snprintf(path[i], sizeof path[i], "p%u", i);
    snprintf(weight[i], sizeof weight[i], "w%u", i);
    add_output(graph, path[i], add_matmul(graph, path[i], x, add_weight(graph, weight[i], 4, 8, false)));
  }
  graph = run_pass(&stage, "fuse_siblings", bind(graph, -1));
  assert_int_equal(count_op(graph, "matmul"), 2);
  assert_int_equal(graph->fused[0].part_count, 32);
  assert_int_equal(graph->fused[1].part_count, 8);
  ord_graph_destroy(graph);
  close_kernels(&stage);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows),
      cmocka_unit_test(one_weight_of_three_parts_and_a_split),
      cmocka_unit_test(many_siblings_become_several),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
