/* SPDX-License-Identifier: MIT
 *
 * A kernel driven by hand through the ABI, without the rest of the host: load a plugin, write down a node, run it.
 * Included by test programs only; every function fails the running test if something does not work.
 */
#ifndef ORDITO_TESTS_BY_HAND_H
#define ORDITO_TESTS_BY_HAND_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "runtime/device.h"
#include "runtime/plugin.h"

/* Whether kernels that need these features can run here. */
static inline bool hand_cpu_has(uint64_t features) {
  uint64_t found = 0;
  ord_error err = ORD_ERROR_INIT;
  if (!ord_cpu_features(NULL, &found, &err)) fail_msg("%s", err.text);
  return !(features & ~found);
}

enum { HAND_MAX = 12 };

typedef struct hand {
  ord_registry *registry;
  const ord_kernel *kernel;
  ord_device_info device;
  ord_host host;
  ord_operand operand[HAND_MAX];
  ord_attr attr[HAND_MAX];
  void *data[HAND_MAX];
  ord_pack pack[HAND_MAX];
  ord_node node;
  ord_answer answer;
  void *persistent, *stream; /* handed to launch */
  int allocations;           /* alive, of the host's allocate */
  bool is_out_of_memory;
} hand;

static inline void *hand_allocate(void *context, size_t bytes, size_t align) {
  hand *made = context;
  if (made->is_out_of_memory) return NULL;
  made->allocations++;
  return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static inline void hand_release(void *context, void *memory) {
  hand *made = context;
  made->allocations--;
  free(memory);
}

/* Loads the plugin and begins a node of its kernel for `op`. */
static inline void hand_open(hand *made, const char *path, const char *op) {
  ord_error err = ORD_ERROR_INIT;
  memset(made, 0, sizeof *made);
  if (!ord_registry_create(NULL, NULL, &made->registry, &err)) fail_msg("%s", err.text);
  if (!ord_registry_load(made->registry, path, &err)) fail_msg("%s", err.text);
  const ord_plugin *plugin = ord_registry_get(made->registry, 0)->plugin;
  for (uint32_t i = 0; i < plugin->kernel_count; i++)
    if (strcmp(plugin->kernel[i]->op, op) == 0) made->kernel = plugin->kernel[i];
  if (!made->kernel) fail_msg("%s has no kernel for %s", path, op);
  made->device = (ord_device_info){.struct_size = sizeof made->device, .kind = ORD_DEVICE_CPU, .name = "by hand"};
  made->host = (ord_host){.struct_size = sizeof made->host,
                          .abi_minor = ORD_ABI_MINOR,
                          .context = made,
                          .allocate = hand_allocate,
                          .release = hand_release};
  made->node = (ord_node){.struct_size = sizeof made->node,
                          .op_version = 1,
                          .op = op,
                          .label = "by.hand",
                          .compute = ORD_F32,
                          .operand = made->operand,
                          .attr = made->attr,
                          .device = &made->device};
}

static inline void hand_close(hand *made) {
  made->kernel->retire(NULL);
  assert_int_equal(made->allocations, 0);
  ord_registry_destroy(made->registry);
}

/* A dense operand over `data`; returns its number. */
static inline uint32_t hand_add(hand *made, const char *name, uint16_t role, uint16_t dtype, uint32_t rank,
                                const int64_t *dim, void *data) {
  static const uint16_t bytes[] = {
      [ORD_F32] = 4, [ORD_F16] = 2, [ORD_BF16] = 2, [ORD_I8] = 1, [ORD_I32] = 4, [ORD_I64] = 8, [ORD_BOOL] = 1};
  const uint32_t which = made->node.operand_count++;
  assert_true(which < HAND_MAX);
  ord_operand *operand = &made->operand[which];
  *operand = (ord_operand){.name = name, .role = role, .dtype = dtype, .rank = rank, .align_log2 = 2};
  operand->block_elements = dtype == ORD_Q4_1 ? 32 : 1;
  operand->block_bytes = dtype == ORD_Q4_1 ? 20 : bytes[dtype];
  int64_t stride = operand->block_bytes;
  for (uint32_t axis = rank; axis-- > 0;) {
    operand->dim[axis] = dim[axis];
    operand->stride[axis] = stride;
    operand->extent[axis] = ORD_NONE;
    stride *= axis + 1 == rank ? dim[axis] / operand->block_elements : dim[axis];
  }
  made->data[which] = data;
  return which;
}

static inline void hand_attr(hand *made, ord_attr attr) {
  assert_true(made->node.attr_count < HAND_MAX);
  attr.count = 1;
  made->attr[made->node.attr_count++] = attr;
}

static inline ord_status hand_query(hand *made) {
  memset(made->pack, 0, sizeof made->pack);
  made->answer = (ord_answer){
      .struct_size = sizeof made->answer, .epilogue_served = made->node.epilogue_count, .pack = made->pack};
  return made->kernel->query(made->kernel, &made->node, &made->answer);
}

/* The kernel must refuse, with this text somewhere in its reason. */
static inline void hand_refuses(hand *made, const char *part) {
  assert_int_equal(hand_query(made), ORD_NO);
  if (!strstr(made->answer.reason, part)) fail_msg("said '%s', wanted '%s'", made->answer.reason, part);
}

static inline void *hand_memory(uint64_t bytes) {
  void *memory = aligned_alloc(64, (bytes / 64 + 1) * 64);
  assert_non_null(memory);
  memset(memory, 0xff, (bytes / 64 + 1) * 64);
  return memory;
}

/* Every phase with its chunks from the last to the first. */
static inline ord_status hand_launch(hand *made, void *state, void *const *data, ord_plugin_error *err) {
  ord_status status = ORD_OK;
  void *scratch = hand_memory(made->answer.scratch_bytes), *worker = hand_memory(made->answer.worker_bytes);
  for (uint32_t phase = 0; status == ORD_OK && phase < made->answer.phase_count; phase++) {
    const uint32_t count = made->answer.chunk_limit[phase];
    for (uint32_t chunk = count; status == ORD_OK && chunk-- > 0;) {
      const ord_exec exec = {.struct_size = sizeof exec,
                             .phase = phase,
                             .chunk = chunk,
                             .chunk_count = count,
                             .operand = data,
                             .scratch = scratch,
                             .worker = worker,
                             .persistent = made->persistent,
                             .stream = made->stream};
      status = made->kernel->launch(state, &exec, err);
    }
  }
  free(scratch);
  free(worker);
  return status;
}

/* Query, pack, prepare, launch, retire. */
static inline ord_status hand_run(hand *made, ord_plugin_error *err) {
  void *state = NULL, *data[HAND_MAX], *packed[HAND_MAX] = {0};
  if (hand_query(made) != ORD_OK) fail_msg("%s", made->answer.reason);
  memcpy(data, made->data, sizeof data);
  for (uint32_t i = 0; i < made->node.operand_count; i++) {
    if (!made->pack[i].key) continue;
    const void *segment[] = {made->data[i]};
    data[i] = packed[i] = hand_memory(made->pack[i].bytes);
    assert_int_equal(made->kernel->pack(made->kernel, &made->node, &made->answer, i, segment, 0, 1, packed[i]), ORD_OK);
  }
  *err = (ord_plugin_error){.struct_size = sizeof *err};
  ord_status status = made->kernel->prepare(made->kernel, &made->node, &made->answer, &made->host, &state, err);
  if (status == ORD_OK) {
    status = hand_launch(made, state, data, err);
    made->kernel->retire(state);
  }
  for (uint32_t i = 0; i < HAND_MAX; i++) free(packed[i]);
  return status;
}

/* Numbers in (-1, 1), always the same. */
static inline void hand_fill(float *number, size_t count) {
  uint32_t state = 12345;
  for (size_t i = 0; i < count; i++) {
    state = state * 1664525u + 1013904223u;
    number[i] = (float)(int32_t)state / 2147483648.0f;
  }
}

static inline void hand_assert_near(const float *got, const float *wanted, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!(fabsf(got[i] - wanted[i]) <= 1e-5f))
      fail_msg("number %zu: found %g, wanted %g", i, (double)got[i], (double)wanted[i]);
}

#endif
