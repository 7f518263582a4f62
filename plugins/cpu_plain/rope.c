/* SPDX-License-Identifier: MIT
 *
 * rope: turns pairs of numbers of each head by an angle that grows with the position. Cosines and sines are made once
 * for a position and serve all its heads; angles are double, since a float loses digits at large positions.
 */
#include <math.h>

#include "plain.h"

typedef struct rope_state {
  plain_state base;
  int64_t half; /* pairs */
  bool is_interleaved;
  double frequency[]; /* [half]: theta^(-2i / rotary), where theta is given */
} rope_state;

static ord_status rope_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  static const plain_rule rules[] = {{"in", PLAIN_F32, 0},
                                     {"positions", PLAIN_I32, 0},
                                     {"cos", PLAIN_FLOATS, 0},
                                     {"sin", PLAIN_FLOATS, 0},
                                     {"factors", PLAIN_FLOATS, 0},
                                     {"out", PLAIN_F32, 0},
                                     {NULL, 0, 0}};
  (void)kernel;
  const ord_operand *in = &node->operand[0]; // [batch, heads, tokens, width]
  const int64_t work_per_number = 8;
  if (plain_is_laid_out_alike(node, 0)) answer->alias_mask = 1u << 0;
  /* A row of width numbers, and at most half as many cosines, sines and factors each. */
  answer->worker_bytes = (uint64_t)plain_multiply(in->dim[3], 3 * sizeof(float));
  return plain_check(node, rules, plain_chunks(plain_multiply(plain_count(in), work_per_number)), answer);
}

static ord_status rope_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                               const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel;
  const int64_t rotary = plain_int(node, "rotary", node->operand[0].dim[3]), half = rotary / 2;
  rope_state *made = plain_state_create(node, answer, host, sizeof *made + (size_t)half * sizeof *made->frequency, err);
  if (!made) return ORD_NO_MEMORY;
  made->half = half;
  made->is_interleaved = plain_word_is(node, "pairing", "interleaved");
  const double theta = plain_number(node, "theta", 1);
  for (int64_t i = 0; i < half; i++) made->frequency[i] = pow(theta, -2.0 * (double)i / (double)rotary);
  *state = made;
  return ORD_OK;
}

/* Reads numbers along the last axis, where element `number` of the axes before it begins. */
static void read_row(const plain_state *state, const ord_exec *exec, const char *slot, int64_t number, float *into) {
  const uint32_t which = ord_node_find(state->node, slot);
  const plain_view view = plain_view_of(state, exec, which);
  const plain_view rows = plain_view_leading(view, view.rank - 1);
  const char *from = view.data + plain_view_offset(&rows, number);
  plain_reader(state->node->operand[which].dtype)(into, from, view.stride[view.rank - 1], view.dim[view.rank - 1]);
}

/* Cosines and sines of token `number`, counted over the batch. */
static void find_angles(const rope_state *state, const ord_exec *exec, int64_t number, float *cosine, float *sine,
                        float *factor) {
  const plain_view positions = plain_view_slot(&state->base, exec, "positions");
  if (!positions.data) {
    read_row(&state->base, exec, "cos", number, cosine);
    read_row(&state->base, exec, "sin", number, sine);
    return;
  }
  const bool has_factors = ord_node_find(state->base.node, "factors") != ORD_NONE;
  if (has_factors) read_row(&state->base, exec, "factors", 0, factor);
  int32_t position;
  memcpy(&position, positions.data + plain_view_offset(&positions, number), sizeof position);
  for (int64_t i = 0; i < state->half; i++) {
    const double angle = position * state->frequency[i] / (has_factors ? (double)factor[i] : 1.0);
    cosine[i] = (float)cos(angle);
    sine[i] = (float)sin(angle);
  }
}

static void turn_pairs(float *row, int64_t half, int64_t first_step, int64_t distance, const float *restrict cosine,
                       const float *restrict sine) {
  for (int64_t i = 0; i < half; i++) {
    const float x = row[i * first_step], y = row[i * first_step + distance];
    row[i * first_step] = x * cosine[i] - y * sine[i];
    row[i * first_step + distance] = y * cosine[i] + x * sine[i];
  }
}

static ord_status rope_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const rope_state *made = state;
  const plain_view in = plain_view_slot(&made->base, exec, "in"), out = plain_view_output(&made->base, exec, 0);
  const int64_t heads = in.dim[1], tokens = in.dim[2], width = in.dim[3], half = made->half;
  float *row = exec->worker, *cosine = row + width, *sine = cosine + half, *factor = sine + half;
  const plain_range range = plain_chunk_range(exec, in.dim[0] * tokens);
  for (int64_t i = range.first; i < range.end; i++) {
    find_angles(made, exec, i, cosine, sine, factor);
    const char *from = in.data + i / tokens * in.stride[0] + i % tokens * in.stride[2];
    char *into = out.data + i / tokens * out.stride[0] + i % tokens * out.stride[2];
    for (int64_t head = 0; head < heads; head++) {
      plain_reader(ORD_F32)(row, from + head * in.stride[1], in.stride[3], width);
      turn_pairs(row, half, made->is_interleaved ? 2 : 1, made->is_interleaved ? 1 : half, cosine, sine);
      plain_writer(ORD_F32)(into + head * out.stride[1], out.stride[3], row, width);
    }
  }
  return ORD_OK;
}

const ord_kernel plain_rope = {
    .struct_size = sizeof plain_rope,
    .name = "rope_plain",
    .op = "rope",
    .query = rope_query,
    .prepare = rope_prepare,
    .launch = rope_launch,
    .retire = plain_retire,
};
