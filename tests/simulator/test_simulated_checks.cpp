// SPDX-License-Identifier: MIT
// Every seeded mistake, in a plain and in a checked run; and kernels in which there is none.
#include <cstdio>
#include <fstream>
#include <numeric>

#include "harness.h"

using namespace harness;

constexpr size_t row = 256; // numbers in x and y

// What a run shows. The first number of y, where the kernel ends well.
struct outcome {
  CUresult code;
  std::vector<const char *> parts; // of the fault's text
  bool is_right = true;
};

struct mistake {
  const char *name;
  launch_shape shape;
  int n;
  float right; // y[at]
  size_t at;
  outcome plain;
  outcome checked; // the text names the marked line too
};

constexpr CUresult good = CUDA_SUCCESS, outside = CUDA_ERROR_ILLEGAL_ADDRESS, failed = CUDA_ERROR_LAUNCH_FAILED;

static const mistake mistakes[] = {
    {"load_without_barrier", {1, 64}, 0, 63, 0, {good, {}, false}, {failed, {"a race", "byte"}}},
    {"reload_without_barrier", {1, 64}, 0, 190, 0, {good, {}, false}, {failed, {"a race", "::tile"}}},
    {"missing_warp_sync", {1, 32}, 0, 2, 0, {good, {}}, {failed, {"a race", "::row"}}},
    {"narrow_warp_sync", {1, 32}, 0, 31, 0, {good, {}}, {failed, {"a race", "::row"}}},
    {"long_row",
     {4, 17},
     0,
     1,
     0,
     {good, {}},
     {failed, {"a race", "write of 4 bytes", "by block (0, 0, 0), thread (16"}}},
    {"one_past_the_end",
     {},
     255,
     0,
     0,
     {outside, {"bytes beyond the end of an allocation of 1020 bytes were written"}},
     {outside, {"write of 4 bytes", "0 bytes beyond the end of an allocation of 1020 bytes"}}},
    {"vector_past_the_end",
     {},
     255,
     0,
     0,
     {outside, {"bytes beyond the end of an allocation of 1020 bytes were written"}},
     {outside, {"write of ", "0 bytes beyond the end of an allocation of 1020 bytes"}}},
    {"before_the_start", {}, 0, 0, 0, {good, {}, false}, {outside, {"4 bytes before the start of an allocation"}}},
    {"forgotten_wait", {1, 32}, 0, 0, 0, {good, {}, false}, {failed, {"read of 4 bytes", "not yet written", "::row"}}},
    {"early_copy", {1, 32}, 0, 254, 0, {good, {}, false}, {failed, {"a race", "::row"}}},
    {"sum_without_atomic", {2, 32}, 0, 2016, 0, {good, {}}, {failed, {"a race", "by thread (0, 0, 0)"}}},
    {"sum_without_atomic", {4, 1}, 0, 6, 0, {good, {}}, {failed, {"a race", "by block (0, 0, 0), thread (0, 0, 0)"}}},
    {"read_neighbour", {1, 64}, 0, 62, 127, {good, {}}, {failed, {"a race", "read of 4 bytes"}}},
    {"read_other_block", {8, 1}, 0, 6, 71, {good, {}}, {failed, {"a race", "by block (0, 0, 0)"}}},
    {"write_other_block", {8, 1}, 0, 8, 7, {good, {}}, {failed, {"a race", "against the read", "by block (0, 0, 0)"}}},
    {"early_sum", {1, 32}, 0, 32, 0, {good, {}}, {failed, {"a race", "an atomic access", "against the read"}}},
    {"missing_fence", {8, 32}, 0, 28, 1, {good, {}}, {failed, {"a race", "by block (0, 0, 0)"}}},
    {"narrow_fence", {8, 32}, 0, 28, 1, {good, {}}, {failed, {"a race", "by block (0, 0, 0)"}}},
    {"early_fence", {8, 1}, 0, 28, 1, {good, {}}, {failed, {"a race", "by block (0, 0, 0)"}}},
    {"index_overflow", {}, 65536, 0, 0, {good, {}}, {failed, {"65536 * 65536 does not fit into 'int'"}}},
    {"bad_shift", {}, 33, 2, 0, {good, {}}, {failed, {"a bad shift", "by 33 bits"}}},
    {"bad_index", {1, 16}, 16, 0, 0, {good, {}, false}, {failed, {"index 16 is out of bounds of 'float [16]'"}}},
    {"beyond_static_shared",
     {1, 16},
     16,
     0,
     0,
     {good, {}, false},
     {outside, {"0 bytes beyond the end of the shared variable beyond_static_shared::row of 64 bytes"}}},
    {"beyond_dynamic_shared",
     {1, 1, 60},
     15,
     0,
     0,
     {good, {}},
     {outside, {"0 bytes beyond the end of dynamic shared memory of 60 bytes"}}},
    {"misaligned_vector", {}, 0, 1, 0, {good, {}}, {failed, {"a misaligned address"}}},
    {"unwritten_shared", {1, 32}, 0, 0, 0, {good, {}}, {failed, {"read of 4 bytes", "::row", "thread (31, 0, 0)"}}},
};

// "seeded_kernels.cu:12" of the line that is marked with the name; where the driver was built without libbacktrace it
// tells no lines.
static std::string marked_place(const char *name) {
  if (!SIMULATED_LINES) return "";
  std::ifstream source(SIMULATED_SOURCES "/seeded_kernels.cu");
  const std::string mark = std::string("[") + name + "]";
  std::string line;
  for (int number = 1; std::getline(source, line); number++)
    if (line.find(mark) != std::string::npos) return "seeded_kernels.cu:" + std::to_string(number);
  expect(false, name, __FILE__, __LINE__);
  return {};
}

static void expect_parts(const std::string &text, const std::vector<const char *> &parts) {
  for (const char *part : parts)
    if (text.find(part) == std::string::npos) expect(false, (text + "\n  lacks: " + part).c_str(), __FILE__, __LINE__);
}

static CUdeviceptr upload(const std::vector<float> &values, CUstream stream) {
  const CUdeviceptr made = allocate(values.size() * sizeof(float));
  MUST(cu.cuMemcpyHtoDAsync_v2(made, values.data(), values.size() * sizeof(float), stream));
  return made;
}

static std::vector<float> count_from_zero(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

static void expect_outcome(const mistake &one, const char *image, const outcome &wanted, bool has_line) {
  make_context();
  CUstream stream = make_stream();
  CUkernel kernel = get_kernel(load_image(image), one.name);
  const size_t count = one.n == 255 ? 255 : row;
  const CUdeviceptr x = upload(count_from_zero(count), stream), y = upload(std::vector<float>(count), stream);
  launch(kernel, stream, one.shape, x, y, one.n);
  const CUresult code = cu.cuStreamSynchronize(stream);
  EXPECT_CODE(wanted.code, code);
  if (wanted.code == CUDA_SUCCESS) {
    const bool is_right = read_back<float>(y, row, stream)[one.at] == one.right;
    EXPECT(is_right == wanted.is_right);
    return;
  }
  const std::string text = fault_text(code);
  expect_parts(text, wanted.parts);
  if (has_line) expect_parts(text, {one.name, marked_place(one.name).c_str(), "block (", "thread ("});
}

// Of code that was inlined, both places are told.
static void places_name_their_callers() {
  make_context();
  CUstream stream = make_stream();
  const CUdeviceptr x = upload(count_from_zero(row), stream), y = upload(std::vector<float>(row), stream);
  launch(get_kernel(load_image("seeded_kernels.checked.so"), "missing_fence"), stream, {8, 32}, x, y, 0);
  EXPECT_CODE(failed, cu.cuStreamSynchronize(stream));
  if (SIMULATED_LINES) expect_parts(fault_text(failed), {marked_place("missing_fence").c_str(), " (called at seeded_"});
}

template <size_t index> static void plain_run() {
  expect_outcome(mistakes[index], "seeded_kernels.so", mistakes[index].plain, false);
}
template <size_t index> static void checked_run() {
  expect_outcome(mistakes[index], "seeded_kernels.checked.so", mistakes[index].checked, true);
}
template <size_t... index> static void add_mistakes(std::vector<test> &tests, std::index_sequence<index...>) {
  (tests.push_back({mistakes[index].name, plain_run<index>, eager, {{"THREADS", "1"}}}), ...);
  (tests.push_back({mistakes[index].name, checked_run<index>, eager}), ...);
}

// The kernel read_given, of the pointer.
static std::string read_of(const char *image, CUdeviceptr x, CUresult wanted) {
  CUstream stream = make_stream();
  const CUdeviceptr y = upload({0}, stream);
  launch(get_kernel(load_image(image), "read_given"), stream, {}, x, y, 0);
  EXPECT_CODE(wanted, cu.cuStreamSynchronize(stream));
  return wanted == CUDA_SUCCESS ? "" : fault_text(wanted);
}
static std::string checked_read(CUdeviceptr x, CUresult wanted) {
  const std::string text = read_of("seeded_kernels.checked.so", x, wanted);
  if (wanted != CUDA_SUCCESS) expect_parts(text, {"read of 4 bytes", marked_place("read_given").c_str()});
  return text;
}

static void host_pointers_are_missed_by_plain_runs() {
  make_context();
  static const float value = 1;
  read_of("seeded_kernels.so", reinterpret_cast<CUdeviceptr>(&value), CUDA_SUCCESS);
}
static void host_pointers_are_found() {
  make_context();
  static const float value = 1;
  expect_parts(checked_read(reinterpret_cast<CUdeviceptr>(&value), outside), {"memory of the host"});
}

static void freed_memory_is_named() {
  make_context();
  const CUdeviceptr x = allocate(1024);
  MUST(cu.cuMemFree_v2(x));
  expect_parts(checked_read(x, outside), {"freed memory, once an allocation of 1024 bytes"});
}
static void freed_memory_is_named_by_plain_runs() {
  make_context();
  const CUdeviceptr x = allocate(1024);
  MUST(cu.cuMemFree_v2(x));
  expect_parts(read_of("seeded_kernels.so", x, outside), {"freed memory, once an allocation of 1024 bytes"});
}

// x was allocated after the image was loaded, so that it is known whether it was written.
static CUdeviceptr allocate_known() {
  make_context();
  load_image("seeded_kernels.checked.so");
  return allocate(1024);
}
static void unwritten_memory_is_found() {
  expect_parts(checked_read(allocate_known() + 8, failed), {"not yet written, byte 8 of an allocation of 1024 bytes"});
}
static void unwritten_memory_stays_so_when_copied() {
  const CUdeviceptr x = allocate_known(), other = allocate(1024);
  CUstream stream = make_stream();
  MUST(cu.cuMemsetD32Async(x, 0, 2, stream));
  MUST(cu.cuMemcpyDtoDAsync_v2(other, x, 16, stream));
  checked_read(other + 4, CUDA_SUCCESS);
  checked_read(other + 8, failed);
}
static void memory_of_before_may_be_written() {
  make_context();
  checked_read(allocate(1024), CUDA_SUCCESS);
}
static void mapped_memory_may_be_written() {
  make_context();
  void *host;
  load_image("seeded_kernels.checked.so");
  MUST(cu.cuMemHostAlloc(&host, 64, CU_MEMHOSTALLOC_DEVICEMAP));
  checked_read(reinterpret_cast<CUdeviceptr>(host), CUDA_SUCCESS);
  expect_parts(checked_read(reinterpret_cast<CUdeviceptr>(host) + 64, outside), {"beyond the end"});
}
// What a plain kernel wrote is not told, so what it was given counts as written: of 0xff bytes nobody could see it.
static void plain_kernels_may_write() {
  const CUdeviceptr x = allocate_known();
  MUST(launch(get_kernel(load_image("good_kernels.so"), "set_value"), make_stream(), {}, x, -1));
  checked_read(x, CUDA_SUCCESS);
}

// Kernels without mistakes.
static CUkernel ordered(const char *name) { return get_kernel(load_image("ordered_kernels.checked.so"), name); }

static void expect_numbers(CUdeviceptr start, const std::vector<float> &wanted, CUstream stream) {
  EXPECT(read_back<float>(start, wanted.size(), stream) == wanted);
}

static void sums_are_ordered() {
  make_context();
  CUstream stream = make_stream();
  CUkernel kernel = ordered("sum_by_warps");
  const CUdeviceptr x = upload(count_from_zero(512), stream), y = upload(std::vector<float>(4), stream);
  MUST(launch(kernel, stream, {4, 128}, x, y));
  expect_numbers(y, {8128, 24512, 40896, 57280}, stream);
  MUST(launch(ordered("combine_by_last_warp"), stream, {4, 128}, x, y));
  expect_numbers(y, {8128, 24512, 40896, 57280}, stream);
}

static void tiles_are_ordered() {
  make_context();
  CUstream stream = make_stream();
  CUkernel kernel = ordered("multiply_tiled");
  std::vector<float> a = count_from_zero(1024), b(1024);
  for (size_t i = 0; i < 32; i++) b[i * 33] = 2;
  const CUdeviceptr c = allocate(4096);
  MUST(launch(kernel, stream, {4, 256}, upload(a, stream), upload(b, stream), c, 32));
  for (float &value : a) value *= 2;
  expect_numbers(c, a, stream);
}

static void buffers_are_ordered() {
  make_context();
  CUstream stream = make_stream();
  CUkernel kernel = ordered("sum_double_buffered"), copied = ordered("sum_copied");
  const CUdeviceptr x = upload(count_from_zero(640), stream), y = allocate(256);
  MUST(launch(kernel, stream, {1, 64, 512}, x, y, 5));
  EXPECT(read_back<float>(y, 64, stream)[1] == 5 * 62 + 640);
  MUST(launch(copied, stream, {1, 32}, x, y, 5));
  EXPECT(read_back<float>(y, 32, stream)[1] == 5 * 126 + 1280);
}

static void last_blocks_are_ordered() {
  make_context();
  CUstream stream = make_stream();
  CUkernel kernel = ordered("combine_by_last");
  const CUdeviceptr x = upload(count_from_zero(512), stream), parts = allocate(2048), words = allocate(8);
  MUST(cu.cuMemsetD8Async(words, 0, 8, stream));
  for (int who : {0, 1, 2, 0}) {
    MUST(launch(kernel, stream, {8, 64}, x, parts, words, words + 4, who));
    expect_numbers(words + 4, {130816}, stream);
  }
}

static void atomics_are_ordered() {
  make_context();
  CUstream stream = make_stream();
  CUkernel kernel = ordered("count_values");
  std::vector<unsigned char> values(256);
  for (size_t i = 0; i < 256; i++) values[i] = static_cast<unsigned char>(i % 16);
  const CUdeviceptr x = allocate(256), counts = allocate(64);
  MUST(cu.cuMemcpyHtoDAsync_v2(x, values.data(), 256, stream));
  MUST(cu.cuMemsetD32Async(counts, 0, 16, stream));
  MUST(launch(kernel, stream, {4, 64}, x, counts));
  EXPECT(read_back<unsigned>(counts, 16, stream) == std::vector<unsigned>(16, 16));
}

static void small_parts_are_ordered() {
  make_context();
  CUstream stream = make_stream();
  CUkernel halves = ordered("reverse_half_warps"), narrow = ordered("store_narrow"), copied = ordered("copy_samples");
  const CUdeviceptr x = upload(count_from_zero(1024), stream), y = allocate(4096), rows = allocate(1024);
  MUST(launch(halves, stream, {1, 64}, x, y));
  EXPECT(read_back<float>(y, 64, stream)[17] == 30);
  MUST(launch(narrow, stream, {1, 64}, y, y + 64, y + 256));
  EXPECT(read_back<unsigned>(y + 256, 64, stream)[0] == 0x03020101);
  MUST(cu.cuMemsetD32Async(x, 1, 1024, stream));
  MUST(launch(copied, stream, {1, 64}, x, y, rows));
  EXPECT(read_back<float>(rows, 8, stream)[5] == 1.0f);
  MUST(launch(ordered("scale_by_constants"), stream, {1, 64}, rows));
}

static void words_are_ordered() {
  make_context();
  void *host;
  CUstream stream = make_stream();
  CUkernel publish = ordered("publish"), look = ordered("look_at_word");
  MUST(cu.cuMemHostAlloc(&host, 256, CU_MEMHOSTALLOC_DEVICEMAP));
  auto *word = static_cast<volatile uint64_t *>(host);
  *word = 0;
  const auto start = reinterpret_cast<CUdeviceptr>(host);
  const CUdeviceptr seen = allocate(4);
  MUST(launch(publish, stream, {}, start, start + 64, 10));
  MUST(launch(look, stream, {4, 64}, start, seen));
  MUST(cu.cuStreamSynchronize(stream));
  EXPECT(*word == 10);
  EXPECT(read_back<unsigned>(seen, 1, stream)[0] == 1);
}

// Attributes tell the shared memory of one kernel, not of its image.
static void shared_bytes_are_of_the_kernel() {
  make_context();
  int bytes = -1;
  for (const char *image : {"ordered_kernels.so", "ordered_kernels.checked.so"}) {
    CUlibrary library = load_image(image);
    const std::pair<const char *, int> wanted[] = {
        {"sum_by_warps", 128}, {"multiply_tiled", 2 * 16 * 17 * 4}, {"sum_double_buffered", 0}};
    for (const auto &[name, shared] : wanted) {
      MUST(cu.cuKernelGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, get_kernel(library, name), 0));
      EXPECT(bytes == shared);
    }
  }
}

int main() {
  if (!SIMULATED_LINES) puts("lines are not compared: the driver was built without libbacktrace");
  std::vector<test> tests = {
      {"host pointers are missed by plain runs", host_pointers_are_missed_by_plain_runs, eager},
      {"host pointers are found", host_pointers_are_found},
      {"freed memory is named by plain runs", freed_memory_is_named_by_plain_runs, eager},
      {"freed memory is named", freed_memory_is_named, eager},
      {"unwritten memory is found", unwritten_memory_is_found},
      {"unwritten memory stays so when copied", unwritten_memory_stays_so_when_copied},
      {"memory of before may be written", memory_of_before_may_be_written, eager},
      {"mapped memory may be written", mapped_memory_may_be_written},
      {"places name their callers", places_name_their_callers, eager},
      {"plain kernels may write", plain_kernels_may_write},
      {"shared bytes are of the kernel", shared_bytes_are_of_the_kernel, eager},
  };
  add_mistakes(tests, std::make_index_sequence<sizeof mistakes / sizeof *mistakes>());
  for (const char *seed : {"0", "5", "11"})
    for (const test &one : {test{"sums are ordered", sums_are_ordered},
                            {"tiles are ordered", tiles_are_ordered},
                            {"buffers are ordered", buffers_are_ordered},
                            {"last blocks are ordered", last_blocks_are_ordered},
                            {"atomics are ordered", atomics_are_ordered},
                            {"small parts are ordered", small_parts_are_ordered},
                            {"words are ordered", words_are_ordered}}) {
      tests.push_back(one);
      tests.back().settings = {{"SEED", seed}};
    }
  return run(tests);
}
