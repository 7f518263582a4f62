/* SPDX-License-Identifier: MIT
 *
 * A matmul whose launch is one library call on the stream: one phase, one chunk, a workspace that lives as long as the
 * node, no epilogue. The handle is made in prepare, since making one allocates. It exists to prove that the ABI fits
 * libraries such as cuBLAS.
 */
#include <stdio.h>

#include "gemm_library.h"
#include "ordito_plugin.h"

/* query may not call the library, so the workspace is asked for as the library's manual says. */
enum { WORKSPACE_BYTES = 256 };

typedef struct library_state {
  const ord_node *node;
  const ord_host *host;
  const gemm_library *library;
  void *handle;
} library_state;

static ord_status library_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  (void)kernel;
  const ord_operand *in = &node->operand[ord_node_find(node, "in")];
  const uint32_t weight = ord_node_find(node, "weight");
  if (node->device->kind != ORD_DEVICE_CUDA) {
    snprintf(answer->reason, sizeof answer->reason, "no device: found kind %u; wanted CUDA (%d)", node->device->kind,
             ORD_DEVICE_CUDA);
    return ORD_NO;
  }
  if (weight == ORD_NONE || node->operand[weight].dtype != ORD_F32 || in->dtype != ORD_F32 || in->rank != 2 ||
      ord_node_find(node, "bias") != ORD_NONE) {
    snprintf(answer->reason, sizeof answer->reason, "wanted in [m, k] and weight [n, k], both f32, and no bias");
    return ORD_NO;
  }
  answer->flags = ORD_RUNS_LIBRARY;
  answer->phase_count = 1;
  answer->chunk_limit[0] = 1;
  answer->persistent_bytes = WORKSPACE_BYTES;
  answer->epilogue_served = 0;
  snprintf(answer->variant, sizeof answer->variant, "library");
  return ORD_OK;
}

static void library_retire(void *state) {
  library_state *made = state;
  if (!made) return;
  if (made->handle) made->library->destroy(made->handle);
  made->host->release(made->host->context, made);
}

static ord_status library_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                                  const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel, (void)answer;
  const gemm_library *library = host->find ? host->find(host->context, "library.gemm@1") : NULL;
  if (!library || library->workspace_bytes > WORKSPACE_BYTES) {
    snprintf(err->text, sizeof err->text, "library.gemm@1 is %s; wanted one with a workspace of at most %d bytes",
             library ? "too hungry" : "absent", WORKSPACE_BYTES);
    return ORD_DEVICE_FAILED;
  }
  library_state *made = host->allocate(host->context, sizeof *made, _Alignof(library_state));
  if (!made) {
    snprintf(err->text, sizeof err->text, "out of memory");
    return ORD_NO_MEMORY;
  }
  *made = (library_state){node, host, library, library->create()};
  if (!made->handle) {
    library_retire(made);
    snprintf(err->text, sizeof err->text, "the library made no handle");
    return ORD_DEVICE_FAILED;
  }
  *state = made;
  return ORD_OK;
}

static int64_t row_floats(const ord_node *node, uint32_t which) {
  return node->operand[which].stride[0] / (int64_t)sizeof(float);
}

static ord_status library_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  const library_state *made = state;
  const ord_node *node = made->node;
  const uint32_t in = ord_node_find(node, "in"), weight = ord_node_find(node, "weight");
  const uint32_t out = ord_node_output(node, 0);
  const gemm_problem problem = {
      .m = node->operand[in].dim[0], /* of the plan: the host may not read lengths that lie on the device */
      .n = node->operand[weight].dim[0],
      .k = node->operand[in].dim[1],
      .a = exec->operand[in],
      .b = exec->operand[weight],
      .c = exec->operand[out],
      .a_stride = row_floats(node, in),
      .b_stride = row_floats(node, weight),
      .c_stride = row_floats(node, out),
  };
  err->native =
      made->library->multiply(made->handle, exec->stream ? exec->stream->handle : NULL, exec->persistent, &problem);
  if (err->native == 0) return ORD_OK;
  snprintf(err->text, sizeof err->text, "the library refused the product");
  return ORD_DEVICE_FAILED;
}

static const ord_kernel cublas_shape = {
    .struct_size = sizeof cublas_shape,
    .name = "cublas_shape",
    .op = "matmul",
    .device = ORD_DEVICE_CUDA,
    .query = library_query,
    .prepare = library_prepare,
    .launch = library_launch,
    .retire = library_retire,
};

static const ord_kernel *const kernels[] = {&cublas_shape};
static const ord_plugin plugin_table = {.struct_size = sizeof plugin_table, .kernel_count = 1, .kernel = kernels};

const ord_manifest ord_plugin_manifest = {
    ORD_MANIFEST_HEAD,
    .flags = ORD_PLUGIN_UNLOADABLE,
    .name = "cublas_shape",
    .version = "0.1.0",
};

ord_status ord_plugin_open(const ord_host *host, const ord_plugin **plugin, ord_plugin_error *err) {
  (void)host, (void)err;
  *plugin = &plugin_table;
  return ORD_OK;
}
