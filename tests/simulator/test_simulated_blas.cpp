// SPDX-License-Identifier: MIT
// The simulated cuBLAS: its products, and one violation of each rule that it enforces.
#include "harness.h"

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <dlfcn.h>

#include <cmath>
#include <cstring>
#include <thread>

using namespace harness;

#define EXPECT_STATUS(wanted, call) EXPECT((call) == (wanted))
#define MUST_BLAS(call) EXPECT_STATUS(CUBLAS_STATUS_SUCCESS, call)

static struct {
#define CALL(name) decltype(&::cublasLt##name) name;
#include "calls.def"
#undef CALL
} blas;

static void open_blas() {
  void *library = dlopen(SIMULATED_BLAS, RTLD_NOW | RTLD_LOCAL);
  EXPECT(library);
#define CALL(name)                                                                                                     \
  blas.name = reinterpret_cast<decltype(blas.name)>(dlsym(library, "cublasLt" #name));                                 \
  EXPECT(blas.name);
#include "calls.def"
#undef CALL
}

static cublasLtHandle_t open_all() {
  cublasLtHandle_t handle;
  open_blas();
  make_context();
  MUST_BLAS(blas.Create(&handle));
  return handle;
}

// D [m, n] = A^T B, with A [k, m] and B [k, n], each column `gap` elements longer than it must be.
struct product {
  uint64_t m = 8, n = 5, k = 64;
  cudaDataType_t input = CUDA_R_32F, output = CUDA_R_32F;
  int64_t gap = 0;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cublasLtMatmulDesc_t how = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  cublasLtMatmulPreference_t wanted = nullptr;
};

static void describe(product &p) {
  const int32_t turned = CUBLAS_OP_T;
  MUST_BLAS(blas.MatmulDescCreate(&p.how, p.compute, CUDA_R_32F));
  MUST_BLAS(blas.MatmulDescSetAttribute(p.how, CUBLASLT_MATMUL_DESC_TRANSA, &turned, sizeof turned));
  MUST_BLAS(blas.MatrixLayoutCreate(&p.a, p.input, p.k, p.m, static_cast<int64_t>(p.k) + p.gap));
  MUST_BLAS(blas.MatrixLayoutCreate(&p.b, p.input, p.k, p.n, static_cast<int64_t>(p.k) + p.gap));
  MUST_BLAS(blas.MatrixLayoutCreate(&p.d, p.output, p.m, p.n, static_cast<int64_t>(p.m) + p.gap));
  MUST_BLAS(blas.MatmulPreferenceCreate(&p.wanted));
}

static void prefer(const product &p, uint64_t workspace, uint32_t alignment) {
  MUST_BLAS(blas.MatmulPreferenceSetAttribute(p.wanted, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                              sizeof workspace));
  for (auto name : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    MUST_BLAS(blas.MatmulPreferenceSetAttribute(p.wanted, name, &alignment, sizeof alignment));
}

// How many algorithms there are; the best comes first.
static std::vector<cublasLtMatmulHeuristicResult_t> choose(cublasLtHandle_t handle, const product &p) {
  std::vector<cublasLtMatmulHeuristicResult_t> found(8);
  int count = 0;
  MUST_BLAS(blas.MatmulAlgoGetHeuristic(handle, p.how, p.a, p.b, p.d, p.d, p.wanted, 8, found.data(), &count));
  found.resize(static_cast<size_t>(count));
  return found;
}

// All in device memory, `offset` bytes behind an address that is a multiple of 256.
struct matrices {
  CUdeviceptr a, b, d, workspace;
  float alpha = 1.0f, beta = 0.0f;
  size_t workspace_bytes = 4096;
};

static size_t bytes_of(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : 2; }

static CUdeviceptr fill(const std::vector<float> &numbers, cudaDataType_t type, size_t offset, CUstream stream) {
  std::vector<char> bytes(numbers.size() * bytes_of(type));
  for (size_t i = 0; i < numbers.size(); i++) {
    const __nv_bfloat16 brain = __float2bfloat16_rn(numbers[i]);
    const __half narrow = __float2half_rn(numbers[i]);
    const void *from = type == CUDA_R_32F   ? static_cast<const void *>(&numbers[i])
                       : type == CUDA_R_16F ? static_cast<const void *>(&narrow)
                                            : &brain;
    memcpy(&bytes[i * bytes_of(type)], from, bytes_of(type));
  }
  const CUdeviceptr start = allocate(bytes.size() + offset) + offset;
  MUST(cu.cuMemcpyHtoDAsync_v2(start, bytes.data(), bytes.size(), stream));
  MUST(cu.cuStreamSynchronize(stream));
  return start;
}

static std::vector<float> numbers(size_t count, unsigned seed) {
  std::vector<float> made(count);
  for (size_t i = 0; i < count; i++) made[i] = static_cast<float>((i * 7 + seed * 3) % 11) / 8.0f - 0.625f;
  return made;
}

static size_t size_of(const product &p, uint64_t rows, uint64_t columns) {
  return (rows + static_cast<uint64_t>(p.gap)) * columns;
}

static matrices make_matrices(const product &p, CUstream stream, size_t offset = 0) {
  matrices made;
  made.a = fill(numbers(size_of(p, p.k, p.m), 1), p.input, offset, stream);
  made.b = fill(numbers(size_of(p, p.k, p.n), 2), p.input, offset, stream);
  made.d = fill(numbers(size_of(p, p.m, p.n), 3), p.output, offset, stream);
  made.workspace = allocate(made.workspace_bytes + 64);
  return made;
}

static cublasStatus_t multiply(cublasLtHandle_t handle, const product &p, const matrices &in, CUstream stream,
                               const cublasLtMatmulAlgo_t *algorithm) {
  void *d = reinterpret_cast<void *>(in.d);
  return blas.Matmul(handle, p.how, &in.alpha, reinterpret_cast<void *>(in.a), p.a, reinterpret_cast<void *>(in.b), p.b,
                     &in.beta, d, p.d, d, p.d, algorithm, reinterpret_cast<void *>(in.workspace), in.workspace_bytes,
                     stream);
}

static std::vector<float> read_result(const product &p, const matrices &in, CUstream stream) {
  const size_t count = size_of(p, p.m, p.n);
  if (p.output == CUDA_R_32F) return read_back<float>(in.d, count, stream);
  std::vector<float> made(count);
  const auto halves = read_back<uint16_t>(in.d, count, stream);
  for (size_t i = 0; i < count; i++) {
    __nv_bfloat16_raw brain = {halves[i]};
    __half_raw narrow = {halves[i]};
    made[i] = p.output == CUDA_R_16F ? __half2float(narrow) : __bfloat162float(brain);
  }
  return made;
}

static void expect_product(const product &p, const matrices &in, CUstream stream, const std::vector<float> &bias) {
  const auto found = read_result(p, in, stream);
  const auto a = numbers(size_of(p, p.k, p.m), 1), b = numbers(size_of(p, p.k, p.n), 2);
  const auto before = numbers(size_of(p, p.m, p.n), 3);
  const double tolerance = p.output == CUDA_R_32F ? 1e-5 : 0.05;
  for (uint64_t column = 0; column < p.n; column++)
    for (uint64_t row = 0; row < p.m; row++) {
      double sum = 0;
      for (uint64_t i = 0; i < p.k; i++)
        sum += static_cast<double>(a[row * size_of(p, p.k, 1) + i]) * b[column * size_of(p, p.k, 1) + i];
      const size_t at = column * size_of(p, p.m, 1) + row;
      const double wanted = in.alpha * sum + in.beta * before[at] + (bias.empty() ? 0.0f : bias[row]);
      EXPECT(std::fabs(found[at] - wanted) <= tolerance * std::fmax(1.0, std::fabs(wanted)));
    }
  for (uint64_t column = 0; column < p.n; column++) // gaps stay as they are
    for (uint64_t row = p.m; row < size_of(p, p.m, 1); row++)
      EXPECT(std::fabs(found[column * size_of(p, p.m, 1) + row] - before[column * size_of(p, p.m, 1) + row]) < 0.01);
}

// ---- products

static void run_products(product p, float beta, bool has_bias) {
  const CUstream stream = make_stream();
  cublasLtHandle_t handle;
  MUST_BLAS(blas.Create(&handle));
  describe(p);
  prefer(p, 4096, 16);
  std::vector<float> bias;
  if (has_bias) {
    const uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    bias = numbers(p.m, 4);
    const CUdeviceptr at = fill(bias, p.output, 0, stream);
    MUST_BLAS(blas.MatmulDescSetAttribute(p.how, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    MUST_BLAS(blas.MatmulDescSetAttribute(p.how, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &at, sizeof at));
  }
  for (const auto &found : choose(handle, p)) {
    matrices in = make_matrices(p, stream);
    in.beta = beta;
    MUST_BLAS(multiply(handle, p, in, stream, &found.algo));
    expect_product(p, in, stream, bias);
  }
  MUST_BLAS(blas.Destroy(handle));
}

static void products() {
  open_blas();
  make_context();
  product p;
  for (cudaDataType_t input : {CUDA_R_32F, CUDA_R_16BF, CUDA_R_16F})
    for (cudaDataType_t output : {CUDA_R_32F, input})
      for (int64_t gap : {0, 3}) {
        p.input = input;
        p.output = output;
        p.gap = gap;
        run_products(p, 0.0f, false);
        run_products(p, 1.0f, true);
      }
  p = product();
  p.m = p.n = p.k = 1;
  run_products(p, 0.0f, true);
}

// Numbers of f32 lose what lies behind 10 bits before they are multiplied, and so for that compute type alone.
static void products_in_tf32() {
  open_blas();
  make_context();
  const CUstream stream = make_stream();
  cublasLtHandle_t handle;
  MUST_BLAS(blas.Create(&handle));
  for (bool is_tf32 : {false, true}) {
    product p;
    if (is_tf32) p.compute = CUBLAS_COMPUTE_32F_FAST_TF32;
    describe(p);
    prefer(p, 4096, 16);
    const auto all = choose(handle, p);
    EXPECT(!all.empty());
    for (const auto &found : all) {
      matrices in = make_matrices(p, stream);
      in.a = fill(std::vector<float>(p.k * p.m, 1 + 0x1p-12f), p.input, 0, stream);
      in.b = fill(std::vector<float>(p.k * p.n, 1 + 0x1p-11f), p.input, 0, stream);
      MUST_BLAS(multiply(handle, p, in, stream, &found.algo));
      const float wanted = 64 * (is_tf32 ? 1 + 0x1p-10f : 1 + 0x1p-11f + 0x1p-12f + 0x1p-23f);
      for (float got : read_result(p, in, stream)) EXPECT(got == wanted);
    }
    product other = p; // an algorithm is for one compute type
    other.compute = is_tf32 ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_32F_FAST_TF32;
    describe(other);
    EXPECT_STATUS(CUBLAS_STATUS_INVALID_VALUE, multiply(handle, other, make_matrices(p, stream), stream, &all[0].algo));
  }
  product halves;
  halves.input = CUDA_R_16BF;
  halves.compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  describe(halves);
  prefer(halves, 4096, 16);
  cublasLtMatmulHeuristicResult_t found;
  int count = 0;
  EXPECT_STATUS(CUBLAS_STATUS_NOT_SUPPORTED,
                blas.MatmulAlgoGetHeuristic(handle, halves.how, halves.a, halves.b, halves.d, halves.d, halves.wanted,
                                            1, &found, &count));
}

// A product on the stream, by the best algorithm that there is for it, as plugins run it.
struct setup {
  CUstream stream;
  cublasLtHandle_t handle;
  product p;
  matrices in;
  cublasLtMatmulHeuristicResult_t best;
  explicit setup(size_t offset = 0, uint32_t alignment = 256) : handle(open_all()) {
    stream = make_stream();
    describe(p);
    prefer(p, 4096, alignment);
    best = choose(handle, p)[0];
    in = make_matrices(p, stream, offset);
  }
  cublasStatus_t run() { return multiply(handle, p, in, stream, &best.algo); }
};

static void is_captured() {
  setup s;
  CUgraph graph;
  MUST_BLAS(s.run()); // loads the kernels
  MUST(cu.cuStreamSynchronize(s.stream));
  MUST(cu.cuMemsetD8Async(s.in.d, 0, size_of(s.p, s.p.m, s.p.n) * 4, s.stream));
  MUST(cu.cuStreamBeginCapture_v2(s.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  MUST_BLAS(s.run());
  MUST(cu.cuStreamEndCapture(s.stream, &graph));
  size_t count = 0;
  MUST(cu.cuGraphGetNodes(graph, nullptr, &count));
  EXPECT(count == 2); // slices, and their sum
  MUST(cu.cuGraphLaunch(instantiate(graph), s.stream));
  expect_product(s.p, s.in, s.stream, {});
}

static void faults_are_the_drivers() {
  setup s;
  s.in.a += 256; // its last column ends behind the allocation
  s.run();       // in the order eager it fails already
  EXPECT_CODE(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuStreamSynchronize(s.stream));
}

// ---- handles and captures

static void no_context() {
  cublasLtHandle_t handle;
  open_blas();
  EXPECT_STATUS(CUBLAS_STATUS_NOT_INITIALIZED, blas.Create(&handle));
}

static void other_thread_without_context() {
  setup s;
  std::thread([&] { EXPECT_STATUS(CUBLAS_STATUS_NOT_INITIALIZED, s.run()); }).join();
}

static void destroyed_handle() {
  setup s;
  MUST_BLAS(blas.Destroy(s.handle));
  EXPECT_STATUS(CUBLAS_STATUS_NOT_INITIALIZED, s.run());
  EXPECT_STATUS(CUBLAS_STATUS_NOT_INITIALIZED, blas.Destroy(s.handle));
}

static void expect_invalidated(CUstream stream) {
  CUgraph graph;
  EXPECT_CODE(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuStreamEndCapture(stream, &graph));
}

static void created_in_capture() {
  setup s;
  cublasLtHandle_t other;
  MUST(cu.cuStreamBeginCapture_v2(s.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  EXPECT_STATUS(CUBLAS_STATUS_EXECUTION_FAILED, blas.Create(&other));
  expect_invalidated(s.stream);
}

static void first_run_in_capture() {
  setup s;
  MUST(cu.cuStreamBeginCapture_v2(s.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  EXPECT_STATUS(CUBLAS_STATUS_EXECUTION_FAILED, s.run());
  expect_invalidated(s.stream);
}

static void destroyed_beside_capture() {
  setup s;
  CUcontext context;
  MUST(cu.cuCtxGetCurrent(&context));
  MUST(cu.cuStreamBeginCapture_v2(s.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  std::thread([&] {
    MUST(cu.cuCtxSetCurrent(context));
    EXPECT_STATUS(CUBLAS_STATUS_EXECUTION_FAILED, blas.Destroy(s.handle));
  }).join();
  expect_invalidated(s.stream);
}

static void destroying_waits() {
  setup s;
  void *words;
  MUST(cu.cuMemHostAlloc(&words, s.p.m * s.p.n * 4, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
  memset(words, 0, s.p.m * s.p.n * 4);
  MUST(cu.cuMemHostGetDevicePointer_v2(&s.in.d, words, 0));
  MUST_BLAS(s.run());
  if (is_order("lazy")) EXPECT(*static_cast<float *>(words) == 0.0f);
  MUST_BLAS(blas.Destroy(s.handle));
  EXPECT(*static_cast<float *>(words) != 0.0f);
}

// ---- the choice of an algorithm

static void defaults_allow_no_workspace() {
  setup s;
  MUST_BLAS(blas.MatmulPreferenceCreate(&s.p.wanted));
  for (const auto &found : choose(s.handle, s.p)) EXPECT(found.workspaceSize == 0);
  prefer(s.p, 4096, 256);
  EXPECT(choose(s.handle, s.p)[0].workspaceSize > 0);
}

static void defaults_assume_alignment() {
  setup s;
  MUST_BLAS(blas.MatmulPreferenceCreate(&s.p.wanted));
  s.best = choose(s.handle, s.p)[0];
  s.in = make_matrices(s.p, s.stream, 4);
  EXPECT_STATUS(CUBLAS_STATUS_INVALID_VALUE, s.run());
  prefer(s.p, 4096, 4);
  s.best = choose(s.handle, s.p)[0];
  MUST_BLAS(s.run());
  expect_product(s.p, s.in, s.stream, {});
}

static void columns_count_too() {
  setup s;
  const size_t aligned = choose(s.handle, s.p).size();
  MUST_BLAS(blas.MatrixLayoutCreate(&s.p.a, s.p.input, s.p.k, s.p.m, static_cast<int64_t>(s.p.k) + 1));
  EXPECT(choose(s.handle, s.p).size() < aligned);
}

static void no_algorithm() {
  setup s;
  cublasLtMatmulHeuristicResult_t found;
  int count;
  prefer(s.p, 4096, 2);
  EXPECT_STATUS(CUBLAS_STATUS_NOT_SUPPORTED, blas.MatmulAlgoGetHeuristic(s.handle, s.p.how, s.p.a, s.p.b, s.p.d, s.p.d,
                                                                         s.p.wanted, 1, &found, &count));
  EXPECT(count == 0);
}

static void algorithm_of_another_product() {
  setup s;
  product other;
  other.k = 128;
  describe(other);
  prefer(other, 4096, 256);
  s.best = choose(s.handle, other)[0];
  EXPECT_STATUS(CUBLAS_STATUS_INVALID_VALUE, s.run());
}

static void algorithm_lacks() {
  setup s;
  EXPECT_STATUS(CUBLAS_STATUS_NOT_SUPPORTED, multiply(s.handle, s.p, s.in, s.stream, nullptr));
}

// ---- the workspace

static void workspace_lacks() {
  setup s;
  s.in.workspace = 0;
  s.in.workspace_bytes = 0;
  EXPECT_STATUS(CUBLAS_STATUS_INVALID_VALUE, s.run());
}

static void workspace_is_small() {
  setup s;
  s.in.workspace_bytes = s.best.workspaceSize - 1;
  EXPECT_STATUS(CUBLAS_STATUS_INVALID_VALUE, s.run());
}

static void workspace_is_misaligned() {
  setup s;
  s.in.workspace += 64;
  EXPECT_STATUS(CUBLAS_STATUS_INVALID_VALUE, s.run());
}

// ---- descriptors

static cublasStatus_t ask(const setup &s) {
  cublasLtMatmulHeuristicResult_t found;
  int count;
  return blas.MatmulAlgoGetHeuristic(s.handle, s.p.how, s.p.a, s.p.b, s.p.d, s.p.d, s.p.wanted, 1, &found, &count);
}

static void types_that_do_not_exist() {
  setup s;
  MUST_BLAS(blas.MatrixLayoutCreate(&s.p.b, CUDA_R_16BF, s.p.k, s.p.n, 64));
  EXPECT_STATUS(CUBLAS_STATUS_NOT_SUPPORTED, ask(s)); // f32 by bf16
  EXPECT_STATUS(CUBLAS_STATUS_NOT_SUPPORTED, s.run());
  setup out_bf16;
  MUST_BLAS(blas.MatrixLayoutCreate(&out_bf16.p.d, CUDA_R_16BF, out_bf16.p.m, out_bf16.p.n, 8));
  EXPECT_STATUS(CUBLAS_STATUS_NOT_SUPPORTED, ask(out_bf16)); // f32 by f32
  setup in_f16;
  MUST_BLAS(blas.MatmulDescCreate(&in_f16.p.how, CUBLAS_COMPUTE_16F, CUDA_R_32F));
  const int32_t turned = CUBLAS_OP_T;
  MUST_BLAS(blas.MatmulDescSetAttribute(in_f16.p.how, CUBLASLT_MATMUL_DESC_TRANSA, &turned, sizeof turned));
  EXPECT_STATUS(CUBLAS_STATUS_NOT_SUPPORTED, ask(in_f16));
}

static void columns_overlap() {
  setup s;
  MUST_BLAS(blas.MatrixLayoutCreate(&s.p.a, s.p.input, s.p.k, s.p.m, static_cast<int64_t>(s.p.k) - 1));
  EXPECT_STATUS(CUBLAS_STATUS_INVALID_VALUE, ask(s));
}

static void sizes_disagree() {
  setup s;
  MUST_BLAS(blas.MatrixLayoutCreate(&s.p.b, s.p.input, s.p.k + 1, s.p.n, 128));
  EXPECT_STATUS(CUBLAS_STATUS_INVALID_VALUE, ask(s));
}

static void attributes() {
  setup s;
  const int64_t wide = CUBLAS_OP_T;
  EXPECT_STATUS(CUBLAS_STATUS_INVALID_VALUE,
                blas.MatmulDescSetAttribute(s.p.how, CUBLASLT_MATMUL_DESC_TRANSA, &wide, sizeof wide));
  EXPECT_STATUS(CUBLAS_STATUS_NOT_SUPPORTED,
                blas.MatmulDescSetAttribute(s.p.how, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &wide, 1));
  const uint32_t gelu = CUBLASLT_EPILOGUE_GELU;
  MUST_BLAS(blas.MatmulDescSetAttribute(s.p.how, CUBLASLT_MATMUL_DESC_EPILOGUE, &gelu, sizeof gelu));
  EXPECT_STATUS(CUBLAS_STATUS_NOT_SUPPORTED, ask(s));
}

static void bias_lacks() {
  setup s;
  const uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
  MUST_BLAS(blas.MatmulDescSetAttribute(s.p.how, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
  EXPECT_STATUS(CUBLAS_STATUS_INVALID_VALUE, s.run());
}

static void in_place_but_otherwise() {
  setup s;
  cublasLtMatrixLayout_t c;
  MUST_BLAS(blas.MatrixLayoutCreate(&c, s.p.output, s.p.m, s.p.n, static_cast<int64_t>(s.p.m) + 2));
  void *d = reinterpret_cast<void *>(s.in.d);
  EXPECT_STATUS(CUBLAS_STATUS_INVALID_VALUE,
                blas.Matmul(s.handle, s.p.how, &s.in.alpha, reinterpret_cast<void *>(s.in.a), s.p.a,
                            reinterpret_cast<void *>(s.in.b), s.p.b, &s.in.beta, d, c, d, s.p.d, &s.best.algo,
                            reinterpret_cast<void *>(s.in.workspace), s.in.workspace_bytes, s.stream));
}

static void objects_are_told_apart() {
  setup s;
  EXPECT_STATUS(CUBLAS_STATUS_INVALID_VALUE,
                blas.MatmulDescDestroy(reinterpret_cast<cublasLtMatmulDesc_t>(s.p.wanted)));
  MUST_BLAS(blas.MatmulDescDestroy(s.p.how));
  MUST_BLAS(blas.MatrixLayoutDestroy(s.p.a));
  MUST_BLAS(blas.MatmulPreferenceDestroy(s.p.wanted));
  EXPECT(blas.GetVersion() >= 130000);
  EXPECT(strstr(blas.GetStatusString(CUBLAS_STATUS_INVALID_VALUE), "simulated"));
}

int main() {
  return run({
      {"products", products, eager},
      {"products_in_tf32", products_in_tf32, eager},
      {"is_captured", is_captured},
      {"faults_are_the_drivers", faults_are_the_drivers},
      {"no_context", no_context, eager},
      {"other_thread_without_context", other_thread_without_context, eager},
      {"destroyed_handle", destroyed_handle, eager},
      {"created_in_capture", created_in_capture},
      {"first_run_in_capture", first_run_in_capture},
      {"destroyed_beside_capture", destroyed_beside_capture},
      {"destroying_waits", destroying_waits},
      {"defaults_allow_no_workspace", defaults_allow_no_workspace, eager},
      {"defaults_assume_alignment", defaults_assume_alignment, eager},
      {"columns_count_too", columns_count_too, eager},
      {"no_algorithm", no_algorithm, eager},
      {"algorithm_of_another_product", algorithm_of_another_product, eager},
      {"algorithm_lacks", algorithm_lacks, eager},
      {"workspace_lacks", workspace_lacks, eager},
      {"workspace_is_small", workspace_is_small, eager},
      {"workspace_is_misaligned", workspace_is_misaligned, eager},
      {"types_that_do_not_exist", types_that_do_not_exist, eager},
      {"columns_overlap", columns_overlap, eager},
      {"sizes_disagree", sizes_disagree, eager},
      {"attributes", attributes, eager},
      {"bias_lacks", bias_lacks, eager},
      {"in_place_but_otherwise", in_place_but_otherwise, eager},
      {"objects_are_told_apart", objects_are_told_apart, eager},
  });
}
