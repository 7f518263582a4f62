/* SPDX-License-Identifier: MIT
 *
 * What a run reads: the caller's tensors, what the runtime fills in, and the sizes of this run. Everything that comes
 * from outside is checked here, before anything is launched. On a device with memory of its own all is put together in
 * the host's and then written there.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "session/parts.h"

/* ---- setting ---------------------------------------------------------------------------------------------------- */

static const ord_value *input_value(const ord_session *session, uint32_t input) {
  return &session->graph->value[session->graph->input[input].value];
}

static bool fail_shape(const ord_session *session, uint32_t input, const int64_t *dim, uint32_t rank, ord_error *err) {
  ord_text found = {0}, wanted = {0};
  ord_text_add(&found, "[");
  for (uint32_t i = 0; i < rank; i++) ord_text_add(&found, i ? ", %lld" : "%lld", (long long)dim[i]);
  ord_text_add(&found, "]");
  ord_graph_print_shape(&wanted, session->graph, session->graph->input[input].value);
  ord_fail(err, ORD_INVALID, "input '%s': found shape %s; wanted %s", session->graph->input[input].name,
           found.bytes ? found.bytes : "?", wanted.bytes ? wanted.bytes : "?");
  ord_text_finish(&found);
  ord_text_finish(&wanted);
  return false;
}

/* Fixed dims must be equal; the others are worked out when all inputs are known. */
static bool fixed_dims_agree(const ord_value *value, const int64_t *dim) {
  for (uint32_t i = 0; i < value->rank; i++) {
    int64_t fixed = 0;
    if (dim[i] < 0 || (ord_size_is_constant(value->dim[i], &fixed) && fixed != dim[i])) return false;
  }
  return true;
}

static bool reserve(ord_input_state *state, size_t bytes, ord_error *err) {
  if (bytes <= state->capacity) return true;
  void *grown = realloc(state->data, bytes);
  if (!grown) return ord_fail_memory(err, "setting an input");
  state->data = grown;
  state->capacity = bytes;
  return true;
}

bool ord_inputs_set_all(ord_session *session, uint32_t input, const void *element, ord_error *err) {
  const ord_value *value = input_value(session, input);
  ord_input_state *state = &session->input[input];
  const size_t one = ord_dtype_get(value->dtype)->block_bytes;
  int64_t rows = 1;
  if (!ord_size_is_constant(value->dim[0], &rows)) rows = 1;
  if (!reserve(state, (size_t)rows * one, err)) return false;
  for (int64_t row = 0; row < rows; row++) memcpy((char *)state->data + (size_t)row * one, element, one);
  state->dim[0] = rows;
  state->bytes = (size_t)rows * one;
  state->is_set = true;
  return true;
}

bool ord_inputs_set(ord_session *session, uint32_t input, const int64_t *dim, const void *data, size_t bytes,
                    ord_error *err) {
  const ord_value *value = input_value(session, input);
  ord_input_state *state = &session->input[input];
  if (!fixed_dims_agree(value, dim)) return fail_shape(session, input, dim, value->rank, err);
  size_t needed = 0;
  if (!ord_tensor_bytes(value->dtype, value->rank, dim, &needed))
    return fail_shape(session, input, dim, value->rank, err);
  if (needed != bytes)
    return ord_fail(err, ORD_INVALID, "input '%s': found %zu bytes; wanted %zu for its shape",
                    session->graph->input[input].name, bytes, needed);
  if (!reserve(state, bytes, err)) return false;
  if (bytes > 0) memcpy(state->data, data, bytes);
  if (value->rank > 0) memcpy(state->dim, dim, value->rank * sizeof *dim);
  state->bytes = bytes;
  state->is_set = true;
  return true;
}

bool ord_session_set(ord_session *session, const char *name, const ord_tensor *tensor, ord_error *err) {
  ord_tensor own;
  if (!ord_struct_take(tensor, "ord_tensor", &own, sizeof own, err) || !ord_loop_end(session, err)) return false;
  const uint32_t input = ord_graph_find_input(session->graph, name);
  if (input == ORD_NONE) {
    const char *known[64];
    uint32_t count = 0;
    for (; count < session->graph->input_count && count < 64; count++) known[count] = session->graph->input[count].name;
    const char *nearest = ord_nearest_name(name, known, count);
    return ord_fail(err, ORD_INVALID, "the model has no input '%s'%s%s%s", name, nearest ? "; did you mean '" : "",
                    nearest ? nearest : "", nearest ? "'?" : "");
  }
  const ord_value *value = input_value(session, input);
  if (own.dtype != value->dtype)
    return ord_fail(err, ORD_INVALID, "input '%s': found %s; wanted %s", name, ord_dtype_name((ord_dtype)own.dtype),
                    ord_dtype_name(value->dtype));
  if (own.rank != value->rank) return fail_shape(session, input, own.dim, own.rank <= ORD_RANK_MAX ? own.rank : 0, err);
  return ord_inputs_set(session, input, own.dim, own.data, own.bytes, err);
}

bool ord_session_set_tokens(ord_session *session, const int32_t *id, int64_t rows, int64_t count, ord_error *err) {
  const int64_t dim[ORD_RANK_MAX] = {rows, count};
  size_t bytes = 0;
  if (session->token_input == ORD_NONE)
    return ord_fail(err, ORD_INVALID, "the model has no input with fill: tokens; wanted one");
  if (!ord_tensor_bytes(ORD_I32, 2, dim, &bytes))
    return ord_fail(err, ORD_INVALID, "tokens: found %lld rows of %lld; wanted no negative or overflowing numbers",
                    (long long)rows, (long long)count);
  assert(input_value(session, session->token_input)->rank == 2); /* fill: tokens is for two axes */
  return ord_loop_end(session, err) && ord_inputs_set(session, session->token_input, dim, id, bytes, err);
}

/* ---- the sizes of this run -------------------------------------------------------------------------------------- */

static bool take_run_dims(ord_session *session, uint32_t input, ord_error *err) {
  const ord_graph *graph = session->graph;
  const ord_value *value = input_value(session, input);
  for (uint32_t i = 0; i < value->rank; i++) {
    uint32_t d = ORD_NONE;
    if (!ord_size_is_run_dim(value->dim[i], &d)) continue;
    const int64_t found = session->input[input].dim[i];
    if (session->run_dim[d] >= 0 && session->run_dim[d] != found)
      return ord_fail(err, ORD_INVALID, "input '%s' has %s = %lld, another input %lld; wanted equal",
                      graph->input[input].name, graph->run_dim[d].name, (long long)found,
                      (long long)session->run_dim[d]);
    if (found < graph->run_dim[d].min || found > graph->run_dim[d].max)
      return ord_fail(err, ORD_INVALID, "input '%s': found %s = %lld; wanted %lld to %lld", graph->input[input].name,
                      graph->run_dim[d].name, (long long)found, (long long)graph->run_dim[d].min,
                      (long long)graph->run_dim[d].max);
    session->run_dim[d] = found;
  }
  return true;
}

/* An input that would tell the size of a run-time dim; every run-time dim stands alone as an axis of one. */
static const char *input_with(const ord_session *session, uint32_t run_dim) {
  const ord_graph *graph = session->graph;
  for (uint32_t i = 0; i < graph->input_count; i++) {
    const ord_value *value = input_value(session, i);
    uint32_t found = ORD_NONE;
    for (uint32_t axis = 0; axis < value->rank; axis++)
      if (ord_size_is_run_dim(value->dim[axis], &found) && found == run_dim) return ord_session_input(session, i);
  }
  return "an input";
}

static bool resolve_run_dims(ord_session *session, ord_error *err) {
  const ord_graph *graph = session->graph;
  for (uint32_t d = 0; d < graph->run_dim_count; d++) session->run_dim[d] = -1;
  for (uint32_t i = 0; i < graph->input_count; i++)
    if (session->input[i].is_set && !take_run_dims(session, i, err)) return false;
  for (uint32_t d = 0; d < graph->run_dim_count; d++) {
    if (session->run_dim[d] < 0 && graph->run_dim[d].min == graph->run_dim[d].max)
      session->run_dim[d] = graph->run_dim[d].max;
    if (session->run_dim[d] < 0)
      return ord_fail(err, ORD_INVALID,
                      "run-time dim '%s' is not known; found no input that has it and is set; wanted %s",
                      graph->run_dim[d].name, input_with(session, d));
  }
  for (uint32_t i = 0; i < graph->input_count; i++) {
    const ord_value *value = input_value(session, i);
    for (uint32_t axis = 0; session->input[i].is_set && axis < value->rank; axis++) {
      int64_t wanted = 0;
      if (!ord_size_evaluate(value->dim[axis], session->run_dim, &wanted) || wanted != session->input[i].dim[axis])
        return ord_fail(err, ORD_INVALID, "input '%s': axis %u is %lld; wanted %lld for these inputs",
                        graph->input[i].name, axis, (long long)session->input[i].dim[axis], (long long)wanted);
    }
  }
  return true;
}

/* ---- lengths and the room in the caches ------------------------------------------------------------------------- */

static bool resolve_lengths(ord_session *session, ord_error *err) {
  int64_t tokens = 0;
  if (session->has_tokens && !ord_size_evaluate(session->new_tokens, session->run_dim, &tokens))
    return ord_fail(err, ORD_INVALID, "the token axis is too long");
  const bool given = session->length_input != ORD_NONE && session->input[session->length_input].is_set;
  const int32_t *length = given ? session->input[session->length_input].data : NULL;
  for (int64_t row = 0; row < session->rows; row++) {
    if (length && (length[row] < 0 || length[row] > tokens))
      return ord_fail(err, ORD_INVALID, "input '%s': length %d of row %lld; wanted 0 to %lld",
                      session->graph->input[session->length_input].name, length[row], (long long)row,
                      (long long)tokens);
    session->length[row] = length ? length[row] : (int32_t)tokens;
  }
  return true;
}

static bool raise_rows(int64_t *rows, ord_size batch, const int64_t *run_dim, ord_error *err) {
  int64_t more = 0;
  if (!ord_size_evaluate(batch, run_dim, &more)) return ord_fail(err, ORD_INVALID, "the batch is too large");
  if (more > *rows) *rows = more;
  return true;
}

bool ord_rows_count(const ord_graph *graph, const int64_t *run_dim, int64_t *out, ord_error *err) {
  *out = 0;
  for (uint32_t i = 0; i < graph->input_count; i++) {
    const ord_graph_input *input = &graph->input[i];
    const bool is_filled = input->fill != ORD_FILL_NONE && input->fill != ORD_FILL_NUMBER;
    if (is_filled && !raise_rows(out, graph->value[input->value].dim[0], run_dim, err)) return false;
  }
  for (uint32_t i = 0; i < graph->cache_count; i++)
    if (!raise_rows(out, graph->cache[i].batch, run_dim, err)) return false;
  return true;
}

static bool check_room(const ord_session *session, ord_error *err) {
  for (uint32_t i = 0; i < session->graph->cache_count; i++)
    for (int64_t row = 0; row < session->rows; row++) {
      const int64_t needed = (int64_t)session->past[row] + session->length[row];
      if (needed > session->cache_length[i])
        return ord_fail(err, ORD_INVALID,
                        "the context is full: row %lld holds %d tokens and %d are new, %lld needed; %lld available",
                        (long long)row, session->past[row], session->length[row], (long long)needed,
                        (long long)session->cache_length[i]);
    }
  return true;
}

/* ---- indices ----------------------------------------------------------------------------------------------------- */

/* How many rows an index may name: of the op's table, along its axis. False where nothing limits it. */
static bool index_limit(const ord_session *session, const ord_graph_node *node, uint32_t slot, int64_t *out) {
  const ord_graph *graph = session->graph;
  int64_t axis = 0, offset = 0;
  if (!(node->op->slot[slot].flags & ORD_SLOT_INDEX)) return false;
  const ord_attr *found = ord_attr_find(node->attr, node->attr_count, "axis");
  if (found) axis = found->value.i;
  found = ord_attr_find(node->attr, node->attr_count, "offset");
  if (found) offset = found->value.i;
  for (uint32_t s = 0; s < node->op->slot_count; s++) {
    if (!(node->op->slot[s].flags & ORD_SLOT_TABLE)) continue;
    const ord_value *table = &graph->value[node->in[s]];
    if (axis < 0) axis += table->rank;
    if (!ord_size_evaluate(table->dim[axis], session->run_dim, out)) return false;
    *out -= offset;
    return true;
  }
  return false;
}

static bool check_indices(const ord_session *session, const ord_graph_node *node, uint32_t slot, ord_error *err) {
  const ord_graph *graph = session->graph;
  const ord_value *value = &graph->value[node->in[slot]];
  const ord_input_state *state = &session->input[value->index];
  int64_t limit = 0;
  if (!state->is_set || value->dtype != ORD_I32 || !index_limit(session, node, slot, &limit)) return true;
  const int32_t *id = state->data;
  for (size_t i = 0; i < state->bytes / sizeof *id; i++)
    if (id[i] < 0 || id[i] >= limit)
      return ord_fail(err, ORD_INVALID, "input '%s' holds %d at %zu; wanted 0 to %lld, the rows of %s (in %s)",
                      graph->input[value->index].name, id[i], i, (long long)limit - 1, node->op->name, node->path[0]);
  return true;
}

static bool check_all_indices(const ord_session *session, ord_error *err) {
  const ord_graph *graph = session->graph;
  for (uint32_t n = 0; n < graph->node_count; n++) {
    const ord_graph_node *node = &graph->node[n];
    for (uint32_t s = 0; s < node->in_count && s < node->op->slot_count; s++)
      if (node->in[s] != ORD_NONE && graph->value[node->in[s]].kind == ORD_VALUE_INPUT &&
          !check_indices(session, node, s, err))
        return false;
  }
  return true;
}

bool ord_inputs_resolve(ord_session *session, ord_error *err) {
  return resolve_run_dims(session, err) && ord_rows_count(session->graph, session->run_dim, &session->rows, err) &&
         resolve_lengths(session, err) && check_room(session, err) && check_all_indices(session, err);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Row-major over dim, for the inputs that the runtime fills; rank is 1 or 2. */
static void write_positions(const ord_session *session, const ord_plan_tensor *input, const int64_t *dim, char *into) {
  for (int64_t row = 0; row < dim[0]; row++)
    for (int64_t i = 0; i < dim[1]; i++) {
      const int32_t position = i < session->length[row] ? session->past[row] + (int32_t)i : 0;
      memcpy(into + row * input->stride[0] + i * input->stride[1], &position, sizeof position);
    }
}

static void write_lengths(const ord_session *session, const ord_plan_tensor *input, const int64_t *dim, char *into) {
  for (int64_t row = 0; row < dim[0]; row++) memcpy(into + row * input->stride[0], &session->length[row], 4);
}

/* One number in the input's dtype. */
static size_t encode_number(ord_dtype dtype, double number, void *out) {
  const float single = (float)number;
  const int32_t whole = (int32_t)number;
  const uint8_t truth = number != 0;
  if (ord_convert(ORD_F32, &single, dtype, out, 1)) return ord_dtype_get(dtype)->block_bytes;
  if (dtype == ORD_BOOL)
    memcpy(out, &truth, sizeof truth);
  else
    memcpy(out, &whole, sizeof whole);
  return dtype == ORD_BOOL ? sizeof truth : sizeof whole;
}

static void write_number(const ord_plan_tensor *input, double number, const int64_t *dim, char *into) {
  char one[8];
  int64_t index[ORD_RANK_MAX] = {0};
  const size_t bytes = encode_number(input->dtype, number, one);
  for (uint32_t i = 0; i < input->rank; i++)
    if (dim[i] == 0) return;
  for (;;) {
    int64_t at = 0;
    for (uint32_t i = 0; i < input->rank; i++) at += index[i] * input->stride[i];
    memcpy(into + at, one, bytes);
    uint32_t axis = input->rank;
    while (axis > 0 && ++index[axis - 1] == dim[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

static bool fill_one(ord_session *session, const ord_plan_tensor *input, uint32_t index, const int64_t *dim, char *into,
                     ord_error *err) {
  const ord_graph_input *rule = &session->graph->input[index];
  const ord_input_state *state = &session->input[index];
  if (state->is_set) {
    ord_tensor_unpack(input->dtype, input->rank, dim, input->stride, state->data, into);
    return true;
  }
  if (rule->fill == ORD_FILL_POSITIONS)
    write_positions(session, input, dim, into);
  else if (rule->fill == ORD_FILL_LENGTHS)
    write_lengths(session, input, dim, into);
  else if (rule->fill == ORD_FILL_NUMBER)
    write_number(input, rule->fill_number, dim, into);
  else
    return ord_fail(err, ORD_INVALID, "input '%s' is not set; found nothing; wanted %s", input->name,
                    ord_session_input(session, index));
  return true;
}

static bool write_one(ord_session *session, const ord_lane *lane, uint32_t index, ord_error *err) {
  const ord_plan_tensor *input = &lane->plan->input[index];
  int64_t dim[ORD_RANK_MAX] = {0};
  if (input->place.space == ORD_SPACE_NONE) return true; /* no output that is asked for reads it */
  for (uint32_t i = 0; i < input->rank; i++)
    if (!ord_size_evaluate(input->size[i], session->run_dim, &dim[i]))
      return ord_fail(err, ORD_INTERNAL, "input '%s' has no size", input->name);
  return fill_one(session, input, index, dim, lane->input[index], err) &&
         session->queue->device->table->write(session->queue, (char *)lane->memory.arena + input->place.offset,
                                              lane->input[index], ord_plan_tensor_span(input, dim), err);
}

/* The sizes of this run, and what each row has in the caches. */
static bool write_numbers(ord_session *session, const ord_lane *lane, ord_error *err) {
  for (uint32_t i = 0; i < lane->plan->extent_count; i++)
    if (!ord_size_evaluate(lane->plan->extent[i], session->run_dim, &lane->extent[i]))
      return ord_fail(err, ORD_INTERNAL, "a size of the plan overflows");
  memcpy(lane->past, session->past, (size_t)session->batch_max * sizeof *lane->past);
  return session->queue->device->table->write(session->queue, lane->memory.extent, lane->extent, lane->number_bytes,
                                              err);
}

bool ord_inputs_write(ord_session *session, const ord_lane *lane, ord_error *err) {
  for (uint32_t i = 0; i < lane->plan->input_count; i++)
    if (!write_one(session, lane, i, err)) return false;
  return write_numbers(session, lane, err);
}
