/* SPDX-License-Identifier: MIT
 *
 * attention_bench PLUGIN.so [THREADS [CPU]]: one attention kernel alone, driven through the ABI on the pool.
 * Prefill: 12 heads of 64, 1024 tokens, causal; useful operations as a share of the multiply-add peak. Decode: one
 * query at position 512 and 2048, f32 and bf16 caches of so many layers that no CPU cache holds them; bytes of keys and
 * values as a share of the read probe. Kernel and probe take turns; medians of the ratios, with the quartiles.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "runtime/clock.h"
#include "runtime/device.h"
#include "runtime/plugin.h"
#include "runtime/probe.h"

enum {
  HEADS = 12,
  WIDTH = 64,
  OPERANDS = 7,
  ATTRIBUTES = 7,
  ROUNDS = 15,
  CACHE_BYTES = 192 << 20,
  PROBE_BYTES = 192 << 20
};

typedef struct bench {
  ord_pool *pool;
  uint64_t features;
  const ord_kernel *kernel;
  ord_host host;
  ord_device_info device;
  ord_operand operand[OPERANDS];
  ord_attr attr[ATTRIBUTES];
  ord_node node;
  ord_answer answer;
  ord_pack pack[OPERANDS];
  void *state;
  void *data[OPERANDS];
  unsigned char *scratch, *worker;
  uint32_t phase; /* of the launch in progress */
} bench;

static void stop(const char *why) {
  fprintf(stderr, "attention_bench: %s\n", why);
  exit(1);
}

static double seconds(void) { return 1e-9 * (double)ord_clock_ns(); }

static void *take(size_t bytes) {
  const size_t page = 2 << 20, whole = (bytes + page - 1) / page * page;
  void *memory = aligned_alloc(page, whole);
  if (!memory) stop("out of memory");
  madvise(memory, whole, MADV_HUGEPAGE); /* as the runtime wishes it for its caches */
  float *number = memory;
  uint32_t random = 1;
  for (size_t i = 0; i < bytes / sizeof *number; i++) {
    random = random * 1664525u + 1013904223u;
    number[i] = (float)(int32_t)random / 2147483648.0f;
  }
  return memory;
}

static void *host_allocate(void *context, size_t bytes, size_t align) {
  (void)context;
  return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void host_release(void *context, void *memory) {
  (void)context;
  free(memory);
}

/* ---- a node ---- */

static void add(bench *b, const char *name, uint16_t role, uint16_t dtype, int64_t tokens, void *data) {
  const uint32_t which = b->node.operand_count++;
  const int64_t heads = strcmp(name, "past") == 0 ? 0 : HEADS, size = dtype == ORD_BF16 ? 2 : 4;
  b->operand[which] = (ord_operand){.name = name, .role = role, .dtype = dtype, .align_log2 = 6};
  b->operand[which].block_elements = 1;
  b->operand[which].block_bytes = (uint16_t)size;
  for (uint32_t axis = 0; axis < ORD_RANK_MAX; axis++) b->operand[which].extent[axis] = ORD_NONE;
  b->operand[which].rank = heads ? 4 : 1;
  const int64_t dim[4] = {1, heads, tokens, WIDTH};
  const int64_t stride[4] = {heads * tokens * WIDTH * size, tokens * WIDTH * size, WIDTH * size, size};
  memcpy(b->operand[which].dim, dim, sizeof dim);
  memcpy(b->operand[which].stride, stride, sizeof stride);
  if (!heads) b->operand[which].stride[0] = size;
  b->data[which] = data;
}

static void add_attr(bench *b, const char *name, uint32_t kind, int64_t whole, double number) {
  ord_attr *attr = &b->attr[b->node.attr_count++];
  *attr = (ord_attr){.name = name, .kind = kind, .count = 1};
  if (kind == ORD_ATTR_NUMBER)
    attr->value.f = number;
  else
    attr->value.i = whole;
}

static void begin(bench *b) {
  b->node = (ord_node){.struct_size = sizeof b->node,
                       .op_version = 1,
                       .op = "attention",
                       .label = "bench",
                       .compute = ORD_F32,
                       .operand = b->operand,
                       .attr = b->attr,
                       .device = &b->device};
  add_attr(b, "causal", ORD_ATTR_BOOL, 1, 0);
  add_attr(b, "align", ORD_ATTR_INT, ORD_LAST, 0);
  add_attr(b, "window_before", ORD_ATTR_INT, -1, 0);
  add_attr(b, "window_after", ORD_ATTR_INT, -1, 0);
  add_attr(b, "scale", ORD_ATTR_NUMBER, 0, 0.125);
  add_attr(b, "soft_cap", ORD_ATTR_NUMBER, 0, 0);
}

static void prepare(bench *b) {
  ord_plugin_error err = {.struct_size = sizeof err};
  b->answer = (ord_answer){.struct_size = sizeof b->answer, .pack = b->pack};
  if (b->kernel->query(b->kernel, &b->node, &b->answer) != ORD_OK) stop(b->answer.reason);
  if (b->kernel->prepare(b->kernel, &b->node, &b->answer, &b->host, &b->state, &err) != ORD_OK) stop(err.text);
  b->scratch = take(b->answer.scratch_bytes + 64);
  b->worker = take((b->answer.worker_bytes + 64) / 64 * 64 * ord_pool_threads(b->pool));
}

static void finish(bench *b) {
  b->kernel->retire(b->state);
  free(b->scratch);
  free(b->worker);
}

static bool run_chunk(void *context, uint32_t chunk, uint32_t chunk_count, uint32_t worker) {
  const bench *b = context;
  const ord_exec exec = {.struct_size = sizeof exec,
                         .phase = b->phase,
                         .chunk = chunk,
                         .chunk_count = chunk_count,
                         .operand = b->data,
                         .scratch = b->scratch,
                         .worker = b->worker + worker * ((b->answer.worker_bytes + 64) / 64 * 64)};
  ord_plugin_error err = {.struct_size = sizeof err};
  return b->kernel->launch(b->state, &exec, &err) == ORD_OK;
}

static void launch(bench *b) {
  for (b->phase = 0; b->phase < b->answer.phase_count; b->phase++)
    if (!ord_pool_phase(b->pool, run_chunk, b, b->answer.chunk_limit[b->phase])) stop("launch failed");
}

/* ---- figures ---- */

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void print(const char *what, double *share, double best, const char *unit) {
  qsort(share, ROUNDS, sizeof *share, compare);
  printf("%-34s %5.1f %% (%.1f to %.1f), best %.1f %s\n", what, 100 * share[ROUNDS / 2], 100 * share[ROUNDS / 4],
         100 * share[ROUNDS - 1 - ROUNDS / 4], best, unit);
}

static void run_prefill(bench *b, int64_t tokens) {
  const size_t bytes = (size_t)(HEADS * tokens * WIDTH) * sizeof(float);
  begin(b);
  for (int i = 0; i < 3; i++) add(b, (const char *[]){"q", "k", "v"}[i], ORD_INPUT, ORD_F32, tokens, take(bytes));
  add(b, "out", ORD_OUTPUT, ORD_F32, tokens, take(bytes));
  prepare(b);
  const double useful = 4.0 * HEADS * WIDTH * (double)tokens * (double)(tokens + 1) / 2;
  double share[ROUNDS], best = 0;
  for (int i = 0; i < ROUNDS; i++) {
    const ord_peak peak = ord_peak_run(b->pool, b->features, ORD_F32);
    ord_pool_lease(b->pool);
    launch(b);
    const double from = seconds();
    for (int turn = 0; turn < 4; turn++) launch(b);
    const double speed = 4 * useful / (seconds() - from);
    ord_pool_release(b->pool);
    share[i] = speed / peak.operations_per_s;
    if (speed > best) best = speed;
  }
  char what[64];
  snprintf(what, sizeof what, "prefill %lld tokens", (long long)tokens);
  print(what, share, best * 1e-9, "GFLOP/s of the peak");
  printf("  %s\n", b->answer.variant);
  for (uint32_t i = 0; i < b->node.operand_count; i++) free(b->data[i]);
  finish(b);
}

static double read_probe(bench *b, ord_read_probe *probe) {
  double best = 0;
  const ord_read_pattern *pattern;
  for (uint32_t i = 0; (pattern = ord_read_pattern_get(i)); i++) {
    const double speed = ord_read_probe_run(probe, b->pool, b->features, pattern);
    if (speed > best) best = speed;
  }
  return best;
}

static void run_decode(bench *b, ord_read_probe *probe, uint16_t dtype, int64_t keys) {
  const int64_t length = keys, size = dtype == ORD_BF16 ? 2 : 4;
  const size_t layer_bytes = (size_t)(HEADS * length * WIDTH * size), layers = CACHE_BYTES / (2 * layer_bytes);
  unsigned char *cache = take(2 * layer_bytes * layers);
  int32_t past = (int32_t)keys - 1;
  float *token = take(4 * HEADS * WIDTH * sizeof *token);
  if (dtype == ORD_BF16) memset(cache, 0x3c, 2 * layer_bytes * layers);
  begin(b);
  for (int i = 0; i < 3; i++)
    add(b, (const char *[]){"q", "k", "v"}[i], ORD_INPUT, ORD_F32, 1, token + i * HEADS * WIDTH);
  add(b, "out", ORD_OUTPUT, ORD_F32, 1, token + 3 * HEADS * WIDTH);
  add(b, "cache_k", ORD_STATE, dtype, length, cache);
  add(b, "cache_v", ORD_STATE, dtype, length, cache);
  add(b, "past", ORD_SCALAR, ORD_I32, 1, &past);
  prepare(b);
  double share[ROUNDS], best = 0, step = 1;
  for (int i = 0; i < ROUNDS; i++) {
    const double before = read_probe(b, probe);
    ord_pool_lease(b->pool);
    const double from = seconds();
    for (size_t layer = 0; layer < layers; layer++) {
      b->data[4] = cache + 2 * layer * layer_bytes;
      b->data[5] = cache + (2 * layer + 1) * layer_bytes;
      launch(b);
    }
    const double took = seconds() - from, speed = (double)(2 * layer_bytes * layers) / took;
    ord_pool_release(b->pool);
    const double after = read_probe(b, probe);
    share[i] = 2 * speed / (before + after);
    if (speed > best) best = speed;
    if (took / (double)layers < step) step = took / (double)layers;
  }
  char what[64];
  snprintf(what, sizeof what, "decode %s at %lld", dtype == ORD_BF16 ? "bf16" : "f32", (long long)keys);
  print(what, share, best * 1e-9, "GB/s of the read probe");
  printf("  %s; a layer in %.1f us\n", b->answer.variant, step * 1e6);
  free(cache);
  free(token);
  finish(b);
}

int main(int argc, char **argv) {
  ord_error err = ORD_ERROR_INIT;
  ord_registry *registry;
  ord_read_probe *probe;
  bench b = {.kernel = NULL};
  if (argc < 2) stop("wanted PLUGIN.so [THREADS [CPU]]");
  if (!ord_pool_create(argc > 2 ? atoi(argv[2]) : 2, &b.pool, NULL, &err) ||
      !ord_cpu_features(argc > 3 ? argv[3] : NULL, &b.features, &err) ||
      !ord_registry_create(NULL, NULL, &registry, &err) || !ord_registry_load(registry, argv[1], &err) ||
      !ord_read_probe_create(PROBE_BYTES, &probe, &err))
    stop(err.text);
  const ord_plugin *plugin = ord_registry_get(registry, 0)->plugin;
  for (uint32_t i = 0; i < plugin->kernel_count; i++)
    if (strcmp(plugin->kernel[i]->op, "attention") == 0) b.kernel = plugin->kernel[i];
  if (!b.kernel) stop("the plugin has no attention");
  b.host = (ord_host){.struct_size = sizeof b.host, .allocate = host_allocate, .release = host_release};
  b.device = (ord_device_info){
      .struct_size = sizeof b.device, .kind = ORD_DEVICE_CPU, .cores = 2, .features = b.features, .name = "bench"};
  run_prefill(&b, 1024);
  run_prefill(&b, 512);
  run_prefill(&b, 128);
  static const int64_t keys[] = {512, 2048};
  for (int i = 0; i < 2; i++) {
    run_decode(&b, probe, ORD_F32, keys[i]);
    run_decode(&b, probe, ORD_BF16, keys[i]);
  }
  ord_read_probe_destroy(probe);
  ord_registry_destroy(registry);
  ord_pool_destroy(b.pool);
  return 0;
}
