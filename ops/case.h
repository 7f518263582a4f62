/* SPDX-License-Identifier: MIT
 *
 * A conformance case between its text and its run: what op_case_read.c makes of a row (cases.h has the notation),
 * op_case_make.c completes (shape rule, results, states, memory, node) and cases.c runs. Everything lives in the
 * setup's arena; a setup serves one run.
 */
#ifndef ORDITO_OPS_CASE_H
#define ORDITO_OPS_CASE_H

#include "ops/cases.h"
#include "ops/reference.h"
#include "runtime/device.h"

enum { ORD_CASE_TENSOR_MAX = 64, ORD_CASE_EPILOGUE_MAX = 8, ORD_CASE_MARGIN = 64 };

/* One operand of the node. */
typedef struct ord_case_tensor {
  const char *name;
  uint16_t role;
  ord_dtype dtype;
  uint32_t slot; /* of the op; ORD_NONE: not a slot's */
  uint32_t rank;
  ord_size size[ORD_RANK_MAX];
  int64_t dim[ORD_RANK_MAX], run[ORD_RANK_MAX]; /* the plan's maximum, and this run's */
  int64_t stride[ORD_RANK_MAX];                 /* bytes */
  uint32_t extent[ORD_RANK_MAX];
  bool is_reversed, has_gaps, is_marked_weight;
  bool has_number; /* a plain number stands in this entry; role ORD_ABSENT */
  double number;
  double low, high;    /* range of random floats; of an i8 weight: of its scales */
  int64_t limit;       /* of whole numbers; 0: default */
  const double *value; /* taken round and round; NULL: random */
  uint32_t value_count;
  const ord_segment *segment;
  uint32_t segment_count;
  /* Memory: margins of ORD_CASE_MARGIN bytes and more around `data`. */
  unsigned char *block, *data;
  size_t block_bytes;
} ord_case_tensor;

typedef struct ord_case_item {
  const ord_op *op;
  uint32_t operand[2]; /* tensors or ORD_NONE */
  uint32_t output;
  ord_attr *attr;
  uint32_t attr_count;
} ord_case_item;

typedef struct ord_case_setup {
  const ord_op *op;
  const ord_case *row; /* without $ */
  const ord_case_options *options;
  ord_arena *arena;
  ord_error *err;

  int64_t run_value[ORD_RUN_DIM_MAX], run_maximum[ORD_RUN_DIM_MAX]; /* of each run-time dim */
  uint32_t run_dim_count;

  /* Read: entries of slots in the order of the row. Made: in the node's order. */
  ord_case_tensor tensor[ORD_CASE_TENSOR_MAX];
  uint32_t tensor_count;
  ord_case_tensor out_layout; /* only is_reversed and has_gaps count */

  ord_attr *attr; /* room for the op's rules and "number" */
  uint32_t attr_count;
  ord_size shape[ORD_RANK_MAX];
  uint32_t shape_rank;
  uint32_t result_count, compute, segment_count; /* segment_count: of all weights so far */
  bool has_cache;
  int64_t cache_length;
  ord_dtype cache_dtype;
  const double *past;
  uint32_t past_count;
  ord_case_item item[ORD_CASE_EPILOGUE_MAX];
  ord_case_tensor item_tensor[2 * ORD_CASE_EPILOGUE_MAX]; /* the operands of items, until they are part of `tensor` */
  uint32_t item_count, item_tensor_count;

  uint32_t entry_count; /* the operands before the results */
  uint32_t first_state, first_item,
      first_scalar; /* where states (then scales), operands of items, scalars (`past` first) begin */
  ord_node node;
} ord_case_setup;

/* A CPU without extensions. */
extern const ord_device_info ord_case_cpu;

/* Fills the setup from its row; op, row, arena and err are set. */
bool ord_case_read(ord_case_setup *setup);
/* Shape rule, results, states, scales, extents, memory and contents, node. A fault that the shape rule tells is the
 * error's text, with code ORD_INVALID. */
bool ord_case_make(ord_case_setup *setup);

/* The (first) operand of a slot; NULL if it is absent. */
const ord_case_tensor *ord_case_entry(const ord_case_setup *setup, const char *slot);

/* What the op's reference and those of the epilogue's items make of it, in tensors of their own. */
typedef struct ord_case_wanted {
  ord_case_tensor tensor[ORD_CASE_TENSOR_MAX]; /* the results, then those of items */
  uint32_t count;
  ord_case_tensor state[2];
  uint32_t state_count;
  double largest; /* finite number on the way */
} ord_case_wanted;
bool ord_case_expect(ord_case_setup *setup, ord_case_wanted *out);
/* Appends k and v to the states among these tensors, as the host does before an attention that does not answer
 * ORD_APPENDS; nothing for other ops. */
bool ord_case_append(ord_case_setup *setup, const ord_op *op, const ord_answer *answer, const ord_case_tensor *tensor,
                     uint32_t count);

/* Compares the results and states of the setup with what is wanted; false if a number is wrong, with a text. */
bool ord_case_judge(const ord_case_setup *setup, const ord_case_wanted *wanted, ord_case_result *result);
/* The verdict: the kernel is wrong, and why. Returns false. */
bool ord_case_fail(ord_case_result *result, const char *format, ...) ORD_PRINTF(2, 3);

/* op_case_remote.c: twins, on a device, of blocks of our memory. */
typedef struct ord_case_twin {
  void *data; /* ours */
  size_t bytes;
  void *memory; /* the device's */
  bool is_kept; /* what the device has in it stays there from launch to launch */
} ord_case_twin;
enum { ORD_CASE_BLOCK_MAX = 2 * ORD_CASE_TENSOR_MAX };
typedef struct ord_case_remote {
  ord_queue *queue; /* NULL: the kernel works in our memory */
  ord_case_twin twin[ORD_CASE_BLOCK_MAX];
  uint32_t count;
} ord_case_remote;
/* Makes a twin, with our bytes in it. */
ORD_MUST_CHECK bool ord_case_remote_add(ord_case_remote *remote, void *data, size_t bytes, bool is_kept,
                                        ord_error *err);
/* All that is not kept: to the device; back, when its work is done. */
ORD_MUST_CHECK bool ord_case_remote_write(const ord_case_remote *remote, ord_error *err);
ORD_MUST_CHECK bool ord_case_remote_read(const ord_case_remote *remote, ord_error *err);
/* The twin of a block that begins at `data`, or NULL. */
void *ord_case_remote_address(const ord_case_remote *remote, const void *data);
void ord_case_remote_finish(ord_case_remote *remote);

/* The operands of these tensors as the ABI has them; NULL when out of memory. */
ord_operand *ord_case_operands(ord_arena *arena, const ord_case_tensor *tensor, uint32_t count);
/* A copy of the tensor with memory of its own, dense, all bytes 0xff (which is NaN in every float type). */
bool ord_case_copy(ord_case_setup *setup, const ord_case_tensor *from, ord_dtype dtype, ord_case_tensor *out);
/* The tensor in this run, for reading and writing single elements. */
ord_reference_tensor ord_case_view(const ord_case_tensor *tensor);
/* The tensor at the plan's maximum. */
ord_reference_tensor ord_case_view_whole(const ord_case_tensor *tensor);
/* "case 'in[3]' 'eps=1' of softmax: ..", returns false. */
bool ord_case_wrong(const ord_case_setup *setup, const char *format, ...) ORD_PRINTF(2, 3);
bool ord_case_out_of_memory(const ord_case_setup *setup);

#endif
