/* SPDX-License-Identifier: MIT
 *
 * The pool. A phase is published in one 64-bit ticket: its number above, the next free chunk below. Whoever raises the
 * ticket by one, while it still bears the number he saw, owns that chunk; the phase cannot end before the chunk is
 * done, so that its description holds still for the owner. A thread that comes late fails to raise the ticket and has
 * touched nothing. Waiting is a bounded spin, then sleep, for workers between phases and for the caller at the end of
 * one.
 */
#include "runtime/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREAD_MAX = 256, CACHE_LINE_BYTES = 64, PAUSES_PER_LOOK = 32 };
#define SPIN_NS UINT64_C(80000) /* longer than the gap between two steps, shorter than a scheduler's slice */
#define OVERSUBSCRIBED_SPIN_NS UINT64_C(2000) /* the thread we wait for may need this very core */

typedef struct {
  ord_pool *pool;
  pthread_t thread;
  uint32_t number; /* 1 .. thread_count - 1 */
} pool_worker;

struct ord_pool {
  /* Written by the caller of a phase, read by all. */
  _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t ticket; /* phase number << 32 | next chunk */
  _Atomic(ord_pool_chunk_fn) chunk_fn;
  _Atomic(void *) context;
  _Atomic uint32_t chunk_count;
  atomic_bool stop;
  /* Written by all. */
  _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t done; /* chunks of this phase that ended */
  atomic_bool failed;
  /* Touched by those who sleep and by those who must wake them. */
  _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t sleepers; /* workers that sleep or are about to */
  atomic_bool caller_sleeps;
  pthread_mutex_t sleep_lock;
  pthread_cond_t work, end;
  pthread_mutex_t lease;
  uint64_t spin_ns;
  uint32_t thread_count, started_count;
  pool_worker worker[];
};

uint32_t ord_pool_cores(void) {
  cpu_set_t allowed;
  if (!sched_getaffinity(0, sizeof allowed, &allowed) && CPU_COUNT(&allowed) > 0) return (uint32_t)CPU_COUNT(&allowed);
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (uint32_t)online : 1;
}

static uint64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

#if defined(__x86_64__)
static void pause_core(void) { __builtin_ia32_pause(); }
#else
static void pause_core(void) { atomic_signal_fence(memory_order_seq_cst); }
#endif

static uint32_t phase_of(uint64_t ticket) { return (uint32_t)(ticket >> 32); }

/* Takes the next chunk of phase `phase`; false if none is left or the phase is over. */
static bool take_chunk(ord_pool *pool, uint32_t phase, uint32_t chunk_count, uint32_t *out_chunk) {
  uint64_t ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
  while (phase_of(ticket) == phase && (uint32_t)ticket < chunk_count) {
    if (!atomic_compare_exchange_weak_explicit(&pool->ticket, &ticket, ticket + 1, memory_order_acq_rel,
                                               memory_order_acquire))
      continue;
    *out_chunk = (uint32_t)ticket;
    return true;
  }
  return false;
}

static void end_chunk(ord_pool *pool, uint32_t chunk_count) {
  if (atomic_fetch_add(&pool->done, 1) + 1 != chunk_count || !atomic_load(&pool->caller_sleeps)) return;
  pthread_mutex_lock(&pool->sleep_lock);
  pthread_cond_signal(&pool->end);
  pthread_mutex_unlock(&pool->sleep_lock);
}

/* Works on phase `phase` until no chunk is left. What is read of the phase before a chunk is taken may belong to a
 * later one; taking the chunk proves that it did not (see publish). */
static void run_chunks(ord_pool *pool, uint32_t phase, uint32_t worker) {
  const ord_pool_chunk_fn chunk_fn = atomic_load_explicit(&pool->chunk_fn, memory_order_acquire);
  void *context = atomic_load_explicit(&pool->context, memory_order_acquire);
  const uint32_t chunk_count = atomic_load_explicit(&pool->chunk_count, memory_order_acquire);
  uint32_t chunk;
  while (take_chunk(pool, phase, chunk_count, &chunk)) {
    if (!atomic_load_explicit(&pool->failed, memory_order_relaxed) && !chunk_fn(context, chunk, chunk_count, worker))
      atomic_store_explicit(&pool->failed, true, memory_order_relaxed);
    end_chunk(pool, chunk_count);
  }
}

/* ---- workers ---- */

static bool has_news(ord_pool *pool, uint32_t seen_phase) {
  return phase_of(atomic_load(&pool->ticket)) != seen_phase || atomic_load(&pool->stop);
}

static void sleep_until_news(ord_pool *pool, uint32_t seen_phase) {
  pthread_mutex_lock(&pool->sleep_lock);
  /* Either this worker sees the new ticket, or who wrote the ticket sees this sleeper: both are sequentially
   * consistent, and the signal needs the lock. */
  atomic_fetch_add(&pool->sleepers, 1);
  while (!has_news(pool, seen_phase)) pthread_cond_wait(&pool->work, &pool->sleep_lock);
  atomic_fetch_sub(&pool->sleepers, 1);
  pthread_mutex_unlock(&pool->sleep_lock);
}

static void wait_for_news(ord_pool *pool, uint32_t seen_phase) {
  for (const uint64_t begin = now_ns(); now_ns() - begin < pool->spin_ns;)
    for (int i = 0; i < PAUSES_PER_LOOK; i++) {
      if (has_news(pool, seen_phase)) return;
      pause_core();
    }
  sleep_until_news(pool, seen_phase);
}

static void *run_worker(void *argument) {
  const pool_worker *self = argument;
  ord_pool *pool = self->pool;
  for (uint32_t seen_phase = 0;;) {
    wait_for_news(pool, seen_phase);
    if (atomic_load(&pool->stop)) return NULL;
    seen_phase = phase_of(atomic_load(&pool->ticket));
    run_chunks(pool, seen_phase, self->number);
  }
}

static void wake_workers(ord_pool *pool) {
  if (!atomic_load(&pool->sleepers)) return;
  pthread_mutex_lock(&pool->sleep_lock);
  pthread_cond_broadcast(&pool->work);
  pthread_mutex_unlock(&pool->sleep_lock);
}

/* ---- the caller ---- */

static bool is_done(ord_pool *pool, uint32_t chunk_count) { return atomic_load(&pool->done) == chunk_count; }

static void sleep_until_done(ord_pool *pool, uint32_t chunk_count) {
  pthread_mutex_lock(&pool->sleep_lock);
  atomic_store(&pool->caller_sleeps, true);
  while (!is_done(pool, chunk_count)) pthread_cond_wait(&pool->end, &pool->sleep_lock);
  atomic_store(&pool->caller_sleeps, false);
  pthread_mutex_unlock(&pool->sleep_lock);
}

static void wait_until_done(ord_pool *pool, uint32_t chunk_count) {
  for (const uint64_t begin = now_ns(); now_ns() - begin < pool->spin_ns;)
    for (int i = 0; i < PAUSES_PER_LOOK; i++) {
      if (is_done(pool, chunk_count)) return;
      pause_core();
    }
  sleep_until_done(pool, chunk_count);
}

/* The ticket of the phase before is closed first. A late worker of that phase who reads any of the new description
 * (released here, acquired there) then finds the ticket closed and cannot take a chunk with it. */
static uint32_t publish(ord_pool *pool, ord_pool_chunk_fn chunk_fn, void *context, uint32_t chunk_count) {
  const uint32_t before = phase_of(atomic_load_explicit(&pool->ticket, memory_order_relaxed)), phase = before + 1;
  atomic_store_explicit(&pool->ticket, (uint64_t)before << 32 | UINT32_MAX, memory_order_relaxed);
  atomic_store_explicit(&pool->chunk_fn, chunk_fn, memory_order_release);
  atomic_store_explicit(&pool->context, context, memory_order_release);
  atomic_store_explicit(&pool->chunk_count, chunk_count, memory_order_release);
  atomic_store_explicit(&pool->failed, false, memory_order_relaxed);
  atomic_store_explicit(&pool->done, 0, memory_order_relaxed);
  atomic_store(&pool->ticket, (uint64_t)phase << 32);
  return phase;
}

bool ord_pool_phase(ord_pool *pool, ord_pool_chunk_fn chunk_fn, void *context, uint32_t chunk_count) {
  if (pool->thread_count == 1 || chunk_count < 2) {
    for (uint32_t chunk = 0; chunk < chunk_count; chunk++)
      if (!chunk_fn(context, chunk, chunk_count, 0)) return false;
    return true;
  }
  const uint32_t phase = publish(pool, chunk_fn, context, chunk_count);
  wake_workers(pool);
  run_chunks(pool, phase, 0);
  wait_until_done(pool, chunk_count);
  return !atomic_load_explicit(&pool->failed, memory_order_relaxed);
}

void ord_pool_lease(ord_pool *pool) { pthread_mutex_lock(&pool->lease); }

void ord_pool_release(ord_pool *pool) { pthread_mutex_unlock(&pool->lease); }

uint32_t ord_pool_threads(const ord_pool *pool) { return pool->thread_count; }

/* ---- life ---- */

/* Workers take no signals: handlers of the host program run on the host's own threads. */
static bool start_workers(ord_pool *pool, ord_error *err) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  int failure = 0;
  while (!failure && pool->started_count + 1 < pool->thread_count) {
    pool_worker *worker = &pool->worker[pool->started_count];
    *worker = (pool_worker){.pool = pool, .number = pool->started_count + 1};
    failure = pthread_create(&worker->thread, NULL, run_worker, worker);
    if (!failure) pool->started_count++;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!failure) return true;
  return ord_fail(err, ORD_NO_MEMORY, "cannot start thread %u of %u; %s", pool->started_count + 2, pool->thread_count,
                  strerror(failure));
}

bool ord_pool_create(int threads, ord_pool **out, bool *out_oversubscribed, ord_error *err) {
  if (threads < 0 || threads > THREAD_MAX)
    return ord_fail(err, ORD_INVALID, "threads: found %d; wanted 0 (all cores) to %d", threads, THREAD_MAX);
  const uint32_t cores = ord_pool_cores();
  const uint32_t all_cores = cores < THREAD_MAX ? cores : THREAD_MAX;
  const uint32_t thread_count = threads ? (uint32_t)threads : all_cores;
  const size_t bytes = sizeof(ord_pool) + thread_count * sizeof(pool_worker);
  void *memory;
  if (posix_memalign(&memory, CACHE_LINE_BYTES, bytes)) return ord_fail_memory(err, "making the thread pool");
  ord_pool *pool = memset(memory, 0, bytes);
  pool->thread_count = thread_count;
  pool->spin_ns = thread_count > cores ? OVERSUBSCRIBED_SPIN_NS : SPIN_NS;
  pthread_mutex_init(&pool->sleep_lock, NULL);
  pthread_mutex_init(&pool->lease, NULL);
  pthread_cond_init(&pool->work, NULL);
  pthread_cond_init(&pool->end, NULL);
  if (!start_workers(pool, err)) {
    ord_pool_destroy(pool);
    return false;
  }
  if (out_oversubscribed) *out_oversubscribed = thread_count > cores;
  *out = pool;
  return true;
}

void ord_pool_destroy(ord_pool *pool) {
  if (!pool) return;
  atomic_store(&pool->stop, true);
  wake_workers(pool);
  for (uint32_t i = 0; i < pool->started_count; i++) pthread_join(pool->worker[i].thread, NULL);
  pthread_cond_destroy(&pool->end);
  pthread_cond_destroy(&pool->work);
  pthread_mutex_destroy(&pool->lease);
  pthread_mutex_destroy(&pool->sleep_lock);
  free(pool);
}
