/* SPDX-License-Identifier: MIT
 *
 * Stands before the simulated cuBLAS: counts its living objects, and fails one call. For test_cublas.c, which sets
 * and reads the numbers.
 */
#include <dlfcn.h>
#include <stddef.h>

#pragma GCC visibility push(default)
#include <cublasLt.h>

extern int counting_live, counting_calls, counting_fail_at;
extern size_t counting_version; /* 0: the true one */
int counting_live, counting_calls, counting_fail_at;
size_t counting_version;

static void *find(const char *name) {
  void *library = dlopen(ORDITO_BUILD_DIRECTORY "/lib/libordito_simulated_cublas.so", RTLD_NOW | RTLD_LOCAL);
  return library ? dlsym(library, name) : NULL;
}

/* `change`: how many objects a successful call adds. */
#define COUNTED(name, change, parameters, arguments)                                                                   \
  cublasStatus_t cublasLt##name parameters {                                                                           \
    __typeof__(cublasLt##name) *const real = find("cublasLt" #name);                                                   \
    if (++counting_calls == counting_fail_at || !real) return CUBLAS_STATUS_INTERNAL_ERROR;                            \
    const cublasStatus_t status = real arguments;                                                                      \
    if (status == CUBLAS_STATUS_SUCCESS) counting_live += change;                                                      \
    return status;                                                                                                     \
  }

COUNTED(Create, 1, (cublasLtHandle_t * handle), (handle))
COUNTED(Destroy, -1, (cublasLtHandle_t handle), (handle))
COUNTED(MatrixLayoutCreate, 1,
        (cublasLtMatrixLayout_t * layout, cudaDataType type, uint64_t rows, uint64_t columns, int64_t stride),
        (layout, type, rows, columns, stride))
COUNTED(MatrixLayoutDestroy, -1, (cublasLtMatrixLayout_t layout), (layout))
COUNTED(MatmulDescCreate, 1, (cublasLtMatmulDesc_t * how, cublasComputeType_t compute, cudaDataType_t scale),
        (how, compute, scale))
COUNTED(MatmulDescDestroy, -1, (cublasLtMatmulDesc_t how), (how))
COUNTED(MatmulDescSetAttribute, 0,
        (cublasLtMatmulDesc_t how, cublasLtMatmulDescAttributes_t name, const void *value, size_t bytes),
        (how, name, value, bytes))
COUNTED(MatmulPreferenceCreate, 1, (cublasLtMatmulPreference_t * wanted), (wanted))
COUNTED(MatmulPreferenceDestroy, -1, (cublasLtMatmulPreference_t wanted), (wanted))
COUNTED(MatmulPreferenceSetAttribute, 0,
        (cublasLtMatmulPreference_t wanted, cublasLtMatmulPreferenceAttributes_t name, const void *value, size_t bytes),
        (wanted, name, value, bytes))
COUNTED(MatmulAlgoGetHeuristic, 0,
        (cublasLtHandle_t handle, cublasLtMatmulDesc_t how, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
         cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t wanted, int most,
         cublasLtMatmulHeuristicResult_t *found, int *count),
        (handle, how, a, b, c, d, wanted, most, found, count))
COUNTED(Matmul, 0,
        (cublasLtHandle_t handle, cublasLtMatmulDesc_t how, const void *alpha, const void *a,
         cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,
         const void *c, cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
         const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t bytes, cudaStream_t stream),
        (handle, how, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout, algorithm, workspace, bytes,
         stream))

size_t cublasLtGetVersion(void) { return counting_version ? counting_version : CUBLAS_VERSION; }
const char *cublasLtGetStatusString(cublasStatus_t status) {
  __typeof__(cublasLtGetStatusString) *const real = find("cublasLtGetStatusString");
  return real ? real(status) : "";
}
