/* SPDX-License-Identifier: MIT
 *
 * sample: the next token of each row.
 */
#include "sample.h"
#include "core.h"

typedef struct sample_state {
  core_state base;
  core_work work;
  uint32_t in, temperature, top_k, top_p, seed, counter, out; /* operands */
} sample_state;

static int64_t count_blocks(const ord_operand *in) {
  return in->dim[0] < SAMPLE_BLOCKS_MAX ? in->dim[0] : SAMPLE_BLOCKS_MAX;
}

static ord_status sample_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  static const core_rule rules[] = {
      {"in", CORE_FLOATS}, {"temperature", CORE_F32}, {"top_k", CORE_I32}, {"top_p", CORE_F32},
      {"seed", CORE_I64},  {"counter", CORE_I64},     {"out", CORE_I32},   {NULL, 0}};
  (void)kernel;
  const ord_operand *in = &node->operand[ord_node_find(node, "in")]; // [batch, vocab]
  if (in->dim[1] > INT32_MAX)
    return core_refuse(answer, "in has %lld columns; wanted at most 2^31 - 1", (long long)in->dim[1]);
  answer->scratch_bytes = (uint64_t)core_multiply(core_multiply(count_blocks(in), in->dim[1]), sizeof(double));
  return core_check(node, rules, answer);
}

static ord_status sample_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                                 const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel;
  sample_state *made = core_state_create(node, answer, host, sizeof *made, err);
  if (!made) return ORD_NO_MEMORY;
  made->in = ord_node_find(node, "in");
  made->temperature = ord_node_find(node, "temperature");
  made->top_k = ord_node_find(node, "top_k");
  made->top_p = ord_node_find(node, "top_p");
  made->seed = ord_node_find(node, "seed");
  made->counter = ord_node_find(node, "counter");
  made->out = ord_node_output(node, 0);
  made->work.blocks[0] = (uint32_t)count_blocks(&node->operand[made->in]);
  made->work.threads[0] = SAMPLE_THREADS;
  const ord_status status = core_work_prepare(&made->base, "sample", "sample_rows", 0, &made->work, err);
  return core_state_prepared(made, status, state);
}

static ord_status sample_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  const sample_state *made = state;
  const sample_arguments arguments = {.in = core_tensor_of(&made->base, exec, made->in),
                                      .temperature = core_tensor_of(&made->base, exec, made->temperature),
                                      .top_k = core_tensor_of(&made->base, exec, made->top_k),
                                      .top_p = core_tensor_of(&made->base, exec, made->top_p),
                                      .seed = core_tensor_of(&made->base, exec, made->seed),
                                      .counter = core_tensor_of(&made->base, exec, made->counter),
                                      .out = core_tensor_of(&made->base, exec, made->out),
                                      .weight = exec->scratch};
  return core_work_launch(&made->base, exec, &made->work, &arguments, sizeof arguments, err);
}

CORE_KERNEL(sample, .query = sample_query, .prepare = sample_prepare, .launch = sample_launch);
