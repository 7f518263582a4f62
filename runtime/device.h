/* SPDX-License-Identifier: MIT
 *
 * A device: where memory lives and how a plan is run. One table of functions per kind; the CPU's is in device_cpu.c,
 * that of GPUs in cuda_device.c. A capture resolves a plan against the memory of one session; it is immutable, so that
 * a replay is a walk without allocation, lock or name lookup. Eager runs walk the same plan with the same kernels and
 * chunks, without a capture.
 */
#ifndef ORDITO_RUNTIME_DEVICE_H
#define ORDITO_RUNTIME_DEVICE_H

#include <stdatomic.h>

#include "runtime/plan.h"

/* The memory that a session gives to a run: addresses of the device. They stay fixed for the life of its captures. */
typedef struct ord_memory {
  void *arena;        /* at least plan->arena_bytes, 64-byte aligned */
  void *const *cache; /* [2 * caches]; the list itself is the caller's memory */
  int32_t *past;      /* [batch] */
  int64_t *extent;    /* [plan->extent_count] */
  void *worker;       /* CPU: threads * worker_stride bytes, 64-byte aligned */
  size_t worker_stride;
} ord_memory;

/* What one thread did in one phase. */
typedef struct ord_phase_time {
  uint64_t ns;     /* inside its chunks */
  uint64_t chunks; /* each was timed with two looks at the clock, one of which is in `ns` */
} ord_phase_time;

typedef struct ord_run_options {
  const _Atomic uint32_t *cancel; /* not 0: end; checked between steps; NULL: none */
  uint64_t *step_ns;     /* [step_count], zeros: gets each step's wall time; on a GPU, in eager runs alone, what lies
                            between two marks of its clock; NULL: no timing */
  ord_phase_time *phase; /* [threads][phase_stride]: adds what each thread did in each phase of the plan, phases
                            counted over all steps; NULL: no timing */
  size_t phase_stride;   /* at least plan->phase_count */
} ord_run_options;

/* What became of a plan, for reports. */
typedef struct ord_capture_report {
  uint32_t step_count;
  uint32_t launch_count;  /* of own kernels */
  uint32_t library_count; /* steps whose work a library put there */
  uint32_t node_count;    /* GPU: of the graph, those inside child graphs included; 0 on the CPU */
  size_t bytes;           /* in the caller's memory */
} ord_capture_report;

/* What all captures begin with. */
typedef struct ord_capture {
  ord_capture_report report;
} ord_capture;

typedef struct ord_device ord_device;

/* Work of one session, done in order; other queues may run beside it. Used by one thread at a time, but that any
 * thread, and a handler of signals, may set the cancel word. It lies where the device sees it. */
typedef struct ord_queue {
  ord_device *device;
  _Atomic uint32_t *cancel; /* ORD_CANCEL: the caller wants no more, until he takes it back; and bits of the device */
} ord_queue;

enum { ORD_CANCEL = 1 };

/* ---- generation on the device: a GPU decodes, samples and goes on without the host ---- */

/* Where a token comes from and what is changed for the one behind it: places in the memory of a captured plan for one
 * row and one new token. */
typedef struct ord_loop_places {
  const int32_t *sampled;
  int32_t *token, *past;
  int32_t *position; /* NULL: the model has no such input */
  int64_t *counter;  /* of the draws */
} ord_loop_places;

enum { ORD_LOOP_STOP_MAX = 16 };

/* What the places hold at first, and when to end. */
typedef struct ord_loop_request {
  int32_t token, past;
  int64_t counter;
  uint32_t limit; /* tokens to make, 1 .. the loop's capacity */
  int32_t stop[ORD_LOOP_STOP_MAX];
  uint32_t stop_count;
} ord_loop_request;

typedef enum { ORD_LOOP_GOES_ON, ORD_LOOP_STOPPED, ORD_LOOP_LIMIT, ORD_LOOP_CANCELLED } ord_loop_state;

typedef struct ord_loop_options {
  uint32_t capacity;  /* tokens that one request may make */
  bool is_one_launch; /* all of it in one launch of a graph with a WHILE node; else one launch a token, some ahead */
  bool is_deaf;       /* the device does not look whether it is to end: loop_stop waits for a stop token or the limit */
} ord_loop_options;

typedef struct ord_loop {
  ord_queue *queue;
} ord_loop;

/* ---- what a GPU can be asked for when it is measured; see also runtime/probe.h ---- */

/* Marks in the order of a queue, and the time of the device between them. Used as its queue is. */
typedef struct ord_device_clock {
  ord_queue *queue;
} ord_device_clock;

/* Memory that is read as fast as the device can. */
typedef struct ord_device_probe {
  ord_device *device;
} ord_device_probe;

/* What the host did with the driver, for all queues; see ord_driver_use in ordito_measure.h. */
typedef struct ord_driver_counts {
  _Atomic uint64_t calls, polls, wait_ns;
} ord_driver_counts;

typedef struct ord_device_table {
  bool (*queue_create)(ord_device *device, ord_queue **out, ord_error *err);
  void (*queue_destroy)(ord_queue *queue); /* waits for its work; accepts NULL */
  /* Until all work of the queue is done; tells what failed in it. */
  bool (*wait)(ord_queue *queue, ord_error *err);

  /* 64-byte aligned memory. zeroed: all bytes 0. Too little memory is ORD_NO_MEMORY. */
  bool (*allocate)(ord_device *device, size_t bytes, bool zeroed, void **out, ord_error *err);
  void (*release)(ord_device *device, void *memory); /* accepts NULL; no queue may still use it */
  /* In the order of the queue. write: from the caller's memory, which may be changed when it returns. read: into the
   * caller's memory; waits. copy: within the device. Nothing happens where both are the same address. */
  bool (*write)(ord_queue *queue, void *into, const void *from, size_t bytes, ord_error *err);
  bool (*read)(ord_queue *queue, void *into, const void *from, size_t bytes, ord_error *err);
  bool (*copy)(ord_queue *queue, void *into, const void *from, size_t bytes, ord_error *err);

  /* The services for the kernels of a plugin, valid as long as registry and device; the device is made current for this
   * thread, which a plugin's prepare relies on. NULL: failed. */
  const ord_host *(*host)(ord_device *device, const ord_registry *registry, const ord_plugin_entry *plugin,
                          ord_error *err);
  /* The same without services, for a plugin's retire. Fails on a device that is lost. */
  bool (*make_current)(ord_device *device, ord_error *err);
  /* Between these no capture is under way, of any session. Kernels prepare and retire there, since the libraries that
   * they open may wait for the device. A thread's pauses may nest; it pauses nothing while it captures. */
  void (*pause_captures)(void);
  void (*resume_captures)(void);
  /* Where a kernel that is launched by hand puts its work, with the device current for this thread; NULL on the CPU. */
  bool (*stream)(ord_queue *queue, ord_gpu_stream **out, ord_error *err);

  bool (*capture)(ord_queue *queue, const ord_plan *plan, const ord_memory *memory, ord_capture **out, ord_error *err);
  /* Runs the captured steps; on a GPU they may still run when it returns. Fails with ORD_CANCELLED, or with the text of
   * the kernel that failed. */
  bool (*replay)(ord_queue *queue, const ord_capture *capture, const ord_run_options *options, ord_error *err);
  bool (*run_eager)(ord_queue *queue, const ord_plan *plan, const ord_memory *memory, const ord_run_options *options,
                    ord_error *err);
  void (*capture_destroy)(ord_capture *capture); /* accepts NULL */

  /* NULL where the device has none. A loop borrows the capture. */
  bool (*loop_create)(ord_queue *queue, const ord_capture *capture, const ord_loop_places *places,
                      const ord_loop_options *options, ord_loop **out, ord_error *err);
  bool (*loop_start)(ord_loop *loop, const ord_loop_request *request, ord_error *err);
  /* Waits for the next token. *out_state tells whether it is the last, and why. The queue's ORD_CANCEL ends the loop
   * and fails. */
  bool (*loop_next)(ord_loop *loop, int32_t *out_token, ord_loop_state *out_state, ord_error *err);
  /* Ends a loop that runs, at a token; returns when it has ended. Tokens made beyond those taken are forgotten. */
  bool (*loop_stop)(ord_loop *loop, ord_error *err);
  void (*loop_destroy)(ord_loop *loop); /* stops it; accepts NULL */

  /* NULL where the host's clock is all there is. Room for so many marks. */
  bool (*clock_create)(ord_queue *queue, uint32_t capacity, ord_device_clock **out, ord_error *err);
  bool (*clock_mark)(ord_device_clock *clock, ord_error *err);
  /* Waits. out[i]: from mark i to the one behind it, [marks - 1]. The clock then has no marks. */
  bool (*clock_read)(ord_device_clock *clock, uint64_t *out_ns, ord_error *err);
  void (*clock_destroy)(ord_device_clock *clock); /* accepts NULL */

  /* NULL where the host's threads read. `bytes` is rounded down to whole loads. */
  bool (*probe_create)(ord_device *device, size_t bytes, ord_device_probe **out, ord_error *err);
  /* The patterns by number: their names; NULL past the last. */
  const char *(*probe_pattern)(uint32_t pattern);
  /* Reads the memory once, in the order of the queue. */
  bool (*probe_read)(ord_device_probe *probe, ord_queue *queue, uint32_t pattern, ord_error *err);
  void (*probe_destroy)(ord_device_probe *probe); /* accepts NULL; no queue may still use it */

  void (*destroy)(ord_device *device);
} ord_device_table;

struct ord_device {
  const ord_device_table *table;
  ord_device_info info;
  ord_pool *pool;      /* owned; on a GPU it packs weights */
  bool is_host_memory; /* the device's addresses are the caller's too */
  ord_driver_counts driver;
};

/* The levels of instructions by name, ended by NULL: baseline, avx2, avx512 (without its bf16 and vnni parts), and
 * native, all that the CPU has. */
extern const char *const ord_cpu_levels[];
/* What this machine's CPU has, of that what a level allows; NULL: native. A level that the CPU lacks is an error. */
ORD_MUST_CHECK bool ord_cpu_features(const char *name, uint64_t *out, ord_error *err);

/* threads as in ord_pool_create, cpu as in ord_cpu_features. `out` is destroyed with out->table->destroy. */
ORD_MUST_CHECK bool ord_device_cpu_create(int threads, const char *cpu, ord_device **out, bool *out_oversubscribed,
                                          ord_error *err);

/* The CUDA driver: the file to open, and which images fit it. */
typedef struct ord_cuda_options {
  const char *driver;       /* a file as dlopen takes it */
  bool is_simulated;        /* images for the simulated driver; they lie beside a plugin's file in simulated/ */
  bool is_checked;          /* of these, the checked ones */
  bool no_dependent_launch; /* no kernel starts before the one before it has ended, whatever it declares */
  const char *cublas;       /* files for plugins to open */
  const char *cublas_lt;
  const char *runtime_images; /* the folder with the simulated images of the runtime itself */
} ord_cuda_options;

/* Device 0 of the driver. ORD_UNSUPPORTED: no driver, no device, a driver too old, or a build without CUDA. */
ORD_MUST_CHECK bool ord_device_cuda_create(int threads, const ord_cuda_options *options, ord_device **out,
                                           bool *out_oversubscribed, ord_error *err);

#endif
