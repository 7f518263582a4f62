/* SPDX-License-Identifier: MIT
 *
 * A plan: the ops of a graph as steps in order, each with its kernel, its prepared state and a place for every
 * operand. Made by graphs/lower.c for one binding of the run-time dims (each either exact or up to a maximum);
 * immutable afterwards. It holds offsets, no addresses of a session: capture adds those.
 *
 * Memory of a run, in spaces:
 *   ORD_SPACE_ARENA   one block of plan->arena_bytes: inputs, results, scratch, persistent
 *   ORD_SPACE_WEIGHT  plan->weight[index], memory of the weight store
 *   ORD_SPACE_CACHE   caches of the session, index = 2 * cache + (0: keys, 1: values)
 *   ORD_SPACE_PAST    i32 [batch], tokens each row has in the caches
 *   ORD_SPACE_EXTENT  i64 scalar number `index`, the value of plan->extent[index] in this run
 */
#ifndef ORDITO_RUNTIME_PLAN_H
#define ORDITO_RUNTIME_PLAN_H

#include "runtime/choose.h"
#include "runtime/size.h"
#include "runtime/tensor.h"
#include "runtime/weights.h"

typedef struct ord_device ord_device;

typedef enum {
  ORD_SPACE_NONE, /* an absent operand */
  ORD_SPACE_ARENA,
  ORD_SPACE_WEIGHT,
  ORD_SPACE_CACHE,
  ORD_SPACE_PAST,
  ORD_SPACE_EXTENT
} ord_space;

typedef struct ord_location {
  ord_space space;
  uint32_t index;
  size_t offset; /* bytes */
} ord_location;

typedef struct ord_step {
  ord_node node;           /* what the kernel was told; points into the plan's arena */
  ord_choice choice;       /* who computes it, and why */
  const char *const *path; /* the layer paths of the ops it stands for */
  uint32_t path_count;
  const ord_location *place; /* [node.operand_count] */
  size_t scratch_offset;     /* in the arena space */
  size_t persistent_offset;
  void *state; /* from the kernel's prepare */
} ord_step;

/* A tensor that the session fills before a run or reads after it. Strides belong to the plan's maximum. */
typedef struct ord_plan_tensor {
  const char *name; /* of an input, an output or a kept value */
  ord_dtype dtype;
  uint32_t rank;
  int64_t dim[ORD_RANK_MAX];    /* the maximum */
  ord_size size[ORD_RANK_MAX];  /* in run-time dims: what it is in a run */
  int64_t stride[ORD_RANK_MAX]; /* bytes */
  ord_location place;
} ord_plan_tensor;

typedef struct ord_plan {
  ord_arena arena;
  ord_weight_store *store; /* borrowed; NULL if the graph has no weights */
  ord_device *device;      /* borrowed, for retiring the states; NULL in a plan without states */

  ord_step *step;
  uint32_t step_count;

  ord_plan_tensor *input, *output; /* input: in the order of graph->input; output: as asked for */
  uint32_t input_count, output_count;

  ord_size *extent; /* evaluated by the session before each run */
  uint32_t extent_count;

  const void **weight; /* taken from the store, dropped with the plan; NULL entries are allowed */
  uint32_t weight_count;

  size_t arena_bytes;                /* of the arena space; holds scratch and persistent too */
  size_t persistent_begin;           /* the arena from here to its end is zeroed once; the rest is undefined at first */
  size_t worker_bytes;               /* for each thread, the largest of all steps */
  uint32_t phase_count;              /* launches of a replay, for reports */
  uint32_t written_out_count;        /* composites of the graph that are several steps here, for reports */
  size_t stored_bytes, packed_bytes; /* of weights that the plan keeps, as stored and packed; each once */
  size_t moved_bytes; /* copied by reshape, transpose, slice, split and concat steps in a run at the maximum */
} ord_plan;

/* Retires the states and drops the weights. No capture of it may be alive. Accepts NULL and half-built plans. */
void ord_plan_destroy(ord_plan *plan);

#endif
