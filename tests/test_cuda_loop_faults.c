/* SPDX-License-Identifier: MIT
 *
 * Loops on the CUDA device that are refused, or that fail while they run.
 */
#include "failing_memory.h"

#include "cuda_decode.h"

static void refusals(void **state) {
  (void)state;
  scene *c = open_scene(CAPACITY, is_one_launch);
  const ord_device_table *table = c->stage.table;
  const ord_loop_places places = places_of(c->plan);
  ord_error err = ORD_ERROR_INIT;
  ord_loop *loop = (ord_loop *)c;
  ord_loop_state ended;
  int32_t token;
  MUST_FAIL(table->loop_create(c->plan->queue, c->captured, &places,
                               &(ord_loop_options){.is_one_launch = is_one_launch}, &loop, &err),
            "generation on the device: found room for 0 tokens; wanted at least 1");
  assert_null(loop);
  MUST_FAIL(table->loop_next(c->loop, &token, &ended, &err), "found a loop that has ended");
  MUST_FAIL(table->loop_start(c->loop, &(ord_loop_request){.limit = 0}, &err), "found 0 tokens; wanted 1 to 40");
  MUST_FAIL(table->loop_start(c->loop, &(ord_loop_request){.limit = CAPACITY + 1}, &err), "found 41 tokens");
  MUST_FAIL(table->loop_start(c->loop, &(ord_loop_request){.limit = 1, .stop_count = ORD_LOOP_STOP_MAX + 1}, &err),
            "found 17 stop tokens; wanted at most 16");
  start(c, &(ord_loop_request){.limit = 3});
  MUST_FAIL(table->loop_start(c->loop, &(ord_loop_request){.limit = 3}, &err), "found a loop that runs");
  table->loop_destroy(NULL);
  close_scene(c); /* while it runs */
}

static void test_refusals(void **state) {
  (void)state;
  run_both_ways("refusals", refusals);
}

static void old_driver(void **state) {
  (void)state;
  scene *c = open_scene(CAPACITY, false);
  const ord_loop_places places = places_of(c->plan);
  ord_error err = ORD_ERROR_INIT;
  ord_loop *loop = NULL;
  ord_loop_state ended;
  int32_t got[CAPACITY];
  MUST_FAIL(c->stage.table->loop_create(c->plan->queue, c->captured, &places,
                                        &(ord_loop_options){.capacity = 1, .is_one_launch = true}, &loop, &err),
            "generation in one launch: found a CUDA driver for version 12.8; wanted 13.0 (release 580)");
  assert_int_equal(err.code, ORD_UNSUPPORTED);
  start(c, &(ord_loop_request){.token = 5, .limit = 4}); /* the other way goes */
  assert_int_equal(take_all(c, got, &ended), 4);
  close_scene(c);
}

static void test_old_driver(void **state) {
  (void)state;
  static const char *const old[] = {"DRIVER_VERSION", "12080", NULL, NULL};
  run_in_child("an old driver", old_driver, old);
}

/* The cache has no room for the 17th token: no wait may be endless, and the host's memory is freed. */
static void faults(void **state) {
  (void)state;
  enum { FAR = 1 << 30 }; /* a real device has memory of others behind a cache; there is none so far away */
  const int32_t past = cuda_options()->is_simulated ? 48 : FAR;
  scene *c = open_scene(64, is_one_launch); /* a whole number of the driver's units, so that nothing lies behind it */
  ord_error err = ORD_ERROR_INIT;
  ord_loop_state ended = ORD_LOOP_GOES_ON;
  int32_t token;
  uint32_t count = 0;
  bool done =
      c->stage.table->loop_start(c->loop, &(ord_loop_request){.token = 5, .past = past, .limit = CAPACITY}, &err);
  while (done && count < CAPACITY) {
    done = c->stage.table->loop_next(c->loop, &token, &ended, &err);
    count += done;
  }
  assert_false(done);
  assert_true(count <= 16);
  assert_int_equal(err.code, ORD_DEVICE_FAILED);
  assert_non_null(strstr(err.text, "CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
  MUST_FAIL(c->stage.table->loop_start(c->loop, &(ord_loop_request){.limit = 1}, &err), "");
  close_scene(c);
}

static void test_faults(void **state) {
  (void)state;
  run_both_ways("faults", faults);
}

static int launches_left;
static CUresult launch_some(CUgraphExec executable, CUstream stream) {
  return launches_left-- > 0 ? real_calls.GraphLaunch(executable, stream) : CUDA_ERROR_NOT_SUPPORTED;
}

/* The driver takes some launches, or none; what it took is waited for, and the loop can be started again. */
static void failing_launch(void **state) {
  (void)state;
  scene *c = open_scene(CAPACITY, is_one_launch);
  const ord_loop_request request = {.token = 5, .limit = CAPACITY}, other = {.token = 9, .limit = CAPACITY};
  int32_t wanted[CAPACITY], got[CAPACITY];
  ord_loop_state ended;
  generate_step_by_step(c, &request, false, wanted);
  replace_calls(c->stage.device)->GraphLaunch = launch_some;
  for (int taken = 0; taken < (is_one_launch ? 1 : 3); taken++) {
    ord_error err = ORD_ERROR_INIT;
    launches_left = taken;
    MUST_FAIL(c->stage.table->loop_start(c->loop, &other, &err),
              "generating: cuGraphLaunch failed: CUDA_ERROR_NOT_SUPPORTED (801)");
    launches_left = CAPACITY;
    start(c, &request);
    assert_int_equal(take_all(c, got, &ended), CAPACITY);
    assert_memory_equal(got, wanted, sizeof got);
  }
  close_scene(c);
}

static void test_failing_launch(void **state) {
  (void)state;
  run_both_ways("a failing launch", failing_launch);
}

/* ---- memory ---- */

/* Allocation number n of the host fails, for every n. */
static void no_host_memory(void **state) {
  (void)state;
  scene *c = open_scene(CAPACITY, is_one_launch);
  const ord_loop_places places = places_of(c->plan);
  c->stage.table->loop_destroy(c->loop);
  c->loop = NULL;
  const long live = live_count;
  const size_t free_bytes = free_device_bytes();
  int failures = 0;
  for (bool is_done = false; !is_done;) {
    ord_error err = ORD_ERROR_INIT;
    allocation_count = 0;
    fail_at = failures;
    is_done = c->stage.table->loop_create(c->plan->queue, c->captured, &places,
                                          &(ord_loop_options){.capacity = CAPACITY, .is_one_launch = is_one_launch},
                                          &c->loop, &err);
    fail_at = -1;
    if (is_done) break;
    assert_int_equal(err.code, ORD_NO_MEMORY);
    assert_int_equal(live_count, live);
    assert_int_equal(free_device_bytes(), free_bytes);
    failures++;
  }
  assert_true(failures >= 2);
  c->stage.table->loop_destroy(c->loop);
  c->loop = NULL;
  assert_int_equal(live_count, live);
  assert_int_equal(free_device_bytes(), free_bytes);
  close_scene(c);
}

/* The allocation that the driver refuses is the loop's first or second: what the device writes, what the host reads. */
static void no_device_memory(void **state) {
  (void)state;
  plan_stage s = open_plan_stage(cuda_options());
  hand_plan *h = open_decode(&s, CAPACITY);
  const ord_loop_places places = places_of(h);
  ord_error err = ORD_ERROR_INIT;
  ord_capture *captured = NULL;
  ord_loop *loop = NULL;
  MUST(s.table->capture(h->queue, &h->plan, &h->memory, &captured, &err));
  const size_t free_bytes = free_device_bytes();
  const ord_loop_options options = {.capacity = CAPACITY, .is_one_launch = is_one_launch};
  MUST_FAIL(s.table->loop_create(h->queue, captured, &places, &options, &loop, &err), "CUDA_ERROR_OUT_OF_MEMORY (2)");
  assert_int_equal(err.code, ORD_NO_MEMORY);
  assert_null(loop);
  assert_int_equal(free_device_bytes(), free_bytes);
  MUST(s.table->loop_create(h->queue, captured, &places, &options, &loop, &err));
  s.table->loop_destroy(loop);
  s.table->capture_destroy(captured);
  close_hand_plan(h);
  close_plan_stage(&s);
}

static void test_no_host_memory(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    is_one_launch = i;
    run_in_child("no host memory", no_host_memory, NULL);
  }
}

static void test_no_device_memory(void **state) {
  (void)state;
  enum { OF_THE_PLAN = 6 }; /* of the queue 1, of open_hand_plan 5 */
  for (int i = 0; i < 2; i++) {
    is_one_launch = i;
    for (int k = OF_THE_PLAN + 1; k <= OF_THE_PLAN + 2; k++) {
      char number[16];
      snprintf(number, sizeof number, "%d", k);
      const char *const settings[] = {"FAIL_ALLOCATION", number, NULL, NULL};
      run_in_child("no device memory", no_device_memory, settings);
    }
  }
}

int main(void) {
  current_options = *cuda_options();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_refusals),       cmocka_unit_test(test_old_driver),
      cmocka_unit_test(test_faults),         cmocka_unit_test(test_failing_launch),
      cmocka_unit_test(test_no_host_memory), cmocka_unit_test(test_no_device_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
