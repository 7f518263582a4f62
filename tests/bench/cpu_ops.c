/* SPDX-License-Identifier: MIT
 *
 * cpu_ops PLUGIN.so [OP]: what one launch of each kernel costs at the shapes of a decode step and of a prefill, on one
 * thread, from warm caches: the chunks in turn, no pool. One line a shape, one column a kernel of its op. Medians of 15
 * rounds in ns; the kernels take turns. Nothing here passes or fails.
 */
#include <stdio.h>
#include <stdlib.h>

#include "ops/case.h"
#include "runtime/clock.h"
#include "runtime/plugin.h"

enum { ROUNDS = 15, KERNEL_MAX = 8 };
static const double ROUND_NS = 1e6;

static const struct {
  const char *op, *operands, *attributes;
} row[] = {
    {"layernorm", "in[1,1,768] weight[768] bias[768]", "eps=1e-5"},
    {"layernorm", "in[1,512,768] weight[768] bias[768]", "eps=1e-5"},
    {"rmsnorm", "in[1,1,768] weight[768]", "eps=1e-5"},
    {"rmsnorm", "in[1,1,384] weight:bf16[384]", "eps=1e-5"},
    {"softmax", "in[1,768]", ""},
    {"softmax", "in[12,512]", ""},
    {"l2_normalize", "in[1,384]", "eps=1e-12"},
    {"gelu_tanh", "in[1,1,3072]", ""},
    {"gelu_erf", "in[1,1,3072]", ""},
    {"silu", "in[1,1,3072]", ""},
    {"relu2", "in[1,1,3072]", ""},
    {"tanh", "in[1,1,3072]", ""},
    {"add", "in[1,1,768] in[1,1,768]", ""},
    {"add", "in[1,1,768] in*[768]", ""},
    {"mul", "in[1,1,3072] in[1,1,3072]", ""},
    {"mul", "in[1,1,768] in=0.125", ""},
    {"rope", "in[1,12,1,64] positions:i32[1,1]=511", "pairing=halves theta=10000"},
    {"rope", "in[1,12,1,64] positions:i32[1,1]=511", "pairing=interleaved theta=10000"},
    {"rope", "in[1,9,128,64] positions:i32[1,128]<2000", "pairing=halves theta=10000"},
    {"embedding", "in:i32[1,1]=3 weight[7,768]", ""},
    {"embedding", "in:i32[1,1]=3 weight:bf16[7,768]", ""},
    {"embedding", "in:i32[1,1]=3 weight:i8[7,768]", ""},
    {"position", "in[1,1,768] positions:i32[1,1]=3 weight:bf16[8,768]", ""},
    {"cache_append", "k[1,12,1,64] v[1,12,1,64]", "cache=64 past=17"},
    {"cache_append", "k[1,12,1,64] v[1,12,1,64]", "cache=64:bf16 past=17"},
    {"pool", "in[1,128,384]", "kind=mean"},
    {"sample", "in[1,256] temperature[1]=0 top_k:i32[1]=0 top_p[1]=1 seed:i64[1]=5 counter:i64[1]=1", ""},
    {"sample", "in[1,50257] temperature[1]=0 top_k:i32[1]=0 top_p[1]=1 seed:i64[1]=5 counter:i64[1]=1", ""},
    {"sample", "in[1,50257] temperature[1]=1 top_k:i32[1]=40 top_p[1]=1 seed:i64[1]=5 counter:i64[1]=1", ""},
    {"sample", "in[1,50257] temperature[1]=1 top_k:i32[1]=40 top_p[1]=0.9 seed:i64[1]=5 counter:i64[1]=1", ""},
    {"sample", "in[1,50257] temperature[1]=0.1 top_k:i32[1]=0 top_p[1]=0.9 seed:i64[1]=5 counter:i64[1]=1", ""},
    {"sample", "in[1,50257] temperature[1]=1 top_k:i32[1]=0 top_p[1]=1 seed:i64[1]=5 counter:i64[1]=1", ""},
    {"transpose", "in[1,12,64,64]", "axes=0,2,1,3"},
    {"concat", "in[1,1,384] in[1,1,384]", "axis=-1"},
};

/* One kernel ready to be launched. */
typedef struct contender {
  const ord_kernel *kernel;
  ord_answer answer;
  void *state, *worker, *scratch, *persistent;
  void *address[ORD_CASE_TENSOR_MAX];
  double sample[ROUNDS];
} contender;

static double now_ns(void) { return (double)ord_clock_ns(); }

static void *allocate(void *context, size_t bytes, size_t align) {
  (void)context, (void)align;
  void *memory = aligned_alloc(64, (bytes + 64) / 64 * 64);
  if (!memory) exit(2);
  return memset(memory, 0, bytes);
}

static void release(void *context, void *memory) {
  (void)context;
  free(memory);
}

static const ord_host host = {
    .struct_size = sizeof host, .abi_minor = ORD_ABI_MINOR, .allocate = allocate, .release = release};

/* False if the kernel refuses. */
static bool prepare(contender *made, ord_case_setup *setup, const ord_kernel *kernel) {
  ord_plugin_error err = {.struct_size = sizeof err};
  const ord_node *node = &setup->node;
  *made = (contender){.kernel = kernel};
  made->answer = (ord_answer){.struct_size = sizeof made->answer,
                              .epilogue_served = node->epilogue_count,
                              .pack = ord_arena_take(setup->arena, node->operand_count, sizeof(ord_pack))};
  if (!made->answer.pack || kernel->query(kernel, node, &made->answer) != ORD_OK) return false;
  for (uint32_t i = 0; i < node->operand_count; i++) {
    const void *segment[] = {setup->tensor[i].data};
    made->address[i] = setup->tensor[i].data;
    if (!made->answer.pack[i].key) continue;
    made->address[i] = ord_arena_take(setup->arena, made->answer.pack[i].bytes + 64, 1);
    made->address[i] = (char *)made->address[i] + (-(uintptr_t)made->address[i] & 63);
    kernel->pack(kernel, node, &made->answer, i, segment, 0, 1, made->address[i]);
  }
  made->worker = allocate(NULL, made->answer.worker_bytes, 64);
  made->scratch = allocate(NULL, made->answer.scratch_bytes, 64);
  made->persistent = allocate(NULL, made->answer.persistent_bytes, 64);
  return kernel->prepare(kernel, node, &made->answer, &host, &made->state, &err) == ORD_OK;
}

static void launch(const contender *made) {
  ord_plugin_error err = {.struct_size = sizeof err};
  ord_exec exec = {.struct_size = sizeof exec,
                   .operand = made->address,
                   .scratch = made->scratch,
                   .worker = made->worker,
                   .persistent = made->persistent};
  for (exec.phase = 0; exec.phase < made->answer.phase_count; exec.phase++) {
    exec.chunk_count = made->answer.chunk_limit[exec.phase];
    for (exec.chunk = 0; exec.chunk < exec.chunk_count; exec.chunk++)
      if (made->kernel->launch(made->state, &exec, &err) != ORD_OK) exit(1);
  }
}

static double time_launches(const contender *made, long count) {
  const double begin = now_ns();
  for (long i = 0; i < count; i++) launch(made);
  return (now_ns() - begin) / (double)count;
}

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void measure(const ord_plugin *plugin, ord_case_setup *setup, const ord_case *shape) {
  contender made[KERNEL_MAX];
  int count = 0;
  for (uint32_t i = 0; i < plugin->kernel_count && count < KERNEL_MAX; i++)
    if (strcmp(plugin->kernel[i]->op, setup->op->name) == 0)
      count += prepare(&made[count], setup, plugin->kernel[i]) ? 1 : 0;
  for (int round = 0; round < ROUNDS; round++)
    for (int i = 0; i < count; i++) {
      const double once = time_launches(&made[i], 3);
      made[i].sample[round] = time_launches(&made[i], (long)(ROUND_NS / once) + 1);
    }
  printf("%-12s %s %s\n            ", setup->op->name, shape->operands, shape->attributes);
  for (int i = 0; i < count; i++) {
    qsort(made[i].sample, ROUNDS, sizeof *made[i].sample, compare);
    printf("  %s %.0f (%u)", made[i].kernel->name, made[i].sample[ROUNDS / 2], made[i].answer.chunk_limit[0]);
    made[i].kernel->retire(made[i].state);
    free(made[i].worker);
    free(made[i].scratch);
    free(made[i].persistent);
  }
  printf("\n");
}

int main(int argc, char **argv) {
  ord_error err = ORD_ERROR_INIT;
  ord_registry *registry = NULL;
  if (argc < 2 || !ord_registry_create(NULL, NULL, &registry, &err) || !ord_registry_load(registry, argv[1], &err)) {
    fprintf(stderr, "cpu_ops: %s\n", argc < 2 ? "wanted a plugin" : err.text);
    return 2;
  }
  const ord_device_info device = {
      .struct_size = sizeof device, .kind = ORD_DEVICE_CPU, .cores = 1, .features = UINT64_MAX, .name = "cpu"};
  const ord_case_options options = {.device = &device};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    if (argc > 2 && strcmp(argv[2], row[i].op) != 0) continue;
    ord_arena arena = {NULL};
    const ord_case shape = {row[i].operands, row[i].attributes};
    ord_case_setup *setup = ord_arena_take(&arena, 1, sizeof *setup);
    if (!setup) return 2;
    *setup = (ord_case_setup){
        .op = ord_op_find(row[i].op), .row = &shape, .options = &options, .arena = &arena, .err = &err};
    if (!ord_case_read(setup) || !ord_case_make(setup)) {
      fprintf(stderr, "cpu_ops: %s\n", err.text);
      return 2;
    }
    measure(ord_registry_get(registry, 0)->plugin, setup, &shape);
    ord_arena_finish(&arena);
  }
  ord_registry_destroy(registry);
  return 0;
}
