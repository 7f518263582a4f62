/* SPDX-License-Identifier: MIT
 *
 * What a matmul does to its result before it leaves it: the bias and the items of the epilogue. Which they are says
 * epilogue_accept.c, for any CPU; epilogue.c is compiled once a level. Items that need whole rows, the norms, are
 * refused.
 *
 *   query    answer->epilogue_served = epilogue_accept(node, answer), after plain_check
 *   prepare  epilogue_resolve(node, answer, &state->epilogue)
 *   pack     plain_pack serves every key but the kernel's own
 *   launch   epilogue_begin once a chunk; epilogue_apply on each tile while it is in the nearest cache
 */
#ifndef PLAIN_EPILOGUE_H
#define PLAIN_EPILOGUE_H

#include "plain.h"

#define epilogue_resolve PLAIN_NAME(epilogue_resolve)
#define epilogue_begin PLAIN_NAME(epilogue_begin)
#define epilogue_apply PLAIN_NAME(epilogue_apply)

enum { EPILOGUE_MAX = 8 }; /* items, the bias included */

/* An operand that is read or written row by row. */
typedef struct epilogue_operand {
  uint32_t which;    /* or ORD_NONE */
  int64_t row_bytes; /* from row to row in every run, 0 if all rows read the same; -1: to be worked out in each run */
} epilogue_operand;

typedef struct epilogue_item {
  plain_pointwise_fn pointwise; /* NULL: add or multiply `operand` */
  bool multiplies;
  epilogue_operand operand, output; /* output: also receives the value after this item */
} epilogue_item;

typedef struct epilogue_list {
  uint32_t count;
  epilogue_item item[EPILOGUE_MAX]; /* where the node has a bias, it comes first */
} epilogue_list;

/* add or mul, with the result as one operand. */
bool epilogue_is_binary(const char *op, bool *out_multiplies);
/* How many items of the node, from the first, are applied; asks for the packs that they need. */
uint32_t epilogue_accept(const ord_node *node, ord_answer *answer);
/* The bias and the first answer->epilogue_served items. */
void epilogue_resolve(const ord_node *node, const ord_answer *answer, epilogue_list *out);

/* The items with their operands as they are in a run: rows, counted over the leading axes of the result. */
typedef struct epilogue_step {
  plain_pointwise_fn pointwise;
  bool multiplies;
  plain_view operand, output; /* output.data NULL: none */
} epilogue_step;

typedef struct epilogue_run {
  uint32_t count;
  epilogue_step step[EPILOGUE_MAX];
} epilogue_run;
void epilogue_begin(const epilogue_list *list, const plain_state *state, const ord_exec *exec, epilogue_run *run);

/* Applies all items to a tile: value[r * stride + c] is element (row + r, column.first + c) of the result. Tiles of
 * whole 32 columns go fastest, and those whose rows follow one another (stride = columns). */
void epilogue_apply(const epilogue_run *run, int64_t row, int64_t row_count, plain_range column, float *value,
                    int64_t stride);

#endif
