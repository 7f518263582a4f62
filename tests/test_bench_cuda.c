/* SPDX-License-Identifier: MIT
 *
 * `ordito bench --device cuda` on the simulated device: every figure is there or says why not, what follows from others
 * does, counts are exact, options are honoured. What a time is is no matter here. Then what bench is made of: replays
 * in a row and timed runs of a session.
 */
#include <jansson.h>
#include <math.h>
#include <sys/wait.h>

#include "cuda_fixture.h"
#include "fixture.h"
#include "ordito_measure.h"

#define ORDITO ORDITO_BUILD_DIRECTORY "/bin/ordito"
#define TINY_FILE ORDITO_SOURCE_DIRECTORY "/tests/data/tiny_decoder.yaml"
#define TINY TINY_FILE " --random-weights 3"
#define CUDA " --device cuda --simulated --prompt 4 --position 6 --repeat 1"

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* What the command prints, malloc'ed; its exit code. */
static int run(const char *before, const char *arguments, char **out) {
  enum { MOST = 1 << 20 };
  char command[2048];
  snprintf(command, sizeof command, "%s %s bench %s 2>&1", before, ORDITO, arguments);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  *out = malloc(MOST);
  assert_non_null(*out);
  const size_t bytes = fread(*out, 1, MOST - 1, pipe);
  (*out)[bytes] = '\0';
  return WEXITSTATUS(pclose(pipe));
}

/* Its JSON, behind what it says on stderr. */
static json_t *report_of(const char *before, const char *arguments) {
  char *text, command[2048];
  json_error_t error;
  snprintf(command, sizeof command, "%s --json", arguments);
  const int code = run(before, command, &text);
  if (code != 0) fail_msg("ordito bench %s ends with %d: %s", command, code, text);
  const char *begin = strstr(text, "{\"device\"");
  json_t *report = begin ? json_loads(begin, JSON_REJECT_DUPLICATES, &error) : NULL;
  if (!report) fail_msg("ordito bench %s: no JSON: %s", command, text);
  free(text);
  return report;
}

static json_t *get(json_t *report, const char *section, const char *name) {
  json_t *object = json_object_get(report, section), *value = json_object_get(object, name);
  if (!value) fail_msg("%s.%s is not there", section, name);
  return value;
}

static double number(json_t *report, const char *section, const char *name) {
  json_t *value = get(report, section, name);
  if (!json_is_number(value)) fail_msg("%s.%s is no number", section, name);
  return json_number_value(value);
}

static void must_be(json_t *report, const char *section, const char *name, double wanted) {
  const double got = number(report, section, name);
  if (fabs(got - wanted) > 1e-6 * fabs(wanted)) fail_msg("%s.%s is %.10g; wanted %.10g", section, name, got, wanted);
}

/* Null, and a reason that has this in it. */
static void must_say(json_t *report, const char *section, const char *name, const char *why) {
  char field[80];
  snprintf(field, sizeof field, "%s_not_measured", name);
  if (!json_is_null(get(report, section, name))) fail_msg("%s.%s is not null", section, name);
  const char *found = json_string_value(get(report, section, field));
  if (!found || !strstr(found, why)) fail_msg("%s.%s: found '%s'; wanted '%s'", section, field, found, why);
}

/* ---- the list of figures ----------------------------------------------------------------------------------------- */

typedef enum { OTHER, RATIO_OF, DIFFERENCE_OF } follows;
typedef struct field {
  const char *section, *name;
  follows kind;
  const char *a, *b; /* SECTION_NAME each */
} field;

static const field fields[] = {
#define SECTION(id, needs, title)
#define COUNT(section, name, label) {#section, #name, OTHER, NULL, NULL},
#define FIGURE(section, name, unit, label) {#section, #name, OTHER, NULL, NULL},
#define RATIO(section, name, over, under, label) {#section, #name, RATIO_OF, #over, #under},
#define DIFFERENCE(section, name, from, less, unit, label) {#section, #name, DIFFERENCE_OF, #from, #less},
#include "cli/bench_cuda.def"
};
enum { FIELDS = sizeof fields / sizeof *fields };

static double operand(json_t *report, const char *joined) {
  for (size_t i = 0; i < FIELDS; i++) {
    const size_t length = strlen(fields[i].section);
    if (strncmp(joined, fields[i].section, length) == 0 && joined[length] == '_' &&
        strcmp(joined + length + 1, fields[i].name) == 0)
      return number(report, fields[i].section, fields[i].name);
  }
  fail_msg("there is no %s", joined);
  return 0;
}

/* As exact as the digits of what it follows from. */
static void must_follow(json_t *report, const field *of) {
  const double a = operand(report, of->a), b = operand(report, of->b), got = number(report, of->section, of->name);
  const double wanted = of->kind == RATIO_OF ? a / b : a - b;
  if (fabs(got - wanted) > 1e-8 * (fabs(a) + fabs(b) + fabs(wanted)))
    fail_msg("%s.%s is %.10g; %s and %s make it %.10g", of->section, of->name, got, of->a, of->b, wanted);
}

static bool is_one_of(const char *section, const char *const *list) {
  while (*list && strcmp(*list, section) != 0) list++;
  return *list != NULL;
}

/* Every figure of sections that are not `missing`, consistent; all that are, null with a reason. */
static void must_hold(json_t *report, const char *const *missing) {
  for (size_t i = 0; i < FIELDS; i++) {
    const field *of = &fields[i];
    assert_true(json_is_true(get(report, of->section, "simulated")));
    if (is_one_of(of->section, missing)) {
      must_say(report, of->section, of->name, "");
      continue;
    }
    assert_true(isfinite(number(report, of->section, of->name)));
    if (of->kind != OTHER) must_follow(report, of);
  }
}

static double sum(json_t *list, const char *name) {
  double all = 0;
  size_t i;
  json_t *part;
  json_array_foreach(list, i, part) all += json_number_value(json_object_get(part, name));
  return all;
}

/* Ops, layers and steps are sums of the same. */
static void must_add_up(json_t *report, const char *table) {
  static const char *const lists[] = {"ops", "layers", "steps"};
  json_t *steps = get(report, table, "steps");
  assert_true(json_is_true(get(report, table, "simulated")));
  for (int i = 0; i < 3; i++) {
    json_t *list = get(report, table, lists[i]);
    assert_true(json_array_size(list) > 0);
    assert_true(fabs(sum(list, "us") - number(report, table, "us")) <= 1e-6 * number(report, table, "us"));
    assert_true(sum(list, "weight_bytes") == sum(steps, "weight_bytes"));
    assert_true(sum(list, "cache_bytes") == sum(steps, "cache_bytes"));
    assert_true(sum(list, "launches") == sum(steps, "launches"));
    assert_true(fabs(sum(list, "us") - sum(list, "floor_us") - sum(list, "residual_us")) <= 1e-6 * sum(list, "us"));
  }
}

/* ---- figures ----------------------------------------------------------------------------------------------------- */

static const char *const NO_SWAP[] = {"swap", NULL};

static void test_every_figure(void **state) {
  (void)state;
  json_t *report = report_of("", TINY CUDA " --steps 3");
  assert_memory_equal(json_string_value(json_object_get(report, "device")), "SIMULATED", 9);
  assert_true(json_is_true(json_object_get(report, "simulated")));
  assert_string_equal(json_string_value(json_object_get(report, "model")), "tiny-decoder");
  must_hold(report, NO_SWAP);
  must_add_up(report, "decode_step");
  must_add_up(report, "prefill_run");
  must_say(report, "swap", "flip_us", "no --against");
  must_be(report, "step", "position", 6);
  must_be(report, "length", "length", 7);
  must_be(report, "prefill", "tokens", 4);
  must_be(report, "dependent", "tokens", 4);
  json_t *steps = get(report, "decode_step", "steps");
  must_be(report, "step", "weight_bytes", sum(steps, "weight_bytes"));
  must_be(report, "step", "cache_bytes", sum(steps, "cache_bytes"));
  must_be(report, "graph", "steps", (double)json_array_size(steps));
  must_be(report, "residual", "steps_us", number(report, "decode_step", "us"));
  assert_true(number(report, "graph", "kernels") > 0);
  assert_true(number(report, "graph", "nodes") >=
              number(report, "graph", "kernels") + number(report, "graph", "library_steps"));
  json_decref(report);
}

/* However tokens follow one another, they are the same. */
static void test_tokens_are_the_same(void **state) {
  (void)state;
  json_t *report = report_of("", TINY CUDA " --steps 5 --compute bf16 --kv-cache bf16");
  must_be(report, "ahead", "other_tokens", 0);
  must_be(report, "whole", "other_tokens", 0);
  must_be(report, "dependent", "other_tokens", 0);
  must_be(report, "dependent", "tokens", 6);
  assert_string_equal(json_string_value(json_object_get(report, "compute")), "bf16");
  assert_string_equal(json_string_value(json_object_get(report, "kv_cache")), "bf16");
  json_decref(report);
}

static double all_calls(json_t *report, const char *section) {
  return number(report, section, "calls") * json_number_value(json_object_get(report, "steps"));
}

static void must_count(const char *what, double got, double wanted) {
  if (fabs(got - wanted) > 1e-6) fail_msg("%s: %.10g calls of the driver; wanted %.10g", what, got, wanted);
}

/* Two of all tokens and of none: what a token more costs. The simulated driver is never polled in this order. */
static void test_calls_of_the_driver(void **state) {
  (void)state;
  json_t *few = report_of("", TINY CUDA " --steps 2"), *many = report_of("", TINY CUDA " --steps 6");
  enum { MORE = 4 };
  must_count("a replay", number(few, "pipelined", "calls"), 2); /* the context is made current, the graph launched */
  must_count("a replay of many", number(many, "pipelined", "calls"), 2);
  must_count("a token of a WHILE node", all_calls(many, "whole") - all_calls(few, "whole"), 0);
  must_count("a token ahead", all_calls(many, "ahead") - all_calls(few, "ahead"), 2 * MORE);
  must_count("a token that is waited for", number(many, "synchronous", "calls"), number(few, "synchronous", "calls"));
  must_be(few, "whole", "polls", 0);
  must_be(few, "ahead", "polls", 0);
  assert_true(number(few, "eager", "calls") > number(few, "eager", "replay_calls"));
  json_decref(few);
  json_decref(many);
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static void test_a_driver_without_while(void **state) {
  (void)state;
  static const char *const missing[] = {"swap", "whole", "cancel", NULL};
  json_t *report = report_of("ORDITO_SIMULATED_DRIVER_VERSION=12080", TINY CUDA " --steps 2");
  must_hold(report, missing);
  must_say(report, "whole", "us", "found a CUDA driver for version 12.8; wanted 13.0 (release 580)");
  must_say(report, "whole", "over_pipelined", "found a CUDA driver");
  must_say(report, "cancel", "cost_us", "found a CUDA driver");
  json_decref(report);
}

static void test_loops_that_are_asked_for(void **state) {
  (void)state;
  static const struct {
    const char *option, *missing[3];
  } row[] = {{" --steps 2 --loop off", {"ahead", "whole"}},
             {" --steps 2 --loop ahead", {"whole"}},
             {" --steps 2 --no-dependent-launch", {"dependent"}},
             {" --steps 2 --context 7", {"length"}}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char arguments[512];
    snprintf(arguments, sizeof arguments, "%s%s", TINY CUDA, row[i].option);
    json_t *report = report_of("", arguments);
    for (size_t s = 0; row[i].missing[s]; s++)
      must_say(report, row[i].missing[s], strcmp(row[i].missing[s], "dependent") ? "us" : "on_us", "");
    json_decref(report);
  }
}

static void test_a_session_that_is_not_captured(void **state) {
  (void)state;
  json_t *report = report_of("", TINY CUDA " --steps 2 --capture off");
  static const char *const missing[] = {"graph",     "warm",  "eager", "pipelined", "length",
                                        "dependent", "ahead", "whole", "cancel"};
  for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
    for (size_t f = 0; f < FIELDS; f++)
      if (strcmp(fields[f].section, missing[i]) == 0) must_say(report, missing[i], fields[f].name, "captured");
  assert_true(number(report, "step", "cold_us") > 0 && number(report, "synchronous", "us") > 0);
  must_say(report, "synchronous", "over_pipelined", "captured");
  json_decref(report);
}

static void test_kernels_that_are_swapped(void **state) {
  (void)state;
  static const char *const none[] = {NULL};
  json_t *report = report_of("", TINY CUDA " --steps 2 --against attention=cuda_attention_naive");
  must_hold(report, none);
  assert_true(number(report, "swap", "nodes") > 0);
  json_decref(report);
}

static void test_a_model_without_tokens(void **state) {
  (void)state;
  json_t *report = report_of("", MODEL("attention-only") CUDA " --random-weights 1");
  must_say(report, "step", "cold_us", "does not generate");
  assert_true(number(report, "prefill", "ms") > 0);
  assert_null(json_object_get(report, "decode_step"));
  must_add_up(report, "prefill_run");
  json_decref(report);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static size_t count_of(const char *text, const char *part) {
  size_t count = 0;
  for (; (text = strstr(text, part)) != NULL; text += strlen(part)) count++;
  return count;
}

/* No group of times stands without what they are worth. */
static void test_text(void **state) {
  (void)state;
  enum { SECTIONS_MISSING = 1, TABLES = 4 };
  size_t sections = 0;
  char *text;
#define SECTION(id, needs, title) sections++;
#define COUNT(section, name, label)
#define FIGURE(section, name, unit, label)
#define RATIO(section, name, over, under, label)
#define DIFFERENCE(section, name, from, less, unit, label)
#include "cli/bench_cuda.def"
  assert_int_equal(run("", TINY CUDA " --steps 2", &text), 0);
  const char *first = strstr(text, "SIMULATED CUDA device (sm_90)\nSIMULATED: these times mean nothing\n");
  assert_non_null(first);
  assert_null(strstr(text, " us") < first ? text : NULL);
  assert_int_equal(count_of(text, " [SIMULATED: these times mean nothing]\n"), sections - SECTIONS_MISSING + TABLES);
  assert_int_equal(count_of(text, "not measured: no --against"), 1);
  free(text);
}

static void test_every_figure_is_explained(void **state) {
  (void)state;
  enum { MOST = 1 << 20 };
  FILE *file = fopen(ORDITO_SOURCE_DIRECTORY "/docs/bench.md", "rb");
  assert_non_null(file);
  char *text = calloc(MOST, 1), name[96];
  assert_non_null(text);
  assert_true(fread(text, 1, MOST - 1, file) > 0);
  fclose(file);
  for (size_t i = 0; i < FIELDS; i++) {
    snprintf(name, sizeof name, "`%s.%s`", fields[i].section, fields[i].name);
    if (!strstr(text, name)) fail_msg("docs/bench.md has no %s", name);
  }
  free(text);
}

static void test_refusals(void **state) {
  (void)state;
  static const struct {
    const char *arguments, *text;
    int code;
  } row[] = {{TINY " --loop whole", "--loop: found 'whole' on the CPU", 2},
             {TINY " --loop nonsense", "wanted auto|off|whole|ahead", 2},
             {TINY CUDA " --kernel attention=nonsense", "nonsense", 3},
             {TINY CUDA " --steps 1 --against attention=nonsense", "nonsense", 3},
             {TINY CUDA " --steps 1 --kernel attention=cuda_attention_naive --against attention=cuda_attention_naive",
              "changes nothing", 1},
             {TINY CUDA " --position 20 --steps 2 --context 20", "--position: found 20; wanted at most 19", 1},
             {TINY CUDA " --position 19 --steps 100 --context 20", "--steps: found 100; the context leaves", 0},
             {TINY CUDA " --checked --steps 1", "SIMULATED", 0}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char *text;
    const int code = run("", row[i].arguments, &text);
    if (code != row[i].code || !strstr(text, row[i].text))
      fail_msg("ordito bench %s ends with %d: %s; wanted %d, %s", row[i].arguments, code, text, row[i].code,
               row[i].text);
    free(text);
  }
}

/* ---- what it is made of ------------------------------------------------------------------------------------------ */

enum { VOCAB = 40 };

static stage open_stage(bool is_cuda, const ord_session_options *options) {
  ord_error err = ORD_ERROR_INIT;
  const ord_context_options how = {
      .struct_size = sizeof how, .threads = 1, .device = is_cuda ? "cuda" : "cpu", .simulated = is_cuda};
  stage s = {0};
  setenv("ORDITO_SIMULATOR_PATH", ORDITO_BUILD_DIRECTORY "/lib", 1);
  setenv("ORDITO_PLUGIN_PATH", ORDITO_BUILD_DIRECTORY "/lib/ordito/plugins", 1);
  MUST(ord_context_create(&how, &s.context, &err));
  s.model = open_model(s.context, TINY_FILE, NULL, NULL);
  s.session = open_session(s.model, options);
  return s;
}

static void set_tokens(ord_session *session, int32_t first, int64_t count) {
  ord_error err = ORD_ERROR_INIT;
  int32_t id[8];
  for (int64_t i = 0; i < count; i++) id[i] = first + (int32_t)i;
  MUST(ord_session_set_tokens(session, id, 1, count, &err));
}

static void read_logits(ord_session *session, float *out) {
  ord_error err = ORD_ERROR_INIT;
  ord_tensor logits = {.struct_size = sizeof logits};
  MUST(ord_session_get(session, "logits", &logits, &err));
  memcpy(out, (const char *)logits.data + logits.bytes - VOCAB * sizeof *out, VOCAB * sizeof *out);
}

/* Replays in a row, and runs that are timed on the device, do what one run does. */
static void they_do_what_a_run_does(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  stage s = open_stage(true, NULL);
  ord_probe *probe = NULL;
  float wanted[2][VOCAB], got[VOCAB];
  set_tokens(s.session, 15, 5);
  MUST(ord_session_run(s.session, &err));
  for (int i = 0; i < 2; i++) {
    set_tokens(s.session, 20 + i, 1);
    MUST(ord_session_run(s.session, &err));
    read_logits(s.session, wanted[i]);
  }
  MUST(ord_probe_create(s.context, 4096, &probe, &err));
  ord_session_rewind(s.session, 5);
  set_tokens(s.session, 20, 1);
  ord_replay_timing replays = {.struct_size = sizeof replays, .count = 3};
  MUST(ord_session_time_replays(s.session, &replays, &err));
  assert_int_equal(replays.launch_calls, 6);
  read_logits(s.session, got);
  assert_memory_equal(got, wanted[0], sizeof got);
  for (int i = 0; i < 4; i++) {
    ord_timing timing = {.struct_size = sizeof timing,
                         .eager = i % 2,
                         .by_device = true,
                         .by_step = i == 3,
                         .probe = i > 1 ? probe : NULL,
                         .probe_passes = 2};
    set_tokens(s.session, 21, 1);
    MUST(ord_session_run_timed(s.session, &timing, &err));
    assert_true(timing.device_ns > 0 && timing.run_ns > 0);
    read_logits(s.session, got);
    assert_memory_equal(got, wanted[1], sizeof got);
    ord_session_rewind(s.session, 6);
  }
  ord_probe_destroy(probe);
  close_stage(&s);
}

static void what_cannot_be_timed(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  const ord_session_options off = {.struct_size = sizeof off, .capture = ORD_CAPTURE_OFF};
  stage cuda = open_stage(true, &off), other = open_stage(true, NULL), cpu = open_stage(false, NULL);
  ord_replay_timing replays = {.struct_size = sizeof replays, .count = 1};
  ord_timing timing = {.struct_size = sizeof timing, .by_device = true};
  ord_probe *probe = NULL;
  ord_probe_result result = {.struct_size = sizeof result};
  set_tokens(cuda.session, 15, 1);
  set_tokens(other.session, 15, 1);
  set_tokens(cpu.session, 15, 1);
  MUST_FAIL(ord_session_time_replays(cuda.session, &replays, &err), "is not captured");
  MUST_FAIL(ord_session_time_replays(cpu.session, &replays, &err), "found cpu, which has no clock of its own");
  MUST_FAIL(ord_session_run_timed(cpu.session, &timing, &err), "found cpu, which has no clock of its own");
  replays.count = 0;
  MUST_FAIL(ord_session_time_replays(other.session, &replays, &err), "found a count of 0; wanted at least 1");
  MUST(ord_probe_create(cuda.context, 4096, &probe, &err));
  MUST_FAIL(ord_probe_peak(probe, ORD_F32, &result, &err), "the peak: found SIMULATED");
  timing = (ord_timing){.struct_size = sizeof timing, .probe = probe, .probe_passes = 1};
  MUST_FAIL(ord_session_run_timed(other.session, &timing, &err), "found a probe of another context");
  MUST(ord_session_run_timed(cuda.session, &timing, &err));
  ord_probe_destroy(probe);
  MUST(ord_probe_create(cpu.context, 4096, &probe, &err)); /* where threads read, too */
  timing.probe = probe;
  MUST(ord_session_run_timed(cpu.session, &timing, &err));
  ord_probe_destroy(probe);
  close_stage(&cuda);
  close_stage(&other);
  close_stage(&cpu);
}

static void test_timed_runs(void **state) {
  (void)state;
  run_in_all_orders("timed runs", they_do_what_a_run_does);
  run_in_child("what cannot be timed", what_cannot_be_timed, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_figure),
      cmocka_unit_test(test_tokens_are_the_same),
      cmocka_unit_test(test_calls_of_the_driver),
      cmocka_unit_test(test_a_driver_without_while),
      cmocka_unit_test(test_loops_that_are_asked_for),
      cmocka_unit_test(test_a_session_that_is_not_captured),
      cmocka_unit_test(test_kernels_that_are_swapped),
      cmocka_unit_test(test_a_model_without_tokens),
      cmocka_unit_test(test_text),
      cmocka_unit_test(test_every_figure_is_explained),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_timed_runs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
