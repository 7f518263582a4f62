// SPDX-License-Identifier: MIT
// Descriptors: created with the defaults of cublasLt.h, and changed one attribute at a time. What the library knows no
// other value of has no attribute here.
#include <cstring>
#include <new>

#include "blas.h"

namespace simulated_blas {

// Sets an attribute that is stored as it is given.
template <typename Value> static cublasStatus_t assign(Value &attribute, const void *value, size_t bytes) {
  if (!value || bytes != sizeof attribute) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(&attribute, value, sizeof attribute);
  return CUBLAS_STATUS_SUCCESS;
}

template <typename Object, typename Opaque> static cublasStatus_t create(const Object &content, Opaque **made) {
  if (!made) return CUBLAS_STATUS_INVALID_VALUE;
  auto *object = new (std::nothrow) Object(content);
  if (!object) return CUBLAS_STATUS_ALLOC_FAILED;
  object->magic = Object::magic_of_kind;
  *made = reinterpret_cast<Opaque *>(object);
  return CUBLAS_STATUS_SUCCESS;
}

template <typename Object, typename Opaque> static cublasStatus_t destroy(Opaque *opaque) {
  if (!opaque) return CUBLAS_STATUS_SUCCESS;
  auto *object = open<Object>(opaque);
  if (!object) return CUBLAS_STATUS_INVALID_VALUE;
  object->magic = 0;
  delete object;
  return CUBLAS_STATUS_SUCCESS;
}

} // namespace simulated_blas

using namespace simulated_blas;

extern "C" {

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *made, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t stride) {
  return create(layout{0, type, rows, columns, stride}, made);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t which) { return destroy<layout>(which); }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *made, cublasComputeType_t compute, cudaDataType_t scale) {
  return create(operation{0, compute, scale, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, nullptr}, made);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t which) { return destroy<operation>(which); }

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t which, cublasLtMatmulDescAttributes_t name,
                                              const void *value, size_t bytes) {
  auto *how = open<operation>(which);
  if (!how) return CUBLAS_STATUS_INVALID_VALUE;
  switch (name) {
  case CUBLASLT_MATMUL_DESC_TRANSA:
    return assign(how->transpose_a, value, bytes);
  case CUBLASLT_MATMUL_DESC_TRANSB:
    return assign(how->transpose_b, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE:
    return assign(how->epilogue, value, bytes);
  case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    return assign(how->bias, value, bytes);
  default:
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *made) {
  return create(preference{0, 0, {256, 256, 256, 256}}, made);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t which) { return destroy<preference>(which); }

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t which,
                                                    cublasLtMatmulPreferenceAttributes_t name, const void *value,
                                                    size_t bytes) {
  auto *wanted = open<preference>(which);
  if (!wanted) return CUBLAS_STATUS_INVALID_VALUE;
  switch (name) {
  case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
    return assign(wanted->workspace_bytes, value, bytes);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    return assign(wanted->alignment[0], value, bytes);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    return assign(wanted->alignment[1], value, bytes);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    return assign(wanted->alignment[2], value, bytes);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
    return assign(wanted->alignment[3], value, bytes);
  default:
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}
}
