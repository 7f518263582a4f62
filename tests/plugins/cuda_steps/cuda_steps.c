/* SPDX-License-Identifier: MIT
 *
 * Two well-behaved CUDA kernels for plans that tests write by hand: mix, of two launches with scratch and persistent
 * memory, and next_token, which stands for a whole model with its sampling.
 */
#include <stdio.h>

#include "images.h"

enum { MIX_IN, MIX_WEIGHT, MIX_PAST, MIX_EXTENT, MIX_OUT };
enum { NEXT_TOKEN, NEXT_POSITION, NEXT_COUNTER, NEXT_PAST, NEXT_CACHE, NEXT_SAMPLED };

typedef struct steps_state {
  const ord_node *node;
  const ord_host *host;
  void *kernel[2];
} steps_state;

static ord_status answer_with(const ord_node *node, ord_answer *answer, uint32_t launches) {
  if (node->device->kind != ORD_DEVICE_CUDA) {
    snprintf(answer->reason, sizeof answer->reason, "found a device of kind %u; wanted CUDA", node->device->kind);
    return ORD_NO;
  }
  answer->phase_count = launches;
  for (uint32_t i = 0; i < launches; i++) answer->chunk_limit[i] = 1;
  return ORD_OK;
}

static void steps_retire(void *state) {
  steps_state *made = state;
  if (made) made->host->release(made->host->context, made);
}

static ord_status prepare_with(const ord_node *node, const ord_host *host, const char *const *symbol,
                               uint32_t symbol_count, void **state, ord_plugin_error *err) {
  steps_state *made = host->allocate(host->context, sizeof *made, _Alignof(steps_state));
  if (!made) return ORD_NO_MEMORY;
  *made = (steps_state){.node = node, .host = host};
  for (uint32_t i = 0; i < symbol_count; i++) {
    const ord_status status = host->image_kernel(host->context, "steps", symbol[i], 0, &made->kernel[i], err);
    if (status == ORD_OK) continue;
    steps_retire(made);
    return status;
  }
  *state = made;
  return ORD_OK;
}

/* ---- mix ---- */

static ord_status mix_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  (void)kernel;
  answer->scratch_bytes = sizeof(int32_t);
  answer->persistent_bytes = sizeof(int32_t);
  return answer_with(node, answer, 2);
}

static ord_status mix_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                              const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel, (void)answer;
  return prepare_with(node, host, (const char *const[]){"sum_row", "mix_row"}, 2, state, err);
}

static ord_status mix_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  const steps_state *made = state;
  const int32_t width = (int32_t)made->node->operand[MIX_IN].dim[0];
  const void *const sum[] = {&exec->operand[MIX_IN], &width, &exec->scratch};
  const uint32_t sum_bytes[] = {8, 4, 8};
  const ord_gpu_launch first = {.flags = ORD_LAUNCH_DEPENDENT,
                                .kernel = made->kernel[0],
                                .grid = {1, 1, 1},
                                .block = {32, 1, 1},
                                .argument_count = 3,
                                .argument = sum,
                                .argument_bytes = sum_bytes};
  const void *const mix[] = {
      &exec->operand[MIX_IN],     &exec->operand[MIX_WEIGHT], &exec->scratch,          &exec->operand[MIX_PAST],
      &exec->operand[MIX_EXTENT], &exec->persistent,          &exec->operand[MIX_OUT], &width};
  const uint32_t mix_bytes[] = {8, 8, 8, 8, 8, 8, 8, 4};
  const ord_gpu_launch second = {.flags = ORD_LAUNCH_DEPENDENT,
                                 .kernel = made->kernel[1],
                                 .grid = {(uint32_t)(width + 63) / 64, 1, 1},
                                 .block = {64, 1, 1},
                                 .argument_count = 8,
                                 .argument = mix,
                                 .argument_bytes = mix_bytes};
  const ord_status status = made->host->gpu_launch(made->host->context, exec->stream, &first, err);
  return status == ORD_OK ? made->host->gpu_launch(made->host->context, exec->stream, &second, err) : status;
}

static const ord_kernel mix = {.struct_size = sizeof mix,
                               .device = ORD_DEVICE_CUDA,
                               .name = "steps_mix",
                               .op = "mix",
                               .query = mix_query,
                               .prepare = mix_prepare,
                               .launch = mix_launch,
                               .retire = steps_retire};

/* ---- next_token ---- */

static ord_status next_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  (void)kernel;
  return answer_with(node, answer, 1);
}

static ord_status next_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                               const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel, (void)answer;
  return prepare_with(node, host, (const char *const[]){"next_token"}, 1, state, err);
}

static ord_status next_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  const steps_state *made = state;
  const void *const argument[] = {&exec->operand[NEXT_TOKEN],    &exec->operand[NEXT_PAST],
                                  &exec->operand[NEXT_POSITION], &exec->operand[NEXT_COUNTER],
                                  &exec->operand[NEXT_CACHE],    &exec->operand[NEXT_SAMPLED]};
  const uint32_t argument_bytes[] = {8, 8, 8, 8, 8, 8};
  const ord_gpu_launch launch = {.flags = ORD_LAUNCH_DEPENDENT,
                                 .kernel = made->kernel[0],
                                 .grid = {1, 1, 1},
                                 .block = {1, 1, 1},
                                 .argument_count = 6,
                                 .argument = argument,
                                 .argument_bytes = argument_bytes};
  return made->host->gpu_launch(made->host->context, exec->stream, &launch, err);
}

static const ord_kernel next_token = {.struct_size = sizeof next_token,
                                      .device = ORD_DEVICE_CUDA,
                                      .name = "steps_next",
                                      .op = "next_token",
                                      .query = next_query,
                                      .prepare = next_prepare,
                                      .launch = next_launch,
                                      .retire = steps_retire};

/* ---- the plugin ---- */

static const ord_kernel *const kernels[] = {&mix, &next_token};
static const ord_plugin plugin_table = {.struct_size = sizeof plugin_table,
                                        .kernel_count = 2,
                                        .image_count = plugin_image_count,
                                        .kernel = kernels,
                                        .image = plugin_images};

const ord_manifest ord_plugin_manifest = {
    ORD_MANIFEST_HEAD,
    .flags = ORD_PLUGIN_UNLOADABLE,
    .name = "cuda_steps",
    .version = "0.1.0",
};

ord_status ord_plugin_open(const ord_host *host, const ord_plugin **plugin, ord_plugin_error *err) {
  (void)host, (void)err;
  *plugin = &plugin_table;
  return ORD_OK;
}
