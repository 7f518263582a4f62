/* SPDX-License-Identifier: MIT
 *
 * Probes for a caller of ordito.h, and the start-up probe: what reading the weights and writing the packs costs a
 * machine that does nothing else.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/pages.h"
#include "runtime/probe.h"
#include "session/parts.h"

struct ord_probe {
  ord_device *device;
  ord_read_probe *read; /* where the host's threads read; else NULL */
  /* Where the device reads: */
  ord_device_probe *on_device;
  ord_queue *queue;
  ord_device_clock *clock;
  size_t bytes;
};

/* A pass of each pattern may be disturbed. */
enum { PASSES = 3 };

static bool make_on_device(ord_probe *probe, size_t read_bytes, ord_error *err) {
  const ord_device_table *table = probe->device->table;
  return table->probe_create(probe->device, read_bytes, &probe->on_device, err) &&
         table->queue_create(probe->device, &probe->queue, err) &&
         table->clock_create(probe->queue, PASSES + 1, &probe->clock, err);
}

bool ord_probe_create(ord_context *context, size_t read_bytes, ord_probe **out, ord_error *err) {
  *out = NULL;
  ord_probe *probe = calloc(1, sizeof *probe);
  if (!probe) return ord_fail_memory(err, "making a probe");
  probe->device = context->device;
  probe->bytes = read_bytes;
  if (!(context->device->table->probe_create ? make_on_device(probe, read_bytes, err)
                                             : ord_read_probe_create(read_bytes, &probe->read, err))) {
    ord_probe_destroy(probe);
    return false;
  }
  *out = probe;
  return true;
}

void ord_probe_destroy(ord_probe *probe) {
  if (!probe) return;
  const ord_device_table *table = probe->device->table;
  if (probe->clock) table->clock_destroy(probe->clock);
  if (probe->queue) table->queue_destroy(probe->queue);
  if (probe->on_device) table->probe_destroy(probe->on_device);
  ord_read_probe_destroy(probe->read);
  free(probe);
}

static double read_on_host(const ord_probe *probe, const ord_read_pattern *pattern) {
  return ord_read_probe_run(probe->read, probe->device->pool, probe->device->info.features, pattern);
}

static void read_by_threads(const ord_probe *probe, ord_probe_result *best) {
  const ord_read_pattern *pattern;
  for (uint32_t i = 0; (pattern = ord_read_pattern_get(i)) != NULL; i++) {
    const double speed = read_on_host(probe, pattern);
    if (speed <= best->per_s) continue;
    best->per_s = speed;
    best->how = pattern->name;
  }
}

static bool read_pattern(const ord_probe *probe, uint32_t pattern, uint64_t *out_ns, ord_error *err) {
  const ord_device_table *table = probe->device->table;
  uint64_t ns[PASSES];
  if (!table->clock_mark(probe->clock, err)) return false;
  for (int i = 0; i < PASSES; i++)
    if (!table->probe_read(probe->on_device, probe->queue, pattern, err) || !table->clock_mark(probe->clock, err))
      return false;
  if (!table->clock_read(probe->clock, ns, err)) return false;
  *out_ns = ns[0];
  for (int i = 1; i < PASSES; i++)
    if (ns[i] < *out_ns) *out_ns = ns[i];
  return true;
}

static bool read_by_device(const ord_probe *probe, ord_probe_result *best, ord_error *err) {
  const char *name;
  for (uint32_t i = 0; (name = probe->device->table->probe_pattern(i)) != NULL; i++) {
    uint64_t ns;
    if (!read_pattern(probe, i, &ns, err)) return false;
    const double speed = (double)probe->bytes * 1e9 / (double)(ns ? ns : 1);
    if (speed <= best->per_s) continue;
    best->per_s = speed;
    best->how = name;
  }
  return true;
}

bool ord_probe_read(ord_probe *probe, ord_probe_result *out, ord_error *err) {
  ord_probe_result best = {.how = ""};
  if (probe->read)
    read_by_threads(probe, &best);
  else if (!read_by_device(probe, &best, err))
    return false;
  return ord_struct_give(&best, "ord_probe_result", out, sizeof best, err);
}

bool ord_probe_launch(ord_probe *probe, ord_queue *queue, uint32_t passes, ord_error *err) {
  if (queue->device != probe->device)
    return ord_fail(err, ORD_INVALID, "timing a run: found a probe of another context; wanted one of the session's");
  for (uint32_t i = 0; i < passes; i++) {
    if (probe->read)
      (void)read_on_host(probe, ord_read_pattern_get(0));
    else if (!probe->device->table->probe_read(probe->on_device, queue, 0, err))
      return false;
  }
  return true;
}

bool ord_probe_peak(ord_probe *probe, uint32_t compute, ord_probe_result *out, ord_error *err) {
  char list[64];
  if (!ord_compute_is_served(compute, false))
    return ord_fail(err, ORD_INVALID, "found type %u; wanted %s", compute,
                    ord_join_words(ord_compute_names(false), " or ", list, sizeof list));
  if (!probe->read)
    return ord_fail(err, ORD_UNSUPPORTED, "the peak: found %s; wanted the CPU, whose instructions are known",
                    probe->device->info.name);
  const ord_peak peak = ord_peak_run(probe->device->pool, probe->device->info.features, (ord_dtype)compute);
  const ord_probe_result made = {.per_s = peak.operations_per_s, .how = peak.code};
  return ord_struct_give(&made, "ord_probe_result", out, sizeof made, err);
}

/* ---- start-up ---------------------------------------------------------------------------------------------------- */

#define SLICE_BYTES ((size_t)4 << 20)

typedef struct load_work {
  int file;
  size_t read_bytes, all_bytes; /* the rest is written */
  unsigned char *memory;
  _Atomic int failure; /* errno */
} load_work;

static bool read_slice(load_work *work, size_t begin, size_t end) {
  while (begin < end) {
    const ssize_t got = pread(work->file, work->memory + begin, end - begin, (off_t)begin);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      work->failure = got < 0 ? errno : EIO;
      return false;
    }
    begin += (size_t)got;
  }
  return true;
}

static bool load_slice(void *context, uint32_t chunk, uint32_t chunk_count, uint32_t worker) {
  (void)chunk_count;
  (void)worker;
  load_work *work = context;
  const size_t begin = chunk * SLICE_BYTES;
  const size_t end = work->all_bytes - begin < SLICE_BYTES ? work->all_bytes : begin + SLICE_BYTES;
  const size_t cut = end < work->read_bytes ? end : begin < work->read_bytes ? work->read_bytes : begin;
  if (!read_slice(work, begin, cut)) return false;
  memset(work->memory + cut, 1, end - cut);
  return true;
}

/* All into memory that nobody has touched yet. */
static bool load_once(load_work *work, ord_pool *pool, bool large_pages, uint64_t *out_ns, ord_error *err) {
  const uint64_t begin = ord_clock_ns();
  work->memory = ord_pages_take(work->all_bytes, large_pages);
  if (!work->memory)
    return ord_fail(err, ORD_NO_MEMORY, "out of memory: the start-up probe needs %zu bytes", work->all_bytes);
  ord_pool_lease(pool);
  const bool done = ord_pool_phase(pool, load_slice, work, (uint32_t)((work->all_bytes - 1) / SLICE_BYTES + 1));
  ord_pool_release(pool);
  *out_ns = ord_clock_ns() - begin;
  ord_pages_release(work->memory);
  return done || ord_fail(err, ORD_IO, "the start-up probe could not read the weights; %s", strerror(work->failure));
}

/* In pages of the usual size and in large ones: which is faster depends on the machine. */
static bool load_best(load_work *work, ord_pool *pool, uint64_t *out_ns, ord_error *err) {
  uint64_t usual_ns = 0, large_ns = 0;
  if (!load_once(work, pool, false, &usual_ns, err) || !load_once(work, pool, true, &large_ns, err)) return false;
  *out_ns = usual_ns < large_ns ? usual_ns : large_ns;
  return true;
}

bool ord_model_probe_startup(const ord_model *model, uint64_t *out_ns, ord_error *err) {
  struct stat info;
  *out_ns = 0;
  if (!model->store || !model->weight_path || stat(model->weight_path, &info) || !S_ISREG(info.st_mode)) return true;
  const uint64_t stored = ord_model_weight_bytes(model);
  if (stored == 0 || (uint64_t)info.st_size < stored) return true; /* an index of shards */
  load_work work = {.file = open(model->weight_path, O_RDONLY | O_CLOEXEC), .read_bytes = stored};
  if (work.file < 0)
    return ord_fail(err, ord_status_of_errno(errno), "%s cannot be opened; %s", model->weight_path, strerror(errno));
  work.all_bytes = stored + ord_weight_store_usage(model->store).packed_bytes;
  const bool done = load_best(&work, model->context->device->pool, out_ns, err);
  close(work.file);
  return done;
}
