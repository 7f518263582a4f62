/* SPDX-License-Identifier: MIT
 *
 * The probes on the pool: who reads which part, how long it takes. The instructions are in probe_code.c.
 */
#include "runtime/probe.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/pages.h"
#include "runtime/probe_code.h"

/* ---- reads ------------------------------------------------------------------------------------------------------- */

/* Kernels read weights as one stream a thread, or as rows that lie apart; which of these is fastest depends on the
 * machine's prefetchers. */
static const ord_read_pattern patterns[] = {
    {"1 stream a thread", 1, 0},
    {"2 streams a thread", 2, 0},
    {"4 streams a thread", 4, 0},
    {"chunks of 4 MiB, 1 stream", 1, (size_t)4 << 20},
    {"chunks of 4 MiB, 2 streams", 2, (size_t)4 << 20},
};

const ord_read_pattern *ord_read_pattern_get(uint32_t index) {
  return index < sizeof patterns / sizeof *patterns ? &patterns[index] : NULL;
}

struct ord_read_probe {
  unsigned char *memory;
  size_t bytes;
  _Atomic uint64_t sink; /* of what was read, so that it is read */
};

bool ord_read_probe_create(size_t bytes, ord_read_probe **out, ord_error *err) {
  *out = NULL;
  ord_read_probe *probe = calloc(1, sizeof *probe);
  if (!probe) return ord_fail_memory(err, "making a read probe");
  probe->bytes = bytes;
  probe->memory = ord_pages_take(bytes, true);
  if (!probe->memory) {
    free(probe);
    return ord_fail(err, ORD_NO_MEMORY, "out of memory: a read probe needs %zu bytes", bytes);
  }
  memset(probe->memory, 1, bytes);
  *out = probe;
  return true;
}

void ord_read_probe_destroy(ord_read_probe *probe) {
  if (!probe) return;
  ord_pages_release(probe->memory);
  free(probe);
}

typedef struct read_work {
  ord_read_probe *probe;
  ord_read_code_fn code;
  uint32_t streams;
} read_work;

static bool read_part(void *context, uint32_t chunk, uint32_t chunk_count, uint32_t worker) {
  (void)worker;
  const read_work *work = context;
  const size_t lines = work->probe->bytes / ORD_READ_CODE_BYTES;
  const size_t begin = lines * chunk / chunk_count, end = lines * (chunk + 1) / chunk_count;
  const size_t each = (end - begin) / work->streams;
  const uint64_t sum = work->code(work->probe->memory + begin * ORD_READ_CODE_BYTES, each, work->streams);
  atomic_fetch_xor_explicit(&work->probe->sink, sum, memory_order_relaxed);
  return true;
}

double ord_read_probe_run(ord_read_probe *probe, ord_pool *pool, uint64_t features, const ord_read_pattern *pattern) {
  read_work work = {probe, ord_read_code_choose(features), pattern->streams};
  const size_t chunks = pattern->chunk_bytes ? probe->bytes / pattern->chunk_bytes : ord_pool_threads(pool);
  ord_pool_lease(pool);
  const uint64_t begin = ord_clock_ns();
  ord_pool_phase(pool, read_part, &work, chunks ? (uint32_t)chunks : 1);
  const uint64_t ns = ord_clock_ns() - begin;
  ord_pool_release(pool);
  return (double)probe->bytes * 1e9 / (double)(ns ? ns : 1);
}

/* ---- multiply-adds ----------------------------------------------------------------------------------------------- */

/* Some tenths of a millisecond a chunk, a few milliseconds a burst: enough for the clock, short enough that a busy
 * neighbour spoils some bursts only. */
enum { ROUNDS = 1 << 17, CHUNKS_PER_THREAD = 6, BURSTS = 3 };

typedef struct peak_work {
  const ord_peak_code *code;
  _Atomic uint32_t sink;
} peak_work;

static bool multiply(void *context, uint32_t chunk, uint32_t chunk_count, uint32_t worker) {
  (void)chunk;
  (void)chunk_count;
  (void)worker;
  peak_work *work = context;
  const float sum = work->code->run(ROUNDS);
  atomic_fetch_add_explicit(&work->sink, sum > 0, memory_order_relaxed);
  return true;
}

static double run_bursts(ord_pool *pool, const ord_peak_code *code) {
  peak_work work = {.code = code};
  const uint32_t chunks = ord_pool_threads(pool) * CHUNKS_PER_THREAD;
  double best = 0;
  for (int burst = 0; burst < BURSTS; burst++) {
    const uint64_t begin = ord_clock_ns();
    ord_pool_phase(pool, multiply, &work, chunks);
    const uint64_t ns = ord_clock_ns() - begin;
    const double speed = code->operations * ROUNDS * chunks * 1e9 / (double)(ns ? ns : 1);
    if (speed > best) best = speed;
  }
  return best;
}

static bool has_code(uint64_t features, ord_dtype compute) {
  for (uint32_t i = 0; i < ord_peak_code_count; i++)
    if (ord_peak_codes[i].compute == compute && !(ord_peak_codes[i].features & ~features)) return true;
  return false;
}

ord_peak ord_peak_run(ord_pool *pool, uint64_t features, ord_dtype compute) {
  const ord_dtype type = has_code(features, compute) ? compute : ORD_F32;
  ord_peak peak = {0, "none"};
  ord_pool_lease(pool);
  for (uint32_t i = 0; i < ord_peak_code_count; i++) {
    const ord_peak_code *code = &ord_peak_codes[i];
    if (code->compute != type || (code->features & ~features)) continue;
    const double speed = run_bursts(pool, code);
    if (speed > peak.operations_per_s) peak = (ord_peak){speed, code->name};
  }
  ord_pool_release(pool);
  return peak;
}
