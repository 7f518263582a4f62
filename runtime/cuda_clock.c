/* SPDX-License-Identifier: MIT
 *
 * The device's own clock: events of the driver in the order of a queue.
 */
#include <stdlib.h>

#include "runtime/cuda.h"

static const char *const TIMING = "timing the device";

typedef struct cuda_clock {
  ord_device_clock base;
  CUevent *event; /* [made] */
  uint32_t capacity, made, marked;
} cuda_clock;

static ord_cuda_device *device_of(const cuda_clock *clock) { return ord_cuda_of(clock->base.queue); }

bool ord_cuda_clock_create(ord_queue *queue, uint32_t capacity, ord_device_clock **out, ord_error *err) {
  ord_cuda_device *device = ord_cuda_of(queue);
  *out = NULL;
  if (!ord_cuda_enter(device, err)) return false;
  cuda_clock *clock = calloc(1, sizeof *clock);
  if (!clock) return ord_fail_memory(err, TIMING);
  clock->base.queue = queue;
  clock->capacity = capacity;
  clock->event = calloc((size_t)capacity + 1, sizeof *clock->event);
  bool done = clock->event || ord_fail_memory(err, TIMING);
  while (done && clock->made < capacity) {
    done = ord_cuda_check(device, device->call.EventCreate(&clock->event[clock->made], CU_EVENT_DEFAULT),
                          "cuEventCreate", TIMING, err);
    clock->made += done;
  }
  if (!done) {
    ord_cuda_clock_destroy(&clock->base);
    return false;
  }
  *out = &clock->base;
  return true;
}

bool ord_cuda_clock_mark(ord_device_clock *base, ord_error *err) {
  cuda_clock *clock = (cuda_clock *)base;
  ord_cuda_device *device = device_of(clock);
  if (clock->marked == clock->capacity)
    return ord_fail(err, ORD_INTERNAL, "timing the device: found room for %u marks; wanted more", clock->capacity);
  if (!ord_cuda_enter(device, err)) return false;
  const CUevent event = clock->event[clock->marked++];
  return ord_cuda_check(device, device->call.EventRecord(event, ord_cuda_handle(&((ord_cuda_queue *)base->queue)->run)),
                        "cuEventRecord", TIMING, err);
}

bool ord_cuda_clock_read(ord_device_clock *base, uint64_t *out_ns, ord_error *err) {
  cuda_clock *clock = (cuda_clock *)base;
  ord_cuda_device *device = device_of(clock);
  const uint32_t marked = clock->marked;
  clock->marked = 0;
  if (!ord_cuda_wait(base->queue, err)) return false;
  for (uint32_t i = 0; i + 1 < marked; i++) {
    float milliseconds = 0;
    if (!ord_cuda_check(device, device->call.EventElapsedTime(&milliseconds, clock->event[i], clock->event[i + 1]),
                        "cuEventElapsedTime", TIMING, err))
      return false;
    out_ns[i] = (uint64_t)((double)milliseconds * 1e6);
  }
  return true;
}

void ord_cuda_clock_destroy(ord_device_clock *base) {
  cuda_clock *clock = (cuda_clock *)base;
  if (!clock) return;
  if (ord_cuda_enter(device_of(clock), NULL))
    for (uint32_t i = 0; i < clock->made; i++) (void)device_of(clock)->call.EventDestroy(clock->event[i]);
  free(clock->event);
  free(clock);
}
