/* SPDX-License-Identifier: MIT
 *
 * Passes: each reads a bound graph and makes a new one that computes the same with less. passes.def lists them in
 * order; each has its own file and can be switched off by name. A pass that would fuse or lower first asks whether a
 * kernel serves the result.
 */
#ifndef ORDITO_GRAPHS_PASS_H
#define ORDITO_GRAPHS_PASS_H

#include "graphs/graph.h"
#include "runtime/choose.h"
#include "runtime/weights.h"

/* How a graph is bound before the passes run. */
typedef struct ord_binding {
  const int64_t *exact;   /* [run_dim_count]: the value, or -1 where the dim stays open up to `maximum` */
  const int64_t *maximum; /* [run_dim_count] */
} ord_binding;

/* A bound copy: exact dims replaced everywhere, maxima noted, dense strides set, dtypes of weights taken from the
 * store (NULL: f32), only the outputs asked for (all if output_count is 0) and what stands in `keep`. */
typedef struct ord_bind_options {
  ord_binding binding;
  const ord_weight_store *store;
  const char *const *output;
  uint32_t output_count;
  const char *const *keep; /* layer paths of values that become extra outputs; for --dump and tracing */
  uint32_t keep_count;
} ord_bind_options;
ORD_MUST_CHECK bool ord_graph_bind(const ord_graph *graph, const ord_bind_options *options, ord_graph **out,
                                   ord_error *err);

typedef struct ord_pass_options {
  const ord_chooser *chooser;
  const char *const *disabled; /* names of passes */
  uint32_t disabled_count;
} ord_pass_options;

typedef struct ord_pass {
  const char *name, *about;
  bool (*run)(const ord_graph *graph, const ord_pass_options *options, ord_graph **out, ord_error *err);
} ord_pass;

uint32_t ord_pass_count(void);
const ord_pass *ord_pass_get(uint32_t index);

/* What pass number i did, for reports. */
typedef struct ord_pass_record {
  bool was_disabled;
  uint32_t ops_before, ops_after;     /* nodes */
  uint64_t moved_before, moved_after; /* bytes copied by view and join ops at the maximum */
  uint64_t peak_before, peak_after;   /* bytes of the values' memory as planned */
} ord_pass_record;

/* Runs all passes that are not disabled. `record` [ord_pass_count()] may be NULL. An unknown disabled name is an
 * error that lists the passes. `graph` stays as it is. If `print` is not NULL, it is called with the graph before the
 * first and after each pass that changed something. */
typedef void (*ord_pass_print_fn)(void *context, const ord_pass *pass, const ord_graph *graph);
ORD_MUST_CHECK bool ord_passes_run(const ord_graph *graph, const ord_pass_options *options, ord_pass_record *record,
                                   ord_pass_print_fn print, void *print_context, ord_graph **out, ord_error *err);

/* The graph as text, a line per node: path, op, operands with shapes and strides, epilogues. */
void ord_graph_print(ord_text *text, const ord_graph *graph);

/* The ABI's picture of a node of a bound graph (describe.c): what kernels are asked. Lives in `arena` and points to
 * nothing of the graph, but for the sizes of `operand`. What each operand of the picture stands for goes to `operand`,
 * for lowering. */
typedef enum {
  ORD_IS_VALUE,
  ORD_IS_ABSENT,
  ORD_IS_CACHE_K,
  ORD_IS_CACHE_V,
  ORD_IS_PAST,
  ORD_IS_EXTENT,
  ORD_IS_SCALE
} ord_operand_is;
typedef struct ord_described_operand {
  ord_operand_is is;
  uint32_t value;       /* IS_VALUE: the value; IS_SCALE: the weight that is scaled */
  const ord_size *size; /* [rank] of the operand; IS_EXTENT: [1], what it holds */
} ord_described_operand;
typedef struct ord_described {
  ord_node node;
  ord_described_operand *operand; /* [node.operand_count] */
} ord_described;
ORD_MUST_CHECK bool ord_describe_node(const ord_graph *graph, const ord_graph_node *node, const ord_chooser *chooser,
                                      ord_arena *arena, ord_described *out, ord_error *err);

#endif
