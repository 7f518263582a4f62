/* SPDX-License-Identifier: MIT
 *
 * Plans for the CUDA device that are written down by hand, of the kernels of plugins/cuda_steps or of the
 * test's own. Included by test programs only; every function fails the running test if something does not work.
 */
#ifndef ORDITO_TESTS_CUDA_PLAN_H
#define ORDITO_TESTS_CUDA_PLAN_H

#include "cuda_calls.h"
#include "runtime/plugin.h"

/* The device and the plugin. */
typedef struct plan_stage {
  ord_device *device;
  const ord_device_table *table;
  ord_registry *registry;
  const ord_plugin_entry *plugin;
  const ord_host *host;
} plan_stage;

static inline plan_stage open_plan_stage(const ord_cuda_options *options) {
  ord_error err = ORD_ERROR_INIT;
  plan_stage s = {.device = open_device(options)};
  s.table = s.device->table;
  MUST(ord_registry_create(NULL, NULL, &s.registry, &err));
  MUST(ord_registry_load(s.registry, ORDITO_BUILD_DIRECTORY "/tests/plugins/cuda_steps.so", &err));
  s.plugin = ord_registry_get(s.registry, 0);
  s.host = s.table->host(s.device, s.registry, s.plugin, &err);
  assert_non_null(s.host);
  return s;
}

static inline void close_plan_stage(plan_stage *s) {
  ord_registry_destroy(s->registry);
  s->table->destroy(s->device);
}

static inline const ord_kernel *find_kernel(const plan_stage *s, const char *name) {
  for (uint32_t i = 0; i < s->plugin->plugin->kernel_count; i++)
    if (strcmp(s->plugin->plugin->kernel[i]->name, name) == 0) return s->plugin->plugin->kernel[i];
  fail_msg("the plugin has no kernel %s", name);
  return NULL;
}

enum { HAND_STEPS = 8, HAND_OPERANDS = 8, HAND_EXTENTS = 2 };

/* One plan with memory and queue of its own. */
typedef struct hand_plan {
  const plan_stage *stage;
  ord_queue *queue;
  ord_plan plan;
  ord_step step[HAND_STEPS];
  ord_operand operand[HAND_STEPS][HAND_OPERANDS];
  ord_location place[HAND_STEPS][HAND_OPERANDS];
  ord_memory memory;
  const void *weight[1]; /* i32 */
  void *cache[1];        /* i32 [cache_rows] */
} hand_plan;

/* The arena is zeroed, but for its lengths nothing of a plan is there yet. */
static inline hand_plan *open_hand_plan(const plan_stage *s, size_t arena_bytes, size_t cache_rows) {
  ord_error err = ORD_ERROR_INIT;
  hand_plan *h = test_calloc(1, sizeof *h);
  void *past = NULL, *extent = NULL, *weight = NULL;
  h->stage = s;
  h->plan = (ord_plan){.step = h->step, .weight = h->weight, .weight_count = 1, .arena_bytes = arena_bytes};
  MUST(s->table->queue_create(s->device, &h->queue, &err));
  MUST(s->table->allocate(s->device, arena_bytes, true, &h->memory.arena, &err));
  MUST(s->table->allocate(s->device, cache_rows * sizeof(int32_t), true, &h->cache[0], &err));
  MUST(s->table->allocate(s->device, sizeof(int32_t), true, &past, &err));
  MUST(s->table->allocate(s->device, HAND_EXTENTS * sizeof(int64_t), true, &extent, &err));
  MUST(s->table->allocate(s->device, sizeof(int32_t), true, &weight, &err));
  h->memory.cache = h->cache;
  h->memory.past = past;
  h->memory.extent = extent;
  h->weight[0] = weight;
  return h;
}

static inline void close_hand_plan(hand_plan *h) {
  const plan_stage *s = h->stage;
  for (uint32_t i = 0; i < h->plan.step_count; i++)
    if (h->step[i].choice.kernel->retire) h->step[i].choice.kernel->retire(h->step[i].state);
  s->table->queue_destroy(h->queue);
  s->table->release(s->device, h->memory.arena);
  s->table->release(s->device, h->cache[0]);
  s->table->release(s->device, h->memory.past);
  s->table->release(s->device, h->memory.extent);
  s->table->release(s->device, (void *)(uintptr_t)h->weight[0]);
  test_free(h);
}

/* A step without a kernel: label, operands and where they lie; `width` is the dim of them all. */
static inline ord_step *add_bare_step(hand_plan *h, const char *label, const ord_location *place, uint32_t count,
                                      int64_t width) {
  const uint32_t at = h->plan.step_count++;
  assert_true(at < HAND_STEPS && count <= HAND_OPERANDS);
  for (uint32_t i = 0; i < count; i++) {
    h->place[at][i] = place[i];
    h->operand[at][i] = (ord_operand){.role = ORD_INPUT, .dtype = ORD_I32, .rank = 1, .dim = {width}};
  }
  h->step[at] = (ord_step){.node = {.struct_size = sizeof(ord_node),
                                    .label = label,
                                    .operand_count = count,
                                    .operand = h->operand[at],
                                    .device = &h->stage->device->info},
                           .place = h->place[at]};
  return &h->step[at];
}

/* The same with a kernel of the plugin, asked and prepared. */
static inline ord_step *add_step(hand_plan *h, const char *kernel_name, const char *label, const ord_location *place,
                                 uint32_t count, int64_t width) {
  ord_step *step = add_bare_step(h, label, place, count, width);
  const ord_kernel *kernel = find_kernel(h->stage, kernel_name);
  ord_plugin_error fault = {.struct_size = sizeof fault};
  step->choice = (ord_choice){.plugin = h->stage->plugin, .kernel = kernel};
  step->choice.answer.struct_size = sizeof(ord_answer);
  assert_int_equal(kernel->query(kernel, &step->node, &step->choice.answer), ORD_OK);
  if (kernel->prepare(kernel, &step->node, &step->choice.answer, h->stage->host, &step->state, &fault) != ORD_OK)
    fail_msg("prepare of %s: %s", kernel_name, fault.text);
  return step;
}

static inline void put(hand_plan *h, void *into, const void *from, size_t bytes) {
  ord_error err = ORD_ERROR_INIT;
  MUST(h->stage->table->write(h->queue, into, from, bytes, &err));
}

static inline void get(hand_plan *h, void *into, const void *from, size_t bytes) {
  ord_error err = ORD_ERROR_INIT;
  MUST(h->stage->table->read(h->queue, into, from, bytes, &err));
}

static inline void *in_arena(const hand_plan *h, size_t offset) { return (char *)h->memory.arena + offset; }

/* A place in the arena. */
static inline ord_location in(size_t offset) { return (ord_location){.space = ORD_SPACE_ARENA, .offset = offset}; }

#endif
