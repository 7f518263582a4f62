/* SPDX-License-Identifier: MIT
 *
 * The CPU as a device: its memory, what it can do, and its pool of threads. Capture and replay are in capture.c. Its
 * memory is the caller's, and its work is done before a call returns.
 */
#include "runtime/capture.h"

#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "runtime/pages.h"
#include "runtime/text.h"

typedef struct cpu_queue {
  ord_queue base;
  _Atomic uint32_t cancel;
} cpu_queue;

static bool queue_create(ord_device *device, ord_queue **out, ord_error *err) {
  cpu_queue *queue = calloc(1, sizeof *queue);
  *out = NULL;
  if (!queue) return ord_fail_memory(err, "making a queue");
  queue->base = (ord_queue){.device = device, .cancel = &queue->cancel};
  *out = &queue->base;
  return true;
}

static void queue_destroy(ord_queue *queue) { free(queue); }

/* All work is done when the call that asked for it returns. */
static bool wait(ord_queue *queue, ord_error *err) {
  (void)queue;
  (void)err;
  return true;
}

/* Zeroed, asked for or not: that costs nothing here. Small pages: most of a long context is never used. */
static bool allocate(ord_device *device, size_t bytes, bool zeroed, void **out, ord_error *err) {
  (void)device;
  (void)zeroed;
  *out = ord_pages_take(bytes, false);
  return *out || ord_fail(err, ORD_NO_MEMORY, "out of memory; wanted %zu bytes", bytes);
}

static void release(ord_device *device, void *memory) {
  (void)device;
  ord_pages_release(memory);
}

/* Write, read and copy alike. */
static bool copy(ord_queue *queue, void *into, const void *from, size_t bytes, ord_error *err) {
  (void)queue;
  (void)err;
  if (bytes > 0 && into != from) memcpy(into, from, bytes);
  return true;
}

static const ord_host *host(ord_device *device, const ord_registry *registry, const ord_plugin_entry *plugin,
                            ord_error *err) {
  (void)device;
  (void)plugin;
  (void)err;
  return ord_registry_host(registry);
}

static bool make_current(ord_device *device, ord_error *err) {
  (void)device;
  (void)err;
  return true;
}

/* Each capture is made by one thread alone. */
static void keep_captures(void) {}

static bool stream(ord_queue *queue, ord_gpu_stream **out, ord_error *err) {
  (void)queue;
  (void)err;
  *out = NULL;
  return true;
}

static void destroy(ord_device *device) {
  if (!device) return;
  ord_pool_destroy(device->pool);
  free(device);
}

#if defined(__x86_64__)
/* Not every compiler's __builtin_cpu_supports knows this word. */
static bool has_f16c(void) {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}

static uint64_t detect_features(void) {
  uint64_t features = 0;
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c()) features |= ORD_CPU_AVX2;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq"))
    features |= ORD_CPU_AVX512;
  if (__builtin_cpu_supports("avx512bf16")) features |= ORD_CPU_AVX512_BF16;
  if (__builtin_cpu_supports("avx512vnni")) features |= ORD_CPU_AVX512_VNNI;
  return features;
}
#else
static uint64_t detect_features(void) { return 0; }
#endif

static const ord_device_table table = {.queue_create = queue_create,
                                       .queue_destroy = queue_destroy,
                                       .wait = wait,
                                       .allocate = allocate,
                                       .release = release,
                                       .write = copy,
                                       .read = copy,
                                       .copy = copy,
                                       .host = host,
                                       .make_current = make_current,
                                       .pause_captures = keep_captures,
                                       .resume_captures = keep_captures,
                                       .stream = stream,
                                       .capture = ord_capture_create,
                                       .replay = ord_capture_replay,
                                       .run_eager = ord_plan_run_eager,
                                       .capture_destroy = ord_capture_destroy,
                                       .destroy = destroy};

enum { BASELINE, AVX2, AVX512, NATIVE, LEVEL_COUNT };

const char *const ord_cpu_levels[] = {
    [BASELINE] = "baseline", [AVX2] = "avx2", [AVX512] = "avx512", [NATIVE] = "native", [LEVEL_COUNT] = NULL};

/* What each level allows; a machine must have all of `needed` for it. */
static const struct {
  uint64_t needed, allowed;
} level[LEVEL_COUNT] = {[AVX2] = {ORD_CPU_AVX2, ORD_CPU_AVX2},
                        [AVX512] = {ORD_CPU_AVX2 | ORD_CPU_AVX512, ORD_CPU_AVX2 | ORD_CPU_AVX512},
                        [NATIVE] = {0, UINT64_MAX}};

bool ord_cpu_features(const char *name, uint64_t *out, ord_error *err) {
  const uint64_t found = detect_features();
  char list[80];
  uint32_t i = 0;
  if (!name) name = ord_cpu_levels[NATIVE];
  while (i < LEVEL_COUNT && strcmp(ord_cpu_levels[i], name) != 0) i++;
  if (i == LEVEL_COUNT)
    return ord_fail(err, ORD_INVALID, "cpu: found '%s'; wanted %s", name,
                    ord_join_words(ord_cpu_levels, " or ", list, sizeof list));
  if ((found & level[i].needed) != level[i].needed)
    return ord_fail(err, ORD_UNSUPPORTED, "cpu: this machine's CPU lacks what '%s' allows; wanted a lower level", name);
  *out = found & level[i].allowed;
  return true;
}

bool ord_device_cpu_create(int threads, const char *cpu, ord_device **out, bool *out_oversubscribed, ord_error *err) {
  uint64_t features;
  if (!ord_cpu_features(cpu, &features, err)) return false;
  ord_device *device = calloc(1, sizeof *device);
  if (!device) return ord_fail_memory(err, "opening the CPU");
  device->table = &table;
  device->is_host_memory = true;
  if (!ord_pool_create(threads, &device->pool, out_oversubscribed, err)) {
    destroy(device);
    return false;
  }
  /* Virtual machines hide the caches or tell untruths about them; these sizes are near enough for block sizes. */
  device->info = (ord_device_info){.struct_size = sizeof device->info,
                                   .kind = ORD_DEVICE_CPU,
                                   .cores = ord_pool_cores(),
                                   .features = features,
                                   .l1_bytes = (uint64_t)48 << 10,
                                   .l2_bytes = (uint64_t)1 << 20,
                                   .l3_bytes = (uint64_t)16 << 20,
                                   .name = "cpu"};
  *out = device;
  return true;
}
