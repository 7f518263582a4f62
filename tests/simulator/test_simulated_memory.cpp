// SPDX-License-Identifier: MIT
// Allocations, their fences, copies.
#include <csetjmp>
#include <csignal>
#include <cstring>

#include "harness.h"

using namespace harness;

static void copies_arrive() {
  make_context();
  CUstream stream = make_stream();
  CUdeviceptr a = allocate(400), b = allocate(400);
  std::vector<int> values(100);
  for (int i = 0; i < 100; i++) values[static_cast<size_t>(i)] = i * i;
  MUST(cu.cuMemcpyHtoDAsync_v2(a, values.data(), 400, stream));
  const std::vector<int> wanted = values;
  values.assign(100, -1); // pageable memory was read before the call returned
  MUST(cu.cuMemcpyDtoDAsync_v2(b, a, 400, stream));
  MUST(cu.cuMemsetD8Async(a, 7, 400, stream));
  MUST(cu.cuMemsetD32Async(b + 4, 9, 1, stream));
  std::vector<int> got = read_back<int>(b, 100, stream);
  EXPECT(got[1] == 9);
  got[1] = 1;
  EXPECT(got == wanted);
  EXPECT(read_back<int>(a, 100, stream)[99] == 0x07070707);
}

static void new_memory_is_nan() {
  make_context();
  const std::vector<float> values = read_back<float>(allocate(40), 10, make_stream());
  for (float value : values) EXPECT(value != value);
}

static void addresses_are_never_reused() {
  make_context();
  const CUdeviceptr first = allocate(1000);
  size_t before, after, total;
  MUST(cu.cuMemGetInfo_v2(&before, &total));
  MUST(cu.cuMemFree_v2(first));
  MUST(cu.cuMemGetInfo_v2(&after, &total));
  EXPECT(after == before + 1024 && after == total);
  EXPECT(allocate(1000) != first);
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemFree_v2(first));
  MUST(cu.cuMemFree_v2(0));
}

static void copies_stay_inside() {
  make_context();
  CUstream stream = make_stream();
  CUdeviceptr a = allocate(100);
  char bytes[200] = {};
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpyHtoDAsync_v2(a, bytes, 101, stream));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpyDtoHAsync_v2(bytes, a + 1, 100, stream));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpyDtoDAsync_v2(reinterpret_cast<CUdeviceptr>(bytes), a, 10, stream));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD32Async(a, 0, 26, stream));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD32Async(a + 2, 0, 1, stream));
}

// Copies that name no direction, and what the driver knows of an address.
static void unified_addresses_are_resolved() {
  make_context();
  CUstream stream = make_stream();
  const CUdeviceptr a = allocate(4), b = allocate(4);
  void *pinned;
  int value = 5, ordinal = -1;
  MUST(cu.cuMemHostAlloc(&pinned, 4, 0));
  const auto host = reinterpret_cast<CUdeviceptr>(pinned), pageable = reinterpret_cast<CUdeviceptr>(&value);
  MUST(cu.cuMemcpyAsync(a, pageable, 4, stream));
  value = 0;
  MUST(cu.cuMemcpyAsync(b, a, 4, stream));
  MUST(cu.cuMemcpyAsync(host, b, 4, stream));
  MUST(cu.cuMemcpyAsync(pageable, host, 4, stream));
  EXPECT(value == 5);
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpyAsync(a, b, 8, stream));
  CUmemorytype type;
  MUST(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a));
  MUST(cu.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, a));
  EXPECT(type == CU_MEMORYTYPE_DEVICE && ordinal == 0);
  MUST(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, host));
  EXPECT(type == CU_MEMORYTYPE_HOST);
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pageable));
}

static void the_nth_allocation_fails() {
  make_context();
  CUdeviceptr start;
  void *host;
  allocate(1);
  MUST(cu.cuMemHostAlloc(&host, 1, 0));
  EXPECT_CODE(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&start, 1));
  allocate(1);
}

static void memory_runs_out() {
  make_context();
  CUdeviceptr start;
  allocate(600000);
  EXPECT_CODE(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&start, 600000));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemAlloc_v2(&start, 0));
}

static void mapped_memory_is_shared() {
  make_context();
  void *host;
  CUdeviceptr device;
  MUST(cu.cuMemHostAlloc(&host, 64, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
  MUST(cu.cuMemHostGetDevicePointer_v2(&device, host, 0));
  EXPECT(device == reinterpret_cast<CUdeviceptr>(host));
  CUstream stream = make_stream();
  MUST(launch(get_kernel(load_image("good_kernels.so"), "set_value"), stream, {}, device, 42));
  MUST(cu.cuStreamSynchronize(stream));
  EXPECT(*static_cast<int *>(host) == 42);
  MUST(cu.cuMemFreeHost(host));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemFreeHost(host));
}

static sigjmp_buf back;
static void jump_back(int) { siglongjmp(back, 1); }
static bool touches(CUdeviceptr start) {
  signal(SIGSEGV, jump_back);
  if (sigsetjmp(back, 1)) return false;
  *reinterpret_cast<volatile char *>(start) = 1;
  return true;
}

static void host_is_shut_out() {
  make_context();
  CUdeviceptr start = allocate(100);
  EXPECT(!touches(start));
  CUstream stream = make_stream();
  MUST(cu.cuMemsetD8Async(start, 0, 100, stream));
  MUST(cu.cuStreamSynchronize(stream));
  EXPECT(!touches(start));
  EXPECT(!touches(start - 10000));
}

static CUresult write_at(CUdeviceptr start, long index) {
  CUstream stream = make_stream();
  launch(get_kernel(load_image("bad_kernels.so"), "write_at"), stream, {}, start, index);
  return cu.cuStreamSynchronize(stream);
}

static void expect_fault(CUresult code, const char *part) {
  EXPECT(code == CUDA_ERROR_ILLEGAL_ADDRESS);
  if (fault_text(code).find(part) == std::string::npos) EXPECT(fault_text(code).c_str() == part);
}

static void kernel_beyond_the_end() {
  make_context();
  const CUdeviceptr start = allocate(1024);
  expect_fault(write_at(start, 256), "kernel write_at, block (0, 0, 0), thread (0, 0, 0)");
  EXPECT(fault_text(CUDA_ERROR_ILLEGAL_ADDRESS).find("an allocation of 1024 bytes") != std::string::npos);
  CUdeviceptr other; // the context is dead
  EXPECT_CODE(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuMemAlloc_v2(&other, 1));
  CUcontext context;
  EXPECT_CODE(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuDevicePrimaryCtxRetain(&context, 0));
}

static void kernel_in_the_slack() {
  make_context();
  expect_fault(write_at(allocate(1020), 255), "bytes beyond the end of an allocation of 1020 bytes were written");
}

static void kernel_before_the_start() {
  make_context();
  expect_fault(write_at(allocate(1024), -1), "bytes before the start");
}

static void kernel_after_free() {
  make_context();
  const CUdeviceptr start = allocate(1024);
  MUST(cu.cuMemFree_v2(start));
  expect_fault(write_at(start, 0), "freed memory");
}

static void kernel_at_null() {
  make_context();
  expect_fault(write_at(0, 0), "no device memory");
}

static void copy_of_freed_memory() {
  make_context();
  CUstream stream = make_stream();
  CUgraph graph;
  CUdeviceptr a = allocate(64), b = allocate(64);
  MUST(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  MUST(cu.cuMemcpyDtoDAsync_v2(a, b, 64, stream));
  MUST(cu.cuStreamEndCapture(stream, &graph));
  CUgraphExec executable = instantiate(graph);
  MUST(cu.cuMemFree_v2(b));
  cu.cuGraphLaunch(executable, stream);
  expect_fault(cu.cuStreamSynchronize(stream), "freed before it ran");
}

int main() {
  return run({
      {"copies arrive", copies_arrive},
      {"new memory is NaN", new_memory_is_nan},
      {"addresses are never reused", addresses_are_never_reused},
      {"copies stay inside", copies_stay_inside, eager},
      {"unified addresses are resolved", unified_addresses_are_resolved},
      {"the n-th allocation fails", the_nth_allocation_fails, eager, {{"FAIL_ALLOCATION", "3"}}},
      {"memory runs out", memory_runs_out, eager, {{"MEMORY", "1048576"}}},
      {"mapped memory is shared", mapped_memory_is_shared},
      {"the host is shut out", host_is_shut_out, eager | lazy},
      {"a kernel beyond the end", kernel_beyond_the_end},
      {"a kernel in the slack", kernel_in_the_slack},
      {"a kernel before the start", kernel_before_the_start},
      {"a kernel after free", kernel_after_free},
      {"a kernel at null", kernel_at_null},
      {"a copy of freed memory", copy_of_freed_memory},
  });
}
