/* SPDX-License-Identifier: MIT
 *
 * rope: turns pairs of numbers of each head by an angle that grows with the position.
 */
#include "rope.h"
#include "core.h"

#include <math.h>

typedef struct rope_state {
  core_state base;
  core_work work;
  uint32_t in, positions, cosine, sine, factors, out; /* operands; ORD_NONE: not given */
  int64_t half;
  double exponent;
  uint32_t is_interleaved, is_small;
} rope_state;

static ord_status rope_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  static const core_rule rules[] = {{"in", CORE_FLOATS},
                                    {"positions", CORE_I32},
                                    {"cos", CORE_FLOATS},
                                    {"sin", CORE_FLOATS},
                                    {"factors", CORE_FLOATS},
                                    {"out", CORE_FLOATS},
                                    {NULL, 0}};
  (void)kernel;
  if (core_is_laid_out_alike(node, 0)) answer->alias_mask = 1u << 0;
  return core_check(node, rules, answer);
}

static ord_status rope_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                               const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel;
  rope_state *made = core_state_create(node, answer, host, sizeof *made, err);
  if (!made) return ORD_NO_MEMORY;
  made->in = ord_node_find(node, "in");
  made->positions = ord_node_find(node, "positions");
  made->cosine = ord_node_find(node, "cos");
  made->sine = ord_node_find(node, "sin");
  made->factors = ord_node_find(node, "factors");
  made->out = ord_node_output(node, 0);
  const ord_operand *in = &node->operand[made->in]; // [batch, heads, tokens, width]
  const int64_t rotary = ord_node_int(node, "rotary", in->dim[3]);
  made->half = rotary / 2;
  made->exponent = log2(ord_node_number(node, "theta", 1)) * -2.0 / (double)rotary;
  made->is_interleaved = core_word_is(node, "pairing", "interleaved");
  const int64_t groups = (in->dim[1] + ROPE_HEADS - 1) / ROPE_HEADS;
  const int64_t threads =
      core_multiply(core_multiply(in->dim[0], groups), core_multiply(in->dim[2], in->dim[3] - made->half));
  made->is_small = threads <= INT32_MAX;
  core_work_spread(&made->work, threads, ROPE_THREADS);
  const ord_status status = core_work_prepare(&made->base, "rope", "rope_turn", 0, &made->work, err);
  return core_state_prepared(made, status, state);
}

static ord_status rope_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  const rope_state *made = state;
  const rope_arguments arguments = {.out = core_tensor_of(&made->base, exec, made->out),
                                    .in = core_tensor_of(&made->base, exec, made->in),
                                    .positions = core_tensor_of(&made->base, exec, made->positions),
                                    .cosine = core_tensor_of(&made->base, exec, made->cosine),
                                    .sine = core_tensor_of(&made->base, exec, made->sine),
                                    .factors = core_tensor_of(&made->base, exec, made->factors),
                                    .half = made->half,
                                    .exponent = made->exponent,
                                    .is_interleaved = made->is_interleaved,
                                    .is_small = made->is_small};
  return core_work_launch(&made->base, exec, &made->work, &arguments, sizeof arguments, err);
}

CORE_KERNEL(rope, .query = rope_query, .prepare = rope_prepare, .launch = rope_launch);
