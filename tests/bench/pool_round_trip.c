/* SPDX-License-Identifier: MIT
 *
 * pool_round_trip [THREADS [PHASES]]: what a phase of the pool costs beside its chunks, both hand-offs included. The
 * chunks multiply for a fixed number of rounds; the cost is the time of a phase less the time of those rounds shared
 * evenly among the threads. Beside it, measured in turn, the floor: one flag there and back between two threads.
 * Medians of 11 samples; nothing here passes or fails.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/clock.h"
#include "runtime/pool.h"

enum { SAMPLES = 11, CASES = 5 };
/* All chunks of a phase together do `work` rounds for each thread. */
static const struct {
  uint32_t chunks_each; /* for each thread */
  uint64_t work;
} cases[CASES] = {{1, 0}, {1, 4000}, {4, 4000}, {16, 4000}, {16, 40000}};

static double seconds(void) { return 1e-9 * (double)ord_clock_ns(); }

/* Each round waits for the one before, so that it takes the same time on any thread. */
static uint64_t multiply(uint64_t rounds) {
  uint64_t number = 1;
  for (uint64_t i = 0; i < rounds; i++) {
    number *= UINT64_C(0x9e3779b97f4a7c15);
    __asm__ volatile("" : "+r"(number));
  }
  return number;
}

static bool work(void *context, uint32_t chunk, uint32_t chunk_count, uint32_t worker) {
  (void)chunk, (void)chunk_count, (void)worker;
  multiply(*(const uint64_t *)context);
  return true;
}

/* Seconds of a phase beyond the work in it. */
static double time_phases(ord_pool *pool, int number, long phases) {
  const uint32_t chunks = cases[number].chunks_each * ord_pool_threads(pool);
  uint64_t rounds = cases[number].work / cases[number].chunks_each;
  double begin = seconds();
  for (long i = 0; i < phases; i++)
    for (uint32_t chunk = 0; chunk < cases[number].chunks_each; chunk++) multiply(rounds);
  const double serial = seconds() - begin;
  begin = seconds();
  for (long i = 0; i < phases; i++)
    if (!ord_pool_phase(pool, work, &rounds, chunks)) exit(1);
  return (seconds() - begin - serial) / (double)phases;
}

typedef struct {
  _Alignas(64) atomic_long asked;
  _Alignas(64) atomic_long answered;
  long count;
} flags;

static void *answer(void *context) {
  flags *f = context;
  for (long i = 1; i <= f->count; i++) {
    while (atomic_load_explicit(&f->asked, memory_order_acquire) != i) continue;
    atomic_store_explicit(&f->answered, i, memory_order_release);
  }
  return NULL;
}

static double time_flag(long count) {
  flags f = {.count = count};
  pthread_t thread;
  if (pthread_create(&thread, NULL, answer, &f)) exit(1);
  const double begin = seconds();
  for (long i = 1; i <= count; i++) {
    atomic_store_explicit(&f.asked, i, memory_order_release);
    while (atomic_load_explicit(&f.answered, memory_order_acquire) != i) continue;
  }
  const double end = seconds();
  pthread_join(thread, NULL);
  return (end - begin) / (double)count;
}

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void print(const char *what, double *sample) {
  qsort(sample, SAMPLES, sizeof *sample, compare);
  printf("%-52s %.2f us (%.2f to %.2f)\n", what, 1e6 * sample[SAMPLES / 2], 1e6 * sample[0], 1e6 * sample[SAMPLES - 1]);
}

int main(int argc, char **argv) {
  const int threads = argc > 1 ? atoi(argv[1]) : 2;
  const long phases = argc > 2 ? atol(argv[2]) : 10000;
  static double phase[CASES][SAMPLES], flag[SAMPLES];
  ord_pool *pool;
  ord_error err = ORD_ERROR_INIT;
  if (phases < 1 || !ord_pool_create(threads, &pool, NULL, &err)) {
    fprintf(stderr, "pool_round_trip: %s\n", phases < 1 ? "wanted at least one phase" : err.text);
    return 2;
  }
  for (int sample = 0; sample < SAMPLES; sample++) {
    flag[sample] = time_flag(phases);
    ord_pool_lease(pool);
    for (int i = 0; i < CASES; i++) phase[i][sample] = time_phases(pool, i, phases);
    ord_pool_release(pool);
  }
  ord_pool_destroy(pool);
  print("one flag there and back", flag);
  for (int i = 0; i < CASES; i++) {
    char what[80];
    snprintf(what, sizeof what, "a phase of %u chunks, %u multiplications a thread", cases[i].chunks_each * threads,
             (unsigned)cases[i].work);
    print(what, phase[i]);
  }
  return 0;
}
