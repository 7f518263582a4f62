/* SPDX-License-Identifier: MIT
 *
 * Host side of the CUDA attention plugins: which nodes can be served at all, a node as device code gets it, the state,
 * launch and retire. A plugin adds its query and a prepare that chooses kernel and grid.
 */
#ifndef CUDA_ATTENTION_NODE_H
#define CUDA_ATTENTION_NODE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "cuda_attention/attention.h"

/* One kernel, one launch. */
typedef struct attention_state {
  const ord_host *host;
  void *kernel;
  uint32_t grid[3], threads, shared_bytes;
  attention_arguments arguments; /* without addresses */
} attention_state;

/* ---- query ------------------------------------------------------------------------------------------------------ */

__attribute__((format(printf, 2, 3))) static inline ord_status attention_refuse(ord_answer *answer, const char *format,
                                                                                ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(answer->reason, sizeof answer->reason, format, list);
  va_end(list);
  return ORD_NO;
}

static inline const char *attention_type_name(uint32_t dtype) {
  static const char *const names[] = {[ORD_F32] = "f32", [ORD_F16] = "f16", [ORD_BF16] = "bf16", [ORD_I8] = "i8",
                                      [ORD_I32] = "i32", [ORD_I64] = "i64", [ORD_BOOL] = "bool"};
  return dtype >= ORD_F32 && dtype <= ORD_BOOL ? names[dtype] : "a block type";
}

static inline bool attention_is_float(const ord_operand *operand) {
  return operand->dtype == ORD_F32 || operand->dtype == ORD_F16 || operand->dtype == ORD_BF16;
}

/* The node's operand of the first name that is there. */
static inline const ord_operand *attention_operand(const ord_node *node, const char *first, const char *otherwise) {
  const uint32_t which = ord_node_find(node, first);
  return &node->operand[which == ORD_NONE ? ord_node_find(node, otherwise) : which];
}

/* What none of the kernels could serve; everything else is theirs to refuse. Sizes of batch * heads * queries and of
 * keys are such that a grid and an int hold them. */
static inline ord_status attention_check(const ord_node *node, ord_answer *answer) {
  if (node->device->kind != ORD_DEVICE_CUDA || node->op_version != 1)
    return attention_refuse(answer, "device kind %u, op version %u; wanted a CUDA device (%d) and version 1",
                            node->device->kind, node->op_version, ORD_DEVICE_CUDA);
  for (uint32_t i = 0; i < node->operand_count; i++) {
    const ord_operand *operand = &node->operand[i];
    if (operand->role == ORD_ABSENT || operand->role == ORD_SCALAR || strcmp(operand->name, "lengths") == 0) continue;
    if (attention_is_float(operand) || (operand->dtype == ORD_BOOL && strcmp(operand->name, "mask") == 0)) continue;
    return attention_refuse(answer, "%s is %s; wanted f32, f16 or bf16", operand->name,
                            attention_type_name(operand->dtype));
  }
  const ord_operand *q = attention_operand(node, "q", "q"), *key = attention_operand(node, "cache_k", "k");
  const double rows = (double)q->dim[0] * (double)q->dim[1] * (double)q->dim[2];
  if (rows < INT32_MAX && key->dim[2] < INT32_MAX / 2) return ORD_OK;
  return attention_refuse(answer, "%lld x %lld x %lld queries, %lld keys; wanted less than 2^31 queries, 2^30 keys",
                          (long long)q->dim[0], (long long)q->dim[1], (long long)q->dim[2], (long long)key->dim[2]);
}

/* ---- prepare ---------------------------------------------------------------------------------------------------- */

static inline bool attention_is_vector(const ord_operand *operand) {
  const uint32_t last = operand->rank - 1;
  if (operand->rank == 0 || operand->align_log2 < 4 || operand->stride[last] != operand->block_bytes) return false;
  for (uint32_t axis = 0; axis < last; axis++)
    if (operand->dim[axis] != 1 && operand->stride[axis] % 16 != 0) return false;
  return operand->dim[last] * operand->block_bytes % 16 == 0;
}

/* As [batch, heads, tokens, width]: axes that the operand lacks in front repeat. */
static inline attention_tensor attention_describe_operand(const ord_node *node, uint32_t which) {
  attention_tensor made = {.operand = which};
  if (which == ORD_NONE) return made;
  const ord_operand *operand = &node->operand[which];
  made.dtype = operand->dtype;
  made.is_vector = attention_is_vector(operand);
  for (uint32_t axis = 0; axis < operand->rank; axis++)
    if (operand->dim[axis] != 1) made.stride[axis + 4 - operand->rank] = operand->stride[axis];
  return made;
}

static inline attention_tensor attention_describe_slot(const ord_node *node, const char *name) {
  return attention_describe_operand(node, ord_node_find(node, name));
}

static inline attention_size attention_describe_size(const ord_node *node, const attention_tensor *tensor,
                                                     uint32_t axis) {
  const ord_operand *operand = &node->operand[tensor->operand];
  return (attention_size){.most = operand->dim[axis], .operand = operand->extent[axis]};
}

static inline attention_arguments attention_describe(const ord_node *node) {
  const bool has_cache = ord_node_find(node, "cache_k") != ORD_NONE;
  attention_arguments made = {
      .q = attention_describe_slot(node, "q"),
      .k = attention_describe_slot(node, "k"),
      .v = attention_describe_slot(node, "v"),
      .key = attention_describe_slot(node, has_cache ? "cache_k" : "k"),
      .value = attention_describe_slot(node, has_cache ? "cache_v" : "v"),
      .mask = attention_describe_slot(node, "mask"),
      .lengths = attention_describe_slot(node, "lengths"),
      .past = attention_describe_slot(node, "past"),
      .out = attention_describe_operand(node, ord_node_output(node, 0)),
      .probabilities = attention_describe_operand(node, ord_node_output(node, 1)),
      .align = ord_node_int(node, "align", ORD_LAST),
      .window_before = ord_node_int(node, "window_before", -1),
      .window_after = ord_node_int(node, "window_after", -1),
      .is_causal = ord_node_int(node, "causal", 0) != 0,
      .scale = (float)ord_node_number(node, "scale", 1),
      .soft_cap = (float)ord_node_number(node, "soft_cap", 0),
  };
  made.batch = attention_describe_size(node, &made.q, 0);
  made.queries = attention_describe_size(node, &made.q, 2);
  made.keys = attention_describe_size(node, &made.key, 2);
  made.given = attention_describe_size(node, &made.k, 2);
  made.heads = (int32_t)node->operand[made.q.operand].dim[1];
  made.key_heads = (int32_t)node->operand[made.key.operand].dim[1];
  made.width = (int32_t)node->operand[made.q.operand].dim[3];
  made.value_width = (int32_t)node->operand[made.value.operand].dim[3];
  return made;
}

/* What a block is for: `threads` of it, `shared_bytes` of dynamic shared memory. */
static inline ord_status attention_prepare(const ord_node *node, const ord_host *host, const char *image,
                                           const char *symbol, uint32_t blocks, uint32_t threads, uint32_t shared_bytes,
                                           attention_state **state, ord_plugin_error *err) {
  attention_state *made = host->allocate(host->context, sizeof *made, _Alignof(attention_state));
  if (!made) {
    snprintf(err->text, sizeof err->text, "out of memory: %zu bytes for the state of attention", sizeof *made);
    return ORD_NO_MEMORY;
  }
  *made = (attention_state){.host = host,
                            .grid = {blocks, 1, 1},
                            .threads = threads,
                            .shared_bytes = shared_bytes,
                            .arguments = attention_describe(node)};
  const ord_status status = host->image_kernel(host->context, image, symbol, shared_bytes, &made->kernel, err);
  if (status == ORD_OK)
    *state = made;
  else
    host->release(host->context, made);
  return status;
}

/* ---- launch and retire ------------------------------------------------------------------------------------------ */

/* The addresses of this run. */
static inline void attention_bind(attention_arguments *a, const ord_exec *exec) {
  attention_tensor *const tensors[] = {&a->q,    &a->k,       &a->v,    &a->key, &a->value,
                                       &a->mask, &a->lengths, &a->past, &a->out, &a->probabilities};
  attention_size *const sizes[] = {&a->batch, &a->queries, &a->keys, &a->given};
  for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
    if (tensors[i]->operand != ORD_NONE) tensors[i]->data = exec->operand[tensors[i]->operand];
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    if (sizes[i]->operand != ORD_NONE) sizes[i]->extent = exec->operand[sizes[i]->operand];
  a->scratch = exec->scratch;
  a->persistent = exec->persistent;
}

static inline ord_status attention_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  const attention_state *made = state;
  attention_arguments arguments = made->arguments;
  attention_bind(&arguments, exec);
  const void *const argument[] = {&arguments};
  const uint32_t bytes[] = {sizeof arguments};
  const ord_gpu_launch launch = {
      .argument_count = 1,
      .flags = ORD_LAUNCH_DEPENDENT,
      .shared_bytes = made->shared_bytes,
      .kernel = made->kernel,
      .grid = {made->grid[0], made->grid[1], made->grid[2]},
      .block = {made->threads, 1, 1},
      .argument = argument,
      .argument_bytes = bytes,
  };
  return made->host->gpu_launch(made->host->context, exec->stream, &launch, err);
}

static inline void attention_retire(void *state) {
  const attention_state *made = state;
  if (made) made->host->release(made->host->context, state);
}

#endif
