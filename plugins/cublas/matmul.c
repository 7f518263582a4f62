/* SPDX-License-Identifier: MIT
 *
 * matmul through cuBLASLt: query and pack look at the node alone; prepare opens the library and has it choose an
 * algorithm; launch converts the input if need be and makes the library's one call. Each state has a handle of its own.
 * The library would let states of all sessions share one, as it is bound to no stream and any thread may use it; but
 * nothing of a plugin lives as long as a device, but for static variables, which would tie two contexts together.
 */
#include "matmul.h"

#include <stdio.h>

#include "cast.h"
#include "library.h"
#include "product.h"

/* The cast, and what an algorithm may put on the stream for one product: clearing, slices, their sum. */
enum { WORK_PIECES = 4 };

typedef struct matmul_state {
  const ord_host *host;
  product product;
  library library;
  cublasLtHandle_t handle;
  cublasLtMatmulDesc_t operation;
  cublasLtMatrixLayout_t weight, in, out, residual;
  cublasLtMatmulAlgo_t algorithm;
  void *cast; /* the kernel, or NULL */
} matmul_state;

static const char *type_name(const product *made) {
  if (made->in.type == ORD_F32) return made->is_tf32 ? "tf32" : "f32";
  return made->in.type == ORD_BF16 ? "bf16" : "f16";
}

static ord_status matmul_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  (void)kernel;
  product made;
  const ord_status status = product_read(node, &made, answer->reason);
  if (status != ORD_OK) return status;
  answer->flags = ORD_RUNS_LIBRARY;
  answer->phase_count = WORK_PIECES;
  answer->scratch_bytes = WORKSPACE_ALIGNMENT - 1 + made.workspace_bytes + made.cast_bytes;
  answer->epilogue_served = made.epilogue_served;
  answer->pack[made.weight.which] = made.weight_pack;
  if (made.bias != ORD_NONE) answer->pack[made.bias] = made.bias_pack;
  if (made.residual.which < 32) answer->alias_mask = UINT32_C(1) << made.residual.which;
  snprintf(answer->variant, sizeof answer->variant, "cublasLt %s%s, all %lld rows of the plan", type_name(&made),
           made.has_cast ? " of f32" : "", (long long)made.rows);
  return ORD_OK;
}

/* ---- prepare ---- */

static void matmul_retire(void *state) {
  matmul_state *made = state;
  if (!made) return;
  const library *opened = &made->library;
  const cublasLtMatrixLayout_t layout[] = {made->weight, made->in, made->out, made->residual};
  for (size_t i = 0; i < sizeof layout / sizeof *layout; i++)
    if (layout[i]) (void)opened->MatrixLayoutDestroy(layout[i]);
  if (made->operation) (void)opened->MatmulDescDestroy(made->operation);
  if (made->handle) (void)opened->Destroy(made->handle);
  library_close(&made->library);
  made->host->release(made->host->context, made);
}

static cudaDataType_t library_type(uint16_t type) {
  return type == ORD_F32 ? CUDA_R_32F : type == ORD_BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

static ord_status describe_matrix(const library *opened, const matrix *one, cublasLtMatrixLayout_t *out,
                                  ord_plugin_error *err) {
  const int64_t rows = one->is_turned ? one->count : one->length;
  const int64_t columns = one->is_turned ? one->length : one->count;
  const cublasStatus_t status =
      opened->MatrixLayoutCreate(out, library_type(one->type), (uint64_t)rows, (uint64_t)columns, one->stride);
  return library_check(opened, status, "MatrixLayoutCreate", err);
}

static ord_status set_operation(const matmul_state *made, cublasLtMatmulDescAttributes_t name, const void *value,
                                size_t bytes, ord_plugin_error *err) {
  const cublasStatus_t status = made->library.MatmulDescSetAttribute(made->operation, name, value, bytes);
  return library_check(&made->library, status, "MatmulDescSetAttribute", err);
}

/* Of the bias only its alignment counts before launch, and the library reads it off an address. */
static ord_status describe_bias(const matmul_state *made, ord_plugin_error *err) {
  const uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
  const void *address = (const void *)(uintptr_t)made->product.bias_alignment;
  const ord_status status = set_operation(made, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue, err);
  if (status != ORD_OK) return status;
  return set_operation(made, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &address, sizeof address, err);
}

static ord_status describe(matmul_state *made, ord_plugin_error *err) {
  const library *opened = &made->library;
  const product *asked = &made->product;
  const int32_t of_weight = asked->weight.is_turned ? CUBLAS_OP_N : CUBLAS_OP_T;
  const int32_t of_in = asked->in.is_turned ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasComputeType_t compute = asked->is_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  ord_status status =
      library_check(opened, opened->MatmulDescCreate(&made->operation, compute, CUDA_R_32F), "MatmulDescCreate", err);
  if (status == ORD_OK) status = set_operation(made, CUBLASLT_MATMUL_DESC_TRANSA, &of_weight, sizeof of_weight, err);
  if (status == ORD_OK) status = set_operation(made, CUBLASLT_MATMUL_DESC_TRANSB, &of_in, sizeof of_in, err);
  if (status == ORD_OK && asked->bias != ORD_NONE) status = describe_bias(made, err);
  if (status == ORD_OK) status = describe_matrix(opened, &asked->weight, &made->weight, err);
  if (status == ORD_OK) status = describe_matrix(opened, &asked->in, &made->in, err);
  if (status == ORD_OK) status = describe_matrix(opened, &asked->out, &made->out, err);
  if (status == ORD_OK && asked->residual.which != ORD_NONE)
    status = describe_matrix(opened, &asked->residual, &made->residual, err);
  return status;
}

/* The library's defaults are no workspace, and matrices that are aligned to 256 bytes. */
static ord_status set_preference(const matmul_state *made, cublasLtMatmulPreference_t preference,
                                 ord_plugin_error *err) {
  const product *asked = &made->product;
  const library *opened = &made->library;
  const uint32_t of_residual = asked->residual.which == ORD_NONE ? asked->out.alignment : asked->residual.alignment;
  const struct {
    cublasLtMatmulPreferenceAttributes_t name;
    const void *value;
    size_t bytes;
  } item[] = {
      {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &asked->workspace_bytes, sizeof asked->workspace_bytes},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &asked->weight.alignment, sizeof(uint32_t)},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &asked->in.alignment, sizeof(uint32_t)},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &of_residual, sizeof(uint32_t)},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &asked->out.alignment, sizeof(uint32_t)},
  };
  for (size_t i = 0; i < sizeof item / sizeof *item; i++) {
    const cublasStatus_t status =
        opened->MatmulPreferenceSetAttribute(preference, item[i].name, item[i].value, item[i].bytes);
    if (status != CUBLAS_STATUS_SUCCESS) return library_check(opened, status, "MatmulPreferenceSetAttribute", err);
  }
  return ORD_OK;
}

/* The first algorithm that the library proposes, for good. */
static ord_status choose(matmul_state *made, ord_plugin_error *err) {
  const library *opened = &made->library;
  cublasLtMatmulPreference_t preference;
  cublasLtMatmulHeuristicResult_t found = {.state = CUBLAS_STATUS_NOT_SUPPORTED};
  int count = 0;
  ord_status status = library_check(opened, opened->MatmulPreferenceCreate(&preference), "MatmulPreferenceCreate", err);
  if (status != ORD_OK) return status;
  status = set_preference(made, preference, err);
  if (status == ORD_OK) {
    const cublasStatus_t answer = opened->MatmulAlgoGetHeuristic(made->handle, made->operation, made->weight, made->in,
                                                                 made->residual ? made->residual : made->out, made->out,
                                                                 preference, 1, &found, &count);
    status = library_check(opened, answer, "MatmulAlgoGetHeuristic", err);
  }
  (void)opened->MatmulPreferenceDestroy(preference);
  if (status == ORD_OK) status = library_check(opened, found.state, "MatmulAlgoGetHeuristic", err);
  made->algorithm = found.algo;
  return status;
}

static ord_status matmul_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                                 const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel, (void)answer;
  char reason[sizeof answer->reason];
  matmul_state *made = host->allocate(host->context, sizeof *made, _Alignof(matmul_state));
  if (!made) {
    snprintf(err->text, sizeof err->text, "out of memory");
    return ORD_NO_MEMORY;
  }
  *made = (matmul_state){.host = host};
  ord_status status = product_read(node, &made->product, reason);
  if (status == ORD_OK) status = library_open(host, &made->library, err);
  if (status == ORD_OK) status = library_check(&made->library, made->library.Create(&made->handle), "Create", err);
  if (status == ORD_OK) status = describe(made, err);
  if (status == ORD_OK) status = choose(made, err);
  if (status == ORD_OK && made->product.has_cast)
    status = host->image_kernel(host->context, "cast", made->product.in.type == ORD_BF16 ? "cast_bf16" : "cast_f16", 0,
                                &made->cast, err);
  if (status == ORD_OK)
    *state = made;
  else
    matmul_retire(made);
  return status;
}

/* ---- launch ---- */

static ord_status cast_input(const matmul_state *made, const ord_exec *exec, void *into, ord_plugin_error *err) {
  const product *asked = &made->product;
  const cast_arguments argument = {
      .in = exec->operand[asked->in.which],
      .out = into,
      .rows = asked->rows,
      .width = asked->depth,
      .in_row_stride = asked->cast_row_stride,
      .in_number_stride = asked->cast_number_stride,
      .out_stride = asked->in.stride,
      .has_vectors = asked->cast_number_stride == 1 && asked->cast_row_stride % 4 == 0 &&
                     (uintptr_t)exec->operand[asked->in.which] % 16 == 0,
  };
  const int64_t threads = asked->rows * (asked->in.stride / CAST_GROUP);
  const void *arguments[] = {&argument};
  const uint32_t bytes[] = {sizeof argument};
  const ord_gpu_launch launch = {
      .argument_count = 1,
      .flags = ORD_LAUNCH_DEPENDENT,
      .kernel = made->cast,
      .grid = {(uint32_t)((threads + CAST_THREADS - 1) / CAST_THREADS), 1, 1},
      .block = {CAST_THREADS, 1, 1},
      .argument = arguments,
      .argument_bytes = bytes,
  };
  return made->host->gpu_launch(made->host->context, exec->stream, &launch, err);
}

static ord_status matmul_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  const matmul_state *made = state;
  const product *asked = &made->product;
  const float alpha = 1.0f, beta = asked->residual.which == ORD_NONE ? 0.0f : 1.0f;
  const uintptr_t scratch = (uintptr_t)exec->scratch;
  char *workspace = (char *)exec->scratch + (WORKSPACE_ALIGNMENT - scratch % WORKSPACE_ALIGNMENT) % WORKSPACE_ALIGNMENT;
  void *in = asked->has_cast ? workspace + asked->workspace_bytes : exec->operand[asked->in.which];
  void *out = exec->operand[asked->out.which];
  const void *residual = made->residual ? exec->operand[asked->residual.which] : out;
  ord_status status = asked->has_cast ? cast_input(made, exec, in, err) : ORD_OK;
  if (status == ORD_OK && asked->bias != ORD_NONE)
    status = set_operation(made, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &exec->operand[asked->bias], sizeof(void *), err);
  if (status != ORD_OK) return status;
  return library_check(&made->library,
                       made->library.Matmul(made->handle, made->operation, &alpha, exec->operand[asked->weight.which],
                                            made->weight, in, made->in, &beta, residual,
                                            made->residual ? made->residual : made->out, out, made->out,
                                            &made->algorithm, workspace, asked->workspace_bytes, exec->stream->handle),
                       "Matmul", err);
}

/* For more than eight rows: cuda_core's kernels for few rows have a higher priority, those for any a lower one. */
const ord_kernel matmul_cublas = {
    .struct_size = sizeof matmul_cublas,
    .priority = 10,
    .device = ORD_DEVICE_CUDA,
    .name = "matmul_cublas",
    .op = "matmul",
    .query = matmul_query,
    .pack = product_pack,
    .prepare = matmul_prepare,
    .launch = matmul_launch,
    .retire = matmul_retire,
};
