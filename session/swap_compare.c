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
} run_state;

/* A lane whose memory was replaced by copies. */
typedef struct trial {
  ord_lane lane;
  void *arena;
  int64_t *extent;
  void **cache; /* [2 * cache_count] */
} trial;

static const char *const DOING = "comparing kernels";

/* ---- a run in copies -------------------------------------------------------------------------------------------- */

/* Of the batch, in this run. */
static int64_t cache_rows(const ord_session *session, const ord_graph_cache *cache) {
  int64_t rows = 0;
  return ord_size_evaluate(cache->batch, session->run_dim, &rows) ? rows : 0;
}

/* The rows that a session's run at this place finds in a cache; behind them is zero. */
static void copy_past(const ord_session *session, const ord_graph_cache *cache, int64_t length, size_t row_bytes,
                      const char *from, char *into) {
  for (int64_t row = 0; row < cache_rows(session, cache); row++)
    for (int64_t head = 0; head < cache->kv_heads; head++) {
      const size_t at = (size_t)((row * cache->kv_heads + head) * length) * row_bytes;
      memcpy(into + at, from + at, (size_t)session->past[row] * row_bytes);
    }
}

static size_t cache_row_bytes(const ord_graph_cache *cache, int part) {
  return (size_t)(part == 0 ? cache->k_dim : cache->v_dim) * ord_dtype_get(cache->dtype)->block_bytes;
}

static bool copy_caches(const ord_session *session, trial *made, ord_error *err) {
  const ord_graph *graph = session->graph;
  ord_device *device = session->model->context->device;
  int64_t maximum[ORD_RUN_DIM_MAX];
  ord_run_dim_maxima(graph, maximum);
  made->cache = calloc(2 * (size_t)graph->cache_count + 1, sizeof *made->cache);
  if (!made->cache) return ord_fail_memory(err, DOING);
  for (uint32_t i = 0; i < 2 * graph->cache_count; i++) {
    const ord_graph_cache *cache = &graph->cache[i / 2];
    size_t bytes = 0;
    if (!ord_cache_part_bytes(cache, maximum, (int)i % 2, &bytes, err)) return false;
    made->cache[i] = device->table->allocate(device, bytes ? bytes : 1, true);
    if (!made->cache[i]) return ord_fail_memory(err, DOING);
    copy_past(session, cache, session->cache_length[i / 2], cache_row_bytes(cache, (int)i % 2), session->cache[i],
              made->cache[i]);
  }
  return true;
}

static bool make_trial(const ord_session *session, const ord_lane *lane, trial *made, ord_error *err) {
  ord_device *device = session->model->context->device;
  const ord_plan *plan = lane->plan;
  made->lane = *lane;
  made->arena = device->table->allocate(device, plan->arena_bytes ? plan->arena_bytes : 1, true);
  made->extent = calloc((size_t)plan->extent_count + 1, sizeof *made->extent);
  if (!made->arena || !made->extent) return ord_fail_memory(err, DOING);
  /* Kernels find there what earlier runs left. */
  if (plan->arena_bytes > plan->persistent_begin)
    memcpy((char *)made->arena + plan->persistent_begin, (const char *)lane->memory.arena + plan->persistent_begin,
           plan->arena_bytes - plan->persistent_begin);
  if (!copy_caches(session, made, err)) return false;
  made->lane.memory.arena = made->arena;
  made->lane.memory.extent = made->extent;
  made->lane.memory.cache = made->cache;
  made->lane.memory.past = session->past;
  return true;
}

static bool run_trial(ord_session *session, const ord_lane *lane, trial *made, ord_error *err) {
  ord_device *device = session->model->context->device;
  return make_trial(session, lane, made, err) && ord_inputs_write(session, &made->lane, err) &&
         device->table->run_eager(device, made->lane.plan, &made->lane.memory, NULL, err);
}

static void finish_trial(const ord_session *session, trial *made) {
  ord_device *device = session->model->context->device;
  if (made->arena) device->table->release(device, made->arena);
  for (uint32_t i = 0; made->cache && i < 2 * session->graph->cache_count; i++)
    if (made->cache[i]) device->table->release(device, made->cache[i]);
  free(made->cache);
  free(made->extent);
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

/* As f32 numbers, dense; malloc'ed, or NULL when out of memory. */
static float *read_output(const trial *from, const ord_plan_tensor *output, const extent *is) {
  const bool is_weight = output->place.space == ORD_SPACE_WEIGHT;
  const char *base = is_weight ? from->lane.plan->weight[output->place.index] : from->arena;
  void *dense = malloc(is->bytes + 1);
  float *number = malloc(is->count * sizeof *number + 1);
  if (dense && number) {
    ord_tensor_pack(output->dtype, output->rank, is->dim, output->stride, base + output->place.offset, dense);
    if (ord_convert(output->dtype, dense, ORD_F32, number, is->count)) {
      free(dense);
      return number;
    }
  }
  free(dense);
  free(number);
  return NULL;
}

static bool compare_output(const ord_session *session, const trial *old, const trial *other, uint32_t index,
                           ord_difference *worst, ord_error *err) {
  const ord_plan_tensor *output = &old->lane.plan->output[index];
  extent is;
  tally sum = {0, 0};
  if (!is_float(output->dtype)) return true;
  if (!measure(session, output, &is, err)) return false;
  float *wanted = read_output(old, output, &is), *got = read_output(other, &other->lane.plan->output[index], &is);
  for (size_t i = 0; wanted && got && i < is.count; i++)
    if (is_specified(session, &is, i)) add_numbers(&sum, &wanted[i], &got[i], 1);
  const bool done = wanted && got;
  free(wanted);
  free(got);
  note(&sum, output->name, worst);
  return done || ord_fail_memory(err, DOING);
}

/* ---- caches ----------------------------------------------------------------------------------------------------- */

/* What the run appended: the rows of `old` and `other` behind each row's past. */
static bool compare_cache(const ord_session *session, const trial *old, const trial *other, uint32_t index,
                          ord_difference *worst, ord_error *err) {
  const ord_graph_cache *cache = &session->graph->cache[index / 2];
  const size_t row_bytes = cache_row_bytes(cache, (int)index % 2);
  const size_t width = row_bytes / ord_dtype_get(cache->dtype)->block_bytes;
  float *wanted = malloc(width * sizeof *wanted + 1), *got = malloc(width * sizeof *got + 1);
  tally sum = {0, 0};
  bool done = wanted && got;
  for (int64_t row = 0; row < cache_rows(session, cache); row++)
    for (int64_t i = 0; done && i < cache->kv_heads * session->length[row]; i++) {
      const int64_t head = i / session->length[row], token = session->past[row] + i % session->length[row];
      const size_t at = (size_t)((row * cache->kv_heads + head) * session->cache_length[index / 2] + token) * row_bytes;
      done = ord_convert(cache->dtype, (const char *)old->cache[index] + at, ORD_F32, wanted, width) &&
             ord_convert(cache->dtype, (const char *)other->cache[index] + at, ORD_F32, got, width);
      if (done) add_numbers(&sum, wanted, got, width);
    }
  free(wanted);
  free(got);
  note(&sum, cache->name, worst);
  return done || ord_fail_memory(err, DOING);
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
  const run_state before = {session->run_dim, session->rows, session->past, session->length};
  session->run_dim = state.run_dim;
  session->rows = state.rows;
  session->past = state.past;
  session->length = state.length;
  return before;
}

/* A run of the inputs ends where the last one ended, or later where they are longer than all that was run so far. */
static bool place_run(ord_session *session, const int32_t *ended, ord_error *err) {
  if (!ord_inputs_resolve(session, err)) return false;
  for (int64_t row = 0; row < session->rows && session->graph->cache_count > 0; row++)
    if (ended[row] > session->length[row]) session->past[row] = ended[row] - session->length[row];
  return true;
}

/* Every lane that serves a run of this length. */
static bool compare_lanes(ord_session *session, const ord_lanes *other, ord_difference *worst, ord_error *err) {
  for (uint32_t i = 0; i < other->count; i++)
    if ((i == 0 || session->run_dim[session->token_dim] == 1) &&
        !compare_lane(session, &session->lanes->lane[i], &other->lane[i], worst, err))
      return false;
  return true;
}

bool ord_lanes_compare(ord_session *session, const ord_lanes *other, ord_difference *out, ord_error *err) {
  run_state own = {.run_dim = calloc((size_t)session->graph->run_dim_count + 1, sizeof *own.run_dim),
                   .past = calloc((size_t)session->batch_max + 1, sizeof *own.past),
                   .length = calloc((size_t)session->batch_max + 1, sizeof *own.length)};
  *out = (ord_difference){0, NULL};
  bool done = own.run_dim && own.past && own.length ? true : ord_fail_memory(err, DOING);
  if (done) {
    const run_state before = exchange(session, own);
    done = place_run(session, before.past, err) && compare_lanes(session, other, out, err);
    exchange(session, before);
  }
  free(own.run_dim);
  free(own.past);
  free(own.length);
  return done;
}
