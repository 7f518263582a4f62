/* SPDX-License-Identifier: MIT
 *
 * Host side of rows.h: which items of an epilogue are served, and the operands of rows for a launch.
 *
 *   query    answer->epilogue_served = epilogue_accept(node)
 *   prepare  rows_begin, rows_add for the op's own operands, epilogue_prepare, then rows_join
 *   launch   rows_of, rows_place, epilogue_of, epilogue_norm_of
 */
#ifndef CORE_EPILOGUE_H
#define CORE_EPILOGUE_H

#include "core.h"
#include "rows.h"

enum { ROWS_PLACES = 4 + 2 * EPILOGUE_ITEMS };

/* Operands with the leading axes of the result, or repeated along them. */
typedef struct rows_plan {
  const ord_node *node;
  uint32_t count;
  core_view view[ROWS_PLACES]; /* of the leading axes; the first is the result */
  int64_t column_stride[ROWS_PLACES];
} rows_plan;

void rows_begin(rows_plan *plan, const ord_node *node); /* adds the result as place 0 */
/* The number of its place; ORD_NONE is added as an absent one. */
uint32_t rows_add(rows_plan *plan, uint32_t which);
/* Joins the axes of all places. Nothing is added later. */
void rows_join(rows_plan *plan);
core_rows rows_of(const rows_plan *plan, const ord_exec *exec);
core_place rows_place(const rows_plan *plan, uint32_t place, const ord_exec *exec);

/* Rows of the result at the plan's maximum; saturates. */
int64_t rows_limit(const ord_node *node);
/* A size of the run. */
core_size core_size_of(const ord_node *node, const ord_exec *exec, uint32_t which, uint32_t axis);

typedef struct epilogue_plan {
  uint32_t count;
  struct {
    uint32_t kind, operand, output; /* places */
  } item[EPILOGUE_ITEMS];           /* where the node has a bias, it comes first */
  const ord_epilogue *norm;         /* the last item that is served, if it is one; or NULL */
  uint32_t norm_weight, norm_bias;  /* places */
} epilogue_plan;

/* How many items of the node, from the first, are served; a norm of whole rows is the last of them. */
uint32_t epilogue_accept(const ord_node *node);
bool epilogue_has_norm(const ord_node *node, uint32_t served);
/* Operands that the result may overwrite. */
uint32_t epilogue_alias_mask(const ord_node *node, uint32_t served);
void epilogue_prepare(rows_plan *rows, uint32_t served, epilogue_plan *out);
epilogue_list epilogue_of(const epilogue_plan *plan, const rows_plan *rows, const ord_exec *exec);
norm_arguments epilogue_norm_of(const epilogue_plan *plan, const rows_plan *rows, const ord_exec *exec);

#endif
