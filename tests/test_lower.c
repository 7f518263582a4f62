/* SPDX-License-Identifier: MIT
 *
 * Lowering: kernels, places, weights, states; and that a plan computes the same with any pass switched off.
 */
#include "graph_fixture.h"

/* ---- weights: number i of weight w is a small odd fraction, so that no two sums agree by chance --------------- */

static float weight_number(uint32_t weight, size_t i) { return (float)((weight * 37 + i * 11) % 23) / 16.0f - 0.7f; }

static const ord_graph *weights_of;

static ord_weight_stored stored(void *context, uint32_t weight) {
  (void)context;
  size_t count = 1;
  for (uint32_t axis = 0; axis < weights_of->weight[weight].stored_rank; axis++)
    count *= (size_t)weights_of->weight[weight].stored_dim[axis];
  return (ord_weight_stored){.dtype = ORD_F32, .bytes = count * sizeof(float)};
}

static bool read_weight(void *context, uint32_t weight, size_t offset, size_t bytes, void *into, ord_error *fault) {
  (void)context, (void)fault;
  for (size_t i = 0; i < bytes / sizeof(float); i++)
    ((float *)into)[i] = weight_number(weight, offset / sizeof(float) + i);
  return true;
}

static bool read_scale(void *context, uint32_t weight, void *into, ord_error *fault) {
  (void)context, (void)weight, (void)into;
  return ord_fail(fault, ORD_INVALID, "there are no scales");
}

static void forget(void *context) { (void)context; }

typedef struct lower_stage {
  kernel_stage kernels;
  ord_weight_store *store;
  ord_device *device;
  ord_lower_options options;
} lower_stage;

static void open_stage(lower_stage *stage, const ord_graph *graph, test_kernel *kernel, uint32_t count) {
  open_kernels(&stage->kernels, kernel, count);
  weights_of = graph;
  const ord_weight_source source = {.weight_count = graph->weight_count,
                                    .stored = stored,
                                    .read = read_weight,
                                    .read_scale = read_scale,
                                    .destroy = forget};
  MUST(ord_weight_store_create(source, NULL, &stage->store, &err));
  MUST(ord_device_cpu_create(1, NULL, &stage->device, NULL, &err));
  stage->options =
      (ord_lower_options){.chooser = &stage->kernels.chooser, .store = stage->store, .device = stage->device};
}

static void close_stage(lower_stage *stage) {
  ord_weight_store_destroy(stage->store);
  stage->device->table->destroy(stage->device);
  close_kernels(&stage->kernels);
}

/* ---- running a plan, step by step ----------------------------------------------------------------------------- */

typedef struct run_memory {
  char *arena;
  int64_t extent[8];
  float cache[2][512];
  int32_t past[4];
} run_memory;

static void *find_address(const ord_plan *plan, run_memory *memory, ord_location place) {
  switch (place.space) {
  case ORD_SPACE_NONE:
    return NULL;
  case ORD_SPACE_ARENA:
    return memory->arena + place.offset;
  case ORD_SPACE_WEIGHT:
    return (char *)(uintptr_t)plan->weight[place.index] + place.offset;
  case ORD_SPACE_CACHE:
    return memory->cache[place.index];
  case ORD_SPACE_PAST:
    return memory->past;
  case ORD_SPACE_EXTENT:
    return &memory->extent[place.index];
  }
  return NULL;
}

static void run_step(const ord_plan *plan, const ord_step *step, run_memory *memory) {
  void *operand[64];
  static double worker[512];
  assert_true(plan->worker_bytes <= sizeof worker);
  assert_true(step->node.operand_count <= 64);
  for (uint32_t i = 0; i < step->node.operand_count; i++) operand[i] = find_address(plan, memory, step->place[i]);
  const ord_exec exec = {.struct_size = sizeof exec,
                         .chunk_count = 1,
                         .operand = operand,
                         .scratch = memory->arena + step->scratch_offset,
                         .worker = worker,
                         .persistent = memory->arena + step->persistent_offset};
  ord_plugin_error fault = {.struct_size = sizeof fault};
  assert_int_equal(step->choice.kernel->launch(step->state, &exec, &fault), ORD_OK);
}

/* Fills every input, runs at this seq, and gives output 0, dense. Returns how many numbers. */
static size_t run_plan(const ord_plan *plan, int64_t seq, run_memory *memory, float *out) {
  memory->arena = aligned_alloc(64, plan->arena_bytes + 64);
  memset(memory->arena, 0xAA, plan->arena_bytes);
  for (uint32_t i = 0; i < plan->extent_count; i++)
    assert_true(ord_size_evaluate(plan->extent[i], &seq, &memory->extent[i]));
  int64_t dim[ORD_RANK_MAX];
  for (uint32_t i = 0; i < plan->input_count; i++) {
    const ord_plan_tensor *input = &plan->input[i];
    float dense[512];
    size_t count = 1;
    for (uint32_t axis = 0; axis < input->rank; axis++) {
      assert_true(ord_size_evaluate(input->size[axis], &seq, &dim[axis]));
      count *= (size_t)dim[axis];
    }
    for (size_t n = 0; n < count; n++) dense[n] = weight_number(99 + i, n);
    ord_tensor_unpack(input->dtype, input->rank, dim, input->stride, dense, memory->arena + input->place.offset);
  }
  for (uint32_t i = 0; i < plan->step_count; i++) run_step(plan, &plan->step[i], memory);
  const ord_plan_tensor *output = &plan->output[0];
  size_t count = 1;
  for (uint32_t axis = 0; axis < output->rank; axis++) {
    assert_true(ord_size_evaluate(output->size[axis], &seq, &dim[axis]));
    count *= (size_t)dim[axis];
  }
  ord_tensor_pack(output->dtype, output->rank, dim, output->stride, memory->arena + output->place.offset, out);
  free(memory->arena);
  return count;
}

/* ---- a layer --------------------------------------------------------------------------------------------------- */

static ord_graph *make_layer(bool has_cache) {
  ord_graph *graph = new_graph();
  graph->cache[0] = (ord_graph_cache){.name = "kv", .length = constant(graph, 32), .dtype = ORD_F32};
  graph->cache_count = has_cache;
  const uint32_t x = add_input(graph, "x", ORD_F32, "1,seq,8");
  const uint32_t h = add_norm(graph, "h", x);
  static const char *const name[] = {"q", "k", "v"}, *const weight[] = {"wq", "wk", "wv"},
                           *const reshape[] = {"q.r", "k.r", "v.r"}, *const swap[] = {"q.t", "k.t", "v.t"};
  uint32_t part[3], head[3];
  for (uint32_t i = 0; i < 3; i++) part[i] = add_matmul(graph, name[i], h, add_weight(graph, weight[i], 8, 8, false));
  for (uint32_t i = 0; i < 3; i++)
    head[i] = add_swap(graph, swap[i], add_reshape(graph, reshape[i], part[i], "1,seq,2,4"));
  const uint32_t a = add_attention(graph, "a", head[0], head[1], head[2], has_cache);
  const uint32_t o = add_node(
      graph, (node_text){"concat_projection", "o", .in = {a, add_weight(graph, "wo", 8, 8, true)}, .in_count = 2});
  const uint32_t sum = add_binary(graph, "add", "sum", x, o);
  const uint32_t up = add_weight(graph, "up", 12, 8, false), down = add_weight(graph, "down", 8, 12, true);
  const ord_attr activation = {.name = "activation", .kind = ORD_ATTR_WORD, .count = 1, .value.s = "gelu_tanh"};
  const uint32_t m = add_node(
      graph, (node_text){"mlp", "m", .in = {sum, up, down}, .in_count = 3, .attr = {activation}, .attr_count = 1});
  add_output(graph, "y", add_binary(graph, "add", "y", sum, m));
  return graph;
}

/* One projection per head, the heads side by side. */
static ord_graph *make_heads(void) {
  ord_graph *graph = new_graph();
  const uint32_t x = add_input(graph, "x", ORD_F32, "1,seq,8");
  static const char *const name[] = {"q0", "k0", "v0", "q1", "k1", "v1"}, *const attention[] = {"a0", "a1"};
  uint32_t part[6], head[2];
  for (uint32_t i = 0; i < 6; i++) {
    part[i] = add_matmul(graph, name[i], x, add_weight(graph, name[i], 4, 8, false));
    part[i] = add_reshape(graph, name[i], part[i], "1,1,seq,4");
  }
  for (uint32_t i = 0; i < 2; i++)
    head[i] = add_attention(graph, attention[i], part[3 * i], part[3 * i + 1], part[3 * i + 2], false);
  const ord_attr axis = {.name = "axis", .kind = ORD_ATTR_INT, .count = 1, .value.i = 1};
  const uint32_t a = add_node(
      graph, (node_text){"concat", "a", .in = {head[0], head[1]}, .in_count = 2, .attr = {axis}, .attr_count = 1});
  add_output(graph, "y",
             add_node(graph, (node_text){"concat_projection", "y", .in = {a, add_weight(graph, "wo", 8, 8, false)},
                                         .in_count = 2}));
  return graph;
}

static ord_plan *make_plan(lower_stage *stage, const ord_graph *graph, const char *const *disabled, uint32_t count) {
  ord_graph *passed = NULL;
  ord_plan *plan = NULL;
  stage->kernels.options.disabled = disabled;
  stage->kernels.options.disabled_count = count;
  MUST(ord_passes_run(graph, &stage->kernels.options, NULL, NULL, NULL, &passed, &err));
  MUST(ord_plan_create(passed, &stage->options, &plan, &err));
  ord_graph_destroy(passed); /* a plan points to nothing of its graph */
  return plan;
}

static const ord_step *find_step(const ord_plan *plan, const char *op) {
  for (uint32_t i = 0; i < plan->step_count; i++)
    if (strcmp(plan->step[i].node.op, op) == 0) return &plan->step[i];
  return NULL;
}

/* Every pass off in turn, then all: at two lengths of one open plan. */
static void check_passes(ord_graph *unbound, uint32_t wanted_steps) {
  ord_graph *graph = bind(unbound, -1);
  lower_stage stage;
  test_kernel kernel[] = {make_kernel("matmul_test", "matmul"), make_kernel("attention_test", "attention"),
                          make_kernel("gelu_test", "gelu_tanh"), make_kernel("add_test", "add")};
  kernel[2].alias_mask = 1;
  kernel[3].alias_mask = 3;
  open_stage(&stage, graph, kernel, 4);
  for (int64_t seq = 1; seq < 7; seq += 5) {
    static run_memory memory;
    float wanted[512], found[512];
    const char *all[8];
    ord_plan *plan = make_plan(&stage, graph, NULL, 0);
    assert_int_equal(plan->moved_bytes, 0);
    assert_int_equal(plan->step_count, wanted_steps);
    assert_int_equal(run_plan(plan, seq, &memory, wanted), 8 * (size_t)seq);
    ord_plan_destroy(plan);
    for (uint32_t i = 0; i <= ord_pass_count(); i++) {
      const bool is_all = i == ord_pass_count();
      if (!is_all) all[i] = ord_pass_get(i)->name;
      plan = make_plan(&stage, graph, is_all ? all : &all[i], is_all ? i : 1);
      run_plan(plan, seq, &memory, found);
      ord_plan_destroy(plan);
      if (memcmp(wanted, found, 8 * (size_t)seq * sizeof(float)) != 0)
        fail_msg("without %s the numbers differ at seq %ld", is_all ? "any pass" : all[i], (long)seq);
    }
  }
  assert_int_equal(live_states, 0);
  assert_int_equal(ord_weight_store_usage(stage.store).packed_bytes, 0);
  close_stage(&stage);
  ord_graph_destroy(graph);
}

static void passes_change_no_number(void **state) {
  (void)state;
  check_passes(make_layer(false), 9); /* norm, qkv, attention, o, add, up, gelu, down, add */
  check_passes(make_layer(true), 10); /* and cache_append */
  check_passes(make_heads(), 4);      /* qkv of both, two attentions, o */
}

static void an_attention_that_does_not_append_gets_help(void **state) {
  (void)state;
  for (uint32_t appends = 0; appends < 2; appends++) {
    ord_graph *graph = bind(make_layer(true), 1);
    lower_stage stage;
    test_kernel kernel = make_kernel("attention_test", "attention");
    kernel.flags = appends ? ORD_APPENDS : 0;
    open_stage(&stage, graph, &kernel, 1);
    ord_plan *plan = make_plan(&stage, graph, NULL, 0);
    const ord_step *help = find_step(plan, "cache_append"), *attention = find_step(plan, "attention");
    assert_int_equal(help != NULL, !appends);
    if (help) {
      assert_ptr_equal(help + 1, attention);
      assert_string_equal(help->node.label, "a.cache_append");
      const uint32_t k = ord_node_find(&help->node, "cache_k"), v = ord_node_find(&help->node, "cache_v");
      assert_int_equal(help->place[k].space, ORD_SPACE_CACHE);
      assert_int_equal(help->place[v].index, 1);
      assert_int_equal(help->place[ord_node_find(&help->node, "past")].space, ORD_SPACE_PAST);
      assert_int_equal(help->place[0].offset, attention->place[1].offset);
    }
    assert_int_equal(plan->extent_count, 0);
    ord_plan_destroy(plan);
    close_stage(&stage);
    ord_graph_destroy(graph);
  }
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

static void ops_write_over_what_they_read_last(void **state) {
  (void)state;
  ord_graph *graph = new_graph();
  const uint32_t x = add_input(graph, "x", ORD_F32, "64");
  const uint32_t a = add_unary(graph, "silu", "a", x), b = add_unary(graph, "silu", "b", a);
  const uint32_t c = add_unary(graph, "silu", "c", b), d = add_unary(graph, "silu", "d", c);
  add_output(graph, "y", add_binary(graph, "add", "y", b, d));
  graph = bind(graph, -1);
  graph->shares_memory = true;
  lower_stage stage;
  test_kernel kernel = make_kernel("silu_test", "silu");
  kernel.alias_mask = 1;
  open_stage(&stage, graph, &kernel, 1);
  ord_plan *plan = NULL;
  MUST(ord_plan_create(graph, &stage.options, &plan, &err));
  const ord_step *step = plan->step;
  assert_int_not_equal(step[0].place[1].offset, step[0].place[0].offset); /* never over an input of the graph */
  assert_int_equal(step[1].place[1].offset, step[1].place[0].offset);
  assert_int_not_equal(step[2].place[1].offset, step[2].place[0].offset); /* b is read again */
  assert_int_equal(step[3].place[1].offset, step[3].place[0].offset);
  assert_int_equal(plan->output[0].place.offset, step[4].place[2].offset);
  ord_plan_destroy(plan);
  close_stage(&stage);
  ord_graph_destroy(graph);
}

static void outputs_and_inputs_are_never_overwritten(void **state) {
  (void)state;
  for (uint32_t is_output = 0; is_output < 2; is_output++) {
    ord_graph *graph = new_graph();
    const uint32_t x = add_input(graph, "x", ORD_F32, "64");
    const uint32_t a = is_output ? add_unary(graph, "silu", "a", x) : x;
    if (is_output) add_output(graph, "a", a);
    add_output(graph, "y", add_unary(graph, "silu", "y", a)); /* the last step reads it last */
    graph = bind(graph, -1);
    graph->shares_memory = true;
    lower_stage stage;
    test_kernel kernel = make_kernel("silu_test", "silu");
    kernel.alias_mask = 1;
    open_stage(&stage, graph, &kernel, 1);
    ord_plan *plan = NULL;
    MUST(ord_plan_create(graph, &stage.options, &plan, &err));
    const ord_step *last = &plan->step[plan->step_count - 1];
    assert_int_not_equal(last->place[0].offset, last->place[1].offset);
    ord_plan_destroy(plan);
    close_stage(&stage);
    ord_graph_destroy(graph);
  }
}

static void scratch_and_persistent_memory_are_counted(void **state) {
  (void)state;
  ord_graph *graph = new_graph();
  const uint32_t x = add_input(graph, "x", ORD_F32, "seq,8");
  add_output(graph, "y", add_unary(graph, "silu", "y", add_unary(graph, "silu", "a", x)));
  graph = bind(graph, -1);
  graph->shares_memory = true;
  lower_stage stage;
  test_kernel kernel = make_kernel("silu_test", "silu");
  kernel.scratch_bytes = 1000;
  kernel.persistent_bytes = 100;
  open_stage(&stage, graph, &kernel, 1);
  ord_plan *plan = NULL;
  MUST(ord_plan_create(graph, &stage.options, &plan, &err));
  assert_int_equal(plan->persistent_begin, 3 * 512 + 1024);
  assert_int_equal(plan->arena_bytes, plan->persistent_begin + 2 * 128);
  assert_int_equal(plan->step[0].scratch_offset, plan->step[1].scratch_offset);
  assert_int_equal(plan->step[1].persistent_offset, plan->step[0].persistent_offset + 128);
  assert_int_equal(plan->phase_count, 2);
  assert_int_equal(plan->extent_count, 1); /* seq, once for both */
  assert_int_equal(plan->output_count, 1);
  assert_string_equal(plan->output[0].name, "y");
  assert_int_equal(plan->output[0].dim[0], 16);
  ord_plan_destroy(plan);
  close_stage(&stage);
  ord_graph_destroy(graph);
}

/* ---- faults ---------------------------------------------------------------------------------------------------- */

static void many_nodes_without_a_kernel_are_told_in_part(void **state) {
  (void)state;
  ord_graph *graph = new_graph();
  uint32_t value = add_input(graph, "x", ORD_F32, "64");
  for (int i = 0; i < 7; i++) value = add_unary(graph, i % 2 ? "tanh" : "silu", i == 5 ? "sixth" : "early", value);
  add_output(graph, "y", value);
  graph = bind(graph, -1);
  lower_stage stage;
  open_stage(&stage, graph, NULL, 0);
  stage.kernels.chooser.deny_fallback = true;
  ord_plan *plan = NULL;
  MUST_FAIL(ord_plan_create(graph, &stage.options, &plan, &err), "7 of 7 nodes without a kernel:\nearly: ");
  assert_null(strstr(err.text, "sixth"));
  assert_non_null(strstr(err.text, "\nand 2 more"));
  close_stage(&stage);
  ord_graph_destroy(graph);
}

static void all_nodes_without_a_kernel_are_told_at_once(void **state) {
  (void)state;
  ord_graph *graph = new_graph();
  const uint32_t x = add_input(graph, "x", ORD_F32, "64");
  add_output(graph, "y", add_unary(graph, "tanh", "layer.0.y", add_unary(graph, "silu", "layer.0.a", x)));
  graph = bind(graph, -1);
  lower_stage stage;
  open_stage(&stage, graph, NULL, 0);
  stage.kernels.chooser.deny_fallback = true;
  ord_plan *plan = NULL;
  MUST_FAIL(ord_plan_create(graph, &stage.options, &plan, &err), "2 of 2 nodes without a kernel:\nlayer.0.a: ");
  assert_non_null(strstr(err.text, "falling to it is denied\nlayer.0.y: ")); /* no kernel has a reason to add */
  assert_int_equal(err.code, ORD_UNSUPPORTED);
  assert_null(plan);
  close_stage(&stage);
  ord_graph_destroy(graph);
}

static void a_pin_must_select_something(void **state) {
  (void)state;
  ord_graph *graph = bind(make_layer(false), -1);
  lower_stage stage;
  open_stage(&stage, graph, NULL, 0);
  ord_plan *plan = NULL;
  static const ord_pin wrong[] = {{"atention", "x", NULL}}, unknown[] = {{"sum", "add_fast", NULL}},
                       right[] = {{"o", "concat_projection_reference", NULL}};
  stage.kernels.chooser.pin_count = 1;
  stage.kernels.chooser.pin = wrong;
  MUST_FAIL(ord_plan_create(graph, &stage.options, &plan, &err),
            "'atention' selects no node; wanted a layer path or one of the ops layernorm");
  stage.kernels.chooser.pin = unknown;
  MUST_FAIL(ord_plan_create(graph, &stage.options, &plan, &err), "pin sum=add_fast: no such kernel of op 'add'");
  stage.kernels.chooser.pin = right;
  MUST(ord_plan_create(graph, &stage.options, &plan, &err));
  ord_plan_destroy(plan);
  close_stage(&stage);
  ord_graph_destroy(graph);
}

static void a_failure_undoes_everything(void **state) {
  (void)state;
  ord_graph *graph = bind(make_layer(false), -1);
  lower_stage stage;
  test_kernel kernel[] = {make_kernel("matmul_test", "matmul"), make_kernel("add_test", "add")};
  kernel[1].fails_to_prepare = true;
  open_stage(&stage, graph, kernel, 2);
  ord_plan *plan = NULL;
  MUST_FAIL(ord_plan_create(graph, &stage.options, &plan, &err), "sum: add_test: found no handle");
  assert_int_equal(err.code, ORD_DEVICE_FAILED);
  assert_null(plan);
  assert_int_equal(live_states, 0);
  assert_int_equal(ord_weight_store_usage(stage.store).original_bytes, 0);
  stage.options.store = NULL;
  MUST_FAIL(ord_plan_create(graph, &stage.options, &plan, &err), "q: reads a weight; found no weights");
  stage.options.dry = true;
  MUST(ord_plan_create(graph, &stage.options, &plan, &err));
  assert_null(plan->step[0].state);
  ord_plan_destroy(plan);
  close_stage(&stage);
  ord_graph_destroy(graph);
}

static void log_line(void *context, int level, const char *text) {
  assert_int_equal(level, ORD_LOG_INFO);
  strcat(context, text);
  strcat(context, "\n");
}

static void falling_to_the_reference_is_said_once_an_op(void **state) {
  (void)state;
  ord_graph *graph = new_graph();
  const uint32_t x = add_input(graph, "x", ORD_F32, "2,8");
  const uint32_t a = add_unary(graph, "silu", "a", x), b = add_unary(graph, "silu", "b", a);
  add_output(graph, "y", add_unary(graph, "tanh", "y", b));
  graph = bind(graph, -1);
  lower_stage stage;
  test_kernel kernel = make_kernel("tanh_test", "tanh");
  open_stage(&stage, graph, &kernel, 1);
  char text[1024] = "";
  stage.options.log = log_line;
  stage.options.log_context = text;
  ord_plan *plan = NULL;
  MUST(ord_plan_create(graph, &stage.options, &plan, &err));
  assert_string_equal(text, "silu falls to the reference at a and 1 more: no other kernel knows the op\n");
  ord_plan_destroy(plan);
  close_stage(&stage);
  ord_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(passes_change_no_number),
      cmocka_unit_test(an_attention_that_does_not_append_gets_help),
      cmocka_unit_test(ops_write_over_what_they_read_last),
      cmocka_unit_test(outputs_and_inputs_are_never_overwritten),
      cmocka_unit_test(scratch_and_persistent_memory_are_counted),
      cmocka_unit_test(all_nodes_without_a_kernel_are_told_at_once),
      cmocka_unit_test(many_nodes_without_a_kernel_are_told_in_part),
      cmocka_unit_test(a_pin_must_select_something),
      cmocka_unit_test(a_failure_undoes_everything),
      cmocka_unit_test(falling_to_the_reference_is_said_once_an_op),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
