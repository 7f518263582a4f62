/* SPDX-License-Identifier: MIT
 *
 * The work of ord_plan_create in three parts, one file each: choose kernels, place memory, prepare. Each fills its
 * share of the plan. Only lower*.c include this.
 */
#ifndef ORDITO_GRAPHS_LOWER_PARTS_H
#define ORDITO_GRAPHS_LOWER_PARTS_H

#include "graphs/edit.h"
#include "graphs/lower.h"

typedef struct ord_lower {
  const ord_lower_options *options;
  ord_arena arena;  /* of the lowering alone */
  ord_graph *graph; /* with cache_append nodes; node n becomes step n */
  ord_plan *plan;
  ord_described *described; /* [steps]: what the operands of step n stand for; their sizes lie in `graph` */
} ord_lower;

/* lower_choose.c: the steps, each described and with its kernel. All nodes that nobody serves are told at once. */
ORD_MUST_CHECK bool ord_lower_choose(ord_lower *lower, ord_error *err);
/* lower_place.c: a location for every operand, and the sizes of the plan's memory. */
ORD_MUST_CHECK bool ord_lower_place(ord_lower *lower, ord_error *err);
/* lower_prepare.c: weights from the store, states from the kernels. */
ORD_MUST_CHECK bool ord_lower_prepare(ord_lower *lower, ord_error *err);

#endif
