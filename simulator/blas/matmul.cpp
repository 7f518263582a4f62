// SPDX-License-Identifier: MIT
// Handles and products. An algorithm's kernels are loaded when it first runs, which a capture does not allow; nothing
// here but create, destroy and that loading may wait for the device.
#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <tuple>
#include <unordered_set>

#include "blas.h"
#include "driver_calls.h"
#include "gemm.h"

namespace simulated_blas {

struct loaded_kernels {
  CUlibrary library;
  CUkernel multiply, multiply_slices, add_slices;
};

using algorithm_key = std::tuple<uint32_t, cublasComputeType_t, cudaDataType_t, cudaDataType_t>;

struct live_handles {
  std::mutex guard;
  std::unordered_set<cublasLtHandle_t> handles;
};

static live_handles &live() {
  static auto *made = new live_handles; // a handle may be destroyed when the process ends
  return *made;
}

bool is_live(cublasLtHandle_t handle) {
  std::lock_guard<std::mutex> held(live().guard);
  return live().handles.count(handle) != 0;
}

// The runtime inside the real library takes device 0's context where none is current, and works on the wrong one.
static bool has_context(const driver_calls *driver) {
  CUcontext context = nullptr;
  return driver && driver->get_current(&context) == CUDA_SUCCESS && context;
}

static cublasStatus_t status_of(CUresult code) {
  if (code == CUDA_SUCCESS) return CUBLAS_STATUS_SUCCESS;
  return code == CUDA_ERROR_OUT_OF_MEMORY ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_EXECUTION_FAILED;
}

static CUresult load(loaded_kernels &made) {
  const driver_calls *driver = find_driver();
  CUresult code = driver->load(&made.library, simulated_blas_image, nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (code == CUDA_SUCCESS) code = driver->get_kernel(&made.multiply, made.library, "multiply");
  if (code == CUDA_SUCCESS) code = driver->get_kernel(&made.multiply_slices, made.library, "multiply_slices");
  if (code == CUDA_SUCCESS) code = driver->get_kernel(&made.add_slices, made.library, "add_slices");
  return code;
}

static CUresult launch(CUkernel kernel, uint64_t threads, gemm &argument, CUstream stream) {
  constexpr uint64_t block = 256;
  CUlaunchConfig config = {};
  config.gridDimX = static_cast<unsigned>((threads + block - 1) / block);
  config.blockDimX = block;
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream;
  void *arguments[] = {&argument};
  return find_driver()->launch(&config, reinterpret_cast<CUfunction>(kernel), arguments, nullptr);
}

static number_type number_of(cudaDataType_t type) {
  return type == CUDA_R_16BF ? number_bf16 : type == CUDA_R_16F ? number_f16 : number_f32;
}

static uint64_t alignment_of(const void *address) {
  const auto bits = reinterpret_cast<uintptr_t>(address);
  return bits & (~bits + 1);
}

static bool is_for(const algorithm &chosen, const product &asked) {
  return chosen.magic == algorithm::magic_of_kind && chosen.number < algorithm_count &&
         chosen.compute == asked.how->compute && chosen.input == asked.a->type && chosen.output == asked.d->type &&
         chosen.m == asked.m && chosen.n == asked.n && chosen.k == asked.k;
}

// What a call gives beside the descriptors.
struct places {
  const void *a, *b, *c;
  void *d, *workspace;
  size_t workspace_bytes;
  float alpha, beta;
};

static cublasStatus_t check(const product &asked, const algorithm &chosen, const places &given) {
  if (!is_for(chosen, asked)) return CUBLAS_STATUS_INVALID_VALUE;
  const algorithm_kind &kind = algorithm_kinds[chosen.number];
  if (given.workspace_bytes && reinterpret_cast<uintptr_t>(given.workspace) % workspace_alignment)
    return CUBLAS_STATUS_INVALID_VALUE;
  const uint64_t needed = workspace_bytes(asked, kind);
  if (needed && (!given.workspace || given.workspace_bytes < needed)) return CUBLAS_STATUS_INVALID_VALUE;
  if (given.c == given.d && asked.c->stride != asked.d->stride) return CUBLAS_STATUS_INVALID_VALUE;
  if (asked.how->epilogue == CUBLASLT_EPILOGUE_BIAS &&
      alignment_of(asked.how->bias) < element_bytes(asked.d->type)) // of null too
    return CUBLAS_STATUS_INVALID_VALUE;
  const uint64_t alignment[] = {alignment_of(given.a), alignment_of(given.b), alignment_of(given.c),
                                alignment_of(given.d)};
  return suits(asked, kind, alignment) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

static gemm argument_of(const product &asked, const algorithm_kind &kind, const places &given) {
  gemm made = {};
  made.a = given.a;
  made.b = given.b;
  made.c = given.c;
  made.d = given.d;
  made.bias = asked.how->epilogue == CUBLASLT_EPILOGUE_BIAS ? asked.how->bias : nullptr;
  made.workspace = static_cast<float *>(given.workspace);
  made.a_stride = asked.a->stride;
  made.b_stride = asked.b->stride;
  made.c_stride = asked.c->stride;
  made.d_stride = asked.d->stride;
  made.m = static_cast<long long>(asked.m);
  made.n = static_cast<long long>(asked.n);
  made.k = static_cast<long long>(asked.k);
  made.slices = static_cast<int>(kind.slices);
  made.turns_a = asked.how->transpose_a == CUBLAS_OP_T;
  made.turns_b = asked.how->transpose_b == CUBLAS_OP_T;
  made.input = asked.how->compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? number_tf32 : number_of(asked.a->type);
  made.output = number_of(asked.d->type);
  made.alpha = given.alpha;
  made.beta = given.beta;
  return made;
}

} // namespace simulated_blas

using namespace simulated_blas;

struct cublasLtContext {
  std::mutex guard;
  CUlibrary library = nullptr; // creating a handle loads code too
  std::map<algorithm_key, loaded_kernels> loaded;
};

namespace simulated_blas {

static CUresult find_kernels(cublasLtHandle_t handle, const algorithm &chosen, loaded_kernels &found) {
  std::lock_guard<std::mutex> held(handle->guard);
  const algorithm_key key = {chosen.number, chosen.compute, chosen.input, chosen.output};
  const auto known = handle->loaded.find(key);
  if (known != handle->loaded.end()) {
    found = known->second;
    return CUDA_SUCCESS;
  }
  const CUresult code = load(found);
  if (code == CUDA_SUCCESS) handle->loaded[key] = found;
  return code;
}

static cublasStatus_t multiply(cublasLtHandle_t handle, const product &asked, const algorithm &chosen,
                               const places &given, CUstream stream) {
  loaded_kernels kernels;
  CUresult code = find_kernels(handle, chosen, kernels);
  const algorithm_kind &kind = algorithm_kinds[chosen.number];
  gemm argument = argument_of(asked, kind, given);
  if (code == CUDA_SUCCESS && kind.slices == 1) code = launch(kernels.multiply, asked.m * asked.n, argument, stream);
  if (code == CUDA_SUCCESS && kind.slices > 1)
    code = launch(kernels.multiply_slices, asked.m * asked.n * kind.slices, argument, stream);
  if (code == CUDA_SUCCESS && kind.slices > 1) code = launch(kernels.add_slices, asked.m * asked.n, argument, stream);
  return status_of(code);
}

} // namespace simulated_blas

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t *made) {
  if (!made) return CUBLAS_STATUS_INVALID_VALUE;
  *made = nullptr;
  if (!has_context(find_driver())) return CUBLAS_STATUS_NOT_INITIALIZED;
  auto *handle = new (std::nothrow) cublasLtContext;
  if (!handle) return CUBLAS_STATUS_ALLOC_FAILED;
  loaded_kernels first;
  const CUresult code = load(first);
  if (code != CUDA_SUCCESS) {
    delete handle;
    return status_of(code);
  }
  handle->library = first.library;
  std::lock_guard<std::mutex> held(live().guard);
  live().handles.insert(*made = handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  {
    std::lock_guard<std::mutex> held(live().guard);
    if (!live().handles.erase(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  const driver_calls *driver = find_driver();
  CUresult code = driver->synchronize();
  for (const auto &[key, kernels] : handle->loaded) driver->unload(kernels.library);
  driver->unload(handle->library);
  delete handle;
  return status_of(code);
}

size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

const char *cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
  case CUBLAS_STATUS_SUCCESS:
    return "simulated cuBLAS: success";
  case CUBLAS_STATUS_NOT_INITIALIZED:
    return "simulated cuBLAS: no such handle, or no current context";
  case CUBLAS_STATUS_ALLOC_FAILED:
    return "simulated cuBLAS: out of memory";
  case CUBLAS_STATUS_INVALID_VALUE:
    return "simulated cuBLAS: arguments contradict each other, or the algorithm";
  case CUBLAS_STATUS_EXECUTION_FAILED:
    return "simulated cuBLAS: the driver refused";
  case CUBLAS_STATUS_NOT_SUPPORTED:
    return "simulated cuBLAS: not known here";
  default:
    return "simulated cuBLAS: unknown status";
  }
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t how, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
                              const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t bytes, cudaStream_t stream) {
  if (!is_live(handle) || !has_context(find_driver())) return CUBLAS_STATUS_NOT_INITIALIZED;
  product asked;
  cublasStatus_t status = describe(how, a_layout, b_layout, c_layout, d_layout, asked);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (!algo) return CUBLAS_STATUS_NOT_SUPPORTED; // the real library would choose one, in its own way
  if (!alpha || !a || !b || !beta || !c || !d) return CUBLAS_STATUS_INVALID_VALUE;
  algorithm chosen;
  memcpy(&chosen, algo, sizeof chosen);
  const places given = {
      a, b, c, d, workspace, bytes, *static_cast<const float *>(alpha), *static_cast<const float *>(beta)};
  status = check(asked, chosen, given);
  return status == CUBLAS_STATUS_SUCCESS ? multiply(handle, asked, chosen, given, stream) : status;
}
}
