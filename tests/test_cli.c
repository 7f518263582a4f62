/* SPDX-License-Identifier: MIT
 *
 * The command itself: exit codes, what goes to stdout and what to stderr, a full disk, an interrupt, an output file
 * that is whole or absent.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

#define ORDITO ORDITO_BUILD_DIRECTORY "/bin/ordito"
#define NANO MODEL("andrea-nano")

static char folder[] = "/tmp/ordito-cli-XXXXXX";

typedef struct outcome {
  int code;
  char out[65536], err[16384];
} outcome;

static void read_all(const char *path, char *into, size_t bytes) {
  FILE *file = fopen(path, "rb");
  into[0] = 0;
  if (!file) return;
  into[fread(into, 1, bytes - 1, file)] = 0;
  fclose(file);
}

/* Runs `ordito ARGUMENTS` in the test's folder. A redirection in the arguments wins. */
static outcome *run(const char *arguments) {
  static outcome result;
  char command[4096];
  snprintf(command, sizeof command, "cd %s && %s >out 2>err %s", folder, ORDITO, arguments);
  const int status = system(command);
  char path[128];
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  snprintf(path, sizeof path, "%s/out", folder);
  read_all(path, result.out, sizeof result.out);
  snprintf(path, sizeof path, "%s/err", folder);
  read_all(path, result.err, sizeof result.err);
  return &result;
}

static void command_lines(void **state) {
  (void)state;
  static const struct {
    const char *arguments;
    int code;
    const char *out, *err; /* must occur; NULL: must be empty */
  } row[] = {
      {"version", 0, "plugin ABI 0.9", NULL},
      {"--help", 0, "generate", NULL},
      {"generate --help", 0, "--temperature", NULL},
      {"", 2, NULL, "usage: ordito VERB"},
      {"frobnicate", 2, NULL, "verb 'frobnicate' is unknown; wanted one of: check"},
      {"check", 2, NULL, "found 0 arguments; wanted MODEL.yaml"},
      {"version extra", 2, NULL, "found 'extra' too many"},
      {"show " NANO " --no-such-option", 2, NULL, "show has no option '--no-such-option'"},
      {"show " NANO " --context", 2, NULL, "--context: found 'nothing'; wanted N"},
      {"show " NANO " --context=ten", 2, NULL, "found 'ten'; wanted a whole number"},
      {"generate " NANO " --temperature warm", 2, NULL, "found 'warm'; wanted a number"},
      {"generate " NANO " --prompt a --prompt-ids 1", 2, NULL, "wanted one of them"},
      {"generate " NANO " --prompt-ids 1,,2", 2, NULL, "wanted token ids"},
      {"generate " NANO " --fallback maybe", 2, NULL, "wanted allow or deny"},
      {"check no-such-file.yaml", 4, NULL, "no-such-file.yaml: cannot be opened; No such file"},
      {"check " NANO, 0, "andrea-nano is right", NULL},
      {"check " NANO " " MODEL("minimal") " --strict " MODEL("attention-only") " " MODEL("attention-heads"), 0,
       "attention-heads.yaml: ", NULL},
      {"check " MODEL("andrea"), 1, NULL, "the model comes in sizes 12m, 120m, 480m"},
      {"check " MODEL("andrea") " --size 13m", 1, NULL, "13m"},
      {"kernels", 0, "attention_naive", NULL},
      {"kernels --json", 0, "\"refused\"", NULL},
      {"kernels --threads -1", 1, NULL, "-1"},
      {"kernels --threads 1000", 1, NULL, "1000"},
      {"kernels --plugin /etc/passwd", 1, NULL, "/etc/passwd"},
      {"generate " NANO " --threads 0 --tokens 3", 0, "", "tokens/s"},
      {"generate " NANO " --temperature nan", 1, NULL, "temperature: found nan"},
      {"generate " NANO " --prompt-ids 257", 1, NULL, "id 257; wanted 0 to 256"},
      {"generate " NANO " --tokens 600", 1, NULL, "512 available"},
      {"generate " NANO " --context 3 --prompt ab", 1, NULL, "3 in the prompt and 1 to come need 4; 3 available"},
      {"generate " NANO " --context 1 --tokens 1", 1, NULL, "1 available"},
      {"generate " NANO " --prompt - <&-", 4, NULL, "stdin cannot be read"},
      {"generate " NANO " --prompt - </dev/zero", 1, NULL, "bytes on stdin; wanted fewer"},
      {"generate " NANO " --weights no-such-folder", 4, NULL, "no-such-folder"},
      {"generate " NANO " --kernel attention=matmul_plain", 3, NULL, "attention"},
      {"generate " NANO " --kernel attention=attention_naive --tokens 2", 0, "", "tokens/s"},
      {"explain " NANO, 0, "not attention_reference of reference:", NULL},
      {"explain " NANO " --json", 0, "\"losers\"", NULL},
      {"show " NANO " --passes --plan", 0, "fuse_siblings", NULL},
      {"show " NANO " --json", 0, "\"parameters\"", NULL},
      {"show --op-table", 0, "`concat_projection`", NULL},
      {"bench " NANO " --steps 2", 0, "eager / replay", "memory: "},
      {"bench " NANO " --steps 2 --json", 0, "\"tokens_per_s\"", "memory: "},
      {"weights " NANO " " NANO_WEIGHTS, 0, "0 faults", NULL},
      {"weights " MODEL("attention-only") " " NANO_WEIGHTS, 1, "missing", NULL},
      {"generate " NANO " --tokens 20 >/dev/full", 4, NULL, "could not be written"},
      {"show " NANO " >/dev/full", 4, NULL, "could not be written"},
      {"kernel-test /etc/passwd", 1, NULL, "/etc/passwd"},
      {"kernel-test " PLUGIN("attention_naive"), 0, "0 failed", NULL},
      {"kernel-test " TEST_PLUGIN("bad_kernels"), 1, "crashed: ", NULL},
      {"kernel-test " TEST_PLUGIN("bad_kernels"), 1, "bad_kernels.so --row silu_crashing:0", NULL},
      {"kernel-test " TEST_PLUGIN("bad_kernels") " --row silu_crashing:0", 1, "FAILED  silu_crashing:0", NULL},
      {"kernel-test " TEST_PLUGIN("bad_kernels") " --row relu_wrong:0", 1, "bad_kernels.so --row relu_wrong:0", NULL},
      {"kernel-test " TEST_PLUGIN("bad_kernels") " --row relu_wrong:0 --json", 1, "\"failed\": 1", NULL},
      {"kernel-test " TEST_PLUGIN("bad_kernels") " --row tanh_silent:0", 1, "without a reason", NULL},
      {"kernel-test " TEST_PLUGIN("bad_kernels") " --row sigmoid_unprepared:0", 1, "the moon", NULL},
      {"kernel-test " TEST_PLUGIN("bad_kernels") " --row relu2_failing:0", 1, "the loom broke", NULL},
      {"kernel-test " TEST_PLUGIN("bad_kernels") " --row gelu_leaving:0", 1, "crashed: it called exit(0)", NULL},
      {"kernel-test " TEST_PLUGIN("bad_kernels") " --row relu_wrong:999", 1, NULL, "no row was run"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    const outcome *got = run(row[i].arguments);
    if (got->code != row[i].code || (row[i].out ? !strstr(got->out, row[i].out) : got->out[0] != 0) ||
        (row[i].err ? !strstr(got->err, row[i].err) : got->err[0] != 0))
      fail_msg("ordito %s\n  code %d, wanted %d\n  stdout: %.400s\n  wanted: %s\n  stderr: %.400s\n  wanted: %s",
               row[i].arguments, got->code, row[i].code, got->out, row[i].out ? row[i].out : "(nothing)", got->err,
               row[i].err ? row[i].err : "(nothing)");
  }
}

static void parameters_are_counted(void **state) {
  (void)state;
  static const struct {
    const char *size, *part;
  } row[] = {{"12m", "12,780,288"},
             {"120m", "2,359,296 in the first"},
             {"120m", "28,311,552"},
             {"120m", "98,698,752"},
             {"480m", "480,513,024"}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char arguments[256];
    snprintf(arguments, sizeof arguments, "show " MODEL("andrea") " --size %s", row[i].size);
    const outcome *got = run(arguments);
    if (got->code != 0 || !strstr(got->out, row[i].part))
      fail_msg("%s lacks %s:\n%s", arguments, row[i].part, got->out);
  }
}

static void the_last_line_is_the_ids(void **state) {
  (void)state;
  const outcome *got = run("generate " NANO " --prompt 'In the' --tokens 4 --print-ids");
  assert_int_equal(got->code, 0);
  const char *end = got->out + strlen(got->out) - 1, *line = end - 1;
  while (line > got->out && line[-1] != '\n') line--;
  int id[4], used = 0;
  assert_int_equal(sscanf(line, "%d,%d,%d,%d%n", &id[0], &id[1], &id[2], &id[3], &used), 4);
  assert_int_equal(line[used], '\n');
  char prompt[128];
  char text[64];
  snprintf(text, sizeof text, "%s", line);
  text[strcspn(text, "\n")] = 0;
  snprintf(prompt, sizeof prompt, "generate " NANO " --prompt-ids 256,73,110,32,116,104,101 --tokens 4 --print-ids");
  got = run(prompt);
  assert_non_null(strstr(got->out, text));
}

static void the_program_runs_from_any_folder(void **state) {
  (void)state;
  char command[1024];
  snprintf(command, sizeof command, "cd / && %s kernels >%s/out 2>&1", ORDITO, folder);
  assert_int_equal(system(command), 0);
  char out[8192], path[128];
  snprintf(path, sizeof path, "%s/out", folder);
  read_all(path, out, sizeof out);
  assert_non_null(strstr(out, "cpu_plain"));
}

static void conversions_keep_the_numbers(void **state) {
  (void)state;
  assert_int_equal(run("convert " NANO " " NANO_WEIGHTS " --to a.bin --dtype f32")->code, 0);
  assert_int_equal(run("convert " NANO " a.bin --to b.safetensors --dtype bf16")->code, 0);
  assert_int_equal(run("weights " NANO " b.safetensors")->code, 0);
  char from_file[512];
  const outcome *got = run("generate " NANO " --tokens 20 --print-ids");
  assert_true(snprintf(from_file, sizeof from_file, "%s", got->out) < (int)sizeof from_file);
  assert_string_equal(run("generate " NANO " --weights b.safetensors --tokens 20 --print-ids")->out, from_file);
  assert_string_equal(run("generate " NANO " --weights a.bin --tokens 20 --print-ids")->out, from_file);
  got = run("convert " NANO " a.bin --to no/such/folder/c.safetensors");
  assert_int_equal(got->code, 4);
  got = run("convert " NANO " a.bin --to c.txt");
  assert_int_equal(got->code, 2);
}

/* A file system that is full: the limit on file sizes stands in for it. */
static void a_full_disk_leaves_no_file(void **state) {
  (void)state;
  char command[1024], path[128];
  snprintf(command, sizeof command, "cd %s && (ulimit -f 100; exec %s convert %s %s --to full.safetensors >out 2>err)",
           folder, ORDITO, NANO, NANO_WEIGHTS);
  const int status = system(command);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 4);
  struct stat info;
  snprintf(path, sizeof path, "%s/full.safetensors", folder);
  assert_int_equal(stat(path, &info), -1);
  snprintf(command, sizeof command, "test -z \"$(find %s -name 'full*')\"", folder);
  assert_int_equal(system(command), 0);
}

/* Wherever it is met: the file is whole or not there, and nothing lies beside it. */
static void an_interrupt_leaves_no_part_of_a_file(void **state) {
  (void)state;
  char command[1024];
  for (int delay_ms = 5; delay_ms < 60; delay_ms += 5) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      if (chdir(folder) == 0 && freopen("err", "w", stderr))
        execl(ORDITO, "ordito", "convert", NANO, NANO_WEIGHTS, "--to", "cut.bin", (char *)NULL);
      _exit(99);
    }
    int status = 0;
    usleep((useconds_t)delay_ms * 1000);
    kill(child, delay_ms % 2 ? SIGINT : SIGTERM);
    assert_int_equal(waitpid(child, &status, 0), child);
    snprintf(command, sizeof command, "test -z \"$(find %s -name 'cut.bin.*')\"", folder);
    assert_int_equal(system(command), 0);
  }
}

static void an_interrupt_ends_a_generation(void **state) {
  (void)state;
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    const int nothing = open("/dev/null", O_WRONLY);
    dup2(nothing, 1);
    dup2(nothing, 2);
    execl(ORDITO, "ordito", "generate", MODEL("andrea"), "--size", "120m", "--random-weights", "1", "--tokens", "900",
          (char *)NULL);
    _exit(99);
  }
  int status = 0;
  for (int tries = 0; tries < 600; tries++) { /* until it has installed its handler and runs */
    usleep(50 * 1000);
    if (tries >= 20) kill(child, SIGINT);
    if (waitpid(child, &status, WNOHANG) == child) break;
    status = -1;
  }
  if (status == -1) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    fail_msg("an interrupt did not end the program");
  }
  assert_true((WIFEXITED(status) && WEXITSTATUS(status) == 130) || (WIFSIGNALED(status) && WTERMSIG(status) == SIGINT));
}

static int make_folder(void **state) {
  (void)state;
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(command_lines),
      cmocka_unit_test(parameters_are_counted),
      cmocka_unit_test(the_last_line_is_the_ids),
      cmocka_unit_test(the_program_runs_from_any_folder),
      cmocka_unit_test(conversions_keep_the_numbers),
      cmocka_unit_test(a_full_disk_leaves_no_file),
      cmocka_unit_test(an_interrupt_ends_a_generation),
      cmocka_unit_test(an_interrupt_leaves_no_part_of_a_file),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
