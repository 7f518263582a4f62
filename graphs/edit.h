/* SPDX-License-Identifier: MIT
 *
 * What the files of graphs/ share: copies into an arena, sizes at the plan's maximum, and the few ways in which a pass
 * changes the copy of a graph that it works on. Nothing outside graphs/ includes this.
 */
#ifndef ORDITO_GRAPHS_EDIT_H
#define ORDITO_GRAPHS_EDIT_H

#include "graphs/pass.h"

/* ---- copies; false or NULL when out of memory ----------------------------------------------------------------- */
ORD_MUST_CHECK bool ord_size_copy(ord_arena *arena, ord_size *size);
ORD_MUST_CHECK bool ord_attr_copy(ord_arena *arena, const ord_attr *attr, ord_attr *out);
ord_attr *ord_attrs_copy(ord_arena *arena, const ord_attr *attr, uint32_t count);
const char **ord_texts_copy(ord_arena *arena, const char *const *text, uint32_t count);

/* ---- values --------------------------------------------------------------------------------------------------- */
/* The parts of a weight that a pass fused; NULL if `value` is none. */
const ord_fused_weight *ord_graph_find_fused(const ord_graph *graph, uint32_t value);
/* Dims at the plan's maximum; fails on overflow. */
ORD_MUST_CHECK bool ord_value_dims(const ord_graph *graph, const ord_value *value, int64_t dim[ORD_RANK_MAX],
                                   ord_error *err);
/* Memory of its own, row-major. */
ORD_MUST_CHECK bool ord_value_set_dense(const ord_graph *graph, ord_value *value, ord_error *err);
/* Bytes of the memory that an OWN value needs, at the plan's maximum. */
ORD_MUST_CHECK bool ord_value_bytes(const ord_graph *graph, const ord_value *value, size_t *out, ord_error *err);
/* The value in whose memory it lies: itself, or its base. */
uint32_t ord_value_base(const ord_graph *graph, uint32_t value);
/* How often the node reads it, as an operand or in an epilogue. */
uint32_t ord_node_count_reads(const ord_graph_node *node, uint32_t value);

/* ---- who reads what ------------------------------------------------------------------------------------------- */
/* Of a graph as it was when they were listed: a node that was removed or folded since stays in the lists. */
typedef struct ord_readers {
  uint32_t *begin, *node; /* node[begin[v]] to node[begin[v + 1] - 1], ascending, read value v, each once per operand */
  uint32_t *view_count;   /* [values]: how many lie in the memory of each */
  bool *is_output;        /* [values] */
} ord_readers;
/* All of it in `arena`. */
ORD_MUST_CHECK bool ord_readers_make(const ord_graph *graph, ord_arena *arena, ord_readers *out, ord_error *err);
/* The readers of the value from node number `first` on. */
const uint32_t *ord_readers_from(const ord_readers *readers, uint32_t value, uint32_t first, uint32_t *out_count);

/* ---- editing -------------------------------------------------------------------------------------------------- */
/* Appends a node as it is (it keeps pointing where it did). */
ORD_MUST_CHECK bool ord_graph_append_node(ord_graph *graph, const ord_graph_node *node, ord_error *err);
/* Takes the node out; it stays as an empty place until ord_graph_close_gaps. */
void ord_node_remove(ord_graph_node *node);
/* Closes the places of removed nodes, and lets each result know its node again (ORD_NONE: nobody makes it). */
void ord_graph_close_gaps(ord_graph *graph);
/* Takes out what the outputs do not need. One attention with a cache that is needed keeps them all: the caches share
 * one past. */
ORD_MUST_CHECK bool ord_graph_prune(ord_graph *graph, ord_error *err);
/* Appends the paths of `other` to those of `node`. */
ORD_MUST_CHECK bool ord_node_add_paths(ord_arena *arena, ord_graph_node *node, const ord_graph_node *other);

/* ---- asking --------------------------------------------------------------------------------------------------- */
typedef struct ord_asked {
  const ord_kernel *kernel; /* NULL: none but the reference */
  bool packs_matrices;      /* it packs every weight of rank 2 */
} ord_asked;

/* Which kernel other than the reference would compute this node with its whole epilogue list? Fails only when out of
 * memory. */
ORD_MUST_CHECK bool ord_graph_ask(const ord_graph *graph, const ord_graph_node *node, const ord_pass_options *options,
                                  ord_asked *out, ord_error *err);
bool ord_node_is_pinned(const ord_graph_node *node, const ord_pass_options *options);
/* Would every pin that selects `part` also select `whole`, into which it is fused? */
bool ord_pins_allow(const ord_pass_options *options, const ord_graph_node *part, const ord_graph_node *whole);

/* ---- measuring, at the plan's maximum ------------------------------------------------------------------------- */
/* Where in the order of the nodes the memory of a value is needed. */
typedef struct ord_lifetime {
  bool has_memory; /* false: a view, a weight, or nobody makes or reads it */
  uint32_t first, last;
  size_t bytes;
} ord_lifetime;
/* One entry a value, in `arena`. Inputs and outputs live for the whole run. */
ORD_MUST_CHECK bool ord_graph_lifetimes(const ord_graph *graph, ord_arena *arena, ord_lifetime **out, ord_error *err);
/* Bytes that view and join ops copy in a run. */
ORD_MUST_CHECK bool ord_graph_moved_bytes(const ord_graph *graph, uint64_t *out, ord_error *err);
/* Bytes of the values' memory. */
ORD_MUST_CHECK bool ord_graph_peak_bytes(const ord_graph *graph, uint64_t *out, ord_error *err);

#endif
