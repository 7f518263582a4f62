/* SPDX-License-Identifier: MIT
 *
 * Kernels that are wrong in one way each: a result that is off, a crash, an exit, a refusal without a reason, a prepare
 * that fails after query said yes, requests for more memory than any machine has. For the tests of `ordito kernel-test`
 * and of what a session says.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ordito_plugin.h"

const ord_manifest ord_plugin_manifest = {ORD_MANIFEST_HEAD, .name = "bad_kernels", .version = "1"};

static ord_status query_dense(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  (void)kernel;
  const ord_operand *in = &node->operand[0];
  int64_t stride = 4;
  for (uint32_t i = in->rank; i-- > 0; stride *= in->dim[i])
    if (in->dtype != ORD_F32 || in->stride[i] != stride || in->extent[i] != ORD_NONE) {
      snprintf(answer->reason, sizeof answer->reason, "wants dense f32 of fixed size");
      return ORD_NO;
    }
  answer->phase_count = 1;
  answer->chunk_limit[0] = 1;
  answer->epilogue_served = 0;
  return ORD_OK;
}

static ord_status query_silent(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  (void)kernel;
  (void)node;
  (void)answer;
  return ORD_NO;
}

static ord_status query_greedy(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  const uint64_t bytes = UINT64_C(1) << 62;
  if (strcmp(kernel->name, "gelu_scratch") == 0) answer->scratch_bytes = bytes;
  if (strcmp(kernel->name, "gelu_worker") == 0) answer->worker_bytes = bytes;
  if (strcmp(kernel->name, "gelu_persistent") == 0) answer->persistent_bytes = bytes;
  if (strcmp(kernel->name, "gelu_wrapping") == 0) answer->scratch_bytes = UINT64_MAX;
  return query_dense(kernel, node, answer);
}

static ord_status prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                          const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel;
  (void)answer;
  (void)host;
  (void)err;
  *state = (void *)(uintptr_t)node;
  return ORD_OK;
}

static ord_status prepare_fails(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                                const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel;
  (void)node;
  (void)answer;
  (void)host;
  (void)state;
  err->native = 7;
  snprintf(err->text, sizeof err->text, "the moon is in the wrong phase");
  return ORD_INTERNAL;
}

static ord_status prepare_lacks_memory(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                                       const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel;
  (void)node;
  (void)answer;
  (void)host;
  (void)state;
  (void)err;
  return ORD_NO_MEMORY;
}

/* Forgets the last element. */
static ord_status launch_wrong(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const ord_node *node = state;
  const float *in = exec->operand[0];
  float *out = exec->operand[ord_node_output(node, 0)];
  int64_t count = 1;
  for (uint32_t i = 0; i < node->operand[0].rank; i++) count *= node->operand[0].dim[i];
  for (int64_t i = 0; i < count - 1; i++) out[i] = in[i] > 0 ? in[i] : 0;
  return ORD_OK;
}

static ord_status launch_crashes(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)state;
  (void)exec;
  (void)err;
  __builtin_trap();
}

static ord_status launch_leaves(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)state;
  (void)exec;
  (void)err;
  _Exit(0);
}

static ord_status launch_fails(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)state;
  (void)exec;
  snprintf(err->text, sizeof err->text, "the loom broke");
  return ORD_INTERNAL;
}

static void retire(void *state) { (void)state; }

#define KERNEL(title, its_op, its_query, its_prepare, its_launch)                                                      \
  &(const ord_kernel) {                                                                                                \
    .struct_size = sizeof(ord_kernel), .priority = -100, .name = title, .op = its_op, .query = its_query,              \
    .prepare = its_prepare, .launch = its_launch, .retire = retire                                                     \
  }

static const ord_kernel *const kernels[] = {
    KERNEL("relu_wrong", "relu", query_dense, prepare, launch_wrong),
    KERNEL("tanh_silent", "tanh", query_silent, prepare, launch_wrong),
    KERNEL("sigmoid_unprepared", "sigmoid", query_dense, prepare_fails, launch_wrong),
    KERNEL("relu2_failing", "relu2", query_dense, prepare, launch_fails),
    KERNEL("silu_crashing", "silu", query_dense, prepare, launch_crashes),
    KERNEL("gelu_scratch", "gelu_erf", query_greedy, prepare, launch_wrong),
    KERNEL("gelu_worker", "gelu_erf", query_greedy, prepare, launch_wrong),
    KERNEL("gelu_persistent", "gelu_erf", query_greedy, prepare, launch_wrong),
    KERNEL("gelu_wrapping", "gelu_erf", query_greedy, prepare, launch_wrong),
    KERNEL("gelu_poor", "gelu_erf", query_dense, prepare_lacks_memory, launch_wrong),
    KERNEL("gelu_leaving", "gelu_tanh", query_dense, prepare, launch_leaves),
};

static const ord_plugin plugin = {
    .struct_size = sizeof plugin, .kernel_count = sizeof kernels / sizeof *kernels, .kernel = kernels};

ord_status ord_plugin_open(const ord_host *host, const ord_plugin **out, ord_plugin_error *err) {
  (void)host;
  (void)err;
  *out = &plugin;
  return ORD_OK;
}
