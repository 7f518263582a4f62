// SPDX-License-Identifier: MIT
// The device, its primary context, and which context is current on a thread.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "checker.h"
#include "stream.h"

namespace simulated {

struct attribute {
  CUdevice_attribute name;
  int value;
};

// A device of compute capability 9.0.
static const attribute attributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
    {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 52428800},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 1},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000000},
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1000000},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 512},
};

static CUresult on_device(CUdevice device, bool is_answered) {
  return enter(needs::driver, [&](driver &, lock &) {
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    return is_answered ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

// Everything that the context owns goes with its last reference.
static void end_context(driver &d, lock &held) {
  finish_all(d, held);
  for (CUstream stream : d.streams) delete stream;
  for (CUevent event : d.events) delete event;
  d.streams.clear();
  d.events.clear();
  d.captures.clear();
  d.memory.release_all();
  if (d.checks) d.checks->remove_all();
}

} // namespace simulated

using namespace simulated;

extern "C" {

CUresult cuDeviceGetCount(int *count) {
  return enter(needs::driver, [&](driver &d, lock &) {
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    *count = d.set.devices;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  const CUresult code = on_device(ordinal, device);
  if (code == CUDA_SUCCESS) *device = ordinal;
  return code;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
  const CUresult code = on_device(device, name && length > 0);
  if (code == CUDA_SUCCESS) snprintf(name, static_cast<size_t>(length), "SIMULATED CUDA device (sm_90)");
  return code;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
  const CUresult code = on_device(device, uuid);
  if (code == CUDA_SUCCESS) memcpy(uuid->bytes, "SIMULATED sm_90 ", sizeof uuid->bytes);
  return code;
}

CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device) {
  const CUresult code = on_device(device, id && length > 0);
  if (code == CUDA_SUCCESS) snprintf(id, static_cast<size_t>(length), "ffff:00:00.0");
  return code;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  const CUresult code = on_device(device, bytes);
  if (code == CUDA_SUCCESS) *bytes = state().set.memory_bytes;
  return code;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute name, CUdevice device) {
  const CUresult code = on_device(device, value && name > 0 && name < CU_DEVICE_ATTRIBUTE_MAX);
  if (code != CUDA_SUCCESS) return code;
  const auto *found =
      std::find_if(std::begin(attributes), std::end(attributes), [name](auto &one) { return one.name == name; });
  *value = found == std::end(attributes) ? 0 : found->value; // no such ability
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  const CUresult code = on_device(device, context);
  if (code != CUDA_SUCCESS) return code;
  return enter(needs::driver, [&](driver &d, lock &) {
    if (d.fault != CUDA_SUCCESS) return d.fault;
    d.context.references++;
    *context = &d.context;
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  const CUresult code = on_device(device, true);
  if (code != CUDA_SUCCESS) return code;
  return enter(needs::driver, [](driver &d, lock &held) {
    if (!d.context.references) return CUDA_ERROR_INVALID_CONTEXT;
    if (--d.context.references == 0) end_context(d, held);
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
  const CUresult code = on_device(device, !(flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)));
  if (code == CUDA_SUCCESS) state().context.flags = flags;
  return code;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *is_active) {
  const CUresult code = on_device(device, flags && is_active);
  if (code != CUDA_SUCCESS) return code;
  *flags = state().context.flags;
  *is_active = state().context.references > 0;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  return enter(needs::driver, [&](driver &d, lock &) {
    if (context && (context != &d.context || !d.context.references)) return CUDA_ERROR_INVALID_CONTEXT;
    auto &contexts = this_thread().contexts;
    if (!contexts.empty()) contexts.pop_back();
    if (context) contexts.push_back(context);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetCurrent(CUcontext *context) {
  return enter(needs::driver, [&](driver &, lock &) {
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    const auto &contexts = this_thread().contexts;
    *context = contexts.empty() ? nullptr : contexts.back();
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  return enter(needs::driver, [&](driver &d, lock &) {
    if (context != &d.context || !d.context.references) return CUDA_ERROR_INVALID_CONTEXT;
    this_thread().contexts.push_back(context);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxPopCurrent_v2(CUcontext *context) {
  return enter(needs::driver, [&](driver &, lock &) {
    auto &contexts = this_thread().contexts;
    if (contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (context) *context = contexts.back();
    contexts.pop_back();
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  return enter(needs::context, [&](driver &, lock &) {
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return CUDA_SUCCESS;
  });
}
}
