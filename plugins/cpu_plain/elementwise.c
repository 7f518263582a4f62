/* SPDX-License-Identifier: MIT
 *
 * Ops that compute each number of the result from the numbers at the same place: the pointwise ops, and add, sub, mul
 * with broadcasting. Any strides will do: numbers pass through short blocks that stay in the nearest cache.
 */
#include "bits.h"
#include "plain.h"

enum { BLOCK = 512 };

/* ---- one input ---- */

typedef struct pointwise_state {
  plain_state base;
  uint32_t out;
  plain_pointwise_fn apply;
  plain_read_fn read;
  plain_write_fn write;
  bool is_f32;
  int64_t dense_count; /* of operands that lie densely in every run, or -1 */
} pointwise_state;

static ord_status pointwise_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  static const plain_rule rules[] = {{"in", PLAIN_FLOATS, 0}, {"out", PLAIN_F32, 0}, {NULL, 0, 0}};
  (void)kernel;
  const int64_t work_per_number = 8;
  if (plain_is_laid_out_alike(node, 0)) answer->alias_mask = 1u << 0;
  return plain_check(node, rules,
                     plain_chunks(PLAIN_HERE, plain_multiply(plain_count(&node->operand[0]), work_per_number)), answer);
}

static ord_status pointwise_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                                    const ord_host *host, void **state, ord_plugin_error *err) {
  pointwise_state *made = plain_state_create(node, answer, host, sizeof *made, err);
  if (!made) return ORD_NO_MEMORY;
  made->out = ord_node_output(node, 0);
  made->apply = plain_pointwise_find(kernel->op);
  made->read = plain_reader(node->operand[0].dtype);
  made->write = plain_writer(ORD_F32);
  made->is_f32 = node->operand[0].dtype == ORD_F32;
  made->dense_count = plain_dense_count(&node->operand[made->out]);
  if (plain_dense_count(&node->operand[0]) < 0) made->dense_count = -1;
  *state = made;
  return ORD_OK;
}

static void pointwise_run(const void *context, char *const *at, const int64_t *stride, int64_t count) {
  const pointwise_state *state = context;
  if (state->is_f32 && stride[0] == (int64_t)sizeof(float) && stride[1] == stride[0]) {
    state->apply((float *)at[0], (const float *)at[1], count);
    return;
  }
  float block[BLOCK];
  for (int64_t begin = 0; begin < count; begin += BLOCK) {
    const int64_t length = count - begin < BLOCK ? count - begin : BLOCK;
    state->read(block, at[1] + begin * stride[1], stride[1], length);
    state->apply(block, block, length);
    state->write(at[0] + begin * stride[0], stride[0], block, length);
  }
}

static ord_status pointwise_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const pointwise_state *made = state;
  if (made->dense_count >= 0) {
    const plain_range range = plain_chunk_range(exec, made->dense_count);
    float *out = exec->operand[made->out];
    made->apply(out + range.first, (const float *)exec->operand[0] + range.first, range.end - range.first);
    return ORD_OK;
  }
  const plain_view view[] = {plain_view_of(&made->base, exec, made->out), plain_view_of(&made->base, exec, 0)};
  plain_walk(view, 2, plain_chunk_range(exec, plain_view_count(view)), pointwise_run, made);
  return ORD_OK;
}

/* ---- two inputs ---- */

/* into[i] = f(a[i], b[i]). `into` may be `a` or `b`. */
typedef void (*binary_fn)(float *into, const float *a, const float *b, int64_t count);

typedef struct binary_state {
  plain_state base;
  uint32_t out;
  binary_fn apply;
  plain_read_fn read[2];
  plain_write_fn write;
  bool is_f32;
  int64_t dense_count; /* of operands of one size that lie densely in every run, or -1 */
  float number;        /* stands for the absent operand */
} binary_state;

static inline float sum(float a, float b) { return a + b; }
static inline float difference(float a, float b) { return a - b; }
static inline float product(float a, float b) { return a * b; }

#define BINARY(op, function)                                                                                           \
  static void op##_numbers(float *into, const float *a, const float *b, int64_t count) {                               \
    EACH_ALONE for (int64_t i = 0; i < count; i++) into[i] = function(a[i], b[i]);                                     \
  }
#include "kernels.def"

static ord_status binary_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  static const plain_rule rules[] = {{"in", PLAIN_FLOATS, 0}, {"out", PLAIN_F32, 0}, {NULL, 0, 0}};
  (void)kernel;
  for (uint32_t i = 0; i < 2; i++)
    if (plain_is_laid_out_alike(node, i)) answer->alias_mask |= 1u << i;
  return plain_check(node, rules, plain_chunks(PLAIN_HERE, plain_count(&node->operand[ord_node_output(node, 0)])),
                     answer);
}

static ord_status binary_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                                 const ord_host *host, void **state, ord_plugin_error *err) {
  static const struct {
    const char *op;
    binary_fn apply;
  } known[] = {
#define BINARY(op, function) {#op, op##_numbers},
#include "kernels.def"
  };
  binary_state *made = plain_state_create(node, answer, host, sizeof *made, err);
  if (!made) return ORD_NO_MEMORY;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(known[i].op, kernel->op) == 0) made->apply = known[i].apply;
  made->out = ord_node_output(node, 0);
  made->number = (float)ord_node_number(node, "number", 0);
  made->write = plain_writer(ORD_F32);
  made->is_f32 = true;
  made->dense_count = plain_dense_count(&node->operand[made->out]);
  for (uint32_t i = 0; i < 2; i++) {
    const uint16_t type = node->operand[i].role == ORD_ABSENT ? ORD_F32 : node->operand[i].dtype;
    made->read[i] = plain_reader(type);
    made->is_f32 &= type == ORD_F32;
    if (plain_dense_count(&node->operand[i]) != made->dense_count) made->dense_count = -1;
  }
  *state = made;
  return ORD_OK;
}

/* Operand `which` with the dims of the result; the number is an operand whose every stride is 0. */
static plain_view binary_view(const binary_state *state, const ord_exec *exec, uint32_t which, const plain_view *out) {
  plain_view view = plain_view_of(&state->base, exec, which);
  if (!view.data) view = (plain_view){.data = (char *)(uintptr_t)&state->number};
  return plain_view_broadcast(view, out);
}

static void binary_run(const void *context, char *const *at, const int64_t *stride, int64_t count) {
  const binary_state *state = context;
  const int64_t dense = sizeof(float);
  if (state->is_f32 && stride[0] == dense && stride[1] == dense && stride[2] == dense) {
    state->apply((float *)at[0], (const float *)at[1], (const float *)at[2], count);
    return;
  }
  float a[BLOCK], b[BLOCK];
  for (int64_t begin = 0; begin < count; begin += BLOCK) {
    const int64_t length = count - begin < BLOCK ? count - begin : BLOCK;
    state->read[0](a, at[1] + begin * stride[1], stride[1], length);
    state->read[1](b, at[2] + begin * stride[2], stride[2], length);
    state->apply(a, a, b, length);
    state->write(at[0] + begin * stride[0], stride[0], a, length);
  }
}

static ord_status binary_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const binary_state *made = state;
  if (made->dense_count >= 0) {
    const plain_range range = plain_chunk_range(exec, made->dense_count);
    const float *a = exec->operand[0], *b = exec->operand[1];
    float *into = exec->operand[made->out];
    made->apply(into + range.first, a + range.first, b + range.first, range.end - range.first);
    return ORD_OK;
  }
  const plain_view out = plain_view_of(&made->base, exec, made->out);
  const plain_view view[] = {out, binary_view(made, exec, 0, &out), binary_view(made, exec, 1, &out)};
  plain_walk(view, 3, plain_chunk_range(exec, plain_view_count(view)), binary_run, made);
  return ORD_OK;
}

/* ---- the tables ---- */

#define POINTWISE(which, function)                                                                                     \
  PLAIN_KERNEL(which, pointwise_query, .prepare = pointwise_prepare, .launch = pointwise_launch);
#define BINARY(which, function) PLAIN_KERNEL(which, binary_query, .prepare = binary_prepare, .launch = binary_launch);
#include "kernels.def"
