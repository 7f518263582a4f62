/* SPDX-License-Identifier: MIT
 *
 * Pass fold_epilogues: what becomes an item, in which order, and what a kernel, a reader or a pin keeps apart.
 */
#include "graph_fixture.h"

/* "add+ gelu_tanh" of each item, + where its value stays visible. */
static const char *items(const ord_graph_node *node) {
  static char text[256];
  int length = snprintf(text, sizeof text, "%s", "");
  for (uint32_t i = 0; i < node->epilogue_count; i++)
    length += snprintf(text + length, sizeof text - (size_t)length, "%s%s%s", i ? " " : "", node->epilogue[i].op->name,
                       node->epilogue[i].result != ORD_NONE ? "+" : "");
  return text;
}

typedef struct graph_values {
  ord_graph *graph;
  uint32_t x, h; /* an input of h's shape; the product */
} graph_values;

static graph_values begin(void) {
  graph_values it = {.graph = new_graph()};
  it.x = add_input(it.graph, "x", ORD_F32, "1,seq,8");
  it.h = add_matmul(it.graph, "h", it.x, add_weight(it.graph, "w", 8, 8, false));
  return it;
}

static ord_graph *fold(ord_graph *graph, uint32_t epilogue_max, ord_pin pin) {
  kernel_stage stage;
  test_kernel kernel[] = {make_kernel("matmul_test", "matmul"), make_kernel("add_test", "add")};
  kernel[0].epilogue_max = epilogue_max;
  open_kernels(&stage, kernel, 2);
  stage.chooser.pin = &pin;
  stage.chooser.pin_count = pin.selector != NULL;
  graph = run_pass(&stage, "fold_epilogues", bind(graph, -1));
  close_kernels(&stage);
  return graph;
}

/* h + bias, gelu, + x, norm; x is read before, the sum after. */
static ord_graph *make_chain(void) {
  graph_values it = begin();
  const uint32_t biased = add_binary(it.graph, "add", "biased", it.h, add_weight(it.graph, "b", 0, 8, false));
  const uint32_t y = add_unary(it.graph, "gelu_tanh", "y", biased);
  const uint32_t sum = add_binary(it.graph, "add", "sum", it.x, y);
  const uint32_t norm = add_norm(it.graph, "norm", sum);
  add_output(it.graph, "out", add_binary(it.graph, "mul", "out", norm, sum));
  return it.graph;
}

static void a_chain_folds_as_far_as_the_kernel_goes(void **state) {
  (void)state;
  static const char *const wanted[] = {
      "", "add", "add gelu_tanh", "add gelu_tanh add", "add gelu_tanh add+ layernorm", "add gelu_tanh add+ layernorm"};
  for (uint32_t most = 0; most < 6; most++) {
    ord_graph *graph = fold(make_chain(), most, (ord_pin){0});
    const ord_graph_node *producer = find_node(graph, "h");
    assert_string_equal(items(producer), wanted[most]);
    assert_int_equal(graph->node_count, 6 - producer->epilogue_count);
    assert_int_equal(producer->path_count, 1 + producer->epilogue_count);
    assert_ptr_equal(&graph->node[graph->value[producer->out[0]].index], producer);
    ord_graph_destroy(graph);
  }
}

static void a_visible_value_is_stored_on_the_way(void **state) {
  (void)state;
  ord_graph *graph = fold(make_chain(), 9, (ord_pin){0});
  const ord_graph_node *producer = find_node(graph, "h"), *out = find_node(graph, "out");
  assert_string_equal(graph->value[producer->out[0]].path, "norm");
  assert_string_equal(graph->value[producer->epilogue[2].result].path, "sum");
  assert_int_equal(out->in[0], producer->out[0]);
  assert_int_equal(out->in[1], producer->epilogue[2].result);
  assert_string_equal(graph->value[producer->epilogue[2].operand[0]].name, "x");
  assert_string_equal(graph->value[producer->epilogue[0].operand[0]].name, "b");
  assert_int_equal(producer->epilogue[3].attr_count, 1);
  assert_string_equal(producer->epilogue[3].attr[0].name, "eps");
  ord_graph_destroy(graph);
}

/* Two halves of a layer: each sum goes on as x and, normed, into the next product. */
static void a_residual_stream_is_stored_beside_its_norm(void **state) {
  (void)state;
  graph_values it = begin();
  const uint32_t first = add_binary(it.graph, "add", "first", it.x, it.h);
  const uint32_t normed = add_norm(it.graph, "normed", first);
  const uint32_t down = add_matmul(it.graph, "down", normed, add_weight(it.graph, "wd", 8, 8, false));
  const uint32_t second = add_binary(it.graph, "add", "second", first, down);
  add_output(it.graph, "last", add_norm(it.graph, "last", second));
  add_output(it.graph, "second", second);
  ord_graph *graph = fold(it.graph, 9, (ord_pin){0});
  const ord_graph_node *left = find_node(graph, "h"), *right = find_node(graph, "down");
  assert_int_equal(graph->node_count, 2);
  assert_string_equal(items(left), "add+ layernorm");
  assert_string_equal(items(right), "add+ layernorm");
  assert_int_equal(right->in[0], left->out[0]);
  assert_string_equal(graph->value[left->out[0]].path, "normed");
  assert_string_equal(graph->value[left->epilogue[0].result].path, "first");
  assert_int_equal(right->epilogue[0].operand[0], left->epilogue[0].result);
  assert_int_equal(graph->value[left->epilogue[0].result].index, 0);
  assert_int_equal(graph->output[0].value, right->out[0]);
  assert_int_equal(graph->output[1].value, right->epilogue[0].result);
  ord_graph_destroy(graph);
}

/* What the kernel is asked: a norm with its vectors, and where the sum before it goes. */
static void the_picture_of_a_norm_is_whole(void **state) {
  (void)state;
  kernel_stage stage;
  test_kernel kernel[] = {make_kernel("matmul_test", "matmul")};
  kernel[0].epilogue_max = 9;
  open_kernels(&stage, kernel, 1);
  graph_values it = begin();
  const uint32_t sum = add_binary(it.graph, "add", "sum", it.x, it.h);
  const uint32_t scale = add_weight(it.graph, "scale", 0, 8, false), shift = add_weight(it.graph, "shift", 0, 8, false);
  add_output(
      it.graph, "norm",
      add_node(it.graph, (node_text){"layernorm", "norm", .in = {sum, scale, shift}, .in_count = 3,
                                     .attr = {{.name = "eps", .kind = ORD_ATTR_NUMBER, .count = 1, .value.f = 1e-5}},
                                     .attr_count = 1}));
  add_output(it.graph, "sum", sum);
  ord_graph *graph = run_pass(&stage, "fold_epilogues", bind(it.graph, -1));
  ord_arena arena = {0};
  ord_described described;
  MUST(ord_describe_node(graph, find_node(graph, "h"), &stage.chooser, &arena, &described, &err));
  const ord_node *node = &described.node;
  const ord_epilogue *add = &node->epilogue[0], *norm = &node->epilogue[1];
  assert_int_equal(node->epilogue_count, 2);
  assert_string_equal(norm->op, "layernorm");
  assert_int_equal(node->operand[add->output].role, ORD_OUTPUT);
  assert_int_equal(described.operand[add->output].value, sum);
  assert_int_equal(described.operand[norm->operand[0]].value, scale);
  assert_int_equal(described.operand[norm->operand[1]].value, shift);
  assert_int_equal(node->operand[norm->operand[0]].role, ORD_WEIGHT);
  assert_int_equal(norm->output, ORD_NONE);
  assert_float_equal(norm->attr[0].value.f, 1e-5, 0);
  ord_arena_finish(&arena);
  ord_graph_destroy(graph);
  close_kernels(&stage);
}

static void what_others_see_stays_apart(void **state) {
  (void)state;
  graph_values it = begin(); /* the bare product has two readers: nothing can fold */
  const uint32_t y = add_unary(it.graph, "relu", "y", it.h);
  add_output(it.graph, "out", add_binary(it.graph, "add", "out", y, it.h));
  ord_graph *graph = fold(it.graph, 9, (ord_pin){0});
  assert_int_equal(graph->node_count, 3);
  ord_graph_destroy(graph);
  it = begin(); /* so has a product that is an output */
  add_output(it.graph, "h", it.h);
  add_output(it.graph, "out", add_unary(it.graph, "relu", "y", it.h));
  graph = fold(it.graph, 9, (ord_pin){0});
  assert_int_equal(graph->node_count, 2);
  ord_graph_destroy(graph);
}

static void a_residual_must_be_there_before(void **state) {
  (void)state;
  graph_values it = begin();
  const uint32_t late = add_unary(it.graph, "relu", "late", it.x);
  add_output(it.graph, "out", add_binary(it.graph, "add", "out", it.h, late));
  ord_graph *graph = fold(it.graph, 9, (ord_pin){0});
  assert_string_equal(items(find_node(graph, "h")), "");
  ord_graph_destroy(graph);
  it.graph = new_graph();
  it.x = add_input(it.graph, "x", ORD_F32, "1,seq,8");
  const uint32_t early = add_unary(it.graph, "relu", "early", it.x);
  it.h = add_matmul(it.graph, "h", it.x, add_weight(it.graph, "w", 8, 8, false));
  add_output(it.graph, "out", add_binary(it.graph, "mul", "out", early, it.h));
  graph = fold(it.graph, 9, (ord_pin){0});
  assert_string_equal(items(find_node(graph, "h")), "mul");
  ord_graph_destroy(graph);
}

/* What a node made that was folded is there as soon as the product that it went into. */
static void a_folded_value_is_there_early(void **state) {
  (void)state;
  graph_values it = begin();
  const uint32_t other = add_matmul(it.graph, "other", it.x, add_weight(it.graph, "wo", 8, 8, false));
  const uint32_t y = add_unary(it.graph, "relu", "y", it.h);
  add_output(it.graph, "out", add_binary(it.graph, "add", "out", other, y));
  ord_graph *graph = fold(it.graph, 9, (ord_pin){0});
  assert_int_equal(graph->node_count, 2);
  assert_string_equal(items(find_node(graph, "other")), "add");
  ord_graph_destroy(graph);
}

/* The sum of the product and of a joined value, one part of which is made by node "part". */
static ord_graph *make_joined_residual(bool part_is_early) {
  graph_values it = {.graph = new_graph()};
  uint32_t part = 0;
  it.x = add_input(it.graph, "x", ORD_F32, "1,seq,8");
  for (uint32_t i = 0; i < 2; i++) {
    if ((i == 0) == part_is_early)
      part = add_unary(it.graph, "relu", "part", it.x);
    else
      it.h = add_matmul(it.graph, "h", it.x, add_weight(it.graph, "w", 8, 8, false));
  }
  const ord_attr axis = {.name = "axis", .kind = ORD_ATTR_INT, .count = 1};
  const uint32_t joined =
      add_node(it.graph, (node_text){"concat", "joined", .in = {part}, .in_count = 1, .attr = {axis}, .attr_count = 1});
  add_output(it.graph, "out", add_binary(it.graph, "add", "out", it.h, joined));
  return bind(it.graph, -1);
}

static void all_parts_of_a_residual_must_be_there(void **state) {
  (void)state;
  kernel_stage stage;
  test_kernel kernel[] = {make_kernel("matmul_test", "matmul")};
  kernel[0].epilogue_max = 9;
  open_kernels(&stage, kernel, 1);
  for (uint32_t is_early = 0; is_early < 2; is_early++) {
    ord_graph *graph = run_pass(&stage, "make_views", make_joined_residual(is_early));
    assert_int_equal(count_op(graph, "concat"), 0);
    graph = run_pass(&stage, "fold_epilogues", graph);
    assert_string_equal(items(find_node(graph, "h")), is_early ? "add" : "");
    ord_graph_destroy(graph);
  }
  close_kernels(&stage);
}

static void shapes_must_agree(void **state) {
  (void)state;
  graph_values it = begin(); /* the sum is larger than the product */
  const uint32_t wide = add_input(it.graph, "wide", ORD_F32, "3,seq,8");
  add_output(it.graph, "out", add_binary(it.graph, "add", "out", it.h, wide));
  ord_graph *graph = fold(it.graph, 9, (ord_pin){0});
  assert_int_equal(graph->node_count, 2);
  ord_graph_destroy(graph);
  it = begin(); /* one number for each row is no residual */
  const uint32_t narrow = add_input(it.graph, "narrow", ORD_F32, "1,seq,1");
  add_output(it.graph, "out", add_binary(it.graph, "mul", "out", it.h, narrow));
  graph = fold(it.graph, 9, (ord_pin){0});
  assert_int_equal(graph->node_count, 2);
  ord_graph_destroy(graph);
  it = begin(); /* twice the product */
  add_output(it.graph, "out", add_binary(it.graph, "add", "out", it.h, it.h));
  graph = fold(it.graph, 9, (ord_pin){0});
  assert_int_equal(graph->node_count, 2);
  ord_graph_destroy(graph);
}

static void pins_keep_their_kernels(void **state) {
  (void)state;
  static const struct {
    ord_pin pin;
    const char *wanted;
  } row[] = {
      {{"add", "add_test", NULL}, ""},    /* the op would be gone */
      {{"biased", "add_test", NULL}, ""}, /* so would the node that has a kernel of its own */
      {{"sum", "add_test", NULL}, "add gelu_tanh"},
      {{"matmul", "matmul_test", NULL}, "add gelu_tanh add+ layernorm"},
      {{"matmul", "matmul_reference", NULL}, ""},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_graph *graph = fold(make_chain(), 9, row[i].pin);
    assert_string_equal(items(find_node(graph, "h")), row[i].wanted);
    ord_graph_destroy(graph);
  }
}

static void a_part_of_a_joined_value_is_still_made(void **state) {
  (void)state;
  kernel_stage stage;
  test_kernel kernel[] = {make_kernel("matmul_test", "matmul")};
  kernel[0].epilogue_max = 9;
  open_kernels(&stage, kernel, 1);
  graph_values it = begin();
  const ord_attr axis = {.name = "axis", .kind = ORD_ATTR_INT, .count = 1};
  const uint32_t joined =
      add_node(it.graph, (node_text){"concat", "joined", .in = {it.h}, .in_count = 1, .attr = {axis}, .attr_count = 1});
  add_output(it.graph, "joined", joined);
  add_output(it.graph, "y", add_unary(it.graph, "relu", "y", it.h));
  ord_graph *graph = run_pass(&stage, "make_views", bind(it.graph, -1));
  assert_int_equal(graph->value[find_node(graph, "h")->out[0]].storage, ORD_STORAGE_VIEW);
  graph = run_pass(&stage, "fold_epilogues", graph);
  assert_string_equal(items(find_node(graph, "h")), "");
  ord_graph_destroy(graph);
  close_kernels(&stage);
}

/* Each item copies the list before it, so a file of one line must not make a list of all its ops. */
static void a_list_has_an_end(void **state) {
  (void)state;
  static char name[40][8];
  graph_values it = begin();
  uint32_t last = it.h;
  for (uint32_t i = 0; i < 40; i++) {
    snprintf(name[i], sizeof name[i], "r%u", i);
    last = add_unary(it.graph, "relu", name[i], last);
  }
  add_output(it.graph, "out", last);
  ord_graph *graph = fold(it.graph, 99, (ord_pin){0});
  assert_int_equal(find_node(graph, "h")->epilogue_count, 32);
  assert_int_equal(graph->node_count, 1 + 40 - 32);
  ord_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_chain_folds_as_far_as_the_kernel_goes),
      cmocka_unit_test(a_visible_value_is_stored_on_the_way),
      cmocka_unit_test(a_residual_stream_is_stored_beside_its_norm),
      cmocka_unit_test(the_picture_of_a_norm_is_whole),
      cmocka_unit_test(what_others_see_stays_apart),
      cmocka_unit_test(a_residual_must_be_there_before),
      cmocka_unit_test(a_folded_value_is_there_early),
      cmocka_unit_test(all_parts_of_a_residual_must_be_there),
      cmocka_unit_test(shapes_must_agree),
      cmocka_unit_test(pins_keep_their_kernels),
      cmocka_unit_test(a_part_of_a_joined_value_is_still_made),
      cmocka_unit_test(a_list_has_an_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
