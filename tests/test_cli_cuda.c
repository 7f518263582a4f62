/* SPDX-License-Identifier: MIT
 *
 * `ordito generate` on the simulated CUDA device: the text is the same however it is made, and what goes wrong there
 * has its exit code and one clear line.
 */
#include "command.h"
#include "small_model.h"

#define DEVICE " --device cuda --simulated"
#define OF_NANO "generate " NANO " --context 64 --prompt-ids 256,73 --tokens 3 --print-ids"
#define OF_SMALL "generate small.yaml --random-weights 1 --context 64 --tokens 8"
#define SMALL OF_SMALL DEVICE
#define ROGUE " --plugin " TEST_PLUGIN("cuda_rogue") " --kernel embedding="
#define SWAP " --swap-at 3 --kernel attention=cuda_attention_naive"

/* ---- the same text ----------------------------------------------------------------------------------------------- */

static void check_text(const char *generate, const char *options, const char *wanted, const char *err) {
  char arguments[1024];
  snprintf(arguments, sizeof arguments, "%s" DEVICE "%s", generate, options);
  const outcome *got = check_command(&(command_row){arguments, 0, wanted, err});
  assert_string_equal(got->out, wanted);
  assert_null(strstr(got->err, " ms")); /* no time is measured there */
}

static void text_of(const char *generate, char *out, size_t bytes) {
  const outcome *cpu = run(generate);
  assert_int_equal(cpu->code, 0);
  assert_true(strlen(cpu->out) > 5 && strlen(cpu->out) < bytes);
  strcpy(out, cpu->out);
}

static void every_way_gives_the_same_text(void **state) {
  (void)state;
  static const struct {
    const char *options, *err;
  } row[] = {
      {"",
       "SIMULATED CUDA device (sm_90): 1 prompt token, 7 tokens after the first; no speed, since it is simulated\n"},
      {" --loop off", "no speed"},
      {" --loop whole", "no speed"},
      {" --loop ahead", "no speed"},
      {" --loop whole --no-dependent-launch", "no speed"},
      {" --capture require --loop off", "no speed"},
      {" --capture prefer --loop whole", "no speed"},
      {" --capture off", "no speed"},
      {" --capture off --loop off", "no speed"},
      {SWAP, "swapped attention=cuda_attention_naive after 3 tokens: 2 nodes, difference "},
      {SWAP " --loop off", "swapped attention=cuda_attention_naive after 3 tokens"},
      {SWAP " --loop whole", "swapped attention=cuda_attention_naive after 3 tokens"},
      {SWAP " --loop ahead", "swapped attention=cuda_attention_naive after 3 tokens"},
      {SWAP " --capture off", "swapped attention=cuda_attention_naive after 3 tokens"},
  };
  char wanted[4096];
  text_of(OF_SMALL " --print-ids", wanted, sizeof wanted);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    check_text(OF_SMALL " --print-ids", row[i].options, wanted, row[i].err);
  text_of(OF_NANO, wanted, sizeof wanted);
  check_text(OF_NANO, "", wanted, "2 prompt tokens, 2 tokens after the first");
}

/* ---- what goes wrong --------------------------------------------------------------------------------------------- */

static void wrong_input(void **state) {
  (void)state;
  static const command_row row[] = {
      {SMALL, 0, "", "7 tokens after the first"},
      {"generate small.yaml --random-weights 1 --context 64 --tokens 8 --simulated", 0, "", "SIMULATED CUDA device"},
      {SMALL " >&-", 4, NULL, "ordito: the output could not be written"},
      {SMALL " --loop wohle", 2, NULL, "--loop: found 'wohle'; wanted auto|off|whole|ahead"},
      {SMALL " --capture maybe", 2, NULL, "--capture: found 'maybe'; wanted require|prefer|off"},
      {SMALL " --capture off --loop whole", 3, NULL,
       "ordito: loop: found a session whose plan for one token is not captured; wanted one that is\n"},
      {"generate small.yaml --random-weights 1 --loop whole", 3, NULL,
       "ordito: loop: found cpu, which makes no tokens without the host; wanted another device, or loop off\n"},
      {SMALL " --swap-at 3", 2, NULL, "--swap-at: found no --kernel; wanted the kernels to swap in"},
      {SMALL " --swap-at 9 --kernel attention=cuda_attention_naive", 2, NULL,
       "--swap-at: found 9; wanted at most 8, as many tokens as are made\n"},
      {SMALL " --swap-at 3 --kernel attention=nonsense", 3, NULL, "no such kernel of op 'attention'"},
      {"convert " NANO " " NANO_WEIGHTS " --to i8.safetensors --dtype i8", 0, "", "wrote i8.safetensors"},
      {OF_NANO DEVICE " --weights i8.safetensors --swap-at 2 --kernel matmul=matmul_cublas", 3, "",
       "pin matmul=matmul_cublas holds in no plan"}, /* which only the weights tell */
      {SMALL " --tokens 600", 1, NULL, "64 available"},
      {SMALL ROGUE "rogue_allocates", 3, NULL,
       "ordito: x: kernel rogue_allocates of plugin cuda_rogue: capture failed: the launch did what no capture allows"},
      {SMALL ROGUE "rogue_allocates --capture prefer", 0, "",
       "one new token: runs eagerly, as it could not be captured: x: kernel rogue_allocates of plugin cuda_rogue"},
      {SMALL ROGUE "rogue_allocates --capture off", 0, "", "7 tokens after the first"},
      {SMALL ROGUE "rogue_synchronises", 3, NULL, "x: kernel rogue_synchronises of plugin cuda_rogue: capture failed"},
      {SMALL ROGUE "rogue_forks", 3, NULL, "the launch left a stream forked"},
      {SMALL ROGUE "rogue_foreign", 3, NULL, "loading image 'foreign' of plugin cuda_rogue for compute capability 9.0"},
      {SMALL ROGUE "rogue_forks --swap-at 3", 3, "",
       "ordito: x: kernel rogue_forks of plugin cuda_rogue: capture failed: the launch left a stream forked"},
      {SMALL ROGUE "rogue_faults", 4, "",
       "ordito: the CUDA device is lost until the process ends, the CPU device is not; "},
      {SMALL ROGUE "rogue_faults --loop off", 4, "",
       "CUDA_ERROR_ILLEGAL_ADDRESS (700): kernel rogue_rows, block (0, 0, 0), thread ("},
      {SMALL ROGUE "rogue_faults --capture off", 4, "", "x: kernel rogue_faults of plugin cuda_rogue: launch failed: "},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) check_command(&row[i]);
}

/* The machine's part, which the simulator's settings stand for. */
static void wrong_machine(void **state) {
  (void)state;
  static const struct {
    const char *name, *value;
    command_row row;
  } row[] = {
      {"ORDITO_SIMULATOR_PATH",
       "/nowhere",
       {SMALL, 3, NULL,
        "ordito: no CUDA device: the driver cannot be opened (/nowhere/libordito_simulated_cuda.so: cannot open shared "
        "object file: No such file or directory)\n"}},
      {"ORDITO_SIMULATED_DEVICES", "0", {SMALL, 3, NULL, "ordito: no CUDA device: the driver found none\n"}},
      {"ORDITO_SIMULATED_DRIVER_VERSION",
       "12030",
       {SMALL, 3, NULL,
        "ordito: the CUDA driver is too old: found one for CUDA 12.3; wanted 12.4 (release 550) or later\n"}},
      {"ORDITO_SIMULATED_DRIVER_VERSION",
       "12090",
       {SMALL " --loop whole", 3, NULL,
        "ordito: generation in one launch: found a CUDA driver for version 12.9; wanted 13.0 (release 580)\n"}},
      {"ORDITO_SIMULATED_DRIVER_VERSION",
       "12090",
       {SMALL, 0, "", "generation in one launch: found a CUDA driver for version 12.9; wanted 13.0 (release 580)\n"}},
      {"ORDITO_SIMULATED_ORDER",
       "nonsense",
       {SMALL, 3, NULL, "ORDITO_SIMULATED_ORDER: found 'nonsense'; wanted eager, lazy or thread\n"}},
      {"ORDITO_SIMULATED_MEMORY",
       "4G",
       {SMALL, 3, NULL, "ORDITO_SIMULATED_MEMORY: found '4G'; wanted a whole number that fits\n"}},
      {"ORDITO_SIMULATED_MEMORY", "20000", {SMALL, 4, NULL, "cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY (2)"}},
      {"ORDITO_SIMULATED_FAIL_ALLOCATION",
       "1",
       {SMALL, 4, NULL, "making a queue: cuMemHostAlloc failed: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory\n"}},
      {"ORDITO_SIMULATED_LOSE_AT_KERNEL",
       "100",
       {SMALL, 4, "", "ordito: the CUDA device is lost until the process ends, the CPU device is not; "}},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    setenv(row[i].name, row[i].value, 1);
    check_command(&row[i].row);
    unsetenv(row[i].name);
  }
}

/* An image for the simulated device that is not whole; the plugin beside it is. */
static void cut_image(void **state) {
  (void)state;
  static const char *const plugins = ORDITO_BUILD_DIRECTORY "/lib/ordito/plugins";
  char prepare[1024];
  snprintf(prepare, sizeof prepare,
           "cd %s && mkdir -p cut/simulated && cp %s/cuda_core.so cut && cp %s/simulated/cuda_core.* cut/simulated && "
           "head -c 9000 %s/simulated/cuda_core.norm.so >cut/simulated/cuda_core.norm.so",
           folder, plugins, plugins, plugins);
  assert_int_equal(system(prepare), 0);
  check_command(&(command_row){SMALL " --plugin cut/cuda_core.so", 3, NULL,
                               "cuda_core.norm.so: ELF file is damaged or cut; found 9000 bytes; wanted at least "});
}

/* The libraries of the simulator, one of them not whole; the loader would end the process. */
static void cut_libraries(void **state) {
  (void)state;
  static const char *const library[] = {"libordito_simulated_cuda.so", "libordito_simulated_cublas.so"};
  static const int bytes[] = {100, 9000, 500000};
  char path[128];
  snprintf(path, sizeof path, "%s/half", folder);
  setenv("ORDITO_SIMULATOR_PATH", path, 1);
  for (size_t i = 0; i < sizeof library / sizeof *library; i++)
    for (size_t k = 0; k < sizeof bytes / sizeof *bytes; k++) {
      char prepare[512], wanted[256];
      snprintf(prepare, sizeof prepare,
               "rm -rf %s && mkdir %s && cd %s && cp %s/lib/libordito_simulated_*.so . && "
               "truncate -s %d %s",
               path, path, path, ORDITO_BUILD_DIRECTORY, bytes[k], library[i]);
      if (system(prepare) != 0) fail_msg("%s", prepare);
      snprintf(wanted, sizeof wanted,
               "ordito: no CUDA device: %s/%s: ELF file is damaged or cut; found %d bytes; wanted ", path, library[i],
               bytes[k]);
      check_command(&(command_row){SMALL, 3, NULL, wanted});
    }
  unsetenv("ORDITO_SIMULATOR_PATH");
}

/* ---- an interrupt ------------------------------------------------------------------------------------------------ */

/* In the middle of a loop of many tokens, once the first has been read. */
static void interrupt_a_loop(const char *order) {
  int out[2], status = 0;
  char first;
  assert_int_equal(pipe(out), 0);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    dup2(out[1], 1);
    close(out[0]);
    close(out[1]);
    setenv("ORDITO_SIMULATED_ORDER", order, 1);
    if (freopen("/dev/null", "w", stderr))
      execl(ORDITO, "ordito", "generate", NANO, "--device", "cuda", "--simulated", "--loop", "whole", "--tokens", "500",
            (char *)NULL);
    _exit(99);
  }
  close(out[1]);
  assert_int_equal(read(out[0], &first, 1), 1);
  kill(child, SIGINT);
  while (read(out[0], &first, 1) == 1) continue;
  close(out[0]);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 130);
}

static void an_interrupt_ends_a_loop(void **state) {
  (void)state;
  static const char *const order[] = {"eager", "lazy", "thread"};
  for (size_t i = 0; i < sizeof order / sizeof *order; i++) interrupt_a_loop(order[i]);
}

static int make_model(void **state) {
  if (make_folder(state) != 0) return -1;
  write_text("small.yaml", SMALL_MODEL);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_way_gives_the_same_text),
      cmocka_unit_test(wrong_input),
      cmocka_unit_test(wrong_machine),
      cmocka_unit_test(cut_image),
      cmocka_unit_test(cut_libraries),
      cmocka_unit_test(an_interrupt_ends_a_loop),
  };
  return cmocka_run_group_tests(tests, make_model, remove_folder);
}
