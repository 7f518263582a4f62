/* SPDX-License-Identifier: MIT
 *
 * Compares lanes on live shapes: the same run with both, each in memory of its own. A run changes caches, positions,
 * values and what kernels keep between runs, so all of that is copied first.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "session/parts.h"

/* What a session knows about the run being made. */
typedef struct run_state {
  int64_t *run_dim, rows;
  int32_t *past, *length;
  ord_input_state *input;
} run_state;

/* A lane of the same plan with memory and caches of its own. */
typedef struct trial {
  ord_lane lane;
  void **cache; /* [2 * cache_count] */
} trial;

static const char *const DOING = "comparing kernels";

/* ---- a run in copies -------------------------------------------------------------------------------------------- */

/* Of the batch, in this run. */
static int64_t cache_rows(const ord_session *session, const ord_graph_cache *cache) {
  int64_t rows = 0;
  return ord_size_evaluate(cache->batch, session->run_dim, &rows) ? rows : 0;
}

static size_t cache_row_bytes(const ord_graph_cache *cache, int part) {
  return (size_t)(part == 0 ? cache->k_dim : cache->v_dim) * ord_dtype_get(cache->dtype)->block_bytes;
}

/* The rows that a session's run at this place finds in cache part number `index`; behind them is zero. */
static bool copy_past(const ord_session *session, uint32_t index, char *into, ord_error *err) {
  const ord_graph_cache *cache = &session->graph->cache[index / 2];
  const size_t row_bytes = cache_row_bytes(cache, (int)index % 2);
  for (int64_t row = 0; row < cache_rows(session, cache); row++)
    for (int64_t head = 0; head < cache->kv_heads; head++) {
      const size_t at = (size_t)((row * cache->kv_heads + head) * session->cache_length[index / 2]) * row_bytes;
      if (!session->queue->device->table->copy(session->queue, into + at, (const char *)session->cache[index] + at,
                                               (size_t)session->past[row] * row_bytes, err))
        return false;
    }
  return true;
}

static bool copy_caches(const ord_session *session, trial *made, ord_error *err) {
  const ord_graph *graph = session->graph;
  ord_device *device = session->queue->device;
  int64_t maximum[ORD_RUN_DIM_MAX];
  ord_run_dim_maxima(graph, maximum);
  made->cache = calloc(2 * (size_t)graph->cache_count + 1, sizeof *made->cache);
  if (!made->cache) return ord_fail_memory(err, DOING);
  for (uint32_t i = 0; i < 2 * graph->cache_count; i++) {
    size_t bytes = 0;
    if (!ord_cache_part_bytes(&graph->cache[i / 2], maximum, (int)i % 2, &bytes, err) ||
        !device->table->allocate(device, bytes ? bytes : 1, true, &made->cache[i], err) ||
        !copy_past(session, i, made->cache[i], err))
      return false;
  }
  return true;
}

static bool make_trial(const ord_session *session, const ord_lane *lane, trial *made, ord_error *err) {
  const ord_plan *plan = lane->plan;
  const size_t begin = plan->persistent_begin;
  made->lane = (ord_lane){.name = lane->name, .plan = lane->plan};
  /* Kernels find there what earlier runs left. */
  if (!ord_lane_memory_create(session, &made->lane, err) ||
      !session->queue->device->table->copy(session->queue, (char *)made->lane.memory.arena + begin,
                                           (const char *)lane->memory.arena + begin, plan->arena_bytes - begin, err) ||
      !copy_caches(session, made, err))
    return false;
  made->lane.memory.cache = made->cache;
  made->lane.memory.worker = lane->memory.worker;
  made->lane.memory.worker_stride = lane->memory.worker_stride;
  return true;
}

static bool run_trial(ord_session *session, const ord_lane *lane, trial *made, ord_error *err) {
  const ord_device_table *table = session->queue->device->table;
  return make_trial(session, lane, made, err) && ord_inputs_write(session, &made->lane, err) &&
         table->run_eager(session->queue, made->lane.plan, &made->lane.memory, NULL, err) &&
         table->wait(session->queue, err);
}

/* What failed may have left work in the queue. */
static void finish_trial(const ord_session *session, trial *made) {
  ord_device *device = session->queue->device;
  (void)device->table->wait(session->queue, NULL);
  ord_lane_memory_destroy(session, &made->lane);
  for (uint32_t i = 0; made->cache && i < 2 * session->graph->cache_count; i++)
    device->table->release(device, made->cache[i]);
  free(made->cache);
}

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

typedef struct tally {
  double difference, value; /* the largest of each */
} tally;

static void add_numbers(tally *sum, const float *wanted, const float *got, size_t count) {
  for (size_t i = 0; i < count; i++) {
    double difference = fabs((double)got[i] - (double)wanted[i]);
    if (isinf(wanted[i]) && got[i] == wanted[i]) difference = 0;
    if (isnan(difference)) difference = (double)INFINITY;
    if (difference > sum->difference) sum->difference = difference;
    if (isfinite(wanted[i]) && fabs((double)wanted[i]) > sum->value) sum->value = fabs((double)wanted[i]);
  }
}

static void note(const tally *sum, const char *name, ord_difference *worst) {
  const double part = sum->difference == 0 ? 0 : sum->difference / sum->value; /* over zero: infinite */
  if (worst->name && part <= worst->part) return;
  *worst = (ord_difference){part, name};
}

/* The element types whose numbers are compared. */
static bool is_float(ord_dtype dtype) { return dtype == ORD_F32 || dtype == ORD_F16 || dtype == ORD_BF16; }

/* ---- outputs ---------------------------------------------------------------------------------------------------- */

/* An output in this run. */
typedef struct extent {
  int64_t dim[ORD_RANK_MAX];
  size_t count, bytes; /* all elements, dense */
  size_t per_row;      /* elements of a row of the batch; 0: it has no rows */
  size_t per_token;    /* elements of a token; 0: it has no token axis */
  int64_t tokens;      /* of the token axis */
} extent;

static bool measure(const ord_session *session, const ord_plan_tensor *output, extent *out, ord_error *err) {
  *out = (extent){.count = 1};
  for (uint32_t i = 0; i < output->rank; i++)
    if (!ord_size_evaluate(output->size[i], session->run_dim, &out->dim[i]))
      return ord_fail(err, ORD_INTERNAL, "output '%s' has no size", output->name);
  if (!ord_tensor_bytes(output->dtype, output->rank, out->dim, &out->bytes))
    return ord_fail(err, ORD_INTERNAL, "output '%s' is too large", output->name);
  for (uint32_t i = output->rank; i-- > 0;) {
    uint32_t run_dim = ORD_NONE;
    if (i > 0 && ord_size_is_run_dim(output->size[i], &run_dim) && run_dim == session->token_dim) {
      out->per_token = out->count;
      out->tokens = out->dim[i];
    }
    if (i == 0 && session->has_tokens && out->dim[0] == session->rows) out->per_row = out->count;
    out->count *= (size_t)out->dim[i];
  }
  return true;
}

/* What lies behind the length of a row is not specified. */
static bool is_specified(const ord_session *session, const extent *is, size_t element) {
  if (is->per_row == 0) return true;
  const int64_t length = session->length[element / is->per_row];
  return length > 0 && (is->per_token == 0 || (int64_t)(element / is->per_token % (size_t)is->tokens) < length);
}

/* As f32 numbers, dense, into `number`. */
static bool read_output(ord_session *session, const trial *from, uint32_t index, const extent *is, float *number,
                        ord_error *err) {
  const ord_plan_tensor *output = &from->lane.plan->output[index];
  void *dense = malloc(is->bytes + 1);
  if (!dense) return ord_fail_memory(err, DOING);
  const bool done = ord_output_read(session, &from->lane, output, is->dim, dense, err) &&
                    (ord_convert(output->dtype, dense, ORD_F32, number, is->count) ||
                     ord_fail(err, ORD_INTERNAL, "output '%s' holds %s", output->name, ord_dtype_name(output->dtype)));
  free(dense);
  return done;
}

static bool compare_output(ord_session *session, const trial *old, const trial *other, uint32_t index,
                           ord_difference *worst, ord_error *err) {
  const ord_plan_tensor *output = &old->lane.plan->output[index];
  extent is;
  tally sum = {0, 0};
  if (!is_float(output->dtype)) return true;
  if (!measure(session, output, &is, err)) return false;
  float *wanted = malloc(is.count * sizeof *wanted + 1), *got = malloc(is.count * sizeof *got + 1);
  const bool done = wanted && got ? read_output(session, old, index, &is, wanted, err) &&
                                        read_output(session, other, index, &is, got, err)
                                  : ord_fail_memory(err, DOING);
  for (size_t i = 0; done && i < is.count; i++)
    if (is_specified(session, &is, i)) add_numbers(&sum, &wanted[i], &got[i], 1);
  free(wanted);
  free(got);
  note(&sum, output->name, worst);
  return done;
}

/* ---- caches ----------------------------------------------------------------------------------------------------- */

/* As f32 numbers: what the run appended to one head of one row. */
static bool read_appended(ord_session *session, const void *from, ord_dtype dtype, size_t count, void *stored,
                          float *number, ord_error *err) {
  const size_t bytes = count * ord_dtype_get(dtype)->block_bytes;
  return session->queue->device->table->read(session->queue, stored, from, bytes, err) &&
         (ord_convert(dtype, stored, ORD_F32, number, count) ||
          ord_fail(err, ORD_INTERNAL, "a cache holds %s", ord_dtype_name(dtype)));
}

/* What the run appended: the rows of `old` and `other` behind each row's past. */
static bool compare_cache(ord_session *session, const trial *old, const trial *other, uint32_t index,
                          ord_difference *worst, ord_error *err) {
  const ord_graph_cache *cache = &session->graph->cache[index / 2];
  const size_t row_bytes = cache_row_bytes(cache, (int)index % 2);
  const size_t width = row_bytes / ord_dtype_get(cache->dtype)->block_bytes;
  const size_t most = (size_t)session->cache_length[index / 2] * width;
  float *wanted = malloc(most * sizeof *wanted + 1), *got = malloc(most * sizeof *got + 1);
  void *stored = malloc(most * sizeof(float) + 1);
  tally sum = {0, 0};
  bool done = wanted && got && stored ? true : ord_fail_memory(err, DOING);
  for (int64_t row = 0; row < cache_rows(session, cache); row++)
    for (int64_t head = 0; done && head < cache->kv_heads; head++) {
      const int64_t first = (row * cache->kv_heads + head) * session->cache_length[index / 2] + session->past[row];
      const size_t at = (size_t)first * row_bytes, count = (size_t)session->length[row] * width;
      done = read_appended(session, (const char *)old->cache[index] + at, cache->dtype, count, stored, wanted, err) &&
             read_appended(session, (const char *)other->cache[index] + at, cache->dtype, count, stored, got, err);
      if (done) add_numbers(&sum, wanted, got, count);
    }
  free(wanted);
  free(got);
  free(stored);
  note(&sum, cache->name, worst);
  return done;
}

static bool compare_lane(ord_session *session, const ord_lane *old, const ord_lane *other, ord_difference *worst,
                         ord_error *err) {
  trial in_use = {0}, beside = {0};
  bool done = run_trial(session, old, &in_use, err) && run_trial(session, other, &beside, err);
  for (uint32_t i = 0; done && i < old->plan->output_count; i++)
    done = compare_output(session, &in_use, &beside, i, worst, err);
  for (uint32_t i = 0; done && i < 2 * session->graph->cache_count; i++)
    done = compare_cache(session, &in_use, &beside, i, worst, err);
  finish_trial(session, &in_use);
  finish_trial(session, &beside);
  return done;
}

/* ---- at the place of the last run ------------------------------------------------------------------------------- */

static run_state exchange(ord_session *session, run_state state) {
  const run_state before = {session->run_dim, session->rows, session->past, session->length, session->input};
  session->run_dim = state.run_dim;
  session->rows = state.rows;
  session->past = state.past;
  session->length = state.length;
  session->input = state.input;
  return before;
}

/* A run of the inputs ends where the last one ended, or later where they are longer than all that was run so far. */
static bool place_run(ord_session *session, const int32_t *ended, ord_error *err) {
  memset(session->past, 0, (size_t)session->batch_max * sizeof *session->past);
  if (!ord_inputs_resolve(session, err)) return false;
  for (int64_t row = 0; row < session->rows && session->graph->cache_count > 0; row++)
    session->past[row] = ended[row] > session->length[row] ? ended[row] - session->length[row] : 0;
  return true;
}

/* Every lane, with as many tokens of the inputs as it serves; but not all inputs can be cut: an index may name a token
 * that is then missing. */
static bool compare_lanes(ord_session *session, const ord_lanes *other, const int32_t *ended, ord_difference *worst,
                          ord_error *err) {
  ord_input_state *whole = session->input;
  if (!place_run(session, ended, err)) return false;
  const int64_t tokens = session->token_dim == ORD_NONE ? 0 : session->run_dim[session->token_dim];
  bool done = true;
  for (uint32_t i = 0; done && i < other->count; i++) {
    const ord_lane *lane = &other->lane[i];
    const int64_t served = lane->new_tokens < tokens ? lane->new_tokens : tokens;
    if (!ord_lane_holds(lane, served)) continue;
    ord_error why = ORD_ERROR_INIT;
    if (ord_inputs_cut(session, served, &session->input, &why) && place_run(session, ended, &why))
      done = compare_lane(session, &session->lanes->lane[i], lane, worst, err);
    else if (why.code != ORD_INVALID || served == tokens)
      done = ord_fail(err, why.code, "%s", why.text);
    if (session->input != whole) ord_inputs_free(session, session->input);
    session->input = whole;
  }
  return done;
}

bool ord_lanes_compare(ord_session *session, const ord_lanes *other, ord_difference *out, ord_error *err) {
  run_state own = {.run_dim = calloc((size_t)session->graph->run_dim_count + 1, sizeof *own.run_dim),
                   .past = calloc((size_t)session->batch_max + 1, sizeof *own.past),
                   .length = calloc((size_t)session->batch_max + 1, sizeof *own.length),
                   .input = session->input};
  *out = (ord_difference){0, NULL};
  bool done = own.run_dim && own.past && own.length ? true : ord_fail_memory(err, DOING);
  if (done) {
    const run_state before = exchange(session, own);
    done = compare_lanes(session, other, before.past, out, err);
    exchange(session, before);
  }
  free(own.run_dim);
  free(own.past);
  free(own.length);
  return done;
}
