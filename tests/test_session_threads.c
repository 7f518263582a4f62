/* SPDX-License-Identifier: MIT
 *
 * Threads: the same tokens at 1, 2 and 4 threads, two sessions of one model on two threads at once, cancel from another
 * thread, sessions that wait, and thread counts that are wrong. Runs under ThreadSanitizer too.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "fixture.h"

static const ord_session_options GENERATES = {.struct_size = sizeof(ord_session_options), .generates = true};

typedef struct tokens {
  int32_t id[64];
  uint32_t count;
} tokens;

static bool collect(void *context, int32_t id, const char *text, size_t bytes) {
  (void)text;
  (void)bytes;
  tokens *out = context;
  out->id[out->count++] = id;
  return true;
}

static void generate(ord_session *session, uint64_t seed, tokens *out) {
  static const int32_t prompt[] = {256, 'A', 'n', 'd', ' ', 't', 'h', 'e', ' '};
  ord_generate_options options = ORD_GENERATE_INIT;
  options.max_tokens = 48;
  options.temperature = 0.8f;
  options.seed = seed;
  ord_error err = ORD_ERROR_INIT;
  *out = (tokens){0};
  ord_session_reset(session);
  MUST(ord_session_generate(session, prompt, 9, &options, collect, out, NULL, &err));
}

static void thread_counts_do_not_change_tokens(void **state) {
  (void)state;
  static const int threads[] = {1, 2, 4};
  tokens one, other;
  for (int i = 0; i < (is_slow_build() ? NATIVE_SETUP_COUNT : SETUP_COUNT); i++)
    for (int t = 0; t < 3; t++) {
      stage s = open_nano_for(&setups[i], threads[t], &GENERATES);
      generate(s.session, 1, &other);
      close_stage(&s);
      if (t == 0) one = other;
      if (memcmp(one.id, other.id, sizeof one.id) != 0)
        fail_msg("%s: other tokens with %d threads", setups[i].name, threads[t]);
    }
}

typedef struct worker {
  ord_model *model;
  const setup *how;
  uint64_t seed;
  tokens out;
} worker;

static void *work(void *context) {
  worker *w = context;
  ord_error err = ORD_ERROR_INIT;
  ord_session *session = NULL;
  const ord_session_options options = options_for(w->how, &GENERATES);
  if (!ord_session_create(w->model, &options, &session, &err)) return NULL;
  for (int round = 0; round < 3; round++) generate(session, w->seed, &w->out);
  ord_session_destroy(session);
  return w;
}

static void run_two_sessions(const setup *how) {
  tokens alone[2];
  stage s = open_nano_for(how, 2, &GENERATES);
  for (uint64_t i = 0; i < 2; i++) generate(s.session, i, &alone[i]);
  worker w[2] = {{.model = s.model, .how = how, .seed = 0}, {.model = s.model, .how = how, .seed = 1}};
  pthread_t thread[2];
  for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&thread[i], NULL, work, &w[i]), 0);
  for (int i = 0; i < 2; i++) {
    void *done = NULL;
    pthread_join(thread[i], &done);
    assert_ptr_equal(done, &w[i]);
    assert_memory_equal(w[i].out.id, alone[i].id, sizeof alone[i].id);
  }
  close_stage(&s);
}

static void two_sessions_on_two_threads(void **state) {
  (void)state;
  for (int i = 0; i < NATIVE_SETUP_COUNT; i++) run_two_sessions(&setups[i]);
}

typedef struct endless {
  ord_session *session;
  atomic_int count; /* tokens so far */
} endless;

static void wait_a_millisecond(void) {
  const struct timespec pause = {0, 1000 * 1000};
  nanosleep(&pause, NULL);
}

/* Once there is a token, however slow the build is; or after ten seconds, so that the test ends. */
static void *cancel_soon(void *context) {
  endless *run = context;
  for (int i = 0; i < 10000 && atomic_load(&run->count) == 0; i++) wait_a_millisecond();
  ord_session_cancel(run->session);
  return NULL;
}

static bool forever(void *context, int32_t id, const char *text, size_t bytes) {
  (void)id;
  (void)text;
  (void)bytes;
  wait_a_millisecond();
  atomic_fetch_add(&((endless *)context)->count, 1);
  return true;
}

static void another_thread_can_cancel(void **state) {
  (void)state;
  const int32_t prompt[] = {256};
  tokens before, after;
  ord_error err = ORD_ERROR_INIT;
  ord_generate_options options = ORD_GENERATE_INIT;
  options.max_tokens = 511;
  stage s = open_nano(2, &GENERATES);
  generate(s.session, 3, &before);
  ord_session_reset(s.session);
  endless run = {.session = s.session};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, cancel_soon, &run), 0);
  assert_false(ord_session_generate(s.session, prompt, 1, &options, forever, &run, NULL, &err));
  pthread_join(thread, NULL);
  assert_int_equal(err.code, ORD_CANCELLED);
  assert_in_range(atomic_load(&run.count), 1, 510);
  generate(s.session, 3, &after);
  assert_memory_equal(before.id, after.id, sizeof before.id);
  close_stage(&s);
}

static double cpu_ms(void) {
  struct timespec used;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return 1e3 * (double)used.tv_sec + 1e-6 * (double)used.tv_nsec;
}

static void idle_sessions_use_no_cpu(void **state) {
  (void)state;
  tokens out;
  ord_error err = ORD_ERROR_INIT;
  ord_session *other = NULL;
  stage s = open_nano(4, &GENERATES);
  MUST(ord_session_create(s.model, &GENERATES, &other, &err));
  generate(s.session, 1, &out);
  generate(other, 1, &out);
  for (int i = 0; i < 300; i++) wait_a_millisecond(); /* the workers find their sleep */
  const double before = cpu_ms();
  const struct timespec half_a_second = {0, 500 * 1000 * 1000};
  nanosleep(&half_a_second, NULL);
  assert_true(cpu_ms() - before < 20);
  ord_session_destroy(other);
  close_stage(&s);
}

static void thread_counts_are_checked(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  ord_context *context = NULL;
  ord_context_options options = {.struct_size = sizeof options, .threads = -1, .no_default_plugins = true};
  MUST_FAIL(ord_context_create(&options, &context, &err), "-1");
  options.threads = 1000;
  MUST_FAIL(ord_context_create(&options, &context, &err), "1000");
  options.threads = 0;
  MUST(ord_context_create(&options, &context, &err));
  assert_in_range(ord_context_threads(context), 1, 256);
  ord_context_destroy(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(thread_counts_do_not_change_tokens), cmocka_unit_test(two_sessions_on_two_threads),
      cmocka_unit_test(another_thread_can_cancel),          cmocka_unit_test(idle_sessions_use_no_cpu),
      cmocka_unit_test(thread_counts_are_checked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
