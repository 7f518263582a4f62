/* SPDX-License-Identifier: MIT
 *
 * Inputs for a model that nobody knows: something of the right shape and type, so that it can be run and timed.
 */
#include <stdlib.h>
#include <string.h>

#include "session/parts.h"

static int64_t clip(int64_t wanted, const ord_graph_run_dim *dim) {
  return wanted < dim->min ? dim->min : wanted > dim->max ? dim->max : wanted;
}

static void choose_run_dims(const ord_session *session, int64_t length, int64_t *out) {
  for (uint32_t i = 0; i < session->graph->run_dim_count; i++) {
    const ord_graph_run_dim *dim = &session->graph->run_dim[i];
    out[i] = clip(session->has_tokens && i != session->token_dim ? 1 : length, dim); /* 0 rows would measure nothing */
  }
}

/* The high bits of a linear congruential generator, as a number in [-1, 1). */
static float next_number(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (float)(*state >> 40) * 0x1p-23f - 1;
}

/* Integers are 0, since they may name rows of any table. */
static void fill(ord_dtype dtype, int64_t count, uint64_t *state, void *out) {
  char *at = out;
  const size_t bytes = ord_dtype_get(dtype)->block_bytes;
  for (int64_t i = 0; i < count; i++, at += bytes) {
    const float number = next_number(state);
    if (dtype == ORD_BOOL)
      *at = 1;
    else if (!ord_convert(ORD_F32, &number, dtype, at, 1))
      memset(at, 0, bytes);
  }
}

static bool set_one(ord_session *session, uint32_t input, const int64_t *run_dim, uint64_t *state, ord_error *err) {
  const ord_value *value = &session->graph->value[session->graph->input[input].value];
  int64_t dim[ORD_RANK_MAX] = {0}, count = 1;
  size_t bytes = 0;
  for (uint32_t axis = 0; axis < value->rank; axis++) {
    if (!ord_size_evaluate(value->dim[axis], run_dim, &dim[axis])) return ord_fail_memory(err, "making an input");
    count *= dim[axis];
  }
  if (!ord_tensor_bytes(value->dtype, value->rank, dim, &bytes)) return ord_fail_memory(err, "making an input");
  void *data = malloc(bytes ? bytes : 1);
  if (!data) return ord_fail_memory(err, "making an input");
  fill(value->dtype, count, state, data);
  const bool done = ord_inputs_set(session, input, dim, data, bytes, err);
  free(data);
  return done;
}

bool ord_session_set_random(ord_session *session, int64_t length, uint64_t seed, int64_t *out_tokens, ord_error *err) {
  const ord_graph *graph = session->graph;
  int64_t run_dim[ORD_RUN_DIM_MAX], tokens = 0, rows = 1;
  uint64_t state = seed;
  choose_run_dims(session, length, run_dim);
  /* Behind the model's own inputs come those of sampling, which are set. */
  for (uint32_t i = 0; i < session->model->graph->input_count; i++) {
    const ord_fill rule = graph->input[i].fill;
    if ((rule == ORD_FILL_NONE || rule == ORD_FILL_TOKENS) && !set_one(session, i, run_dim, &state, err)) return false;
  }
  if (session->has_tokens && !ord_size_evaluate(session->new_tokens, run_dim, &tokens)) tokens = 0;
  if (session->token_input != ORD_NONE &&
      !ord_size_evaluate(graph->value[graph->input[session->token_input].value].dim[0], run_dim, &rows))
    rows = 1;
  *out_tokens = tokens * rows;
  return true;
}
