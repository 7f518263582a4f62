/* SPDX-License-Identifier: MIT
 *
 * What goes wrong with a user's session on a CUDA device, through the public API: each time the message names who or
 * what it was, the host's memory is freed, and what was there before works on.
 */
#include <dlfcn.h>

#include "failing_memory.h"

#include "cuda_session.h"
#include "small_model.h"

#define ROGUE TEST_PLUGIN("cuda_rogue")

enum { TOKENS = 6, CONTEXT = 32 };

static const int32_t PROMPT[] = {256, 'A', 'n'};
enum { PROMPT_COUNT = sizeof PROMPT / sizeof *PROMPT };

/* ---- sessions of the small model --------------------------------------------------------------------------------- */

static void collect_log(void *context, int level, const char *text) {
  char *all = context;
  if (level == ORD_LOG_WARNING) strcat(strcat(all, text), "\n");
}

/* With the plugin of bad kernels, but no session. */
typedef struct scene {
  stage on;
  char log[4096]; /* warnings */
} scene;

static scene *open_scene(void) {
  ord_error err = ORD_ERROR_INIT;
  scene *c = test_calloc(1, sizeof *c);
  MUST(create_cuda_context(ROGUE, collect_log, c->log, &c->on.context, &err));
  c->on.model = open_small_model(c->on.context, SMALL_MODEL, CONTEXT);
  return c;
}

static void close_scene(scene *c) {
  close_stage(&c->on);
  test_free(c);
}

static ord_session_options options_with(const char *const *pin) {
  return (ord_session_options){
      .struct_size = sizeof(ord_session_options), .generates = true, .pin = pin, .pin_count = pin != NULL};
}

/* A scene with a session. */
static scene *open_scene_with(const char *const *pin) {
  scene *c = open_scene();
  const ord_session_options options = options_with(pin);
  c->on.session = open_session(c->on.model, &options);
  return c;
}

typedef struct tokens {
  int32_t id[TOKENS];
  uint32_t count;
} tokens;

static bool collect(void *context, int32_t id, const char *text, size_t bytes) {
  (void)text, (void)bytes;
  tokens *out = context;
  if (out->count < TOKENS) out->id[out->count++] = id;
  return true;
}

/* From the start. */
static bool generate(ord_session *session, uint32_t loop, tokens *out, ord_error *err) {
  ord_generate_options options = ORD_GENERATE_INIT;
  options.max_tokens = TOKENS;
  options.temperature = 1;
  options.loop = loop;
  out->count = 0;
  ord_session_reset(session);
  return ord_session_generate(session, PROMPT, PROMPT_COUNT, &options, collect, out, NULL, err);
}

static tokens generate_right(ord_session *session, uint32_t loop) {
  ord_error err = ORD_ERROR_INIT;
  tokens made = {.count = 0};
  MUST(generate(session, loop, &made, &err));
  assert_int_equal(made.count, TOKENS);
  return made;
}

static void assert_works(ord_session *session, uint32_t loop, const tokens *wanted) {
  const tokens got = generate_right(session, loop);
  assert_memory_equal(got.id, wanted->id, sizeof got.id);
}

/* The CPU device, in a process whose CUDA device may be lost. */
static void assert_cpu_works(void) {
  stage s = {.context = open_context(1, ALL_PLUGINS)};
  s.model = open_small_model(s.context, SMALL_MODEL, CONTEXT);
  const ord_session_options options = options_with(NULL);
  s.session = open_session(s.model, &options);
  (void)generate_right(s.session, ORD_LOOP_AUTO);
  close_stage(&s);
}

static const uint32_t loops[] = {ORD_LOOP_OFF, ORD_LOOP_WHOLE, ORD_LOOP_AHEAD};
enum { LOOP_COUNT = sizeof loops / sizeof *loops };
static uint32_t loop; /* of the case; a child gets it from its parent */

static void run_all_loops(const char *name, void (*body)(void **state)) {
  for (int i = 0; i < LOOP_COUNT; i++) {
    char text[96];
    loop = loops[i];
    snprintf(text, sizeof text, "%s, loop %u", name, loop);
    run_in_all_orders(text, body);
  }
}

/* ---- no device --------------------------------------------------------------------------------------------------- */

static void no_driver(void **state) {
  (void)state;
  const ord_context_options options = {
      .struct_size = sizeof options, .no_default_plugins = true, .device = "cuda", .simulated = true};
  ord_error err = ORD_ERROR_INIT;
  ord_context *context = NULL;
  setenv("ORDITO_SIMULATOR_PATH", "/nowhere", 1);
  MUST_FAIL(ord_context_create(&options, &context, &err),
            "no CUDA device: the driver cannot be opened (/nowhere/libordito_simulated_cuda.so: cannot open shared "
            "object file: No such file or directory)");
  assert_int_equal(err.code, ORD_UNSUPPORTED);
  assert_null(context);
  assert_cpu_works();
}

static void assert_no_context(const char *text) {
  ord_error err = ORD_ERROR_INIT;
  ord_context *context = NULL;
  const long live = live_count;
  MUST_FAIL(create_cuda_context(NULL, NULL, NULL, &context, &err), "");
  assert_string_equal(err.text, text);
  assert_int_equal(err.code, ORD_UNSUPPORTED);
  assert_null(context);
  assert_int_equal(live_count, live);
  assert_cpu_works();
}

static void no_device(void **state) {
  (void)state;
  assert_no_context("no CUDA device: the driver found none");
}

static void old_driver(void **state) {
  (void)state;
  assert_no_context("the CUDA driver is too old: found one for CUDA 12.3; wanted 12.4 (release 550) or later");
}

#define TOO_OLD_FOR_WHOLE "generation in one launch: found a CUDA driver for version 12.9; wanted 13.0 (release 580)"

/* It can do all but one thing, and says so once where that was not asked for. */
static void driver_without_loops(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  tokens got;
  scene *c = open_scene_with(NULL);
  const tokens wanted = generate_right(c->on.session, ORD_LOOP_OFF);
  MUST_FAIL(generate(c->on.session, ORD_LOOP_WHOLE, &got, &err), "");
  assert_string_equal(err.text, TOO_OLD_FOR_WHOLE);
  assert_int_equal(err.code, ORD_UNSUPPORTED);
  assert_string_equal(c->log, "");
  for (int i = 0; i < 2; i++) assert_works(c->on.session, ORD_LOOP_AUTO, &wanted);
  assert_string_equal(c->log, TOO_OLD_FOR_WHOLE "\n");
  assert_works(c->on.session, ORD_LOOP_AHEAD, &wanted);
  close_scene(c);
}

static void test_no_device(void **state) {
  (void)state;
  needs_simulator("its driver is another one each time");
  static const char *const none[] = {"DEVICES", "0", NULL, NULL},
                           *const old[] = {"DRIVER_VERSION", "12030", NULL, NULL},
                           *const no_loops[] = {"DRIVER_VERSION", "12090", NULL, NULL};
  run_in_child("no driver", no_driver, NULL);
  run_in_child("no device", no_device, none);
  run_in_child("an old driver", old_driver, old);
  run_in_child("a driver without loops", driver_without_loops, no_loops);
}

/* ---- out of device memory ---------------------------------------------------------------------------------------- */

/* What takes memory of the device, in the order of the calls; the one that is number `failing` finds none. */
static int taken, failing = -1;
static const char *failed_call;

static bool is_injected(const char *call) {
  if (taken++ != failing) return false;
  failed_call = call;
  return true;
}

static CUresult take_memory(CUdeviceptr *out, size_t bytes) {
  return is_injected("cuMemAlloc") ? CUDA_ERROR_OUT_OF_MEMORY : real_calls.MemAlloc(out, bytes);
}
static CUresult take_pinned(void **out, size_t bytes, unsigned flags) {
  return is_injected("cuMemHostAlloc") ? CUDA_ERROR_OUT_OF_MEMORY : real_calls.MemHostAlloc(out, bytes, flags);
}
static CUresult make_stream(CUstream *out, unsigned flags, int priority) {
  return is_injected("cuStreamCreateWithPriority") ? CUDA_ERROR_OUT_OF_MEMORY
                                                   : real_calls.StreamCreateWithPriority(out, flags, priority);
}
static CUresult load_library(CUlibrary *out, const void *code, CUjit_option *jit, void **jit_value, unsigned jit_count,
                             CUlibraryOption *option, void **value, unsigned count) {
  return is_injected("cuLibraryLoadData")
             ? CUDA_ERROR_OUT_OF_MEMORY
             : real_calls.LibraryLoadData(out, code, jit, jit_value, jit_count, option, value, count);
}
static CUresult load_function(CUfunction function) {
  return is_injected("cuFuncLoad") ? CUDA_ERROR_OUT_OF_MEMORY : real_calls.FuncLoad(function);
}
static CUresult make_graph(CUgraph *out, unsigned flags) {
  return is_injected("cuGraphCreate") ? CUDA_ERROR_OUT_OF_MEMORY : real_calls.GraphCreate(out, flags);
}
static CUresult instantiate(CUgraphExec *out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *asked) {
  return is_injected("cuGraphInstantiateWithParams") ? CUDA_ERROR_OUT_OF_MEMORY
                                                     : real_calls.GraphInstantiateWithParams(out, graph, asked);
}
static CUresult upload(CUgraphExec executable, CUstream stream) {
  return is_injected("cuGraphUpload") ? CUDA_ERROR_OUT_OF_MEMORY : real_calls.GraphUpload(executable, stream);
}

static void inject(const ord_context *context) {
  ord_cuda_calls *call = replace_calls(context->device);
  call->MemAlloc = take_memory;
  call->MemHostAlloc = take_pinned;
  call->StreamCreateWithPriority = make_stream;
  call->LibraryLoadData = load_library;
  call->FuncLoad = load_function;
  call->GraphCreate = make_graph;
  call->GraphInstantiateWithParams = instantiate;
  call->GraphUpload = upload;
}

typedef struct crowd {
  scene *scene;
  ord_session *before; /* a session that is there already, or NULL */
  ord_session *made;
  tokens wanted;
} crowd;

/* An attempt whose n-th taking of memory fails, for every n, until one works. Each leaves as much memory on the host
 * and on the device as there was, but for images that it loads, which the device keeps. */
static int fail_in_turn(bool (*attempt)(crowd *all, ord_error *err), void (*look)(crowd *all), bool loads_images,
                        crowd *all) {
  int failures = 0;
  for (;; failures++) {
    ord_error err = ORD_ERROR_INIT;
    const long live = live_count;
    const size_t free_bytes = free_device_bytes();
    char wanted[128];
    taken = 0;
    failing = failures;
    const bool done = attempt(all, &err);
    const bool is_refused = taken > failing;
    failing = -1;
    if (done && is_refused) fail_msg("taking memory number %d failed and nobody noticed", failures);
    if (done) return failures;
    if (err.code != ORD_NO_MEMORY) fail_msg("%s failed: found \"%s\"", failed_call, err.text);
    snprintf(wanted, sizeof wanted, ": %s failed: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory", failed_call);
    if (!strstr(err.text, wanted)) fail_msg("found \"%s\"; wanted %s", err.text, wanted);
    if (live_count != live && !loads_images)
      fail_msg("\"%s\": %ld pieces of memory were lost", err.text, live_count - live);
    assert_int_equal(free_device_bytes(), free_bytes);
    look(all);
  }
}

static bool make_session(crowd *all, ord_error *err) {
  const ord_session_options options = options_with(NULL);
  return ord_session_create(all->scene->on.model, &options, &all->made, err);
}

static bool make_loop(crowd *all, ord_error *err) {
  tokens got;
  return generate(all->made, loop, &got, err);
}

static bool swap_kernel(crowd *all, ord_error *err) {
  return swap_one(all->made, "attention=cuda_attention_naive", 0, err);
}

static void session_before_works(crowd *all) {
  if (all->before) assert_works(all->before, ORD_LOOP_OFF, &all->wanted);
}

/* Its last run was the same one, so that a swap has something to compare with. */
static void session_works(crowd *all) { assert_works(all->made, ORD_LOOP_OFF, &all->wanted); }

static void no_device_memory(void **state) {
  (void)state;
  const long live = live_count;
  crowd all = {.scene = open_scene()};
  inject(all.scene->on.context);
  const int first = fail_in_turn(make_session, session_before_works, true, &all);
  all.before = all.made;
  all.wanted = generate_right(all.before, ORD_LOOP_OFF);
  const int second = fail_in_turn(make_session, session_before_works, false, &all);
  session_works(&all);
  loop = ORD_LOOP_WHOLE;
  const int whole = fail_in_turn(make_loop, session_works, true, &all);
  loop = ORD_LOOP_AHEAD;
  const int ahead = fail_in_turn(make_loop, session_works, false, &all);
  session_works(&all);
  const int swapped = fail_in_turn(swap_kernel, session_works, true, &all);
  (void)generate_right(all.made, ORD_LOOP_AHEAD);
  session_before_works(&all);
  print_message("memory was refused %d, %d, %d, %d and %d times\n", first, second, whole, ahead, swapped);
  assert_true(first > 25 && second > 15 && whole >= 5 && ahead >= 4 && swapped > 40);
  ord_session_destroy(all.before);
  ord_session_destroy(all.made);
  close_scene(all.scene);
  assert_int_equal(live_count, live);
}

static void test_no_device_memory(void **state) {
  (void)state;
  run_in_child("out of device memory", no_device_memory, NULL);
}

/* A device that is small, in place of calls that are made to fail. */
static void small_device(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  scene *c = open_scene();
  const ord_session_options options = options_with(NULL);
  const long live = live_count;
  MUST_FAIL(ord_session_create(c->on.model, &options, &c->on.session, &err), "");
  assert_string_equal(err.text, "moving weights to the device: taking device memory: cuMemAlloc failed: "
                                "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory");
  assert_int_equal(err.code, ORD_NO_MEMORY);
  assert_int_equal(live_count, live);
  close_scene(c);
  assert_cpu_works();
}

static void test_small_device(void **state) {
  (void)state;
  static const char *const small[] = {"MEMORY", "20000", NULL, NULL};
  run_in_child("a small device", small_device, small);
}

/* ---- kernels that do what no launch may -------------------------------------------------------------------------- */

#define CAPTURE_OF(kernel) "x: kernel " kernel " of plugin cuda_rogue: capture failed: "
#define FORBIDDEN "the launch did what no capture allows (it allocated, freed, loaded, synchronised or asked): "

static const struct {
  const char *pin, *text;
  bool works_eagerly;
} bad_launches[] = {
    {"embedding=rogue_allocates",
     CAPTURE_OF("rogue_allocates") FORBIDDEN "kernel 'rogue_rows': cuLaunchKernelEx failed: "
                                             "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901): stream capture invalidated",
     true},
    {"embedding=rogue_synchronises",
     CAPTURE_OF("rogue_synchronises") FORBIDDEN "cuStreamEndCapture failed: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED "
                                                "(901): stream capture invalidated",
     true},
    {"embedding=rogue_forks",
     CAPTURE_OF("rogue_forks") "the launch left a stream forked: cuStreamEndCapture failed: "
                               "CUDA_ERROR_STREAM_CAPTURE_UNJOINED (904): stream capture unjoined",
     true},
    {"embedding=rogue_foreign",
     "x: rogue_foreign: loading image 'foreign' of plugin cuda_rogue for compute capability 9.0: cuLibraryLoadData "
     "failed: CUDA_ERROR_INVALID_IMAGE (200): invalid image",
     false},
};
enum { BAD_LAUNCH_COUNT = sizeof bad_launches / sizeof *bad_launches };

/* A session that cannot be captured is refused, or runs eagerly and says why, as its user wants. */
static void start_with_bad_launch(scene *c, int i, const tokens *wanted) {
  ord_session_options options = options_with(&bad_launches[i].pin);
  ord_capture_state report = {.struct_size = sizeof report};
  ord_error err = ORD_ERROR_INIT;
  ord_session *session = NULL;
  tokens got;
  MUST_FAIL(ord_session_create(c->on.model, &options, &session, &err), "");
  assert_string_equal(err.text, bad_launches[i].text);
  assert_int_equal(err.code, ORD_UNSUPPORTED);
  assert_null(session);
  if (!bad_launches[i].works_eagerly) return;
  c->log[0] = 0;
  options.capture = ORD_CAPTURE_PREFER;
  session = open_session(c->on.model, &options);
  MUST(ord_session_capture_report(session, 0, &report, &err));
  assert_false(report.is_captured);
  assert_string_equal(report.why_not, bad_launches[i].text);
  assert_non_null(strstr(c->log, "all lengths: runs eagerly, as it could not be captured: x: kernel rogue_"));
  assert_works(session, ORD_LOOP_AUTO, wanted);
  MUST_FAIL(generate(session, ORD_LOOP_WHOLE, &got, &err),
            "loop: found a session whose plan for one token is not captured: x: kernel rogue_");
  ord_session_destroy(session);
}

static void bad_launch(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  scene *c = open_scene_with(NULL);
  const tokens wanted = generate_right(c->on.session, ORD_LOOP_OFF);
  for (int i = 0; i < BAD_LAUNCH_COUNT; i++) {
    start_with_bad_launch(c, i, &wanted);
    MUST_FAIL(swap_one(c->on.session, bad_launches[i].pin, 0, &err), "");
    assert_string_equal(err.text, bad_launches[i].text);
    assert_works(c->on.session, loops[i % LOOP_COUNT], &wanted);
  }
  close_scene(c);
}

static void test_bad_launches(void **state) {
  (void)state;
  run_in_all_orders("bad launches", bad_launch);
}

/* ---- a device that is lost --------------------------------------------------------------------------------------- */

#define LOST "the CUDA device is lost until the process ends, the CPU device is not; "

static void assert_session_lost(ord_session *session, const char *wanted) {
  ord_error err = ORD_ERROR_INIT;
  tokens got;
  for (int i = 0; i < LOOP_COUNT; i++) {
    MUST_FAIL(generate(session, loops[i], &got, &err), wanted);
    assert_int_equal(err.code, ORD_DEVICE_FAILED);
  }
  MUST(ord_session_set_tokens(session, PROMPT, 1, PROMPT_COUNT, &err));
  MUST_FAIL(ord_session_run(session, &err), wanted);
  ord_session_reset(session);
}

/* All calls on the device say what the first one said, but for the step of a warm-up; what needs no device works.
 * session: may be NULL. */
static void assert_all_lost(scene *c, ord_session *session, const ord_error *first) {
  ord_error err = ORD_ERROR_INIT;
  ord_session *other = NULL;
  const ord_session_options options = options_with(NULL);
  const char *wanted = strstr(first->text, LOST);
  assert_non_null(wanted);
  if (session) assert_session_lost(session, wanted);
  const long live = live_count;
  MUST_FAIL(ord_session_create(c->on.model, &options, &other, &err), wanted);
  assert_null(other);
  assert_int_equal(live_count, live);
  assert_cpu_works();
}

/* By a kernel of a plugin, in the middle of a generation. */
static void faulting_kernel(void **state) {
  (void)state;
  static const char *const pin = "embedding=rogue_faults";
  const long live = live_count;
  ord_error err = ORD_ERROR_INIT;
  tokens got;
  scene *c = open_scene_with(&pin);
  assert_false(generate(c->on.session, loop, &got, &err));
  assert_int_equal(err.code, ORD_DEVICE_FAILED);
  assert_non_null(strstr(err.text, "CUDA_ERROR_ILLEGAL_ADDRESS (700): kernel rogue_rows, block (0, 0, 0), thread ("));
  assert_true(got.count <= 5);
  assert_all_lost(c, c->on.session, &err);
  close_scene(c);
  assert_int_equal(live_count, live);
  assert_cpu_works();
}

static const char *const NAMES_THREAD = "its driver names the thread that faults";

static void test_faulting_kernel(void **state) {
  (void)state;
  needs_simulator(NAMES_THREAD);
  run_all_loops("a kernel faults", faulting_kernel);
}

/* The same with a launch that is waited for before the next: then the step is named too. */
static void faulting_step(void **state) {
  (void)state;
  static const char *const pin = "embedding=rogue_faults";
  ord_error err = ORD_ERROR_INIT;
  tokens got;
  scene *c = open_scene();
  ord_session_options options = options_with(&pin);
  options.capture = ORD_CAPTURE_OFF;
  c->on.session = open_session(c->on.model, &options);
  MUST_FAIL(generate(c->on.session, ORD_LOOP_OFF, &got, &err),
            "x: kernel rogue_faults of plugin cuda_rogue: launch failed: " LOST
            "kernel 'rogue_rows': cuLaunchKernelEx failed: CUDA_ERROR_ILLEGAL_ADDRESS (700): kernel rogue_rows, block "
            "(0, 0, 0), thread (");
  close_scene(c);
}

static void test_faulting_step(void **state) {
  (void)state;
  needs_simulator(NAMES_THREAD);
  run_in_child("a step faults", faulting_step, NULL);
}

/* For a reason that is nobody's fault, and in the middle of what a session does: its start, a generation, a swap. */
static void lost_device(void **state) {
  (void)state;
  const long live = live_count;
  ord_error err = ORD_ERROR_INIT;
  tokens got = {.count = 0};
  scene *c = open_scene();
  const ord_session_options options = options_with(NULL);
  if (ord_session_create(c->on.model, &options, &c->on.session, &err))
    while (generate(c->on.session, loop, &got, &err)) continue;
  assert_int_equal(err.code, ORD_DEVICE_FAILED);
  if (!strstr(err.text, " failed: CUDA_ERROR_ECC_UNCORRECTABLE (214): ")) fail_msg("found \"%s\"", err.text);
  assert_null(strstr(err.text, "CUDA_LAUNCH_BLOCKING"));
  assert_all_lost(c, c->on.session, &err);
  close_scene(c);
  assert_int_equal(live_count, live);
}

static void test_lost_device(void **state) {
  (void)state;
  static const char *const at[] = {"3", "100", "400"};
  for (int i = 0; i < LOOP_COUNT; i++)
    for (int k = 0; k < 3; k++) {
      const char *const settings[] = {"LOSE_AT_KERNEL", at[k], "ORDER", simulated_orders[k], NULL, NULL};
      char name[64];
      loop = loops[i];
      snprintf(name, sizeof name, "lost at kernel %s, %s, loop %u", at[k], simulated_orders[k], loop);
      run_in_child(name, lost_device, settings);
    }
}

static void lost_in_a_swap(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  scene *c = open_scene_with(NULL);
  int swaps = 0;
  (void)generate_right(c->on.session, ORD_LOOP_OFF);
  while (swap_one(c->on.session, "attention=cuda_attention_naive", 0, &err)) {
    assert_true(++swaps < 1000);
    MUST(ord_session_rollback_kernel(c->on.session, &err));
  }
  assert_int_equal(err.code, ORD_DEVICE_FAILED);
  assert_all_lost(c, c->on.session, &err);
  close_scene(c);
}

static void test_lost_in_a_swap(void **state) {
  (void)state;
  static const char *const settings[] = {"LOSE_AT_KERNEL", "1000", NULL, NULL};
  run_in_child("lost in a swap", lost_in_a_swap, settings);
}

/* ---- too long ---------------------------------------------------------------------------------------------------- */

/* The longest bucket is the context: refused before anything is launched, in the words of the CPU. */
static void refuse_too_long(ord_session *session) {
  static const int32_t id[CONTEXT + 1];
  ord_error err = ORD_ERROR_INIT;
  ord_session_reset(session);
  MUST(ord_session_set_tokens(session, id, 1, CONTEXT + 1, &err));
  MUST_FAIL(ord_session_run(session, &err), "");
  assert_string_equal(err.text, "input 'tokens': found seq = 33; wanted 1 to 32");
  MUST(ord_session_set_tokens(session, id, 1, CONTEXT - 1, &err));
  MUST(ord_session_run(session, &err));
  MUST(ord_session_set_tokens(session, id, 1, 2, &err));
  MUST_FAIL(ord_session_run(session, &err), "");
  assert_string_equal(err.text, "the context is full: row 0 holds 31 tokens and 2 are new, 33 needed; 32 available");
  MUST(ord_session_set_tokens(session, id, 1, 1, &err));
  MUST(ord_session_run(session, &err));
}

static bool generate_many(ord_session *session, uint32_t way, uint32_t count, ord_error *err) {
  ord_generate_options options = ORD_GENERATE_INIT;
  options.max_tokens = count;
  options.loop = way;
  ord_session_reset(session);
  return ord_session_generate(session, PROMPT, PROMPT_COUNT, &options, NULL, NULL, NULL, err);
}

static void too_long(void **state) {
  (void)state;
  static const char text[] =
      "the context is too short: 0 tokens there, 3 in the prompt and 30 to come need 33; 32 available";
  ord_error err = ORD_ERROR_INIT;
  scene *c = open_scene();
  stage cpu = {.context = open_context(1, ALL_PLUGINS)};
  const ord_session_options options = options_with(NULL);
  cpu.model = open_small_model(cpu.context, SMALL_MODEL, CONTEXT);
  cpu.session = open_session(cpu.model, &options);
  c->on.session = open_session(c->on.model, &options);
  const tokens wanted = generate_right(c->on.session, ORD_LOOP_OFF);
  refuse_too_long(cpu.session);
  refuse_too_long(c->on.session);
  MUST_FAIL(generate_many(cpu.session, ORD_LOOP_OFF, CONTEXT - PROMPT_COUNT + 1, &err), text);
  for (int i = 0; i < LOOP_COUNT; i++) {
    MUST_FAIL(generate_many(c->on.session, loops[i], CONTEXT - PROMPT_COUNT + 1, &err), text);
    assert_works(c->on.session, loops[i], &wanted);
    MUST(generate_many(c->on.session, loops[i], CONTEXT - PROMPT_COUNT, &err)); /* to the last place */
  }
  close_stage(&cpu);
  close_scene(c);
}

static void test_too_long(void **state) {
  (void)state;
  run_in_all_orders("too long", too_long);
}

/* ---- cancelled --------------------------------------------------------------------------------------------------- */

typedef struct cancelling {
  ord_session *session;
  tokens got;
} cancelling;

static bool cancel_behind_two(void *context, int32_t id, const char *text, size_t bytes) {
  cancelling *c = context;
  collect(&c->got, id, text, bytes);
  if (c->got.count == 2) ord_session_cancel(c->session);
  return true;
}

static void cancelled(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  scene *c = open_scene_with(NULL);
  const tokens wanted = generate_right(c->on.session, ORD_LOOP_OFF);
  for (int i = 0; i < LOOP_COUNT; i++) {
    ord_generate_options greedy = ORD_GENERATE_INIT;
    greedy.max_tokens = TOKENS;
    greedy.loop = loops[i];
    cancelling run = {.session = c->on.session};
    ord_session_reset(c->on.session);
    MUST_FAIL(ord_session_generate(c->on.session, PROMPT, PROMPT_COUNT, &greedy, cancel_behind_two, &run, NULL, &err),
              loops[i] == ORD_LOOP_OFF ? "the run was cancelled before it was launched"
                                       : "the generation was cancelled");
    assert_int_equal(err.code, ORD_CANCELLED);
    assert_int_equal(run.got.count, 2);
    assert_works(c->on.session, loops[i], &wanted);
  }
  close_scene(c);
}

static void test_cancelled(void **state) {
  (void)state;
  run_in_all_orders("cancelled", cancelled);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_no_device),       cmocka_unit_test(test_no_device_memory),
      cmocka_unit_test(test_small_device),    cmocka_unit_test(test_bad_launches),
      cmocka_unit_test(test_faulting_kernel), cmocka_unit_test(test_faulting_step),
      cmocka_unit_test(test_lost_device),     cmocka_unit_test(test_lost_in_a_swap),
      cmocka_unit_test(test_too_long),        cmocka_unit_test(test_cancelled),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
