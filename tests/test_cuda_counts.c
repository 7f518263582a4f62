/* SPDX-License-Identifier: MIT
 *
 * What can be counted of a decode step without a GPU, for andrea in bf16 with caches in bf16: kernels of each layer,
 * nodes of its graph, bytes that it reads, and the host's calls of the driver for a token. Each number is exact, so
 * that one kernel or one call more is seen here and not first on a GPU.
 */
#include "cuda_session.h"

/* ---- the model, by hand ------------------------------------------------------------------------------------------ */

typedef struct shape {
  const char *size;
  uint64_t width, layers, vocab;
} shape;

static const shape shapes[] = {{"12m", 384, 6, 2305}, {"120m", 768, 12, 8449}, {"480m", 1536, 16, 8449}};
enum { SHAPE_COUNT = sizeof shapes / sizeof *shapes };
static const shape *const BENCHED = &shapes[1];

/* embedding, position and the norm before the first layer; q with k and v, attention with its append, wo with residual
 * and norm, fc1 with gelu, fc2 with residual and norm; pool, the head and sample. */
enum { KERNELS_BEFORE = 3, KERNELS_OF_LAYER = 5, KERNELS_BEHIND = 3 };

static uint32_t kernels_of_step(const shape *of) {
  return (uint32_t)(KERNELS_BEFORE + KERNELS_OF_LAYER * of->layers + KERNELS_BEHIND);
}

/* ---- sessions ---------------------------------------------------------------------------------------------------- */

static const ord_session_options BF16 = {
    .struct_size = sizeof BF16, .generates = true, .deny_fallback = true, .compute = ORD_BF16, .kv_cache = ORD_BF16};

/* Without cublas a session is made in seconds: its products for long prompts would run once while they are captured.
 * No step of decoding is its. */
static ord_context *open_step_context(bool has_cublas) {
  static const char *const plugin[] = {PLUGIN("cuda_core"), PLUGIN("cuda_attention_split"),
                                       PLUGIN("cuda_attention_flash"), PLUGIN("cuda_attention_naive"),
                                       PLUGIN("cublas")};
  const ord_context_options options = cuda_context_options(plugin, has_cublas ? 5 : 4);
  ord_error err = ORD_ERROR_INIT;
  ord_context *context = NULL;
  MUST(ord_context_create(&options, &context, &err));
  return context;
}

/* Plans only, with all plugins of the device. */
static stage open_dry_stage(const shape *of) {
  ord_error err = ORD_ERROR_INIT;
  stage s = {.context = open_step_context(true)};
  const ord_model_options sized = {.struct_size = sizeof sized, .size = of->size};
  MUST(ord_model_load(s.context, MODEL("andrea"), &sized, &s.model, NULL, &err));
  MUST(ord_session_create_dry(s.model, &BF16, &s.session, &err));
  return s;
}

static const ord_lane *decode_lane(const ord_session *session, uint32_t *out_index) {
  for (uint32_t i = 0; i < session->lanes->count; i++)
    if (session->lanes->lane[i].is_exact) {
      if (out_index) *out_index = i;
      return &session->lanes->lane[i];
    }
  fail_msg("the session has no plan for one new token");
  return NULL;
}

/* ---- kernels of a layer ------------------------------------------------------------------------------------------ */

static bool is_norm(const ord_step *step) { return ord_op_find(step->node.op)->flags & ORD_OP_NORM; }

/* 0: before the first layer; layer i is i + 1; layers + 1: behind the last. A norm counts where that is made which it
 * normalises, whether it was folded into that or not; so the one before the first layer belongs to the embedding. */
static uint32_t part_of(const ord_step *step, uint32_t part_before, uint32_t layers) {
  uint32_t layer;
  if (is_norm(step)) return part_before;
  if (sscanf(step->path[0], "layer.%u.", &layer) == 1) return layer + 1;
  return part_before == 0 ? 0 : layers + 1;
}

enum { PARTS_MAX = 32 };

/* Kernels that each part declares to launch. */
static void count_kernels(const ord_plan *plan, uint32_t layers, uint32_t count[PARTS_MAX]) {
  uint32_t part = 0;
  memset(count, 0, PARTS_MAX * sizeof *count);
  for (uint32_t i = 0; i < plan->step_count; i++) {
    part = part_of(&plan->step[i], part, layers);
    assert_in_range(part, 0, layers + 1);
    count[part] += plan->step[i].choice.answer.phase_count;
  }
}

static void a_layer_has_five_kernels(void **state) {
  (void)state;
  for (int i = 0; i < SHAPE_COUNT; i++) {
    const uint32_t layers = (uint32_t)shapes[i].layers;
    stage s = open_dry_stage(&shapes[i]);
    uint32_t count[PARTS_MAX];
    count_kernels(decode_lane(s.session, NULL)->plan, layers, count);
    assert_int_equal(count[0], KERNELS_BEFORE);
    for (uint32_t layer = 0; layer < layers; layer++) assert_int_equal(count[layer + 1], KERNELS_OF_LAYER);
    assert_int_equal(count[layers + 1], KERNELS_BEHIND);
    close_stage(&s);
  }
}

static void test_a_layer_has_five_kernels(void **state) {
  (void)state;
  run_in_child("a layer has five kernels", a_layer_has_five_kernels, NULL);
}

/* ---- nodes of the graph ------------------------------------------------------------------------------------------ */

static void assert_same_kernels(const ord_plan *a, const ord_plan *b) {
  assert_int_equal(a->step_count, b->step_count);
  for (uint32_t i = 0; i < a->step_count; i++) {
    assert_string_equal(a->step[i].choice.kernel->name, b->step[i].choice.kernel->name);
    assert_string_equal(a->step[i].choice.answer.variant, b->step[i].choice.answer.variant);
  }
}

/* As the driver has it, not as the runtime tells it. */
static size_t count_nodes(const stage *s, const ord_lane *lane) {
  ord_cuda_device *device = (ord_cuda_device *)s->context->device;
  ord_error err = ORD_ERROR_INIT;
  size_t count = 0;
  MUST(ord_cuda_enter(device, &err));
  assert_int_equal(device->call.GraphGetNodes(((const ord_cuda_capture *)lane->capture)->graph, NULL, &count),
                   CUDA_SUCCESS);
  return count;
}

static void a_node_is_a_declared_kernel(const stage *s, const shape *of) {
  ord_error err = ORD_ERROR_INIT;
  uint32_t index = 0;
  const ord_lane *lane = decode_lane(s->session, &index);
  ord_capture_state state = {.struct_size = sizeof state};
  MUST(ord_session_capture_report(s->session, index, &state, &err));
  assert_true(state.is_captured);
  assert_int_equal(state.library_steps, 0);
  assert_int_equal(state.steps, kernels_of_step(of));
  assert_int_equal(state.launches, lane->plan->phase_count);
  assert_int_equal(state.graph_nodes, kernels_of_step(of));
  assert_int_equal(count_nodes(s, lane), kernels_of_step(of));
}

/* ---- bytes of a step --------------------------------------------------------------------------------------------- */

enum { POSITION = 512, BF16_BYTES = 2 };

static void a_step_reads_what_a_hand_counts(const stage *s, const shape *of) {
  ord_error err = ORD_ERROR_INIT;
  int64_t tokens = 0;
  ord_timing timing = {.struct_size = sizeof timing, .eager = true, .by_step = true};
  ord_step_time step = {.struct_size = sizeof step};
  uint64_t weight_bytes = 0, cache_bytes = 0;
  s->session->past[0] = POSITION; /* zeros lie in the caches, as long to read as a prompt */
  MUST(ord_session_set_random(s->session, 1, 1, &tokens, &err));
  MUST(ord_session_run_timed(s->session, &timing, &err));
  for (uint32_t i = 0; ord_session_step_time(s->session, i, &step); i++) {
    weight_bytes += step.weight_bytes;
    cache_bytes += step.cache_bytes;
  }
  /* wq, wk, wv and wo are width x width, fc1 and fc2 four times that; a row of each of the two tables, in f32. */
  const uint64_t multiplied = of->layers * 12 * of->width * of->width + of->vocab * of->width;
  assert_int_equal(weight_bytes, multiplied * BF16_BYTES + 2 * of->width * sizeof(float));
  assert_int_equal(cache_bytes, of->layers * (POSITION + 1) * 2 * of->width * BF16_BYTES);
}

static void the_benched_step(void **state) {
  (void)state;
  stage dry = open_dry_stage(BENCHED);
  stage s = {.context = open_step_context(false)};
  s.model = open_model(s.context, MODEL("andrea"), BENCHED->size, NULL);
  s.session = open_session(s.model, &BF16);
  assert_same_kernels(decode_lane(s.session, NULL)->plan, decode_lane(dry.session, NULL)->plan);
  close_stage(&dry);
  a_node_is_a_declared_kernel(&s, BENCHED);
  a_step_reads_what_a_hand_counts(&s, BENCHED);
  close_stage(&s);
}

static void test_the_benched_step(void **state) {
  (void)state;
  run_in_child("the benched step", the_benched_step, NULL);
}

/* ---- the host's calls -------------------------------------------------------------------------------------------- */

/* What the host may call while tokens are made: CALL(name, parameters, arguments). */
#define CALLS(CALL)                                                                                                    \
  CALL(GraphLaunch, (CUgraphExec graph, CUstream stream), (graph, stream))                                             \
  CALL(MemcpyHtoDAsync, (CUdeviceptr into, const void *from, size_t bytes, CUstream stream),                           \
       (into, from, bytes, stream))                                                                                    \
  CALL(MemcpyDtoHAsync, (void *into, CUdeviceptr from, size_t bytes, CUstream stream), (into, from, bytes, stream))    \
  CALL(StreamSynchronize, (CUstream stream), (stream))                                                                 \
  CALL(StreamQuery, (CUstream stream), (stream))                                                                       \
  CALL(CtxSetCurrent, (CUcontext context), (context))

typedef struct tally {
#define CALL(name, parameters, arguments) int name;
  CALLS(CALL)
#undef CALL
} tally;

static tally counted;

#define CALL(name, parameters, arguments)                                                                              \
  static CUresult count_##name parameters {                                                                            \
    counted.name++;                                                                                                    \
    return real_calls.name arguments;                                                                                  \
  }
CALLS(CALL)
#undef CALL

/* In place of all others. */
#define ENTRY(name, version)                                                                                           \
  static CUresult refuse_##name(void) {                                                                                \
    fail_msg("the host called cu%s while tokens were made", #name);                                                    \
    return CUDA_ERROR_UNKNOWN;                                                                                         \
  }
#include "runtime/cuda_entries.def"
#undef ENTRY

static void begin_counting(ord_device *device) {
  ord_cuda_calls *call = replace_calls(device);
  counted = (tally){0};
#define ENTRY(name, version) *(void **)&call->name = (void *)(uintptr_t)refuse_##name;
#include "runtime/cuda_entries.def"
#undef ENTRY
#define CALL(name, parameters, arguments) call->name = count_##name;
  CALLS(CALL)
#undef CALL
}

/* A generation in an empty session. */
static void generate(ord_session *session, uint32_t loop, uint32_t tokens) {
  const int32_t prompt = 1;
  ord_generate_options options = ORD_GENERATE_INIT;
  ord_generate_result result = {.struct_size = sizeof result};
  ord_error err = ORD_ERROR_INIT;
  options.max_tokens = tokens;
  options.loop = loop;
  ord_session_reset(session);
  MUST(ord_session_generate(session, &prompt, 1, &options, NULL, NULL, &result, &err));
  assert_int_equal(result.token_count, tokens);
  assert_int_equal(result.loop, loop);
}

/* How often the driver is asked whether all is well depends on how long a token takes; each time the context is made
 * current. */
static tally without_polls(tally calls) {
  calls.CtxSetCurrent -= calls.StreamQuery;
  calls.StreamQuery = 0;
  return calls;
}

static uint64_t sum_of(const tally *calls) {
  uint64_t sum = 0;
#define CALL(name, parameters, arguments) sum += (uint64_t)calls->name;
  CALLS(CALL)
#undef CALL
  return sum;
}

/* The device's own count is that of the calls without polls, and that of the polls. */
static tally count_calls(const stage *s, uint32_t loop, uint32_t tokens) {
  ord_device *device = s->context->device;
  const uint64_t calls = device->driver.calls, polls = device->driver.polls;
  begin_counting(device);
  generate(s->session, loop, tokens);
  restore_calls(device);
  const tally made = without_polls(counted);
  assert_int_equal(device->driver.calls - calls, sum_of(&made));
  assert_int_equal(device->driver.polls - polls, counted.StreamQuery);
  return made;
}

/* More than are launched ahead. */
enum { FEW = 2, MANY = 12 };

/* Many tokens cost what few do, and this for each further one. */
static void assert_a_token_costs(const stage *s, uint32_t loop, const tally *each) {
  generate(s->session, loop, FEW); /* which makes the loop */
  const tally few = count_calls(s, loop, FEW), many = count_calls(s, loop, MANY);
#define CALL(name, parameters, arguments)                                                                              \
  if (many.name - few.name != (MANY - FEW) * each->name)                                                               \
    fail_msg("%d tokens more: found %d more calls of cu%s; wanted %d", MANY - FEW, many.name - few.name, #name,        \
             (MANY - FEW) * each->name);
  CALLS(CALL)
#undef CALL
  assert_int_equal(few.GraphLaunch, 2); /* in each way: the prompt's, and one for the token behind it */
}

/* The inputs of andrea, and little to compute. */
static const char small_text[] =
    "ordito: 1\nname: small\ndims: {vocab: 17, d: 32, context: 32, seq: {min: 1, max: context}}\n"
    "inputs:\n  tokens: {dtype: i32, shape: [1, seq], fill: tokens}\n"
    "  positions: {dtype: i32, shape: [1, seq], fill: positions}\n"
    "weights:\n  wte: {shape: [vocab, d]}\n  wpe: {shape: [context, d]}\n  head: {shape: [out: vocab, in: d]}\n"
    "caches: {kv: {length: context}}\n"
    "graph:\n  - embedding: {in: tokens, weight: wte, out: x}\n"
    "  - position: {in: x, positions: positions, weight: wpe, out: x}\n"
    "  - reshape: {in: x, shape: [1, 1, seq, d], out: h}\n"
    "  - attention: {q: h, k: h, v: h, causal: true, cache: kv, out: a}\n"
    "  - reshape: {in: a, shape: [1, seq, d], out: a}\n"
    "  - pool: {in: a, kind: last, out: x}\n  - matmul: {in: x, weight: head, out: next}\n"
    "outputs: [next]\ngenerate: {logits: next, stop: []}\n";

static void calls_for_a_token(void **state) {
  (void)state;
  const ord_weight_options random = {.struct_size = sizeof random, .random = true, .seed = 1};
  ord_error err = ORD_ERROR_INIT;
  stage s = {.context = open_step_context(false)};
  MUST(ord_model_load_text(s.context, "small.yaml", small_text, strlen(small_text), NULL, &s.model, NULL, &err));
  MUST(ord_model_open_weights(s.model, &random, NULL, &err));
  s.session = open_session(s.model, &BF16);
  /* Seven inputs and the sizes are written, the token is read; each of these and the launch enters the context. */
  assert_a_token_costs(
      &s, ORD_LOOP_OFF,
      &(tally){
          .GraphLaunch = 1, .MemcpyHtoDAsync = 8, .MemcpyDtoHAsync = 1, .StreamSynchronize = 2, .CtxSetCurrent = 11});
  assert_a_token_costs(&s, ORD_LOOP_AHEAD, &(tally){.GraphLaunch = 1, .CtxSetCurrent = 1});
  assert_a_token_costs(&s, ORD_LOOP_WHOLE, &(tally){0});
  close_stage(&s);
}

static void test_calls_for_a_token(void **state) {
  (void)state;
  run_in_all_orders("calls for a token", calls_for_a_token);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_layer_has_five_kernels),
      cmocka_unit_test(test_the_benched_step),
      cmocka_unit_test(test_calls_for_a_token),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
