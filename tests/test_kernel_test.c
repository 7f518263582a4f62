/* SPDX-License-Identifier: MIT
 *
 * The test of kernels, as the library runs it and as the command does, which outlives what a plugin may do.
 */
#include <jansson.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

#define COMMAND ORDITO_BUILD_DIRECTORY "/bin/ordito kernel-test "
#define MOODY TEST_PLUGIN("moody")

typedef struct outcome {
  int code;
  char out[1 << 18];
} outcome;

/* Runs `ordito kernel-test ARGUMENTS`, with `moment` in the environment; stderr is thrown away. */
static outcome *run(const char *moment, const char *arguments) {
  static outcome made;
  char command[1024];
  snprintf(command, sizeof command, "ORDITO_TEST_MOMENT=%s exec " COMMAND "%s 2>/dev/null", moment, arguments);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  made.out[fread(made.out, 1, sizeof made.out - 1, pipe)] = '\0';
  const int status = pclose(pipe);
  made.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
  return &made;
}

static json_t *read_json(const outcome *got) {
  json_error_t fault;
  json_t *root = json_loads(got->out, JSON_REJECT_DUPLICATES, &fault);
  if (!root) fail_msg("line %d: %s\n%.2000s", fault.line, fault.text, got->out);
  return root;
}

static const char *text_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "(none)";
}

/* How many rows have this verdict; the report's own count must be the same. */
static size_t count_rows(const json_t *root, const char *verdict, const char *key) {
  size_t count = 0, index;
  json_t *row;
  json_array_foreach(json_object_get(root, "rows"), index, row) count += strcmp(text_of(row, "verdict"), verdict) == 0;
  assert_int_equal(json_integer_value(json_object_get(root, key)), count);
  return count;
}

static const json_t *find_row(const json_t *root, const char *name) {
  size_t index;
  json_t *row;
  json_array_foreach(json_object_get(root, "rows"), index, row) if (strcmp(text_of(row, "row"), name) == 0) return row;
  fail_msg("no row %s", name);
  return NULL;
}

/* Every row has its verdict, whatever became of those before it. */
static void rows_behind_a_crash_are_run(void **state) {
  (void)state;
  const outcome *got = run("never", TEST_PLUGIN("bad_kernels") " --json");
  assert_int_equal(got->code, 1);
  json_t *root = read_json(got);
  const size_t passed = count_rows(root, "passed", "passed"), refused = count_rows(root, "refused", "refused"),
               failed = count_rows(root, "failed", "failed"), crashed = count_rows(root, "crashed", "crashed"),
               rows = json_array_size(json_object_get(root, "rows"));
  assert_int_equal(count_rows(root, "timed out", "timed_out"), 0);
  assert_int_equal(passed + refused + failed + crashed, rows);
  assert_int_equal(rows % 11, 0); /* eleven kernels of pointwise ops, which have the same rows */
  assert_true(failed > 0 && crashed > 2 && refused > 0);
  const json_t *row = find_row(root, "silu_crashing:1");
  assert_string_equal(text_of(row, "verdict"), "crashed");
  assert_true(json_integer_value(json_object_get(row, "signal")) > 0);
  assert_string_equal(text_of(row, "again"), "ordito kernel-test " TEST_PLUGIN("bad_kernels") " --row silu_crashing:1");
  row = find_row(root, "gelu_scratch:1");
  assert_string_equal(text_of(row, "verdict"), "failed");
  assert_string_equal(text_of(row, "text"),
                      "query: wants 4611686018427387904 bytes of scratch, more than this machine has");
  row = find_row(root, "gelu_leaving:1"); /* of the last kernel */
  assert_string_equal(text_of(row, "verdict"), "crashed");
  assert_string_equal(text_of(row, "text"), "it called exit(0)");
  assert_null(json_object_get(row, "signal"));
  assert_true(json_is_null(json_object_get(root, "fault")));
  json_decref(root);
}

static void a_hang_and_a_crash_are_verdicts(void **state) {
  (void)state;
  const outcome *got = run("never", MOODY " --json --time-limit 1 --cpu baseline");
  assert_int_equal(got->code, 1);
  json_t *root = read_json(got);
  const json_t *row = find_row(root, "tanh_moody:2"); /* in[3,130] */
  assert_int_equal(count_rows(root, "failed", "failed"), 0);
  assert_string_equal(text_of(row, "verdict"), "timed out");
  assert_string_equal(text_of(row, "text"), "no end within 1 s (--time-limit)");
  assert_string_equal(text_of(row, "again"), "ordito kernel-test " MOODY " --row tanh_moody:2 --cpu baseline");
  row = find_row(root, "tanh_moody:3"); /* in[2,3,4,5,6,7] */
  assert_string_equal(text_of(row, "verdict"), "crashed");
  assert_int_equal(json_integer_value(json_object_get(row, "signal")), SIGABRT);
  assert_string_equal(text_of(find_row(root, "tanh_moody:0"), "verdict"), "passed");
  assert_string_equal(text_of(find_row(root, "tanh_moody:12"), "verdict"), "passed"); /* behind both */
  assert_string_equal(text_of(find_row(root, "tanh_moody:5"), "text"), "wants dense f32 of fixed size; features 0");
  json_decref(root);

  got = run("never", MOODY " --time-limit 1");
  assert_int_equal(got->code, 1);
  static const char *const wanted[] = {
      "FAILED  tanh_moody:2  in[3,130] \n        timed out: no end within 1 s (--time-limit)\n        again: ordito ",
      "        crashed: Aborted\n", "0 failed, 1 crashed, 1 timed out\n", "tanh_moody                   tanh "};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
    if (!strstr(got->out, wanted[i])) fail_msg("no '%s' in\n%s", wanted[i], got->out);
  assert_null(strstr(got->out, "this is no part"));
}

/* Nothing of that is put down to a row. */
static void crashes_outside_the_rows(void **state) {
  (void)state;
  static const struct {
    const char *moment, *fault;
    bool has_rows;
  } row[] = {{"load", "crashed: Aborted while it was loaded", false},
             {"unload", "crashed: Aborted while it was unloaded", true}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    const outcome *got = run(row[i].moment, MOODY " --row tanh_moody:0 --json");
    assert_int_equal(got->code, 1);
    json_t *root = read_json(got);
    assert_string_equal(text_of(root, "fault"), row[i].fault);
    assert_int_equal(count_rows(root, "passed", "passed"), row[i].has_rows);
    assert_int_equal(count_rows(root, "crashed", "crashed"), 0);
    json_decref(root);
    got = run(row[i].moment, MOODY " --row tanh_moody:0");
    assert_int_equal(got->code, 1);
    char wanted[512];
    snprintf(wanted, sizeof wanted, "FAILED  %s\n        again: ordito kernel-test " MOODY " --row tanh_moody:0\n",
             row[i].fault);
    if (!strstr(got->out, wanted)) fail_msg("no '%s' in\n%s", wanted, got->out);
  }
}

/* A child that no longer tells anything is not waited for longer than one that hangs; and what it tells is not trusted.
 */
static void a_spoiled_pipe(void **state) {
  (void)state;
  const outcome *got = run("close", MOODY " --row tanh_moody:2 --time-limit 1");
  assert_int_equal(got->code, 1);
  if (!strstr(got->out, "1 timed out")) fail_msg("%s", got->out);
  got = run("scribble", MOODY " --row tanh_moody:2 --time-limit 1");
  assert_int_equal(got->code, 1);
  if (!strstr(got->out, "1 timed out")) fail_msg("%s", got->out);
}

/* Without a shell in between, which would undo it. */
static void a_caller_that_ignores_the_end_of_children(void **state) {
  (void)state;
  char out[4096];
  int end[2];
  assert_int_equal(pipe(end), 0);
  const pid_t id = fork();
  if (id == 0) {
    signal(SIGCHLD, SIG_IGN);
    dup2(end[1], STDOUT_FILENO);
    execl(ORDITO_BUILD_DIRECTORY "/bin/ordito", "ordito", "kernel-test", MOODY, "--row", "tanh_moody:3", (char *)NULL);
    _exit(127);
  }
  assert_true(id > 0);
  close(end[1]);
  FILE *told = fdopen(end[0], "r");
  assert_non_null(told);
  out[fread(out, 1, sizeof out - 1, told)] = '\0';
  fclose(told);
  waitpid(id, NULL, 0);
  if (!strstr(out, "crashed: Aborted\n")) fail_msg("%s", out);
}

/* The pipe has an end only when nobody holds it, the child neither. */
static void a_hang_does_not_outlive_the_command(void **state) {
  (void)state;
  char line[256];
  long id = 0;
  FILE *pipe = popen("echo $$; exec " COMMAND MOODY " --row tanh_moody:2 2>&1", "r");
  assert_non_null(pipe);
  assert_non_null(fgets(line, sizeof line, pipe));
  id = strtol(line, NULL, 10);
  assert_true(id > 1);
  assert_non_null(fgets(line, sizeof line, pipe));
  assert_string_equal(line, "this is no part of a report\n"); /* it is in the row */
  assert_int_equal(kill((pid_t)id, SIGKILL), 0);
  assert_null(fgets(line, sizeof line, pipe));
  pclose(pipe);
}

static void note_features(void *context, const ord_kernel_row *row) {
  if (row->state != ORD_ROW_BEGINS) ++*(uint32_t *)context;
}

static void what_is_run(void **state) {
  (void)state;
  static const struct {
    const char *row, *cpu;
    uint32_t first, ended;
  } row[] = {{"relu_rows:2", NULL, 0, 1},
             {"relu_rows:2", "baseline", 0, 1},
             {"relu_rows:2", "native", 1, 0},
             {NULL, NULL, 10, 0}};
  ord_error err = ORD_ERROR_INIT;
  uint32_t all = 0;
  MUST(ord_kernel_test(TEST_PLUGIN("good_relu"), NULL, note_features, &all, &err));
  assert_true(all > 10);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    const ord_kernel_test_options options = {
        .struct_size = sizeof options, .row = row[i].row, .cpu = row[i].cpu, .first = row[i].first};
    uint32_t ended = 0;
    MUST(ord_kernel_test(TEST_PLUGIN("good_relu"), &options, note_features, &ended, &err));
    assert_int_equal(ended, row[i].row ? row[i].ended : all - row[i].first);
  }
  const ord_kernel_test_options unknown = {.struct_size = sizeof unknown, .cpu = "quantum"};
  MUST_FAIL(ord_kernel_test(TEST_PLUGIN("good_relu"), &unknown, note_features, &all, &err), "quantum");
  const ord_kernel_test_options nothing = {.struct_size = sizeof nothing, .row = "relu_rows:x"};
  MUST_FAIL(ord_kernel_test(TEST_PLUGIN("good_relu"), &nothing, note_features, &all, &err), "no row was run");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_behind_a_crash_are_run),
      cmocka_unit_test(a_hang_and_a_crash_are_verdicts),
      cmocka_unit_test(crashes_outside_the_rows),
      cmocka_unit_test(a_spoiled_pipe),
      cmocka_unit_test(a_caller_that_ignores_the_end_of_children),
      cmocka_unit_test(a_hang_does_not_outlive_the_command),
      cmocka_unit_test(what_is_run),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
