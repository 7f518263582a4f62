/* SPDX-License-Identifier: MIT
 *
 * Binding: exact dims and maxima, strides, the types of the weights, what is asked for and what falls away.
 */
#include "graph_fixture.h"

/* y = (x w) + x, z = gelu of it; two results, one of which nobody needs. */
static ord_graph *make_graph(void) {
  ord_graph *graph = new_graph();
  const uint32_t x = add_input(graph, "x", ORD_F32, "2,seq,8");
  const uint32_t w = add_weight(graph, "w", 8, 8, true);
  const uint32_t h = add_matmul(graph, "layer.0.h", x, w);
  const uint32_t y = add_binary(graph, "add", "layer.0.y", h, x);
  add_output(graph, "y", y);
  add_output(graph, "z", add_unary(graph, "gelu_tanh", "layer.0.z", y));
  return graph;
}

static const int64_t maximum = 16;

static ord_graph *bind_with(const ord_graph *graph, int64_t seq, const char *output, const char *keep) {
  const ord_bind_options options = {.binding = {&seq, &maximum},
                                    .output = &output,
                                    .output_count = output != NULL,
                                    .keep = &keep,
                                    .keep_count = keep != NULL};
  ord_graph *bound = NULL;
  MUST(ord_graph_bind(graph, &options, &bound, &err));
  return bound;
}

static void open_dims_get_their_maximum(void **state) {
  (void)state;
  ord_graph *graph = make_graph(), *bound = bind_with(graph, -1, NULL, NULL);
  const ord_value *x = &bound->value[bound->input[0].value];
  int64_t exact;
  assert_true(bound->is_bound);
  assert_int_equal(bound->bound[0], 16);
  assert_false(ord_size_is_constant(x->dim[1], &exact));
  assert_int_equal(x->stride[0], 16 * 8);
  assert_int_equal(x->stride[1], 8);
  assert_int_equal(x->stride[2], 1);
  const ord_value *w = &bound->value[bound->node[0].in[1]];
  assert_int_equal(w->stride[0], 1); /* in first */
  assert_int_equal(w->stride[1], 8);
  assert_int_equal(w->dtype, ORD_F32);
  assert_false(graph->is_bound);
  ord_graph_destroy(bound);
  ord_graph_destroy(graph);
}

static void exact_dims_are_put_in(void **state) {
  (void)state;
  ord_graph *graph = make_graph(), *bound = bind_with(graph, 3, NULL, NULL);
  const ord_value *y = &bound->value[bound->output[0].value];
  int64_t exact = 0;
  assert_true(ord_size_is_constant(y->dim[1], &exact));
  assert_int_equal(exact, 3);
  assert_int_equal(y->stride[0], 3 * 8);
  ord_graph_destroy(bound);
  ord_graph_destroy(graph);
}

static void only_what_is_asked_for_stays(void **state) {
  (void)state;
  ord_graph *graph = make_graph(), *bound = bind_with(graph, -1, "y", NULL);
  assert_int_equal(bound->output_count, 1);
  assert_int_equal(bound->node_count, 2);
  assert_null(find_node(bound, "layer.0.z"));
  ord_graph_destroy(bound);
  bound = bind_with(graph, -1, "y", "layer.0.z");
  assert_int_equal(bound->output_count, 2);
  assert_string_equal(bound->output[1].name, "layer.0.z");
  assert_int_equal(bound->node_count, 3);
  ord_graph_destroy(bound);
  ord_graph_destroy(graph);
}

static void unknown_names_get_a_hint(void **state) {
  (void)state;
  ord_graph *graph = make_graph(), *bound = NULL;
  const char *const output[] = {"yy"}, *const keep[] = {"layer.0.hh"};
  const int64_t open = -1;
  ord_bind_options options = {.binding = {&open, &maximum}, .output = output, .output_count = 1};
  MUST_FAIL(ord_graph_bind(graph, &options, &bound, &err), "output 'yy' is not in the graph");
  options = (ord_bind_options){.binding = {&open, &maximum}, .keep = keep, .keep_count = 1};
  MUST_FAIL(ord_graph_bind(graph, &options, &bound, &err),
            "layer path 'layer.0.hh' is not in the graph; did you mean 'layer.0.h'?");
  assert_null(bound);
  ord_graph_destroy(graph);
}

static void one_cache_keeps_all(void **state) {
  (void)state;
  ord_graph *graph = new_graph();
  graph->cache[0] = (ord_graph_cache){.name = "kv", .length = constant(graph, 16)};
  graph->cache_count = 1;
  const uint32_t q = add_input(graph, "q", ORD_F32, "1,2,seq,4");
  const uint32_t before = add_unary(graph, "silu", "before", q);
  const uint32_t a = add_attention(graph, "a", before, q, q, true);
  const uint32_t b = add_attention(graph, "b", q, q, q, true);
  add_output(graph, "first", a);
  add_output(graph, "second", b);
  add_output(graph, "plain", add_unary(graph, "relu", "plain", q));
  ord_graph *bound = bind_with(graph, -1, "second", NULL);
  assert_non_null(find_node(bound, "a"));
  assert_non_null(find_node(bound, "before"));
  assert_null(find_node(bound, "plain"));
  ord_graph_destroy(bound);
  bound = bind_with(graph, -1, "plain", NULL);
  assert_int_equal(bound->node_count, 1);
  ord_graph_destroy(bound);
  ord_graph_destroy(graph);
}

static void too_large_is_an_error(void **state) {
  (void)state;
  ord_graph *graph = new_graph(), *bound = NULL;
  const uint32_t x = add_input(graph, "x", ORD_F32, "1000000000000,1000000000000");
  add_output(graph, "y", add_unary(graph, "relu", "y", x));
  const int64_t open = -1;
  const ord_bind_options options = {.binding = {&open, &maximum}};
  MUST_FAIL(ord_graph_bind(graph, &options, &bound, &err), "'x' is too large");
  ord_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(open_dims_get_their_maximum),  cmocka_unit_test(exact_dims_are_put_in),
      cmocka_unit_test(only_what_is_asked_for_stays), cmocka_unit_test(unknown_names_get_a_hint),
      cmocka_unit_test(one_cache_keeps_all),          cmocka_unit_test(too_large_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
