/* SPDX-License-Identifier: MIT
 *
 * How fast a model runs, and what the machine gives: what `ordito bench` is made of. The conventions are those of
 * ordito.h. A program that embeds a model needs nothing of this.
 */
#ifndef ORDITO_MEASURE_H
#define ORDITO_MEASURE_H

#include "ordito.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the machine can do at this moment, with the threads of a context or with its GPU: speeds mean something beside
 * probes of the same process and minute only. Of one thread at a time, while no session of the context runs but for the
 * one that is given the probe; destroy it before the context. */
typedef struct ord_probe ord_probe;
typedef struct ord_probe_result {
  uint32_t struct_size;
  double per_s;    /* bytes, or operations (a multiply-add is two) */
  const char *how; /* the fastest way of those tried; static */
} ord_probe_result;
/* read_bytes: of memory of the device that the probe takes and reads, several times what the caches hold. */
ORD_API ORD_MUST_CHECK bool ord_probe_create(ord_context *context, size_t read_bytes, ord_probe **out, ord_error *err);
ORD_API void ord_probe_destroy(ord_probe *probe);
/* Streaming reads, in several patterns, each once through the memory; on a GPU by its own clock. */
ORD_API ORD_MUST_CHECK bool ord_probe_read(ord_probe *probe, ord_probe_result *out, ord_error *err);
/* Multiply-adds in registers. compute: a type that needs no GPU (another is ORD_INVALID); one that the CPU has no
 * instruction for is computed in f32. ORD_UNSUPPORTED on a GPU. */
ORD_API ORD_MUST_CHECK bool ord_probe_peak(ord_probe *probe, uint32_t compute, ord_probe_result *out, ord_error *err);

/* One run as bench needs it: `eager` chooses the walk. What is asked for is added to what ord_session_step_time tells.
 * Set struct_size and the flags; fails as ord_session_run does. */
typedef struct ord_timing {
  uint32_t struct_size;
  bool eager;
  bool by_step;      /* wall time of each step, and the work that the step has; on a GPU the run is eager then, and the
                        times are those between two marks on the device, less empty_ns */
  bool by_thread;    /* time that the threads spend inside kernels, phase by phase; nothing on a GPU */
  uint64_t run_ns;   /* out: wall time of the run */
  uint64_t busy_ns;  /* out, by_thread: summed over the phases, the time of the thread that was busy longest */
  uint64_t clock_ns; /* out, by_thread: part of run_ns that those threads needed to take the time; not in busy_ns */
  uint32_t phases;   /* out: launches of the run, each with a barrier behind it */
  bool by_device;    /* GPU: device_ns and empty_ns, which by_step gives there too; ORD_UNSUPPORTED elsewhere */
  /* NULL, or what is read before the run, outside of its times: so that no cache holds what the run reads, and, on a
   * GPU, often enough, so that the host has launched the run before the device comes to it. */
  ord_probe *probe;
  uint32_t probe_passes;
  uint64_t device_ns; /* out, by_device: from the run's begin on the device to its end */
  uint64_t empty_ns;  /* out, by_device: between two marks on the device with nothing between them; without a probe
                         in front of them the device waits for the host there */
} ord_timing;
ORD_API ORD_MUST_CHECK bool ord_session_run_timed(ord_session *session, ord_timing *timing, ord_error *err);
/* GPU: replays of one run, that of the inputs that are set, launched one behind the other before any is waited for. All
 * make the same run; the session then is as after one. ORD_UNSUPPORTED where the run is not captured, and on the CPU.
 * Set struct_size and count. */
typedef struct ord_replay_timing {
  uint32_t struct_size;
  uint32_t count;        /* at least 1 */
  uint64_t run_ns;       /* out: wall time of all, until the last has ended */
  uint64_t device_ns;    /* out: the same by the device's clock, from the begin of the first */
  uint64_t launch_ns;    /* out: part of run_ns in which the host launched them */
  uint64_t launch_calls; /* out: of the driver, for that */
} ord_replay_timing;
ORD_API ORD_MUST_CHECK bool ord_session_time_replays(ord_session *session, ord_replay_timing *timing, ord_error *err);
/* A step of the plan that the last run used. Text is borrowed, valid until the session is destroyed or swaps kernels.
 * Sums and numbers of runs are those since ord_session_times_reset. */
typedef struct ord_step_time {
  uint32_t struct_size;
  uint32_t phases;
  const char *path, *op, *kernel; /* path: of the first op that it stands for */
  uint64_t ns, runs;              /* wall time, on a GPU that between marks less empty_ns; of runs timed by step */
  uint64_t busy_ns, busy_runs;    /* of the busiest thread of each phase, of runs timed by thread */
  /* Of the last run timed by step: the operations that the products of matrices in it cannot do without (a
   * multiply-add counts twice), bytes of weights as the kernel reads them (of a table only the rows looked up), bytes
   * of the caches. */
  uint64_t operations, weight_bytes, cache_bytes;
} ord_step_time;
/* Steps in the order of the plan. False past the last one, and where the last call was no finished run. */
ORD_API ORD_MUST_CHECK bool ord_session_step_time(const ord_session *session, uint32_t index, ord_step_time *out);
ORD_API void ord_session_times_reset(ord_session *session);

/* What making the session took, wall time. Packs that another session had made took nothing. */
typedef struct ord_startup_times {
  uint32_t struct_size;
  uint64_t read_ns, pack_ns, capture_ns;
  uint64_t plan_ns; /* all the rest: passes, choice of kernels, memory */
} ord_startup_times;
ORD_API ORD_MUST_CHECK bool ord_session_startup(const ord_session *session, ord_startup_times *out, ord_error *err);

/* Sets every input that has to be set (the tokens too) to numbers that repeat for a seed: floats in [-1, 1), integers
 * 0, bools true. A run-time dim gets `length`, or the nearest that the model allows; where the model has tokens, those
 * other than the token axis get 1 in place of it. *out_tokens: the tokens of all rows; 0: the model has none. */
ORD_API ORD_MUST_CHECK bool ord_session_set_random(ord_session *session, int64_t length, uint64_t seed,
                                                   int64_t *out_tokens, ord_error *err);

/* Reads as many bytes of the model's weight file as the model has weights into new memory, and writes as many bytes as
 * its sessions hold packed, on the context's threads, as ord_probe does. *out_ns: wall time; 0: the weights do not come
 * from one file. */
ORD_API ORD_MUST_CHECK bool ord_model_probe_startup(const ord_model *model, uint64_t *out_ns, ord_error *err);

/* What the host did for the device in all sessions of the context, since it was made. All 0 on the CPU. */
typedef struct ord_driver_use {
  uint32_t struct_size;
  uint64_t calls;   /* of the device's driver, but for polls and for what gives things back */
  uint64_t polls;   /* how often it was asked, in waiting for a token, whether all is well */
  uint64_t wait_ns; /* wall time in which the host had nothing to do but to wait for the device */
} ord_driver_use;
ORD_API ORD_MUST_CHECK bool ord_context_driver_use(const ord_context *context, ord_driver_use *out, ord_error *err);

#ifdef __cplusplus
}
#endif

#endif
