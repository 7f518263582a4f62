/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "runtime/pool.h"

enum { CHUNK_MAX = 1000, THREAD_MAX = 256 };

static ord_pool *create(int threads) {
  ord_pool *pool;
  ord_error err = ORD_ERROR_INIT;
  if (!ord_pool_create(threads, &pool, NULL, &err)) fail_msg("%s", err.text);
  return pool;
}

static void test_thread_counts(void **state) {
  (void)state;
  const uint32_t cores = ord_pool_cores();
  assert_true(cores >= 1);
  const struct {
    int threads;
    uint32_t wanted; /* 0: refused */
  } row[] = {{0, cores < THREAD_MAX ? cores : THREAD_MAX}, {1, 1}, {3, 3}, {256, 256}, {257, 0}, {1000, 0}, {-1, 0}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_pool *pool = NULL;
    ord_error err = ORD_ERROR_INIT;
    bool is_oversubscribed = false;
    const bool is_made = ord_pool_create(row[i].threads, &pool, &is_oversubscribed, &err);
    assert_int_equal(is_made, row[i].wanted > 0);
    if (!is_made) {
      assert_int_equal(err.code, ORD_INVALID);
      assert_non_null(strstr(err.text, "wanted 0 (all cores) to 256"));
      continue;
    }
    assert_int_equal(ord_pool_threads(pool), row[i].wanted);
    assert_int_equal(is_oversubscribed, row[i].wanted > cores);
    ord_pool_destroy(pool);
  }
  ord_pool_destroy(NULL);
}

static void test_affinity_counts(void **state) {
  (void)state;
  cpu_set_t before, one;
  assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &before)) {
      CPU_SET(cpu, &one);
      break;
    }
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
  const uint32_t cores = ord_pool_cores();
  sched_setaffinity(0, sizeof before, &before);
  assert_int_equal(cores, 1);
}

typedef struct {
  uint32_t thread_count, chunk_count, fail_at;
  _Atomic uint32_t runs[CHUNK_MAX];
  _Atomic uint32_t inside[THREAD_MAX]; /* who is in a chunk under this worker number */
  _Atomic uint32_t faults, all;
} tally;

static bool count_chunk(void *context, uint32_t chunk, uint32_t chunk_count, uint32_t worker) {
  tally *t = context;
  if (worker >= t->thread_count || chunk_count != t->chunk_count || atomic_fetch_add(&t->inside[worker], 1) != 0)
    atomic_fetch_add(&t->faults, 1);
  atomic_fetch_add(&t->runs[chunk], 1);
  atomic_fetch_add(&t->all, 1);
  atomic_fetch_sub(&t->inside[worker], 1);
  return chunk != t->fail_at;
}

static void test_every_chunk_runs_once(void **state) {
  (void)state;
  static const int threads[] = {1, 2, 3, 8};
  static const uint32_t chunks[] = {0, 1, 2, 3, 7, 64, 1000};
  static tally t;
  for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
    ord_pool *pool = create(threads[i]);
    ord_pool_lease(pool);
    for (int repeat = 0; repeat < 50; repeat++)
      for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
        memset(&t, 0, sizeof t);
        t.thread_count = (uint32_t)threads[i];
        t.chunk_count = chunks[c];
        t.fail_at = UINT32_MAX;
        assert_true(ord_pool_phase(pool, count_chunk, &t, chunks[c]));
        for (uint32_t chunk = 0; chunk < chunks[c]; chunk++) assert_int_equal(t.runs[chunk], 1);
        assert_int_equal(t.faults, 0);
      }
    ord_pool_release(pool);
    ord_pool_destroy(pool);
  }
}

static void test_a_failing_chunk_ends_the_phase(void **state) {
  (void)state;
  static tally t;
  for (int threads = 1; threads <= 3; threads++) {
    ord_pool *pool = create(threads);
    ord_pool_lease(pool);
    memset(&t, 0, sizeof t);
    t.thread_count = (uint32_t)threads;
    t.chunk_count = CHUNK_MAX;
    t.fail_at = 0;
    assert_false(ord_pool_phase(pool, count_chunk, &t, CHUNK_MAX));
    if (threads == 1) assert_int_equal(t.all, 1);
    assert_int_equal(t.faults, 0);
    t.fail_at = UINT32_MAX;
    assert_true(ord_pool_phase(pool, count_chunk, &t, CHUNK_MAX));
    ord_pool_release(pool);
    ord_pool_destroy(pool);
  }
}

/* Phases with changing functions and counts, back to back: each sums what the one before wrote, without atomics, so
 * that a missing barrier is a wrong sum or a report of the thread sanitizer. */
typedef struct {
  uint64_t from[16], into[16];
} sums;

static bool add_one(void *context, uint32_t chunk, uint32_t chunk_count, uint32_t worker) {
  (void)worker;
  sums *s = context;
  uint64_t sum = 1;
  for (uint32_t i = 0; i < chunk_count; i++) sum += s->from[i];
  s->into[chunk] = sum;
  return true;
}

static bool copy_back(void *context, uint32_t chunk, uint32_t chunk_count, uint32_t worker) {
  (void)worker;
  sums *s = context;
  for (uint32_t i = chunk; i < 16; i += chunk_count) s->from[i] = s->into[i] % 1000003;
  return true;
}

static void run_phases(ord_pool *pool, int count) {
  sums parallel = {{0}, {0}}, serial = {{0}, {0}};
  ord_pool_lease(pool);
  for (int i = 0; i < count; i++) {
    const uint32_t chunks = 2 + (uint32_t)i % 15, back = 2 + (uint32_t)i % 7;
    assert_true(ord_pool_phase(pool, add_one, &parallel, chunks));
    assert_true(ord_pool_phase(pool, copy_back, &parallel, back));
    for (uint32_t chunk = 0; chunk < chunks; chunk++) add_one(&serial, chunk, chunks, 0);
    for (uint32_t chunk = 0; chunk < back; chunk++) copy_back(&serial, chunk, back, 0);
  }
  ord_pool_release(pool);
  assert_memory_equal(&parallel, &serial, sizeof serial);
}

static void test_a_phase_sees_what_the_one_before_wrote(void **state) {
  (void)state;
  for (int threads = 1; threads <= 4; threads++) {
    ord_pool *pool = create(threads);
    run_phases(pool, 3000);
    ord_pool_destroy(pool);
  }
}

static void sleep_ms(long ms) { nanosleep(&(struct timespec){0, ms * 1000000}, NULL); }

static void test_workers_wake_from_sleep(void **state) {
  (void)state;
  ord_pool *pool = create(2);
  for (int i = 0; i < 10; i++) {
    run_phases(pool, 3);
    sleep_ms(2);
  }
  ord_pool_destroy(pool);
}

static void *lease_many_times(void *pool) {
  for (int i = 0; i < 100; i++) run_phases(pool, 5);
  return NULL;
}

static void test_leases_of_several_threads(void **state) {
  (void)state;
  ord_pool *pool = create(3);
  pthread_t thread[4];
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&thread[i], NULL, lease_many_times, pool), 0);
  for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
  ord_pool_destroy(pool);
}

static void test_more_threads_than_cores_do_not_lock_up(void **state) {
  (void)state;
  ord_pool *pool = create(48);
  run_phases(pool, 300);
  ord_pool_destroy(pool);
}

/* One thread stays in its first chunk until all other chunks are done: the others must take its share. */
typedef struct {
  uint32_t stuck; /* worker */
  atomic_bool is_inside, has_given_up;
  _Atomic uint32_t others;
} hold_up;

static void wait_until(atomic_bool *has_given_up, const _Atomic uint32_t *count, uint32_t wanted) {
  for (int ms = 0; atomic_load(count) < wanted; ms++) {
    if (ms == 10000) atomic_store(has_given_up, true);
    if (atomic_load(has_given_up)) return;
    sleep_ms(1);
  }
}

static bool hold_up_chunk(void *context, uint32_t chunk, uint32_t chunk_count, uint32_t worker) {
  (void)chunk;
  hold_up *h = context;
  if (worker == h->stuck && !atomic_exchange(&h->is_inside, true))
    wait_until(&h->has_given_up, &h->others, chunk_count - 1);
  else {
    while (!atomic_load(&h->is_inside) && !atomic_load(&h->has_given_up)) sched_yield();
    atomic_fetch_add(&h->others, 1);
  }
  return true;
}

static void test_a_thread_that_is_held_up_holds_up_no_other(void **state) {
  (void)state;
  ord_pool *pool = create(3);
  ord_pool_lease(pool);
  for (uint32_t stuck = 0; stuck < 3; stuck++) {
    hold_up h = {.stuck = stuck};
    assert_true(ord_pool_phase(pool, hold_up_chunk, &h, 60));
    assert_false(h.has_given_up);
    assert_int_equal(h.others, 59);
  }
  ord_pool_release(pool);
  ord_pool_destroy(pool);
}

static void *burn(void *stop) {
  while (!atomic_load_explicit((atomic_bool *)stop, memory_order_relaxed)) continue;
  return NULL;
}

/* Another thread wants one of the cores all the time. */
static void test_beside_a_busy_thread(void **state) {
  (void)state;
  cpu_set_t allowed, one;
  assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  CPU_ZERO(&one);
  for (int cpu = CPU_SETSIZE - 1; CPU_COUNT(&one) == 0; cpu--)
    if (CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &one);
  atomic_bool stop = false;
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, burn, &stop), 0);
  assert_int_equal(pthread_setaffinity_np(thread, sizeof one, &one), 0);
  ord_pool *pool = create(0);
  run_phases(pool, 5000);
  ord_pool_destroy(pool);
  atomic_store(&stop, true);
  pthread_join(thread, NULL);
}

static double cpu_seconds(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void test_an_idle_pool_uses_no_cpu(void **state) {
  (void)state;
  ord_pool *pool = create(8);
  run_phases(pool, 10);
  sleep_ms(20);
  const double before = cpu_seconds();
  sleep_ms(300);
  assert_true(cpu_seconds() - before < 0.05);
  ord_pool_destroy(pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_thread_counts),
      cmocka_unit_test(test_affinity_counts),
      cmocka_unit_test(test_every_chunk_runs_once),
      cmocka_unit_test(test_a_failing_chunk_ends_the_phase),
      cmocka_unit_test(test_a_phase_sees_what_the_one_before_wrote),
      cmocka_unit_test(test_workers_wake_from_sleep),
      cmocka_unit_test(test_leases_of_several_threads),
      cmocka_unit_test(test_more_threads_than_cores_do_not_lock_up),
      cmocka_unit_test(test_a_thread_that_is_held_up_holds_up_no_other),
      cmocka_unit_test(test_beside_a_busy_thread),
      cmocka_unit_test(test_an_idle_pool_uses_no_cpu),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
