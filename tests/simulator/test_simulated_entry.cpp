// SPDX-License-Identifier: MIT
// Entry points, the device, its context, errors.
#include <cstring>
#include <thread>

#include "harness.h"

using namespace harness;

static void versions_choose_the_entry() {
  CUdriverProcAddressQueryResult status;
  void *function = nullptr;
  const auto ask = [&](const char *name, int version) {
    return cu.cuGetProcAddress_v2(name, &function, version, 0, &status);
  };
  MUST(ask("cuEventElapsedTime", 2000));
  EXPECT(function == reinterpret_cast<void *>(cu.cuEventElapsedTime));
  MUST(ask("cuEventElapsedTime", 13000));
  EXPECT(function == reinterpret_cast<void *>(cu.cuEventElapsedTime_v2));
  MUST(ask("cuGraphAddNode", 12020));
  EXPECT(!function && status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  MUST(ask("cuNoSuchCall", 13000));
  EXPECT(!function && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, ask("cuInit", 13010)); // newer than the driver
}

static void nothing_works_before_init() {
  int count;
  size_t bytes;
  EXPECT_CODE(CUDA_ERROR_NOT_INITIALIZED, cu.cuDeviceGetCount(&count));
  MUST(cu.cuInit(0));
  MUST(cu.cuDeviceGetCount(&count));
  EXPECT(count == 1);
  EXPECT_CODE(CUDA_ERROR_INVALID_CONTEXT, cu.cuMemGetInfo_v2(&bytes, &bytes));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, cu.cuInit(1));
}

static void no_device() { EXPECT_CODE(CUDA_ERROR_NO_DEVICE, cu.cuInit(0)); }

static void device_says_what_it_is() {
  char name[64];
  int major = 0, minor = -1, version = 0, none = -1;
  size_t bytes = 0;
  MUST(cu.cuInit(0));
  MUST(cu.cuDeviceGetName(name, sizeof name, 0));
  EXPECT(!strncmp(name, "SIMULATED", 9));
  MUST(cu.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  MUST(cu.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0));
  MUST(cu.cuDeviceGetAttribute(&none, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 0));
  EXPECT(major == 9 && minor == 0 && none == 0);
  MUST(cu.cuDeviceTotalMem_v2(&bytes, 0));
  EXPECT(bytes == 1048576);
  MUST(cu.cuDriverGetVersion(&version));
  EXPECT(version == 13000);
  EXPECT_CODE(CUDA_ERROR_INVALID_DEVICE, cu.cuDeviceTotalMem_v2(&bytes, 1));
}

static void contexts_are_current_per_thread() {
  CUcontext context, other = nullptr;
  make_context();
  MUST(cu.cuCtxGetCurrent(&context));
  EXPECT(context);
  std::thread([&] {
    CUcontext here = context;
    MUST(cu.cuCtxGetCurrent(&here));
    EXPECT(!here);
    MUST(cu.cuCtxPushCurrent_v2(context));
    MUST(cu.cuCtxPopCurrent_v2(&other));
  }).join();
  EXPECT(other == context);
  MUST(cu.cuDevicePrimaryCtxRelease_v2(0));
  size_t bytes;
  EXPECT_CODE(CUDA_ERROR_CONTEXT_IS_DESTROYED, cu.cuMemGetInfo_v2(&bytes, &bytes));
}

static void errors_have_names() {
  const char *text = nullptr;
  MUST(cu.cuGetErrorName(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, &text));
  EXPECT(!strcmp(text, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"));
  MUST(cu.cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT(!strcmp(text, "out of memory"));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, cu.cuGetErrorName(static_cast<CUresult>(12345), &text));
}

int main() {
  return run({
      {"versions choose the entry", versions_choose_the_entry, eager},
      {"nothing works before init", nothing_works_before_init, eager},
      {"no device", no_device, eager, {{"DEVICES", "0"}}},
      {"the device says what it is", device_says_what_it_is, eager, {{"MEMORY", "1048576"}}},
      {"contexts are current per thread", contexts_are_current_per_thread, all},
      {"errors have names", errors_have_names, eager},
  });
}
