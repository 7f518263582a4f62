/* SPDX-License-Identifier: MIT
 *
 * session/swap.c, swap_compare.c: kernels are swapped in the middle of a conversation and back, and every way in which
 * that fails leaves the session as one that nobody touched, bit for bit.
 */
#include <math.h>

#include "failing_memory.h"
#include "fixture.h"
#include "ordito_measure.h"

enum { VOCAB = 257, PROMPT = 12, TOKENS = 24 };

typedef struct logits {
  float at[VOCAB];
} logits;

static const ord_session_options GENERATES = {.struct_size = sizeof(ord_session_options), .generates = true};

static ord_context *open_liars(void) {
  static const char *const plugin[] = {PLUGIN("attention_flash"), PLUGIN("attention_naive"), PLUGIN("cpu_plain"),
                                       TEST_PLUGIN("liars")};
  const ord_context_options options = {
      .struct_size = sizeof options, .threads = 2, .plugin = plugin, .plugin_count = 4, .no_default_plugins = true};
  ord_error err = ORD_ERROR_INIT;
  ord_context *context = NULL;
  MUST(ord_context_create(&options, &context, &err));
  return context;
}

static stage open_stage(void) {
  stage s = {.context = open_liars()};
  s.model = open_model(s.context, MODEL("andrea-nano"), NULL, NANO_WEIGHTS);
  return s;
}

static ord_session *open_pinned(const stage *s, const char *pin) {
  ord_session_options options = GENERATES;
  options.pin = &pin;
  options.pin_count = 1;
  return open_session(s->model, &options);
}

/* Token number i of every conversation. */
static int32_t token(int i) { return i == 0 ? 256 : 'a' + (i * 7) % 26; }

/* Runs tokens [first, end) in one run. */
static logits feed(ord_session *session, int first, int end) {
  ord_error err = ORD_ERROR_INIT;
  int32_t id[TOKENS];
  ord_tensor out = {.struct_size = sizeof out};
  logits got;
  for (int i = first; i < end; i++) id[i - first] = token(i);
  MUST(ord_session_set_tokens(session, id, 1, end - first, &err));
  MUST(ord_session_run(session, &err));
  MUST(ord_session_get(session, "next", &out, &err));
  assert_int_equal(out.bytes, sizeof got);
  memcpy(&got, out.data, sizeof got);
  return got;
}

static bool is_equal(const logits *a, const logits *b) { return memcmp(a, b, sizeof *a) == 0; }

/* The largest difference over the largest value. */
static double difference(const logits *a, const logits *b) {
  double most = 0, value = 0;
  for (int i = 0; i < VOCAB; i++) {
    most = fmax(most, fabs((double)a->at[i] - (double)b->at[i]));
    value = fmax(value, fabs((double)a->at[i]));
  }
  return most / value;
}

static bool swap_one(ord_session *session, const char *pin, ord_swap_result *out, ord_error *err) {
  const ord_swap_options options = {.struct_size = sizeof options, .pin = &pin, .pin_count = 1};
  return ord_session_swap_kernel(session, &options, out, err);
}

/* Who computes attention in the plan of the last run. */
static const char *attention_of(const ord_session *session) {
  ord_step_time step = {.struct_size = sizeof step};
  for (uint32_t i = 0; ord_session_step_time(session, i, &step); i++)
    if (strcmp(step.op, "attention") == 0) return step.kernel;
  return "none";
}

/* ---- swapping and going back ------------------------------------------------------------------------------------- */

static void swap_and_go_back(const stage *s, const char *from, const char *to) {
  char from_pin[64], to_pin[64];
  ord_error err = ORD_ERROR_INIT;
  ord_swap_result result = {.struct_size = sizeof result};
  snprintf(from_pin, sizeof from_pin, "attention=%s", from);
  snprintf(to_pin, sizeof to_pin, "attention=%s", to);
  ord_session *swapped = open_pinned(s, from_pin), *old = open_pinned(s, from_pin), *other = open_pinned(s, to_pin);
  logits got = feed(swapped, 0, PROMPT), wanted = feed(old, 0, PROMPT), near = feed(other, 0, PROMPT);
  for (int i = PROMPT; i < 16; i++) {
    got = feed(swapped, i, i + 1);
    wanted = feed(old, i, i + 1);
    near = feed(other, i, i + 1);
    assert_true(is_equal(&got, &wanted));
  }
  MUST(swap_one(swapped, to_pin, &result, &err));
  assert_int_equal(result.node_count, 4);
  assert_true(result.difference <= result.tolerance && result.tolerance < 1e-4 && result.prepare_ns > 0);
  assert_true(difference(&wanted, &near) <= result.tolerance);
  for (int i = 16; i < 20; i++) { /* alone, and then two at once: both plans go on */
    got = feed(swapped, i, i + 1 + (i == 18));
    near = feed(other, i, i + 1 + (i == 18));
    assert_true(difference(&got, &near) < 1e-4);
    assert_string_equal(attention_of(swapped), to);
    i += i == 18;
  }
  MUST(ord_session_rollback_kernel(swapped, &err));
  ord_session_rewind(swapped, 16);
  for (int i = 16; i < TOKENS; i++) {
    got = feed(swapped, i, i + 1);
    wanted = feed(old, i, i + 1);
    assert_string_equal(attention_of(swapped), from);
    if (!is_equal(&got, &wanted)) fail_msg("%s to %s and back: token %d has other bits", from, to, i);
  }
  MUST(ord_session_rollback_kernel(swapped, &err)); /* takes that back */
  ord_session_rewind(swapped, TOKENS - 1);
  got = feed(swapped, TOKENS - 1, TOKENS);
  assert_string_equal(attention_of(swapped), to);
  ord_session_destroy(swapped);
  ord_session_destroy(old);
  ord_session_destroy(other);
}

static void a_conversation_goes_on_with_another_kernel(void **state) {
  (void)state;
  static const char *const kernel[] = {"attention_flash", "attention_naive", "attention_reference"};
  stage s = open_stage();
  for (int from = 0; from < 3; from++)
    for (int to = 0; to < 3; to++)
      if (from != to) swap_and_go_back(&s, kernel[from], kernel[to]);
  close_stage(&s);
}

/* Types in which rounding weighs more have a larger tolerance. */
static void stored_types_widen_the_tolerance(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  ord_swap_result result = {.struct_size = sizeof result};
  stage s = open_stage();
  ord_session_options options = GENERATES;
  options.kv_cache = ORD_BF16;
  s.session = open_session(s.model, &options);
  feed(s.session, 0, PROMPT);
  MUST(swap_one(s.session, "attention=attention_reference", &result, &err));
  assert_true(result.tolerance > 0x1p-5 && result.tolerance < 0.04);
  close_stage(&s);
}

/* Outputs live until the next run, however often kernels are swapped meanwhile. */
static void outputs_outlive_swaps(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  ord_tensor out = {.struct_size = sizeof out}, again = out;
  stage s = open_stage();
  s.session = open_session(s.model, &GENERATES);
  const logits wanted = feed(s.session, 0, PROMPT);
  ord_memory_report before = {.struct_size = sizeof before}, after = before;
  MUST(ord_session_memory(s.session, &before, &err));
  MUST(ord_session_get(s.session, "next", &out, &err));
  MUST(swap_one(s.session, "attention=attention_naive", NULL, &err));
  MUST(ord_session_memory(s.session, &after, &err)); /* both plans have theirs */
  assert_true(after.arena > before.arena + before.arena / 2 && after.captures > before.captures);
  assert_int_equal(after.cache, before.cache);
  MUST(swap_one(s.session, "layernorm=layernorm_reference", NULL, &err));
  MUST(swap_one(s.session, "attention=attention_reference", NULL, &err));
  MUST(ord_session_rollback_kernel(s.session, &err));
  assert_memory_equal(out.data, &wanted, sizeof wanted);
  MUST(ord_session_get(s.session, "next", &again, &err));
  assert_ptr_equal(again.data, out.data);
  feed(s.session, PROMPT, PROMPT + 1);
  assert_string_equal(attention_of(s.session), "attention_naive");
  close_stage(&s);
}

/* ---- inside a generation ----------------------------------------------------------------------------------------- */

typedef struct talk {
  ord_session *session;
  int32_t id[40];
  uint32_t count;
  const char *pin[2]; /* tried behind tokens 10 and 20; NULL: none */
  bool done[2];
} talk;

static bool note_and_swap(void *context, int32_t id, const char *text, size_t bytes) {
  (void)text;
  (void)bytes;
  talk *out = context;
  out->id[out->count++] = id;
  const uint32_t which = out->count / 10 - 1;
  if (out->count % 10 == 0 && which < 2 && out->pin[which])
    out->done[which] = swap_one(out->session, out->pin[which], NULL, NULL);
  return true;
}

static talk generate(const stage *s, const char *first, const char *second) {
  static const int32_t prompt[] = {256, 'A', 'n', 'd', ' ', 't', 'h', 'e', ' '};
  ord_generate_options options = ORD_GENERATE_INIT;
  ord_error err = ORD_ERROR_INIT;
  options.max_tokens = 40;
  options.temperature = 0.8f;
  options.seed = 3;
  talk made = {.session = open_session(s->model, &GENERATES), .pin = {first, second}};
  MUST(ord_session_generate(made.session, prompt, 9, &options, note_and_swap, &made, NULL, &err));
  ord_session_destroy(made.session);
  return made;
}

static void a_token_callback_may_swap(void **state) {
  (void)state;
  stage s = open_stage();
  const talk alone = generate(&s, NULL, NULL);
  const talk swapped = generate(&s, "attention=attention_naive", "attention=attention_reference");
  const talk failed = generate(&s, "attention=attention_zeros", "attention=attention_nan");
  assert_true(swapped.done[0] && swapped.done[1] && !failed.done[0] && !failed.done[1]);
  assert_memory_equal(swapped.id, alone.id, 10 * sizeof *alone.id);
  assert_int_equal(swapped.count, 40);
  assert_memory_equal(failed.id, alone.id, sizeof alone.id);
  close_stage(&s);
}

/* ---- failing ----------------------------------------------------------------------------------------------------- */

static void failures_leave_the_session_alone(void **state) {
  (void)state;
  static const struct {
    const char *pin;
    double tolerance;
    const char *part;
  } row[] = {
      {"attention=no_such_kernel", 0, "no such kernel of op 'attention'; wanted one of"},
      {"atention=attention_naive", 0, "'atention' selects no node; wanted a layer path or one of the ops"},
      {"atention=attention_naive", 0, "did you mean 'attention'?"},
      {"attention", 0, "wanted SELECTOR=KERNEL"},
      {"attention=attention_refuses", 0, "found a weekday; wanted a holiday"},
      {"attention=attention_refuses", 0,
       "pin attention=attention_refuses holds in no plan, not in that for all lengths"},
      {"attention=attention_starts", 0, "differs by "}, /* where a single token stands behind others */
      {"attention=attention_single", 0, "differs by "}, /* in the only plan where it serves */
      {"attention=attention_unprepared", 0, "the tables were not found"},
      {"attention=attention_fails", 0, "the loom is out of thread"},
      {"attention=attention_zeros", 0, "differs by "},
      {"attention=attention_nan", 1e30, "differs by inf of its largest value"},
      {"attention=attention_flash", 0, "swapping attention=attention_flash changes nothing"},
      {"attention=attention_flash@attention_flash", 0, "attention_flash@attention_flash changes nothing"},
      {"attention=attention_naive", 1e-30, "wanted at most 1e-30"},
      {"attention=attention_naive", -1, "tolerance: found -1; wanted a finite number of at least 0"},
      {"attention=attention_naive", NAN, "tolerance: found"},
  };
  ord_error err = ORD_ERROR_INIT;
  ord_tensor out = {.struct_size = sizeof out};
  stage s = open_stage();
  s.session = open_session(s.model, &GENERATES);
  ord_session *alone = open_session(s.model, &GENERATES);
  logits got = feed(s.session, 0, PROMPT), wanted = feed(alone, 0, PROMPT);
  int at = PROMPT;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    const ord_swap_options options = {
        .struct_size = sizeof options, .pin = &row[i].pin, .pin_count = 1, .tolerance = row[i].tolerance};
    for (int twice = 0; twice < 2; twice++)
      MUST_FAIL(ord_session_swap_kernel(s.session, &options, NULL, &err), row[i].part);
    MUST(ord_session_get(s.session, "next", &out, &err));
    assert_memory_equal(out.data, &wanted, sizeof wanted);
    got = feed(s.session, at % TOKENS, at % TOKENS + 1);
    wanted = feed(alone, at % TOKENS, at % TOKENS + 1);
    at++;
    if (!is_equal(&got, &wanted)) fail_msg("%s: other bits after the failure", row[i].pin);
  }
  MUST_FAIL(ord_session_rollback_kernel(s.session, &err), "found none; wanted a swap before");
  MUST(swap_one(s.session, "attention=attention_naive", NULL, &err));
  ord_session_destroy(alone);
  close_stage(&s);
}

static void a_pin_behind_covers_another(void **state) {
  (void)state;
  static const char *const pin[] = {"attention=attention_naive", "layer.*.a=attention_reference"};
  const ord_swap_options options = {.struct_size = sizeof options, .pin = pin, .pin_count = 2};
  ord_error err = ORD_ERROR_INIT;
  stage s = open_stage();
  s.session = open_session(s.model, &GENERATES);
  feed(s.session, 0, PROMPT);
  MUST_FAIL(ord_session_swap_kernel(s.session, &options, NULL, &err),
            "swapping attention=attention_naive changes nothing: found pins behind it for every node that it selects");
  close_stage(&s);
}

/* Right logits are not all: what the kernel should have appended is missing. */
static void a_kernel_that_appends_nothing_is_found_out(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  stage s = open_stage();
  s.session = open_session(s.model, &GENERATES);
  ord_session *forgets = open_pinned(&s, "attention=attention_forgets");
  const logits wanted = feed(s.session, 0, PROMPT), got = feed(forgets, 0, PROMPT);
  assert_true(difference(&wanted, &got) < 1e-4);
  MUST_FAIL(swap_one(s.session, "attention=attention_forgets", NULL, &err), "'kv.0' differs by 1 of its largest");
  ord_session_destroy(forgets);
  close_stage(&s);
}

static void a_swap_needs_a_run_and_a_pin(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  ord_swap_result result = {0};
  stage s = open_stage();
  s.session = open_session(s.model, &GENERATES);
  MUST_FAIL(swap_one(s.session, "attention=attention_naive", NULL, &err), "found no finished run");
  feed(s.session, 0, PROMPT);
  MUST_FAIL(ord_session_swap_kernel(s.session, NULL, NULL, &err), "found no pin");
  MUST_FAIL(ord_session_swap_kernel(s.session, &(ord_swap_options){.tolerance = 1}, NULL, &err),
            "ord_swap_options: struct_size");
  MUST_FAIL(swap_one(s.session, "attention=attention_naive", &result, &err), "ord_swap_result: struct_size");
  result = (ord_swap_result){.struct_size = offsetof(ord_swap_result, difference), .difference = 7};
  MUST(swap_one(s.session, "attention=attention_naive", &result, &err));
  assert_true(result.node_count == 4 && result.difference == 7);
  ord_session_reset(s.session);
  MUST_FAIL(swap_one(s.session, "attention=attention_flash", NULL, &err), "found no finished run");
  close_stage(&s);
}

/* Each allocation of a swap fails in turn. */
static void out_of_memory_leaves_the_session_alone(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  stage s = open_stage();
  s.session = open_session(s.model, &GENERATES);
  feed(s.session, 0, PROMPT);
  const logits wanted = feed(s.session, PROMPT, PROMPT + 1);
  long failures = 0;
  for (bool done = false; !done; failures++) {
    err = (ord_error)ORD_ERROR_INIT;
    allocation_count = 0;
    fail_at = failures;
    done = swap_one(s.session, "attention=attention_naive", NULL, &err);
    const bool is_refused = allocation_count > fail_at;
    fail_at = -1;
    if (done && is_refused) fail_msg("allocation %ld failed and nobody noticed", failures);
    if (!done && err.code != ORD_NO_MEMORY)
      fail_msg("allocation %ld: \"%s\"; wanted out of memory", failures, err.text);
    ord_session_rewind(s.session, PROMPT);
    const logits got = feed(s.session, PROMPT, PROMPT + 1);
    if (!done && !is_equal(&got, &wanted)) fail_msg("allocation %ld: other bits after the failure", failures);
    assert_string_equal(attention_of(s.session), done ? "attention_naive" : "attention_flash");
  }
  assert_true(failures > 50);
  print_message("%ld allocations failed in turn\n", failures - 1);
  close_stage(&s);
}

/* ---- other sessions ---------------------------------------------------------------------------------------------- */

/* As if it were built anew: other bytes behind its end. */
static void rebuild(const char *from, const char *to) {
  FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
  assert_true(in && out);
  for (int byte; (byte = fgetc(in)) != EOF;) fputc(byte, out);
  fputc('+', out);
  fclose(in);
  assert_int_equal(fclose(out), 0);
}

static void a_rebuilt_plugin_takes_over(void **state) {
  (void)state;
  const char *const file = ORDITO_BUILD_DIRECTORY "/tests/rebuilt_attention.so";
  const char *name = NULL;
  ord_error err = ORD_ERROR_INIT;
  ord_swap_result result = {.struct_size = sizeof result};
  stage s = open_stage();
  s.session = open_session(s.model, &GENERATES);
  const logits wanted = feed(s.session, 0, PROMPT);
  rebuild(PLUGIN("attention_flash"), file);
  MUST(ord_context_load_plugin(s.context, file, &name, &err));
  assert_string_equal(name, "attention_flash#2");
  MUST_FAIL(ord_context_load_plugin(s.context, file, NULL, &err), "loaded already, as plugin 'attention_flash#2'");
  MUST_FAIL(ord_context_load_plugin(s.context, "no-such-file.so", NULL, &err), "no-such-file.so");
  MUST_FAIL(swap_one(s.session, "attention=attention_flash", NULL, &err), "changes nothing");
  MUST(swap_one(s.session, "attention=attention_flash@attention_flash#2", &result, &err));
  assert_true(result.node_count == 4 && result.difference == 0);
  ord_session_rewind(s.session, 0);
  const logits got = feed(s.session, 0, PROMPT);
  assert_true(is_equal(&got, &wanted));
  close_stage(&s);
  assert_int_equal(remove(file), 0);
}

/* Rows of different lengths, of which the rest holds what a kernel likes; without a generation, walked eagerly. */
static stage open_rows(const char *seq_min) {
  static const char *const format =
      "ordito: 1\nname: rows\ndims: {d: 8, vocab: 9, batch: 2, context: 8, seq: {min: %s, max: context}}\n"
      "inputs:\n  ids: {dtype: i32, shape: [batch, seq], fill: tokens}\n"
      "  lengths: {dtype: i32, shape: [batch], fill: lengths}\n"
      "weights:\n  table: {shape: [vocab, d]}\ncaches: {kv: {length: context}}\n"
      "graph:\n  - embedding: {in: ids, weight: table, out: x}\n"
      "  - reshape: {in: x, shape: [batch, 1, seq, d], out: h}\n"
      "  - attention: {q: h, k: h, v: h, lengths: lengths, causal: true, cache: kv, out: a}\n"
      "  - reshape: {in: a, shape: [batch, seq, d], out: y}\noutputs: [y]\n";
  static const int32_t id[10] = {1, 2, 3, 4, 5, 6, 7, 8, 0, 1}, length[2] = {2, 5};
  char text[1024];
  ord_error err = ORD_ERROR_INIT;
  const ord_weight_options random = {.struct_size = sizeof random, .random = true, .seed = 1};
  const char *const naive = "attention=attention_naive";
  const ord_session_options options = {
      .struct_size = sizeof options, .pin = &naive, .pin_count = 1, .capture = ORD_CAPTURE_OFF};
  stage s = {.context = open_liars()};
  snprintf(text, sizeof text, format, seq_min);
  MUST(ord_model_load_text(s.context, "rows.yaml", text, strlen(text), NULL, &s.model, NULL, &err));
  MUST(ord_model_open_weights(s.model, &random, NULL, &err));
  s.session = open_session(s.model, &options);
  ord_tensor lengths = {
      .struct_size = sizeof lengths, .dtype = ORD_I32, .rank = 1, .dim = {2}, .data = length, .bytes = sizeof length};
  MUST(ord_session_set_tokens(s.session, id, 2, 5, &err));
  MUST(ord_session_set(s.session, "lengths", &lengths, &err));
  MUST(ord_session_run(s.session, &err));
  return s;
}

static void what_lies_behind_a_row_is_not_compared(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  stage s = open_rows("2"); /* one plan */
  MUST(swap_one(s.session, "attention=attention_starts", NULL, &err));
  MUST_FAIL(swap_one(s.session, "attention=attention_zeros", NULL, &err), "differs by");
  close_stage(&s);
}

/* The plan for one token gets the first token of each row. */
static void every_plan_is_compared(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  ord_swap_result result = {.struct_size = sizeof result};
  stage s = open_rows("1");
  MUST_FAIL(swap_one(s.session, "attention=attention_single", &result, &err), "differs by");
  assert_int_equal(result.node_count, 1);
  MUST_FAIL(swap_one(s.session, "attention=attention_starts", NULL, &err), "differs by");
  MUST(swap_one(s.session, "attention=attention_flash", NULL, &err));
  ord_session_rewind(s.session, 0);
  MUST(ord_session_run(s.session, &err));
  close_stage(&s);
}

/* They leave the plan for one token out: an index names a token behind the cut, an axis is longer where there is one.
 */
static void inputs_that_cannot_be_cut(void **state) {
  (void)state;
  static const struct {
    const char *name, *input, *body;
    uint32_t dtype;
    int64_t count;
  } row[] = {{"which", "i32, shape: [1]", "gather: {in: a, index: which, axis: 2, out: y}", ORD_I32, 1},
             {"rest", "f32, shape: [(many - 2) * seq + 16]", "silu: {in: rest, out: y}", ORD_F32, 10}};
  static const int32_t id[6] = {0}, which[10] = {5};
  ord_error err = ORD_ERROR_INIT;
  const ord_weight_options random = {.struct_size = sizeof random, .random = true, .seed = 1};
  for (int i = 0; i < 2; i++) {
    char text[1024];
    snprintf(text, sizeof text,
             "ordito: 1\nname: cut\ndims: {d: 8, vocab: 9, context: 16, seq: {min: 1, max: context}, many: {min: 1, "
             "max: 4}}\n"
             "inputs:\n  ids: {dtype: i32, shape: [1, seq], fill: tokens}\n  more: {dtype: f32, shape: [many]}\n  %s: "
             "{dtype: %s}\n"
             "weights: {table: {shape: [vocab, d]}}\ncaches: {kv: {length: context}}\n"
             "graph:\n  - embedding: {in: ids, weight: table, out: x}\n"
             "  - reshape: {in: x, shape: [1, 1, seq, d], out: h}\n"
             "  - attention: {q: h, k: h, v: h, causal: true, cache: kv, out: a}\n  - %s\n  - relu: {in: more, out: "
             "z}\noutputs: [a, y, z]\n",
             row[i].name, row[i].input, row[i].body);
    stage s = {.context = open_liars()};
    MUST(ord_model_load_text(s.context, "cut.yaml", text, strlen(text), NULL, &s.model, NULL, &err));
    MUST(ord_model_open_weights(s.model, &random, NULL, &err));
    s.session = open_session(s.model, NULL);
    const ord_tensor in = {.struct_size = sizeof in,
                           .dtype = row[i].dtype,
                           .rank = 1,
                           .dim = {row[i].count},
                           .data = which,
                           .bytes = (size_t)row[i].count * 4};
    MUST(ord_session_set_tokens(s.session, id, 1, 6, &err));
    MUST(ord_session_set(s.session, row[i].name, &in, &err));
    const float one = 1;
    const ord_tensor more = {
        .struct_size = sizeof more, .dtype = ORD_F32, .rank = 1, .dim = {1}, .data = &one, .bytes = sizeof one};
    MUST(ord_session_set(s.session, "more", &more, &err));
    MUST(ord_session_run(s.session, &err));
    MUST_FAIL(swap_one(s.session, "attention=attention_zeros", NULL, &err), "differs by");
    MUST(swap_one(s.session, "attention=attention_naive", NULL, &err));
    close_stage(&s);
  }
}

static void a_model_without_tokens_swaps_too(void **state) {
  (void)state;
  static const char *const text = "ordito: 1\nname: tiny\ndims: {d: 4}\ninputs:\n  x: {dtype: f32, shape: [d]}\n"
                                  "graph:\n  - tanh: {in: x, out: y}\noutputs: [y]\n";
  static const float x[4] = {1, -2, 3, -4};
  ord_error err = ORD_ERROR_INIT;
  ord_swap_result result = {.struct_size = sizeof result};
  stage s = {.context = open_liars()};
  MUST(ord_model_load_text(s.context, "tiny.yaml", text, strlen(text), NULL, &s.model, NULL, &err));
  s.session = open_session(s.model, NULL);
  const ord_tensor in = {
      .struct_size = sizeof in, .dtype = ORD_F32, .rank = 1, .dim = {4}, .data = x, .bytes = sizeof x};
  MUST(ord_session_set(s.session, "x", &in, &err));
  MUST(ord_session_run(s.session, &err));
  MUST(swap_one(s.session, "tanh=tanh_reference", &result, &err));
  assert_int_equal(result.node_count, 1);
  MUST(ord_session_run(s.session, &err));
  close_stage(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_conversation_goes_on_with_another_kernel),
      cmocka_unit_test(stored_types_widen_the_tolerance),
      cmocka_unit_test(outputs_outlive_swaps),
      cmocka_unit_test(a_token_callback_may_swap),
      cmocka_unit_test(failures_leave_the_session_alone),
      cmocka_unit_test(a_pin_behind_covers_another),
      cmocka_unit_test(a_kernel_that_appends_nothing_is_found_out),
      cmocka_unit_test(a_swap_needs_a_run_and_a_pin),
      cmocka_unit_test(out_of_memory_leaves_the_session_alone),
      cmocka_unit_test(a_rebuilt_plugin_takes_over),
      cmocka_unit_test(what_lies_behind_a_row_is_not_compared),
      cmocka_unit_test(every_plan_is_compared),
      cmocka_unit_test(inputs_that_cannot_be_cut),
      cmocka_unit_test(a_model_without_tokens_swaps_too),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
