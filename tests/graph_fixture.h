/* SPDX-License-Identifier: MIT
 *
 * What the tests of graphs/ begin with: small graphs of real ops written in a line per node, and kernels that do what
 * a test tells them to, beside the reference. Included by test programs only.
 */
#ifndef ORDITO_TESTS_GRAPH_FIXTURE_H
#define ORDITO_TESTS_GRAPH_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>

#include "graphs/lower.h"
#include "must.h"

/* ---- graphs --------------------------------------------------------------------------------------------------- */

static ord_error err = ORD_ERROR_INIT;

static inline ord_size constant(ord_graph *graph, int64_t value) {
  ord_size size;
  assert_int_equal(ord_size_constant(&graph->arena, value, &size), ORD_SIZE_OK);
  return size;
}

/* A graph with the run-time dim seq, 1..16. */
static inline ord_graph *new_graph(void) {
  ord_graph *graph = NULL;
  MUST(ord_graph_create(&graph, &err));
  graph->model_name = "test";
  graph->run_dim = ord_arena_take(&graph->arena, 1, sizeof *graph->run_dim);
  graph->run_dim_name = ord_arena_take(&graph->arena, 1, sizeof *graph->run_dim_name);
  graph->run_dim[0] = (ord_graph_run_dim){.name = "seq", .min = 1, .max = 16};
  graph->run_dim_name[0] = "seq";
  graph->run_dim_count = 1;
  graph->input = ord_arena_take(&graph->arena, 8, sizeof *graph->input);
  graph->weight = ord_arena_take(&graph->arena, 40, sizeof *graph->weight);
  graph->cache = ord_arena_take(&graph->arena, 2, sizeof *graph->cache);
  return graph;
}

/* "2,seq,8" */
static inline uint32_t read_dims(ord_graph *graph, const char *text, ord_size *dim) {
  uint32_t rank = 0;
  while (*text) {
    char *end = NULL;
    if (strncmp(text, "seq", 3) == 0) {
      assert_int_equal(ord_size_run_dim(&graph->arena, 0, &dim[rank++]), ORD_SIZE_OK);
      text += 3;
    } else {
      dim[rank++] = constant(graph, strtoll(text, &end, 10));
      text = end;
    }
    if (*text == ',') text++;
  }
  return rank;
}

static inline uint32_t add_input(ord_graph *graph, const char *name, ord_dtype dtype, const char *dims) {
  ord_value value = {.kind = ORD_VALUE_INPUT, .index = graph->input_count, .name = name, .path = name, .dtype = dtype};
  value.rank = read_dims(graph, dims, value.dim);
  const uint32_t made = ord_graph_add_value(graph, &value);
  graph->input[graph->input_count++] = (ord_graph_input){.name = name, .value = made};
  return made;
}

/* [rows, columns] with named axes, or a vector if rows is 0. */
static inline uint32_t add_weight(ord_graph *graph, const char *name, int64_t rows, int64_t columns, bool in_first) {
  ord_graph_weight *weight = &graph->weight[graph->weight_count];
  *weight = (ord_graph_weight){.name = name, .file_name = name, .line = 17, .in_first = in_first};
  ord_value value = {.kind = ORD_VALUE_WEIGHT, .index = graph->weight_count++, .name = name, .path = name, .line = 17};
  value.dtype = ORD_F32;
  if (rows) {
    weight->has_axes = true;
    weight->stored_rank = weight->value_rank = value.rank = 2;
    weight->value_dim[0] = rows;
    weight->value_dim[1] = columns;
    weight->stored_dim[0] = in_first ? columns : rows;
    weight->stored_dim[1] = in_first ? rows : columns;
    weight->value_stride[0] = in_first ? 1 : columns;
    weight->value_stride[1] = in_first ? rows : 1;
    value.dim[0] = constant(graph, rows);
    value.dim[1] = constant(graph, columns);
  } else {
    weight->stored_rank = weight->value_rank = value.rank = 1;
    weight->value_dim[0] = weight->stored_dim[0] = columns;
    weight->value_stride[0] = 1;
    value.dim[0] = constant(graph, columns);
  }
  return ord_graph_add_value(graph, &value);
}

/* Everything that a node of a test may have; zero is nothing. in and out end at the counts. */
typedef struct node_text {
  const char *op, *path;
  uint32_t in[8], in_count;
  const char *out[4]; /* names; one if the first is NULL: the path */
  uint32_t out_count;
  ord_attr attr[4];
  uint32_t attr_count;
  const char *shape;
  bool has_cache;
} node_text;

static inline void add_results(ord_graph *graph, node_text text, uint32_t *out) {
  ord_size shape[ORD_RANK_MAX];
  const uint32_t shape_rank = text.shape ? read_dims(graph, text.shape, shape) : 0;
  if (text.out_count == 0) text.out[text.out_count++] = text.path;
  const ord_op *op = ord_op_find(text.op);
  assert_non_null(op);
  while (text.in_count < op->slot_count) text.in[text.in_count++] = ORD_NONE;
  const ord_node_spec spec = {.op = op,
                              .in = text.in,
                              .in_count = text.in_count,
                              .attr = text.attr,
                              .attr_count = text.attr_count,
                              .shape = shape,
                              .shape_rank = shape_rank,
                              .cache = text.has_cache ? 0 : ORD_NONE,
                              .out_name = text.out,
                              .out_path = text.out,
                              .out_count = text.out_count,
                              .path = text.path,
                              .line = 29};
  MUST(ord_graph_add_node(graph, &spec, out, &err));
}

static inline uint32_t add_node(ord_graph *graph, node_text text) {
  uint32_t out[4];
  add_results(graph, text, out);
  return out[0];
}

static inline uint32_t add_reshape(ord_graph *graph, const char *path, uint32_t in, const char *shape) {
  return add_node(graph, (node_text){"reshape", path, .in = {in}, .in_count = 1, .shape = shape});
}

/* [b, x, y, d] -> [b, y, x, d] */
static inline uint32_t add_swap(ord_graph *graph, const char *path, uint32_t in) {
  static const int64_t axes[] = {0, 2, 1, 3};
  return add_node(graph, (node_text){"transpose", path, .in = {in}, .in_count = 1,
                                     .attr = {{.name = "axes", .kind = ORD_ATTR_INTS, .count = 4, .value.ints = axes}},
                                     .attr_count = 1});
}

static inline uint32_t add_matmul(ord_graph *graph, const char *path, uint32_t in, uint32_t weight) {
  return add_node(graph, (node_text){"matmul", path, .in = {in, weight}, .in_count = 2});
}

static inline uint32_t add_unary(ord_graph *graph, const char *op, const char *path, uint32_t in) {
  return add_node(graph, (node_text){op, path, .in = {in}, .in_count = 1});
}

static inline uint32_t add_binary(ord_graph *graph, const char *op, const char *path, uint32_t a, uint32_t b) {
  return add_node(graph, (node_text){op, path, .in = {a, b}, .in_count = 2});
}

static inline uint32_t add_norm(ord_graph *graph, const char *path, uint32_t in) {
  return add_node(graph, (node_text){"layernorm", path, .in = {in}, .in_count = 1,
                                     .attr = {{.name = "eps", .kind = ORD_ATTR_NUMBER, .count = 1, .value.f = 1e-5}},
                                     .attr_count = 1});
}

static inline uint32_t add_attention(ord_graph *graph, const char *path, uint32_t q, uint32_t k, uint32_t v,
                                     bool has_cache) {
  return add_node(graph, (node_text){"attention", path, .in = {q, k, v}, .in_count = 3,
                                     .attr = {{.name = "causal", .kind = ORD_ATTR_BOOL, .count = 1, .value.i = 1}},
                                     .attr_count = 1, .has_cache = has_cache});
}

static inline void add_output(ord_graph *graph, const char *name, uint32_t value) {
  MUST(ord_graph_add_output(graph, name, value, &err));
}

/* seq: its value, or -1 for open up to 16. Destroys the graph. */
static inline ord_graph *bind(ord_graph *graph, int64_t seq) {
  const int64_t maximum = 16;
  const ord_bind_options options = {.binding = {&seq, &maximum}};
  ord_graph *bound = NULL;
  MUST(ord_graph_bind(graph, &options, &bound, &err));
  ord_graph_destroy(graph);
  return bound;
}

static inline const ord_graph_node *find_node(const ord_graph *graph, const char *path) {
  for (uint32_t n = 0; n < graph->node_count; n++)
    for (uint32_t i = 0; i < graph->node[n].path_count; i++)
      if (strcmp(graph->node[n].path[i], path) == 0) return &graph->node[n];
  return NULL;
}

static inline uint32_t count_op(const ord_graph *graph, const char *op) {
  uint32_t count = 0;
  for (uint32_t n = 0; n < graph->node_count; n++) count += strcmp(graph->node[n].op->name, op) == 0;
  return count;
}

/* ---- kernels -------------------------------------------------------------------------------------------------- */

/* A kernel of the test's; computes what the reference does. */
typedef struct test_kernel {
  ord_kernel kernel; /* first, so that query finds the rest */
  uint32_t epilogue_max;
  bool wants_dense_in, wants_dense_out; /* refuses strided operands */
  bool packs;
  uint32_t alias_mask, flags;
  uint64_t scratch_bytes, persistent_bytes;
  bool fails_to_prepare;
} test_kernel;

static int live_states;

static inline bool is_dense(const ord_operand *operand) {
  int64_t stride = operand->block_bytes;
  for (uint32_t axis = operand->rank; axis-- > 0;) {
    if (operand->dim[axis] != 1 && operand->stride[axis] != stride) return false;
    stride *= operand->dim[axis];
  }
  return true;
}

static inline ord_status test_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  const test_kernel *test = (const test_kernel *)kernel;
  for (uint32_t i = 0; i < node->operand_count; i++) {
    const ord_operand *operand = &node->operand[i];
    if ((operand->role == ORD_INPUT && test->wants_dense_in && !is_dense(operand)) ||
        (operand->role == ORD_OUTPUT && test->wants_dense_out && !is_dense(operand))) {
      snprintf(answer->reason, sizeof answer->reason, "%s is strided", operand->name);
      return ORD_NO;
    }
    if (test->packs && operand->role == ORD_WEIGHT && operand->rank == 2)
      answer->pack[i] = (ord_pack){.key = 7, .bytes = 64};
  }
  answer->phase_count = 1;
  answer->chunk_limit[0] = 1;
  answer->flags = test->flags;
  answer->alias_mask = test->alias_mask;
  answer->scratch_bytes = test->scratch_bytes;
  answer->persistent_bytes = test->persistent_bytes;
  if (answer->epilogue_served > test->epilogue_max) answer->epilogue_served = test->epilogue_max;
  return ORD_OK;
}

static inline ord_status test_pack(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                                   uint32_t weight, const void *const *segment, uint32_t slice, uint32_t slice_count,
                                   void *packed) {
  (void)kernel, (void)node, (void)answer, (void)weight, (void)segment, (void)slice, (void)slice_count, (void)packed;
  return ORD_OK;
}

static inline ord_status test_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                                      const ord_host *host, void **state, ord_plugin_error *fault) {
  (void)answer, (void)host;
  if (((const test_kernel *)kernel)->fails_to_prepare) {
    snprintf(fault->text, sizeof fault->text, "found no handle");
    return ORD_DEVICE_FAILED;
  }
  *state = (void *)(uintptr_t)node;
  live_states++;
  return ORD_OK;
}

static inline ord_status test_launch(void *state, const ord_exec *exec, ord_plugin_error *fault) {
  const ord_node *node = state;
  return ord_op_find(node->op)->reference->launch(state, exec, fault);
}

static inline void test_retire(void *state) { live_states -= state != NULL; }

static inline test_kernel make_kernel(const char *name, const char *op) {
  return (test_kernel){.kernel = {.struct_size = sizeof(ord_kernel),
                                  .name = name,
                                  .op = op,
                                  .query = test_query,
                                  .pack = test_pack,
                                  .prepare = test_prepare,
                                  .launch = test_launch,
                                  .retire = test_retire}};
}

static const ord_kernel *test_kernel_list[16];
static ord_plugin test_plugin = {.struct_size = sizeof test_plugin, .kernel = test_kernel_list};

static inline ord_status test_open(const ord_host *host, const ord_plugin **out, ord_plugin_error *fault) {
  (void)host, (void)fault;
  *out = &test_plugin;
  return ORD_OK;
}

typedef struct kernel_stage {
  ord_registry *registry;
  ord_device_info device;
  ord_chooser chooser;
  ord_pass_options options;
} kernel_stage;

/* The reference and these kernels. */
static inline void open_kernels(kernel_stage *stage, test_kernel *kernel, uint32_t count) {
  static const ord_manifest manifest = {.magic = ORD_PLUGIN_MAGIC,
                                        .struct_size = sizeof manifest,
                                        .abi_major = ORD_ABI_MAJOR,
                                        .abi_minor_needed = ORD_ABI_MINOR,
                                        .abi_minor_built = ORD_ABI_MINOR,
                                        .name = "test",
                                        .version = "1",
                                        .build_id = "1",
                                        .toolchain = "gcc"};
  *stage = (kernel_stage){.device = {.struct_size = sizeof stage->device, .kind = ORD_DEVICE_CPU, .cores = 1}};
  MUST(ord_registry_create(NULL, NULL, &stage->registry, &err));
  MUST(ord_registry_add_static(stage->registry, &ord_reference_manifest, ord_reference_open, true, &err));
  for (uint32_t i = 0; i < count; i++) test_kernel_list[i] = &kernel[i].kernel;
  test_plugin.kernel_count = count;
  if (count) MUST(ord_registry_add_static(stage->registry, &manifest, test_open, false, &err));
  stage->chooser = (ord_chooser){.registry = stage->registry, .device = &stage->device, .compute = ORD_F32};
  stage->options = (ord_pass_options){.chooser = &stage->chooser};
}

static inline void close_kernels(kernel_stage *stage) { ord_registry_destroy(stage->registry); }

/* Runs one pass; destroys the graph that it was given. */
static inline ord_graph *run_pass(kernel_stage *stage, const char *name, ord_graph *graph) {
  ord_graph *out = NULL;
  for (uint32_t i = 0; i < ord_pass_count(); i++)
    if (strcmp(ord_pass_get(i)->name, name) == 0) MUST(ord_pass_get(i)->run(graph, &stage->options, &out, &err));
  assert_non_null(out);
  ord_graph_destroy(graph);
  return out;
}

#endif
