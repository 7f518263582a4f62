/* SPDX-License-Identifier: MIT
 *
 * From a graph that went through the passes to a plan: choose a kernel per node, place memory, prepare. And the
 * memory planner on its own, a small pure module.
 */
#ifndef ORDITO_GRAPHS_LOWER_H
#define ORDITO_GRAPHS_LOWER_H

#include "graphs/pass.h"
#include "runtime/device.h"
#include "runtime/pages.h"

/* The first pin whose kernel does not serve a node that it selects. */
typedef struct ord_refused_pin {
  const ord_pin *pin; /* NULL: none */
  ord_error why;      /* names the node */
} ord_refused_pin;

typedef struct ord_lower_options {
  const ord_chooser *chooser;
  ord_weight_store *store; /* NULL only if the graph has no weights or `dry` is set */
  ord_device *device;      /* NULL only if `dry` is set */
  bool dry;                /* choose and place, but read no weight and prepare no kernel: for show, explain, check */
  ord_log_fn log;          /* a line per op that fell to the reference; may be NULL */
  void *log_context;
  ord_refused_pin *refused; /* filled where the plan fails; may be NULL */
} ord_lower_options;

/* All nodes that no kernel serves are told at once in *err (code ORD_UNSUPPORTED). */
ORD_MUST_CHECK bool ord_plan_create(const ord_graph *graph, const ord_lower_options *options, ord_plan **out,
                                    ord_error *err);

/* memory.c: intervals of life -> offsets in one block. `first` and `last` are step numbers, both included. */
typedef struct ord_memory_item {
  size_t bytes;
  uint32_t first, last;
  size_t offset; /* the answer, a multiple of ORD_MEMORY_ALIGNMENT */
} ord_memory_item;
/* Up to a multiple of ORD_MEMORY_ALIGNMENT; false on overflow. */
ORD_MUST_CHECK bool ord_memory_round_up(size_t bytes, size_t *out);
ORD_MUST_CHECK bool ord_memory_place(ord_memory_item *item, uint32_t count, size_t *out_bytes, ord_error *err);

#endif
