/* SPDX-License-Identifier: MIT
 *
 * The command itself: exit codes, what goes to stdout and what to stderr, a full disk, an interrupt, an output file
 * that is whole or absent.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "command.h"

static void command_lines(void **state) {
  (void)state;
  static const command_row row[] = {
      {"version", 0, "plugin ABI 0.10", NULL},
      {"--version", 0, "plugin ABI 0.10", NULL},
      {"--help", 0, "generate", NULL},
      {"-h", 0, "exit codes: 0 done", NULL},
      {"help", 0, "--version", NULL},
      {"help generate", 0, "usage: ordito generate MODEL.yaml [options]\ngenerate text\n\n  --size SIZE ", NULL},
      {"--help version", 0, "usage: ordito version\n", NULL},
      {"help help", 0, "usage: ordito help [VERB]\n", NULL},
      {"help shwo", 2, NULL, "verb 'shwo' is unknown; wanted one of: check"},
      {"help show explain", 2, NULL, "help: found 'explain' too many; wanted [VERB]\n"},
      {"show -h", 0, "--plugin FILE                      load this plugin (repeatable)", NULL},
      {"generate -h", 0, "seed of the draws (default 0)", NULL},
      {"generate --help", 0, "--temperature", NULL},
      {"", 2, NULL, "usage: ordito VERB"},
      {"frobnicate", 2, NULL, "verb 'frobnicate' is unknown; wanted one of: check"},
      {"shwo", 2, NULL, ", version; did you mean 'show'?\n"},
      {"SHOW", 2, NULL, "; did you mean 'show'?\n"},
      {"check", 2, NULL, "found 0 arguments; wanted MODEL.yaml"},
      {"version extra", 2, NULL, "found 'extra' too many"},
      {"show " NANO " --no-such-option", 2, NULL, "show has no option '--no-such-option'"},
      {"show " NANO " --pases", 2, NULL, "lists them; did you mean '--passes'?\n"},
      {"show " NANO " --context", 2, NULL, "--context: found 'nothing'; wanted N"},
      {"show " NANO " --context=ten", 2, NULL, "found 'ten'; wanted a whole number"},
      {"generate " NANO " --temperature warm", 2, NULL, "--temperature: found 'warm'; wanted a finite number from 0"},
      {"generate " NANO " --temperature nan", 2, NULL, "--temperature: found 'nan'; wanted a finite number from 0"},
      {"generate " NANO " --temperature inf", 2, NULL, "--temperature: found 'inf'; wanted"},
      {"generate " NANO " --temperature -1", 2, NULL, "--temperature: found '-1'; wanted"},
      {"generate " NANO " --top-p 2", 2, NULL, "--top-p: found '2'; wanted a number above 0, at most 1"},
      {"generate " NANO " --top-p 0", 2, NULL, "--top-p: found '0'; wanted"},
      {"generate " NANO " --top-k -1", 2, NULL, "--top-k: found '-1'; wanted a whole number from 0 to 2147483647"},
      {"generate " NANO " --random-weights x", 2, NULL, "--random-weights: found 'x'; wanted a whole number from 0"},
      {"generate " NANO " --kernel attention", 2, NULL, "--kernel: found 'attention'; wanted SELECTOR=KERNEL[@PLUGIN]"},
      {"bench " NANO " --against attention=", 2, NULL,
       "--against: found 'attention='; wanted SELECTOR=KERNEL[@PLUGIN]"},
      {"generate " NANO " --compute f64", 2, NULL, "--compute: found 'f64'; wanted f32|bf16|int8"},
      {"show " NANO " --disable-pass no_views", 2, NULL,
       "--disable-pass: found 'no_views'; wanted one of lower_composites, fuse_siblings"},
      {"generate " NANO " --prompt a --prompt-ids 1", 2, NULL, "wanted one of them"},
      {"generate " NANO " --prompt-ids 1,,2", 2, NULL, "wanted token ids"},
      {"generate " NANO " --fallback maybe", 2, NULL, "--fallback: found 'maybe'; wanted allow|deny"},
      {"generate " NANO " --compute tf32", 1, NULL,
       "compute: found tf32; wanted f32, bf16 or int8, as the device is a CPU"},
      {"check no-such-file.yaml", 1, NULL, "no-such-file.yaml: cannot be opened; No such file"},
      {"check /", 1, NULL, "/: cannot be read; Is a directory"},
      {"check /proc/self/mem", 4, NULL, "/proc/self/mem: cannot be read; Input/output error"},
      {"run " NANO " --input tokens=no-such-file.npy", 1, NULL, "no-such-file.npy: cannot be opened"},
      {"weights " NANO " no-such-file", 1, NULL, "no-such-file: cannot be opened"},
      {"kernels --plugin no-such-file.so", 1, NULL, "no-such-file.so: cannot be opened"},
      {"check " NANO, 0, "andrea-nano is right", NULL},
      {"check " NANO " " MODEL("minimal") " --strict " MODEL("attention-only") " " MODEL("attention-heads"), 0,
       "attention-heads.yaml: ", NULL},
      {"check " MODEL("andrea"), 1, NULL, "the model comes in sizes 12m, 120m, 480m"},
      {"check " MODEL("andrea") " --size 13m", 1, NULL, "13m"},
      {"kernels", 0, "attention_naive", NULL},
      {"kernels --json", 0, "\"refused\"", NULL},
      {"kernels --threads -1", 2, NULL, "--threads: found '-1'; wanted a whole number from 0 to 256"},
      {"kernels --threads 1000", 2, NULL, "--threads: found '1000'; wanted a whole number from 0 to 256"},
      {"kernels --config ''", 2, NULL, "--config: found ''; wanted FILE\n"},
      {"kernels --plugin=", 2, NULL, "--plugin: found ''; wanted FILE\n"},
      {"kernels --plugin /etc/passwd", 1, NULL, "/etc/passwd"},
      {"generate " NANO " --threads 0 --tokens 3", 0, "", "tokens/s"},
      {"generate " NANO " --prompt-ids 257", 1, NULL, "id 257; wanted 0 to 256"},
      {"generate " NANO " --tokens 600", 1, NULL, "512 available"},
      {"generate " NANO " --context 513", 1, NULL,
       "context: found 513; wanted at most 512, the context of andrea-nano"},
      {"generate " NANO " --context 512 --tokens 2", 0, "", "1 token after the first"},
      {"show " MODEL("minimal") " --context 4", 1, NULL, "minimal has neither caches nor tokens"},
      {"generate " NANO " --context 3 --prompt ab", 1, NULL, "3 in the prompt and 1 to come need 4; 3 available"},
      {"generate " NANO " --context 1 --tokens 1", 1, NULL, "1 available"},
      {"generate " NANO " --prompt - <&-", 4, NULL, "stdin cannot be read"},
      {"generate " NANO " --prompt - </dev/zero", 1, NULL, "bytes on stdin; wanted fewer"},
      {"generate " NANO " --weights no-such-folder", 1, NULL, "no-such-folder"},
      {"generate " NANO " --kernel atention=x", 1, NULL, "sample; did you mean 'attention'?\n"},
      {"generate " NANO " --kernel attention=matmul_plain", 3, NULL, "attention"},
      {"generate " NANO " --kernel attention=attention_naive --tokens 2", 0, "", "tokens/s"},
      {"generate " NANO " --tokens 9 --swap-at 6 --kernel attention=attention_naive", 0, "And the L\n",
       "swapped attention=attention_naive after 6 tokens: 4 nodes, difference "},
      {"generate " NANO " --tokens 6 --swap-at 6 --kernel attention=attention_naive", 0, "And th\n",
       " after 6 tokens: "},
      {"generate " NANO " --tokens 6 --swap-at 7 --kernel attention=attention_naive", 2, NULL,
       "--swap-at: found 7; wanted at most 6, as many tokens as are made\n"},
      {"generate " NANO " --context 9 --swap-at 9 --kernel attention=attention_naive", 1, NULL,
       "--swap-at: found 9; wanted at most 8, as many tokens as are made\n"},
      {"generate " NANO " --tokens 9 --swap-at 6 --kernel attention=attention_fast", 3, NULL,
       "no such kernel of op 'attention'"},
      {"generate " NANO " --tokens 9 --swap-at 6 --kernel attenton=attention_naive", 1, NULL, "'attention'?\n"},
      {"generate " NANO " --tokens 9 --swap-at 6 --kernel attention=attention_naive --kernel attention=attention_naive",
       0, "And the L\n", "swapped attention=attention_naive"},
      {"generate " NANO " --kernel attention=attention_naive@", 2, NULL, "wanted SELECTOR=KERNEL[@PLUGIN]"},
      {"generate " NANO " --swap-at 6", 2, NULL, "--swap-at: found no --kernel; wanted"},
      {"generate " NANO " --swap-at 0 --kernel a=b", 2, NULL, "--swap-at: found '0'; wanted a whole number from 1"},
      {"explain " NANO, 0, "not attention_reference of reference:", NULL},
      {"explain " NANO, 0, "device\n  cpu\nplugins\n", NULL},
      {"explain " NANO " --json", 0, "\"losers\"", NULL},
      {"explain " NANO " --json", 0, "{\"device\": \"cpu\", \"plans\": [", NULL},
      {"show " NANO " --passes --plan", 0, "fuse_siblings", NULL},
      {"show " NANO " --passes --disable-pass lower_composites", 0,
       "written out in the plan all the same: 8 composites that no kernel serves\n", NULL},
      {"explain " NANO " --disable-pass lower_composites", 0,
       "written out, though the pass is disabled: 8 composites that no kernel serves\n", NULL},
      {"explain " NANO " --json --disable-pass lower_composites", 0, "\"written_out\": 8, ", NULL},
      {"explain " NANO " --json --disable-pass lower_composites --kernel mlp=mlp_reference", 0, "\"written_out\": 4, ",
       NULL},
      {"show " NANO " --json", 0, "\"parameters\"", NULL},
      {"show --op-table", 0, "`concat_projection`", NULL},
      {"bench " NANO " --steps 2", 0, "eager / replay", "memory: "},
      {"bench " NANO " --steps 2 --json", 0, "\"tokens_per_s\"", "memory: "},
      {"bench " NANO " --steps 1 --repeat 1 --context 8 --prompt 1000000000", 0, "eager / replay",
       "--prompt: found 1000000000; the context holds 8 tokens: the prompt is cut to that\n"},
      {"bench " NANO " --steps 1 --context 20 --position 20", 1, NULL,
       "ordito: --position: found 20; wanted at most 19, as the context holds 20 tokens\n"},
      {"bench " NANO " --steps 1 --repeat 1 --context 20 --position 19", 0, "decode at 19 ", "memory: "},
      {"weights " NANO " " NANO_WEIGHTS, 0, "0 faults", NULL},
      {"weights " MODEL("attention-only") " " NANO_WEIGHTS, 1, "\n  missing      wq (line ", NULL},
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
      {"kernel-test " TEST_PLUGIN("bad_kernels") " --cpu quantum", 2, NULL, "quantum"},
      {"convert " NANO " " NANO_WEIGHTS " --to i8.safetensors --dtype i8", 0, "", "wrote i8.safetensors"},
      {"weights " NANO " i8.safetensors", 0, "h.0.wq i8 [256, 256]", NULL},
      {"generate " NANO " --weights i8.safetensors --tokens 2", 0, "", "tokens/s"},
      {"convert " NANO " i8.safetensors --to a.bin", 1, NULL, "is I8; a checkpoint holds F32"},
      {"convert " NANO " " NANO_WEIGHTS " --to a.safetensors --dtype i4", 2, NULL, "--dtype: found 'i4'; wanted f32"},
      {"convert " NANO " " NANO_WEIGHTS " --to a.bin --dtype int8", 2, NULL,
       "--dtype: found 'int8'; wanted f32, which is what the checkpoint 'a.bin' of --to holds\n"},
      {"convert " MODEL("attention-only") " " NANO_WEIGHTS " --to a.safetensors", 1, NULL, "faults for "},
      {"weights " NANO " a.safetensors", 1, NULL, "a.safetensors"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) check_command(&row[i]);
}

static uint32_t occurrences(const char *text, const char *part) {
  uint32_t count = 0;
  while ((text = strstr(text, part)) != NULL) count++, text++;
  return count;
}

/* Whoever shows a file from a stranger must not have his terminal taken over by it. */
static void control_characters_are_shown_not_sent(void **state) {
  (void)state;
  write_text("loud.yaml", "ordito: 1\nname: loud\nabout: \"red \\e[31m\\a and C1 \\x9b, but \\u00e9\"\n"
                          "dims: {d: 8}\ninputs: {x: {dtype: f32, shape: [d]}}\ngraph: [relu: {in: x, out: y}]\n"
                          "outputs: [y]\n");
  static const struct {
    const char *arguments, *shown;
  } row[] = {
      {"check loud.yaml", "red \\x1b[31m\\x07 and C1 \\xc2\\x9b, but \xc3\xa9\n"},
      {"show loud.yaml", "red \\x1b[31m\\x07 and C1 \\xc2\\x9b, but \xc3\xa9\n"},
      {"check \"$(printf 'a\\033[2J\\377.yaml')\"", "ordito: a\\x1b[2J\\xff.yaml: cannot be opened"},
      {"\"$(printf 'a\\033')\"", "verb 'a\\x1b' is unknown"},
      {"check loud.yaml --context \"$(printf '1\\r')\"", "--context: found '1\\x0d'; wanted"},
      {"run loud.yaml --input \"$(printf 'x\\033=x.npy')\" --output \"$(printf 'y\\033')\"", "found 'y\\x1b'; wanted"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    const outcome *got = run(row[i].arguments);
    if (!strstr(got->out, row[i].shown) && !strstr(got->err, row[i].shown))
      fail_msg("ordito %s\n  wanted: %s\n  stdout: %.400s\n  stderr: %.400s", row[i].arguments, row[i].shown, got->out,
               got->err);
    assert_null(strpbrk(got->out, "\x1b\a\r\xff"));
    assert_null(strpbrk(got->err, "\x1b\a\r\xff"));
  }
  const outcome *json = run("show loud.yaml --plan --json");
  assert_int_equal(json->code, 0);
  assert_null(strpbrk(json->out, "\x1b\a\x7f"));
}

/* A run configuration says how to run; an option says it louder. */
static void a_configuration_joins_the_options(void **state) {
  (void)state;
  write_text("run.yaml", "ordito_run: 1\nthreads: 1\ncontext: 64\nkernels: {attention: attention_naive, matmul: "
                         "matmul_plain}\ncompute: f32\n");
  write_text("wrong.yaml", "ordito_run: 1\nthreads: many\n");
  const outcome *got = run("explain " NANO " --config run.yaml");
  assert_int_equal(got->code, 0);
  assert_non_null(strstr(got->out, "attention: attention_naive of"));
  assert_non_null(strstr(got->out, "matmul: matmul_plain of"));
  got = run("explain " NANO " --config run.yaml --kernel matmul=matmul_reference");
  assert_int_equal(got->code, 0);
  assert_non_null(strstr(got->out, "attention: attention_naive of"));
  assert_null(strstr(got->out, "matmul: matmul_plain of"));
  got = run("generate " NANO " --config run.yaml --tokens 4 --swap-at 2 --kernel attention=attention_flash");
  assert_int_equal(got->code, 0);
  assert_non_null(strstr(got->err, "swapped attention=attention_flash after 2 tokens")); /* and nothing besides */
  got = run("generate " NANO " --config run.yaml --tokens 4 --swap-at 2");
  assert_int_equal(got->code, 2);
  assert_non_null(strstr(got->err, "--swap-at: found no --kernel; wanted"));
  got = run("explain " NANO " --config run.yaml --compute bf16");
  assert_int_equal(got->code, 3); /* the pinned matmul makes products in f32 only */
  assert_non_null(strstr(got->err, "products are wanted in bf16"));
  got = run("generate " NANO " --config run.yaml --tokens 100");
  assert_int_equal(got->code, 1);
  assert_non_null(strstr(got->err, "64"));
  assert_int_equal(run("generate " NANO " --config run.yaml --tokens 100 --context 512 --compute f32")->code, 0);
  got = run("generate " NANO " --config wrong.yaml");
  assert_int_equal(got->code, 1);
  assert_non_null(strstr(got->err, "wrong.yaml:2:10: 'many' is no number"));
  got = run("generate " NANO " --config absent.yaml");
  assert_int_equal(got->code, 1);
  assert_non_null(strstr(got->err, "absent.yaml: cannot be opened"));
}

/* A model of 4000 tokens is read twice, once to see how long it is. */
static void a_bounded_context_warns_once(void **state) {
  (void)state;
  write_text("long.yaml", "ordito: 1\nname: long\ndims: {unused: 3, seq: {min: 1, max: 4000}}\n"
                          "inputs: {t: {dtype: i32, shape: [1, seq], fill: tokens}}\nweights: {w: {shape: [9, 8]}}\n"
                          "caches: {kv: {length: 4000}}\ngraph:\n  - embedding: {in: t, weight: w, out: x}\n"
                          "  - reshape: {in: x, shape: [1, 1, seq, 8], out: h}\n"
                          "  - attention: {q: h, k: h, v: h, causal: true, cache: kv, out: a}\n"
                          "  - reshape: {in: a, shape: [1, seq, 8], out: a}\n  - pool: {in: a, kind: last, out: n}\n"
                          "outputs: [n]\ngenerate: {logits: n, stop: []}\n");
  const outcome *got = run("generate long.yaml --random-weights 1 --prompt-ids 3,4 --tokens 2 --print-ids");
  assert_int_equal(got->code, 0);
  assert_int_equal(occurrences(got->err, "warning[unused-dim]"), 1);
  assert_non_null(strstr(got->err, "context bounded to 2048 of 4000 tokens (--context)\n"));
  got = run("generate long.yaml --random-weights 1 --prompt-ids 3,4 --tokens 2100 --context 3000");
  assert_int_equal(got->code, 0);
  assert_null(strstr(got->err, "bounded"));
  write_text("starts.yaml", "ordito: 1\nname: starts\ndims: {unused: 3, d: 8}\ninputs: {x: {dtype: f32, shape: [d]}}\n"
                            "graph: [relu: {in: x, out: y}]\noutputs: [y]\n");
  got = run("bench starts.yaml --repeat 3"); /* which opens it three times */
  assert_int_equal(got->code, 0);
  assert_int_equal(occurrences(got->err, "warning[unused-dim]"), 1);
  got = run("check long.yaml --strict");
  assert_int_equal(got->code, 1);
  assert_non_null(strstr(got->err, "long.yaml: 1 warning; wanted none (--strict)"));
}

/* Whatever its first token is, it stops there. */
static void a_swap_that_is_not_reached_is_an_error(void **state) {
  (void)state;
  write_text("stops.yaml", "ordito: 1\nname: stops\ndims: {seq: {min: 1, max: 64}}\n"
                           "inputs: {t: {dtype: i32, shape: [1, seq], fill: tokens}}\nweights: {w: {shape: [8, 8]}}\n"
                           "caches: {kv: {length: 64}}\ngraph:\n  - embedding: {in: t, weight: w, out: x}\n"
                           "  - reshape: {in: x, shape: [1, 1, seq, 8], out: h}\n"
                           "  - attention: {q: h, k: h, v: h, causal: true, cache: kv, out: a}\n"
                           "  - reshape: {in: a, shape: [1, seq, 8], out: a}\n  - pool: {in: a, kind: last, out: n}\n"
                           "outputs: [n]\ngenerate: {logits: n, stop: [0, 1, 2, 3, 4, 5, 6, 7]}\n");
  const outcome *got = check_command(&(command_row){
      "generate stops.yaml --random-weights 1 --prompt-ids 1 --tokens 9 --print-ids --swap-at 2 "
      "--kernel attention=attention_naive",
      1, "\n", "ordito: nothing was swapped: the generation ended after 1 token; wanted 2 (--swap-at)\n"});
  assert_int_equal(strlen(got->out), 2); /* one id */
}

/* Short output fails at its end; of long output a part has failed before. */
static void a_full_output_is_told_with_its_reason(void **state) {
  (void)state;
  static const char *const arguments[] = {
      "help",
      "help show",
      "version",
      "check " NANO,
      "show " NANO,
      "show " NANO " --json",
      "show --op-table",
      "explain " NANO,
      "explain " NANO " --json",
      "kernels",
      "kernels --json",
      "kernel-test " PLUGIN("attention_naive"),
      "kernel-test " PLUGIN("attention_naive") " --json",
      "weights " NANO " " NANO_WEIGHTS,
      "weights " NANO " " NANO_WEIGHTS " --json",
      "bench " NANO " --steps 1 --repeat 1",
      "bench " NANO " --steps 1 --repeat 1 --json",
      "generate " NANO " --tokens 20",
      "generate " NANO " --tokens 20 --print-ids",
  };
  for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++) {
    char full[512];
    snprintf(full, sizeof full, "%s >/dev/full", arguments[i]);
    check_command(&(command_row){full, 4, NULL, "ordito: the output could not be written; No space left on device\n"});
  }
  check_command(&(command_row){"show " NANO " >&-", 4, NULL, "could not be written; Bad file descriptor\n"});
}

static void a_part_is_shown_alone(void **state) {
  (void)state;
  static const struct {
    const char *arguments;
    bool shows_ops, shows_passes, shows_plan;
  } row[] = {{"show " NANO, true, false, false},
             {"show " NANO " --passes", false, true, false},
             {"show " NANO " --plan", false, false, true},
             {"show " NANO " --passes --plan", true, true, true}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    const outcome *got = run(row[i].arguments);
    assert_int_equal(strncmp(got->out, "andrea-nano: ", strlen("andrea-nano: ")), 0);
    assert_int_equal(strstr(got->out, "\nparameters\n") != NULL, row[i].shows_ops);
    assert_int_equal(strstr(got->out, "\npasses for all lengths") != NULL, row[i].shows_passes);
    assert_int_equal(strstr(got->out, "\nplan for all lengths: ") != NULL, row[i].shows_plan);
  }
}

/* What numpy makes of a list of whole numbers. */
static void a_wider_type_comes_with_its_conversion(void **state) {
  (void)state;
  char command[1024];
  snprintf(command, sizeof command,
           "cd %s && { printf '\\223NUMPY\\001\\000\\166\\000%%-117s\\n' "
           "\"{'descr': '<i8', 'fortran_order': False, 'shape': (1, 1), }\"; printf '\\111%%07d' 0 | tr 0 '\\000'; } "
           ">wide.npy",
           folder);
  assert_int_equal(system(command), 0);
  const outcome *got = run("run " NANO " --input tokens=wide.npy");
  assert_int_equal(got->code, 1);
  assert_non_null(strstr(got->err, "input 'tokens': found i64; wanted i32\n"
                                   "in Python: numpy.save('wide.npy', numpy.load('wide.npy').astype('int32'))\n"));
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
  assert_int_equal(got->code, 1);
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(command_lines),
      cmocka_unit_test(control_characters_are_shown_not_sent),
      cmocka_unit_test(a_configuration_joins_the_options),
      cmocka_unit_test(a_bounded_context_warns_once),
      cmocka_unit_test(a_swap_that_is_not_reached_is_an_error),
      cmocka_unit_test(a_full_output_is_told_with_its_reason),
      cmocka_unit_test(a_part_is_shown_alone),
      cmocka_unit_test(a_wider_type_comes_with_its_conversion),
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
