/* SPDX-License-Identifier: MIT
 *
 * What the kernels of this plugin share: checking a node against a list of rules, the prepared state, operands as they
 * are in a run, walks over strided data, packed weights and numbers. Values are f32; weights may be stored narrower.
 * Every kernel computes an element by the same operations in the same order wherever a chunk begins or ends, so that
 * neither the number of threads nor the batch changes a bit.
 */
#ifndef PLAIN_H
#define PLAIN_H

#include <stdbool.h>

#include "number.h"

/* ---- query (node.c) ---- */

enum {
  PLAIN_F32 = 1 << ORD_F32,
  PLAIN_I32 = 1 << ORD_I32,
  PLAIN_I64 = 1 << ORD_I64,
  PLAIN_FLOATS = PLAIN_F32 | 1 << ORD_F16 | 1 << ORD_BF16,
  PLAIN_NUMBERS = PLAIN_FLOATS | 1 << ORD_I8, /* i8: with a scale per row */
  PLAIN_MOVED = PLAIN_FLOATS | PLAIN_I32 | PLAIN_I64 | 1 << ORD_BOOL
};

enum {
  PLAIN_UNIT = 1,  /* the elements of the last axis follow one another */
  PLAIN_PACKED = 2 /* a weight is read as dense f32: where it is stored otherwise, it is packed so */
};

/* What a kernel wants of the operands of one name. "out" means every output. */
typedef struct plain_rule {
  const char *name; /* NULL ends a list */
  uint32_t types;   /* PLAIN_F32 | .. */
  uint32_t flags;
} plain_rule;

/* May the first output overwrite operand `which`: are they laid out alike? */
bool plain_is_laid_out_alike(const ord_node *node, uint32_t which);

/* Of a set such as PLAIN_FLOATS. */
static inline bool plain_is_one_of(uint16_t type, uint32_t types) { return type < 32 && (types >> type & 1u); }

/* Fills `reason` and returns ORD_NO. */
ord_status plain_refuse(ord_answer *answer, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The query of all kernels: checks the device and what it has of the level, then asks the kernel's own query, for which
 * answer->variant is the name of the level. */
ord_status plain_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer);

/* Checks op version and operands and asks for the packs that the rules want. On ORD_OK the answer stands for one phase
 * of `chunk_count` chunks without epilogue, re-entrant. */
ord_status plain_check(const ord_node *node, const plain_rule *rule, int64_t chunk_count, ord_answer *answer);

/* A number of chunks for `work` elementary operations: so many that each is worth its dispatch, 64 at most. */
int64_t plain_chunks(plain_level level, int64_t work);

/* Asks for operand `which` as dense f32 (pack.c) if it is a weight that is stored otherwise. */
void plain_want_dense(const ord_node *node, uint32_t which, ord_answer *answer);

/* Elements of an operand at the plan's maximum; saturates. */
int64_t plain_count(const ord_operand *operand);
/* Elements of an f32 operand that lie one behind the other in every run: such are worked on without a view. Else -1. */
int64_t plain_dense_count(const ord_operand *operand);
int64_t plain_multiply(int64_t a, int64_t b); /* of counts; saturates */

const char *plain_type_name(uint16_t type);
bool plain_word_is(const ord_node *node, const char *attr, const char *word);
/* Attribute `axis`, counted from 0. */
uint32_t plain_axis(const ord_node *node, uint32_t rank);

/* ---- state (node.c) ---- */

/* Every state begins with this. */
typedef struct plain_state {
  const ord_node *node;
  const ord_answer *answer;
  const ord_host *host;
} plain_state;

/* A zeroed state of `bytes`, NULL with `err` filled when out of memory. */
void *plain_state_create(const ord_node *node, const ord_answer *answer, const ord_host *host, size_t bytes,
                         ord_plugin_error *err);
/* retire of all. */
void plain_retire(void *state);

/* ---- operands in a run (view.c) ---- */

typedef struct plain_view {
  char *data; /* NULL: absent */
  uint32_t rank;
  int64_t dim[ORD_RANK_MAX], stride[ORD_RANK_MAX]; /* of this run; bytes */
} plain_view;

/* Operand number `which`; one that was packed to dense f32 is seen so. */
plain_view plain_view_of(const plain_state *state, const ord_exec *exec, uint32_t which);
plain_view plain_view_slot(const plain_state *state, const ord_exec *exec, const char *name);
plain_view plain_view_output(const plain_state *state, const ord_exec *exec, uint32_t which);
/* The view with the dims of `like`: trailing axes align, axes of size 1 repeat. */
plain_view plain_view_broadcast(plain_view view, const plain_view *like);
int64_t plain_view_count(const plain_view *view);
/* The first `rank` axes alone. */
plain_view plain_view_leading(plain_view view, uint32_t rank);

/* Part `exec->chunk` of `count` things. */
typedef struct plain_range {
  int64_t first, end;
} plain_range;
plain_range plain_chunk_range(const ord_exec *exec, int64_t count);

/* Byte offset of element `number`, counted row-major. Quick once plain_view_merge has joined the axes. */
int64_t plain_view_offset(const plain_view *view, int64_t number);
/* Drops axes of size 1 and joins axes that follow one another evenly in all `count` views (equal dims). */
void plain_view_merge(plain_view *view, uint32_t count);

/* Walks the elements [range.first, range.end) of views of equal dims in row-major order, in runs along the last axis:
 * at[i] is the address in view i, stride[i] the step in bytes. */
#define PLAIN_WALK_MAX 3
typedef void (*plain_run_fn)(const void *context, char *const *at, const int64_t *stride, int64_t count);
void plain_walk(const plain_view *view, uint32_t count, plain_range range, plain_run_fn run, const void *context);

/* ---- packed weights (pack.c) ---- */

/* Where row `row` of a weight of several segments begins; NULL beyond the last. */
const char *plain_find_row(const ord_operand *operand, const void *const *segment, int64_t row);

/* pack for kernels whose weights are only ever packed to dense f32 (PLAIN_PACKED). */
ord_status plain_pack(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer, uint32_t weight,
                      const void *const *segment, uint32_t slice, uint32_t slice_count, void *packed);

/* ---- the kernels ---- */

#define KERNEL(op) extern const plain_kernel PLAIN_NAME(op);
#include "kernels.def"

#endif
