/* SPDX-License-Identifier: MIT
 *
 * Memory of the device and the queues that fill it. Small writes go through pinned memory of the queue, so that the
 * caller's memory is free again at once and the host waits only when that is used up.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/cuda.h"

#define STAGING_BYTES ((size_t)4 << 20)
enum { CANCEL_BYTES = 128 }; /* a cache line of its own for host and device */

/* ---- memory ---- */

/* Not on the legacy stream, which other streams would wait for. */
static bool zero(ord_cuda_device *device, CUdeviceptr memory, size_t bytes, ord_error *err) {
  return ord_cuda_check(device, device->call.MemsetD8Async(memory, 0, bytes, device->stream), "cuMemsetD8Async",
                        "clearing device memory", err) &&
         ord_cuda_check(device, device->call.StreamSynchronize(device->stream), "cuStreamSynchronize",
                        "clearing device memory", err);
}

bool ord_cuda_allocate(ord_device *base, size_t bytes, bool zeroed, void **out, ord_error *err) {
  ord_cuda_device *device = (ord_cuda_device *)base;
  CUdeviceptr memory = 0;
  *out = NULL;
  if (!ord_cuda_enter(device, err)) return false;
  ord_cuda_pause_captures();
  const CUresult code = device->call.MemAlloc(&memory, bytes ? bytes : 1);
  ord_cuda_resume_captures();
  if (!ord_cuda_check(device, code, "cuMemAlloc", "taking device memory", err)) return false;
  if (zeroed && !zero(device, memory, bytes ? bytes : 1, err)) {
    ord_cuda_release(base, (void *)(uintptr_t)memory);
    return false;
  }
  *out = (void *)(uintptr_t)memory;
  return true;
}

/* A lost device has nothing left to free. */
void ord_cuda_release(ord_device *base, void *memory) {
  ord_cuda_device *device = (ord_cuda_device *)base;
  if (!memory || !ord_cuda_enter(device, NULL)) return;
  ord_cuda_pause_captures();
  (void)device->call.MemFree(ord_cuda_address(memory));
  ord_cuda_resume_captures();
}

bool ord_cuda_allocate_pinned(ord_cuda_device *device, size_t bytes, const char *what, unsigned char **out,
                              ord_error *err) {
  void *memory = NULL;
  ord_cuda_pause_captures();
  const CUresult code = device->call.MemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
  ord_cuda_resume_captures();
  *out = code == CUDA_SUCCESS ? memory : NULL;
  return ord_cuda_check(device, code, "cuMemHostAlloc", what, err);
}

void ord_cuda_release_pinned(ord_cuda_device *device, void *memory) {
  if (!memory || !ord_cuda_enter(device, NULL)) return;
  ord_cuda_pause_captures();
  (void)device->call.MemFreeHost(memory);
  ord_cuda_resume_captures();
}

/* ---- queues ---- */

static bool make_stream(ord_cuda_device *device, ord_cuda_stream *stream, ord_error *err) {
  CUstream handle = NULL;
  stream->device = device;
  if (!ord_cuda_check(device, device->call.StreamCreateWithPriority(&handle, CU_STREAM_NON_BLOCKING, 0),
                      "cuStreamCreateWithPriority", "making a queue", err))
    return false;
  stream->base.handle = handle;
  return true;
}

bool ord_cuda_queue_create(ord_device *base, ord_queue **out, ord_error *err) {
  ord_cuda_device *device = (ord_cuda_device *)base;
  *out = NULL;
  if (!ord_cuda_enter(device, err)) return false;
  ord_cuda_queue *queue = calloc(1, sizeof *queue);
  if (!queue) return ord_fail_memory(err, "making a queue");
  queue->base.device = base;
  if (!ord_cuda_allocate_pinned(device, STAGING_BYTES + CANCEL_BYTES, "making a queue", &queue->staging, err) ||
      !make_stream(device, &queue->run, err) || !make_stream(device, &queue->capture, err)) {
    ord_cuda_queue_destroy(&queue->base);
    return false;
  }
  queue->base.cancel = (_Atomic uint32_t *)(queue->staging + STAGING_BYTES);
  atomic_init(queue->base.cancel, 0);
  *out = &queue->base;
  return true;
}

void ord_cuda_queue_destroy(ord_queue *base) {
  if (!base) return;
  ord_cuda_queue *queue = (ord_cuda_queue *)base;
  ord_cuda_device *device = ord_cuda_of(base);
  if (ord_cuda_enter(device, NULL)) {
    if (queue->run.base.handle) (void)device->call.StreamSynchronize(ord_cuda_handle(&queue->run));
    ord_cuda_pause_captures();
    if (queue->run.base.handle) (void)device->call.StreamDestroy(ord_cuda_handle(&queue->run));
    if (queue->capture.base.handle) (void)device->call.StreamDestroy(ord_cuda_handle(&queue->capture));
    ord_cuda_resume_captures();
  }
  ord_cuda_release_pinned(device, queue->staging);
  free(queue);
}

void ord_cuda_count_wait(ord_cuda_device *device, uint64_t begin_ns) {
  atomic_fetch_add_explicit(&device->base.driver.wait_ns, ord_clock_ns() - begin_ns, memory_order_relaxed);
}

static bool wait_for(ord_cuda_queue *queue, const char *what, ord_error *err) {
  ord_cuda_device *device = ord_cuda_of(&queue->base);
  const uint64_t begin_ns = ord_clock_ns();
  const CUresult code = device->call.StreamSynchronize(ord_cuda_handle(&queue->run));
  ord_cuda_count_wait(device, begin_ns);
  if (!ord_cuda_check(device, code, "cuStreamSynchronize", what, err)) return false;
  queue->staging_used = 0;
  return true;
}

bool ord_cuda_wait(ord_queue *base, ord_error *err) {
  return ord_cuda_enter(ord_cuda_of(base), err) && wait_for((ord_cuda_queue *)base, "running on the device", err);
}

bool ord_cuda_queue_stream(ord_queue *base, ord_gpu_stream **out, ord_error *err) {
  *out = &((ord_cuda_queue *)base)->run.base;
  return ord_cuda_enter(ord_cuda_of(base), err);
}

/* ---- copies ---- */

/* Room of up to `bytes` in the staging memory; *out_bytes is how much there is. */
static bool reserve(ord_cuda_queue *queue, size_t bytes, unsigned char **out, size_t *out_bytes, ord_error *err) {
  if (queue->staging_used == STAGING_BYTES && !wait_for(queue, "copying", err)) return false;
  const size_t room = STAGING_BYTES - queue->staging_used;
  *out = queue->staging + queue->staging_used;
  *out_bytes = bytes < room ? bytes : room;
  queue->staging_used += *out_bytes;
  return true;
}

bool ord_cuda_write(ord_queue *base, void *into, const void *from, size_t bytes, ord_error *err) {
  ord_cuda_queue *queue = (ord_cuda_queue *)base;
  ord_cuda_device *device = ord_cuda_of(base);
  const unsigned char *source = from;
  CUdeviceptr target = ord_cuda_address(into);
  if (!ord_cuda_enter(device, err)) return false;
  while (bytes > 0) {
    unsigned char *staged;
    size_t part;
    if (!reserve(queue, bytes, &staged, &part, err)) return false;
    memcpy(staged, source, part);
    if (!ord_cuda_check(device, device->call.MemcpyHtoDAsync(target, staged, part, ord_cuda_handle(&queue->run)),
                        "cuMemcpyHtoDAsync", "writing to the device", err))
      return false;
    source += part;
    target += part;
    bytes -= part;
  }
  return true;
}

bool ord_cuda_read(ord_queue *base, void *into, const void *from, size_t bytes, ord_error *err) {
  ord_cuda_queue *queue = (ord_cuda_queue *)base;
  ord_cuda_device *device = ord_cuda_of(base);
  unsigned char *target = into;
  CUdeviceptr source = ord_cuda_address(from);
  if (!ord_cuda_enter(device, err)) return false;
  while (bytes > 0) {
    unsigned char *staged;
    size_t part;
    if (!reserve(queue, bytes, &staged, &part, err) ||
        !ord_cuda_check(device, device->call.MemcpyDtoHAsync(staged, source, part, ord_cuda_handle(&queue->run)),
                        "cuMemcpyDtoHAsync", "reading from the device", err) ||
        !wait_for(queue, "reading from the device", err))
      return false;
    memcpy(target, staged, part);
    source += part;
    target += part;
    bytes -= part;
  }
  return true;
}

bool ord_cuda_copy(ord_queue *base, void *into, const void *from, size_t bytes, ord_error *err) {
  ord_cuda_queue *queue = (ord_cuda_queue *)base;
  ord_cuda_device *device = ord_cuda_of(base);
  if (!ord_cuda_enter(device, err)) return false;
  if (bytes == 0 || into == from) return true;
  return ord_cuda_check(
      device,
      device->call.MemcpyDtoDAsync(ord_cuda_address(into), ord_cuda_address(from), bytes, ord_cuda_handle(&queue->run)),
      "cuMemcpyDtoDAsync", "copying on the device", err);
}
