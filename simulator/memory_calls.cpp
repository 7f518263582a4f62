// SPDX-License-Identifier: MIT
// Allocation, copies and memsets.
#include <cstring>

#include "checker.h"
#include "stream.h"

namespace simulated {

static bool is_injected(driver &d) { return ++d.allocation_count == d.set.failing_allocation; }

static CUresult allocate(driver &d, size_t bytes, place where, uintptr_t &start) {
  const CUresult code = refuse_unsafe(d);
  if (code != CUDA_SUCCESS) return code;
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  const bool is_full = where == place::device && bytes > d.set.memory_bytes - d.memory.device_bytes();
  if (is_injected(d) || is_full || !d.memory.allocate(bytes, where, start)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (d.checks) d.checks->add(*d.memory.find(start, bytes), false);
  return CUDA_SUCCESS;
}

// Freeing waits for the device, as the driver may.
static CUresult release(uintptr_t start, place where) {
  return enter(needs::context, [&](driver &d, lock &held) {
    CUresult code = refuse_unsafe(d);
    if (code != CUDA_SUCCESS || (!start && where == place::device)) return code;
    code = finish_context(d, held);
    if (code != CUDA_SUCCESS) return code;
    if (!d.memory.release(start, where)) return CUDA_ERROR_INVALID_VALUE;
    if (d.checks) d.checks->remove(start);
    return CUDA_SUCCESS;
  });
}

// First byte of a copy on one side, row by row.
static uintptr_t side_start(CUmemorytype type, const void *host, CUdeviceptr device, size_t x, size_t y, size_t pitch) {
  const auto start = type == CU_MEMORYTYPE_HOST ? reinterpret_cast<uintptr_t>(host) : static_cast<uintptr_t>(device);
  return start + x + y * pitch;
}
static uintptr_t source_row(const CUDA_MEMCPY3D &copy, size_t row) {
  return side_start(copy.srcMemoryType, copy.srcHost, copy.srcDevice, copy.srcXInBytes, copy.srcY + row, copy.srcPitch);
}
static uintptr_t result_row(const CUDA_MEMCPY3D &copy, size_t row) {
  return side_start(copy.dstMemoryType, copy.dstHost, copy.dstDevice, copy.dstXInBytes, copy.dstY + row, copy.dstPitch);
}

static bool is_plain(CUmemorytype type) {
  return type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED;
}

// A side in host memory may be anywhere outside device memory, one in device memory lies in a live allocation, and a
// unified address is one of either.
static bool is_side_valid(driver &d, CUmemorytype type, uintptr_t row, size_t bytes) {
  const allocation *held = d.memory.find(row, bytes);
  if (type == CU_MEMORYTYPE_DEVICE || !row) return held;
  return held ? type == CU_MEMORYTYPE_UNIFIED || held->where == place::host : !d.memory.covers(row);
}

CUresult check_copy(driver &d, const CUDA_MEMCPY3D &copy) {
  if (!is_plain(copy.srcMemoryType) || !is_plain(copy.dstMemoryType) || copy.Depth > 1 || copy.srcZ || copy.dstZ)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (copy.srcLOD || copy.dstLOD || copy.reserved0 || copy.reserved1) return CUDA_ERROR_INVALID_VALUE;
  if (!copy.WidthInBytes) return CUDA_SUCCESS;
  for (size_t row = 0; row < copy.Height; row++)
    if (!is_side_valid(d, copy.srcMemoryType, source_row(copy, row), copy.WidthInBytes) ||
        !is_side_valid(d, copy.dstMemoryType, result_row(copy, row), copy.WidthInBytes))
      return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

bool is_device_or_mapped(driver &d, const CUDA_MEMCPY3D &copy) {
  return d.memory.find(source_row(copy, 0), copy.WidthInBytes) && d.memory.find(result_row(copy, 0), copy.WidthInBytes);
}

CUresult check_fill(driver &d, const CUDA_MEMSET_NODE_PARAMS &fill) {
  if (fill.elementSize != 1 && fill.elementSize != 2 && fill.elementSize != 4) return CUDA_ERROR_INVALID_VALUE;
  if (fill.height == 0 || fill.dst % fill.elementSize || fill.width > SIZE_MAX / 4) return CUDA_ERROR_INVALID_VALUE;
  for (size_t row = 0; row < fill.height; row++)
    if (!d.memory.find(fill.dst + row * fill.pitch, fill.width * fill.elementSize)) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

static void run_copy(const CUDA_MEMCPY3D &copy) {
  for (size_t row = 0; row < copy.Height; row++)
    memmove(reinterpret_cast<void *>(result_row(copy, row)), reinterpret_cast<void *>(source_row(copy, row)),
            copy.WidthInBytes);
}

static void run_fill(const CUDA_MEMSET_NODE_PARAMS &fill) {
  for (size_t row = 0; row < fill.height; row++) {
    auto *start = reinterpret_cast<char *>(fill.dst + row * fill.pitch);
    for (size_t i = 0; i < fill.width; i++) memcpy(start + i * fill.elementSize, &fill.value, fill.elementSize);
  }
}

// The checker hears of it before it happens: nothing else runs meanwhile.
static void tell_checker(driver &d, const work &job) {
  const CUDA_MEMCPY3D &copied = job.copy;
  if (job.type == CU_GRAPH_NODE_TYPE_MEMCPY)
    for (size_t row = 0; row < copied.Height; row++)
      d.checks->copy(result_row(copied, row), source_row(copied, row), copied.WidthInBytes);
  else
    for (size_t row = 0; row < job.fill.height; row++)
      d.checks->write(job.fill.dst + row * job.fill.pitch, job.fill.width * job.fill.elementSize);
}

CUresult run_work(const work &job, surroundings &among, std::string &text) {
  if (job.type == CU_GRAPH_NODE_TYPE_KERNEL) return run_kernel(job.kernel, among, text);
  driver &d = state();
  const bool is_copy = job.type == CU_GRAPH_NODE_TYPE_MEMCPY;
  if (!is_copy && job.type != CU_GRAPH_NODE_TYPE_MEMSET) return CUDA_SUCCESS;
  {
    const lock held(d.guard);
    const CUresult code = is_copy ? check_copy(d, job.copy) : check_fill(d, job.fill);
    if (code != CUDA_SUCCESS) {
      text = std::string("a ") + (is_copy ? "copy" : "memset") + " of memory that was freed before it ran";
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    if (d.checks) tell_checker(d, job);
  }
  if (is_copy)
    run_copy(job.copy);
  else
    run_fill(job.fill);
  return CUDA_SUCCESS;
}

static work make_copy(CUmemorytype to, uintptr_t result, CUmemorytype from, uintptr_t source, size_t bytes) {
  work job;
  job.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  job.copy.srcMemoryType = from;
  job.copy.srcHost = from == CU_MEMORYTYPE_HOST ? reinterpret_cast<void *>(source) : nullptr;
  job.copy.srcDevice = from == CU_MEMORYTYPE_HOST ? 0 : source;
  job.copy.dstMemoryType = to;
  job.copy.dstHost = to == CU_MEMORYTYPE_HOST ? reinterpret_cast<void *>(result) : nullptr;
  job.copy.dstDevice = to == CU_MEMORYTYPE_HOST ? 0 : result;
  job.copy.WidthInBytes = bytes;
  job.copy.Height = job.copy.Depth = 1;
  return job;
}

// Pageable host memory is read before the call returns, and written before it returns; pinned memory whenever the
// device comes to it.
static CUresult copy(driver &d, lock &held, work job, CUstream handle) {
  CUstream stream = find_stream(d, handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  CUresult code = check_copy(d, job.copy);
  if (code != CUDA_SUCCESS) return code;
  const auto source = source_row(job.copy, 0), result = result_row(job.copy, 0);
  const size_t bytes = job.copy.WidthInBytes;
  const bool reads_host = !d.memory.find(source, bytes), writes_host = !d.memory.find(result, bytes);
  if (!reads_host || stream->capturing) {
    code = submit(d, held, stream, std::move(job));
    return code == CUDA_SUCCESS && writes_host && !stream->capturing ? finish_stream(d, held, stream) : code;
  }
  code = refuse_implicit(d, stream);
  if (code != CUDA_SUCCESS) return code;
  const auto *start = reinterpret_cast<const char *>(source);
  auto staged = std::make_shared<std::vector<char>>(start, start + bytes);
  auto made = std::make_shared<operation>();
  made->run = [staged, job](std::string &text) mutable {
    job.copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    job.copy.srcHost = staged->data();
    surroundings among;
    return run_work(job, among, text);
  };
  return enqueue(d, held, stream, std::move(made));
}

static CUresult fill(CUdeviceptr start, unsigned value, unsigned element, size_t count, CUstream handle) {
  return enter(needs::context, [&](driver &d, lock &held) {
    CUstream stream = find_stream(d, handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    work job;
    job.type = CU_GRAPH_NODE_TYPE_MEMSET;
    job.fill = {start, 0, value, element, count, 1};
    const CUresult code = check_fill(d, job.fill);
    return code == CUDA_SUCCESS ? submit(d, held, stream, std::move(job)) : code;
  });
}

static uintptr_t address(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer); }

} // namespace simulated

using namespace simulated;

extern "C" {

CUresult cuMemAlloc_v2(CUdeviceptr *start, size_t bytes) {
  return enter(needs::context, [&](driver &d, lock &) {
    uintptr_t made = 0;
    const CUresult code = start ? allocate(d, bytes, place::device, made) : CUDA_ERROR_INVALID_VALUE;
    if (code == CUDA_SUCCESS) *start = made;
    return code;
  });
}

CUresult cuMemFree_v2(CUdeviceptr start) { return release(start, place::device); }

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
  return enter(needs::context, [&](driver &d, lock &) {
    if (!free_bytes || !total) return CUDA_ERROR_INVALID_VALUE;
    *total = d.set.memory_bytes;
    *free_bytes = d.set.memory_bytes - d.memory.device_bytes();
    return CUDA_SUCCESS;
  });
}

CUresult cuMemHostAlloc(void **start, size_t bytes, unsigned flags) {
  return enter(needs::context, [&](driver &d, lock &) {
    const unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    uintptr_t made = 0;
    if (!start || (flags & ~known)) return CUDA_ERROR_INVALID_VALUE;
    const CUresult code = allocate(d, bytes, place::host, made);
    if (code == CUDA_SUCCESS) *start = reinterpret_cast<void *>(made);
    return code;
  });
}

CUresult cuMemFreeHost(void *start) { return release(address(start), place::host); }

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *host, unsigned flags) {
  return enter(needs::context, [&](driver &d, lock &) {
    const allocation *held = d.memory.find(address(host), 0);
    if (!device || flags || !held || held->where != place::host) return CUDA_ERROR_INVALID_VALUE;
    *device = address(host);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr result, const void *source, size_t bytes, CUstream stream) {
  return enter(needs::context, [&](driver &d, lock &held) {
    return copy(d, held, make_copy(CU_MEMORYTYPE_DEVICE, result, CU_MEMORYTYPE_HOST, address(source), bytes), stream);
  });
}

CUresult cuMemcpyDtoHAsync_v2(void *result, CUdeviceptr source, size_t bytes, CUstream stream) {
  return enter(needs::context, [&](driver &d, lock &held) {
    return copy(d, held, make_copy(CU_MEMORYTYPE_HOST, address(result), CU_MEMORYTYPE_DEVICE, source, bytes), stream);
  });
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr result, CUdeviceptr source, size_t bytes, CUstream stream) {
  return enter(needs::context, [&](driver &d, lock &held) {
    return copy(d, held, make_copy(CU_MEMORYTYPE_DEVICE, result, CU_MEMORYTYPE_DEVICE, source, bytes), stream);
  });
}

CUresult cuMemcpyAsync(CUdeviceptr result, CUdeviceptr source, size_t bytes, CUstream stream) {
  return enter(needs::context, [&](driver &d, lock &held) {
    return copy(d, held, make_copy(CU_MEMORYTYPE_UNIFIED, result, CU_MEMORYTYPE_UNIFIED, source, bytes), stream);
  });
}

CUresult cuPointerGetAttribute(void *value, CUpointer_attribute name, CUdeviceptr pointer) {
  return enter(needs::context, [&](driver &d, lock &) {
    const allocation *held = d.memory.find(pointer, 0);
    if (!value || !held) return CUDA_ERROR_INVALID_VALUE; // pageable memory is nothing that the driver knows
    switch (name) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<CUmemorytype *>(value) = held->where == place::device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int *>(value) = 0;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
    }
  });
}

CUresult cuMemsetD8Async(CUdeviceptr start, unsigned char value, size_t count, CUstream stream) {
  return fill(start, value, 1, count, stream);
}

CUresult cuMemsetD32Async(CUdeviceptr start, unsigned value, size_t count, CUstream stream) {
  return fill(start, value, 4, count, stream);
}
}
