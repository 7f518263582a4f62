// SPDX-License-Identifier: MIT
// Which products there are, and which algorithms suit one.
#include <algorithm>
#include <cstring>

#include "blas.h"

namespace simulated_blas {

size_t element_bytes(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : 2; }

// The combinations of NVIDIA's table that this library knows: products of f32, bf16 or f16, those of f32 in tf32 too,
// summed in f32.
static bool exists(const operation &how, cudaDataType_t input, cudaDataType_t output) {
  const bool is_tf32 = how.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && input == CUDA_R_32F;
  if ((how.compute != CUBLAS_COMPUTE_32F && !is_tf32) || how.scale != CUDA_R_32F) return false;
  if (input != CUDA_R_32F && input != CUDA_R_16BF && input != CUDA_R_16F) return false;
  return output == CUDA_R_32F || output == input;
}

static bool is_operation(int32_t transpose) { return transpose == CUBLAS_OP_N || transpose == CUBLAS_OP_T; }

cublasStatus_t describe(cublasLtMatmulDesc_t how, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                        cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, product &made) {
  made = {open<operation>(how), open<layout>(a), open<layout>(b), open<layout>(c), open<layout>(d), 0, 0, 0};
  if (!made.how || !made.a || !made.b || !made.c || !made.d) return CUBLAS_STATUS_INVALID_VALUE;
  for (const layout *one : {made.a, made.b, made.c, made.d})
    if (!one->rows || !one->columns || one->rows > INT32_MAX || one->columns > INT32_MAX ||
        one->stride < static_cast<int64_t>(one->rows))
      return CUBLAS_STATUS_INVALID_VALUE;
  if (!is_operation(made.how->transpose_a) || !is_operation(made.how->transpose_b)) return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool turns_a = made.how->transpose_a == CUBLAS_OP_T, turns_b = made.how->transpose_b == CUBLAS_OP_T;
  made.m = made.d->rows;
  made.n = made.d->columns;
  made.k = turns_a ? made.a->rows : made.a->columns;
  if ((turns_a ? made.a->columns : made.a->rows) != made.m || (turns_b ? made.b->columns : made.b->rows) != made.k ||
      (turns_b ? made.b->rows : made.b->columns) != made.n || made.c->rows != made.m || made.c->columns != made.n)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (made.a->type != made.b->type || made.c->type != made.d->type || !exists(*made.how, made.a->type, made.d->type))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (made.how->epilogue != CUBLASLT_EPILOGUE_DEFAULT && made.how->epilogue != CUBLASLT_EPILOGUE_BIAS)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_SUCCESS;
}

uint64_t workspace_bytes(const product &asked, const algorithm_kind &kind) {
  return kind.slices > 1 ? asked.m * asked.n * kind.slices * sizeof(float) : 0;
}

// Where each column begins, if there is more than one.
static uint64_t column_alignment(const layout &matrix, uint64_t address_alignment) {
  const uint64_t step = static_cast<uint64_t>(matrix.stride) * element_bytes(matrix.type);
  const uint64_t of_step = step & (~step + 1);
  return matrix.columns > 1 ? std::min(of_step, address_alignment) : address_alignment;
}

bool suits(const product &asked, const algorithm_kind &kind, const uint64_t (&alignment)[4]) {
  const layout *matrix[] = {asked.a, asked.b, asked.c, asked.d};
  for (int i = 0; i < 4; i++) {
    const uint64_t wanted = i < 2 ? kind.factor_alignment : kind.result_alignment;
    if (column_alignment(*matrix[i], alignment[i]) < std::max<uint64_t>(wanted, element_bytes(matrix[i]->type)))
      return false;
  }
  return true;
}

} // namespace simulated_blas

using namespace simulated_blas;

extern "C" cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t how,
                                                         cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                         cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                         cublasLtMatmulPreference_t wanted, int most,
                                                         cublasLtMatmulHeuristicResult_t *found, int *count) {
  product asked;
  if (!is_live(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  const auto *limits = open<preference>(wanted);
  if (!limits || most < 1 || !found || !count) return CUBLAS_STATUS_INVALID_VALUE;
  *count = 0;
  const cublasStatus_t status = describe(how, a, b, c, d, asked);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const uint64_t alignment[] = {limits->alignment[0], limits->alignment[1], limits->alignment[2], limits->alignment[3]};
  for (uint32_t number = 0; number < algorithm_count && *count < most; number++) {
    const algorithm_kind &kind = algorithm_kinds[number];
    const uint64_t bytes = workspace_bytes(asked, kind);
    if (bytes > limits->workspace_bytes || asked.k < kind.least_depth || !suits(asked, kind, alignment)) continue;
    const algorithm chosen = {
        algorithm::magic_of_kind, number, asked.how->compute, asked.a->type, asked.d->type, asked.m, asked.n, asked.k};
    cublasLtMatmulHeuristicResult_t &result = found[(*count)++];
    result = {};
    memcpy(&result.algo, &chosen, sizeof chosen);
    result.workspaceSize = bytes;
    result.state = CUBLAS_STATUS_SUCCESS;
    result.wavesCount = 1.0f;
  }
  return *count ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}
