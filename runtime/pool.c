/* SPDX-License-Identifier: MIT
 *
 * The pool. Each thread has a share: a run of neighbouring chunks, so that it walks through memory of its own, and
 * takes from the shares of others when its own is empty, so that a thread that is held up holds up no other. The ticket
 * of a share is the phase number above, the next free chunk below. Whoever raises it by one, while it still bears the
 * number he saw, owns that chunk; the phase cannot end before the chunk is done, so that its description holds still
 * for the owner. A thread that comes late fails to raise the ticket and has touched nothing. Waiting is a bounded spin,
 * then sleep, for workers between phases and for the caller at the end of one.
 */
#include "runtime/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/pause.h"

enum { CACHE_LINE_BYTES = 64, PAUSES_PER_LOOK = 32 };
#define SPIN_NS UINT64_C(80000) /* longer than the gap between two steps, shorter than a scheduler's slice */
#define OVERSUBSCRIBED_SPIN_NS UINT64_C(2000) /* the thread we wait for may need this very core */

/* All that a worker needs to begin lies in the one cache line that it waits on. */
typedef struct {
  /* Written by the caller of a phase; the ticket by all who take chunks of it. */
  _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t ticket; /* phase number << 32 | next chunk */
  _Atomic(ord_pool_chunk_fn) chunk_fn;
  _Atomic(void *) context;
  _Atomic uint32_t chunk_count; /* of the phase; 0: the worker ends */
  _Atomic uint32_t end;         /* of this share */
  ord_pool *pool;
  pthread_t thread;
  uint32_t number; /* of its worker; 0 is the caller */
} pool_share;

struct ord_pool {
  /* Written by all, once a phase. */
  _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t done; /* chunks of this phase that ended */
  atomic_bool failed;
  /* Touched by those who sleep and by those who must wake them. */
  _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t sleepers; /* workers that sleep or are about to */
  _Atomic uint32_t phase;                               /* the newest number in the tickets */
  atomic_bool caller_sleeps;
  pthread_mutex_t sleep_lock;
  pthread_cond_t work, end;
  pthread_mutex_t lease;
  uint64_t spin_ns;
  uint32_t thread_count, started_count;
  pool_share share[];
};

uint32_t ord_pool_cores(void) {
  cpu_set_t allowed;
  if (!sched_getaffinity(0, sizeof allowed, &allowed) && CPU_COUNT(&allowed) > 0) return (uint32_t)CPU_COUNT(&allowed);
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (uint32_t)online : 1;
}

static uint32_t phase_of(uint64_t ticket) { return (uint32_t)(ticket >> 32); }

/* Takes the share's next chunk of phase `phase`; false if none is left or the phase is over. The end is read behind the
 * ticket, so that it is not that of an earlier phase. */
static bool take_chunk(pool_share *share, uint32_t phase, uint32_t *out_chunk) {
  uint64_t ticket = atomic_load_explicit(&share->ticket, memory_order_acquire);
  while (phase_of(ticket) == phase && (uint32_t)ticket < atomic_load_explicit(&share->end, memory_order_acquire)) {
    if (!atomic_compare_exchange_weak_explicit(&share->ticket, &ticket, ticket + 1, memory_order_acq_rel,
                                               memory_order_acquire))
      continue;
    *out_chunk = (uint32_t)ticket;
    return true;
  }
  return false;
}

static void end_chunks(ord_pool *pool, uint32_t count, uint32_t chunk_count) {
  if (atomic_fetch_add(&pool->done, count) + count != chunk_count || !atomic_load(&pool->caller_sleeps)) return;
  pthread_mutex_lock(&pool->sleep_lock);
  pthread_cond_signal(&pool->end);
  pthread_mutex_unlock(&pool->sleep_lock);
}

/* Works on phase `phase` until no share has a chunk left. What is read of a phase before a chunk is taken may belong to
 * a later one; taking the chunk proves that it did not (see publish). */
static void run_chunks(ord_pool *pool, const pool_share *own, uint32_t phase) {
  const ord_pool_chunk_fn chunk_fn = atomic_load_explicit(&own->chunk_fn, memory_order_acquire);
  void *context = atomic_load_explicit(&own->context, memory_order_acquire);
  const uint32_t chunk_count = atomic_load_explicit(&own->chunk_count, memory_order_acquire);
  uint32_t chunk, count = 0;
  for (uint32_t i = 0, from = own->number; i < pool->thread_count; i++) {
    for (; take_chunk(&pool->share[from], phase, &chunk); count++)
      if (!atomic_load_explicit(&pool->failed, memory_order_relaxed) &&
          !chunk_fn(context, chunk, chunk_count, own->number))
        atomic_store_explicit(&pool->failed, true, memory_order_relaxed);
    from = from + 1 == pool->thread_count ? 0 : from + 1;
  }
  if (count) end_chunks(pool, count, chunk_count);
}

/* ---- workers ---- */

static void sleep_until_news(const pool_share *own, uint32_t seen_phase) {
  ord_pool *pool = own->pool;
  pthread_mutex_lock(&pool->sleep_lock);
  /* Either this worker sees the new phase, or who wrote it sees this sleeper: both are sequentially consistent, and
   * the signal needs the lock. */
  atomic_fetch_add(&pool->sleepers, 1);
  while (atomic_load(&pool->phase) == seen_phase) pthread_cond_wait(&pool->work, &pool->sleep_lock);
  atomic_fetch_sub(&pool->sleepers, 1);
  pthread_mutex_unlock(&pool->sleep_lock);
}

static bool spin_until_news(const pool_share *own, uint32_t seen_phase) {
  for (int i = 0; i < PAUSES_PER_LOOK; i++) {
    if (phase_of(atomic_load_explicit(&own->ticket, memory_order_acquire)) != seen_phase) return true;
    ord_pause_core();
  }
  return false;
}

/* The clock is read only when the first glance found nothing: reading it takes as long as a short hand-off. */
static void wait_for_news(const pool_share *own, uint32_t seen_phase) {
  if (spin_until_news(own, seen_phase)) return;
  for (const uint64_t begin = ord_clock_ns(); ord_clock_ns() - begin < own->pool->spin_ns;)
    if (spin_until_news(own, seen_phase)) return;
  sleep_until_news(own, seen_phase);
}

static void *run_worker(void *argument) {
  const pool_share *own = argument;
  for (uint32_t seen_phase = 0;;) {
    wait_for_news(own, seen_phase);
    seen_phase = phase_of(atomic_load_explicit(&own->ticket, memory_order_acquire));
    if (!atomic_load_explicit(&own->chunk_count, memory_order_acquire)) return NULL;
    run_chunks(own->pool, own, seen_phase);
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

static bool spin_until_done(ord_pool *pool, uint32_t chunk_count) {
  for (int i = 0; i < PAUSES_PER_LOOK; i++) {
    if (is_done(pool, chunk_count)) return true;
    ord_pause_core();
  }
  return false;
}

static void wait_until_done(ord_pool *pool, uint32_t chunk_count) {
  if (spin_until_done(pool, chunk_count)) return;
  for (const uint64_t begin = ord_clock_ns(); ord_clock_ns() - begin < pool->spin_ns;)
    if (spin_until_done(pool, chunk_count)) return;
  sleep_until_done(pool, chunk_count);
}

/* The shares of the phase before are closed first, all of them. A late worker of that phase who reads any of the new
 * description (released here, acquired there) then finds every share closed and cannot take a chunk with it. */
static uint32_t publish(ord_pool *pool, ord_pool_chunk_fn chunk_fn, void *context, uint32_t chunk_count) {
  const uint32_t before = atomic_load_explicit(&pool->phase, memory_order_relaxed);
  const uint32_t phase = before + 1, thread_count = pool->thread_count;
  for (uint32_t i = 0; i < thread_count; i++)
    atomic_store_explicit(&pool->share[i].ticket, (uint64_t)before << 32 | UINT32_MAX, memory_order_relaxed);
  atomic_store_explicit(&pool->failed, false, memory_order_relaxed);
  atomic_store_explicit(&pool->done, 0, memory_order_relaxed);
  uint32_t begin = 0;
  for (uint32_t i = 0; i < thread_count; i++) {
    pool_share *share = &pool->share[i];
    const uint32_t end = (uint32_t)((uint64_t)chunk_count * (i + 1) / thread_count);
    atomic_store_explicit(&share->chunk_fn, chunk_fn, memory_order_release);
    atomic_store_explicit(&share->context, context, memory_order_release);
    atomic_store_explicit(&share->chunk_count, chunk_count, memory_order_release);
    atomic_store_explicit(&share->end, end, memory_order_release);
    atomic_store_explicit(&share->ticket, (uint64_t)phase << 32 | begin, memory_order_release);
    begin = end;
  }
  atomic_store(&pool->phase, phase); /* before the look at the sleepers */
  wake_workers(pool);
  return phase;
}

static bool run_alone(ord_pool_chunk_fn chunk_fn, void *context, uint32_t chunk_count) {
  for (uint32_t chunk = 0; chunk < chunk_count; chunk++)
    if (!chunk_fn(context, chunk, chunk_count, 0)) return false;
  return true;
}

bool ord_pool_phase(ord_pool *pool, ord_pool_chunk_fn chunk_fn, void *context, uint32_t chunk_count) {
  if (pool->thread_count == 1 || chunk_count < 2) return run_alone(chunk_fn, context, chunk_count);
  const uint32_t phase = publish(pool, chunk_fn, context, chunk_count);
  run_chunks(pool, &pool->share[0], phase);
  wait_until_done(pool, chunk_count);
  return !atomic_load_explicit(&pool->failed, memory_order_relaxed);
}

void ord_pool_lease(ord_pool *pool) { pthread_mutex_lock(&pool->lease); }

void ord_pool_release(ord_pool *pool) { pthread_mutex_unlock(&pool->lease); }

bool ord_pool_run(ord_pool *pool, ord_pool_chunk_fn chunk_fn, void *context, uint32_t chunk_count) {
  if (!pool) return run_alone(chunk_fn, context, chunk_count);
  ord_pool_lease(pool);
  const bool is_done = ord_pool_phase(pool, chunk_fn, context, chunk_count);
  ord_pool_release(pool);
  return is_done;
}

uint32_t ord_pool_threads(const ord_pool *pool) { return pool->thread_count; }

/* ---- life ---- */

/* Workers take no signals: handlers of the host program run on the host's own threads. */
static bool start_workers(ord_pool *pool, ord_error *err) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  int failure = 0;
  while (!failure && pool->started_count + 1 < pool->thread_count) {
    pool_share *share = &pool->share[pool->started_count + 1];
    failure = pthread_create(&share->thread, NULL, run_worker, share);
    if (!failure) pool->started_count++;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!failure) return true;
  return ord_fail(err, ORD_NO_MEMORY, "cannot start thread %u of %u; %s", pool->started_count + 2, pool->thread_count,
                  strerror(failure));
}

bool ord_pool_create(int threads, ord_pool **out, bool *out_oversubscribed, ord_error *err) {
  if (threads < 0 || threads > ORD_THREADS_MAX)
    return ord_fail(err, ORD_INVALID, "threads: found %d; wanted 0 (all cores) to %d", threads, ORD_THREADS_MAX);
  const uint32_t cores = ord_pool_cores();
  const uint32_t all_cores = cores < ORD_THREADS_MAX ? cores : ORD_THREADS_MAX;
  const uint32_t thread_count = threads ? (uint32_t)threads : all_cores;
  const size_t bytes = sizeof(ord_pool) + thread_count * sizeof(pool_share);
  void *memory;
  if (posix_memalign(&memory, CACHE_LINE_BYTES, bytes)) return ord_fail_memory(err, "making the thread pool");
  ord_pool *pool = memset(memory, 0, bytes);
  pool->thread_count = thread_count;
  for (uint32_t i = 0; i < thread_count; i++) {
    pool->share[i].pool = pool;
    pool->share[i].number = i;
  }
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
  publish(pool, NULL, NULL, 0);
  for (uint32_t i = 0; i < pool->started_count; i++) pthread_join(pool->share[i + 1].thread, NULL);
  pthread_cond_destroy(&pool->end);
  pthread_cond_destroy(&pool->work);
  pthread_mutex_destroy(&pool->lease);
  pthread_mutex_destroy(&pool->sleep_lock);
  free(pool);
}
