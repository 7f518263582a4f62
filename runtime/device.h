/* SPDX-License-Identifier: MIT
 *
 * A device: where memory lives and how a plan is run. One table of functions per kind; the CPU's is in device_cpu.c.
 * A capture resolves a plan against the memory of one session; it is immutable, so that a replay is a walk without
 * allocation, lock or name lookup. Eager runs walk the same plan with the same kernels and chunks, without a capture.
 */
#ifndef ORDITO_RUNTIME_DEVICE_H
#define ORDITO_RUNTIME_DEVICE_H

#include <stdatomic.h>

#include "runtime/plan.h"

/* The memory that a session gives to a run. Addresses stay fixed for the life of its captures. */
typedef struct ord_memory {
  void *arena;        /* at least plan->arena_bytes, 64-byte aligned */
  void *const *cache; /* [2 * caches] */
  int32_t *past;      /* [batch] */
  int64_t *extent;    /* [plan->extent_count] */
  void *worker;       /* threads * worker_stride bytes, 64-byte aligned */
  size_t worker_stride;
} ord_memory;

/* What one thread did in one phase. */
typedef struct ord_phase_time {
  uint64_t ns;     /* inside its chunks */
  uint64_t chunks; /* each was timed with two looks at the clock, one of which is in `ns` */
} ord_phase_time;

typedef struct ord_run_options {
  const atomic_bool *cancel; /* checked between steps; NULL: none */
  uint64_t *step_ns;         /* [step_count]: adds each step's wall time; NULL: no timing */
  ord_phase_time *phase;     /* [threads][phase_stride]: adds what each thread did in each phase of the plan, phases
                                counted over all steps; NULL: no timing */
  size_t phase_stride;       /* at least plan->phase_count */
} ord_run_options;

typedef struct ord_capture ord_capture;
typedef struct ord_device ord_device;

typedef struct ord_device_table {
  /* 64-byte aligned memory, or NULL. zeroed: all bytes 0. */
  void *(*allocate)(ord_device *device, size_t bytes, bool zeroed);
  void (*release)(ord_device *device, void *memory);
  bool (*capture)(ord_device *device, const ord_plan *plan, const ord_memory *memory, ord_capture **out,
                  ord_error *err);
  /* Runs the captured steps. Fails with ORD_CANCELLED, or with the text of the kernel that failed. */
  bool (*replay)(ord_device *device, const ord_capture *capture, const ord_run_options *options, ord_error *err);
  bool (*run_eager)(ord_device *device, const ord_plan *plan, const ord_memory *memory, const ord_run_options *options,
                    ord_error *err);
  void (*capture_destroy)(ord_capture *capture); /* accepts NULL */
  size_t (*capture_bytes)(const ord_capture *capture);
  void (*destroy)(ord_device *device);
} ord_device_table;

struct ord_device {
  const ord_device_table *table;
  ord_device_info info;
  ord_pool *pool; /* CPU: owned */
};

/* The levels of instructions by name, ended by NULL: baseline, avx2, avx512 (without its bf16 and vnni parts), and
 * native, all that the CPU has. */
extern const char *const ord_cpu_levels[];
/* What this machine's CPU has, of that what a level allows; NULL: native. A level that the CPU lacks is an error. */
ORD_MUST_CHECK bool ord_cpu_features(const char *name, uint64_t *out, ord_error *err);

/* threads as in ord_pool_create, cpu as in ord_cpu_features. `out` is destroyed with out->table->destroy. */
ORD_MUST_CHECK bool ord_device_cpu_create(int threads, const char *cpu, ord_device **out, bool *out_oversubscribed,
                                          ord_error *err);

#endif
