// SPDX-License-Identifier: MIT
// The simulated cuBLASLt: what its opaque objects hold, and the algorithms that it knows. Descriptors belong to one
// thread at a time, as the real ones do; handles may be used by several.
#ifndef SIMULATOR_BLAS_H
#define SIMULATOR_BLAS_H

#pragma GCC visibility push(default) // the calls are all that the library exports
#include <cublasLt.h>
#pragma GCC visibility pop

#include <cstddef>
#include <cstdint>

namespace simulated_blas {

// What the opaque pointers of cublasLt.h point to. The magic tells one kind from another.
struct layout {
  static constexpr uint32_t magic_of_kind = 0x4c594f54;
  uint32_t magic;
  cudaDataType_t type;
  uint64_t rows, columns;
  int64_t stride; // from column to column, in elements
};

struct operation {
  static constexpr uint32_t magic_of_kind = 0x4f504552;
  uint32_t magic;
  cublasComputeType_t compute;
  cudaDataType_t scale;
  int32_t transpose_a, transpose_b;
  uint32_t epilogue;
  const void *bias;
};

struct preference {
  static constexpr uint32_t magic_of_kind = 0x50524546;
  uint32_t magic;
  uint64_t workspace_bytes;
  uint32_t alignment[4]; // of A, B, C, D
};

// The object behind an opaque pointer, null where it is another kind or none.
template <typename Object, typename Opaque> Object *open(Opaque *opaque) {
  auto *object = reinterpret_cast<Object *>(opaque);
  return object && object->magic == Object::magic_of_kind ? object : nullptr;
}

// What an algorithm that was chosen is kept as: it fits one product only, as the real ones do.
struct algorithm {
  static constexpr uint32_t magic_of_kind = 0x414c474f;
  uint32_t magic, number;
  cublasComputeType_t compute;
  cudaDataType_t input, output;
  uint64_t m, n, k;
};
static_assert(sizeof(algorithm) <= sizeof(cublasLtMatmulAlgo_t), "it lies in the caller's memory");

struct algorithm_kind {
  uint32_t slices;           // of the sum, each computed by itself; their results meet in the workspace
  uint32_t factor_alignment; // in bytes, of A and B and of their columns; 0: that of an element
  uint32_t result_alignment; // the same of C and D
  uint64_t least_depth;      // it is not proposed for shorter sums
};
constexpr algorithm_kind algorithm_kinds[] = {{4, 16, 0, 64}, {1, 16, 16, 0}, {1, 0, 0, 0}}; // the fastest first
constexpr uint32_t algorithm_count = sizeof algorithm_kinds / sizeof *algorithm_kinds;
constexpr uintptr_t workspace_alignment = 256;

// D [m, n] = alpha op(A) [m, k] op(B) [k, n] + beta C [m, n] (+ bias [m] to each column).
struct product {
  const operation *how;
  const layout *a, *b, *c, *d;
  uint64_t m, n, k;
};

bool is_live(cublasLtHandle_t handle);

size_t element_bytes(cudaDataType_t type);

// Fills `made`; fails where the descriptors contradict each other or no algorithm knows such a product.
cublasStatus_t describe(cublasLtMatmulDesc_t how, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                        cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, product &made);

uint64_t workspace_bytes(const product &asked, const algorithm_kind &kind);

// Can it work on matrices of which each column is so aligned as address and layout tell?
bool suits(const product &asked, const algorithm_kind &kind, const uint64_t (&alignment)[4]);

} // namespace simulated_blas

#endif
