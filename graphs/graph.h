/* SPDX-License-Identifier: MIT
 *
 * The op graph: values and the nodes that make them, in an order in which every value is made before it is read.
 * Built by models/build.c, rewritten by passes (each makes a new graph), turned into a plan by lower.c. Sizes may
 * hold run-time dims until a graph is bound (ord_graph_bind); strides exist only in bound graphs.
 * All text and arrays belong to the graph's arena.
 */
#ifndef ORDITO_GRAPHS_GRAPH_H
#define ORDITO_GRAPHS_GRAPH_H

#include "ops/op.h"

typedef enum { ORD_FILL_NONE, ORD_FILL_TOKENS, ORD_FILL_POSITIONS, ORD_FILL_LENGTHS, ORD_FILL_NUMBER } ord_fill;

typedef struct ord_graph_run_dim {
  const char *name;
  int64_t min, max;
} ord_graph_run_dim;

typedef struct ord_graph_input {
  const char *name;
  uint32_t value;
  ord_fill fill;
  double fill_number;
} ord_graph_input;

/* A weight as the file stores it. `stored_dim` is the file's order; `row_axes` of them (from the front, or from the
 * back if `in_first`) make the rows of the value. */
typedef struct ord_graph_weight {
  const char *name;      /* in the model */
  const char *file_name; /* of the tensor in the file (`from`) */
  uint32_t line, column; /* where the model file declares it */
  uint32_t stored_rank;
  int64_t stored_dim[ORD_RANK_MAX];
  bool has_axes; /* out and in are named */
  bool in_first; /* stored [in.., out..] */
  uint32_t value_rank;
  int64_t value_dim[ORD_RANK_MAX];    /* with named axes [out, in], else stored_dim */
  int64_t value_stride[ORD_RANK_MAX]; /* elements */
  bool has_slice;
  uint32_t slice_axis;
  int64_t slice_start;
} ord_graph_weight;

typedef struct ord_graph_cache {
  const char *name;
  ord_size length;
  ord_size batch;
  int64_t kv_heads, k_dim, v_dim;
  ord_dtype dtype; /* f32 as built; the session may choose another */
} ord_graph_cache;

typedef enum { ORD_VALUE_INPUT, ORD_VALUE_WEIGHT, ORD_VALUE_RESULT } ord_value_kind;

/* Where the numbers of a value lie, in a bound graph. */
typedef enum {
  ORD_STORAGE_OWN, /* its own memory with `stride` (dense, or permuted for its reader) */
  ORD_STORAGE_VIEW /* inside value `base`, from `offset` on, with `stride` */
} ord_storage;

typedef struct ord_value {
  ord_value_kind kind;
  uint32_t index;   /* INPUT: graph->input; WEIGHT: graph->weight; RESULT: the node that makes it, ORD_NONE: none
                       (nobody needs it, or its parts are views that their makers fill) */
  const char *name; /* as bound in the file */
  const char *path; /* of the op that made it with the value's name, "layer.3.self_attention.q"; else the name */
  uint32_t line;    /* where the file binds it */
  ord_dtype dtype;  /* a weight counts as f32 until its file is known */
  uint32_t rank;
  ord_size dim[ORD_RANK_MAX];
  ord_storage storage;
  uint32_t base;                /* VIEW: never itself a view */
  int64_t offset;               /* elements */
  int64_t stride[ORD_RANK_MAX]; /* elements, of the plan's maximum */
} ord_value;

/* A weight that a pass fused out of several: a value of kind WEIGHT whose rows are these, in order. Its `index` is that
 * of the first part. */
typedef struct ord_fused_weight {
  uint32_t value;
  const uint32_t *part; /* indices of graph->weight */
  uint32_t part_count;
} ord_fused_weight;

/* One item that a node applies to its result before storing it (ordito_plugin.h, ord_epilogue). */
typedef struct ord_graph_epilogue {
  const ord_op *op;
  uint32_t operand[2]; /* values or ORD_NONE */
  uint32_t result;     /* the value after this item if somebody else reads it too, else ORD_NONE */
  const ord_attr *attr;
  uint32_t attr_count;
} ord_graph_epilogue;

typedef struct ord_graph_node {
  const ord_op *op;
  uint32_t *in; /* values, one per slot (a list slot's entries one after the other); ORD_NONE: absent */
  uint32_t in_count;
  uint32_t *out; /* values; of a result that the file drops too: a value that nobody reads */
  uint32_t out_count;
  ord_attr *attr; /* resolved; an absent number operand of add, sub, mul: attribute "number" */
  uint32_t attr_count;
  uint32_t cache; /* graph->cache or ORD_NONE */
  ord_graph_epilogue *epilogue;
  uint32_t epilogue_count;
  const char **path; /* of all the ops it stands for, at least one */
  uint32_t path_count;
  uint32_t line, column;
} ord_graph_node;

typedef struct ord_graph_output {
  const char *name;
  uint32_t value;
} ord_graph_output;

typedef struct ord_graph {
  ord_arena arena;
  const char *model_name; /* the full name, with its size */
  ord_graph_run_dim *run_dim;
  const char **run_dim_name; /* the names alone, for ord_size_print */
  uint32_t run_dim_count;
  ord_graph_input *input;
  uint32_t input_count;
  ord_graph_weight *weight;
  uint32_t weight_count;
  ord_graph_cache *cache;
  uint32_t cache_count;
  ord_value *value;
  uint32_t value_count, value_capacity;
  ord_graph_node *node;
  uint32_t node_count, node_capacity;
  ord_fused_weight *fused; /* in the order of their values */
  uint32_t fused_count, fused_capacity;
  ord_graph_output *output;
  uint32_t output_count, output_capacity;
  bool is_bound;
  int64_t *bound;     /* [run_dim_count] in a bound graph: the maximum of each run-time dim */
  bool shares_memory; /* values that are never needed together may lie in the same memory (plan_memory.c) */
} ord_graph;

ORD_MUST_CHECK bool ord_graph_create(ord_graph **out, ord_error *err);
void ord_graph_destroy(ord_graph *graph);
/* A deep copy that shares nothing with `graph`. */
ORD_MUST_CHECK bool ord_graph_copy(const ord_graph *graph, ord_graph **out, ord_error *err);

/* Appends a value, ORD_NONE when out of memory. */
uint32_t ord_graph_add_value(ord_graph *graph, const ord_value *value);

/* What ord_graph_add_node is told. `described` texts are made by it. */
typedef struct ord_node_spec {
  const ord_op *op;
  const uint32_t *in; /* values, ORD_NONE where absent; one per slot, list entries one after the other */
  uint32_t in_count;
  const double *number;   /* [in_count] plain numbers, read where has_number */
  const bool *has_number; /* may be NULL: none */
  const ord_attr *attr;   /* as given, defaults not filled in */
  uint32_t attr_count;
  const ord_size *shape;
  uint32_t shape_rank;
  uint32_t cache;
  const char *const *out_name; /* [out_count]; NULL entry: dropped */
  const char *const *out_path;
  uint32_t out_count;
  const char *path; /* of the op */
  uint32_t line, column;
  void (*report)(ord_infer *infer, const char *slot_or_attr, uint32_t entry, const char *text);
  void *report_context;
} ord_node_spec;

/* Runs the shape rule and appends the node and its results; copies what the spec points to. out_value [out_count]
 * receives the values (ORD_NONE for a dropped optional result). Also notes the shapes of the cache that it names.
 * False after a fault was reported (err untouched, if report is set) or when out of memory. */
ORD_MUST_CHECK bool ord_graph_add_node(ord_graph *graph, const ord_node_spec *spec, uint32_t *out_value,
                                       ord_error *err);

ORD_MUST_CHECK bool ord_graph_add_output(ord_graph *graph, const char *name, uint32_t value, ord_error *err);
/* ORD_NONE if there is none. */
uint32_t ord_graph_find_output(const ord_graph *graph, const char *name);
uint32_t ord_graph_find_input(const ord_graph *graph, const char *name);

/* "[1, seq, 384]"; with axes of a weight "[out 384, in 768]". */
void ord_graph_print_shape(ord_text *text, const ord_graph *graph, uint32_t value);

/* Appends `sample` to output `logits` as output "sample.id", with its inputs (sample.temperature, .top_k, .top_p,
 * .seed, .counter; all [batch]). */
ORD_MUST_CHECK bool ord_graph_append_sample(const ord_graph *graph, const char *logits, ord_graph **out,
                                            ord_error *err);

#endif
