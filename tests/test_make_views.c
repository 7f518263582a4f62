/* SPDX-License-Identifier: MIT
 *
 * Pass make_views: what becomes a stride pattern, what kernels may refuse, and what has to copy.
 */
#include "graph_fixture.h"

static const char *strides(const ord_graph *graph, uint32_t value) {
  static char text[128];
  int length = 0;
  for (uint32_t axis = 0; axis < graph->value[value].rank; axis++)
    length += snprintf(text + length, sizeof text - (size_t)length, "%s%lld", axis ? "," : "",
                       (long long)graph->value[value].stride[axis]);
  return text;
}

static uint32_t copies(const ord_graph *graph) {
  static const char *const op[] = {"reshape", "transpose", "split", "slice", "concat"};
  uint32_t count = 0;
  for (size_t i = 0; i < sizeof op / sizeof *op; i++) count += count_op(graph, op[i]);
  return count;
}

/* q of fused projections -> heads -> attention -> joined heads -> projection: a layer's attention block. */
static ord_graph *make_block(void) {
  ord_graph *graph = new_graph();
  const uint32_t x = add_input(graph, "x", ORD_F32, "2,seq,8");
  const uint32_t qkv = add_matmul(graph, "qkv", x, add_weight(graph, "wqkv", 24, 8, false));
  uint32_t part[4], head[3];
  const ord_attr axis = {.name = "axis", .kind = ORD_ATTR_INT, .count = 1, .value.i = -1};
  add_results(graph,
              (node_text){"split", "split", .in = {qkv}, .in_count = 1, .out = {"q", "k", "v"}, .out_count = 3,
                          .attr = {axis}, .attr_count = 1},
              part);
  static const char *const reshape[] = {"q.r", "k.r", "v.r"}, *const swap[] = {"q.t", "k.t", "v.t"};
  for (uint32_t i = 0; i < 3; i++)
    head[i] = add_swap(graph, swap[i], add_reshape(graph, reshape[i], part[i], "2,seq,2,4"));
  const uint32_t a = add_attention(graph, "a", head[0], head[1], head[2], false);
  const uint32_t joined = add_reshape(graph, "join", add_swap(graph, "back", a), "2,seq,8");
  add_output(graph, "y", add_matmul(graph, "y", joined, add_weight(graph, "wo", 8, 8, false)));
  return bind(graph, -1);
}

static void an_attention_block_moves_no_bytes(void **state) {
  (void)state;
  kernel_stage stage;
  test_kernel kernel[] = {make_kernel("attention_test", "attention"), make_kernel("matmul_test", "matmul")};
  kernel[1].wants_dense_in = true; /* so that the heads have to be joined where they are made */
  open_kernels(&stage, kernel, 2);
  ord_graph *graph = run_pass(&stage, "make_views", make_block());
  assert_int_equal(copies(graph), 0);
  assert_int_equal(graph->node_count, 3);
  const ord_graph_node *attention = find_node(graph, "a"), *qkv = find_node(graph, "qkv");
  for (uint32_t i = 0; i < 3; i++) {
    const ord_value *head = &graph->value[attention->in[i]];
    assert_int_equal(head->storage, ORD_STORAGE_VIEW);
    assert_int_equal(head->base, qkv->out[0]); /* never a view of a view */
    assert_int_equal(head->offset, 8 * i);
    assert_string_equal(strides(graph, attention->in[i]), "384,4,24,1");
  }
  assert_int_equal(graph->value[attention->out[0]].storage, ORD_STORAGE_OWN);
  assert_string_equal(strides(graph, attention->out[0]), "128,4,8,1"); /* written in the order of [b, s, h, d] */
  const ord_graph_node *out = find_node(graph, "y");
  assert_int_equal(graph->value[out->in[0]].base, attention->out[0]);
  assert_string_equal(strides(graph, out->in[0]), "128,8,1");
  ord_graph_destroy(graph);
  close_kernels(&stage);
}

static void the_reference_takes_any_strides(void **state) {
  (void)state;
  kernel_stage stage;
  open_kernels(&stage, NULL, 0);
  ord_graph *graph = run_pass(&stage, "make_views", make_block());
  assert_int_equal(copies(graph), 0);
  ord_graph_destroy(graph);
  close_kernels(&stage);
}

static void a_kernel_that_wants_dense_operands_keeps_its_copies(void **state) {
  (void)state;
  kernel_stage stage;
  test_kernel kernel[] = {make_kernel("attention_test", "attention"), make_kernel("matmul_test", "matmul")};
  kernel[0].wants_dense_in = kernel[0].wants_dense_out = true;
  kernel[1].wants_dense_in = true;
  open_kernels(&stage, kernel, 2);
  ord_graph *graph = run_pass(&stage, "make_views", make_block());
  const ord_graph_node *attention = find_node(graph, "a");
  assert_int_equal(count_op(graph, "transpose"), 3); /* in front; behind it strides reach the reshape alone */
  assert_int_equal(count_op(graph, "reshape"), 1);
  for (uint32_t i = 0; i < 3; i++) assert_int_equal(graph->value[attention->in[i]].storage, ORD_STORAGE_OWN);
  ord_graph_destroy(graph);
  close_kernels(&stage);
}

static void a_pinned_view_keeps_its_kernel(void **state) {
  (void)state;
  static const ord_pin pin[] = {{.selector = "q.t", .kernel = "transpose_reference"}};
  kernel_stage stage;
  open_kernels(&stage, NULL, 0);
  stage.chooser.pin = pin;
  stage.chooser.pin_count = 1;
  ord_graph *graph = run_pass(&stage, "make_views", make_block());
  assert_int_equal(copies(graph), 1);
  assert_non_null(find_node(graph, "q.t"));
  ord_graph_destroy(graph);
  close_kernels(&stage);
}

static ord_attr axis_attr(int64_t axis) {
  return (ord_attr){.name = "axis", .kind = ORD_ATTR_INT, .count = 1, .value.i = axis};
}

/* Two heads, each with an attention of its own, joined on the last axis. */
static ord_graph *make_join(const char *shape, int64_t axis) {
  ord_graph *graph = new_graph();
  const uint32_t x = add_input(graph, "x", ORD_F32, "2,2,seq,4"), z = add_input(graph, "z", ORD_F32, "2,2,seq,4");
  const uint32_t a = add_reshape(graph, "a.r", add_unary(graph, "relu", "a", x), shape);
  const uint32_t b = add_reshape(graph, "b.r", add_unary(graph, "relu", "b", z), shape);
  add_output(graph, "y",
             add_node(graph, (node_text){"concat", "y", .in = {a, b}, .in_count = 2, .attr = {axis_attr(axis)},
                                         .attr_count = 1}));
  return bind(graph, -1);
}

static void inputs_of_a_concat_are_made_in_place(void **state) {
  (void)state;
  kernel_stage stage;
  test_kernel kernel = make_kernel("relu_test", "relu");
  open_kernels(&stage, &kernel, 1);
  ord_graph *graph = run_pass(&stage, "make_views", make_join("2,2,seq,4", -1));
  assert_int_equal(copies(graph), 0);
  assert_int_equal(graph->node_count, 2);
  const uint32_t joined = graph->output[0].value, b = find_node(graph, "b")->out[0];
  assert_int_equal(graph->value[joined].storage, ORD_STORAGE_OWN);
  assert_int_equal(graph->value[joined].index, ORD_NONE);
  assert_int_equal(graph->value[b].base, joined);
  assert_int_equal(graph->value[b].offset, 4);
  assert_string_equal(strides(graph, b), "256,128,8,1");
  ord_graph_destroy(graph);
  close_kernels(&stage);
}

static void what_a_concat_cannot_place_is_copied(void **state) {
  (void)state;
  kernel_stage stage;
  test_kernel kernel = make_kernel("relu_test", "relu");
  open_kernels(&stage, &kernel, 1);
  /* Along the run-time axis the second begins at another place in each run. */
  ord_graph *graph = run_pass(&stage, "make_views", make_join("2,2,seq,4", 2));
  assert_int_equal(count_op(graph, "concat"), 1);
  ord_graph_destroy(graph);
  close_kernels(&stage);
  kernel.wants_dense_out = true;
  open_kernels(&stage, &kernel, 1);
  graph = run_pass(&stage, "make_views", make_join("2,2,seq,4", -1));
  assert_int_equal(count_op(graph, "concat"), 1);
  assert_int_equal(graph->value[find_node(graph, "b")->out[0]].storage, ORD_STORAGE_OWN);
  ord_graph_destroy(graph);
  close_kernels(&stage);
}

static void an_entry_given_twice_is_copied(void **state) {
  (void)state;
  kernel_stage stage;
  open_kernels(&stage, NULL, 0);
  ord_graph *graph = new_graph();
  const uint32_t a = add_unary(graph, "relu", "a", add_input(graph, "x", ORD_F32, "2,4"));
  add_output(graph, "y",
             add_node(graph, (node_text){"concat", "y", .in = {a, a}, .in_count = 2, .attr = {axis_attr(0)},
                                         .attr_count = 1}));
  graph = run_pass(&stage, "make_views", bind(graph, -1));
  assert_int_equal(count_op(graph, "concat"), 1);
  ord_graph_destroy(graph);
  close_kernels(&stage);
}

static void inputs_and_weights_are_viewed_but_not_as_outputs(void **state) {
  (void)state;
  kernel_stage stage;
  open_kernels(&stage, NULL, 0);
  ord_graph *graph = new_graph();
  const uint32_t x = add_input(graph, "x", ORD_F32, "4,2"), w = add_weight(graph, "w", 0, 8, false);
  const uint32_t seen = add_reshape(graph, "seen", x, "8"), shown = add_reshape(graph, "shown", x, "2,4");
  const uint32_t weight = add_reshape(graph, "weight", w, "2,4");
  add_output(graph, "y", add_unary(graph, "relu", "y", seen));
  add_output(graph, "z", add_unary(graph, "relu", "z", weight));
  add_output(graph, "shown", shown); /* lies in memory that the next set changes: a copy */
  ord_graph *bound = bind(graph, -1);
  ord_graph *other = NULL;
  MUST(ord_graph_copy(bound, &other, &err));
  bound = run_pass(&stage, "make_views", bound);
  assert_int_equal(bound->value[seen].storage, ORD_STORAGE_VIEW);
  assert_int_equal(bound->value[weight].base, w);
  assert_int_equal(bound->value[shown].storage, ORD_STORAGE_OWN);
  assert_int_equal(count_op(bound, "reshape"), 1);
  other->value[w].dtype = ORD_BF16; /* the reshape is f32: it has to convert */
  other = run_pass(&stage, "make_views", other);
  assert_int_equal(other->value[weight].storage, ORD_STORAGE_OWN);
  ord_graph_destroy(other);
  ord_graph_destroy(bound);
  close_kernels(&stage);
}

/* The order of h's axes follows its reader only while nobody else looks into its memory. */
static void what_has_a_view_is_not_permuted(void **state) {
  (void)state;
  kernel_stage stage;
  test_kernel kernel = make_kernel("tanh_test", "tanh");
  kernel.wants_dense_in = true;
  open_kernels(&stage, &kernel, 1);
  for (uint32_t has_view = 0; has_view < 2; has_view++) {
    ord_graph *graph = new_graph();
    const uint32_t h = add_unary(graph, "relu", "h", add_input(graph, "x", ORD_F32, "2,seq,2,4"));
    if (has_view) add_output(graph, "r", add_unary(graph, "relu", "r", add_reshape(graph, "flat", h, "2,seq,8")));
    add_output(graph, "y", add_unary(graph, "tanh", "y", add_swap(graph, "turned", h)));
    graph = run_pass(&stage, "make_views", bind(graph, -1));
    assert_int_equal(count_op(graph, "reshape"), 0);
    assert_int_equal(count_op(graph, "transpose"), has_view);
    assert_string_equal(strides(graph, h), has_view ? "128,8,4,1" : "128,4,64,1");
    ord_graph_destroy(graph);
  }
  close_kernels(&stage);
}

/* Its parts, which lowering makes, were not asked: they get dense values. A pinned one reads any. */
static void a_composite_that_is_to_be_written_out_takes_no_strides(void **state) {
  (void)state;
  static const ord_pin pin[] = {{.selector = "concat_projection", .kernel = "concat_projection_reference"}};
  kernel_stage stage;
  open_kernels(&stage, NULL, 0);
  for (uint32_t is_pinned = 0; is_pinned < 2; is_pinned++) {
    stage.chooser.pin = pin;
    stage.chooser.pin_count = is_pinned;
    ord_graph *graph = new_graph();
    const uint32_t heads = add_swap(graph, "heads", add_input(graph, "x", ORD_F32, "2,seq,2,4"));
    const uint32_t y = add_node(graph, (node_text){"concat_projection", "y", .in_count = 2,
                                                   .in = {heads, add_weight(graph, "wo", 8, 8, false)}});
    add_output(graph, "y", add_swap(graph, "turned", add_reshape(graph, "split", y, "2,seq,2,4")));
    graph = run_pass(&stage, "make_views", bind(graph, -1));
    assert_int_equal(graph->value[heads].storage, is_pinned ? ORD_STORAGE_VIEW : ORD_STORAGE_OWN);
    assert_string_equal(strides(graph, y), "128,8,1");
    ord_graph_destroy(graph);
  }
  close_kernels(&stage);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_attention_block_moves_no_bytes),
      cmocka_unit_test(the_reference_takes_any_strides),
      cmocka_unit_test(a_kernel_that_wants_dense_operands_keeps_its_copies),
      cmocka_unit_test(a_pinned_view_keeps_its_kernel),
      cmocka_unit_test(inputs_of_a_concat_are_made_in_place),
      cmocka_unit_test(what_a_concat_cannot_place_is_copied),
      cmocka_unit_test(an_entry_given_twice_is_copied),
      cmocka_unit_test(inputs_and_weights_are_viewed_but_not_as_outputs),
      cmocka_unit_test(what_has_a_view_is_not_permuted),
      cmocka_unit_test(a_composite_that_is_to_be_written_out_takes_no_strides),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
