/* SPDX-License-Identifier: MIT
 *
 * A whole plugin with one kernel, relu over rows: what the loader must accept, and what tests of the loader change a
 * few bytes of to make files that it must refuse.
 */
#include "ordito_plugin.h"

#include <stdio.h>

const ord_manifest ord_plugin_manifest = {ORD_MANIFEST_HEAD, .flags = ORD_PLUGIN_UNLOADABLE, .name = "good_relu",
                                          .version = "0.1.0", .toolchain = "any"};

typedef struct {
  int64_t rows, width;
  const ord_host *host;
} relu_state;

static ord_status relu_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  (void)kernel;
  const ord_operand *in = &node->operand[0];
  if (in->dtype != ORD_F32 || in->rank != 2 || in->stride[1] != 4) {
    snprintf(answer->reason, sizeof answer->reason, "found type %u, rank %u; wanted f32 [rows, width] without gaps",
             in->dtype, in->rank);
    return ORD_NO;
  }
  answer->phase_count = 1;
  answer->chunk_limit[0] = 4;
  answer->alias_mask = 1u << 0;
  answer->epilogue_served = 0;
  snprintf(answer->variant, sizeof answer->variant, "plain");
  return ORD_OK;
}

static ord_status relu_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                               const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel;
  (void)answer;
  (void)err;
  relu_state *made = host->allocate(host->context, sizeof *made, _Alignof(relu_state));
  if (!made) return ORD_NO_MEMORY;
  *made = (relu_state){node->operand[0].dim[0], node->operand[0].dim[1], host};
  *state = made;
  return ORD_OK;
}

static ord_status relu_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const relu_state *relu = state;
  const float *in = exec->operand[0]; /* [rows, width] */
  float *out = exec->operand[1];      /* [rows, width] */
  const int64_t first = relu->rows * exec->chunk / exec->chunk_count * relu->width;
  const int64_t end = relu->rows * (exec->chunk + 1) / exec->chunk_count * relu->width;
  for (int64_t i = first; i < end; i++) out[i] = in[i] > 0 ? in[i] : 0;
  return ORD_OK;
}

static void relu_retire(void *state) {
  relu_state *relu = state;
  if (relu) relu->host->release(relu->host->context, relu);
}

static const ord_kernel relu = {.struct_size = sizeof relu,
                                .priority = 10,
                                .name = "relu_rows",
                                .op = "relu",
                                .query = relu_query,
                                .prepare = relu_prepare,
                                .launch = relu_launch,
                                .retire = relu_retire};
static const ord_kernel *const kernels[] = {&relu};
static const ord_plugin plugin = {.struct_size = sizeof plugin, .kernel_count = 1, .kernel = kernels};

ord_status ord_plugin_open(const ord_host *host, const ord_plugin **out, ord_plugin_error *err) {
  (void)host;
  (void)err;
  *out = &plugin;
  return ORD_OK;
}
