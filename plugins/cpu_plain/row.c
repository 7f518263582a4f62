/* SPDX-License-Identifier: MIT
 *
 * Ops that work on whole rows: layernorm and rmsnorm on the last axis, l2_normalize and softmax on any. A row of f32
 * whose numbers follow one another is worked on where it lies; others pass through the thread's own memory.
 */
#include <math.h>

#include "bits.h"
#include "plain.h"

/* What a row needs besides its numbers. */
typedef plain_norm row_context;
/* `into` may be `from`. */
typedef void (*row_fn)(const row_context *context, const float *from, float *into, int64_t width);

typedef struct row_state {
  plain_state base;
  uint32_t out, weight, bias; /* operands */
  uint32_t axis;
  row_fn apply;
  double eps;
  plain_read_fn read;
  plain_write_fn write;
  int64_t dense_rows, width; /* of rows that lie one behind the other in every run; dense_rows -1: they do not */
} row_state;

/* ---- what is done to a row ---- */

static void rmsnorm_row(const row_context *context, const float *from, float *into, int64_t width) {
  plain_norm_row(context, from, into, width);
}

static void layernorm_row(const row_context *context, const float *from, float *into, int64_t width) {
  plain_norm norm = *context;
  norm.is_centred = true;
  plain_norm_row(&norm, from, into, width);
}

static void multiply_row(const float *from, float *into, int64_t width, float factor) {
  EACH_ALONE for (int64_t i = 0; i < width; i++) into[i] = from[i] * factor;
}

static void l2_normalize_row(const row_context *context, const float *from, float *into, int64_t width) {
  const double length = sqrt(plain_sum_of_squares(from, width)); /* may be beyond every float */
  const double divisor = length < context->eps ? context->eps : length;
  EACH_ALONE for (int64_t i = 0; i < width; i++) into[i] = (float)((double)from[i] / divisor);
}

static bool has_nan(const float *number, int64_t count) {
  bool found = false;
  for (int64_t i = 0; i < count; i++) found |= number[i] != number[i];
  return found;
}

/* A NaN never is the largest, but e to it makes the sum and so the row NaN. */
static void softmax_row(const row_context *context, const float *from, float *into, int64_t width) {
  (void)context;
  const float largest = plain_largest(from, width);
  if (largest == -INFINITY && !has_nan(from, width)) {
    memset(into, 0, (size_t)width * sizeof *into);
    return;
  }
  plain_exp_of_difference(into, from, width, largest);
  multiply_row(into, into, width, (float)(1 / plain_sum(into, width)));
}

/* ---- the kernels ---- */

static ord_status row_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  static const plain_rule rules[] = {{"in", PLAIN_FLOATS, 0},
                                     {"weight", PLAIN_FLOATS, PLAIN_UNIT | PLAIN_PACKED},
                                     {"bias", PLAIN_FLOATS, PLAIN_UNIT | PLAIN_PACKED},
                                     {"out", PLAIN_F32, 0},
                                     {NULL, 0, 0}};
  (void)kernel;
  const ord_operand *in = &node->operand[0];
  const int64_t work_per_number = 4;
  if (plain_is_laid_out_alike(node, 0)) answer->alias_mask = 1u << 0;
  answer->worker_bytes = (uint64_t)plain_multiply(in->dim[plain_axis(node, in->rank)], sizeof(float));
  return plain_check(node, rules, plain_chunks(PLAIN_HERE, plain_multiply(plain_count(in), work_per_number)), answer);
}

static void find_dense_rows(row_state *state) {
  const ord_operand *in = &state->base.node->operand[0], *out = &state->base.node->operand[state->out];
  const int64_t count = plain_dense_count(in);
  state->width = in->dim[state->axis];
  const bool is_dense = state->axis + 1 == in->rank && state->width > 0 && count >= 0 && plain_dense_count(out) >= 0;
  state->dense_rows = is_dense ? count / state->width : -1;
}

static ord_status row_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                              const ord_host *host, void **state, ord_plugin_error *err) {
  static const struct {
    const char *op;
    row_fn apply;
  } known[] = {
#define ROW(op, function) {#op, function},
#include "kernels.def"
  };
  row_state *made = plain_state_create(node, answer, host, sizeof *made, err);
  if (!made) return ORD_NO_MEMORY;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(known[i].op, kernel->op) == 0) made->apply = known[i].apply;
  made->out = ord_node_output(node, 0);
  made->weight = ord_node_find(node, "weight");
  made->bias = ord_node_find(node, "bias");
  made->axis = plain_axis(node, node->operand[0].rank);
  made->eps = ord_node_number(node, "eps", 0);
  made->read = plain_reader(node->operand[0].dtype);
  made->write = plain_writer(ORD_F32);
  find_dense_rows(made);
  *state = made;
  return ORD_OK;
}

/* Where the numbers of a weight begin, which is dense f32 by the rules above. */
static const float *find_weight(const ord_exec *exec, uint32_t which) {
  return which == ORD_NONE ? NULL : exec->operand[which];
}

static void run_dense(const row_state *state, const ord_exec *exec, const row_context *context) {
  const plain_range range = plain_chunk_range(exec, state->dense_rows);
  const float *from = exec->operand[0];
  float *into = exec->operand[state->out];
  for (int64_t i = range.first * state->width; i < range.end * state->width; i += state->width)
    state->apply(context, from + i, into + i, state->width);
}

static void run_strided(const row_state *state, const ord_exec *exec, const row_context *context) {
  plain_view view[] = {plain_view_of(&state->base, exec, state->out), plain_view_of(&state->base, exec, 0)};
  const int64_t width = view[0].dim[state->axis], dense = sizeof(float);
  const int64_t into_stride = view[0].stride[state->axis], from_stride = view[1].stride[state->axis];
  const bool in_place = into_stride == dense && from_stride == dense && state->base.node->operand[0].dtype == ORD_F32;
  for (int i = 0; i < 2 && width > 0; i++) view[i].dim[state->axis] = 1;
  const plain_range range = plain_chunk_range(exec, plain_view_count(view));
  plain_view_merge(view, 2);
  for (int64_t i = range.first; i < range.end; i++) {
    char *into = view[0].data + plain_view_offset(&view[0], i);
    const char *from = view[1].data + plain_view_offset(&view[1], i);
    if (in_place) {
      state->apply(context, (const float *)from, (float *)into, width);
    } else {
      float *row = exec->worker;
      state->read(row, from, from_stride, width);
      state->apply(context, row, row, width);
      state->write(into, into_stride, row, width);
    }
  }
}

static ord_status row_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const row_state *made = state;
  const row_context context = {
      .eps = made->eps, .weight = find_weight(exec, made->weight), .bias = find_weight(exec, made->bias)};
  (made->dense_rows < 0 ? run_strided : run_dense)(made, exec, &context);
  return ORD_OK;
}

#define ROW(which, function)                                                                                           \
  PLAIN_KERNEL(which, row_query, .pack = plain_pack, .prepare = row_prepare, .launch = row_launch);
#include "kernels.def"
