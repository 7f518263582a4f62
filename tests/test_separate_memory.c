/* SPDX-License-Identifier: MIT
 *
 * A session on a device whose memory is not the host's and which makes tokens by itself: all that a session does gives
 * the bits of the CPU, on which it is the host's.
 */
#include "fixture.h"
#include "separate_device.h"
#include "small_model.h"

enum { VOCAB = 257, TOKENS = 40 };

static const ord_session_options GENERATES = {.struct_size = sizeof(ord_session_options), .generates = true};
static const char *const LIARS[] = {PLUGIN("attention_flash"), PLUGIN("attention_naive"), PLUGIN("cpu_plain"),
                                    TEST_PLUGIN("liars")};

static void count_line(void *context, int level, const char *text) {
  char *lines = context;
  if (level == ORD_LOG_WARNING) strcat(strcat(lines, text), "\n");
}

typedef struct pair {
  stage cpu, other;
  separate_device *device;
  char log[2048];
} pair;

static ord_context *open_with_liars(char *log) {
  const ord_context_options options = {.struct_size = sizeof options,
                                       .threads = 2,
                                       .plugin = LIARS,
                                       .plugin_count = 4,
                                       .no_default_plugins = true,
                                       .log = count_line,
                                       .log_context = log};
  ord_error err = ORD_ERROR_INIT;
  ord_context *context = NULL;
  MUST(ord_context_create(&options, &context, &err));
  return context;
}

static void open_models(pair *p) {
  *p = (pair){.cpu.context = open_with_liars(p->log), .other.context = open_with_liars(p->log)};
  p->device = separate_context(p->other.context);
  p->cpu.model = open_small_model(p->cpu.context, SMALL_MODEL, 0);
  p->other.model = open_small_model(p->other.context, SMALL_MODEL, 0);
}

static void open_pair(pair *p, const ord_session_options *options) {
  open_models(p);
  p->cpu.session = open_session(p->cpu.model, options);
  p->other.session = open_session(p->other.model, options);
}

static void close_pair(pair *p) {
  close_stage(&p->cpu);
  close_stage(&p->other);
}

static void fill_ids(int32_t *id, int64_t count) {
  for (int64_t i = 0; i < count; i++) id[i] = i == 0 ? 256 : (int32_t)(' ' + (i * 31) % 90);
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

static void run(ord_session *session, const int32_t *id, int64_t count, const char *output, void *out, size_t bytes) {
  ord_error err = ORD_ERROR_INIT;
  ord_tensor got = {.struct_size = sizeof got};
  MUST(ord_session_set_tokens(session, id, 1, count, &err));
  MUST(ord_session_run(session, &err));
  MUST(ord_session_get(session, output, &got, &err));
  assert_int_equal(got.bytes, bytes);
  memcpy(out, got.data, bytes);
}

static const int64_t lengths[] = {1, 2, 16, 17, 1, 100, 128, 129, 1, 60};

static void compare_runs(const ord_session_options *options) {
  pair p;
  int32_t id[512];
  float wanted[VOCAB], got[VOCAB];
  fill_ids(id, 512);
  open_pair(&p, options);
  for (size_t i = 0, at = 0; i < sizeof lengths / sizeof *lengths; at += (size_t)lengths[i++]) {
    run(p.cpu.session, id + at, lengths[i], "next", wanted, sizeof wanted);
    run(p.other.session, id + at, lengths[i], "next", got, sizeof got);
    if (memcmp(wanted, got, sizeof got) != 0) fail_msg("run %zu of %lld tokens differs", i, (long long)lengths[i]);
  }
  close_pair(&p);
}

static void runs_of_every_lane_give_the_same_bits(void **state) {
  (void)state;
  compare_runs(&(ord_session_options){.struct_size = sizeof(ord_session_options)});
  compare_runs(&(ord_session_options){.struct_size = sizeof(ord_session_options), .capture = ORD_CAPTURE_OFF});
  compare_runs(&(ord_session_options){
      .struct_size = sizeof(ord_session_options), .poison = true, .compute = ORD_BF16, .kv_cache = ORD_BF16});
}

/* A value that lies strided in a plan for more tokens than the run has. */
static void kept_values_are_copied(void **state) {
  (void)state;
  static const char *const keep[] = {"layer.1.a"};
  const ord_session_options options = {.struct_size = sizeof options, .keep = keep, .keep_count = 1};
  pair p;
  int32_t id[20];
  enum { BYTES = 20 * 16 * 4 };
  static char wanted[BYTES], got[BYTES];
  ord_tensor tensor = {.struct_size = sizeof tensor};
  ord_error err = ORD_ERROR_INIT;
  fill_ids(id, 20);
  open_pair(&p, &options);
  MUST(ord_session_set_tokens(p.cpu.session, id, 1, 20, &err));
  MUST(ord_session_run(p.cpu.session, &err));
  MUST(ord_session_get(p.cpu.session, keep[0], &tensor, &err));
  assert_true(tensor.bytes <= BYTES);
  memcpy(wanted, tensor.data, tensor.bytes);
  run(p.other.session, id, 20, keep[0], got, tensor.bytes);
  assert_memory_equal(got, wanted, tensor.bytes);
  MUST(ord_session_get(p.other.session, keep[0], &tensor, &err)); /* again, from the same run */
  assert_memory_equal(tensor.data, wanted, tensor.bytes);
  close_pair(&p);
}

static const char CHAIN[] = "ordito: 1\nname: chain\ndims: {d: 64}\ninputs: {x: {dtype: f32, shape: [d, d]}}\n"
                            "weights: {w: {shape: [out: d, in: d]}}\n"
                            "graph:\n  - matmul: {in: x, weight: w, out: a}\n  - matmul: {in: a, weight: w, out: b}\n"
                            "  - matmul: {in: b, weight: w, out: c}\noutputs: [c]\n";

/* How many steps of the plan write where its input lies. */
static uint32_t count_written_over(ord_context *context) {
  const ord_weight_options random = {.struct_size = sizeof random, .random = true};
  const size_t bytes = 64 * 64 * sizeof(float);
  ord_error err = ORD_ERROR_INIT;
  stage s = {0};
  uint32_t count = 0;
  MUST(ord_model_load_text(context, "chain.yaml", CHAIN, sizeof CHAIN - 1, NULL, &s.model, NULL, &err));
  MUST(ord_model_open_weights(s.model, &random, NULL, &err));
  s.session = open_session(s.model, NULL);
  const ord_plan *plan = s.session->lanes->lane[0].plan;
  const size_t begin = plan->input[0].place.offset;
  for (uint32_t i = 0; i < plan->step_count; i++) {
    const ord_step *step = &plan->step[i];
    bool is_over =
        step->scratch_offset < begin + bytes && begin < step->scratch_offset + step->choice.answer.scratch_bytes;
    for (uint32_t o = 0; o < step->node.operand_count; o++)
      is_over |= step->node.operand[o].role == ORD_OUTPUT && step->place[o].offset < begin + bytes &&
                 begin < step->place[o].offset + bytes;
    count += is_over;
  }
  close_stage(&s);
  return count;
}

/* On a device that goes on without the host, what a run reads must be there for the next one too. */
static void inputs_keep_their_places(void **state) {
  (void)state;
  pair p;
  open_models(&p);
  assert_int_equal(count_written_over(p.other.context), 0);
  close_pair(&p);
}

/* ---- generation -------------------------------------------------------------------------------------------------- */

typedef struct talk {
  ord_session *session;
  const char *pin; /* swapped in after `act_at` tokens */
  bool rolls_back; /* and back after twice as many */
  bool rewinds;    /* forgets two tokens at act_at */
  bool cancels;
  uint32_t act_at, stop_at;
  int32_t id[600];
  uint32_t count;
} talk;

static bool note(void *context, int32_t id, const char *text, size_t bytes) {
  (void)text;
  (void)bytes;
  talk *out = context;
  ord_error err = ORD_ERROR_INIT;
  out->id[out->count++] = id;
  if (out->count == out->act_at && out->pin) {
    const ord_swap_options options = {.struct_size = sizeof options, .pin = &out->pin, .pin_count = 1};
    MUST(ord_session_swap_kernel(out->session, &options, NULL, &err));
  }
  if (out->rolls_back && out->count == 2 * out->act_at) MUST(ord_session_rollback_kernel(out->session, &err));
  if (out->count == out->act_at && out->rewinds) ord_session_rewind(out->session, 5);
  if (out->count == out->act_at && out->cancels) ord_session_cancel(out->session);
  return out->count != out->stop_at;
}

static bool converse(ord_session *session, uint32_t loop, talk *out, ord_generate_result *result, ord_error *err) {
  static const int32_t prompt[] = {256, 'A', 'n', 'd', ' ', 't', 'h', 'e', ' '};
  ord_generate_options options = ORD_GENERATE_INIT;
  options.max_tokens = TOKENS;
  options.temperature = 0.8f;
  options.seed = 3;
  options.loop = loop;
  out->session = session;
  result->struct_size = sizeof *result;
  return ord_session_generate(session, prompt, sizeof prompt / sizeof *prompt, &options, note, out, result, err);
}

static const uint32_t modes[] = {ORD_LOOP_AUTO, ORD_LOOP_OFF, ORD_LOOP_WHOLE, ORD_LOOP_AHEAD};
static const uint32_t done_as[] = {ORD_LOOP_WHOLE, ORD_LOOP_OFF, ORD_LOOP_WHOLE, ORD_LOOP_AHEAD};
enum { MODE_COUNT = sizeof modes / sizeof *modes };

/* The same conversation on both, in every way; `like` says what happens in it. Ends with a second turn. */
static void compare_talks(pair *p, const talk *like) {
  ord_error err = ORD_ERROR_INIT;
  for (int mode = 0; mode < MODE_COUNT; mode++) {
    ord_generate_result wanted_result = {0}, result = {0};
    ord_session *cpu = open_session(p->cpu.model, &GENERATES), *other = open_session(p->other.model, &GENERATES);
    for (int turn = 0; turn < 2; turn++) {
      talk wanted = turn ? (talk){0} : *like, got = wanted;
      MUST(converse(cpu, ORD_LOOP_AUTO, &wanted, &wanted_result, &err));
      MUST(converse(other, modes[mode], &got, &result, &err));
      assert_int_equal(wanted_result.loop, ORD_LOOP_OFF);
      assert_int_equal(result.loop, done_as[mode]);
      assert_int_equal(result.ended, wanted_result.ended);
      assert_int_equal(got.count, wanted.count);
      assert_memory_equal(got.id, wanted.id, sizeof wanted.id);
    }
    ord_session_destroy(cpu);
    ord_session_destroy(other);
  }
}

static void a_loop_gives_the_same_tokens(void **state) {
  (void)state;
  pair p;
  open_models(&p);
  const int starts = p.device->loop_starts;
  compare_talks(&p, &(talk){0});
  assert_int_equal(p.device->loop_starts - starts, 6);
  close_pair(&p);
}

static void the_caller_ends_a_loop_at_his_token(void **state) {
  (void)state;
  pair p;
  open_models(&p);
  compare_talks(&p, &(talk){.stop_at = 7});
  compare_talks(&p, &(talk){.stop_at = 1});
  assert_true(p.device->loop_stops > 0);
  close_pair(&p);
}

static void a_callback_may_swap_roll_back_and_rewind(void **state) {
  (void)state;
  pair p;
  open_models(&p);
  const int starts = p.device->loop_starts;
  compare_talks(&p, &(talk){.act_at = 10, .pin = "attention=attention_naive", .rolls_back = true});
  assert_int_equal(p.device->loop_starts - starts, 3 * 4); /* one more behind each swap, and the second turn's */
  compare_talks(&p, &(talk){.act_at = 10, .rewinds = true});
  close_pair(&p);
}

static void stop_tokens_end_a_loop(void **state) {
  (void)state;
  static const int32_t stop[] = {'q', 0};
  ord_error err = ORD_ERROR_INIT;
  talk free_run = {0}, got = {0};
  ord_generate_result result;
  pair p;
  open_pair(&p, &GENERATES);
  MUST(converse(p.cpu.session, ORD_LOOP_OFF, &free_run, &result, &err));
  /* Below the surface of a generation, as the model has no stop token of its own that comes so soon. */
  uint32_t mode, first = 3;
  for (uint32_t i = 0; i < first; i++) assert_int_not_equal(free_run.id[i], free_run.id[first]);
  const int32_t stops[] = {stop[0], free_run.id[first]};
  got.stop_at = 1;
  MUST(converse(p.other.session, ORD_LOOP_WHOLE, &got, &result, &err));
  assert_int_equal(got.id[0], free_run.id[0]);
  MUST(ord_loop_prepare(p.other.session, p.other.session->lanes, ORD_LOOP_WHOLE, &mode, &err));
  MUST(ord_loop_begin(p.other.session, got.id[0], 30, stops, 2, &err));
  for (uint32_t i = 1; i <= first; i++) {
    assert_non_null(p.other.session->looping);
    MUST(ord_loop_take(p.other.session, free_run.id[i - 1], &got.id[i], &err));
    assert_int_equal(got.id[i], free_run.id[i]);
  }
  assert_null(p.other.session->looping);
  assert_int_equal(p.other.session->past[0], 9 + first);
  close_pair(&p);
}

static void a_cancel_ends_a_loop(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  talk got = {.act_at = 4, .cancels = true}, again = {0};
  ord_generate_result result;
  pair p;
  open_pair(&p, &GENERATES);
  MUST_FAIL(converse(p.other.session, ORD_LOOP_AUTO, &got, &result, &err), "cancelled");
  assert_int_equal(err.code, ORD_CANCELLED);
  assert_int_equal(got.count, 4);
  assert_int_equal(p.other.session->past[0], 9 + 3);
  ord_session_reset(p.other.session);
  MUST(converse(p.other.session, ORD_LOOP_AUTO, &again, &result, &err));
  assert_memory_equal(again.id, got.id, 4 * sizeof *got.id);
  close_pair(&p);
}

/* Inside of a loop and behind it. */
static bool read_logits(void *context, int32_t id, const char *text, size_t bytes) {
  (void)id;
  (void)text;
  (void)bytes;
  talk *out = context;
  ord_tensor got = {.struct_size = sizeof got};
  ord_error err = ORD_ERROR_INIT;
  if (++out->count == 1)
    MUST(ord_session_get(out->session, "next", &got, &err)); /* the prompt's run was none of the loop */
  else
    MUST_FAIL(ord_session_get(out->session, "next", &got, &err), "tokens that the device made by itself");
  return true;
}

static void outputs_of_a_loop_cannot_be_read(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  ord_tensor got = {.struct_size = sizeof got};
  ord_generate_options options = ORD_GENERATE_INIT;
  pair p;
  open_pair(&p, &GENERATES);
  talk out = {.session = p.other.session};
  options.max_tokens = 5;
  MUST(ord_session_generate(p.other.session, NULL, 0, &options, read_logits, &out, NULL, &err));
  assert_int_equal(out.count, 5);
  MUST_FAIL(ord_session_get(p.other.session, "next", &got, &err), "loop off keeps outputs");
  options.loop = ORD_LOOP_OFF;
  ord_session_reset(p.other.session);
  MUST(ord_session_generate(p.other.session, NULL, 0, &options, NULL, NULL, NULL, &err));
  MUST(ord_session_get(p.other.session, "next", &got, &err));
  close_pair(&p);
}

static void what_cannot_loop_says_so(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  ord_generate_result result;
  ord_session_options walks = GENERATES;
  talk out = {0};
  pair p;
  open_pair(&p, &GENERATES);
  MUST_FAIL(converse(p.cpu.session, ORD_LOOP_WHOLE, &out, &result, &err), "loop: found cpu");
  MUST_FAIL(converse(p.cpu.session, 5, &out, &result, &err), "loop: found 5");
  p.device->has_no_while = true;
  MUST_FAIL(converse(p.other.session, ORD_LOOP_WHOLE, &out, &result, &err), "found an old driver");
  MUST(converse(p.other.session, ORD_LOOP_AUTO, &out, &result, &err));
  assert_int_equal(result.loop, ORD_LOOP_AHEAD);
  assert_non_null(strstr(p.log, "found an old driver"));
  ord_session_destroy(p.other.session);
  walks.capture = ORD_CAPTURE_OFF;
  p.other.session = open_session(p.other.model, &walks);
  MUST_FAIL(converse(p.other.session, ORD_LOOP_AHEAD, &out, &result, &err), "is not captured; wanted one that is");
  MUST(converse(p.other.session, ORD_LOOP_AUTO, &out, &result, &err));
  assert_int_equal(result.loop, ORD_LOOP_OFF);
  close_pair(&p);
}

/* ---- captures ---------------------------------------------------------------------------------------------------- */

static void captures_are_reported(void **state) {
  (void)state;
  static const char *const name[] = {"all lengths", "one new token", "up to 16 new tokens", "up to 128 new tokens"};
  ord_error err = ORD_ERROR_INIT;
  pair p;
  open_pair(&p, &GENERATES);
  for (uint32_t i = 0; i < 4; i++) {
    ord_capture_state got = {.struct_size = sizeof got};
    MUST(ord_session_capture_report(p.other.session, i, &got, &err));
    assert_string_equal(got.plan, name[i]);
    assert_true(got.is_captured && got.steps > 0 && got.graph_nodes == got.steps + 2 && got.capture_ns > 0);
    assert_null(got.why_not);
  }
  ord_capture_state none = {.struct_size = sizeof none};
  MUST_FAIL(ord_session_capture_report(p.other.session, 4, &none, &err), "found plan number 4; wanted one below 4");
  MUST_FAIL(ord_session_capture_report(p.cpu.session, 2, &none, &err), "found plan number 2; wanted one below 2");
  close_pair(&p);
}

static void a_capture_that_fails(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  ord_session_options options = GENERATES;
  ord_capture_state got = {.struct_size = sizeof got};
  ord_generate_result result;
  talk wanted = {0}, out = {0};
  pair p;
  open_models(&p);
  p.cpu.session = open_session(p.cpu.model, &GENERATES);
  MUST(converse(p.cpu.session, ORD_LOOP_OFF, &wanted, &result, &err));
  p.device->fail_captures = 1;
  MUST_FAIL(ord_session_create(p.other.model, &options, &p.other.session, &err),
            "layer.0.attention: capture failed in plugin tests");
  options.capture = 3;
  MUST_FAIL(ord_session_create(p.other.model, &options, &p.other.session, &err), "capture: found 3");
  options.capture = ORD_CAPTURE_PREFER;
  p.device->fail_captures = 2; /* "all lengths" and "one new token" */
  p.other.session = open_session(p.other.model, &options);
  for (uint32_t i = 0; i < 3; i++) {
    MUST(ord_session_capture_report(p.other.session, i, &got, &err));
    assert_int_equal(got.is_captured, i == 2);
    if (i < 2) assert_string_equal(got.why_not, "layer.0.attention: capture failed in plugin tests");
  }
  assert_non_null(strstr(p.log, "one new token: runs eagerly, as it could not be captured: layer.0.attention"));
  MUST_FAIL(converse(p.other.session, ORD_LOOP_WHOLE, &out, &result, &err), "is not captured: layer.0.attention");
  MUST(converse(p.other.session, ORD_LOOP_AUTO, &out, &result, &err));
  assert_memory_equal(out.id, wanted.id, sizeof wanted.id);
  options.capture = ORD_CAPTURE_OFF;
  ord_session_destroy(p.other.session);
  const int captures = p.device->captures;
  p.other.session = open_session(p.other.model, &options);
  assert_int_equal(p.device->captures, captures);
  close_pair(&p);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void weights_move_to_the_device(void **state) {
  (void)state;
  pair p;
  ord_memory_report cpu = {.struct_size = sizeof cpu}, other = cpu;
  ord_error err = ORD_ERROR_INIT;
  open_pair(&p, &GENERATES);
  MUST(ord_session_memory(p.cpu.session, &cpu, &err));
  MUST(ord_session_memory(p.other.session, &other, &err));
  assert_int_equal(other.weights, cpu.weights);
  assert_int_equal(other.packed, cpu.packed);
  assert_int_equal(other.cache, cpu.cache);
  const unsigned char *begin = p.device->memory, *end = begin + p.device->used;
  const ord_plan *plan = p.other.session->lanes->lane[0].plan;
  for (uint32_t i = 0; i < plan->weight_count; i++) {
    const unsigned char *at = plan->weight[i];
    assert_true(at >= begin && at < end);
  }
  close_pair(&p);
}

/* Each allocation on the device, in turn. */
static void out_of_memory_on_the_device(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  ord_generate_result result;
  pair p;
  open_models(&p);
  const int live = p.device->live;
  int failures = 0;
  for (bool done = false; !done; failures++) {
    p.device->allocations = 0;
    p.device->fail_allocation = failures;
    done = ord_session_create(p.other.model, &GENERATES, &p.other.session, &err);
    p.device->fail_allocation = -1;
    if (done) break;
    assert_int_equal(err.code, ORD_NO_MEMORY);
    assert_non_null(strstr(err.text, "out of memory"));
    assert_int_equal(p.device->live, live);
  }
  assert_true(failures > 20);
  talk wanted = {0}, got = {0};
  p.cpu.session = open_session(p.cpu.model, &GENERATES);
  MUST(converse(p.cpu.session, ORD_LOOP_AUTO, &wanted, &result, &err));
  MUST(converse(p.other.session, ORD_LOOP_AUTO, &got, &result, &err));
  assert_memory_equal(got.id, wanted.id, sizeof wanted.id);
  close_pair(&p);
}

/* ---- times ------------------------------------------------------------------------------------------------------- */

static void steps_are_timed_with_their_work(void **state) {
  (void)state;
  pair p;
  int32_t id[20];
  ord_error err = ORD_ERROR_INIT;
  fill_ids(id, 20);
  open_pair(&p, &(ord_session_options){.struct_size = sizeof(ord_session_options)});
  uint64_t operations[2] = {0}, cache_bytes[2] = {0};
  ord_session *session[] = {p.cpu.session, p.other.session};
  for (int i = 0; i < 2; i++) {
    ord_timing timing = {.struct_size = sizeof timing, .by_step = true};
    ord_step_time step = {.struct_size = sizeof step};
    MUST(ord_session_set_tokens(session[i], id, 1, 20, &err));
    MUST(ord_session_run_timed(session[i], &timing, &err));
    for (uint32_t n = 0; ord_session_step_time(session[i], n, &step); n++) {
      operations[i] += step.operations;
      cache_bytes[i] += step.cache_bytes;
      assert_int_equal(step.runs, 1);
    }
  }
  assert_true(operations[0] > 0 && cache_bytes[0] > 0);
  assert_int_equal(operations[1], operations[0]);
  assert_int_equal(cache_bytes[1], cache_bytes[0]);
  close_pair(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(runs_of_every_lane_give_the_same_bits),
      cmocka_unit_test(kept_values_are_copied),
      cmocka_unit_test(inputs_keep_their_places),
      cmocka_unit_test(a_loop_gives_the_same_tokens),
      cmocka_unit_test(the_caller_ends_a_loop_at_his_token),
      cmocka_unit_test(a_callback_may_swap_roll_back_and_rewind),
      cmocka_unit_test(stop_tokens_end_a_loop),
      cmocka_unit_test(a_cancel_ends_a_loop),
      cmocka_unit_test(outputs_of_a_loop_cannot_be_read),
      cmocka_unit_test(what_cannot_loop_says_so),
      cmocka_unit_test(captures_are_reported),
      cmocka_unit_test(a_capture_that_fails),
      cmocka_unit_test(weights_move_to_the_device),
      cmocka_unit_test(out_of_memory_on_the_device),
      cmocka_unit_test(steps_are_timed_with_their_work),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
