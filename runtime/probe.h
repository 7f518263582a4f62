/* SPDX-License-Identifier: MIT
 *
 * Probes: what the machine can do at this moment, with the threads of a pool. Streaming reads of memory that no cache
 * holds, and multiply-adds that touch nothing but registers. Memory bandwidth drifts and machines differ, so a speed
 * means something only beside probes of the same process and minute.
 */
#ifndef ORDITO_RUNTIME_PROBE_H
#define ORDITO_RUNTIME_PROBE_H

#include "runtime/pool.h"
#include "runtime/tensor.h"

/* ---- reads ---- */

/* A way through the memory. */
typedef struct ord_read_pattern {
  const char *name;
  uint32_t streams;   /* that a thread reads at the same time, a little of each in turn */
  size_t chunk_bytes; /* 0: each thread reads one contiguous part */
} ord_read_pattern;

/* In the order of the table; NULL past its end. */
const ord_read_pattern *ord_read_pattern_get(uint32_t index);

/* `bytes` of memory of its own, written once, in large pages where the system gives them. */
typedef struct ord_read_probe ord_read_probe;
ORD_MUST_CHECK bool ord_read_probe_create(size_t bytes, ord_read_probe **out, ord_error *err);
void ord_read_probe_destroy(ord_read_probe *probe);

/* Reads all of it once; bytes a second. `features`: ORD_CPU_*. Leases the pool. */
double ord_read_probe_run(ord_read_probe *probe, ord_pool *pool, uint64_t features, const ord_read_pattern *pattern);

/* ---- multiply-adds ---- */

typedef struct ord_peak {
  double operations_per_s; /* a multiply-add is two */
  const char *code;        /* which instructions made it: "avx512_bf16 vdpbf16ps" */
} ord_peak;

/* One way to multiply and add, in registers alone. */
typedef struct ord_peak_code {
  const char *name;
  ord_dtype compute; /* ORD_F32, ORD_BF16, ORD_I8 */
  uint64_t features; /* ORD_CPU_*, all needed */
  double operations; /* of one round */
  /* The result depends on all products, so that no compiler leaves them out. */
  float (*run)(uint64_t rounds);
} ord_peak_code;

/* The table of the machine this is built for; the last entries need no feature. */
extern const ord_peak_code ord_peak_codes[];
extern const uint32_t ord_peak_code_count;

/* The fastest of the codes for this type that the features allow, over a few milliseconds. A type that has no code of
 * its own on this machine is computed in f32, and `code` says so. Leases the pool. */
ord_peak ord_peak_run(ord_pool *pool, uint64_t features, ord_dtype compute);

#endif
