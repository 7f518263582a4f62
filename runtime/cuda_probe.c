/* SPDX-License-Identifier: MIT
 *
 * The read probe of the device: memory of its own, and kernels that read it once (cuda_probe.cu).
 */
#include <stdlib.h>

#include "runtime/cuda.h"

/* Blocks that fit on a multiprocessor whatever the kernel, so that all of them run at once. */
enum { BLOCKS_PER_CORE = 4, BLOCK_THREADS = 256, LOAD_BYTES = 16 };

/* How many loads must be under way to hide the latency of the memory depends on the device. */
static const struct {
  const char *name, *symbol;
} patterns[] = {{"4 loads of 16 bytes in flight", "probe_read_4"},
                {"8 loads of 16 bytes in flight", "probe_read_8"},
                {"2 loads of 16 bytes in flight", "probe_read_2"}};
enum { PATTERN_COUNT = sizeof patterns / sizeof *patterns };
_Static_assert((int)PATTERN_COUNT <= (int)ORD_CUDA_PROBE_KERNELS, "each pattern has a kernel");

const char *ord_cuda_probe_pattern(uint32_t pattern) { return pattern < PATTERN_COUNT ? patterns[pattern].name : NULL; }

static bool launch(ord_cuda_probe *probe, ord_queue *queue, CUkernel kernel, uint32_t argument_count, ord_error *err) {
  const void *const argument[] = {&probe->memory, &probe->count, &probe->sum};
  static const uint32_t bytes[] = {sizeof probe->memory, sizeof probe->count, sizeof probe->sum};
  const ord_gpu_launch asked = {.kernel = kernel,
                                .grid = {probe->threads / BLOCK_THREADS, 1, 1},
                                .block = {BLOCK_THREADS, 1, 1},
                                .argument_count = argument_count,
                                .argument = argument,
                                .argument_bytes = bytes};
  ord_plugin_error failure = {.struct_size = sizeof failure};
  const ord_status status = ord_cuda_gpu_launch(NULL, &((ord_cuda_queue *)queue)->run.base, &asked, &failure);
  return status == ORD_OK || ord_fail(err, status, "reading memory to measure it: %s", failure.text);
}

static bool find_kernels(ord_cuda_probe *probe, CUkernel *out_fill, ord_error *err) {
  ord_cuda_device *device = (ord_cuda_device *)probe->base.device;
  for (int i = 0; i < PATTERN_COUNT; i++)
    if (!ord_cuda_runtime_kernel(device, "cuda_probe", patterns[i].symbol, &probe->kernel[i], err)) return false;
  return ord_cuda_runtime_kernel(device, "cuda_probe", "probe_fill", out_fill, err);
}

/* On a queue of its own, as those of sessions may be at work. */
static bool fill(ord_cuda_probe *probe, CUkernel kernel, ord_error *err) {
  ord_queue *queue = NULL;
  const bool done = ord_cuda_queue_create(probe->base.device, &queue, err) && launch(probe, queue, kernel, 2, err) &&
                    ord_cuda_wait(queue, err);
  ord_cuda_queue_destroy(queue);
  return done;
}

bool ord_cuda_probe_create(ord_device *device, size_t bytes, ord_device_probe **out, ord_error *err) {
  CUkernel kernel = NULL;
  *out = NULL;
  ord_cuda_probe *probe = calloc(1, sizeof *probe);
  if (!probe) return ord_fail_memory(err, "making a read probe");
  probe->base.device = device;
  probe->count = bytes / LOAD_BYTES;
  probe->threads = device->info.cores * BLOCKS_PER_CORE * BLOCK_THREADS;
  if (!ord_cuda_allocate(device, bytes, false, &probe->memory, err) ||
      !ord_cuda_allocate(device, probe->threads * sizeof(uint32_t), true, &probe->sum, err) ||
      !find_kernels(probe, &kernel, err) || !fill(probe, kernel, err)) {
    ord_cuda_probe_destroy(&probe->base);
    return false;
  }
  *out = &probe->base;
  return true;
}

bool ord_cuda_probe_read(ord_device_probe *base, ord_queue *queue, uint32_t pattern, ord_error *err) {
  ord_cuda_probe *probe = (ord_cuda_probe *)base;
  return ord_cuda_enter((ord_cuda_device *)base->device, err) && launch(probe, queue, probe->kernel[pattern], 3, err);
}

void ord_cuda_probe_destroy(ord_device_probe *base) {
  ord_cuda_probe *probe = (ord_cuda_probe *)base;
  if (!probe) return;
  ord_cuda_release(base->device, probe->memory);
  ord_cuda_release(base->device, probe->sum);
  free(probe);
}
