// SPDX-License-Identifier: MIT
// ordito_device.h on the simulated device: tensor-core tiles against plain sums, copies that are made at the wait, and
// what the simulated device reports of their misuse.
#include <cmath>
#include <cstring>

#include "harness.h"

using namespace harness;

static CUkernel kernel_named(const char *name) { return get_kernel(load_image("ptx_kernels.so"), name); }

template <typename Value> static CUdeviceptr upload(const std::vector<Value> &values, CUstream stream) {
  const CUdeviceptr start = allocate(values.size() * sizeof(Value));
  MUST(cu.cuMemcpyHtoDAsync_v2(start, values.data(), values.size() * sizeof(Value), stream));
  return start;
}

// Whole numbers from -8 to 8, whose products and sums are exact in every format.
static int number_at(size_t i) { return static_cast<int>(i * 7919 % 17) - 8; }

static uint16_t bf16_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>(bits >> 16);
}

static uint16_t f16_of(float value) {
  if (value == 0) return 0;
  int exponent;
  const float part = std::frexp(std::fabs(value), &exponent); // 0.5 <= part < 1
  return static_cast<uint16_t>((value < 0 ? 0x8000 : 0) | (exponent + 14) << 10 |
                               static_cast<int>((part * 2 - 1) * 1024));
}

static void tiles_equal_sums(const char *name, uint16_t (*encode)(float), bool is_b_by_column, float first) {
  make_context();
  CUstream stream = make_stream();
  std::vector<uint16_t> a(256), b(128);
  std::vector<float> sum(128, first), wanted(128, first);
  for (size_t i = 0; i < 256; i++) a[i] = encode(static_cast<float>(number_at(i)));
  for (size_t i = 0; i < 128; i++) b[i] = encode(static_cast<float>(number_at(i * 3 + 1)));
  for (size_t i = 0; i < 128; i++)
    for (size_t k = 0; k < 16; k++)
      wanted[i] += static_cast<float>(number_at(i / 8 * 16 + k) *
                                      number_at((is_b_by_column ? i % 8 * 16 + k : k * 8 + i % 8) * 3 + 1));
  const CUdeviceptr sums = upload(sum, stream);
  MUST(launch(kernel_named(name), stream, {1, 32}, upload(a, stream), upload(b, stream), sums));
  EXPECT(read_back<float>(sums, 128, stream) == wanted);
}
static void bf16_tiles_equal_sums() { tiles_equal_sums("multiply_bf16", bf16_of, true, 3); }
static void f16_tiles_equal_sums() { tiles_equal_sums("multiply_f16", f16_of, true, -2); }
static void loaded_tiles_equal_sums() { tiles_equal_sums("multiply_loaded", bf16_of, false, 0); }

static std::vector<float> copy_by(const char *name) {
  make_context();
  CUstream stream = make_stream();
  std::vector<float> x(128);
  for (size_t i = 0; i < 128; i++) x[i] = static_cast<float>(i + 1);
  const CUdeviceptr y = allocate(128 * 4);
  MUST(launch(kernel_named(name), stream, {1, 32}, upload(x, stream), y));
  return read_back<float>(y, 128, stream);
}

static void copies_are_there_after_the_wait() {
  const std::vector<float> got = copy_by("copy_and_wait");
  for (size_t i = 0; i < 128; i++) EXPECT(got[i] == (i < 64 ? 0.0f : static_cast<float>(128 - i)));
}

static void copies_are_not_there_before() {
  const std::vector<float> got = copy_by("copy_without_wait");
  for (const float value : got) EXPECT(std::isnan(value));
}

static void groups_are_waited_for_in_order() {
  make_context();
  CUstream stream = make_stream();
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
  const CUdeviceptr y = allocate(32), from = upload(x, stream);
  MUST(launch(kernel_named("copy_in_groups"), stream, {1, 1}, from, y));
  const std::vector<float> got = read_back<float>(y, 8, stream);
  for (size_t i = 0; i < 8; i++) EXPECT(i < 4 ? got[i] == x[i] : std::isnan(got[i]));
  MUST(launch(kernel_named("copy_without_commit"), stream, {1, 1}, from, y));
  EXPECT(std::isnan(read_back<float>(y, 1, stream)[0]));
}

static void expect_report(const char *name, unsigned threads, const char *text) {
  make_context();
  CUstream stream = make_stream();
  const CUdeviceptr x = allocate(256), y = allocate(256);
  MUST(launch(kernel_named(name), stream, {1, threads}, x, y));
  EXPECT_CODE(CUDA_ERROR_LAUNCH_FAILED, cu.cuStreamSynchronize(stream));
  const std::string found = fault_text(CUDA_ERROR_LAUNCH_FAILED);
  if (found.find(text) == std::string::npos) printf("%s\n", found.c_str());
  EXPECT(found.find(text) != std::string::npos && found.find("ptx_kernels.cu:") != std::string::npos);
}
static void unaligned_copies_are_reported() { expect_report("copy_unaligned", 1, "cp.async"); }
static void unaligned_loads_are_reported() { expect_report("load_unaligned", 1, "a load of 16 bytes"); }
static void unaligned_matrices_are_reported() { expect_report("matrix_unaligned", 32, "ldmatrix"); }
static void divergent_tiles_are_reported() { expect_report("divergent_mma", 32, "different collectives"); }

static void blocks_reduce() {
  make_context();
  CUstream stream = make_stream();
  std::vector<float> x(256);
  for (size_t i = 0; i < 256; i++) x[i] = static_cast<float>(number_at(i));
  x[200] = 9;
  float sum = 0;
  for (const float value : x) sum += value;
  const CUdeviceptr y = allocate(12);
  MUST(launch(kernel_named("reduce_block"), stream, {1, 256, 32}, upload(x, stream), y));
  const std::vector<float> got = read_back<float>(y, 3, stream);
  EXPECT(got[0] == sum && got[1] == 9 && got[2] == x[1] + x[3]);
}

static void last_blocks_add_up() {
  make_context();
  CUstream stream = make_stream();
  const CUdeviceptr parts = allocate(7 * 4), sum = allocate(4), ticket = allocate(4);
  MUST(cu.cuMemsetD8Async(sum, 0, 4, stream));
  MUST(cu.cuMemsetD8Async(ticket, 0, 4, stream));
  CUkernel kernel = kernel_named("sum_by_last");
  for (int i = 0; i < 3; i++) MUST(launch(kernel, stream, {7, 64}, parts, sum, ticket)); // the ticket resets itself
  EXPECT(read_back<float>(sum, 1, stream)[0] == 3 * 28);
}

static void pairs_are_converted() {
  make_context();
  CUstream stream = make_stream();
  const std::vector<float> x = {1, -2, 0.5f, 1.00390625f, 65504, 1e-7f, INFINITY, 3}; // the fourth is between two bf16
  const CUdeviceptr pairs = allocate(8 * 4), y = allocate(16 * 4);
  MUST(launch(kernel_named("convert_pairs"), stream, {1, 4}, upload(x, stream), pairs, y));
  const std::vector<uint32_t> bits = read_back<uint32_t>(pairs, 8, stream);
  EXPECT(bits[0] == 0xc0003f80u && bits[4] == 0xc0003c00u);
  const std::vector<float> got = read_back<float>(y, 16, stream);
  const std::vector<float> wanted = {1, -2, 0.5f, 1,           65536, 0x1.aep-24f, INFINITY, 3,
                                     1, -2, 0.5f, 1.00390625f, 65504, 0x1p-23f,    INFINITY, 3};
  for (size_t i = 0; i < 16; i++) {
    if (got[i] != wanted[i])
      printf("%zu: %a, wanted %a\n", i, static_cast<double>(got[i]), static_cast<double>(wanted[i]));
    EXPECT(got[i] == wanted[i]);
  }
}

static void words_pass_to_the_host() {
  make_context();
  CUstream stream = make_stream();
  void *words;
  MUST(cu.cuMemHostAlloc(&words, 16, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
  auto *question = static_cast<uint32_t *>(words);
  auto *answer = static_cast<uint64_t *>(words) + 1;
  *question = *answer = 0;
  const bool is_beside = is_order("thread");
  if (!is_beside) *question = 5;
  MUST(launch(kernel_named("answer_word"), stream, {1, 1}, question, answer));
  if (is_beside) __atomic_store_n(question, 5u, __ATOMIC_RELEASE);
  MUST(cu.cuStreamSynchronize(stream));
  EXPECT(__atomic_load_n(answer, __ATOMIC_ACQUIRE) == (5ull << 32 | 7));
}

static void conditions_need_a_graph() {
  make_context();
  CUstream stream = make_stream();
  MUST(launch(kernel_named("set_condition_of"), stream, {1, 1}, uint64_t{1}));
  EXPECT_CODE(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuStreamSynchronize(stream));
}

int main() {
  return run({
      {"bf16 tiles equal sums", bf16_tiles_equal_sums, eager, {{"SEED", "3"}}},
      {"f16 tiles equal sums", f16_tiles_equal_sums, eager},
      {"loaded tiles equal sums", loaded_tiles_equal_sums, eager},
      {"copies are there after the wait", copies_are_there_after_the_wait, eager},
      {"copies are not there before", copies_are_not_there_before, eager},
      {"groups are waited for in order", groups_are_waited_for_in_order, eager},
      {"unaligned copies are reported", unaligned_copies_are_reported, lazy},
      {"unaligned loads are reported", unaligned_loads_are_reported, lazy},
      {"unaligned matrices are reported", unaligned_matrices_are_reported, lazy},
      {"divergent tiles are reported", divergent_tiles_are_reported, lazy},
      {"blocks reduce", blocks_reduce, eager},
      {"last blocks add up", last_blocks_add_up, eager, {{"SEED", "5"}}},
      {"pairs are converted", pairs_are_converted, eager},
      {"words pass to the host", words_pass_to_the_host},
      {"conditions need a graph", conditions_need_a_graph, lazy},
  });
}
