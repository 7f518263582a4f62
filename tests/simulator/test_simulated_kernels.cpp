// SPDX-License-Identifier: MIT
// Libraries, launches, and what threads of a block do together.
#include <cstring>

#include "harness.h"

using namespace harness;

static void libraries_list_their_kernels() {
  make_context();
  CUlibrary library = load_image("good_kernels.so");
  unsigned count = 0;
  MUST(cu.cuLibraryGetKernelCount(&count, library));
  EXPECT(count > 5);
  std::vector<CUkernel> kernels(count);
  MUST(cu.cuLibraryEnumerateKernels(kernels.data(), count, library));
  const char *name = nullptr;
  MUST(cu.cuKernelGetName(&name, kernels[0]));
  EXPECT(get_kernel(library, name) == kernels[0]);
  CUkernel none;
  EXPECT_CODE(CUDA_ERROR_NOT_FOUND, cu.cuLibraryGetKernel(&none, library, "no_such_kernel"));
  MUST(cu.cuLibraryUnload(library));
  EXPECT_CODE(CUDA_ERROR_INVALID_HANDLE, cu.cuKernelGetName(&name, kernels[0]));
}

static void libraries_stand_beside_each_other() {
  make_context();
  CUlibrary first = load_image("good_kernels.so"), second = load_image("bad_kernels.so");
  get_kernel(first, "set_value");
  get_kernel(second, "write_at");
}

static void images_are_looked_at() {
  make_context();
  CUlibrary library;
  const unsigned fatbin[16] = {0xba55ed50};
  const char text[64] = "no image";
  const auto load = [&](const void *code) {
    return cu.cuLibraryLoadData(&library, code, nullptr, nullptr, 0, nullptr, nullptr, 0);
  };
  EXPECT_CODE(CUDA_ERROR_NO_BINARY_FOR_GPU, load(fatbin));
  EXPECT_CODE(CUDA_ERROR_INVALID_IMAGE, load(text));
}

static void parameters_have_a_layout() {
  make_context();
  CUkernel kernel = get_kernel(load_image("good_kernels.so"), "mixed_parameters");
  size_t offset, bytes;
  const size_t wanted[][2] = {{0, 1}, {8, 8}, {16, 4}, {24, 8}};
  for (size_t i = 0; i < 4; i++) {
    MUST(cu.cuKernelGetParamInfo(kernel, i, &offset, &bytes));
    EXPECT(offset == wanted[i][0] && bytes == wanted[i][1]);
  }
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, cu.cuKernelGetParamInfo(kernel, 4, &offset, &bytes));
  CUstream stream = make_stream();
  CUdeviceptr sum = allocate(8);
  MUST(launch(kernel, stream, {}, static_cast<char>(1), 2.5, 3, sum));
  EXPECT(read_back<double>(sum, 1, stream)[0] == 6.5);
}

static void parameters_keep_their_alignment() {
  make_context();
  struct alignas(128) wide {
    int values[32];
  } by_value = {};
  by_value.values[31] = 40;
  CUkernel kernel = get_kernel(load_image("good_kernels.so"), "wide_parameter");
  size_t offset, bytes;
  MUST(cu.cuKernelGetParamInfo(kernel, 1, &offset, &bytes));
  EXPECT(offset == 128 && bytes == 128);
  CUstream stream = make_stream();
  const CUdeviceptr sum = allocate(4);
  MUST(launch(kernel, stream, {}, 1, by_value, sum));
  EXPECT(read_back<int>(sum, 1, stream)[0] == 42);
}

static void launches_have_limits() {
  make_context();
  CUstream stream = make_stream();
  CUkernel kernel = get_kernel(load_image("good_kernels.so"), "number_elements");
  const CUdeviceptr x = allocate(4);
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, launch(kernel, stream, {0, 1}, x, 1));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, launch(kernel, stream, {1, 1025}, x, 1));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, launch(kernel, stream, {1, 1, 49153}, x, 1));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE,
              cu.cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232449, kernel, 0));
  MUST(cu.cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448, kernel, 0));
  MUST(launch(kernel, stream, {1, 1, 232448}, x, 1));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, launch_with(kernel, stream, {}, nullptr));
  EXPECT_CODE(CUDA_ERROR_INVALID_HANDLE, launch(reinterpret_cast<CUkernel>(&stream), stream, {}, x, 1));
  MUST(cu.cuStreamSynchronize(stream));
}

static void grids_reach_every_element() {
  make_context();
  CUstream stream = make_stream();
  const CUdeviceptr x = allocate(1000 * 4);
  MUST(launch(get_kernel(load_image("good_kernels.so"), "number_elements"), stream, {16, 64}, x, 1000));
  const std::vector<int> got = read_back<int>(x, 1000, stream);
  for (int i = 0; i < 1000; i++) EXPECT(got[static_cast<size_t>(i)] == i);
}

static void shared_memory_and_barriers() {
  make_context();
  CUstream stream = make_stream();
  CUlibrary library = load_image("good_kernels.so");
  const CUdeviceptr x = allocate(4 * 256 * 4), sums = allocate(4 * 4);
  std::vector<float> values(4 * 256);
  for (size_t i = 0; i < values.size(); i++) values[i] = static_cast<float>(i);
  MUST(cu.cuMemcpyHtoDAsync_v2(x, values.data(), 4 * 256 * 4, stream));
  MUST(launch(get_kernel(library, "reverse_rows"), stream, {4, 256}, x));
  MUST(launch(get_kernel(library, "sum_rows"), stream, {4, 256, 1024}, x, sums));
  const std::vector<float> got = read_back<float>(x, 1024, stream), sum = read_back<float>(sums, 4, stream);
  for (size_t i = 0; i < 1024; i++) EXPECT(got[i] == static_cast<float>(i / 256 * 256 + 255 - i % 256));
  for (size_t i = 0; i < 4; i++) EXPECT(sum[i] == static_cast<float>(256 * 256 * i + 255 * 128));
}

static void warps_answer() {
  make_context();
  CUstream stream = make_stream();
  const CUdeviceptr x = allocate(64 * 4), result = allocate(64 * 8 * 4);
  std::vector<int> values(64);
  for (int i = 0; i < 64; i++) values[static_cast<size_t>(i)] = i;
  MUST(cu.cuMemcpyHtoDAsync_v2(x, values.data(), 256, stream));
  MUST(launch(get_kernel(load_image("good_kernels.so"), "ask_warp"), stream, {1, 64}, x, result));
  const std::vector<int> got = read_back<int>(result, 64 * 8, stream);
  for (int i = 0; i < 64; i++) {
    const int *own = &got[static_cast<size_t>(i) * 8], lane = i % 32, base = i - lane;
    EXPECT(own[0] == 32 * base + 496);
    EXPECT(own[1] == base + 5);
    EXPECT(own[2] == (lane ? i - 1 : i));
    EXPECT(own[3] == (lane < 31 ? i + 1 : i));
    EXPECT(own[4] == i / 8 * 8 + 1);
    EXPECT(own[5] == static_cast<int>(0xaaaaaaaau));
    EXPECT(own[6] == (base == 0 ? 3 : 1));
    EXPECT(own[7] == (lane < 16 ? base + 3 : -1));
  }
}

static void barriers_count() {
  make_context();
  CUstream stream = make_stream();
  const CUdeviceptr x = allocate(40 * 4), counts = allocate(12);
  std::vector<int> values(40);
  for (int i = 0; i < 40; i++) values[static_cast<size_t>(i)] = i;
  MUST(cu.cuMemcpyHtoDAsync_v2(x, values.data(), 160, stream));
  MUST(launch(get_kernel(load_image("good_kernels.so"), "count_even"), stream, {1, 40}, x, counts));
  EXPECT(read_back<int>(counts, 3, stream) == (std::vector<int>{20, 0, 1}));
}

static void atomics_lose_nothing() {
  make_context();
  CUstream stream = make_stream();
  const CUdeviceptr words = allocate(12);
  MUST(cu.cuMemsetD32Async(words, 0, 3, stream));
  MUST(launch(get_kernel(load_image("good_kernels.so"), "count_threads"), stream, {50, 130}, words, words + 4,
              words + 8));
  EXPECT(read_back<unsigned>(words, 3, stream) == (std::vector<unsigned>{6500, 0x454b2000u, 0}));
}

// The kernel `name` must end the context with `code` and a text that contains all `parts`.
static void expect_end(const char *name, launch_shape shape, CUresult code, std::vector<const char *> parts,
                       CUdeviceptr x) {
  CUstream stream = make_stream();
  launch(get_kernel(load_image("bad_kernels.so"), name), stream, shape, x, x);
  EXPECT_CODE(code, cu.cuStreamSynchronize(stream));
  const std::string text = fault_text(code);
  parts.push_back(name);
  for (const char *part : parts)
    if (text.find(part) == std::string::npos) EXPECT(text.c_str() == part); // to be seen in a debugger
  size_t bytes;
  EXPECT_CODE(code, cu.cuMemGetInfo_v2(&bytes, &bytes));
}

struct mistake {
  const char *name;
  launch_shape shape;
  CUresult code;
  std::vector<const char *> parts;
};

static const mistake mistakes[] = {
    {"divergent_barrier",
     {1, 32},
     CUDA_ERROR_LAUNCH_FAILED,
     {"16 at the barrier bad_kernels.cu:", "16 of 32 have ended"}},
    {"two_barriers", {1, 32}, CUDA_ERROR_LAUNCH_FAILED, {"a barrier in divergent code"}},
    {"barrier_against_shuffle",
     {1, 32},
     CUDA_ERROR_LAUNCH_FAILED,
     {"16 at the barrier", "16 at the warp's collective"}},
    {"exited_lanes", {1, 32}, CUDA_ERROR_LAUNCH_FAILED, {"16 at the warp's collective", "16 of 32 have ended"}},
    {"mask_without_itself", {1, 32}, CUDA_ERROR_LAUNCH_FAILED, {"lacks the lane itself"}},
    {"lane_outside_mask", {1, 32}, CUDA_ERROR_LAUNCH_FAILED, {"a lane that its mask does not name"}},
    {"vote_against_shuffle", {1, 32}, CUDA_ERROR_LAUNCH_FAILED, {"different collectives"}},
    {"endless", {1, 1}, CUDA_ERROR_LAUNCH_TIMEOUT, {"watchdog"}},
    {"deep_stack", {1, 1}, CUDA_ERROR_ILLEGAL_ADDRESS, {}},
    {"trapped", {1, 1}, CUDA_ERROR_LAUNCH_FAILED, {"trap at "}},
    {"divided", {1, 1}, CUDA_ERROR_LAUNCH_FAILED, {"division by zero"}},
    {"set_condition", {1, 1}, CUDA_ERROR_ILLEGAL_ADDRESS, {"cudaGraphSetConditional"}},
};

template <size_t index> static void makes_mistake() {
  make_context();
  CUstream stream = make_stream();
  const CUdeviceptr x = allocate(1024);
  MUST(cu.cuMemsetD8Async(x, 0, 1024, stream));
  MUST(cu.cuStreamSynchronize(stream));
  const mistake &one = mistakes[index];
  expect_end(one.name, one.shape, one.code, one.parts, x);
}

static void beyond_shared_memory() {
  make_context();
  CUstream stream = make_stream();
  CUkernel kernel = get_kernel(load_image("bad_kernels.so"), "beyond_shared");
  const CUdeviceptr x = allocate(4);
  MUST(launch(kernel, stream, {1, 1, 64}, 15, x));
  EXPECT(read_back<float>(x, 1, stream)[0] == 1.0f);
  launch(kernel, stream, {1, 1, 64}, 16, x);
  EXPECT_CODE(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuStreamSynchronize(stream));
}

static void shared_memory_begins_as_nan() {
  make_context();
  CUstream stream = make_stream();
  const CUdeviceptr x = allocate(8);
  MUST(launch(get_kernel(load_image("bad_kernels.so"), "read_shared"), stream, {1, 1, 16}, x));
  for (float value : read_back<float>(x, 2, stream)) EXPECT(value != value);
}

// In the plain order every thread but the last reads too early.
static void missing_barrier_is_wrong() {
  make_context();
  CUstream stream = make_stream();
  const CUdeviceptr x = allocate(128);
  MUST(launch(get_kernel(load_image("bad_kernels.so"), "missing_barrier"), stream, {1, 32}, x));
  const std::vector<int> got = read_back<int>(x, 32, stream);
  EXPECT(got[0] == -1);
}

static void unloaded_kernels_do_not_run() {
  make_context();
  CUstream stream = make_stream();
  CUgraph graph;
  CUlibrary library = load_image("good_kernels.so");
  const CUdeviceptr x = allocate(4);
  MUST(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  MUST(launch(get_kernel(library, "set_value"), stream, {}, x, 1));
  MUST(cu.cuStreamEndCapture(stream, &graph));
  CUgraphExec executable = instantiate(graph);
  MUST(cu.cuLibraryUnload(library));
  cu.cuGraphLaunch(executable, stream);
  EXPECT_CODE(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuStreamSynchronize(stream));
}

int main() {
  std::vector<test> tests = {
      {"libraries list their kernels", libraries_list_their_kernels, eager},
      {"libraries stand beside each other", libraries_stand_beside_each_other, eager},
      {"images are looked at", images_are_looked_at, eager},
      {"parameters have a layout", parameters_have_a_layout, eager},
      {"parameters keep their alignment", parameters_keep_their_alignment, eager},
      {"launches have limits", launches_have_limits, eager},
      {"grids reach every element", grids_reach_every_element},
      {"shared memory and barriers", shared_memory_and_barriers},
      {"shared memory and barriers, another order", shared_memory_and_barriers, all, {{"SEED", "7"}}},
      {"warps answer", warps_answer},
      {"warps answer, another order", warps_answer, all, {{"SEED", "8"}}},
      {"barriers count", barriers_count, eager, {{"SEED", "3"}}},
      {"atomics lose nothing", atomics_lose_nothing, all, {{"THREADS", "4"}}},
      {"beyond shared memory", beyond_shared_memory},
      {"shared memory begins as NaN", shared_memory_begins_as_nan, eager},
      {"a missing barrier is wrong", missing_barrier_is_wrong, eager},
      {"unloaded kernels do not run", unloaded_kernels_do_not_run},
  };
  static void (*const wrong[])() = {makes_mistake<0>, makes_mistake<1>, makes_mistake<2>,  makes_mistake<3>,
                                    makes_mistake<4>, makes_mistake<5>, makes_mistake<6>,  makes_mistake<7>,
                                    makes_mistake<8>, makes_mistake<9>, makes_mistake<10>, makes_mistake<11>};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    tests.push_back({mistakes[i].name, wrong[i], eager | thread, {{"WATCHDOG_MS", "200"}}});
  return run(tests);
}
