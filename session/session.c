/* SPDX-License-Identifier: MIT
 *
 * A session: one conversation or one stream of runs on a model. Owns the plans, their memory, the caches and the
 * captures; shares the weights and packs of the model.
 */
#include <stdlib.h>
#include <string.h>

#include "graphs/edit.h"
#include "session/parts.h"

/* ---- what the options say ------------------------------------------------------------------------------------- */

static bool copy_list(ord_arena *arena, const char *const **list, uint32_t count) {
  const char *const *copy = ord_texts_copy(arena, *list, count);
  *list = copy;
  return copy != NULL;
}

/* Later lanes are made by the same options. */
static bool keep_options(ord_session *session, const ord_session_options *options, ord_error *err) {
  ord_session_options *kept = &session->options;
  *kept = *options;
  kept->pin = NULL;
  kept->pin_count = 0;
  return (copy_list(&session->arena, &kept->disabled_pass, kept->disabled_pass_count) &&
          copy_list(&session->arena, &kept->output, kept->output_count) &&
          copy_list(&session->arena, &kept->keep, kept->keep_count)) ||
         ord_fail_memory(err, "creating a session");
}

static bool make_graph(ord_session *session, const ord_session_options *options, ord_error *err) {
  const ord_model *model = session->model;
  if (!options->generates) return ord_graph_copy(model->graph, &session->graph, err);
  const ord_generate_rules *rules = ord_description_generate(model->description);
  if (!rules->is_given)
    return ord_fail(err, ORD_INVALID, "%s has no `generate:`; found none; wanted one that names the logits",
                    ord_model_name(model));
  return ord_graph_append_sample(model->graph, rules->logits, &session->graph, err);
}

/* How many tokens a row brings in a run: the token axis of the input, else the keys that enter a cache. */
static void find_new_tokens(ord_session *session) {
  const ord_graph *graph = session->graph;
  if (session->token_input != ORD_NONE) {
    session->new_tokens = graph->value[graph->input[session->token_input].value].dim[1];
    session->has_tokens = true;
  }
  for (uint32_t i = 0; i < graph->node_count && !session->has_tokens; i++) {
    if (graph->node[i].cache == ORD_NONE) continue;
    const uint32_t keys = ord_op_find_slot(graph->node[i].op, "k");
    if (keys == ORD_NONE) continue;
    session->new_tokens = graph->value[graph->node[i].in[keys]].dim[2];
    session->has_tokens = true;
  }
}

/* Finds the inputs that the runtime fills, and the run-time dim of the token axis. */
static void find_axes(ord_session *session) {
  const ord_graph *graph = session->graph;
  uint32_t token_dim = ORD_NONE;
  session->token_dim = session->token_input = session->length_input = ORD_NONE;
  for (uint32_t i = 0; i < graph->input_count; i++) {
    if (graph->input[i].fill == ORD_FILL_LENGTHS) session->length_input = i;
    if (graph->input[i].fill == ORD_FILL_TOKENS) session->token_input = i;
  }
  find_new_tokens(session);
  if (session->has_tokens && ord_size_is_run_dim(session->new_tokens, &token_dim)) session->token_dim = token_dim;
}

static bool check_compute(uint32_t compute, bool is_gpu, ord_error *err) {
  char list[64];
  return !compute || ord_compute_is_served(compute, is_gpu) ||
         ord_fail(err, ORD_INVALID, "compute: found %s; wanted %s%s", ord_compute_name(compute),
                  ord_join_words(ord_compute_names(is_gpu), " or ", list, sizeof list),
                  is_gpu ? "" : ", as the device is a CPU");
}

/* What the caller asks for, where he asks. */
static bool check_options(const ord_session_options *options, bool is_gpu, ord_error *err) {
  const uint32_t kv_cache = options->kv_cache;
  if (!check_compute(options->compute, is_gpu, err)) return false;
  if (options->capture > ORD_CAPTURE_OFF)
    return ord_fail(err, ORD_INVALID, "capture: found %u; wanted ORD_CAPTURE_REQUIRE, _PREFER or _OFF",
                    options->capture);
  if (kv_cache && kv_cache != ORD_F32 && kv_cache != ORD_BF16)
    return ord_fail(err, ORD_INVALID, "kv_cache: found %s; wanted f32 or bf16", ord_dtype_name((ord_dtype)kv_cache));
  return true;
}

/* Options, graph and axes: what dry plans and real ones need alike. */
static bool begin(ord_model *model, const ord_session_options *options, ord_session **out, ord_error *err) {
  *out = NULL;
  ord_session *session = calloc(1, sizeof *session);
  if (!session) return ord_fail_memory(err, "creating a session");
  session->model = model;
  const bool is_gpu = model->context->device->info.kind != ORD_DEVICE_CPU;
  if (!check_options(options, is_gpu, err) || !keep_options(session, options, err) ||
      !make_graph(session, options, err)) {
    ord_session_destroy(session);
    return false;
  }
  for (uint32_t i = 0; options->kv_cache && i < session->graph->cache_count; i++)
    session->graph->cache[i].dtype = (ord_dtype)options->kv_cache;
  find_axes(session);
  *out = session;
  return true;
}

/* ---- memory --------------------------------------------------------------------------------------------------- */

void ord_run_dim_maxima(const ord_graph *graph, int64_t *maximum) {
  for (uint32_t i = 0; i < graph->run_dim_count; i++) maximum[i] = graph->run_dim[i].max;
}

bool ord_cache_part_bytes(const ord_graph_cache *cache, const int64_t *maximum, int part, size_t *out, ord_error *err) {
  int64_t dim[4] = {0, cache->kv_heads, 0, part == 0 ? cache->k_dim : cache->v_dim};
  return (ord_size_evaluate(cache->batch, maximum, &dim[0]) && ord_size_evaluate(cache->length, maximum, &dim[2]) &&
          ord_tensor_bytes(cache->dtype, 4, dim, out)) ||
         ord_fail(err, ORD_INVALID, "cache '%s' is too large", cache->name);
}

static bool make_one_cache(ord_session *session, uint32_t index, const int64_t *maximum, ord_error *err) {
  const ord_graph_cache *cache = &session->graph->cache[index];
  ord_device *device = session->model->context->device;
  if (!ord_size_evaluate(cache->length, maximum, &session->cache_length[index]))
    return ord_fail(err, ORD_INVALID, "cache '%s' is too large", cache->name);
  for (int part = 0; part < 2; part++) {
    size_t bytes = 0;
    if (!ord_cache_part_bytes(cache, maximum, part, &bytes, err)) return false;
    if (!device->table->allocate(device, bytes ? bytes : 1, true, &session->cache[2 * index + part], err))
      return ord_fail_prefix(err, "cache '%s' needs %zu bytes", cache->name, bytes);
    session->cache_bytes += bytes;
  }
  return true;
}

/* What is counted for each row of the largest batch. */
static bool make_rows(ord_session *session, const int64_t *maximum, ord_error *err) {
  if (!ord_rows_count(session->graph, maximum, &session->batch_max, err)) return false;
  session->past = calloc((size_t)session->batch_max + 1, sizeof *session->past);
  session->length = calloc((size_t)session->batch_max + 1, sizeof *session->length);
  return session->past && session->length ? true : ord_fail_memory(err, "creating a session");
}

static bool make_caches(ord_session *session, ord_error *err) {
  const uint32_t count = session->graph->cache_count;
  int64_t maximum[ORD_RUN_DIM_MAX];
  ord_run_dim_maxima(session->graph, maximum);
  session->cache = calloc(2 * (size_t)count + 1, sizeof *session->cache);
  session->cache_length = calloc((size_t)count + 1, sizeof *session->cache_length);
  session->input = calloc((size_t)session->graph->input_count + 1, sizeof *session->input);
  session->run_dim = calloc((size_t)session->graph->run_dim_count + 1, sizeof *session->run_dim);
  if (!session->cache || !session->cache_length || !session->input || !session->run_dim)
    return ord_fail_memory(err, "creating a session");
  for (uint32_t i = 0; i < count; i++)
    if (!make_one_cache(session, i, maximum, err)) return false;
  return make_rows(session, maximum, err);
}

/* ---- names ---------------------------------------------------------------------------------------------------- */

static bool describe(ord_session *session, char **out, const char *name, uint32_t value, ord_error *err) {
  ord_text text = {0};
  ord_text_add(&text, "%s %s ", name, ord_dtype_name(session->graph->value[value].dtype));
  ord_graph_print_shape(&text, session->graph, value);
  return ord_text_give(&text, "describing a session", out, err);
}

static bool describe_all(ord_session *session, ord_error *err) {
  const ord_graph *graph = session->graph;
  session->described = calloc((size_t)graph->input_count + graph->output_count + 1, sizeof *session->described);
  if (!session->described) return ord_fail_memory(err, "describing a session");
  for (uint32_t i = 0; i < graph->input_count; i++)
    if (!describe(session, &session->described[i], graph->input[i].name, graph->input[i].value, err)) return false;
  for (uint32_t i = 0; i < graph->output_count; i++)
    if (!describe(session, &session->described[graph->input_count + i], graph->output[i].name, graph->output[i].value,
                  err))
      return false;
  return true;
}

const char *ord_session_input(const ord_session *session, uint32_t index) {
  return index < session->graph->input_count ? session->described[index] : NULL;
}

const char *ord_session_output(const ord_session *session, uint32_t index) {
  return index < session->graph->output_count ? session->described[session->graph->input_count + index] : NULL;
}

/* ---- life ----------------------------------------------------------------------------------------------------- */

/* Reading and packing are timed where they happen, by the store that sessions share. */
typedef struct startup_clock {
  uint64_t begin_ns;
  ord_weight_usage before;
} startup_clock;

static startup_clock start_clock(const ord_model *model) {
  startup_clock clock = {.begin_ns = ord_clock_ns()};
  if (model->store) clock.before = ord_weight_store_usage(model->store);
  return clock;
}

static void stop_clock(const startup_clock *clock, ord_session *session) {
  ord_startup_times *times = &session->startup;
  ord_weight_usage usage = clock->before;
  if (session->model->store) usage = ord_weight_store_usage(session->model->store);
  times->capture_ns = session->lanes->capture_ns;
  times->read_ns = usage.read_ns - clock->before.read_ns;
  times->pack_ns = usage.pack_ns - clock->before.pack_ns;
  times->plan_ns = ord_clock_ns() - clock->begin_ns - times->read_ns - times->pack_ns - times->capture_ns;
}

bool ord_session_create(ord_model *model, const ord_session_options *options, ord_session **out, ord_error *err) {
  ord_session_options own;
  *out = NULL;
  if (!ord_struct_take(options, "ord_session_options", &own, sizeof own, err) || !ord_model_need_weights(model, err))
    return false;
  const startup_clock clock = start_clock(model);
  ord_device *device = model->context->device;
  ord_session *session = NULL;
  if (!begin(model, &own, &session, err)) return false;
  if (!device->table->queue_create(device, &session->queue, err) || !make_caches(session, err) ||
      !ord_lanes_create(session, NULL, own.pin, own.pin_count, false, &session->lanes, err) ||
      !describe_all(session, err) || (session->options.generates && !ord_generation_defaults(session, err))) {
    ord_session_destroy(session);
    return false;
  }
  stop_clock(&clock, session);
  *out = session;
  return true;
}

bool ord_session_create_dry(ord_model *model, const ord_session_options *options, ord_session **out, ord_error *err) {
  ord_session_options own;
  *out = NULL;
  if (!ord_struct_take(options, "ord_session_options", &own, sizeof own, err) || !begin(model, &own, out, err))
    return false;
  if (ord_lanes_create(*out, NULL, own.pin, own.pin_count, true, &(*out)->lanes, err)) return true;
  ord_session_destroy(*out);
  *out = NULL;
  return false;
}

static void finish_names(ord_session *session) {
  if (!session->described) return;
  for (uint32_t i = 0; i < session->graph->input_count + session->graph->output_count; i++) free(session->described[i]);
  free(session->described);
}

void ord_session_destroy(ord_session *session) {
  if (!session) return;
  ord_device *device = session->model->context->device;
  ord_lanes_destroy(session, session->lanes); /* stops a loop that runs */
  ord_lanes_destroy(session, session->former);
  ord_lanes_destroy(session, session->kept);
  for (uint32_t i = 0; session->cache && i < 2 * session->graph->cache_count; i++)
    device->table->release(device, session->cache[i]);
  ord_inputs_free(session, session->input);
  for (uint32_t i = 0; i < session->output_copy_count; i++) free(session->output_copy[i].data);
  free(session->strided_copy.data);
  device->table->queue_destroy(session->queue);
  finish_names(session);
  free(session->output_copy);
  free(session->cache);
  free(session->cache_length);
  free(session->run_dim);
  free(session->past);
  free(session->length);
  ord_graph_destroy(session->graph);
  ord_arena_finish(&session->arena);
  free(session);
}

void ord_session_reset(ord_session *session) {
  ord_loop_end(session, NULL);
  memset(session->past, 0, (size_t)session->batch_max * sizeof *session->past);
  ord_session_forget_outputs(session);
}

void ord_session_rewind(ord_session *session, int64_t tokens) {
  ord_loop_end(session, NULL);
  for (int64_t row = 0; row < session->batch_max; row++)
    if (session->past[row] > tokens) session->past[row] = tokens > 0 ? (int32_t)tokens : 0;
}

void ord_session_cancel(ord_session *session) { atomic_fetch_or(session->queue->cancel, ORD_CANCEL); }

bool ord_session_startup(const ord_session *session, ord_startup_times *out, ord_error *err) {
  return ord_struct_give(&session->startup, "ord_startup_times", out, sizeof *out, err);
}
