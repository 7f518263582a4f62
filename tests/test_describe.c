/* SPDX-License-Identifier: MIT
 *
 * The ABI's picture of a node: the order of operands, bytes, extents, segments, caches, scales, epilogues.
 */
#include "graph_fixture.h"

static const ord_device_info device = {.struct_size = sizeof device, .kind = ORD_DEVICE_CPU};
static const ord_chooser chooser = {.device = &device, .compute = ORD_BF16};

typedef struct described_node {
  ord_arena arena;
  ord_described is;
} described_node;

static described_node describe(const ord_graph *graph, const ord_graph_node *node) {
  described_node it = {{0}, {{0}, NULL}};
  MUST(ord_describe_node(graph, node, &chooser, &it.arena, &it.is, &err));
  return it;
}

static void operands_stand_in_order(void **state) {
  (void)state;
  ord_graph *graph = new_graph();
  const uint32_t x = add_input(graph, "x", ORD_F32, "2,seq,8");
  add_output(graph, "y", add_matmul(graph, "layer.0.y", x, add_weight(graph, "w", 6, 8, true)));
  graph = bind(graph, -1);
  described_node it = describe(graph, &graph->node[0]);
  const ord_node *node = &it.is.node;
  static const struct {
    const char *name;
    uint32_t role, rank;
  } wanted[] = {{"in", ORD_INPUT, 3},    {"weight", ORD_WEIGHT, 2}, {"by", ORD_ABSENT, 0},
                {"bias", ORD_ABSENT, 0}, {"out", ORD_OUTPUT, 3},    {"extent", ORD_SCALAR, 0}};
  assert_int_equal(node->operand_count, sizeof wanted / sizeof *wanted);
  for (uint32_t i = 0; i < node->operand_count; i++) {
    assert_string_equal(node->operand[i].name, wanted[i].name);
    assert_int_equal(node->operand[i].role, wanted[i].role);
    assert_int_equal(node->operand[i].rank, wanted[i].rank);
  }
  assert_string_equal(node->op, "matmul");
  assert_string_equal(node->label, "layer.0.y");
  assert_int_equal(node->compute, ORD_BF16);
  assert_ptr_equal(node->device, &device);
  const ord_operand *in = &node->operand[0], *weight = &node->operand[1];
  assert_int_equal(in->dim[1], 16);
  assert_int_equal(in->stride[0], 16 * 8 * 4);
  assert_int_equal(in->extent[0], ORD_NONE);
  assert_int_equal(in->extent[1], 5); /* one scalar for the one size that a run decides */
  assert_int_equal(node->operand[4].extent[1], 5);
  assert_int_equal(in->align_log2, 6);
  assert_int_equal(weight->stride[0], 4);
  assert_int_equal(weight->stride[1], 6 * 4);
  assert_int_equal(weight->segment_count, 1);
  assert_int_equal(weight->segment[0].rows, 6);
  assert_int_equal(it.is.operand[5].is, ORD_IS_EXTENT);
  ord_arena_finish(&it.arena);
  ord_graph_destroy(graph);
}

static void caches_and_past_follow_the_outputs(void **state) {
  (void)state;
  ord_graph *graph = new_graph();
  graph->cache[0] = (ord_graph_cache){.name = "kv", .length = constant(graph, 32), .dtype = ORD_F32};
  graph->cache_count = 1;
  const uint32_t q = add_input(graph, "q", ORD_F32, "2,4,seq,8"), k = add_input(graph, "k", ORD_F32, "2,2,seq,8");
  add_output(graph, "a", add_attention(graph, "a", q, k, k, true));
  graph = bind(graph, 1);
  described_node it = describe(graph, &graph->node[0]);
  const ord_node *node = &it.is.node;
  assert_int_equal(node->operand_count, 5 + 1 + 3); /* no extent: every size is exact */
  const ord_operand *cache = &node->operand[6], *past = &node->operand[8];
  assert_string_equal(cache->name, "cache_k");
  assert_string_equal(node->operand[7].name, "cache_v");
  assert_int_equal(cache->role, ORD_STATE);
  const int64_t dim[] = {2, 2, 32, 8};
  assert_memory_equal(cache->dim, dim, sizeof dim);
  assert_int_equal(cache->stride[1], 32 * 8 * 4);
  assert_string_equal(past->name, "past");
  assert_int_equal(past->dtype, ORD_I32);
  assert_int_equal(past->dim[0], 2);
  assert_int_equal(it.is.operand[8].is, ORD_IS_PAST);
  ord_arena_finish(&it.arena);
  ord_graph_destroy(graph);
}

static void fused_i8_weights_have_segments_and_scales(void **state) {
  (void)state;
  ord_graph *graph = new_graph();
  const uint32_t x = add_input(graph, "x", ORD_F32, "2,8");
  const uint32_t w = add_weight(graph, "w", 6, 8, false);
  (void)add_weight(graph, "v", 4, 8, false);
  add_output(graph, "y", add_matmul(graph, "y", x, w));
  graph = bind(graph, 1);
  static const uint32_t part[] = {0, 1};
  ord_fused_weight fused = {.value = graph->node[0].in[1], .part = part, .part_count = 2};
  graph->fused = &fused;
  graph->fused_count = 1;
  graph->value[fused.value].dtype = ORD_I8;
  described_node it = describe(graph, &graph->node[0]);
  const ord_operand *weight = &it.is.node.operand[1];
  assert_int_equal(weight->segment_count, 2);
  assert_int_equal(weight->segment[1].rows, 4);
  assert_int_equal(weight->segment[1].weight_id, 1);
  const uint32_t scale = ord_node_find(&it.is.node, "weight_scale");
  assert_int_not_equal(scale, ORD_NONE);
  assert_int_equal(it.is.node.operand[scale].dtype, ORD_F32);
  assert_int_equal(it.is.node.operand[scale].segment_count, 2);
  assert_int_equal(it.is.operand[scale].is, ORD_IS_SCALE);
  ord_arena_finish(&it.arena);
  ord_graph_destroy(graph);
}

static void block_types_count_bytes_per_block(void **state) {
  (void)state;
  ord_graph *graph = new_graph();
  const uint32_t x = add_input(graph, "x", ORD_F32, "2,64");
  const uint32_t w = add_weight(graph, "w", 6, 64, false);
  add_output(graph, "y", add_matmul(graph, "y", x, w));
  graph = bind(graph, 1);
  ord_value *weight = &graph->value[graph->node[0].in[1]];
  weight->dtype = ORD_Q4_0;
  described_node it = describe(graph, &graph->node[0]);
  const ord_operand *operand = &it.is.node.operand[1];
  assert_int_equal(operand->block_elements, 32);
  assert_int_equal(operand->stride[1], operand->block_bytes);
  assert_int_equal(operand->stride[0], 2 * operand->block_bytes);
  ord_arena_finish(&it.arena);
  weight->stride[0] = 1;
  weight->stride[1] = 6;
  it = (described_node){{0}, {{0}, NULL}};
  MUST_FAIL(ord_describe_node(graph, &graph->node[0], &chooser, &it.arena, &it.is, &err),
            "wanted blocks along the last axis");
  ord_arena_finish(&it.arena);
  ord_graph_destroy(graph);
}

static void epilogue_operands_follow(void **state) {
  (void)state;
  ord_graph *graph = new_graph();
  const uint32_t x = add_input(graph, "x", ORD_F32, "2,8"), r = add_input(graph, "r", ORD_F32, "2,6");
  const uint32_t y = add_matmul(graph, "y", x, add_weight(graph, "w", 6, 8, false));
  const uint32_t z = add_binary(graph, "add", "z", y, r);
  add_output(graph, "y", y);
  add_output(graph, "z", z);
  graph = bind(graph, 1);
  ord_graph_epilogue item[] = {{.op = ord_op_find("relu"), .operand = {ORD_NONE, ORD_NONE}, .result = y},
                               {.op = ord_op_find("add"), .operand = {r, ORD_NONE}, .result = ORD_NONE}};
  ord_graph_node node = graph->node[0];
  node.out = (uint32_t[]){z};
  node.epilogue = item;
  node.epilogue_count = 2;
  described_node it = describe(graph, &node);
  const ord_epilogue *epilogue = it.is.node.epilogue;
  assert_int_equal(it.is.node.epilogue_count, 2);
  assert_string_equal(epilogue[1].op, "add");
  assert_int_equal(epilogue[0].operand[0], ORD_NONE);
  assert_int_equal(epilogue[1].output, ORD_NONE);
  assert_int_equal(it.is.operand[epilogue[0].output].value, y);
  assert_int_equal(it.is.node.operand[epilogue[0].output].role, ORD_OUTPUT);
  assert_string_equal(it.is.node.operand[epilogue[0].output].name, "epilogue_out");
  assert_string_equal(it.is.node.operand[epilogue[1].operand[0]].name, "epilogue");
  assert_int_equal(it.is.operand[epilogue[1].operand[0]].value, r);
  assert_int_equal(it.is.operand[ord_node_output(&it.is.node, 0)].value, z);
  ord_arena_finish(&it.arena);
  ord_graph_destroy(graph);
}

static void a_view_is_aligned_as_its_offset_is(void **state) {
  (void)state;
  ord_graph *graph = new_graph();
  const uint32_t x = add_input(graph, "x", ORD_F32, "2,8");
  const uint32_t h = add_unary(graph, "relu", "h", x);
  add_output(graph, "y", add_unary(graph, "silu", "y", h));
  graph = bind(graph, 1);
  static const struct {
    int64_t offset;
    uint32_t wanted;
  } row[] = {{0, 6}, {1, 2}, {2, 3}, {4, 4}, {12, 4}, {16, 6}, {64, 6}};
  graph->value[h].storage = ORD_STORAGE_VIEW;
  graph->value[h].base = x;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    graph->value[h].offset = row[i].offset;
    described_node it = describe(graph, &graph->node[1]);
    assert_int_equal(it.is.node.operand[0].align_log2, row[i].wanted);
    ord_arena_finish(&it.arena);
  }
  ord_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(operands_stand_in_order),
      cmocka_unit_test(caches_and_past_follow_the_outputs),
      cmocka_unit_test(fused_i8_weights_have_segments_and_scales),
      cmocka_unit_test(block_types_count_bytes_per_block),
      cmocka_unit_test(epilogue_operands_follow),
      cmocka_unit_test(a_view_is_aligned_as_its_offset_is),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
