/* SPDX-License-Identifier: MIT
 *
 * Inputs with fewer tokens, for a plan that does not serve as many as were set.
 */
#include <stdlib.h>
#include <string.h>

#include "session/parts.h"

static const char *const DOING = "cutting inputs";

/* The dims of an input in a run with `run_dim`. */
static bool size_input(const ord_session *session, uint32_t index, const int64_t *run_dim, ord_input_state *out,
                       ord_error *err) {
  const ord_value *value = &session->graph->value[session->graph->input[index].value];
  for (uint32_t axis = 0; axis < value->rank; axis++)
    if (!ord_size_evaluate(value->dim[axis], run_dim, &out->dim[axis]))
      return ord_fail(err, ORD_INTERNAL, "input '%s' has no size", session->graph->input[index].name);
  return ord_tensor_bytes(value->dtype, value->rank, out->dim, &out->bytes) ||
         ord_fail(err, ORD_INTERNAL, "input '%s' is too large", session->graph->input[index].name);
}

static void shorten(int32_t *length, size_t count, int64_t most) {
  for (size_t i = 0; i < count; i++)
    if (length[i] > most) length[i] = (int32_t)most;
}

static bool cut_input(const ord_session *session, uint32_t index, const int64_t *run_dim, ord_input_state *out,
                      ord_error *err) {
  const ord_input_state *whole = &session->input[index];
  const ord_value *value = &session->graph->value[session->graph->input[index].value];
  int64_t stride[ORD_RANK_MAX];
  if (!whole->is_set) return true;
  if (!size_input(session, index, run_dim, out, err)) return false;
  for (uint32_t axis = 0; axis < value->rank; axis++)
    if (out->dim[axis] > whole->dim[axis])
      return ord_fail(err, ORD_INVALID, "input '%s' is longer where there are fewer tokens",
                      session->graph->input[index].name);
  out->data = malloc(out->bytes + 1);
  if (!out->data) return ord_fail_memory(err, DOING);
  ord_tensor_strides(value->dtype, value->rank, whole->dim, stride);
  ord_tensor_pack(value->dtype, value->rank, out->dim, stride, whole->data, out->data);
  if (index == session->length_input && session->token_dim != ORD_NONE)
    shorten(out->data, out->bytes / sizeof(int32_t), run_dim[session->token_dim]);
  out->is_set = true;
  return true;
}

bool ord_inputs_cut(const ord_session *session, int64_t tokens, ord_input_state **out, ord_error *err) {
  const ord_graph *graph = session->graph;
  ord_input_state *cut = calloc((size_t)graph->input_count + 1, sizeof *cut);
  int64_t run_dim[ORD_RUN_DIM_MAX];
  if (!cut) return ord_fail_memory(err, DOING);
  memcpy(run_dim, session->run_dim, graph->run_dim_count * sizeof *run_dim);
  if (session->token_dim != ORD_NONE) run_dim[session->token_dim] = tokens;
  bool done = true;
  for (uint32_t i = 0; done && i < graph->input_count; i++) done = cut_input(session, i, run_dim, &cut[i], err);
  if (!done) {
    ord_inputs_free(session, cut);
    return false;
  }
  *out = cut;
  return true;
}

void ord_inputs_free(const ord_session *session, ord_input_state *input) {
  for (uint32_t i = 0; input && i < session->graph->input_count; i++) free(input[i].data);
  free(input);
}
