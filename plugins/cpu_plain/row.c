/* SPDX-License-Identifier: MIT
 *
 * Ops that work on whole rows: layernorm and rmsnorm on the last axis, l2_normalize and softmax on any. A row is read
 * into the thread's own memory, worked on there and written, so any strides will do and in place is safe.
 */
#include <math.h>

#include "plain.h"

typedef struct row_state row_state;
typedef void (*row_fn)(const row_state *state, const ord_exec *exec, float *row, int64_t width);
struct row_state {
  plain_state base;
  row_fn apply;
  double eps;
  uint32_t axis;
};

/* ---- what is done to a row ---- */

/* row[i] = row[i] * factor * weight[i] + bias[i], where either may be absent. */
static void scale_row(const row_state *state, const ord_exec *exec, float *row, int64_t width, float factor) {
  const float *weight = (const float *)plain_view_slot(&state->base, exec, "weight").data;
  const float *bias = (const float *)plain_view_slot(&state->base, exec, "bias").data;
  for (int64_t i = 0; i < width; i++) row[i] *= factor;
  if (weight)
    for (int64_t i = 0; i < width; i++) row[i] *= weight[i];
  if (bias)
    for (int64_t i = 0; i < width; i++) row[i] += bias[i];
}

static void rmsnorm_row(const row_state *state, const ord_exec *exec, float *row, int64_t width) {
  const double square = plain_sum_of_squares(row, width) / (double)width;
  scale_row(state, exec, row, width, (float)(1.0 / sqrt(square + state->eps)));
}

static void layernorm_row(const row_state *state, const ord_exec *exec, float *row, int64_t width) {
  const float mean = (float)(plain_sum(row, width) / (double)width);
  for (int64_t i = 0; i < width; i++) row[i] -= mean;
  rmsnorm_row(state, exec, row, width);
}

static void l2_normalize_row(const row_state *state, const ord_exec *exec, float *row, int64_t width) {
  (void)exec;
  const double length = sqrt(plain_sum_of_squares(row, width));
  const float divisor = (float)(length < state->eps ? state->eps : length);
  for (int64_t i = 0; i < width; i++) row[i] /= divisor;
}

/* A NaN never becomes the largest, but e to it makes the sum and so the row NaN. */
static void softmax_row(const row_state *state, const ord_exec *exec, float *row, int64_t width) {
  (void)state, (void)exec;
  float largest = -INFINITY;
  bool has_nan = false;
  for (int64_t i = 0; i < width; i++) largest = row[i] > largest ? row[i] : largest;
  for (int64_t i = 0; i < width; i++) has_nan |= row[i] != row[i];
  if (largest == -INFINITY && !has_nan) {
    memset(row, 0, (size_t)width * sizeof *row);
    return;
  }
  plain_exp_of_difference(row, width, largest);
  const float sum = (float)plain_sum(row, width);
  for (int64_t i = 0; i < width; i++) row[i] /= sum;
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
  return plain_check(node, rules, plain_chunks(plain_multiply(plain_count(in), work_per_number)), answer);
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
  made->eps = plain_number(node, "eps", 0);
  made->axis = plain_axis(node, node->operand[0].rank);
  *state = made;
  return ORD_OK;
}

static ord_status row_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const row_state *made = state;
  plain_view view[] = {plain_view_output(&made->base, exec, 0), plain_view_of(&made->base, exec, 0)};
  const int64_t width = view[0].dim[made->axis], into_stride = view[0].stride[made->axis];
  const int64_t from_stride = view[1].stride[made->axis];
  for (int i = 0; i < 2 && width > 0; i++) view[i].dim[made->axis] = 1;
  const plain_range range = plain_chunk_range(exec, plain_view_count(view));
  plain_view_merge(view, 2);
  const plain_read_fn read = plain_reader(made->base.node->operand[0].dtype);
  const plain_write_fn write = plain_writer(ORD_F32);
  for (int64_t i = range.first; i < range.end; i++) {
    float *row = exec->worker;
    read(row, view[1].data + plain_view_offset(&view[1], i), from_stride, width);
    made->apply(made, exec, row, width);
    write(view[0].data + plain_view_offset(&view[0], i), into_stride, row, width);
  }
  return ORD_OK;
}

#define ROW(which, function)                                                                                           \
  const ord_kernel plain_##which = {                                                                                   \
      .struct_size = sizeof plain_##which,                                                                             \
      .name = #which "_plain",                                                                                         \
      .op = #which,                                                                                                    \
      .query = row_query,                                                                                              \
      .pack = plain_pack,                                                                                              \
      .prepare = row_prepare,                                                                                          \
      .launch = row_launch,                                                                                            \
      .retire = plain_retire,                                                                                          \
  };
#include "kernels.def"
