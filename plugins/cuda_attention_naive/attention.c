/* SPDX-License-Identifier: MIT
 *
 * cuda_attention_naive: attention as it stands in a textbook, for everything that attention can be asked for.
 */
#include "cuda_attention/node.h"
#include "images.h"

enum { THREADS = 128 };

static uint32_t blocks_of(const ord_node *node) {
  const ord_operand *q = attention_operand(node, "q", "q");
  const int64_t blocks = q->dim[0] * q->dim[1];
  return blocks < 1 ? 1 : (uint32_t)blocks;
}

static ord_status naive_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  (void)kernel;
  if (attention_check(node, answer) != ORD_OK) return ORD_NO;
  const ord_operand *key = attention_operand(node, "cache_k", "k");
  answer->phase_count = 1;
  answer->epilogue_served = 0;
  answer->scratch_bytes = (uint64_t)blocks_of(node) * (uint64_t)key->dim[2] * sizeof(float);
  snprintf(answer->variant, sizeof answer->variant, "a block per (batch, head)");
  return ORD_OK;
}

static ord_status naive_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                                const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel, (void)answer;
  attention_state *made;
  const ord_status status =
      attention_prepare(node, host, "attention", "attention_naive", blocks_of(node), THREADS, 0, &made, err);
  if (status == ORD_OK) *state = made;
  return status;
}

static const ord_kernel naive = {
    .struct_size = sizeof naive,
    .device = ORD_DEVICE_CUDA,
    .name = "cuda_attention_naive",
    .op = "attention",
    .query = naive_query,
    .prepare = naive_prepare,
    .launch = attention_launch,
    .retire = attention_retire,
};

const ord_manifest ord_plugin_manifest = {
    ORD_MANIFEST_HEAD,  .flags = ORD_PLUGIN_UNLOADABLE, .name = "cuda_attention_naive",
    .version = "0.1.0", .toolchain = "CUDA C++",
};

static const ord_kernel *const kernels[] = {&naive};

static const ord_plugin plugin = {
    .struct_size = sizeof plugin,
    .kernel_count = 1,
    .image_count = plugin_image_count,
    .kernel = kernels,
    .image = plugin_images,
};

ord_status ord_plugin_open(const ord_host *host, const ord_plugin **out, ord_plugin_error *err) {
  (void)host, (void)err;
  *out = &plugin;
  return ORD_OK;
}
