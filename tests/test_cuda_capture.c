/* SPDX-License-Identifier: MIT
 *
 * Captures, replays and eager runs of plans on the CUDA device; too little memory, several threads.
 */
#include <pthread.h>

#include "failing_memory.h"

#include "cuda_mixes.h"

/* ---- good kernels ---- */

static void replay_is_eager(void **state) {
  (void)state;
  plan_stage s = open_plan_stage(cuda_options());
  hand_plan *h = open_mixes(&s);
  ord_capture *captured = capture(h);
  assert_int_equal(captured->report.step_count, MIXES);
  assert_int_equal(captured->report.launch_count, 2 * MIXES);
  assert_int_equal(captured->report.node_count, 2 * MIXES);
  assert_int_equal(captured->report.library_count, 0);
  assert_true(captured->report.bytes > 2 * MIXES * sizeof(ord_cuda_launch));
  int32_t runs[MIXES][16];
  get(h, runs, in_arena(h, PERSISTENT_AT), sizeof runs);
  for (int i = 0; i < MIXES; i++) assert_int_equal(runs[i][0], 0); /* capturing ran nothing */
  for (int32_t seed = 0; seed < 5; seed++) {
    write_inputs(h, seed);
    replay(h, captured);
    assert_right(h, seed);
    write_inputs(h, seed);
    run_eager(h, NULL);
    assert_right(h, seed);
  }
  get(h, runs, in_arena(h, PERSISTENT_AT), sizeof runs);
  for (int i = 0; i < MIXES; i++) assert_int_equal(runs[i][0], 10);
  s.table->capture_destroy(captured);
  s.table->capture_destroy(NULL);
  close_hand_plan(h);
  close_plan_stage(&s);
}

static void test_replay_is_eager(void **state) {
  (void)state;
  run_in_all_orders("replay is eager", replay_is_eager);
}

static void no_steps(void **state) {
  (void)state;
  plan_stage s = open_plan_stage(cuda_options());
  hand_plan *h = open_hand_plan(&s, 64, 1);
  ord_capture *captured = capture(h);
  assert_int_equal(captured->report.node_count, 0);
  replay(h, captured);
  run_eager(h, NULL);
  s.table->capture_destroy(captured);
  close_hand_plan(h);
  close_plan_stage(&s);
}

static void test_no_steps(void **state) {
  (void)state;
  run_in_all_orders("no steps", no_steps);
}

static void cancel_and_times(void **state) {
  (void)state;
  plan_stage s = open_plan_stage(cuda_options());
  hand_plan *h = open_mixes(&s);
  ord_capture *captured = capture(h);
  ord_error err = ORD_ERROR_INIT;
  _Atomic uint32_t cancel = 1;
  uint64_t ns[MIXES] = {0};
  ord_run_options options = {.cancel = &cancel, .step_ns = ns};
  MUST_FAIL(s.table->replay(h->queue, captured, &options, &err), "the run was cancelled before it was launched");
  assert_int_equal(err.code, ORD_CANCELLED);
  MUST_FAIL(s.table->run_eager(h->queue, &h->plan, &h->memory, &options, &err), "cancelled before layer.0.a");
  assert_int_equal(err.code, ORD_CANCELLED);
  for (int i = 0; i < MIXES; i++) assert_int_equal(ns[i], 0);
  atomic_store(&cancel, 0);
  write_inputs(h, 2);
  run_eager(h, &options);
  assert_right(h, 2);
  for (int i = 0; i < MIXES; i++) assert_true(ns[i] > 0 && ns[i] < 60000000000u);
  s.table->capture_destroy(captured);
  close_hand_plan(h);
  close_plan_stage(&s);
}

static void test_cancel_and_times(void **state) {
  (void)state;
  run_in_all_orders("cancel and times", cancel_and_times);
}

static void find_current(void *state) {
  CUresult (*get_current)(CUcontext *) = NULL;
  *(void **)&get_current = driver_function("cuCtxGetCurrent");
  (void)get_current(state);
}

/* Whatever the thread did that destroys the plan. */
static void retires_on_the_device(void **state) {
  (void)state;
  static const ord_kernel kernel = {.retire = find_current};
  plan_stage s = open_plan_stage(cuda_options());
  const ord_cuda_device *device = (const ord_cuda_device *)s.device;
  CUcontext found = NULL;
  ord_step step = {.choice = {.kernel = &kernel}, .state = &found};
  ord_plan *plan = calloc(1, sizeof *plan);
  assert_non_null(plan);
  *plan = (ord_plan){.device = s.device, .step = &step, .step_count = 1};
  assert_int_equal(device->call.CtxSetCurrent(NULL), CUDA_SUCCESS);
  ord_plan_destroy(plan);
  assert_ptr_equal(found, device->context);
  close_plan_stage(&s);
}

static void test_retires_on_the_device(void **state) {
  (void)state;
  run_in_child("retires on the device", retires_on_the_device, NULL);
}

/* ---- memory and threads ---- */

static void no_host_memory(void **state) {
  (void)state;
  plan_stage s = open_plan_stage(cuda_options());
  hand_plan *h = open_mixes(&s);
  uint64_t ns[MIXES] = {0};
  const ord_run_options options = {.step_ns = ns};
  const long live = live_count;
  int failures = 0;
  for (bool is_done = false; !is_done;) {
    ord_error err = ORD_ERROR_INIT;
    ord_capture *captured = NULL;
    allocation_count = 0;
    fail_at = failures;
    is_done = s.table->capture(h->queue, &h->plan, &h->memory, &captured, &err) &&
              s.table->run_eager(h->queue, &h->plan, &h->memory, &options, &err);
    fail_at = -1;
    if (!is_done) {
      assert_int_equal(err.code, ORD_NO_MEMORY);
      assert_non_null(strstr(err.text, "out of memory"));
      failures++;
    }
    s.table->capture_destroy(captured);
    assert_int_equal(live_count, live);
  }
  assert_true(failures > 5);
  write_inputs(h, 1);
  run_eager(h, NULL);
  assert_right(h, 1);
  close_hand_plan(h);
  close_plan_stage(&s);
}

static void test_no_host_memory(void **state) {
  (void)state;
  run_in_child("no host memory", no_host_memory, NULL);
}

typedef struct capturing {
  const plan_stage *stage;
  hand_plan *plan;
  int failures;
  char text[400];
} capturing;

/* Without assertions, which are for the main thread only. */
static void *capture_often(void *context) {
  capturing *own = context;
  const ord_device_table *table = own->stage->table;
  hand_plan *h = own->plan;
  for (int i = 0; i < 20; i++) {
    ord_error err = ORD_ERROR_INIT;
    ord_capture *captured = NULL;
    int32_t got[WIDTH] = {0}, wanted[WIDTH], row[WIDTH];
    for (int32_t k = 0; k < WIDTH; k++) row[k] = k % 13;
    compute(4, wanted);
    const bool done = table->capture(h->queue, &h->plan, &h->memory, &captured, &err) &&
                      table->write(h->queue, h->memory.arena, row, sizeof row, &err) &&
                      table->replay(h->queue, captured, NULL, &err) &&
                      table->read(h->queue, got, h->cache[0], sizeof got, &err);
    if (!done || memcmp(got, wanted, sizeof got) != 0) {
      own->failures++;
      snprintf(own->text, sizeof own->text, "%.399s", done ? "wrong numbers" : err.text);
    }
    table->capture_destroy(captured);
  }
  return NULL;
}

/* Freeing is what a capture does not survive: the gate keeps the two apart. */
static void *allocate_often(void *context) {
  const plan_stage *s = context;
  for (int i = 0; i < 100; i++) {
    void *memory = NULL;
    ord_error err = ORD_ERROR_INIT;
    if (s->table->allocate(s->device, 100, true, &memory, &err)) s->table->release(s->device, memory);
  }
  return NULL;
}

static void two_threads(void **state) {
  (void)state;
  plan_stage s = open_plan_stage(cuda_options());
  pthread_t thread[3];
  capturing each[2];
  slow_down_captures(s.device, 1000000);
  for (int i = 0; i < 2; i++) {
    each[i] = (capturing){.stage = &s, .plan = open_mixes(&s)};
    write_inputs(each[i].plan, 4);
  }
  for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&thread[i], NULL, capture_often, &each[i]), 0);
  assert_int_equal(pthread_create(&thread[2], NULL, allocate_often, &s), 0);
  for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
  for (int i = 0; i < 2; i++) {
    if (each[i].failures) fail_msg("%d captures failed, the last one: %s", each[i].failures, each[i].text);
    close_hand_plan(each[i].plan);
  }
  close_plan_stage(&s);
}

static void test_two_threads(void **state) {
  (void)state;
  run_in_all_orders("two threads", two_threads);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_replay_is_eager),  cmocka_unit_test(test_no_steps),
      cmocka_unit_test(test_cancel_and_times), cmocka_unit_test(test_no_host_memory),
      cmocka_unit_test(test_two_threads),      cmocka_unit_test(test_retires_on_the_device),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
