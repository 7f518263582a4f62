/* SPDX-License-Identifier: MIT
 *
 * What the host sides of this plugin's kernels share: checking a node against a list of rules, the prepared state,
 * operands as device code sees them, launching. A kernel takes one argument, a struct by value that its .cu and its .c
 * share. Sizes of a run are device data: grids are made for the plan's maximum, and a kernel reads what the run has.
 */
#ifndef CORE_H
#define CORE_H

#include <stdbool.h>
#include <stddef.h>

#include "ordito_plugin.h"
#include "tensor.h"

/* ---- query (node.c) ---- */

enum {
  CORE_F32 = 1 << ORD_F32,
  CORE_I32 = 1 << ORD_I32,
  CORE_I64 = 1 << ORD_I64,
  CORE_FLOATS = CORE_F32 | 1 << ORD_F16 | 1 << ORD_BF16,
  CORE_NUMBERS = CORE_FLOATS | 1 << ORD_I8, /* i8: with a scale per row */
  CORE_MOVED = CORE_FLOATS | CORE_I32 | CORE_I64 | 1 << ORD_BOOL
};

/* What a kernel takes of the operands of one name. "out" means every output. */
typedef struct core_rule {
  const char *name; /* NULL ends a list */
  uint32_t types;   /* CORE_F32 | .. */
} core_rule;

/* Of a set such as CORE_FLOATS. */
static inline bool core_is_one_of(uint16_t type, uint32_t types) { return type < 32 && (types >> type & 1u); }

/* Fills `reason` and returns ORD_NO. */
ord_status core_refuse(ord_answer *answer, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Checks op version and operand types. On ORD_OK the answer stands for one launch without epilogue, re-entrant. */
ord_status core_check(const ord_node *node, const core_rule *rule, ord_answer *answer);

/* May the first output overwrite operand `which`: are they laid out alike? */
bool core_is_laid_out_alike(const ord_node *node, uint32_t which);

const char *core_type_name(uint16_t type);
int64_t core_multiply(int64_t a, int64_t b); /* of counts; saturates */
static inline int64_t core_divide_up(int64_t a, int64_t b) { return a / b + (a % b != 0); }
int64_t core_count(const ord_operand *operand); /* elements at the plan's maximum; saturates */
bool core_word_is(const ord_node *node, const char *attr, const char *word);
/* Attribute `axis`, counted from 0. */
uint32_t core_axis(const ord_node *node, uint32_t rank);

/* ---- state and launch (node.c) ---- */

/* Every state begins with this. */
typedef struct core_state {
  const ord_node *node;
  const ord_answer *answer;
  const ord_host *host;
} core_state;

/* A zeroed state of `bytes`, NULL with `err` filled when out of memory. */
void *core_state_create(const ord_node *node, const ord_answer *answer, const ord_host *host, size_t bytes,
                        ord_plugin_error *err);
/* For the end of prepare: hands the state out, or retires it where `status` tells that it is not whole. */
ord_status core_state_prepared(void *made, ord_status status, void **state);
/* retire of all. */
void core_retire(void *state);

/* A prepared kernel with its grid. */
typedef struct core_work {
  void *kernel;
  uint32_t blocks[3], threads[3], shared_bytes;
} core_work;

/* For prepare: the kernel `symbol` of this image, for `shared_bytes` of dynamic shared memory. A size of the grid that
 * is 0 becomes 1. */
ord_status core_work_prepare(const core_state *state, const char *image, const char *symbol, uint32_t shared_bytes,
                             core_work *work, ord_plugin_error *err);

/* Enqueues the kernel; `argument` is its one argument. The kernel waits for those before it by itself. */
ord_status core_work_launch(const core_state *state, const ord_exec *exec, const core_work *work, const void *argument,
                            size_t argument_bytes, ord_plugin_error *err);

/* Blocks of `threads` for `count` things, at most so many as keep a large device busy: a thread goes on to the next
 * ones in steps of the grid. */
void core_work_spread(core_work *work, int64_t count, uint32_t threads);

/* ---- operands (view.c) ---- */

/* Where an operand lies and how: the same in every run but for addresses. */
typedef struct core_view {
  uint32_t which;                         /* the operand; ORD_NONE: absent */
  uint32_t rank, type, bytes, align_log2; /* bytes of an element */
  uint32_t extent[CORE_RANK_MAX];         /* the SCALAR operand, or ORD_NONE */
  int64_t dim[CORE_RANK_MAX], stride[CORE_RANK_MAX];
  int64_t limit[CORE_RANK_MAX]; /* the axis' places at the plan's maximum */
} core_view;

core_view core_view_of(const ord_node *node, uint32_t which);
core_view core_view_slot(const ord_node *node, const char *name);
/* `count` axes from `first` on alone. */
core_view core_view_part(const core_view *view, uint32_t first, uint32_t count);
/* The view with the dims of `like`: trailing axes align, axes of size 1 repeat. */
core_view core_view_broadcast(const core_view *view, const core_view *like);
/* Drops axes of size 1 and joins axes that follow one another evenly in all `count` views (equal dims). Of an axis
 * whose size is of the run, `dim` becomes what was joined to it. */
void core_view_merge(core_view *view, uint32_t count);
/* Do the numbers of the last axis follow one another in whole aligned groups of `group`? */
bool core_view_has_groups(const core_view *view, uint32_t group);
/* The same in vectors of 16 bytes; or, with may_repeat, one stands for all of them (stride 0). */
bool core_view_has_vectors(const core_view *view, bool may_repeat);
/* Makes the last axis one of vectors. */
void core_view_take_vectors(core_view *view);
/* Places at the plan's maximum; saturates. */
int64_t core_view_count(const core_view *view);
/* In a run. */
core_tensor core_view_tensor(const core_view *view, const ord_exec *exec);

/* Operand `which` in a run, its axes as the node has them. */
core_tensor core_tensor_of(const core_state *state, const ord_exec *exec, uint32_t which);

/* ---- the kernels ---- */

/* CORE_KERNEL(rope, .query = rope_query, ..) is the kernel rope_cuda of op rope. */
#define CORE_KERNEL(which, ...)                                                                                        \
  const ord_kernel core_##which = {.struct_size = sizeof(ord_kernel),                                                  \
                                   .priority = 10,                                                                     \
                                   .device = ORD_DEVICE_CUDA,                                                          \
                                   .name = #which "_cuda",                                                             \
                                   .op = #which,                                                                       \
                                   .retire = core_retire,                                                              \
                                   __VA_ARGS__}

#define KERNEL(op) extern const ord_kernel core_##op;
#include "kernels.def"

#endif
