/* SPDX-License-Identifier: MIT
 *
 * Capture, replay and eager runs of small plans that are written down by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/capture.h"

enum { WIDTH = 1000, CHUNKS = 7, THREADS = 3, WORKER_STRIDE = 128 };

/* A kernel of two phases. Phase 0: chunk i sums its share of `in` into scratch[i], by way of its worker memory.
 * Phase 1: out[i] = in[i] * weight + all partial sums + past + extent, chunk by chunk, which is only right if every
 * chunk of phase 0 ran once before. */
typedef struct {
  _Atomic uint32_t launches;
  _Atomic uint32_t faults;
  uint32_t fails_in_phase; /* ORD_PHASE_MAX: never */
  _Atomic uint32_t *cancels;
} mix_state;

enum { IN, WEIGHT, PAST, EXTENT, ABSENT, OUT, OPERANDS };

static ord_status mix_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  mix_state *mix = state;
  atomic_fetch_add(&mix->launches, 1);
  if (exec->struct_size != sizeof *exec || exec->flags || exec->operand[ABSENT] || exec->chunk_count != CHUNKS)
    atomic_fetch_add(&mix->faults, 1);
  if (exec->phase == mix->fails_in_phase) {
    strcpy(err->text, "found an odd value");
    err->native = 3;
    return ORD_INVALID;
  }
  const int64_t *in = exec->operand[IN];
  int64_t *out = exec->operand[OUT], *scratch = exec->scratch, *persistent = exec->persistent;
  const uint32_t first = WIDTH * exec->chunk / CHUNKS, end = WIDTH * (exec->chunk + 1) / CHUNKS;
  if (exec->phase == 0) {
    int64_t *sum = exec->worker;
    *sum = 0;
    for (uint32_t i = first; i < end; i++) *sum += in[i];
    scratch[exec->chunk] = *sum;
    if (exec->chunk == 0) persistent[0]++;
    return ORD_OK;
  }
  int64_t all = *(const int32_t *)exec->operand[PAST] + *(const int64_t *)exec->operand[EXTENT];
  for (uint32_t i = 0; i < CHUNKS; i++) all += scratch[i];
  for (uint32_t i = first; i < end; i++) out[i] = in[i] * *(const int64_t *)exec->operand[WEIGHT] + all;
  if (mix->cancels) atomic_store(mix->cancels, 1);
  return ORD_OK;
}

static const ord_kernel mix_kernel = {.struct_size = sizeof mix_kernel, .name = "mix", .launch = mix_launch};
static const ord_manifest manifest = {.name = "tests"};
static const ord_plugin_entry plugin = {.manifest = &manifest};

enum { STEPS = 3 };
enum {
  ROW_BYTES = WIDTH * 8,
  SCRATCH_AT = 4 * ROW_BYTES,
  PERSISTENT_AT = SCRATCH_AT + 64,
  ARENA_BYTES = PERSISTENT_AT + 64
};

typedef struct {
  ord_device *device;
  ord_queue *queue;
  ord_plan plan;
  ord_step step[STEPS];
  ord_location place[STEPS][OPERANDS];
  mix_state mix[STEPS];
  int64_t weight;
  const void *weights[1];
  ord_memory memory;
  int32_t past[1];
  int64_t extent[2];
  int64_t cache_row[WIDTH];
  void *cache[1];
  ord_capture *capture;
  ord_error err;
} fixture;

static void reset_arena(fixture *f) {
  memset(f->memory.arena, 0, ARENA_BYTES);
  int64_t *input = f->memory.arena;
  for (int64_t i = 0; i < WIDTH; i++) input[i] = i % 13;
}

static int set_up(void **state) {
  fixture *f = calloc(1, sizeof *f);
  *state = f;
  f->err = (ord_error)ORD_ERROR_INIT;
  assert_true(ord_device_cpu_create(THREADS, NULL, &f->device, NULL, &f->err));
  assert_true(f->device->table->queue_create(f->device, &f->queue, &f->err));
  f->weight = 3;
  f->weights[0] = &f->weight;
  f->past[0] = 5;
  f->extent[1] = 70;
  f->cache[0] = f->cache_row;
  f->memory = (ord_memory){.cache = f->cache, .past = f->past, .extent = f->extent, .worker_stride = WORKER_STRIDE};
  assert_true(f->device->table->allocate(f->device, ARENA_BYTES, true, &f->memory.arena, &f->err));
  assert_true(f->device->table->allocate(f->device, THREADS * WORKER_STRIDE, true, &f->memory.worker, &f->err));
  static const char *const label[STEPS] = {"layer.0.a", "layer.0.b", "layer.1.a"};
  for (uint32_t i = 0; i < STEPS; i++) {
    f->mix[i].fails_in_phase = ORD_PHASE_MAX;
    ord_location *place = f->place[i];
    place[IN] = (ord_location){ORD_SPACE_ARENA, 0, i * ROW_BYTES};
    place[WEIGHT] = (ord_location){ORD_SPACE_WEIGHT, 0, 0};
    place[PAST] = (ord_location){ORD_SPACE_PAST, 0, 0};
    place[EXTENT] = (ord_location){ORD_SPACE_EXTENT, 1, 0};
    place[ABSENT] = (ord_location){ORD_SPACE_NONE, 0, 0};
    place[OUT] = (ord_location){ORD_SPACE_ARENA, 0, (i + 1) * ROW_BYTES};
    f->step[i] = (ord_step){.node = {.op = "mix", .label = label[i], .operand_count = OPERANDS},
                            .choice = {.plugin = &plugin, .kernel = &mix_kernel},
                            .place = place,
                            .scratch_offset = SCRATCH_AT,
                            .persistent_offset = PERSISTENT_AT + 8 * i,
                            .state = &f->mix[i]};
    f->step[i].choice.answer = (ord_answer){.scratch_bytes = 64,
                                            .persistent_bytes = 8,
                                            .worker_bytes = 8,
                                            .phase_count = 2,
                                            .chunk_limit = {CHUNKS, CHUNKS}};
  }
  f->place[STEPS - 1][OUT] = (ord_location){ORD_SPACE_CACHE, 0, 0};
  f->plan = (ord_plan){.step = f->step, .step_count = STEPS, .weight = f->weights, .weight_count = 1};
  assert_true(f->device->table->capture(f->queue, &f->plan, &f->memory, &f->capture, &f->err));
  reset_arena(f);
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  f->device->table->capture_destroy(f->capture);
  f->device->table->release(f->device, f->memory.arena);
  f->device->table->release(f->device, f->memory.worker);
  f->device->table->queue_destroy(f->queue);
  f->device->table->destroy(f->device);
  free(f);
  return 0;
}

static bool replay(fixture *f, const ord_run_options *options) {
  return f->device->table->replay(f->queue, f->capture, options, &f->err);
}

static bool run_eager(fixture *f, const ord_run_options *options) {
  return f->device->table->run_eager(f->queue, &f->plan, &f->memory, options, &f->err);
}

/* The rows in a plain loop. */
static void compute(const fixture *f, int64_t *row) {
  for (int64_t i = 0; i < WIDTH; i++) row[i] = i % 13;
  for (int step = 0; step < STEPS; step++) {
    int64_t all = f->past[0] + f->extent[1];
    for (int i = 0; i < WIDTH; i++) all += row[i];
    for (int i = 0; i < WIDTH; i++) row[i] = row[i] * f->weight + all;
  }
}

static void assert_right(const fixture *f) {
  static int64_t wanted[WIDTH];
  compute(f, wanted);
  assert_memory_equal(f->cache_row, wanted, sizeof wanted);
}

static void test_replay_and_eager_make_the_same(void **state) {
  fixture *f = *state;
  for (int run = 0; run < 50; run++) {
    f->past[0] = run; /* run-time data: read anew by every run */
    f->extent[1] = 3 * run;
    f->weight = run % 5;
    reset_arena(f);
    assert_true(replay(f, NULL));
    assert_right(f);
    memset(f->cache_row, 0, sizeof f->cache_row);
    reset_arena(f);
    assert_true(run_eager(f, NULL));
    assert_right(f);
  }
  for (int i = 0; i < STEPS; i++) {
    assert_int_equal(f->mix[i].launches, 100 * 2 * CHUNKS);
    assert_int_equal(f->mix[i].faults, 0);
  }
}

static void test_persistent_memory_stays(void **state) {
  fixture *f = *state;
  for (int run = 0; run < 4; run++) assert_true(replay(f, NULL));
  assert_true(run_eager(f, NULL));
  const int64_t *persistent = (const int64_t *)((const char *)f->memory.arena + PERSISTENT_AT);
  for (int i = 0; i < STEPS; i++) assert_int_equal(persistent[i], 5);
}

typedef bool (*run_fn)(fixture *f, const ord_run_options *options);
static const run_fn both_ways[] = {replay, run_eager};

static void test_a_failing_launch_stops_the_run(void **state) {
  fixture *f = *state;
  for (size_t way = 0; way < 2; way++) {
    for (int i = 0; i < STEPS; i++) f->mix[i].launches = 0;
    f->mix[1].fails_in_phase = 1;
    assert_false(both_ways[way](f, NULL));
    assert_int_equal(f->err.code, ORD_INVALID);
    assert_string_equal(f->err.text,
                        "layer.0.b: launch failed in plugin tests: mix: found an odd value (native code 3)");
    assert_int_equal(f->mix[0].launches, 2 * CHUNKS);
    assert_in_range(f->mix[1].launches, CHUNKS + 1, 2 * CHUNKS);
    assert_int_equal(f->mix[2].launches, 0);
    f->mix[1].fails_in_phase = ORD_PHASE_MAX;
    assert_true(both_ways[way](f, NULL));
  }
}

static void test_cancel_is_seen_between_steps(void **state) {
  fixture *f = *state;
  for (size_t way = 0; way < 2; way++) {
    _Atomic uint32_t cancel = 0;
    const ord_run_options options = {.cancel = &cancel};
    f->mix[0].cancels = &cancel;
    f->mix[1].launches = 0;
    assert_false(both_ways[way](f, &options));
    assert_int_equal(f->err.code, ORD_CANCELLED);
    assert_string_equal(f->err.text, "the run was cancelled before layer.0.b");
    assert_int_equal(f->mix[1].launches, 0);
    f->mix[0].cancels = NULL;
    atomic_store(&cancel, 0);
    reset_arena(f);
    assert_true(both_ways[way](f, &options));
    assert_right(f);
  }
}

static void test_step_times_add_up(void **state) {
  fixture *f = *state;
  uint64_t step_ns[STEPS] = {0};
  const ord_run_options options = {.step_ns = step_ns};
  assert_true(replay(f, &options));
  for (int i = 0; i < STEPS; i++) assert_true(step_ns[i] > 0);
  const uint64_t before = step_ns[0];
  assert_true(run_eager(f, &options));
  assert_true(step_ns[0] > before);
}

/* Each phase of each step has a column of its own, in which every chunk is counted once, whoever computed it. */
static void test_phase_times_count_every_chunk(void **state) {
  fixture *f = *state;
  enum { PHASES = 2 * STEPS, STRIDE = PHASES + 1 };
  for (size_t way = 0; way < 2; way++) {
    ord_phase_time time[THREADS][STRIDE] = {0};
    const ord_run_options options = {.phase = time[0], .phase_stride = STRIDE};
    for (uint64_t runs = 1; runs <= 2; runs++) {
      reset_arena(f);
      assert_true(both_ways[way](f, &options));
      assert_right(f);
      for (int phase = 0; phase < STRIDE; phase++) {
        ord_phase_time all = {0};
        for (int thread = 0; thread < THREADS; thread++) {
          all.ns += time[thread][phase].ns;
          all.chunks += time[thread][phase].chunks;
        }
        assert_int_equal(all.chunks, phase < PHASES ? runs * CHUNKS : 0);
        assert_true((all.ns > 0) == (phase < PHASES));
      }
    }
  }
}

static ord_status want_nothing(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)state;
  (void)err;
  return exec->scratch || exec->worker || exec->persistent ? ORD_INTERNAL : ORD_OK;
}

static void test_memory_that_was_not_asked_for_is_null(void **state) {
  fixture *f = *state;
  const ord_kernel modest = {.struct_size = sizeof modest, .name = "modest", .launch = want_nothing};
  f->plan.step_count = 1;
  f->step[0].choice.kernel = &modest;
  f->step[0].choice.answer = (ord_answer){.phase_count = 1, .chunk_limit = {CHUNKS}};
  f->memory.worker_stride = 0;
  void *worker = f->memory.worker;
  f->memory.worker = NULL;
  ord_capture *capture;
  assert_true(ord_capture_create(f->queue, &f->plan, &f->memory, &capture, &f->err));
  assert_true(ord_capture_replay(f->queue, capture, NULL, &f->err));
  assert_true(run_eager(f, NULL));
  f->memory.worker = worker;
  ord_capture_destroy(capture);
}

static void test_a_plan_without_steps(void **state) {
  fixture *f = *state;
  ord_capture *capture;
  f->plan.step_count = 0;
  assert_true(ord_capture_create(f->queue, &f->plan, &f->memory, &capture, &f->err));
  assert_true(ord_capture_replay(f->queue, capture, NULL, &f->err));
  assert_true(run_eager(f, NULL));
  assert_true(capture->report.bytes < f->capture->report.bytes);
  ord_capture_destroy(capture);
  ord_capture_destroy(NULL);
}

/* Two sessions with memory of their own replay on one device. */
static void *replay_many_times(void *state) {
  fixture *f = state;
  for (int run = 0; run < 200; run++) {
    reset_arena(f);
    if (!replay(f, NULL)) return "failed";
  }
  return NULL;
}

static void test_two_sessions_on_one_device(void **state) {
  fixture *f = *state;
  void *other_state;
  set_up(&other_state);
  fixture *other = other_state;
  ord_queue *own = other->queue;
  assert_true(f->device->table->queue_create(f->device, &other->queue, &f->err));
  pthread_t thread[2];
  assert_int_equal(pthread_create(&thread[0], NULL, replay_many_times, f), 0);
  assert_int_equal(pthread_create(&thread[1], NULL, replay_many_times, other), 0);
  for (int i = 0; i < 2; i++) {
    void *result;
    pthread_join(thread[i], &result);
    assert_null(result);
  }
  assert_right(f);
  assert_right(other);
  f->device->table->queue_destroy(other->queue);
  other->queue = own;
  tear_down(&other_state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_replay_and_eager_make_the_same, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_persistent_memory_stays, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_a_failing_launch_stops_the_run, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_cancel_is_seen_between_steps, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_step_times_add_up, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_phase_times_count_every_chunk, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_memory_that_was_not_asked_for_is_null, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_a_plan_without_steps, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_two_sessions_on_one_device, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
