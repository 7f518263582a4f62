/* SPDX-License-Identifier: MIT
 *
 * What the files of the CUDA device share; only runtime/cuda_*.c include it, and nothing else knows cuda.h.
 *   cuda_entry      the driver's functions, found at run time     cuda_error   what a call's code means; a lost device
 *   cuda_device     context and table                             cuda_memory  queues, memory, copies
 *   cuda_image      device images, kernels, services of plugins   cuda_record  one step: launched, or recorded
 *   cuda_audit      what a recorded step may hold                 cuda_graph   a recording becomes a graph
 *   cuda_capture    captures, replays and eager runs of a plan    cuda_loop    generation on the device
 *   cuda_clock      times of the device                           cuda_probe   how fast its memory can be read
 *   cuda_gate       what must not run beside a capture
 * The context of the driver is made current for the calling thread at every door (ord_cuda_enter).
 */
#ifndef ORDITO_RUNTIME_CUDA_H
#define ORDITO_RUNTIME_CUDA_H

#include <cuda.h>
#include <cudaTypedefs.h>
#include <pthread.h>

#include "runtime/device.h"

/* The functions of the driver, each as of the version that is asked for. */
typedef struct ord_cuda_calls {
#define ENTRY(name, version) PFN_cu##name##_v##version name;
#include "runtime/cuda_entries.def"
#undef ENTRY
} ord_cuda_calls;

typedef struct ord_cuda_plugin ord_cuda_plugin; /* cuda_image.c: the services for a plugin, and its loaded images */

typedef struct ord_cuda_device {
  ord_device base;
  void *library; /* of the driver; never closed: its threads outlive whoever opened it */
  ord_cuda_calls call;
  int driver_version; /* as cuDriverGetVersion has it: 13000 */
  CUdevice ordinal;
  CUcontext context; /* the primary one, which libraries share */
  bool has_context;
  CUstream stream;           /* for zeroing memory */
  bool has_dependent_launch; /* programmatic edges between kernels: compute capability 9 and up */
  char name[128];
  ord_cuda_options options; /* its texts are copies, owned */
  pthread_mutex_t lock;     /* of what stands below */
  ord_cuda_plugin *plugin;
  bool is_lost; /* a kernel faulted: the context is dead until the process ends */
  char lost_text[1024];
} ord_cuda_device;

typedef struct ord_cuda_recording ord_cuda_recording;

/* What kernels get as ord_exec.stream. */
typedef struct ord_cuda_stream {
  ord_gpu_stream base; /* its handle is the CUstream */
  ord_cuda_device *device;
  ord_cuda_recording *recording; /* NULL: launches run; else they are recorded, and captured too (cuda_record.c) */
  bool has_failed;               /* a launch since the step began did, whatever its kernel says of it */
  ord_error failure;             /* of the first that did */
} ord_cuda_stream;

typedef struct ord_cuda_queue {
  ord_queue base;
  ord_cuda_stream run;     /* work is done here */
  ord_cuda_stream capture; /* a stream of its own, so that capturing does not wait for work */
  unsigned char *staging;  /* pinned; what small writes are copied from; behind it lies base.cancel */
  size_t staging_used;     /* since the queue was waited for */
} ord_cuda_queue;

static inline ord_cuda_device *ord_cuda_of(const ord_queue *queue) { return (ord_cuda_device *)queue->device; }

/* ---- cuda_entry.c ---- */

/* Opens the driver and fills device->library, call and driver_version. A driver without an entry is too old: the text
 * says which is missing and which release has it. */
ORD_MUST_CHECK bool ord_cuda_open_driver(ord_cuda_device *device, ord_error *err);

/* ---- cuda_error.c ---- */

/* Counts the call. True if `code` is success. Else fills err: "<what>: <call> failed: CUDA_ERROR_NAME (code):
 * description", ORD_NO_MEMORY, ORD_UNSUPPORTED (of a kernel) or ORD_DEVICE_FAILED, and marks the device as lost after a
 * fault that kills the context.
 * `what` says what was being done, in words; call "cuMemAlloc". */
ORD_MUST_CHECK bool ord_cuda_check(ord_cuda_device *device, CUresult code, const char *call, const char *what,
                                   ord_error *err);
/* Counts one whose code is not checked. */
static inline void ord_cuda_count_call(ord_cuda_device *device) {
  atomic_fetch_add_explicit(&device->base.driver.calls, 1, memory_order_relaxed);
}
/* "NAME (code): description" of a result, cut to fit. */
void ord_cuda_describe(const ord_cuda_device *device, CUresult code, char *out, size_t bytes);
/* The same failure for a plugin, cut to fit; `err` may be NULL. Returns its code. */
ord_status ord_cuda_tell_plugin(const ord_error *failure, ord_plugin_error *err);
/* Every door: fails on a lost device with what lost it, else makes the context current for this thread. */
ORD_MUST_CHECK bool ord_cuda_enter(ord_cuda_device *device, ord_error *err);
/* The same for a poll: how often that is done is a matter of how long something takes, so the call is not counted. */
ORD_MUST_CHECK bool ord_cuda_enter_to_poll(ord_cuda_device *device, ord_error *err);

/* ---- cuda_gate.c ---- */

/* Between these the thread captures, and may not pause captures. */
void ord_cuda_begin_capturing(void);
void ord_cuda_end_capturing(void);
/* The table's functions, for whatever may wait for the whole context. */
void ord_cuda_pause_captures(void);
void ord_cuda_resume_captures(void);

/* ---- cuda_memory.c: the table's functions of these names, see device.h ---- */

ORD_MUST_CHECK bool ord_cuda_queue_create(ord_device *device, ord_queue **out, ord_error *err);
void ord_cuda_queue_destroy(ord_queue *queue);
ORD_MUST_CHECK bool ord_cuda_wait(ord_queue *queue, ord_error *err);
/* Counts as waiting what passed since then, on the clock of runtime/clock.h. */
void ord_cuda_count_wait(ord_cuda_device *device, uint64_t begin_ns);
ORD_MUST_CHECK bool ord_cuda_allocate(ord_device *device, size_t bytes, bool zeroed, void **out, ord_error *err);
void ord_cuda_release(ord_device *device, void *memory);
/* The host's memory, which the device reads and writes at the same address; of this thread's current context. */
ORD_MUST_CHECK bool ord_cuda_allocate_pinned(ord_cuda_device *device, size_t bytes, const char *what,
                                             unsigned char **out, ord_error *err);
void ord_cuda_release_pinned(ord_cuda_device *device, void *memory); /* accepts NULL */
ORD_MUST_CHECK bool ord_cuda_write(ord_queue *queue, void *into, const void *from, size_t bytes, ord_error *err);
ORD_MUST_CHECK bool ord_cuda_read(ord_queue *queue, void *into, const void *from, size_t bytes, ord_error *err);
ORD_MUST_CHECK bool ord_cuda_copy(ord_queue *queue, void *into, const void *from, size_t bytes, ord_error *err);
ORD_MUST_CHECK bool ord_cuda_queue_stream(ord_queue *queue, ord_gpu_stream **out, ord_error *err);
static inline CUdeviceptr ord_cuda_address(const void *memory) { return (CUdeviceptr)(uintptr_t)memory; }
static inline CUstream ord_cuda_handle(const ord_cuda_stream *stream) { return stream->base.handle; }

/* ---- cuda_image.c ---- */

const ord_host *ord_cuda_host(ord_device *device, const ord_registry *registry, const ord_plugin_entry *plugin,
                              ord_error *err);
/* A kernel of the runtime's own images ("cuda_loop"). */
ORD_MUST_CHECK bool ord_cuda_runtime_kernel(ord_cuda_device *device, const char *image, const char *symbol,
                                            CUkernel *out, ord_error *err);
/* Unloads everything. */
void ord_cuda_plugins_destroy(ord_cuda_device *device);

/* ---- cuda_record.c: one launch, one step ---- */

/* ord_host.gpu_launch. */
ord_status ord_cuda_gpu_launch(void *context, ord_gpu_stream *stream, const ord_gpu_launch *launch,
                               ord_plugin_error *err);

/* A launch of a kernel with values of its arguments, kept for building graph nodes. */
typedef struct ord_cuda_launch {
  CUkernel kernel;
  uint32_t grid[3], block[3], shared_bytes, flags;
  void **argument; /* each points to its copied value; as many as the kernel has */
} ord_cuda_launch;

/* What one step puts into a graph, in order: its launches, or the graph that a library's calls were captured into. */
typedef struct ord_cuda_step {
  const ord_step *step;
  uint32_t first_launch, launch_count; /* of the recording's */
  CUgraph child;                       /* owned; NULL: own launches alone */
  uint32_t child_node_count;
} ord_cuda_step;

struct ord_cuda_recording {
  ord_cuda_device *device;
  ord_arena arena; /* launches' values, steps */
  ord_cuda_launch *launch;
  uint32_t launch_count, launch_capacity;
  size_t argument_bytes; /* of all launches */
  ord_cuda_step *step;   /* [plan->step_count] */
  uint32_t step_count;   /* recorded so far */
};

/* Frees the graphs and the arena; accepts a zeroed one. */
void ord_cuda_recording_finish(ord_cuda_recording *recording);

/* A plan, the memory that it works on, and room for the operands of one step. */
typedef struct ord_cuda_binding {
  const ord_plan *plan;
  const ord_memory *memory;
  void **operand;
} ord_cuda_binding;

/* Calls the step's kernel, whose work goes to the stream. flags: ORD_WARMUP, ORD_CAPTURING. */
ORD_MUST_CHECK bool ord_cuda_step_launch(ord_cuda_stream *stream, const ord_cuda_binding *binding, const ord_step *step,
                                         uint32_t flags, ord_error *err);
/* Captures the step's work, audits it and appends it to the recording. */
ORD_MUST_CHECK bool ord_cuda_step_record(ord_cuda_queue *queue, const ord_cuda_binding *binding, const ord_step *step,
                                         ord_cuda_recording *recording, ord_error *err);
/* Is the calling thread inside a kernel's launch? It may be capturing then. */
bool ord_cuda_is_launching(void);
/* Puts "LABEL: kernel K of plugin P: <what>: " before the text of an error. Returns false. */
bool ord_cuda_fail_step(const ord_step *step, const char *what, ord_error *err);

/* ---- cuda_audit.c ---- */

/* Is the captured work of a step, `launch_count` kernels of which were launched through the host, what a graph may
 * hold, and what its kernel has declared? *out_node_count: nodes, those inside child graphs instead of these. */
ORD_MUST_CHECK bool ord_cuda_audit(ord_cuda_device *device, const ord_step *step, CUgraph graph, uint32_t launch_count,
                                   uint32_t *out_node_count, ord_error *err);

/* ---- cuda_graph.c ---- */

typedef struct ord_cuda_chain_node {
  CUgraphNode node;
  const ord_step *step; /* NULL: the runtime's own */
  bool is_kernel;
} ord_cuda_chain_node;

/* A graph, or the body of one, that grows node by node, each behind the one before. */
typedef struct ord_cuda_chain {
  ord_cuda_device *device;
  CUgraph graph;             /* borrowed */
  ord_cuda_chain_node *node; /* owned */
  uint32_t count, capacity;
} ord_cuda_chain;

/* Frees the list of nodes; accepts a zeroed one. */
void ord_cuda_chain_finish(ord_cuda_chain *chain);
/* Appends all steps of a recording. Kernels follow one another by programmatic edges where device and kernel allow it.
 */
ORD_MUST_CHECK bool ord_cuda_chain_add(ord_cuda_chain *chain, const ord_cuda_recording *recording, ord_error *err);
/* One more kernel. step: for messages, may be NULL. */
ORD_MUST_CHECK bool ord_cuda_chain_add_launch(ord_cuda_chain *chain, const ord_cuda_launch *launch,
                                              const ord_step *step, ord_error *err);
/* Instantiates `graph`, which is the chain's or holds it, and uploads it; waits for that, not for the queue's work. */
ORD_MUST_CHECK bool ord_cuda_graph_finish(ord_cuda_queue *queue, CUgraph graph, const ord_cuda_chain *chain,
                                          CUgraphExec *out, ord_error *err);
/* Destroys both; accepts NULL. A launch that still runs goes on. */
void ord_cuda_graph_destroy(ord_cuda_device *device, CUgraph graph, CUgraphExec executable);

/* ---- cuda_capture.c: the table's functions of these names ---- */

typedef struct ord_cuda_capture {
  ord_capture base;
  ord_cuda_recording recording; /* lives as long as the capture: loops are built from it */
  CUgraph graph;
  CUgraphExec executable;
} ord_cuda_capture;

ORD_MUST_CHECK bool ord_cuda_capture_create(ord_queue *queue, const ord_plan *plan, const ord_memory *memory,
                                            ord_capture **out, ord_error *err);
ORD_MUST_CHECK bool ord_cuda_replay(ord_queue *queue, const ord_capture *capture, const ord_run_options *options,
                                    ord_error *err);
ORD_MUST_CHECK bool ord_cuda_run_eager(ord_queue *queue, const ord_plan *plan, const ord_memory *memory,
                                       const ord_run_options *options, ord_error *err);
void ord_cuda_capture_destroy(ord_capture *capture);

/* ---- cuda_loop.c: the table's functions of these names ---- */

ORD_MUST_CHECK bool ord_cuda_loop_create(ord_queue *queue, const ord_capture *capture, const ord_loop_places *places,
                                         const ord_loop_options *options, ord_loop **out, ord_error *err);
ORD_MUST_CHECK bool ord_cuda_loop_start(ord_loop *loop, const ord_loop_request *request, ord_error *err);
ORD_MUST_CHECK bool ord_cuda_loop_next(ord_loop *loop, int32_t *out_token, ord_loop_state *out_state, ord_error *err);
ORD_MUST_CHECK bool ord_cuda_loop_stop(ord_loop *loop, ord_error *err);
void ord_cuda_loop_destroy(ord_loop *loop);

/* ---- cuda_clock.c: the table's functions of these names ---- */

ORD_MUST_CHECK bool ord_cuda_clock_create(ord_queue *queue, uint32_t capacity, ord_device_clock **out, ord_error *err);
ORD_MUST_CHECK bool ord_cuda_clock_mark(ord_device_clock *clock, ord_error *err);
ORD_MUST_CHECK bool ord_cuda_clock_read(ord_device_clock *clock, uint64_t *out_ns, ord_error *err);
void ord_cuda_clock_destroy(ord_device_clock *clock);

/* ---- cuda_probe.c: the table's functions of these names ---- */

enum { ORD_CUDA_PROBE_KERNELS = 3 };
typedef struct ord_cuda_probe {
  ord_device_probe base;
  void *memory, *sum; /* of the device: [count] of 16 bytes; [threads] of 4, of what each has read */
  uint64_t count;
  uint32_t threads;
  CUkernel kernel[ORD_CUDA_PROBE_KERNELS]; /* of the patterns */
} ord_cuda_probe;

ORD_MUST_CHECK bool ord_cuda_probe_create(ord_device *device, size_t bytes, ord_device_probe **out, ord_error *err);
const char *ord_cuda_probe_pattern(uint32_t pattern);
ORD_MUST_CHECK bool ord_cuda_probe_read(ord_device_probe *probe, ord_queue *queue, uint32_t pattern, ord_error *err);
void ord_cuda_probe_destroy(ord_device_probe *probe);

#endif
