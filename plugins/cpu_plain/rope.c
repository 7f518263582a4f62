/* SPDX-License-Identifier: MIT
 *
 * rope: turns pairs of numbers of each head by an angle that grows with the position. Cosines and sines are made once
 * for a position and serve all its heads; angles are double, since a float loses digits at large positions.
 */
#include <math.h>

#include "bits.h"
#include "plain.h"

typedef struct rope_state {
  plain_state base;
  uint32_t in, positions, cosine, sine, factors, out; /* operands; ORD_NONE: not given */
  int64_t half;                                       /* pairs */
  bool is_interleaved;
  double frequency[]; /* [half]: theta^(-2i / rotary), where theta is given */
} rope_state;

/* A chunk's memory. */
typedef struct rope_memory {
  double *angle;                 // [half]
  float *cosine, *sine, *factor; // [half]
  float *row;                    // [width]
} rope_memory;

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
  /* A row of width numbers, and at most half as many angles, cosines, sines and factors each. */
  answer->worker_bytes = (uint64_t)plain_multiply(in->dim[3], 3 * sizeof(float) + sizeof(double));
  return plain_check(node, rules, plain_chunks(PLAIN_HERE, plain_multiply(plain_count(in), work_per_number)), answer);
}

static ord_status rope_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                               const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel;
  const int64_t rotary = ord_node_int(node, "rotary", node->operand[0].dim[3]), half = rotary / 2;
  rope_state *made = plain_state_create(node, answer, host, sizeof *made + (size_t)half * sizeof *made->frequency, err);
  if (!made) return ORD_NO_MEMORY;
  made->in = ord_node_find(node, "in");
  made->positions = ord_node_find(node, "positions");
  made->cosine = ord_node_find(node, "cos");
  made->sine = ord_node_find(node, "sin");
  made->factors = ord_node_find(node, "factors");
  made->out = ord_node_output(node, 0);
  made->half = half;
  made->is_interleaved = plain_word_is(node, "pairing", "interleaved");
  const double theta = ord_node_number(node, "theta", 1);
  for (int64_t i = 0; i < half; i++) made->frequency[i] = pow(theta, -2.0 * (double)i / (double)rotary);
  *state = made;
  return ORD_OK;
}

/* Reads numbers along the last axis, where element `number` of the axes before it begins. */
static void read_row(const plain_state *state, const ord_exec *exec, uint32_t which, int64_t number, float *into) {
  const plain_view view = plain_view_of(state, exec, which);
  const plain_view rows = plain_view_leading(view, view.rank - 1);
  const char *from = view.data + plain_view_offset(&rows, number);
  plain_reader(state->node->operand[which].dtype)(into, from, view.stride[view.rank - 1], view.dim[view.rank - 1]);
}

/* Cosines and sines of token `number`, counted over the batch. */
static void find_turns(const rope_state *state, const ord_exec *exec, int64_t number, const rope_memory *memory) {
  if (state->positions == ORD_NONE) {
    read_row(&state->base, exec, state->cosine, number, memory->cosine);
    read_row(&state->base, exec, state->sine, number, memory->sine);
    return;
  }
  const plain_view positions = plain_view_of(&state->base, exec, state->positions);
  const bool has_factors = state->factors != ORD_NONE;
  if (has_factors) read_row(&state->base, exec, state->factors, 0, memory->factor);
  int32_t position;
  memcpy(&position, positions.data + plain_view_offset(&positions, number), sizeof position);
  for (int64_t i = 0; i < state->half; i++) memory->angle[i] = position * state->frequency[i];
  for (int64_t i = 0; has_factors && i < state->half; i++) memory->angle[i] /= (double)memory->factor[i];
  plain_turns(memory->cosine, memory->sine, memory->angle, state->half);
}

/* One head; `into` may be `from`. */
static void turn_halves(const float *from, float *into, int64_t half, const float *restrict cosine,
                        const float *restrict sine) {
  EACH_ALONE for (int64_t i = 0; i < half; i++) {
    const float x = from[i], y = from[i + half];
    into[i] = x * cosine[i] - y * sine[i];
    into[i + half] = y * cosine[i] + x * sine[i];
  }
}

static void turn_neighbours(const float *from, float *into, int64_t half, const float *restrict cosine,
                            const float *restrict sine) {
  EACH_ALONE for (int64_t i = 0; i < half; i++) {
    const float x = from[2 * i], y = from[2 * i + 1];
    into[2 * i] = x * cosine[i] - y * sine[i];
    into[2 * i + 1] = y * cosine[i] + x * sine[i];
  }
}

static void turn_head(const rope_state *state, const float *from, float *into, int64_t width,
                      const rope_memory *memory) {
  (state->is_interleaved ? turn_neighbours : turn_halves)(from, into, state->half, memory->cosine, memory->sine);
  const int64_t rotary = 2 * state->half;
  if (into != from) memcpy(into + rotary, from + rotary, (size_t)(width - rotary) * sizeof *into);
}

/* A head whose numbers follow one another is turned where it lies; others pass through `row`. */
static void turn_strided(const rope_state *state, const char *from, int64_t from_stride, char *into,
                         int64_t into_stride, int64_t width, const rope_memory *memory) {
  const int64_t dense = sizeof(float);
  if (from_stride == dense && into_stride == dense) {
    turn_head(state, (const float *)from, (float *)into, width, memory);
    return;
  }
  plain_reader(ORD_F32)(memory->row, from, from_stride, width);
  turn_head(state, memory->row, memory->row, width, memory);
  plain_writer(ORD_F32)(into, into_stride, memory->row, width);
}

static ord_status rope_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const rope_state *made = state;
  const plain_view in = plain_view_of(&made->base, exec, made->in), out = plain_view_of(&made->base, exec, made->out);
  const int64_t heads = in.dim[1], tokens = in.dim[2], width = in.dim[3], half = made->half;
  rope_memory memory = {.angle = exec->worker};
  memory.cosine = (float *)(memory.angle + half);
  memory.sine = memory.cosine + half;
  memory.factor = memory.sine + half;
  memory.row = memory.factor + half;
  const plain_range range = plain_chunk_range(exec, in.dim[0] * tokens);
  for (int64_t i = range.first; i < range.end; i++) {
    find_turns(made, exec, i, &memory);
    const int64_t batch = i / tokens, token = i % tokens;
    const char *from = in.data + batch * in.stride[0] + token * in.stride[2];
    char *into = out.data + batch * out.stride[0] + token * out.stride[2];
    for (int64_t head = 0; head < heads; head++)
      turn_strided(made, from + head * in.stride[1], in.stride[3], into + head * out.stride[1], out.stride[3], width,
                   &memory);
  }
  return ORD_OK;
}

PLAIN_KERNEL(rope, rope_query, .prepare = rope_prepare, .launch = rope_launch);
