/* SPDX-License-Identifier: MIT
 *
 * Generation on the CUDA device, in one launch and in many: the same tokens as step by step, and every way to
 * end.
 */
#include "cuda_decode.h"

/* Also: one loop serves request after request, whose tokens see those of the ones before; and the room in the cache is
 * no larger than what the last one needs. */
static void same_tokens(void **state) {
  (void)state;
  static const ord_loop_request request[] = {{.token = 5, .past = 0, .counter = 1, .limit = 1},
                                             {.token = 9, .past = 1, .counter = 100, .limit = 12},
                                             {.token = 1, .past = 4, .counter = -3, .limit = CAPACITY},
                                             {.token = 2, .past = 0, .counter = 0, .limit = 2}};
  scene *c = open_scene(4 + CAPACITY, is_one_launch);
  for (size_t i = 0; i < sizeof request / sizeof *request; i++) {
    int32_t replayed[CAPACITY], eager[CAPACITY], got[CAPACITY];
    ord_loop_state ended;
    const words last = generate_step_by_step(c, &request[i], false, replayed);
    generate_step_by_step(c, &request[i], true, eager);
    start(c, &request[i]);
    assert_int_equal(take_all(c, got, &ended), request[i].limit);
    assert_int_equal(ended, ORD_LOOP_LIMIT);
    assert_memory_equal(got, replayed, request[i].limit * sizeof *got);
    assert_memory_equal(got, eager, request[i].limit * sizeof *got);
    assert_words(c, &last);
  }
  close_scene(c);
}

static void test_same_tokens(void **state) {
  (void)state;
  run_both_ways("same tokens", same_tokens);
}

static void without_positions(void **state) {
  (void)state;
  scene *c = open_scene(10, is_one_launch);
  ord_error err = ORD_ERROR_INIT;
  ord_loop_places places = places_of(c->plan);
  ord_loop_state ended;
  int32_t got[CAPACITY];
  places.position = NULL;
  c->stage.table->loop_destroy(c->loop);
  MUST(c->stage.table->loop_create(c->plan->queue, c->captured, &places,
                                   &(ord_loop_options){.capacity = 10, .is_one_launch = is_one_launch}, &c->loop,
                                   &err));
  write_words(c->plan, &(words){.position = 77});
  start(c, &(ord_loop_request){.token = 3, .limit = 10});
  take_all(c, got, &ended);
  assert_int_equal(read_words(c->plan).position, 77);
  close_scene(c);
}

static void test_without_positions(void **state) {
  (void)state;
  run_both_ways("without positions", without_positions);
}

/* Every place in the list of stop tokens is looked at, and nothing behind the token that stops is. */
static void stop_tokens(void **state) {
  (void)state;
  scene *c = open_scene(CAPACITY, is_one_launch);
  ord_loop_request request = {.token = 5, .past = 0, .counter = 1, .limit = CAPACITY};
  int32_t wanted[CAPACITY], got[CAPACITY];
  generate_step_by_step(c, &request, false, wanted);
  for (uint32_t place = 0; place < ORD_LOOP_STOP_MAX; place += 3) {
    ord_loop_state ended;
    uint32_t first = 0;
    const int32_t stop = wanted[place + 7];
    while (wanted[first] != stop) first++;
    for (uint32_t i = 0; i < ORD_LOOP_STOP_MAX; i++) request.stop[i] = 1000 + (int32_t)i;
    request.stop[place] = stop;
    request.stop_count = place; /* it is one behind them */
    start(c, &request);
    assert_int_equal(take_all(c, got, &ended), CAPACITY);
    request.stop_count = place + 1;
    start(c, &request);
    assert_int_equal(take_all(c, got, &ended), first + 1);
    assert_int_equal(ended, ORD_LOOP_STOPPED);
    assert_memory_equal(got, wanted, (first + 1) * sizeof *got);
    assert_words(c, &(words){stop, (int32_t)first + 1, (int32_t)first + 1, 1 + (int64_t)first + 1});
  }
  close_scene(c);
}

static void test_stop_tokens(void **state) {
  (void)state;
  run_both_ways("stop tokens", stop_tokens);
}

/* A stop token that comes with the last of the limit is a stop. */
static void stop_at_the_limit(void **state) {
  (void)state;
  scene *c = open_scene(CAPACITY, is_one_launch);
  ord_loop_request request = {.token = 5, .counter = 1, .limit = 1, .stop_count = 1};
  ord_loop_state ended;
  int32_t token;
  generate_step_by_step(c, &request, false, request.stop);
  start(c, &request);
  assert_int_equal(take_all(c, &token, &ended), 1);
  assert_int_equal(ended, ORD_LOOP_STOPPED);
  close_scene(c);
}

static void test_stop_at_the_limit(void **state) {
  (void)state;
  run_both_ways("stop at the limit", stop_at_the_limit);
}

/* A pause is a stop and a start from the last token taken: what was made beyond it is made again. */
static void pause_and_go_on(void **state) {
  (void)state;
  enum { BEFORE = 3 };
  scene *c = open_scene(CAPACITY, is_one_launch);
  const ord_loop_request request = {.token = 5, .past = 0, .counter = 1, .limit = CAPACITY};
  ord_error err = ORD_ERROR_INIT;
  ord_loop_state ended;
  int32_t wanted[CAPACITY], got[CAPACITY];
  const words last = generate_step_by_step(c, &request, false, wanted);
  start(c, &request);
  for (int i = 0; i < BEFORE; i++) {
    MUST(c->stage.table->loop_next(c->loop, &got[i], &ended, &err));
    assert_int_equal(ended, ORD_LOOP_GOES_ON);
  }
  MUST(c->stage.table->loop_stop(c->loop, &err));
  MUST_FAIL(c->stage.table->loop_next(c->loop, &got[BEFORE], &ended, &err), "found a loop that has ended");
  assert_int_equal(err.code, ORD_INVALID);
  MUST(c->stage.table->loop_stop(c->loop, &err)); /* once more: nothing to do */
  start(c, &(ord_loop_request){
               .token = got[BEFORE - 1], .past = BEFORE, .counter = 1 + BEFORE, .limit = CAPACITY - BEFORE});
  assert_int_equal(take_all(c, got + BEFORE, &ended), CAPACITY - BEFORE);
  assert_memory_equal(got, wanted, sizeof got);
  assert_words(c, &last);
  close_scene(c);
}

static void test_pause_and_go_on(void **state) {
  (void)state;
  run_both_ways("pause and go on", pause_and_go_on);
}

/* The loop ends long before its limit: where the device works beside the host, or is launched for each token. */
static void stopping_ends(void **state) {
  (void)state;
  enum { MANY = 4000 };
  scene *c = open_scene(MANY, is_one_launch);
  ord_error err = ORD_ERROR_INIT;
  ord_loop_state ended;
  int32_t token;
  c->stage.table->loop_destroy(c->loop);
  make_loop(c, &(ord_loop_options){.capacity = MANY, .is_one_launch = is_one_launch});
  start(c, &(ord_loop_request){.token = 5, .limit = MANY});
  MUST(c->stage.table->loop_next(c->loop, &token, &ended, &err));
  MUST(c->stage.table->loop_stop(c->loop, &err));
  const int32_t made = read_words(c->plan).past;
  assert_true(made >= 1);
  if (!is_one_launch || is_order("thread")) assert_true(made < MANY / 2);
  close_scene(c);
}

static void test_stopping_ends(void **state) {
  (void)state;
  run_both_ways("stopping ends", stopping_ends);
}

/* A loop that does not look at the host's word goes on to its limit, and can be used again. */
static void deaf(void **state) {
  (void)state;
  scene *c = open_scene(CAPACITY, true);
  const ord_loop_request request = {.token = 5, .past = 0, .counter = 1, .limit = CAPACITY};
  ord_error err = ORD_ERROR_INIT;
  ord_loop_state ended;
  int32_t wanted[CAPACITY], got[CAPACITY];
  const words last = generate_step_by_step(c, &request, false, wanted);
  c->stage.table->loop_destroy(c->loop);
  make_loop(c, &(ord_loop_options){.capacity = CAPACITY, .is_one_launch = true, .is_deaf = true});
  start(c, &request);
  MUST(c->stage.table->loop_next(c->loop, got, &ended, &err));
  MUST(c->stage.table->loop_stop(c->loop, &err));
  assert_words(c, &last);
  start(c, &request);
  assert_int_equal(take_all(c, got, &ended), CAPACITY);
  assert_int_equal(ended, ORD_LOOP_LIMIT);
  assert_memory_equal(got, wanted, sizeof got);
  close_scene(c);
}

static void test_deaf(void **state) {
  (void)state;
  run_in_all_orders("deaf", deaf);
}

/* The device hears it by itself, also where the host is still in the launch that makes all tokens (order eager). */
static void cancelled(void **state) {
  (void)state;
  scene *c = open_scene(CAPACITY, is_one_launch);
  ord_error err = ORD_ERROR_INIT;
  ord_loop_state ended;
  int32_t token;
  atomic_store(c->plan->queue->cancel, ORD_CANCEL);
  start(c, &(ord_loop_request){.token = 5, .limit = CAPACITY});
  MUST_FAIL(c->stage.table->loop_next(c->loop, &token, &ended, &err), "the generation was cancelled");
  assert_int_equal(err.code, ORD_CANCELLED);
  assert_int_equal(read_words(c->plan).past, 1); /* it ended at its first token */
  atomic_store(c->plan->queue->cancel, 0);
  start(c, &(ord_loop_request){.token = 5, .limit = 1});
  MUST(c->stage.table->loop_next(c->loop, &token, &ended, &err));
  close_scene(c);
}

static void test_cancelled(void **state) {
  (void)state;
  run_both_ways("cancelled", cancelled);
}

/* Every access to memory is looked at. */
static void checked(void **state) {
  needs_simulator("it looks at each access to memory");
  current_options.is_checked = true;
  same_tokens(state);
}

static void test_checked(void **state) {
  (void)state;
  run_both_ways("checked", checked);
}

int main(void) {
  current_options = *cuda_options();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_same_tokens),     cmocka_unit_test(test_without_positions),
      cmocka_unit_test(test_stop_tokens),     cmocka_unit_test(test_stop_at_the_limit),
      cmocka_unit_test(test_pause_and_go_on), cmocka_unit_test(test_stopping_ends),
      cmocka_unit_test(test_cancelled),       cmocka_unit_test(test_deaf),
      cmocka_unit_test(test_checked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
