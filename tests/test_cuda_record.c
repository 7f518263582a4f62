/* SPDX-License-Identifier: MIT
 *
 * Kernels that launch or let a library work, and such that do what no launch may or no capture allows: each is named
 * and leaves nothing behind.
 */
#include "failing_memory.h"

#include "cuda_mixes.h"

/* ---- kernels of the test, good and bad ---- */

typedef struct rogue {
  ord_cuda_device *device;
  const ord_host *host;
  void *add_number; /* (int32_t *at, int32_t number) */
  CUstream other;
  CUevent event;
  CUresult (*wait_event)(CUstream, CUevent, unsigned);
  CUresult (*copy)(CUdeviceptr, CUdeviceptr, size_t, CUstream); /* without a direction */
  void *pinned;                                                 /* memory of the host */
  uint32_t calls[4];                                            /* by ord_exec.flags */
  CUdeviceptr loaded;                                           /* what a library keeps from its first call on */
} rogue;

static const ord_manifest rogue_manifest = {.name = "rogue"};
static const ord_plugin_entry rogue_plugin = {.manifest = &rogue_manifest};

/* operand 0, an i32, += 5. */
static ord_gpu_launch adding(const rogue *r, const ord_exec *exec, const void **argument, uint32_t *bytes) {
  static const int32_t five = 5;
  argument[0] = &exec->operand[0];
  argument[1] = &five;
  bytes[0] = sizeof(void *);
  bytes[1] = sizeof five;
  return (ord_gpu_launch){.kernel = r->add_number,
                          .argument_count = 2,
                          .grid = {1, 1, 1},
                          .block = {1, 1, 1},
                          .argument = argument,
                          .argument_bytes = bytes};
}

static ord_status launch_with(const rogue *r, const ord_exec *exec, const ord_gpu_launch *launch,
                              ord_plugin_error *err) {
  return r->host->gpu_launch(r->host->context, exec->stream, launch, err);
}

static ord_status add(const rogue *r, const ord_exec *exec, ord_plugin_error *err) {
  const void *argument[2];
  uint32_t bytes[2];
  const ord_gpu_launch launch = adding(r, exec, argument, bytes);
  return launch_with(r, exec, &launch, err);
}

/* Not through the host. */
static CUresult add_directly(const rogue *r, const ord_exec *exec) {
  int32_t number = 7;
  void *argument[] = {(void *)(uintptr_t)&exec->operand[0], &number};
  const CUlaunchConfig config = {.gridDimX = 1,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 1,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .hStream = exec->stream->handle};
  return r->device->call.LaunchKernelEx(&config, (CUfunction)r->add_number, argument, NULL);
}

#define ROGUE(name, ...)                                                                                               \
  static ord_status name(void *state, const ord_exec *exec, ord_plugin_error *err) {                                   \
    rogue *r = state;                                                                                                  \
    r->calls[exec->flags & 3]++;                                                                                       \
    __VA_ARGS__                                                                                                        \
  }

ROGUE(adds, { return add(r, exec, err); })
ROGUE(adds_twice, { return add(r, exec, err) == ORD_OK ? add(r, exec, err) : ORD_INTERNAL; })
ROGUE(allocates, {
  CUdeviceptr memory;
  (void)r->device->call.MemAlloc(&memory, 64);
  (void)add(r, exec, err);
  return ORD_OK;
})
ROGUE(tells_that_it_allocated, {
  CUdeviceptr memory;
  err->native = (int32_t)r->device->call.MemAlloc(&memory, 64);
  strcpy(err->text, "cuMemAlloc failed");
  (void)exec;
  return ORD_DEVICE_FAILED;
})
ROGUE(synchronises, {
  const ord_status status = add(r, exec, err);
  (void)r->device->call.StreamSynchronize(exec->stream->handle);
  return status;
})
ROGUE(asks, {
  const ord_status status = add(r, exec, err);
  (void)r->device->call.StreamQuery(exec->stream->handle);
  return status;
})
ROGUE(forks, {
  (void)err;
  (void)r->device->call.EventRecord(r->event, exec->stream->handle);
  (void)r->wait_event(r->other, r->event, 0);
  (void)r->device->call.MemsetD8Async(ord_cuda_address(exec->operand[0]), 0, 4, r->other);
  return ORD_OK;
})
ROGUE(ends_the_capture, {
  CUgraph graph = NULL;
  (void)err;
  (void)r->device->call.StreamEndCapture(exec->stream->handle, &graph);
  (void)r->device->call.GraphDestroy(graph);
  return ORD_OK;
})
ROGUE(launches_by_other_means, {
  const ord_status status = add(r, exec, err);
  return add_directly(r, exec) == CUDA_SUCCESS ? status : ORD_DEVICE_FAILED;
})
ROGUE(clears, {
  (void)err;
  (void)r->device->call.MemsetD8Async(ord_cuda_address(exec->operand[0]), 0, 4, exec->stream->handle);
  return ORD_OK;
})
ROGUE(fails, {
  strcpy(err->text, "found an odd value");
  err->native = 3;
  (void)exec;
  return ORD_DEVICE_FAILED;
})
ROGUE(copies_from_the_host, {
  static const int32_t number = 9;
  (void)err;
  return r->device->call.MemcpyHtoDAsync(ord_cuda_address(exec->operand[0]), &number, 4, exec->stream->handle) ==
                 CUDA_SUCCESS
             ? ORD_OK
             : ORD_DEVICE_FAILED;
})

/* Copies whose direction the driver finds out. */
static ord_status copy_to_operand(const rogue *r, const ord_exec *exec, const void *from) {
  return r->copy(ord_cuda_address(exec->operand[0]), ord_cuda_address(from), 4, exec->stream->handle) == CUDA_SUCCESS
             ? ORD_OK
             : ORD_DEVICE_FAILED;
}
ROGUE(copies_within, {
  (void)err;
  return copy_to_operand(r, exec, exec->scratch);
})
ROGUE(copies_from_pinned, {
  (void)err;
  return copy_to_operand(r, exec, r->pinned);
})
ROGUE(copies_from_pageable, {
  static const int32_t number = 9;
  (void)err;
  return copy_to_operand(r, exec, &number);
})
ROGUE(copies_to_pinned, {
  (void)err;
  return r->copy(ord_cuda_address(r->pinned), ord_cuda_address(exec->operand[0]), 4, exec->stream->handle) ==
                 CUDA_SUCCESS
             ? ORD_OK
             : ORD_DEVICE_FAILED;
})

/* A library: its first call loads something, each puts a copy, a memset and a kernel on the stream. */
ROGUE(runs_library, {
  const CUdeviceptr at = ord_cuda_address(exec->operand[0]);
  const CUdeviceptr scratch = ord_cuda_address(exec->scratch);
  const CUstream stream = exec->stream->handle;
  err->native = 0;
  if (!r->loaded) err->native = (int32_t)r->device->call.MemAlloc(&r->loaded, 64);
  if (!err->native) err->native = (int32_t)r->device->call.MemsetD8Async(scratch, 0, 4, stream);
  if (!err->native) err->native = (int32_t)r->device->call.MemcpyDtoDAsync(at, scratch, 4, stream);
  if (!err->native) err->native = (int32_t)add_directly(r, exec);
  if (!err->native) return ORD_OK;
  strcpy(err->text, "the library refused");
  return ORD_DEVICE_FAILED;
})

ROGUE(loads, {
  void *kernel = NULL;
  (void)exec;
  return r->host->image_kernel(r->host->context, "steps", "add_number", 0, &kernel, err);
})

/* Launches that are changed in one thing. */
#define ROGUE_LAUNCH(name, change)                                                                                     \
  ROGUE(name, {                                                                                                        \
    const void *argument[2];                                                                                           \
    uint32_t bytes[2];                                                                                                 \
    ord_gpu_launch launch = adding(r, exec, argument, bytes);                                                          \
    change;                                                                                                            \
    return launch_with(r, exec, &launch, err);                                                                         \
  })
ROGUE_LAUNCH(gives_a_long_argument, bytes[1] = 8)
ROGUE_LAUNCH(gives_few_arguments, launch.argument_count = 1)
ROGUE_LAUNCH(gives_no_argument, argument[0] = NULL)
ROGUE_LAUNCH(gives_no_kernel, launch.kernel = NULL)
ROGUE_LAUNCH(gives_no_grid, launch.grid[1] = 0)
ROGUE_LAUNCH(gives_a_reserved_word, launch.reserved0 = 1)
ROGUE_LAUNCH(gives_a_reserved_field, launch.reserved[1] = 1)
ROGUE_LAUNCH(gives_a_flag, launch.flags = 2)
ROGUE_LAUNCH(gives_no_address, static void *const nowhere = NULL; argument[0] = &nowhere)
ROGUE(hides_a_failure, {
  ord_plugin_error ignored = {.struct_size = sizeof ignored};
  (void)gives_few_arguments(r, exec, &ignored);
  (void)err;
  return ORD_OK;
})

static rogue open_rogue(const plan_stage *s) {
  rogue r = {.device = (ord_cuda_device *)s->device, .host = s->host};
  ord_plugin_error fault = {.struct_size = sizeof fault};
  assert_int_equal(s->host->image_kernel(s->host->context, "steps", "add_number", 0, &r.add_number, &fault), ORD_OK);
  assert_int_equal(r.device->call.StreamCreateWithPriority(&r.other, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
  assert_int_equal(r.device->call.EventCreate(&r.event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  assert_int_equal(r.device->call.MemHostAlloc(&r.pinned, 4, 0), CUDA_SUCCESS);
  memset(r.pinned, 0, 4);
  *(void **)&r.wait_event = driver_function("cuStreamWaitEvent");
  *(void **)&r.copy = driver_function("cuMemcpyAsync");
  return r;
}

static void close_rogue(rogue *r) {
  (void)r->device->call.EventDestroy(r->event);
  (void)r->device->call.StreamDestroy(r->other);
  (void)r->device->call.MemFreeHost(r->pinned);
  if (r->loaded) (void)r->device->call.MemFree(r->loaded);
}

typedef struct rogue_case {
  ord_status (*launch)(void *state, const ord_exec *exec, ord_plugin_error *err);
  ord_answer answer;
  uint16_t role;
  const char *part; /* of the message; NULL: it works */
} rogue_case;

/* A step of this kernel on the first element of the arena. */
static ord_step *add_rogue(hand_plan *h, rogue *r, const rogue_case *row, ord_kernel *kernel) {
  const ord_location place[] = {in(0)};
  ord_step *step = add_bare_step(h, "layer.3.attn", place, 1, 1);
  *kernel = (ord_kernel){.struct_size = sizeof *kernel, .name = "odd", .launch = row->launch};
  step->choice = (ord_choice){.plugin = &rogue_plugin, .kernel = kernel, .answer = row->answer};
  step->state = r;
  step->scratch_offset = SCRATCH_AT;
  step->persistent_offset = PERSISTENT_AT;
  h->operand[h->plan.step_count - 1][0].role = row->role;
  return step;
}

#define BEGINNING "layer.3.attn: kernel odd of plugin rogue: "
#define OWN                                                                                                            \
  { .phase_count = 1 }
#define LIBRARY(most)                                                                                                  \
  { .phase_count = most, .flags = ORD_RUNS_LIBRARY, .scratch_bytes = 4 }
#define FORBIDDEN                                                                                                      \
  BEGINNING "capture failed: the launch did what no capture allows (it allocated, freed, loaded, synchronised or "     \
            "asked): "
#define HOST_COPY                                                                                                      \
  BEGINNING                                                                                                            \
  "capture failed: found a copy from or to the host's memory in its work; wanted kernels, memsets and copies "         \
  "within the device"
#define INVALIDATED " failed: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901)"

static const rogue_case bad_captures[] = {
    {allocates, OWN, 0, FORBIDDEN "kernel 'add_number': cuLaunchKernelEx" INVALIDATED},
    {tells_that_it_allocated, OWN, 0, BEGINNING "capture failed: cuMemAlloc failed (native code 900)"},
    {synchronises, OWN, 0, FORBIDDEN "cuStreamEndCapture" INVALIDATED},
    {asks, OWN, 0, FORBIDDEN "cuStreamEndCapture" INVALIDATED},
    {forks, OWN, 0,
     BEGINNING "capture failed: the launch left a stream forked: cuStreamEndCapture failed: "
               "CUDA_ERROR_STREAM_CAPTURE_UNJOINED (904)"},
    {ends_the_capture, OWN, 0,
     BEGINNING "capture failed: ending the capture: cuStreamEndCapture failed: CUDA_ERROR_ILLEGAL_STATE (401)"},
    {launches_by_other_means,
     {.phase_count = 2},
     0,
     BEGINNING "capture failed: found 2 pieces of work on the stream, 1 of them launched through gpu_launch; wanted "
               "all, or ORD_RUNS_LIBRARY in the kernel's answer"},
    {clears, OWN, 0, BEGINNING "capture failed: found 1 pieces of work on the stream, 0 of them launched"},
    {adds_twice, OWN, 0,
     BEGINNING "capture failed: found 2 pieces of work on the stream; wanted at most 1, its phase_count"},
    {fails, OWN, 0, BEGINNING "capture failed: found an odd value (native code 3)"},
    {loads, OWN, 0,
     BEGINNING "capture failed: found a launch that asks for kernel 'add_number' of image 'steps'; wanted that in "
               "prepare"},
    {gives_a_long_argument, OWN, 0,
     BEGINNING "capture failed: kernel 'add_number': argument 1: found 8 bytes; wanted 4"},
    {gives_few_arguments, OWN, 0, BEGINNING "capture failed: kernel 'add_number': found 1 arguments; wanted 2"},
    {gives_no_argument, OWN, 0,
     BEGINNING "capture failed: kernel 'add_number': argument 0: found 8 bytes at NULL; wanted 8"},
    {gives_no_kernel, OWN, 0, BEGINNING "capture failed: found no kernel to launch; wanted one of image_kernel"},
    {gives_no_grid, OWN, 0,
     BEGINNING "capture failed: kernel 'add_number': found grid [1, 0, 1], block [1, 1, 1]; wanted no 0"},
    {gives_a_reserved_word, OWN, 0,
     BEGINNING "capture failed: kernel 'add_number': found something in a reserved field; wanted 0"},
    {gives_a_reserved_field, OWN, 0,
     BEGINNING "capture failed: kernel 'add_number': found something in a reserved field; wanted 0"},
    {gives_a_flag, OWN, 0,
     BEGINNING "capture failed: kernel 'add_number': found flags 2; wanted 0 or ORD_LAUNCH_DEPENDENT"},
    {hides_a_failure, OWN, 0, BEGINNING "capture failed: kernel 'add_number': found 1 arguments; wanted 2"},
    {copies_from_the_host, LIBRARY(1), 0, HOST_COPY},
    {copies_from_pinned, LIBRARY(1), 0, HOST_COPY},
    {copies_from_pageable, LIBRARY(1), 0, HOST_COPY},
    {copies_to_pinned, LIBRARY(1), 0, HOST_COPY},
    {runs_library, LIBRARY(2), 0,
     BEGINNING "capture failed: found 3 pieces of work on the stream; wanted at most 2, its phase_count"},
    {runs_library,
     {.phase_count = 3, .flags = ORD_RUNS_LIBRARY, .persistent_bytes = 4},
     0,
     BEGINNING "capture failed: a library's calls are made once before they are captured, which would change "
               "persistent memory"},
    {runs_library, LIBRARY(3), ORD_STATE,
     BEGINNING "capture failed: a library's calls are made once before they are captured, which would change a state"},
    {fails, LIBRARY(3), 0, BEGINNING "warm-up failed: found an odd value (native code 3)"},
};

/* A capture that failed leaves nothing behind: the next one on the same queue works. */
static void bad_kernels(void **state) {
  (void)state;
  plan_stage s = open_plan_stage(cuda_options());
  hand_plan *good = open_mixes(&s);
  rogue r = open_rogue(&s);
  for (size_t i = 0; i < sizeof bad_captures / sizeof *bad_captures; i++) {
    ord_kernel kernel;
    ord_error err = ORD_ERROR_INIT;
    hand_plan *h = open_mixes(&s);
    add_rogue(h, &r, &bad_captures[i], &kernel);
    const long live = live_count;
    ord_capture *captured = (ord_capture *)&kernel;
    MUST_FAIL(s.table->capture(h->queue, &h->plan, &h->memory, &captured, &err), bad_captures[i].part);
    assert_null(captured);
    assert_int_equal(live_count, live);
    h->plan.step_count--;
    captured = capture(h);
    write_inputs(h, (int32_t)i);
    replay(h, captured);
    assert_right(h, (int32_t)i);
    s.table->capture_destroy(captured);
    assert_int_equal(live_count, live);
    close_hand_plan(h);
  }
  assert_int_equal(r.device->call.StreamSynchronize(r.other), CUDA_SUCCESS);
  close_rogue(&r);
  close_hand_plan(good);
  close_plan_stage(&s);
}

static void test_bad_kernels(void **state) {
  (void)state;
  run_in_all_orders("bad kernels", bad_kernels);
}

/* Eagerly, what a launch does wrong is told as well. */
static void bad_launches(void **state) {
  (void)state;
  static const rogue_case rows[] = {
      {gives_few_arguments, OWN, 0, BEGINNING "launch failed: kernel 'add_number': found 1 arguments; wanted 2"},
      {hides_a_failure, OWN, 0, BEGINNING "launch failed: kernel 'add_number': found 1 arguments; wanted 2"},
      {fails, OWN, 0, BEGINNING "launch failed: found an odd value (native code 3)"}};
  plan_stage s = open_plan_stage(cuda_options());
  rogue r = open_rogue(&s);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    ord_kernel kernel;
    ord_error err = ORD_ERROR_INIT;
    hand_plan *h = open_mixes(&s);
    add_rogue(h, &r, &rows[i], &kernel);
    MUST_FAIL(s.table->run_eager(h->queue, &h->plan, &h->memory, NULL, &err), rows[i].part);
    close_hand_plan(h);
  }
  close_rogue(&r);
  close_plan_stage(&s);
}

static void test_bad_launches(void **state) {
  (void)state;
  run_in_all_orders("bad launches", bad_launches);
}

/* ---- libraries ---- */

static void library_steps(void **state) {
  (void)state;
  plan_stage s = open_plan_stage(cuda_options());
  hand_plan *h = open_hand_plan(&s, ARENA_BYTES, WIDTH);
  rogue r = open_rogue(&s);
  ord_kernel kernel[5];
  const rogue_case own = {adds, OWN, 0, NULL}, library = {runs_library, LIBRARY(3), 0, NULL};
  const rogue_case copying = {copies_within, LIBRARY(1), 0, NULL};
  const rogue_case both = {launches_by_other_means, LIBRARY(2), 0, NULL};
  add_rogue(h, &r, &own, &kernel[0]);
  add_rogue(h, &r, &library, &kernel[1]);
  add_rogue(h, &r, &own, &kernel[2]);
  add_rogue(h, &r, &both, &kernel[3]);
  add_rogue(h, &r, &copying, &kernel[4]);
  ord_capture *captured = capture(h);
  assert_int_equal(r.calls[ORD_WARMUP], 3); /* own kernels need none */
  assert_int_equal(r.calls[ORD_CAPTURING], 5);
  assert_int_equal(r.calls[0], 0);
  assert_int_equal(captured->report.launch_count, 2);
  assert_int_equal(captured->report.library_count, 3);
  assert_int_equal(captured->report.node_count, 2 + 3 + 2 + 1);
  for (int run = 0; run < 2; run++) {
    int32_t number = 1000, got = 0;
    put(h, h->memory.arena, &number, sizeof number);
    if (run == 0) replay(h, captured);
    if (run == 1) run_eager(h, NULL);
    get(h, &got, h->memory.arena, sizeof got);
    assert_int_equal(got, 0); /* 1000 + 5; 0 + 7; + 5; + 5 + 7; what the library's scratch holds */
  }
  s.table->capture_destroy(captured);
  close_rogue(&r);
  close_hand_plan(h);
  close_plan_stage(&s);
}

static void test_library_steps(void **state) {
  (void)state;
  run_in_all_orders("library steps", library_steps);
}

/* ---- faults ---- */

/* Where work runs when it is asked for, the fault is found at its step; elsewhere when the host waits. */
static void faults(void **state) {
  (void)state;
  const bool is_eager = is_order("eager");
  plan_stage s = open_plan_stage(cuda_options());
  hand_plan *h = open_hand_plan(&s, ARENA_BYTES, WIDTH);
  rogue r = open_rogue(&s);
  ord_kernel kernel;
  const rogue_case row = {gives_no_address, OWN, 0, NULL};
  ord_error err = ORD_ERROR_INIT;
  add_rogue(h, &r, &row, &kernel);
  ord_capture *captured = capture(h), *other = NULL;
  if (is_eager)
    MUST_FAIL(s.table->run_eager(h->queue, &h->plan, &h->memory, NULL, &err), BEGINNING "launch failed: ");
  else if (s.table->run_eager(h->queue, &h->plan, &h->memory, NULL, &err))
    MUST_FAIL(s.table->wait(h->queue, &err), "CUDA_ERROR_ILLEGAL_ADDRESS (700)");
  assert_non_null(strstr(err.text, "CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
  assert_int_equal(err.code, ORD_DEVICE_FAILED);
  MUST_FAIL(s.table->replay(h->queue, captured, NULL, &err), "the CUDA device is lost until the process ends");
  MUST_FAIL(s.table->capture(h->queue, &h->plan, &h->memory, &other, &err), "the CUDA device is lost");
  MUST_FAIL(s.table->run_eager(h->queue, &h->plan, &h->memory, NULL, &err), "the CUDA device is lost");
  s.table->capture_destroy(captured);
  close_hand_plan(h);
  close_plan_stage(&s);
}

static void test_faults(void **state) {
  (void)state;
  run_in_all_orders("faults", faults);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bad_kernels),
      cmocka_unit_test(test_bad_launches),
      cmocka_unit_test(test_library_steps),
      cmocka_unit_test(test_faults),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
