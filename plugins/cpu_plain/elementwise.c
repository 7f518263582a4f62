/* SPDX-License-Identifier: MIT
 *
 * Ops that compute each number of the result from the numbers at the same place: the pointwise ops, and add, sub, mul
 * with broadcasting. Any strides will do: numbers pass through short blocks that stay in the nearest cache.
 */
#include "plain.h"

enum { BLOCK = 512 };

/* ---- one input ---- */

typedef struct pointwise_state {
  plain_state base;
  plain_pointwise_fn apply;
} pointwise_state;

static ord_status pointwise_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  static const plain_rule rules[] = {{"in", PLAIN_FLOATS, 0}, {"out", PLAIN_F32, 0}, {NULL, 0, 0}};
  (void)kernel;
  const int64_t work_per_number = 8;
  if (plain_is_laid_out_alike(node, 0)) answer->alias_mask = 1u << 0;
  return plain_check(node, rules, plain_chunks(plain_multiply(plain_count(&node->operand[0]), work_per_number)),
                     answer);
}

static ord_status pointwise_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                                    const ord_host *host, void **state, ord_plugin_error *err) {
  pointwise_state *made = plain_state_create(node, answer, host, sizeof *made, err);
  if (!made) return ORD_NO_MEMORY;
  made->apply = plain_pointwise_find(kernel->op);
  *state = made;
  return ORD_OK;
}

static void pointwise_run(const void *context, char *const *at, const int64_t *stride, int64_t count) {
  const pointwise_state *state = context;
  const plain_read_fn read = plain_reader(state->base.node->operand[0].dtype);
  const plain_write_fn write = plain_writer(ORD_F32);
  float block[BLOCK];
  for (int64_t begin = 0; begin < count; begin += BLOCK) {
    const int64_t length = count - begin < BLOCK ? count - begin : BLOCK;
    read(block, at[1] + begin * stride[1], stride[1], length);
    state->apply(block, length);
    write(at[0] + begin * stride[0], stride[0], block, length);
  }
}

static ord_status pointwise_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const plain_view view[] = {plain_view_output(state, exec, 0), plain_view_of(state, exec, 0)};
  plain_walk(view, 2, plain_chunk_range(exec, plain_view_count(view)), pointwise_run, state);
  return ORD_OK;
}

/* ---- two inputs ---- */

typedef void (*binary_fn)(float *a, const float *b, int64_t count);

typedef struct binary_state {
  plain_state base;
  binary_fn apply;
  float number; /* stands for the absent operand */
} binary_state;

static inline float sum(float a, float b) { return a + b; }
static inline float difference(float a, float b) { return a - b; }
static inline float product(float a, float b) { return a * b; }

#define BINARY(op, function)                                                                                           \
  static void op##_numbers(float *restrict a, const float *restrict b, int64_t count) {                                \
    for (int64_t i = 0; i < count; i++) a[i] = function(a[i], b[i]);                                                   \
  }
#include "kernels.def"

static ord_status binary_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  static const plain_rule rules[] = {{"in", PLAIN_FLOATS, 0}, {"out", PLAIN_F32, 0}, {NULL, 0, 0}};
  (void)kernel;
  for (uint32_t i = 0; i < 2; i++)
    if (plain_is_laid_out_alike(node, i)) answer->alias_mask |= 1u << i;
  return plain_check(node, rules, plain_chunks(plain_count(&node->operand[ord_node_output(node, 0)])), answer);
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
  made->number = (float)plain_number(node, "number", 0);
  *state = made;
  return ORD_OK;
}

/* Operand `which` with the dims of the result; the number is an operand whose every stride is 0. */
static plain_view binary_view(const binary_state *state, const ord_exec *exec, uint32_t which, const plain_view *out) {
  plain_view view = plain_view_of(&state->base, exec, which);
  if (!view.data) view = (plain_view){.data = (char *)(uintptr_t)&state->number};
  return plain_view_broadcast(view, out);
}

static plain_read_fn binary_reader(const binary_state *state, uint32_t which) {
  const ord_operand *operand = &state->base.node->operand[which];
  return plain_reader(operand->role == ORD_ABSENT ? ORD_F32 : operand->dtype);
}

static void binary_run(const void *context, char *const *at, const int64_t *stride, int64_t count) {
  const binary_state *state = context;
  const plain_read_fn read_a = binary_reader(state, 0), read_b = binary_reader(state, 1);
  const plain_write_fn write = plain_writer(ORD_F32);
  float a[BLOCK], b[BLOCK];
  for (int64_t begin = 0; begin < count; begin += BLOCK) {
    const int64_t length = count - begin < BLOCK ? count - begin : BLOCK;
    read_a(a, at[1] + begin * stride[1], stride[1], length);
    read_b(b, at[2] + begin * stride[2], stride[2], length);
    state->apply(a, b, length);
    write(at[0] + begin * stride[0], stride[0], a, length);
  }
}

static ord_status binary_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const plain_view out = plain_view_output(state, exec, 0);
  const plain_view view[] = {out, binary_view(state, exec, 0, &out), binary_view(state, exec, 1, &out)};
  plain_walk(view, 3, plain_chunk_range(exec, plain_view_count(view)), binary_run, state);
  return ORD_OK;
}

/* ---- the tables ---- */

#define POINTWISE(which, function)                                                                                     \
  const ord_kernel plain_##which = {                                                                                   \
      .struct_size = sizeof plain_##which,                                                                             \
      .name = #which "_plain",                                                                                         \
      .op = #which,                                                                                                    \
      .query = pointwise_query,                                                                                        \
      .prepare = pointwise_prepare,                                                                                    \
      .launch = pointwise_launch,                                                                                      \
      .retire = plain_retire,                                                                                          \
  };
#define BINARY(which, function)                                                                                        \
  const ord_kernel plain_##which = {                                                                                   \
      .struct_size = sizeof plain_##which,                                                                             \
      .name = #which "_plain",                                                                                         \
      .op = #which,                                                                                                    \
      .query = binary_query,                                                                                           \
      .prepare = binary_prepare,                                                                                       \
      .launch = binary_launch,                                                                                         \
      .retire = plain_retire,                                                                                          \
  };
#include "kernels.def"
