/* SPDX-License-Identifier: MIT
 *
 * The op graph: nodes and their faults, copies, text, the sampler behind the logits, parameters per part.
 */
#include "graph_fixture.h"

static char told[512];

static void note(ord_infer *infer, const char *slot_or_attr, uint32_t entry, const char *text) {
  snprintf(told, sizeof told, "%s|%u|%s|%s", slot_or_attr ? slot_or_attr : "-", entry, text,
           (const char *)infer->report_context);
}

static void a_node_gets_defaults_and_shapes(void **state) {
  (void)state;
  ord_graph *graph = new_graph();
  const uint32_t x = add_input(graph, "x", ORD_F32, "1,seq,12");
  const uint32_t w = add_weight(graph, "w", 8, 12, false);
  const uint32_t y = add_matmul(graph, "y", x, w);
  const uint32_t soft = add_unary(graph, "softmax", "p", y);
  assert_string_equal(graph->value[y].name, "y");
  ord_text shape = {0};
  ord_graph_print_shape(&shape, graph, y);
  assert_string_equal(shape.bytes, "[1, seq, 8]");
  ord_text_finish(&shape);
  ord_graph_print_shape(&shape, graph, w);
  assert_string_equal(shape.bytes, "[out 8, in 12]");
  ord_text_finish(&shape);
  const ord_graph_node *node = &graph->node[graph->value[soft].index];
  assert_int_equal(node->attr_count, 1);
  assert_string_equal(node->attr[0].name, "axis");
  assert_int_equal(node->attr[0].value.i, 2); /* -1, resolved */
  ord_graph_destroy(graph);
}

static void a_number_becomes_an_attribute(void **state) {
  (void)state;
  ord_graph *graph = new_graph();
  const uint32_t in[] = {ORD_NONE, add_input(graph, "x", ORD_F32, "4")};
  const double number[] = {2.5, 0};
  const bool has_number[] = {true, false};
  const char *const name[] = {"y"};
  const ord_node_spec spec = {.op = ord_op_find("sub"),
                              .in = in,
                              .in_count = 2,
                              .number = number,
                              .has_number = has_number,
                              .cache = ORD_NONE,
                              .out_name = name,
                              .out_path = name,
                              .out_count = 1,
                              .path = "y"};
  uint32_t y;
  MUST(ord_graph_add_node(graph, &spec, &y, &err));
  const ord_graph_node *node = &graph->node[0];
  assert_int_equal(node->in[0], ORD_NONE);
  assert_string_equal(node->attr[node->attr_count - 1].name, "number");
  assert_true(node->attr[node->attr_count - 1].value.f == 2.5);
  ord_graph_destroy(graph);
}

static void faults_name_both_sides(void **state) {
  (void)state;
  ord_graph *graph = new_graph();
  const uint32_t in[] = {add_input(graph, "h", ORD_F32, "1,seq,384"), add_weight(graph, "wq", 384, 768, false),
                         ORD_NONE, ORD_NONE};
  graph->value[in[0]].line = 29;
  const char *const name[] = {"q"};
  ord_node_spec spec = {.op = ord_op_find("matmul"),
                        .in = in,
                        .in_count = 4,
                        .cache = ORD_NONE,
                        .out_name = name,
                        .out_path = name,
                        .out_count = 1,
                        .path = "layer.0.q",
                        .report = note,
                        .report_context = (void *)"ours"};
  uint32_t q;
  err = (ord_error)ORD_ERROR_INIT;
  assert_false(ord_graph_add_node(graph, &spec, &q, &err));
  assert_string_equal(told,
                      "weight|0|matmul: in 'h' [1, seq, 384] (line 29) ends in 384, weight 'wq' [out 384, in 768] "
                      "(line 17) has in = 768; wanted equal|ours");
  assert_int_equal(err.code, ORD_OK); /* whoever is told fills what he likes */
  spec.report = NULL;
  MUST_FAIL(ord_graph_add_node(graph, &spec, &q, &err), "has in = 768; wanted equal (in layer.0.q)");
  graph->weight[0].has_axes = false;
  MUST_FAIL(ord_graph_add_node(graph, &spec, &q, &err),
            "matmul: weight 'wq' [384, 768] has no named axes; wanted shape: [out: .., in: ..] or [in: .., out: ..] "
            "(line 17)");
  assert_int_equal(graph->node_count, 0);
  ord_graph_destroy(graph);
}

static void optional_results_that_nobody_names_are_not_asked_for(void **state) {
  (void)state;
  ord_graph *graph = new_graph();
  const uint32_t x = add_input(graph, "x", ORD_F32, "1,2,seq,4");
  uint32_t out[4];
  const ord_attr causal = {.name = "causal", .kind = ORD_ATTR_BOOL, .count = 1};
  add_results(graph,
              (node_text){"attention", "a", .in = {x, x, x}, .in_count = 3, .out = {"a", NULL}, .out_count = 2,
                          .attr = {causal}, .attr_count = 1},
              out);
  assert_int_equal(graph->node[0].out_count, 1);
  assert_int_equal(out[1], ORD_NONE);
  const ord_attr axis = {.name = "axis", .kind = ORD_ATTR_INT, .count = 1, .value.i = 1};
  add_results(graph,
              (node_text){"split", "s", .in = {x}, .in_count = 1, .out = {"s", NULL}, .out_count = 2, .attr = {axis},
                          .attr_count = 1},
              out);
  assert_int_equal(graph->node[1].out_count, 2); /* how many parts there are is what split goes by */
  ord_graph_destroy(graph);
}

static void a_cache_takes_its_shape_from_the_attention(void **state) {
  (void)state;
  ord_graph *graph = new_graph();
  graph->cache[0] = (ord_graph_cache){.name = "kv.0", .length = constant(graph, 16)};
  graph->cache_count = 1;
  const uint32_t q = add_input(graph, "q", ORD_F32, "2,6,seq,4"), k = add_input(graph, "k", ORD_F32, "2,3,seq,4");
  const uint32_t v = add_input(graph, "v", ORD_F32, "2,3,seq,5");
  add_attention(graph, "a", q, k, v, true);
  assert_int_equal(graph->cache[0].kv_heads, 3);
  assert_int_equal(graph->cache[0].k_dim, 4);
  assert_int_equal(graph->cache[0].v_dim, 5);
  assert_true(ord_size_equal(graph->cache[0].batch, graph->value[k].dim[0]));
  ord_graph_destroy(graph);
}

static ord_graph *make_decoder(void) {
  ord_graph *graph = new_graph();
  const uint32_t x = add_input(graph, "x", ORD_F32, "1,8");
  const uint32_t up = add_weight(graph, "up", 12, 8, false), head = add_weight(graph, "head", 8, 12, true);
  const uint32_t h = add_matmul(graph, "layer.0.mlp.h", x, up);
  const uint32_t l = add_matmul(graph, "layer.10.mlp.l", h, head);
  const uint32_t y = add_binary(graph, "add", "layer.10.y", l, x);
  add_output(graph, "logits", y);
  return graph;
}

static void a_copy_shares_nothing(void **state) {
  (void)state;
  ord_graph *graph = make_decoder(), *copy = NULL;
  ord_text before = {0}, after = {0};
  ord_graph_print(&before, graph);
  MUST(ord_graph_copy(graph, &copy, &err));
  ord_graph_destroy(graph); /* under the address sanitizer a shared pointer shows now */
  ord_graph_print(&after, copy);
  assert_string_equal(before.bytes, after.bytes);
  assert_non_null(strstr(after.bytes, "matmul  # layer.0.mlp.h"));
  assert_non_null(strstr(after.bytes, "head f32 [in 12, out 8]"));
  assert_non_null(strstr(after.bytes, "output logits: layer.10.y f32 [1, 8]"));
  ord_text_finish(&before);
  ord_text_finish(&after);
  ord_graph_destroy(copy);
}

static void the_sampler_stands_behind_the_logits(void **state) {
  (void)state;
  ord_graph *graph = make_decoder(), *sampled = NULL;
  MUST(ord_graph_append_sample(graph, "logits", &sampled, &err));
  assert_int_equal(graph->output_count, 1);
  assert_int_equal(sampled->output_count, 2);
  const ord_value *out = &sampled->value[sampled->output[ord_graph_find_output(sampled, "sample.id")].value];
  assert_int_equal(out->dtype, ORD_I32);
  assert_int_equal(out->rank, 1);
  static const char *const name[] = {"temperature", "top_k", "top_p", "seed", "counter"};
  const ord_graph_node *node = &sampled->node[out->index];
  for (uint32_t i = 0; i < 5; i++) {
    char input[64];
    snprintf(input, sizeof input, "sample.%s", name[i]);
    const uint32_t found = ord_graph_find_input(sampled, input);
    assert_int_not_equal(found, ORD_NONE);
    assert_int_equal(node->in[1 + i], sampled->input[found].value);
  }
  MUST_FAIL(ord_graph_append_sample(graph, "next", &sampled, &err), "output 'next' is not there");
  ord_graph_destroy(sampled);
  ord_graph_destroy(graph);
  ord_graph_destroy(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_node_gets_defaults_and_shapes),
      cmocka_unit_test(a_number_becomes_an_attribute),
      cmocka_unit_test(faults_name_both_sides),
      cmocka_unit_test(optional_results_that_nobody_names_are_not_asked_for),
      cmocka_unit_test(a_cache_takes_its_shape_from_the_attention),
      cmocka_unit_test(a_copy_shares_nothing),
      cmocka_unit_test(the_sampler_stands_behind_the_logits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
