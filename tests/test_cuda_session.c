/* SPDX-License-Identifier: MIT
 *
 * Sessions on the CUDA device: the text is that of the CPU, and the same in every way to make it: eagerly,
 * replayed, in one launch, in launches ahead, and with kernels swapped in the middle. andrea-nano, whose tokens take
 * long there, in some ways of each order; a small model in all.
 */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "cuda_session.h"
#include "small_model.h"

enum { VOCAB = 257, TOKENS = 10, SWAP_AT = 3, BACK_AT = 6 };

/* Of the small model; andrea-nano has read "In the beginning God created the heaven, and th". */
static const int32_t PROMPT[] = {256, 'A', 'n', 'd', ' ', 'G', 'o', 'd', ' '};
enum { PROMPT_COUNT = sizeof PROMPT / sizeof *PROMPT };
static const int32_t GENESIS[] = {256, 'I', 'n', ' ', 't', 'h', 'e', ' ', 'b', 'e', 'g', 'i', 'n', 'n', 'i', 'n',
                                  'g', ' ', 'G', 'o', 'd', ' ', 'c', 'r', 'e', 'a', 't', 'e', 'd', ' ', 't', 'h',
                                  'e', ' ', 'h', 'e', 'a', 'v', 'e', 'n', ',', ' ', 'a', 'n', 'd', ' ', 't', 'h'};
enum { GENESIS_COUNT = sizeof GENESIS / sizeof *GENESIS };

/* A short context, so that a library's warm-up of the plan for all lengths is short. */
enum { CONTEXT = 64 };

typedef struct subject {
  ord_model *(*open)(ord_context *context);
  const int32_t *prompt;
  int prompt_count;
  double layers, d_mlp;
} subject;

static ord_model *open_nano_model(ord_context *context) {
  const ord_model_options options = {.struct_size = sizeof options, .context = CONTEXT};
  const ord_weight_options weights = {.struct_size = sizeof weights, .path = NANO_WEIGHTS};
  ord_error err = ORD_ERROR_INIT;
  ord_model *model = NULL;
  MUST(ord_model_load(context, MODEL("andrea-nano"), &options, &model, NULL, &err));
  MUST(ord_model_open_weights(model, &weights, NULL, &err));
  return model;
}

static ord_model *open_small(ord_context *context) { return open_small_model(context, SMALL_MODEL, CONTEXT); }

enum { NANO, SMALL, SUBJECT_COUNT };
static const subject subjects[] = {
    [NANO] = {open_nano_model, GENESIS, GENESIS_COUNT, 4, 1024}, [SMALL] = {open_small, PROMPT, PROMPT_COUNT, 2, 32}};

enum { F32, F32_BF16, BF16, BF16_BF16, TYPE_COUNT };
static const setup types[] = {[F32] = {"f32", ALL_PLUGINS, NULL, ORD_F32, ORD_F32},
                              [F32_BF16] = {"f32, bf16 caches", ALL_PLUGINS, NULL, ORD_F32, ORD_BF16},
                              [BF16] = {"bf16", ALL_PLUGINS, NULL, ORD_BF16, ORD_F32},
                              [BF16_BF16] = {"bf16, bf16 caches", ALL_PLUGINS, NULL, ORD_BF16, ORD_BF16}};

typedef struct text {
  int32_t id[TOKENS];
  float logits[TOKENS][VOCAB]; /* that each id was chosen from */
} text;

/* Children get them from the parent. */
static text cpu_text[SUBJECT_COUNT][TYPE_COUNT];

/* ---- runs -------------------------------------------------------------------------------------------------------- */

static ord_session *open_as(ord_model *model, const setup *how, uint32_t capture) {
  const ord_session_options plain = {.struct_size = sizeof plain, .generates = true, .capture = capture};
  const ord_session_options options = options_for(how, &plain);
  return open_session(model, &options);
}

static void run_tokens(ord_session *session, const int32_t *id, int64_t count, float *logits) {
  ord_error err = ORD_ERROR_INIT;
  ord_tensor got = {.struct_size = sizeof got};
  MUST(ord_session_set_tokens(session, id, 1, count, &err));
  MUST(ord_session_run(session, &err));
  MUST(ord_session_get(session, "next", &got, &err));
  assert_int_equal(got.bytes, VOCAB * sizeof *logits);
  memcpy(logits, got.data, got.bytes);
}

static int32_t largest_of(const float *logits, int32_t other_than) {
  int32_t best = other_than == 0;
  for (int32_t i = 0; i < VOCAB; i++)
    if (i != other_than && logits[i] > logits[best]) best = i;
  return best;
}

/* Greedily, a run for each token. */
static void walk(ord_session *session, const subject *of, text *out) {
  ord_session_reset(session);
  run_tokens(session, of->prompt, of->prompt_count, out->logits[0]);
  for (int i = 0;; i++) {
    out->id[i] = largest_of(out->logits[i], -1);
    if (i + 1 == TOKENS) return;
    run_tokens(session, &out->id[i], 1, out->logits[i + 1]);
  }
}

static int make_cpu_texts(void **state) {
  (void)state;
  for (int i = 0; i < SUBJECT_COUNT; i++)
    for (int k = 0; k < TYPE_COUNT; k++) {
      stage s = {.context = open_context_for(&types[k], 2)};
      s.model = subjects[i].open(s.context);
      s.session = open_as(s.model, &types[k], 0);
      walk(s.session, &subjects[i], &cpu_text[i][k]);
      close_stage(&s);
    }
  return 0;
}

/* ---- how far the device may be from the CPU ---------------------------------------------------------------------- */

/* Both make the same sums of products, in other orders, and where a type is narrower than f32 they round to it what
 * differs in its last bits already, so that the roundings of the two are as good as independent.
 *   A sum of n terms in f32 rounds n partial sums that are no larger than its typical result, each by at most half a
 * unit, 2^-24 of it: a standard deviation of sqrt(n) 2^-24 / sqrt(3). n is at most d_mlp.
 *   In bf16 a factor of each term is off by at most 2^-8, so the sum is by 2^-8 / sqrt(3) of its typical result.
 *   Six such sums follow one another in a layer (k or v, scores, values, projection, two of the mlp), one more makes
 * the logits. Norms and residuals hand relative differences on as they are. So the variances add up, on both sides.
 * What is typical of the logits is how far they are spread. Four deviations leave room for softmax, which turns the
 * differences of scores into relative ones. The test holds every logit to this bound; two logits of independent
 * differences cannot change places if they are sqrt(2) times as far apart. */
static double bound_of(const subject *of, const setup *how, const float *logits) {
  enum { SUMS_OF_LAYER = 6, DEVIATIONS = 4, SIDES = 2 };
  const bool is_narrow = how->compute == ORD_BF16 || how->kv_cache == ORD_BF16;
  const double sums = SUMS_OF_LAYER * of->layers + 1;
  const double of_sum = sqrt(of->d_mlp) * 0x1p-24 / sqrt(3), of_factor = is_narrow ? 0x1p-8 / sqrt(3) : 0;
  double sum = 0, square = 0;
  for (int i = 0; i < VOCAB; i++) sum += (double)logits[i];
  for (int i = 0; i < VOCAB; i++) square += pow((double)logits[i] - sum / VOCAB, 2);
  return DEVIATIONS * sqrt(sums * SIDES * (of_sum * of_sum + of_factor * of_factor)) * sqrt(square / VOCAB);
}

/* What a child runs; it gets it from its parent. */
static int which, type;

/* How many tokens of the CPU's text come before the first that the bound leaves open. */
static int count_certain(void) {
  const text *wanted = &cpu_text[which][type];
  for (int i = 0; i < TOKENS; i++) {
    const float *logits = wanted->logits[i];
    const double gap = (double)logits[wanted->id[i]] - (double)logits[largest_of(logits, wanted->id[i])];
    if (gap <= sqrt(2) * bound_of(&subjects[which], &types[type], logits)) return i;
  }
  return TOKENS;
}

static void check_ids(const char *what, const int32_t *id) {
  const int32_t *wanted = cpu_text[which][type].id;
  const int count = count_certain();
  for (int i = 0; i < count; i++)
    if (id[i] != wanted[i]) fail_msg("%s: token %d is %d; wanted %d as on the CPU", what, i, id[i], wanted[i]);
}

static void check_text(const char *what, const text *got) {
  const text *wanted = &cpu_text[which][type];
  double worst = 0;
  check_ids(what, got->id);
  for (int i = 0; i < TOKENS && (i == 0 || got->id[i - 1] == wanted->id[i - 1]); i++) {
    const double bound = bound_of(&subjects[which], &types[type], wanted->logits[i]);
    double most = 0;
    for (int k = 0; k < VOCAB; k++) most = fmax(most, fabs((double)got->logits[i][k] - (double)wanted->logits[i][k]));
    if (most > bound) fail_msg("%s, token %d: the logits differ by %g; wanted at most %g", what, i, most, bound);
    worst = fmax(worst, most / bound);
  }
  print_message("%s: the logits differ by at most %.2g of the bound\n", what, worst);
}

/* So that comparing texts says something. */
static void the_bound_leaves_tokens(void **state) {
  (void)state;
  static const int least[SUBJECT_COUNT][TYPE_COUNT] = {{TOKENS, 8, 8, 8}, {TOKENS, 4, 4, 4}};
  for (which = 0; which < SUBJECT_COUNT; which++)
    for (type = 0; type < TYPE_COUNT; type++) {
      const int count = count_certain();
      print_message("%s model, %s: %d of %d tokens\n", which == NANO ? "nano" : "small", types[type].name, count,
                    TOKENS);
      assert_true(count >= least[which][type]);
    }
}

/* ---- generations ------------------------------------------------------------------------------------------------- */

typedef struct talk {
  ord_session *session;
  bool swaps;           /* behind token SWAP_AT, and back behind BACK_AT */
  bool goes_back;       /* behind BACK_AT, from a swap before */
  uint32_t ends_behind; /* the caller wants no more; 0: never */
  int32_t id[TOKENS];
  uint32_t count;
  ord_generate_result result;
} talk;

static void swap_both(ord_session *session) {
  static const char *const pin[] = {"attention=cuda_attention_naive", "matmul=matmul_cublas"};
  const ord_swap_options options = {.struct_size = sizeof options, .pin = pin, .pin_count = 2};
  ord_error err = ORD_ERROR_INIT;
  MUST(ord_session_swap_kernel(session, &options, NULL, &err));
}

static bool note(void *context, int32_t id, const char *bytes, size_t count) {
  (void)bytes, (void)count;
  talk *out = context;
  ord_error err = ORD_ERROR_INIT;
  out->id[out->count++] = id;
  if (out->swaps && out->count == SWAP_AT) swap_both(out->session);
  if ((out->swaps || out->goes_back) && out->count == BACK_AT) MUST(ord_session_rollback_kernel(out->session, &err));
  return out->count != out->ends_behind;
}

static ord_generate_options greedy(uint32_t loop) {
  ord_generate_options options = ORD_GENERATE_INIT;
  options.max_tokens = TOKENS;
  options.loop = loop;
  return options;
}

/* Goes on where the session is. */
static void go_on(ord_session *session, const int32_t *prompt, size_t count, const ord_generate_options *options,
                  talk *out) {
  ord_error err = ORD_ERROR_INIT;
  out->session = session;
  out->count = 0;
  out->result.struct_size = sizeof out->result;
  MUST(ord_session_generate(session, prompt, count, options, note, out, &out->result, &err));
  assert_int_equal(out->result.loop, options->loop);
  assert_int_equal(out->result.token_count, out->count);
}

static talk start(ord_session *session, const ord_generate_options *options) {
  talk made = {0};
  ord_session_reset(session);
  go_on(session, PROMPT, PROMPT_COUNT, options, &made);
  return made;
}

static const uint32_t loops[] = {ORD_LOOP_OFF, ORD_LOOP_WHOLE, ORD_LOOP_AHEAD};
static const char *const loop_name[] = {[ORD_LOOP_OFF] = "off", [ORD_LOOP_WHOLE] = "whole", [ORD_LOOP_AHEAD] = "ahead"};
enum { LOOP_COUNT = sizeof loops / sizeof *loops };

static void assert_same(const talk *got, const talk *wanted, const char *what) {
  if (got->count != wanted->count || memcmp(got->id, wanted->id, got->count * sizeof *got->id) != 0)
    fail_msg("%s: found other tokens (%u) than in eager runs (%u)", what, got->count, wanted->count);
  assert_int_equal(got->result.ended, wanted->result.ended);
}

/* ---- the text of the CPU ----------------------------------------------------------------------------------------- */

/* EAGER and REPLAYED are runs of the test's own, OFF and on generations, without a swap in the middle and with one. */
enum { EAGER = 1, REPLAYED = 2, OFF = 4, WHOLE = 8, AHEAD = 16, PLAIN = 32, SWAPPED = 64, EVERY_WAY = 127 };
static const int way_of_loop[] = {[ORD_LOOP_OFF] = OFF, [ORD_LOOP_WHOLE] = WHOLE, [ORD_LOOP_AHEAD] = AHEAD};

static const struct {
  int type, way;
  const char *order;
} ways_of_nano[] = {
    {F32, EAGER | REPLAYED, "eager"},
    {F32, AHEAD | SWAPPED, "lazy"},
    {F32, WHOLE | SWAPPED, "thread"},
    {BF16_BF16, REPLAYED, "thread"},
};
static int way;

/* A run for each token; all bits of the logits are those of eager runs. */
static void walk_all(ord_session *eager, ord_session *captured) {
  static text got, replayed;
  if (way & EAGER) {
    walk(eager, &subjects[which], &got);
    check_text("eager", &got);
  }
  if (!(way & REPLAYED)) return;
  walk(captured, &subjects[which], &replayed);
  check_text("replayed", &replayed);
  if (way & EAGER) assert_memory_equal(&replayed, &got, sizeof got);
}

/* From the prompt of what is tested. */
static void start_at(ord_session *session, const ord_generate_options *options, talk *out) {
  const subject *of = &subjects[which];
  ord_session_reset(session);
  go_on(session, of->prompt, (size_t)of->prompt_count, options, out);
}

static void generate_all(ord_session *session, bool swaps, const talk *wanted) {
  for (int i = 0; i < LOOP_COUNT; i++) {
    const ord_generate_options options = greedy(loops[i]);
    talk got = {.swaps = swaps};
    if (!(way & way_of_loop[loops[i]])) continue;
    start_at(session, &options, &got);
    check_ids(loop_name[loops[i]], got.id);
    if (wanted) assert_same(&got, wanted, loop_name[loops[i]]);
  }
}

static void the_text_of_the_cpu(void **state) {
  (void)state;
  ord_context *context = open_cuda_context();
  ord_model *model = subjects[which].open(context);
  ord_session *eager = way & EAGER ? open_as(model, &types[type], ORD_CAPTURE_OFF) : NULL;
  ord_session *captured = open_as(model, &types[type], 0);
  walk_all(eager, captured);
  for (int swaps = 0; swaps < 2; swaps++) {
    if (!(way & (swaps ? SWAPPED : PLAIN))) continue;
    talk wanted = {.swaps = swaps};
    const ord_generate_options off = greedy(ORD_LOOP_OFF);
    if (way == EVERY_WAY) {
      start_at(eager, &off, &wanted);
    }
    generate_all(captured, swaps, way == EVERY_WAY ? &wanted : NULL);
  }
  ord_session_destroy(eager);
  ord_session_destroy(captured);
  ord_model_destroy(model);
  ord_context_destroy(context);
}

static void run_ways(int of, int with, int ways, const char *order) {
  const char *const settings[] = {"ORDER", order, NULL, NULL};
  char name[96];
  which = of;
  type = with;
  way = ways;
  snprintf(name, sizeof name, "%s, %s, %s", of == NANO ? "andrea-nano" : "small", types[with].name, order);
  run_with_settings(name, the_text_of_the_cpu, settings);
}

static void test_nano(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof ways_of_nano / sizeof *ways_of_nano; i++)
    run_ways(NANO, ways_of_nano[i].type, ways_of_nano[i].way, ways_of_nano[i].order);
}

static void test_small_model(void **state) {
  (void)state;
  for (int i = 0; i < SIMULATED_ORDER_COUNT; i++) run_ways(SMALL, F32, EVERY_WAY, simulated_orders[i]);
  run_ways(SMALL, F32_BF16, EVERY_WAY, "lazy");
  run_ways(SMALL, BF16, EVERY_WAY, "thread");
  run_ways(SMALL, BF16_BF16, EVERY_WAY, "eager");
}

/* A real device has its own order. */
static void run_in_order(const char *name, void (*body)(void **state), const char *order) {
  const char *const settings[] = {"ORDER", order, NULL, NULL};
  run_with_settings(name, body, settings);
}

/* ---- one session, many requests ---------------------------------------------------------------------------------- */

typedef struct pair {
  ord_context *context;
  ord_model *model;
  ord_session *eager, *captured;
} pair;

static pair open_pair(void) {
  pair p = {.context = open_cuda_context()};
  p.model = open_small(p.context);
  p.eager = open_as(p.model, &types[F32], ORD_CAPTURE_OFF);
  p.captured = open_as(p.model, &types[F32], 0);
  return p;
}

static void close_pair(pair *p) {
  ord_session_destroy(p->eager);
  ord_session_destroy(p->captured);
  ord_model_destroy(p->model);
  ord_context_destroy(p->context);
}

/* What makes or changes a graph of the driver is counted; there is no other such call in the table. */
static int graph_calls;

static CUresult count_create(CUgraph *graph, unsigned flags) {
  graph_calls++;
  return real_calls.GraphCreate(graph, flags);
}
static CUresult count_node(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, const CUgraphEdgeData *edge,
                           size_t count, CUgraphNodeParams *asked) {
  graph_calls++;
  return real_calls.GraphAddNode(node, graph, before, edge, count, asked);
}
static CUresult count_instantiate(CUgraphExec *made, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *asked) {
  graph_calls++;
  return real_calls.GraphInstantiateWithParams(made, graph, asked);
}
static CUresult count_upload(CUgraphExec executable, CUstream stream) {
  graph_calls++;
  return real_calls.GraphUpload(executable, stream);
}
static CUresult count_capture(CUstream stream, CUstreamCaptureMode mode) {
  graph_calls++;
  return real_calls.StreamBeginCapture(stream, mode);
}

static void count_graph_calls(const ord_context *context) {
  ord_cuda_calls *call = replace_calls(context->device);
  call->GraphCreate = count_create;
  call->GraphAddNode = count_node;
  call->GraphInstantiateWithParams = count_instantiate;
  call->GraphUpload = count_upload;
  call->StreamBeginCapture = count_capture;
}

/* The model with a stop token. */
static ord_model *open_stopping_model(ord_context *context, int32_t stop) {
  char made[8192];
  const char *at = strstr(SMALL_MODEL, "stop: []");
  assert_non_null(at);
  snprintf(made, sizeof made, "%.*sstop: [%d]%s", (int)(at - SMALL_MODEL), SMALL_MODEL, stop, at + strlen("stop: []"));
  return open_small_model(context, made, CONTEXT);
}

/* A stop token that the text of the CPU has in it, but not before that place. */
static int find_stop(void) {
  for (int place = 3; place + 1 < TOKENS; place++) {
    int first = 0;
    while (cpu_text[SMALL][F32].id[first] != cpu_text[SMALL][F32].id[place]) first++;
    if (first == place) return place;
  }
  fail_msg("the text has no token that comes late");
  return 0;
}

typedef struct request {
  uint32_t max_tokens, ends_behind;
  float temperature;
  uint64_t seed;
  bool ignores_stop;
} request;

/* Other limits, draws and stop tokens; the caller ends some. Two differ in the seed alone. */
static const request requests[] = {
    {TOKENS, 0, 0, 0, true}, {TOKENS, 0, 0, 0, false}, {4, 0, 0, 0, false},         {TOKENS, 3, 0, 0, true},
    {1, 0, 0, 0, false},     {6, 0, 0.8f, 1, true},    {6, 0, 0.8f, 1, true},       {TOKENS, 1, 1.3f, 3, true},
    {2, 2, 0, 0, true},      {6, 0, 0.8f, 2, true},    {TOKENS, 0, 0.7f, 4, false},
};
enum { REQUEST_COUNT = sizeof requests / sizeof *requests };

/* Request number i goes on where the one before ended; the first of three starts anew. */
static talk ask(ord_session *session, int i, uint32_t loop) {
  ord_generate_options options = greedy(loop);
  options.max_tokens = requests[i].max_tokens;
  options.temperature = requests[i].temperature;
  if (options.temperature > 0) {
    options.top_k = 40;
    options.top_p = 0.95f;
  }
  options.seed = requests[i].seed;
  options.ignore_stop = requests[i].ignores_stop;
  talk made = {.ends_behind = requests[i].ends_behind};
  if (i % 3 == 0) ord_session_reset(session);
  go_on(session, PROMPT, PROMPT_COUNT, &options, &made);
  return made;
}

static void requests_change_no_graph(void **state) {
  (void)state;
  const int place = find_stop();
  talk wanted[REQUEST_COUNT];
  pair p = {.context = open_cuda_context()};
  p.model = open_stopping_model(p.context, cpu_text[SMALL][F32].id[place]);
  p.eager = open_as(p.model, &types[F32], ORD_CAPTURE_OFF);
  p.captured = open_as(p.model, &types[F32], 0);
  count_graph_calls(p.context);
  for (int i = 0; i < REQUEST_COUNT; i++) wanted[i] = ask(p.eager, i, ORD_LOOP_OFF);
  assert_int_equal(wanted[0].result.ended, ORD_ENDED_LIMIT);
  assert_int_equal(wanted[0].count, TOKENS);
  assert_int_equal(wanted[3].result.ended, ORD_ENDED_CALLER);
  assert_memory_not_equal(wanted[6].id, wanted[9].id, 6 * sizeof *wanted->id);
  for (int k = 0; k < LOOP_COUNT; k++) {
    const int before = graph_calls;
    for (int i = 0; i < REQUEST_COUNT; i++) {
      const talk got = ask(p.captured, i, loops[k]);
      assert_same(&got, &wanted[i], loop_name[loops[k]]);
      if (i == 0) assert_int_equal(graph_calls > before, loops[k] != ORD_LOOP_OFF); /* the loop was made */
      if (i == 0) graph_calls = before;
    }
    assert_int_equal(graph_calls, before);
  }
  const ord_generate_options options = greedy(ORD_LOOP_WHOLE);
  const talk stopped = start(p.captured, &options);
  assert_int_equal(stopped.result.ended, ORD_ENDED_STOP);
  assert_int_equal(stopped.count, place + 1);
  close_pair(&p);
}

static void test_requests_change_no_graph(void **state) {
  (void)state;
  run_in_order("requests change no graph", requests_change_no_graph, "thread");
}

/* ---- a cancel from another thread -------------------------------------------------------------------------------- */

typedef struct cancelling {
  talk talk;
  atomic_bool is_wanted, is_done;
} cancelling;

static void wait_for(const atomic_bool *flag) {
  const struct timespec pause = {0, 200 * 1000};
  while (!atomic_load(flag)) nanosleep(&pause, NULL);
}

static void *cancel(void *context) {
  cancelling *c = context;
  wait_for(&c->is_wanted);
  ord_session_cancel(c->talk.session);
  atomic_store(&c->is_done, true);
  return NULL;
}

enum { CANCEL_AT = 3 };

static bool note_and_wait(void *context, int32_t id, const char *bytes, size_t count) {
  cancelling *c = context;
  note(&c->talk, id, bytes, count);
  if (c->talk.count != CANCEL_AT) return true;
  atomic_store(&c->is_wanted, true);
  wait_for(&c->is_done);
  return true;
}

/* However far the device was ahead, the caller gets no token more, and goes on from the last one. */
static void cancel_and_go_on(ord_session *session, uint32_t loop, const talk *wanted) {
  ord_error err = ORD_ERROR_INIT;
  ord_generate_options options = greedy(loop);
  cancelling c = {.talk = {.session = session}};
  talk rest = {0};
  pthread_t thread;
  ord_session_reset(session);
  assert_int_equal(pthread_create(&thread, NULL, cancel, &c), 0);
  const bool done = ord_session_generate(session, PROMPT, PROMPT_COUNT, &options, note_and_wait, &c, NULL, &err);
  pthread_join(thread, NULL);
  assert_false(done);
  assert_int_equal(err.code, ORD_CANCELLED);
  if (loop != ORD_LOOP_OFF) assert_string_equal(err.text, "the generation was cancelled");
  assert_int_equal(c.talk.count, CANCEL_AT);
  assert_memory_equal(c.talk.id, wanted->id, CANCEL_AT * sizeof *wanted->id);
  options.max_tokens = TOKENS - CANCEL_AT;
  go_on(session, &wanted->id[CANCEL_AT - 1], 1, &options, &rest);
  assert_memory_equal(rest.id, wanted->id + CANCEL_AT, (TOKENS - CANCEL_AT) * sizeof *rest.id);
}

static void cancels(void **state) {
  (void)state;
  pair p = open_pair();
  const ord_generate_options off = greedy(ORD_LOOP_OFF);
  const talk wanted = start(p.eager, &off);
  cancel_and_go_on(p.eager, ORD_LOOP_OFF, &wanted);
  for (int i = 0; i < LOOP_COUNT; i++) cancel_and_go_on(p.captured, loops[i], &wanted);
  close_pair(&p);
}

static void test_cancels(void **state) {
  (void)state;
  run_in_all_orders("cancels", cancels);
}

/* ---- several sessions -------------------------------------------------------------------------------------------- */

typedef struct worker {
  ord_model *model;
  uint32_t loop;
  talk talk;
  ord_error err;
  bool is_done;
} worker;

/* Without assertions, which are for the main thread alone. */
static void *work(void *context) {
  worker *w = context;
  const ord_generate_options options = greedy(w->loop);
  const ord_session_options made = {.struct_size = sizeof made, .generates = true};
  w->is_done = true;
  for (int round = 0; round < 2 && w->is_done; round++) {
    ord_session *session = NULL;
    w->talk = (talk){0};
    w->is_done = ord_session_create(w->model, &made, &session, &w->err) &&
                 ord_session_generate(session, PROMPT, PROMPT_COUNT, &options, note, &w->talk, NULL, &w->err);
    ord_session_destroy(session);
  }
  return NULL;
}

/* Each capture is one of a thread's own: what another thread captures, launches, takes or frees does not break it. */
static void sessions_are_captured_at_once(void **state) {
  (void)state;
  enum { WORKERS = 2, ROUNDS = 3 };
  pair p = open_pair();
  const ord_generate_options off = greedy(ORD_LOOP_OFF);
  const talk wanted = start(p.eager, &off);
  worker each[WORKERS];
  pthread_t thread[WORKERS];
  for (int i = 0; i < WORKERS; i++) {
    each[i] = (worker){.model = p.model, .loop = loops[1 + i], .err = ORD_ERROR_INIT};
    assert_int_equal(pthread_create(&thread[i], NULL, work, &each[i]), 0);
  }
  for (int i = 0; i < ROUNDS; i++) {
    const ord_generate_options options = greedy(loops[i]);
    const talk got = start(p.captured, &options);
    assert_same(&got, &wanted, loop_name[loops[i]]);
  }
  for (int i = 0; i < WORKERS; i++) {
    pthread_join(thread[i], NULL);
    if (!each[i].is_done) fail_msg("thread %d: %s", i, each[i].err.text);
    assert_memory_equal(each[i].talk.id, wanted.id, sizeof wanted.id);
  }
  close_pair(&p);
}

static void test_sessions_are_captured_at_once(void **state) {
  (void)state;
  run_in_all_orders("sessions are captured at once", sessions_are_captured_at_once);
}

/* ---- the warm-up ------------------------------------------------------------------------------------------------- */

/* All caches, behind one another; free it. */
static char *read_caches(const ord_session *session) {
  const uint32_t count = 2 * session->graph->cache_count;
  const size_t each = session->cache_bytes / count;
  ord_error err = ORD_ERROR_INIT;
  char *read = malloc(session->cache_bytes);
  assert_non_null(read);
  for (uint32_t i = 0; i < count; i++)
    MUST(session->queue->device->table->read(session->queue, read + i * each, session->cache[i], each, &err));
  return read;
}

static bool is_zero(const char *bytes, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (bytes[i]) return false;
  return true;
}

/* A library's calls are made once before they are captured, at the start of a session and in a swap. */
static void warm_up_changes_nothing(void **state) {
  (void)state;
  static const char *const pin = "matmul=matmul_cublas";
  float wanted[VOCAB], got[VOCAB];
  ord_error err = ORD_ERROR_INIT;
  ord_capture_state report = {.struct_size = sizeof report};
  pair p = open_pair();
  ord_session_options options = {.struct_size = sizeof options, .generates = true, .pin = &pin, .pin_count = 1};
  ord_session *captured = open_session(p.model, &options);
  options.capture = ORD_CAPTURE_OFF;
  ord_session *eager = open_session(p.model, &options);
  MUST(ord_session_capture_report(captured, 0, &report, &err));
  assert_true(report.is_captured && report.library_steps > 0);
  char *before = read_caches(captured);
  assert_true(is_zero(before, captured->cache_bytes));
  free(before);
  run_tokens(eager, PROMPT, PROMPT_COUNT, wanted);
  run_tokens(captured, PROMPT, PROMPT_COUNT, got);
  assert_memory_equal(got, wanted, sizeof got);
  run_tokens(p.captured, PROMPT, PROMPT_COUNT, got);
  before = read_caches(p.captured);
  assert_false(is_zero(before, p.captured->cache_bytes));
  MUST_FAIL(swap_one(p.captured, pin, 1e-30, &err), "wanted at most 1e-30"); /* all but the exchange was done */
  char *after = read_caches(p.captured);
  assert_memory_equal(after, before, p.captured->cache_bytes);
  free(before);
  free(after);
  run_tokens(p.captured, &cpu_text[SMALL][F32].id[0], 1, got);
  run_tokens(p.eager, PROMPT, PROMPT_COUNT, wanted);
  run_tokens(p.eager, &cpu_text[SMALL][F32].id[0], 1, wanted);
  assert_memory_equal(got, wanted, sizeof got);
  ord_session_destroy(captured);
  ord_session_destroy(eager);
  close_pair(&p);
}

/* The kernels before the swap had no loop when they were swapped out. */
static void rolls_back_in_a_first_loop(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  which = SMALL;
  type = F32;
  for (int i = 0; i < LOOP_COUNT; i++) {
    pair p = open_pair();
    const ord_generate_options off = greedy(ORD_LOOP_OFF), loop = greedy(loops[i]);
    talk got = {0};
    start_at(p.captured, &off, &got);
    MUST(swap_one(p.captured, "attention=cuda_attention_naive", 0, &err));
    got = (talk){.goes_back = true};
    start_at(p.captured, &loop, &got);
    check_ids(loop_name[loops[i]], got.id);
    close_pair(&p);
  }
}

static void test_rolls_back_in_a_first_loop(void **state) {
  (void)state;
  run_in_order("a rollback in a first loop", rolls_back_in_a_first_loop, "lazy");
}

/* One of two inputs of positions cannot be moved on by the device: nobody asked for a loop, so there is none. */
static void goes_without_a_loop(void **state) {
  (void)state;
  static const char *const two =
      "ordito: 1\nname: two\ndims: {d: 8, vocab: 9, context: 64, seq: {min: 1, max: context}}\n"
      "inputs:\n  ids: {dtype: i32, shape: [1, seq], fill: tokens}\n"
      "  p: {dtype: i32, shape: [1, seq], fill: positions}\n  q: {dtype: i32, shape: [1, seq], fill: positions}\n"
      "weights: {table: {shape: [vocab, d]}, wp: {shape: [context, d]}, wq: {shape: [context, d]}}\n"
      "caches: {kv: {length: context}}\n"
      "graph:\n  - embedding: {in: ids, weight: table, out: x}\n"
      "  - position: {in: x, positions: p, weight: wp, out: x}\n"
      "  - position: {in: x, positions: q, weight: wq, out: x}\n"
      "  - reshape: {in: x, shape: [1, 1, seq, d], out: h}\n"
      "  - attention: {q: h, k: h, v: h, causal: true, cache: kv, out: a}\n"
      "  - reshape: {in: a, shape: [1, seq, d], out: a}\n  - pool: {in: a, kind: last, out: n}\noutputs: [n]\n"
      "generate: {logits: n}\n";
  static const int32_t prompt[1] = {1};
  ord_context *context = open_cuda_context();
  ord_model *model = open_small_model(context, two, 0);
  const ord_session_options options = {.struct_size = sizeof options, .generates = true};
  ord_session *session = open_session(model, &options);
  ord_generate_options loop = greedy(ORD_LOOP_AUTO);
  ord_error err = ORD_ERROR_INIT;
  talk got = {0};
  got.result.struct_size = sizeof got.result;
  loop.max_tokens = 3;
  MUST(ord_session_generate(session, prompt, 1, &loop, note, &got, &got.result, &err));
  assert_int_equal(got.count, 3);
  assert_int_equal(got.result.loop, ORD_LOOP_OFF);
  loop.loop = ORD_LOOP_WHOLE;
  MUST_FAIL(ord_session_generate(session, prompt, 1, &loop, note, &got, &got.result, &err), "positions");
  ord_session_destroy(session);
  ord_model_destroy(model);
  ord_context_destroy(context);
}

static void test_goes_without_a_loop(void **state) {
  (void)state;
  run_in_order("no loop where there can be none", goes_without_a_loop, "lazy");
}

static const char *attention_of(const ord_session *session, uint32_t lane) {
  const ord_plan *plan = session->lanes->lane[lane].plan;
  for (uint32_t i = 0; i < plan->step_count; i++)
    if (strcmp(plan->step[i].node.op, "attention") == 0) return plan->step[i].choice.kernel->name;
  return "none";
}

/* Pinned from the start, and swapped in: it serves few queries, so the prompt is another's. */
static void split_serves_where_it_can(void **state) {
  (void)state;
  static const char *const pin[] = {"attention=cuda_attention_naive", "attention=cuda_attention_split"};
  ord_error err = ORD_ERROR_INIT;
  ord_context *context = open_cuda_context();
  which = SMALL;
  type = F32;
  ord_model *model = subjects[which].open(context);
  for (int i = 0; i < 2; i++) {
    const ord_session_options options = {
        .struct_size = sizeof options, .generates = true, .pin = &pin[i], .pin_count = 1};
    ord_session *session = open_session(model, &options);
    generate_all(session, false, NULL);
    if (i == 0) assert_string_equal(attention_of(session, 1), "cuda_attention_naive");
    if (i == 0) MUST(swap_one(session, pin[1], 0, &err));
    assert_string_equal(attention_of(session, 0), "cuda_attention_naive");
    assert_string_equal(attention_of(session, 1), "cuda_attention_split");
    generate_all(session, false, NULL);
    ord_session_destroy(session);
  }
  ord_model_destroy(model);
  ord_context_destroy(context);
}

static void test_split_serves_where_it_can(void **state) {
  (void)state;
  way = EVERY_WAY;
  run_in_order("split serves where it can", split_serves_where_it_can, "lazy");
}

static void test_warm_up_changes_nothing(void **state) {
  (void)state;
  run_in_order("a warm-up changes nothing", warm_up_changes_nothing, "lazy");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_bound_leaves_tokens),
      cmocka_unit_test(test_nano),
      cmocka_unit_test(test_small_model),
      cmocka_unit_test(test_requests_change_no_graph),
      cmocka_unit_test(test_cancels),
      cmocka_unit_test(test_sessions_are_captured_at_once),
      cmocka_unit_test(test_warm_up_changes_nothing),
      cmocka_unit_test(test_split_serves_where_it_can),
      cmocka_unit_test(test_rolls_back_in_a_first_loop),
      cmocka_unit_test(test_goes_without_a_loop),
  };
  return cmocka_run_group_tests(tests, make_cpu_texts, NULL);
}
