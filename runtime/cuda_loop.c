/* SPDX-License-Identifier: MIT
 *
 * Generation on the device: the steps of a captured plan for one token, then a kernel that makes the token the input of
 * the next run and shows it to the host in mapped memory (cuda_loop.cu). Either a WHILE node runs them until the loop
 * ends, in one launch; or the host launches them once a token, some ahead. All that a request changes is data, so that
 * a graph serves every request.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/cuda.h"
#include "runtime/cuda_loop.h"
#include "runtime/pause.h"

_Static_assert((int)LOOP_STOP_MAX == (int)ORD_LOOP_STOP_MAX && (int)SLOT_GOES_ON == (int)ORD_LOOP_GOES_ON &&
                   (int)SLOT_STOPPED == (int)ORD_LOOP_STOPPED && (int)SLOT_LIMIT == (int)ORD_LOOP_LIMIT &&
                   (int)SLOT_CANCELLED == (int)ORD_LOOP_CANCELLED,
               "the device says what the host reads");

/* Runs that are launched before their tokens are taken, where each is a launch of its own. */
enum { AHEAD = 8 };

/* Where the words lie in mapped memory, each on cache lines of its own for host and device. */
enum { DONE_AT = 0, RING_AT = 128 };

/* In the queue's cancel word, beside the caller's bit: the loop that runs is to end. */
enum { CANCEL_LOOP = 2 * ORD_CANCEL };

/* How often a word is looked at before the driver is: that costs more, and tells of a fault. */
enum { LOOKS = 256 };

typedef struct cuda_loop {
  ord_loop base;
  ord_loop_options options;
  loop_places places;
  unsigned char *mapped; /* pinned; for the device at the same address */
  CUgraph graph;
  CUgraphExec executable;
  uint32_t limit, taken; /* tokens of the request */
  uint32_t launched;     /* graphs, for it */
  bool is_running;
} cuda_loop;

static ord_cuda_queue *queue_of(const cuda_loop *loop) { return (ord_cuda_queue *)loop->base.queue; }
static ord_cuda_device *device_of(const cuda_loop *loop) { return ord_cuda_of(loop->base.queue); }

static _Atomic uint32_t *word(const cuda_loop *loop, size_t at) { return (_Atomic uint32_t *)(loop->mapped + at); }
static _Atomic uint64_t *ring(const cuda_loop *loop) { return (_Atomic uint64_t *)(loop->mapped + RING_AT); }

/* ---- making ------------------------------------------------------------------------------------------------------ */

/* What fills a WHILE node came to drivers bit by bit; from this release on all of it is there. */
static bool check_options(const ord_cuda_device *device, const ord_loop_options *options, ord_error *err) {
  enum { WANTED = 13000 };
  if (options->is_one_launch && device->driver_version < WANTED)
    return ord_fail(err, ORD_UNSUPPORTED,
                    "generation in one launch: found a CUDA driver for version %d.%d; wanted 13.0 (release 580)",
                    device->driver_version / 1000, device->driver_version % 1000 / 10);
  if (options->capacity == 0)
    return ord_fail(err, ORD_INVALID, "generation on the device: found room for 0 tokens; wanted at least 1");
  return true;
}

static bool make_memory(cuda_loop *loop, const ord_loop_places *places, ord_error *err) {
  ord_cuda_device *device = device_of(loop);
  void *request = NULL;
  if (!ord_cuda_allocate(&device->base, sizeof(loop_request), true, &request, err)) return false;
  loop->places = (loop_places){.sampled = places->sampled,
                               .token = places->token,
                               .past = places->past,
                               .position = places->position,
                               .counter = places->counter,
                               .request = request};
  if (!ord_cuda_allocate_pinned(device, RING_AT + loop->options.capacity * sizeof(uint64_t), "making room for tokens",
                                &loop->mapped, err))
    return false;
  loop->places.done = (uint32_t *)(loop->mapped + DONE_AT);
  loop->places.cancel = loop->options.is_deaf ? NULL : (const uint32_t *)loop->base.queue->cancel;
  loop->places.ring = (uint64_t *)(loop->mapped + RING_AT);
  return true;
}

static bool add_kernel(ord_cuda_chain *chain, const char *symbol, uint32_t threads, void **argument, ord_error *err) {
  ord_cuda_launch launch = {
      .grid = {1, 1, 1}, .block = {threads, 1, 1}, .flags = ORD_LAUNCH_DEPENDENT, .argument = argument};
  return ord_cuda_runtime_kernel(chain->device, "cuda_loop", symbol, &launch.kernel, err) &&
         ord_cuda_chain_add_launch(chain, &launch, NULL, err);
}

/* The node owns its body. Its value is 1 at every launch, so that the body runs at least once. */
static bool add_while(const cuda_loop *loop, CUgraphConditionalHandle *out_handle, CUgraph *out_body, ord_error *err) {
  ord_cuda_device *device = device_of(loop);
  CUgraphNode node;
  if (!ord_cuda_check(device,
                      device->call.GraphConditionalHandleCreate(out_handle, loop->graph, device->context, 1,
                                                                CU_GRAPH_COND_ASSIGN_DEFAULT),
                      "cuGraphConditionalHandleCreate", "building the loop", err))
    return false;
  CUgraphNodeParams asked = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
  asked.conditional.handle = *out_handle;
  asked.conditional.type = CU_GRAPH_COND_TYPE_WHILE;
  asked.conditional.size = 1;
  asked.conditional.ctx = device->context;
  if (!ord_cuda_check(device, device->call.GraphAddNode(&node, loop->graph, NULL, NULL, 0, &asked), "cuGraphAddNode",
                      "building the loop", err))
    return false;
  *out_body = asked.conditional.phGraph_out[0];
  return true;
}

static bool make_graph(cuda_loop *loop, const ord_cuda_recording *recording, ord_error *err) {
  ord_cuda_device *device = device_of(loop);
  if (!ord_cuda_check(device, device->call.GraphCreate(&loop->graph, 0), "cuGraphCreate", "building the loop", err))
    return false;
  ord_cuda_chain chain = {.device = device, .graph = loop->graph};
  CUgraphConditionalHandle handle = 0;
  void *advance[] = {&loop->places}, *control[] = {&handle, &loop->places.request};
  bool done = !loop->options.is_one_launch || add_while(loop, &handle, &chain.graph, err);
  done = done && ord_cuda_chain_add(&chain, recording, err) && add_kernel(&chain, "advance", 32, advance, err) &&
         (!loop->options.is_one_launch || add_kernel(&chain, "loop_control", 1, control, err)) &&
         ord_cuda_graph_finish(queue_of(loop), loop->graph, &chain, &loop->executable, err);
  ord_cuda_chain_finish(&chain);
  return done;
}

bool ord_cuda_loop_create(ord_queue *queue, const ord_capture *capture, const ord_loop_places *places,
                          const ord_loop_options *options, ord_loop **out, ord_error *err) {
  ord_cuda_device *device = ord_cuda_of(queue);
  *out = NULL;
  if (!check_options(device, options, err) || !ord_cuda_enter(device, err)) return false;
  cuda_loop *loop = calloc(1, sizeof *loop);
  if (!loop) return ord_fail_memory(err, "making a loop");
  loop->base.queue = queue;
  loop->options = *options;
  if (!make_memory(loop, places, err) || !make_graph(loop, &((const ord_cuda_capture *)capture)->recording, err)) {
    ord_cuda_loop_destroy(&loop->base);
    return false;
  }
  *out = &loop->base;
  return true;
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

static bool has_token(const cuda_loop *loop) {
  const uint64_t slot = atomic_load_explicit(&ring(loop)[loop->taken], memory_order_acquire);
  return (uint32_t)slot >> 2 == loop->taken + 1;
}
static bool has_ended(const cuda_loop *loop) {
  return atomic_load_explicit(word(loop, DONE_AT), memory_order_acquire) != 0;
}

/* Finds faults, and makes a driver go on that works when it is asked. That nothing is left to do is believed only where
 * no WHILE node may be running. */
static bool ask_driver(const cuda_loop *loop, bool (*is_there)(const cuda_loop *loop), ord_error *err) {
  ord_cuda_device *device = device_of(loop);
  if (!ord_cuda_enter_to_poll(device, err)) return false;
  const CUresult code = device->call.StreamQuery(ord_cuda_handle(&queue_of(loop)->run));
  atomic_fetch_add_explicit(&device->base.driver.polls, 1, memory_order_relaxed);
  if (code == CUDA_ERROR_NOT_READY) return true;
  if (code != CUDA_SUCCESS) return ord_cuda_check(device, code, "cuStreamQuery", "generating", err);
  return (loop->options.is_one_launch && !has_ended(loop)) || is_there(loop) ||
         ord_fail(err, ORD_INTERNAL, "generating: the device came to its end after %u tokens without a word",
                  loop->taken);
}

static bool is_cancelled(const cuda_loop *loop) {
  return atomic_load_explicit(loop->base.queue->cancel, memory_order_relaxed) & ORD_CANCEL;
}

/* What the caller wants counts where `is_cancellable`, and then more than what is there already. */
static bool look_until(const cuda_loop *loop, bool (*is_there)(const cuda_loop *loop), bool is_cancellable,
                       ord_error *err) {
  for (uint32_t looks = 0;; looks++) {
    if (looks % LOOKS == 0 && is_cancellable && is_cancelled(loop))
      return ord_fail(err, ORD_CANCELLED, "the generation was cancelled");
    if (is_there(loop)) return true;
    ord_pause_core();
    if (looks % LOOKS != LOOKS - 1) continue;
    if (!ask_driver(loop, is_there, err)) return false;
    sched_yield();
  }
}

static bool wait_until(const cuda_loop *loop, bool (*is_there)(const cuda_loop *loop), bool is_cancellable,
                       ord_error *err) {
  const bool is_ended = is_cancellable && is_cancelled(loop);
  if (!is_ended && is_there(loop)) return true; /* no clock where nothing is waited for */
  const uint64_t begin_ns = ord_clock_ns();
  const bool done = look_until(loop, is_there, is_cancellable, err);
  ord_cuda_count_wait(device_of(loop), begin_ns);
  return done;
}

/* Runs that were launched for nothing are waited for too. */
static bool finish(cuda_loop *loop, ord_error *err) {
  loop->is_running = false;
  return (!loop->options.is_one_launch || wait_until(loop, has_ended, false, err)) &&
         ord_cuda_wait(loop->base.queue, err);
}

static bool stop(cuda_loop *loop, ord_error *err) {
  if (!loop->is_running) return true;
  atomic_fetch_or_explicit(loop->base.queue->cancel, CANCEL_LOOP, memory_order_release);
  const bool done = finish(loop, err);
  atomic_fetch_and_explicit(loop->base.queue->cancel, ~(uint32_t)CANCEL_LOOP, memory_order_relaxed);
  return done;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static bool launch(cuda_loop *loop, ord_error *err) {
  ord_cuda_device *device = device_of(loop);
  const CUresult code = device->call.GraphLaunch(loop->executable, ord_cuda_handle(&queue_of(loop)->run));
  loop->launched += code == CUDA_SUCCESS;
  return ord_cuda_check(device, code, "cuGraphLaunch", "generating", err);
}

/* Never more runs than tokens that may be made: one more would write behind the room in the caches. What runs behind
 * the end of the loop makes a token that nobody gets. */
static bool launch_ahead(cuda_loop *loop, ord_error *err) {
  if (!ord_cuda_enter(device_of(loop), err)) return false;
  while (loop->launched < loop->limit && loop->launched - loop->taken < AHEAD)
    if (!launch(loop, err)) return false;
  return true;
}

static bool check_request(const cuda_loop *loop, const ord_loop_request *request, ord_error *err) {
  if (loop->is_running) return ord_fail(err, ORD_INVALID, "found a loop that runs; wanted one that has ended");
  if (request->limit == 0 || request->limit > loop->options.capacity)
    return ord_fail(err, ORD_INVALID, "the limit of a loop: found %u tokens; wanted 1 to %u", request->limit,
                    loop->options.capacity);
  if (request->stop_count > ORD_LOOP_STOP_MAX)
    return ord_fail(err, ORD_INVALID, "found %u stop tokens; wanted at most %d", request->stop_count,
                    ORD_LOOP_STOP_MAX);
  return true;
}

/* The device does not look at any of this before the loop is launched. */
static bool write_request(cuda_loop *loop, const ord_loop_request *request, ord_error *err) {
  const loop_places *at = &loop->places;
  ord_queue *queue = loop->base.queue;
  loop_request own = {.goes_on = 1, .limit = request->limit, .stop_count = request->stop_count};
  memcpy(own.stop, request->stop, sizeof own.stop);
  memset(loop->mapped, 0, RING_AT + request->limit * sizeof(uint64_t));
  return ord_cuda_write(queue, at->token, &request->token, sizeof *at->token, err) &&
         ord_cuda_write(queue, at->past, &request->past, sizeof *at->past, err) &&
         (!at->position || ord_cuda_write(queue, at->position, &request->past, sizeof *at->position, err)) &&
         ord_cuda_write(queue, at->counter, &request->counter, sizeof *at->counter, err) &&
         ord_cuda_write(queue, at->request, &own, sizeof own, err);
}

bool ord_cuda_loop_start(ord_loop *base, const ord_loop_request *request, ord_error *err) {
  cuda_loop *loop = (cuda_loop *)base;
  if (!check_request(loop, request, err) || !write_request(loop, request, err)) return false;
  loop->limit = request->limit;
  loop->launched = loop->taken = 0;
  const bool done = loop->options.is_one_launch ? launch(loop, err) : launch_ahead(loop, err);
  loop->is_running = loop->launched > 0;
  if (!done) stop(loop, NULL);
  return done;
}

bool ord_cuda_loop_next(ord_loop *base, int32_t *out_token, ord_loop_state *out_state, ord_error *err) {
  cuda_loop *loop = (cuda_loop *)base;
  if (!loop->is_running) return ord_fail(err, ORD_INVALID, "found a loop that has ended; wanted one that runs");
  if (!wait_until(loop, has_token, true, err)) {
    stop(loop, NULL);
    return false;
  }
  const uint64_t slot = atomic_load_explicit(&ring(loop)[loop->taken++], memory_order_relaxed);
  *out_token = (int32_t)(uint32_t)(slot >> 32);
  *out_state = (ord_loop_state)(slot & 3);
  return *out_state == ORD_LOOP_GOES_ON ? loop->options.is_one_launch || launch_ahead(loop, err) : finish(loop, err);
}

bool ord_cuda_loop_stop(ord_loop *base, ord_error *err) { return stop((cuda_loop *)base, err); }

void ord_cuda_loop_destroy(ord_loop *base) {
  cuda_loop *loop = (cuda_loop *)base;
  if (!loop) return;
  ord_cuda_device *device = device_of(loop);
  stop(loop, NULL);
  ord_cuda_graph_destroy(device, loop->graph, loop->executable);
  ord_cuda_release(&device->base, loop->places.request);
  ord_cuda_release_pinned(device, loop->mapped);
  free(loop);
}
