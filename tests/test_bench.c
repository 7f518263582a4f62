/* SPDX-License-Identifier: MIT
 *
 * `ordito bench` as a program: its JSON is JSON and holds what it promises, whatever kind of model it gets. What the
 * figures are is no matter here.
 */
#include <jansson.h>
#include <sys/wait.h>

#include "fixture.h"

#define ORDITO ORDITO_BUILD_DIRECTORY "/bin/ordito"
#define NANO MODEL("andrea-nano")
#define QUICK " --steps 2 --repeat 2 --prompt 6 --position 9 --threads 2 --json"

static int run(const char *arguments, json_t **out) {
  char command[2048];
  snprintf(command, sizeof command, "%s bench %s 2>/dev/null", ORDITO, arguments);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  json_error_t error;
  *out = json_loadf(pipe, JSON_REJECT_DUPLICATES, &error);
  while (fgetc(pipe) != EOF) continue;
  const int status = pclose(pipe);
  if (WEXITSTATUS(status) == 0 && !*out) fail_msg("%s: no JSON: line %d: %s", arguments, error.line, error.text);
  return WEXITSTATUS(status);
}

/* The value at "decode.tokens_per_s". */
static json_t *find(json_t *from, const char *path) {
  char name[64];
  while (from && *path) {
    const size_t length = strcspn(path, ".");
    snprintf(name, sizeof name, "%.*s", (int)length, path);
    from = json_object_get(from, name);
    path += length + (path[length] == '.');
  }
  return from;
}

static void must_be_positive(json_t *report, const char *path) {
  json_t *value = find(report, path);
  if (!json_is_number(value) || !(json_number_value(value) > 0)) fail_msg("%s is no positive number", path);
}

static void must_be(json_t *report, const char *path, double wanted) {
  json_t *value = find(report, path);
  if (!json_is_number(value) || json_number_value(value) < wanted || json_number_value(value) > wanted)
    fail_msg("%s is not %g", path, wanted);
}

static void the_fields_of_a_model_that_generates(void **state) {
  (void)state;
  static const char *const positive[] = {"decode.tokens_per_s",
                                         "decode.tokens_per_s_p10",
                                         "decode.tokens_per_s_p90",
                                         "decode.p50_us",
                                         "decode.p99_us",
                                         "decode.first_us",
                                         "decode.read_share",
                                         "decode.read_share_p10",
                                         "decode.weight_bytes",
                                         "decode.cache_bytes",
                                         "prefill.tokens_per_s",
                                         "prefill.ms",
                                         "prefill.first_ms",
                                         "prefill.peak_share",
                                         "prefill.operations",
                                         "replay.phases",
                                         "replay.eager_over_replay",
                                         "memory.peak_bytes",
                                         "memory.packed_bytes",
                                         "probe.read_gb_per_s",
                                         "probe.peak_gop_per_s",
                                         "probe.f32.gop_per_s",
                                         "probe.bf16.gop_per_s",
                                         "probe.int8.gop_per_s",
                                         "startup.ms",
                                         "startup.open_ms",
                                         "startup.read_ms",
                                         "startup.pack_ms",
                                         "startup.plan_ms",
                                         "startup.capture_ms",
                                         "startup.first_run_ms",
                                         "startup.probe_ms",
                                         "startup.over_probe",
                                         "startup.first_ms",
                                         "decode_step.us",
                                         "prefill_run.us"};
  json_t *report;
  assert_int_equal(run(NANO QUICK, &report), 0);
  for (size_t i = 0; i < sizeof positive / sizeof *positive; i++) must_be_positive(report, positive[i]);
  assert_true(json_is_number(find(report, "replay.overhead")));
  assert_true(json_is_number(find(report, "replay.overhead_us_per_phase")));
  assert_true(json_is_boolean(find(report, "noisy")));
  must_be(report, "decode.position", 9);
  must_be(report, "decode.steps", 2);
  must_be(report, "prefill.tokens", 6);
  must_be(report, "rounds", 2);
  must_be(report, "startup.starts", 2);
  must_be(report, "threads", 2);
  assert_null(find(report, "against"));
  assert_true(json_array_size(find(report, "decode_step.steps")) > json_array_size(find(report, "decode_step.ops")));
  json_decref(report);
}

static void a_model_without_tokens_is_run(void **state) {
  (void)state;
  json_t *report;
  assert_int_equal(run(ORDITO_SOURCE_DIRECTORY "/tests/bench/attention.yaml" QUICK, &report), 0);
  must_be_positive(report, "prefill.ms");
  must_be_positive(report, "prefill.peak_share");
  must_be(report, "prefill.tokens", 0);
  /* 12 heads, half of 1024 x 1024 pairs with the diagonal, two products of width 64 */
  must_be(report, "prefill.operations", 12.0 * 1024 * 1025 * 128);
  must_be(report, "replay.phases", json_number_value(find(report, "replay.phases")));
  assert_null(find(report, "decode"));
  assert_null(find(report, "prefill.tokens_per_s"));
  json_decref(report);
}

static void kernels_take_turns(void **state) {
  (void)state;
  json_t *report;
  assert_int_equal(run(NANO QUICK " --against attention=attention_reference", &report), 0);
  must_be_positive(report, "against.decode_time_ratio");
  must_be_positive(report, "against.prefill_time_ratio");
  assert_string_equal(json_string_value(json_array_get(find(report, "against.kernels"), 0)),
                      "attention=attention_reference");
  json_decref(report);
}

/* It is where most is in the caches; a position that is asked for is one of the context, or an error. */
static void the_usual_position_is_cut(void **state) {
  (void)state;
  json_t *report;
  assert_int_equal(run(NANO " --steps 1 --repeat 1 --prompt 1 --context 20 --json", &report), 0);
  must_be(report, "decode.position", 19);
  json_decref(report);
}

static void refusals(void **state) {
  (void)state;
  static const struct {
    const char *arguments;
    int code;
  } row[] = {
      {NANO " --repeat 0", 2},
      {NANO " --against", 2},
      {NANO " --prompt-tokens 3", 2},
      {NANO " --prompt text", 2},
      {NANO QUICK " --against attention=matmul_plain", 3},
      {NANO QUICK " --against atention=attention_naive", 1},
      {MODEL("andrea") QUICK " --size 12m --weights no-such-file", 1},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    json_t *report;
    const int code = run(row[i].arguments, &report);
    if (code != row[i].code) fail_msg("ordito bench %s ends with %d; wanted %d", row[i].arguments, code, row[i].code);
    json_decref(report);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_fields_of_a_model_that_generates),
      cmocka_unit_test(a_model_without_tokens_is_run),
      cmocka_unit_test(kernels_take_turns),
      cmocka_unit_test(the_usual_position_is_cut),
      cmocka_unit_test(refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
