/* SPDX-License-Identifier: MIT
 *
 * Embeddings for the simulated CUDA device that say yes and then do what they must not: fault at their third run,
 * allocate, synchronise or fork the stream in launch, or bring code for another machine. They reach the driver by its
 * name.
 */
#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>

#include "ordito_plugin.h"

enum { IDS, TABLE };
enum { FAULTS_AT = 3, NEVER = -1 };

typedef struct rogue_state {
  const ord_node *node;
  const ord_host *host;
  const ord_kernel *kernel;
  void *rows;
} rogue_state;

static ord_status rogue_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  (void)kernel;
  if (node->operand[IDS].dim[0] != 1 || node->operand[TABLE].dtype != ORD_F32) {
    snprintf(answer->reason, sizeof answer->reason, "wanted one row of ids and a table in f32");
    return ORD_NO;
  }
  answer->persistent_bytes = sizeof(int32_t);
  answer->phase_count = 1;
  answer->chunk_limit[0] = 1;
  answer->epilogue_served = 0;
  return ORD_OK;
}

static void rogue_retire(void *state) {
  rogue_state *made = state;
  if (made) made->host->release(made->host->context, made);
}

static ord_status prepare_with(const ord_kernel *kernel, const ord_node *node, const ord_host *host, const char *image,
                               void **state, ord_plugin_error *err) {
  rogue_state *made = host->allocate(host->context, sizeof *made, _Alignof(rogue_state));
  if (!made) return ORD_NO_MEMORY;
  *made = (rogue_state){.node = node, .host = host, .kernel = kernel};
  const ord_status status = host->image_kernel(host->context, image, "rogue_rows", 0, &made->rows, err);
  if (status == ORD_OK)
    *state = made;
  else
    rogue_retire(made);
  return status;
}

static ord_status rogue_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                                const ord_host *host, void **state, ord_plugin_error *err) {
  (void)answer;
  return prepare_with(kernel, node, host, "rows", state, err);
}

static ord_status foreign_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                                  const ord_host *host, void **state, ord_plugin_error *err) {
  (void)answer;
  return prepare_with(kernel, node, host, "foreign", state, err);
}

/* The right rows, until the run that is number `last`. */
static ord_status launch_rows(const rogue_state *made, const ord_exec *exec, int32_t last, ord_plugin_error *err) {
  const ord_operand *ids = &made->node->operand[IDS];
  const int32_t width = (int32_t)made->node->operand[TABLE].dim[1];
  const uint32_t scalar = ids->extent[1];
  const void *extent = scalar == ORD_NONE ? NULL : exec->operand[scalar];
  const void *const argument[] = {&exec->operand[IDS],
                                  &exec->operand[TABLE],
                                  &exec->operand[ord_node_output(made->node, 0)],
                                  &extent,
                                  &width,
                                  &exec->persistent,
                                  &last};
  const uint32_t argument_bytes[] = {8, 8, 8, 8, 4, 8, 4};
  const ord_gpu_launch launch = {.kernel = made->rows,
                                 .grid = {(uint32_t)ids->dim[1], 1, 1},
                                 .block = {32, 1, 1},
                                 .argument_count = 7,
                                 .argument = argument,
                                 .argument_bytes = argument_bytes};
  return made->host->gpu_launch(made->host->context, exec->stream, &launch, err);
}

/* A function of the driver that is open; NULL where that is not the simulated one. */
static void *driver_function(const char *name) {
  void *driver = dlopen("libordito_simulated_cuda.so", RTLD_NOW | RTLD_NOLOAD);
  return driver ? dlsym(driver, name) : NULL;
}

static ord_status launch_faults(void *state, const ord_exec *exec, ord_plugin_error *err) {
  return launch_rows(state, exec, FAULTS_AT, err);
}

static ord_status launch_allocates(void *state, const ord_exec *exec, ord_plugin_error *err) {
  int (*allocate)(unsigned long long *, size_t) = NULL;
  unsigned long long memory = 0;
  *(void **)&allocate = driver_function("cuMemAlloc_v2");
  if (!allocate) return ORD_UNSUPPORTED;
  (void)allocate(&memory, 64); /* what a careless author does with the result */
  return launch_rows(state, exec, NEVER, err);
}

static ord_status launch_synchronises(void *state, const ord_exec *exec, ord_plugin_error *err) {
  int (*synchronise)(void *) = NULL;
  *(void **)&synchronise = driver_function("cuStreamSynchronize");
  if (!synchronise) return ORD_UNSUPPORTED;
  const ord_status status = launch_rows(state, exec, NEVER, err);
  (void)synchronise(exec->stream->handle);
  return status;
}

/* Lets another stream wait for this one and work, and does not wait for that. */
static ord_status launch_forks(void *state, const ord_exec *exec, ord_plugin_error *err) {
  int (*make_stream)(void **, unsigned, int) = NULL, (*make_event)(void **, unsigned) = NULL;
  int (*record)(void *, void *) = NULL, (*wait)(void *, void *, unsigned) = NULL;
  int (*clear)(uintptr_t, unsigned char, size_t, void *) = NULL;
  void *other = NULL, *event = NULL;
  *(void **)&make_stream = driver_function("cuStreamCreateWithPriority");
  *(void **)&make_event = driver_function("cuEventCreate");
  *(void **)&record = driver_function("cuEventRecord");
  *(void **)&wait = driver_function("cuStreamWaitEvent");
  *(void **)&clear = driver_function("cuMemsetD8Async");
  if (!make_stream || !make_event || !record || !wait || !clear) return ORD_UNSUPPORTED;
  const ord_status status = launch_rows(state, exec, NEVER, err);
  if (make_stream(&other, 1, 0) || make_event(&event, 2) || record(event, exec->stream->handle) ||
      wait(other, event, 0) || clear((uintptr_t)exec->persistent, 0, sizeof(int32_t), other))
    return ORD_DEVICE_FAILED;
  return status;
}

#define ROGUE(kernel_name, prepare_function, launch_function)                                                          \
  {                                                                                                                    \
    .struct_size = sizeof(ord_kernel), .device = ORD_DEVICE_CUDA, .priority = -100, .name = kernel_name,               \
    .op = "embedding", .query = rogue_query, .prepare = prepare_function, .launch = launch_function,                   \
    .retire = rogue_retire                                                                                             \
  }
static const ord_kernel all[] = {
    ROGUE("rogue_faults", rogue_prepare, launch_faults),
    ROGUE("rogue_allocates", rogue_prepare, launch_allocates),
    ROGUE("rogue_synchronises", rogue_prepare, launch_synchronises),
    ROGUE("rogue_forks", rogue_prepare, launch_forks),
    ROGUE("rogue_foreign", foreign_prepare, launch_faults),
};
static const ord_kernel *const kernels[] = {&all[0], &all[1], &all[2], &all[3], &all[4]};
enum { KERNEL_COUNT = sizeof kernels / sizeof *kernels };

/* Code for another machine, of which the driver reads no more than the head. */
static const Elf64_Ehdr foreign = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                                   .e_type = ET_DYN,
                                   .e_machine = EM_AARCH64,
                                   .e_version = EV_CURRENT};

static const ord_image images[] = {
    {.name = "foreign", .kind = ORD_IMAGE_SIMULATED, .bytes = &foreign, .size = sizeof foreign}};

static const ord_plugin plugin_table = {.struct_size = sizeof plugin_table,
                                        .kernel_count = KERNEL_COUNT,
                                        .image_count = 1,
                                        .kernel = kernels,
                                        .image = images};

const ord_manifest ord_plugin_manifest = {
    ORD_MANIFEST_HEAD,
    .flags = ORD_PLUGIN_UNLOADABLE,
    .name = "cuda_rogue",
    .version = "0.1.0",
};

ord_status ord_plugin_open(const ord_host *host, const ord_plugin **plugin, ord_plugin_error *err) {
  (void)host, (void)err;
  *plugin = &plugin_table;
  return ORD_OK;
}
