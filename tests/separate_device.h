/* SPDX-License-Identifier: MIT
 *
 * A device for tests of the session: it computes as the CPU does, but its memory is closed to everybody else, so that
 * the host that touches it is ended by a signal. It makes tokens without the host, a few further than they are taken.
 * Allocations, captures and loops can be made to fail. One session at a time.
 */
#ifndef ORDITO_TESTS_SEPARATE_DEVICE_H
#define ORDITO_TESTS_SEPARATE_DEVICE_H

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "must.h"
#include "runtime/capture.h"
#include "session/parts.h"

#define SEPARATE_BYTES ((size_t)8 << 30) /* of addresses; each is used once */
enum { SEPARATE_PAGE = 4096, SEPARATE_AHEAD = 3 };

typedef struct separate_device {
  ord_device base;
  ord_device *cpu;
  unsigned char *memory;
  size_t used;
  int live;                         /* pieces of memory, queues, captures and loops that are not destroyed */
  int allocations, fail_allocation; /* made; number of the one that fails, or -1 */
  int captures, fail_captures;      /* captured; how many of the next fail */
  int replays, loop_starts, loop_stops;
  bool has_no_while; /* a loop in one launch is not supported */
} separate_device;

typedef struct separate_queue {
  ord_queue base;
  ord_queue *cpu;
} separate_queue;

typedef struct separate_capture {
  ord_capture base;
  ord_capture *cpu;
  separate_device *device;
} separate_capture;

typedef struct separate_loop {
  ord_loop base;
  const ord_capture *capture;
  ord_loop_places places;
  ord_loop_options options;
  ord_loop_request request;
  int32_t made[SEPARATE_AHEAD + 1]; /* but not taken yet */
  uint32_t made_count, all_count;
  bool is_running;
} separate_loop;

static inline separate_device *separate_of(const ord_queue *queue) { return (separate_device *)queue->device; }

static inline void separate_open(separate_device *device, bool is_open) {
  if (device->used > 0 && mprotect(device->memory, device->used, is_open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
    fail_msg("the device's memory cannot be %s", is_open ? "opened" : "closed");
}

static inline bool separate_queue_create(ord_device *base, ord_queue **out, ord_error *err) {
  separate_device *device = (separate_device *)base;
  separate_queue *queue = calloc(1, sizeof *queue);
  *out = &queue->base;
  queue->base.device = base;
  device->live++;
  if (!device->cpu->table->queue_create(device->cpu, &queue->cpu, err)) return false;
  queue->base.cancel = queue->cpu->cancel;
  return true;
}

static inline void separate_queue_destroy(ord_queue *base) {
  separate_queue *queue = (separate_queue *)base;
  if (!queue) return;
  separate_of(base)->live--;
  separate_of(base)->cpu->table->queue_destroy(queue->cpu);
  free(queue);
}

static inline bool separate_wait(ord_queue *queue, ord_error *err) {
  (void)queue;
  (void)err;
  return true;
}

/* Not zeroed memory is full of NaNs. */
static inline bool separate_allocate(ord_device *base, size_t bytes, bool zeroed, void **out, ord_error *err) {
  separate_device *device = (separate_device *)base;
  const size_t whole = (bytes + SEPARATE_PAGE - 1) / SEPARATE_PAGE * SEPARATE_PAGE + SEPARATE_PAGE;
  *out = NULL;
  if (device->allocations++ == device->fail_allocation || SEPARATE_BYTES - device->used < whole)
    return ord_fail(err, ORD_NO_MEMORY, "out of memory on the device; wanted %zu bytes", bytes);
  *out = device->memory + device->used;
  device->used += whole;
  device->live++;
  separate_open(device, true);
  if (!zeroed) memset(*out, 0xff, bytes);
  separate_open(device, false);
  return true;
}

static inline void separate_release(ord_device *base, void *memory) {
  if (memory) ((separate_device *)base)->live--;
}

/* Write, read and copy alike. */
static inline bool separate_copy(ord_queue *queue, void *into, const void *from, size_t bytes, ord_error *err) {
  (void)err;
  separate_open(separate_of(queue), true);
  if (bytes > 0) memcpy(into, from, bytes);
  separate_open(separate_of(queue), false);
  return true;
}

static inline const ord_host *separate_host(ord_device *base, const ord_registry *registry,
                                            const ord_plugin_entry *plugin, ord_error *err) {
  separate_device *device = (separate_device *)base;
  return device->cpu->table->host(device->cpu, registry, plugin, err);
}

static inline bool separate_capture_create(ord_queue *queue, const ord_plan *plan, const ord_memory *memory,
                                           ord_capture **out, ord_error *err) {
  separate_device *device = separate_of(queue);
  *out = NULL;
  if (device->fail_captures > 0) {
    device->fail_captures--;
    return ord_fail(err, ORD_INVALID, "layer.0.attention: capture failed in plugin tests");
  }
  separate_capture *capture = calloc(1, sizeof *capture);
  if (!ord_capture_create(((separate_queue *)queue)->cpu, plan, memory, &capture->cpu, err)) {
    free(capture);
    return false;
  }
  capture->base = *capture->cpu;
  capture->base.report.node_count = plan->step_count + 2;
  capture->device = device;
  device->captures++;
  device->live++;
  *out = &capture->base;
  return true;
}

static inline void separate_capture_destroy(ord_capture *base) {
  separate_capture *capture = (separate_capture *)base;
  if (!capture) return;
  capture->device->live--;
  ord_capture_destroy(capture->cpu);
  free(capture);
}

static inline bool separate_replay(ord_queue *queue, const ord_capture *capture, const ord_run_options *options,
                                   ord_error *err) {
  separate_device *device = separate_of(queue);
  device->replays++;
  separate_open(device, true);
  const bool done =
      ord_capture_replay(((separate_queue *)queue)->cpu, ((const separate_capture *)capture)->cpu, options, err);
  separate_open(device, false);
  return done;
}

static inline bool separate_run_eager(ord_queue *queue, const ord_plan *plan, const ord_memory *memory,
                                      const ord_run_options *options, ord_error *err) {
  separate_open(separate_of(queue), true);
  const bool done = ord_plan_run_eager(((separate_queue *)queue)->cpu, plan, memory, options, err);
  separate_open(separate_of(queue), false);
  return done;
}

/* ---- loops ---- */

static inline bool separate_loop_create(ord_queue *queue, const ord_capture *capture, const ord_loop_places *places,
                                        const ord_loop_options *options, ord_loop **out, ord_error *err) {
  separate_device *device = separate_of(queue);
  *out = NULL;
  if (device->has_no_while && options->is_one_launch)
    return ord_fail(err, ORD_UNSUPPORTED, "found an old driver; wanted another");
  separate_loop *loop = calloc(1, sizeof *loop);
  *loop = (separate_loop){.base = {queue}, .capture = capture, .places = *places, .options = *options};
  device->live++;
  *out = &loop->base;
  return true;
}

static inline bool separate_is_stop(const separate_loop *loop, int32_t token) {
  for (uint32_t i = 0; i < loop->request.stop_count; i++)
    if (loop->request.stop[i] == token) return true;
  return false;
}

static inline bool separate_has_ended(const separate_loop *loop) {
  return loop->all_count == loop->request.limit ||
         (loop->made_count > 0 && separate_is_stop(loop, loop->made[loop->made_count - 1]));
}

static inline bool separate_make_tokens(separate_loop *loop, ord_error *err) {
  separate_device *device = separate_of(loop->base.queue);
  ord_queue *cpu = ((separate_queue *)loop->base.queue)->cpu;
  const ord_loop_places *at = &loop->places;
  bool done = true;
  separate_open(device, true);
  while (done && loop->made_count <= SEPARATE_AHEAD && !separate_has_ended(loop)) {
    done = ord_capture_replay(cpu, ((const separate_capture *)loop->capture)->cpu, NULL, err);
    loop->made[loop->made_count++] = *at->sampled;
    loop->all_count++;
    *at->token = *at->sampled;
    ++*at->past;
    if (at->position) ++*at->position;
    ++*at->counter;
  }
  separate_open(device, false);
  return done;
}

static inline bool separate_loop_start(ord_loop *base, const ord_loop_request *request, ord_error *err) {
  separate_loop *loop = (separate_loop *)base;
  separate_device *device = separate_of(base->queue);
  if (loop->is_running || request->limit == 0 || request->limit > loop->options.capacity)
    fail_msg("a loop is started wrongly: limit %u", request->limit);
  device->loop_starts++;
  loop->request = *request;
  loop->made_count = loop->all_count = 0;
  loop->is_running = true;
  separate_open(device, true);
  *loop->places.token = request->token;
  *loop->places.past = request->past;
  if (loop->places.position) *loop->places.position = request->past;
  *loop->places.counter = request->counter;
  separate_open(device, false);
  return separate_make_tokens(loop, err);
}

static inline bool separate_loop_next(ord_loop *base, int32_t *out_token, ord_loop_state *out_state, ord_error *err) {
  separate_loop *loop = (separate_loop *)base;
  if (!loop->is_running) fail_msg("a loop that has ended is asked for a token");
  if (atomic_load(base->queue->cancel)) {
    loop->is_running = false;
    return ord_fail(err, ORD_CANCELLED, "the generation was cancelled");
  }
  *out_token = loop->made[0];
  memmove(loop->made, loop->made + 1, --loop->made_count * sizeof *loop->made);
  *out_state = ORD_LOOP_GOES_ON;
  if (loop->made_count == 0 && loop->all_count == loop->request.limit) *out_state = ORD_LOOP_LIMIT;
  if (separate_is_stop(loop, *out_token)) *out_state = ORD_LOOP_STOPPED;
  loop->is_running = *out_state == ORD_LOOP_GOES_ON;
  return !loop->is_running || separate_make_tokens(loop, err);
}

static inline bool separate_loop_stop(ord_loop *base, ord_error *err) {
  (void)err;
  separate_loop *loop = (separate_loop *)base;
  separate_of(base->queue)->loop_stops += loop->is_running;
  loop->is_running = false;
  return true;
}

static inline void separate_loop_destroy(ord_loop *base) {
  if (!base) return;
  separate_of(base->queue)->live--;
  free(base);
}

static inline void separate_destroy(ord_device *base) {
  separate_device *device = (separate_device *)base;
  device->cpu->table->destroy(device->cpu);
  munmap(device->memory, SEPARATE_BYTES);
  assert_int_equal(device->live, 0);
  free(device);
}

static inline bool separate_make_current(ord_device *base, ord_error *err) {
  (void)base;
  (void)err;
  return true;
}

static inline void separate_keep_captures(void) {}

static const ord_device_table separate_table = {.queue_create = separate_queue_create,
                                                .queue_destroy = separate_queue_destroy,
                                                .wait = separate_wait,
                                                .allocate = separate_allocate,
                                                .release = separate_release,
                                                .write = separate_copy,
                                                .read = separate_copy,
                                                .copy = separate_copy,
                                                .host = separate_host,
                                                .make_current = separate_make_current,
                                                .pause_captures = separate_keep_captures,
                                                .resume_captures = separate_keep_captures,
                                                .capture = separate_capture_create,
                                                .replay = separate_replay,
                                                .run_eager = separate_run_eager,
                                                .capture_destroy = separate_capture_destroy,
                                                .loop_create = separate_loop_create,
                                                .loop_start = separate_loop_start,
                                                .loop_next = separate_loop_next,
                                                .loop_stop = separate_loop_stop,
                                                .loop_destroy = separate_loop_destroy,
                                                .destroy = separate_destroy};

/* Puts one between a context and its CPU. */
static inline separate_device *separate_context(ord_context *context) {
  separate_device *device = calloc(1, sizeof *device);
  *device = (separate_device){.cpu = context->device, .fail_allocation = -1};
  device->base = (ord_device){.table = &separate_table, .info = context->device->info, .pool = context->device->pool};
  device->base.info.name = "separate";
  device->memory = mmap(NULL, SEPARATE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  assert_true(device->memory != MAP_FAILED);
  context->device = &device->base;
  return device;
}

#endif
