/* SPDX-License-Identifier: MIT
 *
 * Attention kernels that say yes and then go wrong, each in its own way: not prepared; a launch that fails, zeros and a
 * NaN (these three also write over all keys in the cache); right at the start of a conversation alone, once without
 * appending what it should. One refuses; one serves a single query alone, with zeros. An honest
 * relu serves a single token alone. For the tests of pins and of swapping kernels.
 */
#include <math.h>
#include <stdio.h>

#include "ordito_plugin.h"

enum { Q = 0, K = 1, V = 2 };

const ord_manifest ord_plugin_manifest = {ORD_MANIFEST_HEAD, .flags = ORD_PLUGIN_UNLOADABLE, .name = "liars",
                                          .version = "1"};

static ord_status query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  (void)kernel;
  if (ord_node_find(node, "cache_k") == ORD_NONE || node->operand[Q].stride[3] != (int64_t)sizeof(float)) {
    snprintf(answer->reason, sizeof answer->reason, "wants a cache and dense rows");
    return ORD_NO;
  }
  answer->phase_count = 1;
  answer->chunk_limit[0] = 1;
  answer->epilogue_served = 0;
  return ORD_OK;
}

static ord_status query_appends(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  answer->flags = ORD_APPENDS;
  return query(kernel, node, answer);
}

static ord_status query_refuses(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  (void)kernel;
  (void)node;
  snprintf(answer->reason, sizeof answer->reason, "found a weekday; wanted a holiday");
  return ORD_NO;
}

static ord_status query_single(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  if (node->operand[Q].dim[2] == 1) return query(kernel, node, answer);
  snprintf(answer->reason, sizeof answer->reason, "%lld queries; wanted 1", (long long)node->operand[Q].dim[2]);
  return ORD_NO;
}

static ord_status prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                          const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel;
  (void)answer;
  (void)host;
  (void)err;
  *state = (void *)(uintptr_t)node;
  return ORD_OK;
}

static ord_status prepare_fails(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                                const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel;
  (void)node;
  (void)answer;
  (void)host;
  (void)state;
  snprintf(err->text, sizeof err->text, "the tables were not found");
  return ORD_INTERNAL;
}

static float *find_row(const ord_node *node, const ord_exec *exec, uint32_t which, int64_t row, int64_t head,
                       int64_t token) {
  const ord_operand *operand = &node->operand[which];
  return (float *)((char *)exec->operand[which] + row * operand->stride[0] + head * operand->stride[1] +
                   token * operand->stride[2]);
}

static void spoil_cache(const ord_node *node, const ord_exec *exec) {
  const uint32_t cache = ord_node_find(node, "cache_k");
  const ord_operand *keys = &node->operand[cache];
  memset(exec->operand[cache], 0x3f, (size_t)(keys->dim[0] * keys->stride[0]));
}

/* Fills the result of a batch of one. */
static void fill(const ord_node *node, const ord_exec *exec, float number) {
  for (int64_t head = 0; head < node->operand[Q].dim[1]; head++)
    for (int64_t token = 0; token < ord_exec_dim(node, exec, Q, 2); token++)
      for (int64_t e = 0; e < node->operand[V].dim[3]; e++)
        find_row(node, exec, ord_node_output(node, 0), 0, head, token)[e] = number;
}

static ord_status launch_zeros(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  spoil_cache(state, exec);
  fill(state, exec, 0);
  return ORD_OK;
}

static ord_status launch_nan(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  spoil_cache(state, exec);
  fill(state, exec, NAN);
  return ORD_OK;
}

static ord_status launch_fails(void *state, const ord_exec *exec, ord_plugin_error *err) {
  spoil_cache(state, exec);
  fill(state, exec, 1);
  snprintf(err->text, sizeof err->text, "the loom is out of thread");
  return ORD_INTERNAL;
}

/* Causal, over the new tokens alone; a key head for each head. */
static void attend(const ord_node *node, const ord_exec *exec, int64_t row, int64_t head, int64_t token) {
  const int64_t width = node->operand[Q].dim[3], value_width = node->operand[V].dim[3];
  const float scale = (float)ord_node_attr(node, "scale")->value.f;
  const float *q = find_row(node, exec, Q, row, head, token);
  float *out = find_row(node, exec, ord_node_output(node, 0), row, head, token), sum = 0;
  memset(out, 0, (size_t)value_width * sizeof *out);
  for (int64_t key = 0; key <= token; key++) {
    const float *k = find_row(node, exec, K, row, head, key), *v = find_row(node, exec, V, row, head, key);
    float score = 0;
    for (int64_t d = 0; d < width; d++) score += q[d] * k[d];
    const float weight = expf(score * scale);
    sum += weight;
    for (int64_t e = 0; e < value_width; e++) out[e] += weight * v[e];
  }
  for (int64_t e = 0; e < value_width; e++) out[e] /= sum;
}

/* Behind the length of a row anything finite may lie. */
static ord_status launch_at_start(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const ord_node *node = state;
  const uint32_t lengths = ord_node_find(node, "lengths");
  for (int64_t row = 0; row < node->operand[Q].dim[0]; row++)
    for (int64_t head = 0; head < node->operand[Q].dim[1]; head++)
      for (int64_t token = 0; token < ord_exec_dim(node, exec, Q, 2); token++)
        if (lengths == ORD_NONE || token < ((const int32_t *)exec->operand[lengths])[row])
          attend(node, exec, row, head, token);
        else
          *find_row(node, exec, ord_node_output(node, 0), row, head, token) = 7;
  return ORD_OK;
}

static void retire(void *state) { (void)state; }

#define LIAR(name_, query_, prepare_, launch_)                                                                         \
  static const ord_kernel name_ = {.struct_size = sizeof name_,                                                        \
                                   .priority = -100,                                                                   \
                                   .name = #name_,                                                                     \
                                   .op = "attention",                                                                  \
                                   .query = query_,                                                                    \
                                   .prepare = prepare_,                                                                \
                                   .launch = launch_,                                                                  \
                                   .retire = retire}
LIAR(attention_refuses, query_refuses, prepare, launch_zeros);
LIAR(attention_single, query_single, prepare, launch_zeros);
LIAR(attention_unprepared, query, prepare_fails, launch_zeros);
LIAR(attention_fails, query, prepare, launch_fails);
LIAR(attention_zeros, query, prepare, launch_zeros);
LIAR(attention_nan, query, prepare, launch_nan);
LIAR(attention_forgets, query_appends, prepare, launch_at_start);
LIAR(attention_starts, query, prepare, launch_at_start);

static ord_status query_relu(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  (void)kernel;
  const ord_operand *in = &node->operand[0];
  answer->phase_count = 1;
  answer->chunk_limit[0] = 1;
  answer->epilogue_served = 0;
  if (in->rank == 3 && in->dim[0] == 1 && in->dim[1] == 1 && in->stride[2] == (int64_t)sizeof(float)) return ORD_OK;
  snprintf(answer->reason, sizeof answer->reason, "found other than one token of dense numbers");
  return ORD_NO;
}

static ord_status launch_relu(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const ord_node *node = state;
  const float *in = exec->operand[0];
  float *out = exec->operand[ord_node_output(node, 0)];
  for (int64_t i = 0; i < node->operand[0].dim[2]; i++) out[i] = in[i] > 0 ? in[i] : 0;
  return ORD_OK;
}

static const ord_kernel relu_single = {.struct_size = sizeof relu_single,
                                       .priority = -100,
                                       .name = "relu_single",
                                       .op = "relu",
                                       .query = query_relu,
                                       .prepare = prepare,
                                       .launch = launch_relu,
                                       .retire = retire};

static const ord_kernel *const kernels[] = {&attention_refuses, &attention_unprepared, &attention_fails,
                                            &attention_zeros,   &attention_nan,        &attention_forgets,
                                            &attention_starts,  &attention_single,     &relu_single};
static const ord_plugin plugin = {
    .struct_size = sizeof plugin, .kernel_count = sizeof kernels / sizeof *kernels, .kernel = kernels};

ord_status ord_plugin_open(const ord_host *host, const ord_plugin **out, ord_plugin_error *err) {
  (void)host;
  (void)err;
  *out = &plugin;
  return ORD_OK;
}
