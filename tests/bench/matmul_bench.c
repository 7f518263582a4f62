/* SPDX-License-Identifier: MIT
 *
 * matmul_bench PLUGIN KERNEL [THREADS [CPU]]: one matmul kernel beside what the machine can do at that moment.
 *
 *   many rows  512 rows by the shapes of a 120M model: share of the multiply-add peak that is measured in turn
 *   one row    matrices of 300 MB in all, one after the other: share of a read probe that runs in turn
 *   pack       f32 weights to the kernel's layout: bytes read and written a second
 *
 * Medians; nothing here passes or fails. CPU is a level of instructions: baseline, avx2, avx512; default: all there is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/clock.h"
#include "runtime/device.h"
#include "runtime/plugin.h"
#include "runtime/pool.h"
#include "runtime/probe.h"

enum { SAMPLES = 21, ROWS = 512, SINGLE_SAMPLES = 9 };
#define SINGLE_BYTES ((size_t)320 << 20)

static const struct { int64_t columns, depth; } shapes[] = {{2304, 768}, {768, 768}, {3072, 768}, {768, 3072}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static const struct {
  const char *name;
  uint32_t compute;
} types[] = {{"f32", ORD_F32}, {"bf16", ORD_BF16}, {"int8", ORD_I8}};

typedef struct bench {
  const ord_kernel *kernel;
  ord_device_info device;
  ord_pool *pool;
  ord_host host;
} bench;

static void die(const char *text) {
  fprintf(stderr, "matmul_bench: %s\n", text);
  exit(1);
}

static double seconds(void) { return 1e-9 * (double)ord_clock_ns(); }

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *number, int count) {
  qsort(number, (size_t)count, sizeof *number, compare);
  return number[count / 2];
}

static void *allocate(void *context, size_t bytes, size_t align) {
  (void)context;
  return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void release(void *context, void *memory) {
  (void)context;
  free(memory);
}

static void *take(size_t bytes) {
  const size_t page = (size_t)2 << 20;
  void *memory = aligned_alloc(page, (bytes / page + 1) * page);
  if (!memory) die("out of memory");
  madvise(memory, (bytes / page + 1) * page, MADV_HUGEPAGE);
  return memory;
}

/* ---- one node ---- */

typedef struct node {
  const bench *bench;
  ord_operand operand[3];
  ord_segment segment;
  ord_pack pack[3];
  ord_node node;
  ord_answer answer;
  void *data[3], *scratch, *worker, *state;
  float *source; /* the weight as stored */
} node;

static void describe(ord_operand *operand, const char *name, uint16_t role, int64_t rows, int64_t columns) {
  *operand = (ord_operand){.name = name, .role = role, .dtype = ORD_F32, .rank = 2, .align_log2 = 6};
  operand->block_elements = 1;
  operand->block_bytes = 4;
  operand->dim[0] = rows;
  operand->dim[1] = columns;
  operand->stride[0] = columns * 4;
  operand->stride[1] = 4;
  operand->extent[0] = operand->extent[1] = ORD_NONE;
}

static float *numbers(size_t count) {
  float *made = take(count * sizeof *made);
  uint32_t state = 1;
  for (size_t i = 0; i < count; i++) {
    state = state * 1664525u + 1013904223u;
    made[i] = (float)(int32_t)state / 2147483648.0f;
  }
  return made;
}

static bool pack_slice(void *context, uint32_t chunk, uint32_t chunk_count, uint32_t worker) {
  (void)worker;
  const node *made = context;
  const void *segment[] = {made->source};
  return made->bench->kernel->pack(made->bench->kernel, &made->node, &made->answer, 1, segment, chunk, chunk_count,
                                   made->data[1]) == ORD_OK;
}

static void pack(node *made) {
  ord_pool_lease(made->bench->pool);
  if (!ord_pool_phase(made->bench->pool, pack_slice, made, 16)) die("pack failed");
  ord_pool_release(made->bench->pool);
}

static void open_node(const bench *all, uint32_t compute, int64_t rows, int64_t columns, int64_t depth, node *made) {
  ord_plugin_error err = {.struct_size = sizeof err};
  memset(made, 0, sizeof *made);
  made->bench = all;
  describe(&made->operand[0], "in", ORD_INPUT, rows, depth);
  describe(&made->operand[1], "weight", ORD_WEIGHT, columns, depth);
  describe(&made->operand[2], "out", ORD_OUTPUT, rows, columns);
  made->segment.rows = columns;
  made->operand[1].segment = &made->segment;
  made->operand[1].segment_count = 1;
  made->node = (ord_node){.struct_size = sizeof made->node,
                          .op_version = 1,
                          .op = "matmul",
                          .label = "bench",
                          .operand_count = 3,
                          .compute = compute,
                          .operand = made->operand,
                          .device = &all->device};
  made->answer = (ord_answer){.struct_size = sizeof made->answer, .pack = made->pack};
  if (all->kernel->query(all->kernel, &made->node, &made->answer) != ORD_OK) die(made->answer.reason);
  made->data[0] = numbers((size_t)(rows * depth));
  made->data[2] = numbers((size_t)(rows * columns));
  made->source = numbers((size_t)(columns * depth));
  made->data[1] = made->source;
  if (made->pack[1].key) {
    made->data[1] = take(made->pack[1].bytes);
    pack(made);
  }
  made->scratch = take(made->answer.scratch_bytes);
  made->worker = take((made->answer.worker_bytes + 64) * ord_pool_threads(all->pool));
  if (all->kernel->prepare(all->kernel, &made->node, &made->answer, &all->host, &made->state, &err) != ORD_OK)
    die(err.text);
}

static void close_node(node *made) {
  made->bench->kernel->retire(made->state);
  if (made->data[1] != made->source) free(made->data[1]);
  free(made->data[0]);
  free(made->data[2]);
  free(made->source);
  free(made->scratch);
  free(made->worker);
}

typedef struct phase {
  node *node;
  void *const *data;
  uint32_t number;
} phase;

static bool run_chunk(void *context, uint32_t chunk, uint32_t chunk_count, uint32_t worker) {
  const phase *now = context;
  const ord_exec exec = {.struct_size = sizeof exec,
                         .phase = now->number,
                         .chunk = chunk,
                         .chunk_count = chunk_count,
                         .operand = now->data,
                         .scratch = now->node->scratch,
                         .worker =
                             (char *)now->node->worker + worker * ((now->node->answer.worker_bytes + 63) & ~63ul)};
  return now->node->bench->kernel->launch(now->node->state, &exec, NULL) == ORD_OK;
}

static void run_on(node *made, void *const *data) {
  for (uint32_t i = 0; i < made->answer.phase_count; i++) {
    phase now = {made, data, i};
    if (!ord_pool_phase(made->bench->pool, run_chunk, &now, made->answer.chunk_limit[i])) die("launch failed");
  }
}

/* ---- many rows ---- */

static double time_many(node *made) {
  ord_pool_lease(made->bench->pool);
  const double begin = seconds();
  run_on(made, made->data);
  const double time = seconds() - begin;
  ord_pool_release(made->bench->pool);
  return time;
}

static void measure_many(const bench *all, int type, int shape) {
  double rate[SAMPLES], share[SAMPLES];
  node made;
  const char *code = "";
  open_node(all, types[type].compute, ROWS, shapes[shape].columns, shapes[shape].depth, &made);
  const double operations = 2.0 * ROWS * (double)shapes[shape].columns * (double)shapes[shape].depth;
  time_many(&made);
  for (int i = 0; i < SAMPLES; i++) {
    const ord_peak peak = ord_peak_run(all->pool, all->device.features, (ord_dtype)types[type].compute);
    code = peak.code;
    time_many(&made);
    rate[i] = operations / time_many(&made);
    share[i] = rate[i] / peak.operations_per_s;
  }
  printf("%4d x %4lld x %4lld  %-5s %7.1f GOP/s  %5.1f %% of the peak (%s)  %s\n", ROWS,
         (long long)shapes[shape].columns, (long long)shapes[shape].depth, types[type].name,
         median(rate, SAMPLES) * 1e-9, 100 * median(share, SAMPLES), code, made.answer.variant);
  close_node(&made);
}

/* ---- one row ---- */

static double best_read(const bench *all, ord_read_probe *probe) {
  double best = 0;
  for (uint32_t i = 0; ord_read_pattern_get(i); i++) {
    const double rate = ord_read_probe_run(probe, all->pool, all->device.features, ord_read_pattern_get(i));
    if (rate > best) best = rate;
  }
  return best;
}

static void measure_single(const bench *all, int type, int shape) {
  ord_error err = ORD_ERROR_INIT;
  node made;
  ord_read_probe *probe;
  double rate[SINGLE_SAMPLES], share[SINGLE_SAMPLES];
  open_node(all, types[type].compute, 1, shapes[shape].columns, shapes[shape].depth, &made);
  const size_t bytes = made.pack[1].bytes, count = SINGLE_BYTES / bytes;
  char *packed = take(count * bytes);
  for (size_t i = 0; i < count; i++) memcpy(packed + i * bytes, made.data[1], bytes);
  if (!ord_read_probe_create(SINGLE_BYTES, &probe, &err)) die(err.text);
  for (int i = 0; i < SINGLE_SAMPLES; i++) {
    const double read = best_read(all, probe);
    ord_pool_lease(all->pool);
    const double begin = seconds();
    for (size_t w = 0; w < count; w++) run_on(&made, (void *const[]){made.data[0], packed + w * bytes, made.data[2]});
    rate[i] = (double)(count * bytes) / (seconds() - begin);
    ord_pool_release(all->pool);
    share[i] = rate[i] / read;
  }
  printf("   1 x %4lld x %4lld  %-5s %7.2f GB/s   %5.1f %% of the read probe  %u chunks  %s\n",
         (long long)shapes[shape].columns, (long long)shapes[shape].depth, types[type].name,
         median(rate, SINGLE_SAMPLES) * 1e-9, 100 * median(share, SINGLE_SAMPLES), made.answer.chunk_limit[0],
         made.answer.variant);
  ord_read_probe_destroy(probe);
  free(packed);
  close_node(&made);
}

/* ---- pack ---- */

static void measure_pack(const bench *all, int type) {
  double rate[SAMPLES];
  node made;
  open_node(all, types[type].compute, 1, 8192, 3072, &made);
  for (int i = 0; i < SAMPLES; i++) {
    const double begin = seconds();
    pack(&made);
    rate[i] = (8192.0 * 3072 * 4 + (double)made.pack[1].bytes) / (seconds() - begin);
  }
  printf("pack of f32  %-5s %7.2f GB/s read and written\n", types[type].name, median(rate, SAMPLES) * 1e-9);
  close_node(&made);
}

int main(int argc, char **argv) {
  bench all = {
      .device = {.struct_size = sizeof all.device, .kind = ORD_DEVICE_CPU, .name = "bench"},
      .host = {.struct_size = sizeof all.host, .abi_minor = ORD_ABI_MINOR, .allocate = allocate, .release = release}};
  ord_error err = ORD_ERROR_INIT;
  ord_registry *registry;
  if (argc < 3) die("wanted PLUGIN KERNEL [THREADS [CPU]]");
  if (!ord_cpu_features(argc > 4 ? argv[4] : NULL, &all.device.features, &err) ||
      !ord_pool_create(argc > 3 ? atoi(argv[3]) : 0, &all.pool, NULL, &err) ||
      !ord_registry_create(NULL, NULL, &registry, &err) || !ord_registry_load(registry, argv[1], &err))
    die(err.text);
  const ord_plugin *plugin = ord_registry_get(registry, 0)->plugin;
  for (uint32_t i = 0; i < plugin->kernel_count; i++)
    if (strcmp(plugin->kernel[i]->name, argv[2]) == 0) all.kernel = plugin->kernel[i];
  if (!all.kernel) die("the plugin has no such kernel");
  all.device.cores = ord_pool_threads(all.pool);
  for (int type = 0; type < 3; type++)
    for (int shape = 0; shape < SHAPES; shape++) measure_many(&all, type, shape);
  for (int type = 0; type < 3; type++)
    for (int shape = 0; shape < SHAPES; shape++) measure_single(&all, type, shape);
  for (int type = 0; type < 3; type++) measure_pack(&all, type);
  ord_registry_destroy(registry);
  ord_pool_destroy(all.pool);
  return 0;
}
