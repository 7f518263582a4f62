// SPDX-License-Identifier: MIT
// Libraries and kernels.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "checker.h"
#include "execute.h"
#include "image.h"
#include "stream.h"

CUlib_st::~CUlib_st() {
  if (handle) dlclose(handle);
  if (file >= 0) close(file);
}

namespace simulated {

constexpr int default_dynamic_shared = 49152, largest_shared = 232448;
constexpr uint32_t fatbin_magic = 0xba55ed50;

// Libraries by handle: a launch and a graph keep theirs alive after it was unloaded.
static std::vector<std::shared_ptr<CUlib_st>> &loaded() {
  static auto *made = new std::vector<std::shared_ptr<CUlib_st>>;
  return *made;
}

// Memory that is there already may have been written by anybody.
static void begin_checking(driver &d) {
  if (d.checks) return;
  d.checks = new checker(d);
  d.memory.each([&d](const allocation &held) { d.checks->add(held, true); });
}

static void find_shared_bytes(CUkern_st &kernel, const image &of) {
  kernel.variables = find_shared_variables(*kernel.library, of, kernel.entry->name);
  for (const shared_variable &one : kernel.variables) kernel.static_shared_bytes += one.bytes;
  if (kernel.library->variables.empty()) kernel.static_shared_bytes = kernel.library->shared_bytes;
}

// Code comes and goes when the device may have to wait for that.
static CUresult wait_for_code(driver &d, lock &held) {
  const CUresult code = refuse_unsafe(d);
  return code == CUDA_SUCCESS ? finish_context(d, held) : code;
}

static CUresult load(driver &d, const void *code, CUlibrary *made) {
  uint32_t magic = 0;
  memcpy(&magic, code, sizeof magic);
  if (magic == fatbin_magic) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  const size_t bytes = find_image_bytes(code);
  if (!bytes) return CUDA_ERROR_INVALID_IMAGE;
  auto library = std::make_shared<CUlib_st>();
  open_image(code, bytes, *library);
  if (!library->handle) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  auto *found = static_cast<image *>(dlsym(library->handle, "simulated_image"));
  if (!found || found->magic != image_magic) return CUDA_ERROR_INVALID_IMAGE;
  if (found->version != image_version) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  found->host = &device_services();
  library->checks = static_cast<image_checks *>(dlsym(library->handle, "simulated_checks"));
  if (library->checks) {
    if (library->checks->version != checks_version) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    begin_checking(d);
    library->checks->host = &checking_services();
  }
  for (const auto *entry = found->first; entry != found->last; entry++) {
    library->kernels.emplace_back(new CUkern_st{library.get(), *entry, default_dynamic_shared});
    find_shared_bytes(*library->kernels.back(), *found);
    d.kernels.insert(library->kernels.back().get());
  }
  *made = library.get();
  d.libraries.insert(library.get());
  loaded().push_back(std::move(library));
  return CUDA_SUCCESS;
}

static std::shared_ptr<CUlib_st> share(CUlib_st *library) {
  for (auto &one : loaded())
    if (one.get() == library) return one;
  return nullptr;
}

template <typename Function> static CUresult with_library(CUlibrary library, Function body) {
  return enter(needs::context, [&](driver &d, lock &held) {
    return d.libraries.count(library) ? body(d, held) : CUDA_ERROR_INVALID_HANDLE;
  });
}
template <typename Function> static CUresult with_kernel(CUkernel kernel, Function body) {
  return enter(needs::context,
               [&](driver &d, lock &) { return d.kernels.count(kernel) ? body(d) : CUDA_ERROR_INVALID_HANDLE; });
}

// A CUkernel may stand for its function wherever a CUfunction is taken, so the function is the kernel.
static CUkernel kernel_of(CUfunction function) { return reinterpret_cast<CUkernel>(function); }

static bool is_size_valid(dim3 grid, dim3 block) {
  return grid.x && grid.y && grid.z && block.x && block.y && block.z && grid.x <= 2147483647u && grid.y <= 65535u &&
         grid.z <= 65535u && block.x <= 1024u && block.y <= 1024u && block.z <= 64u &&
         block.x * block.y * block.z <= 1024u;
}

CUresult describe_launch(driver &d, const CUDA_KERNEL_NODE_PARAMS &asked, kernel_launch &made) {
  CUkernel kernel = asked.func ? kernel_of(asked.func) : asked.kern;
  if (!d.kernels.count(kernel)) return CUDA_ERROR_INVALID_HANDLE;
  if (!asked.func && asked.ctx && asked.ctx != &d.context) return CUDA_ERROR_INVALID_CONTEXT;
  if (asked.extra) return CUDA_ERROR_NOT_SUPPORTED;
  made.grid = dim3(asked.gridDimX, asked.gridDimY, asked.gridDimZ);
  made.block = dim3(asked.blockDimX, asked.blockDimY, asked.blockDimZ);
  if (!is_size_valid(made.grid, made.block)) return CUDA_ERROR_INVALID_VALUE;
  if (asked.sharedMemBytes > static_cast<unsigned>(kernel->dynamic_shared_limit)) return CUDA_ERROR_INVALID_VALUE;
  const kernel_entry &entry = *kernel->entry;
  if (entry.parameter_count && !asked.kernelParams) return CUDA_ERROR_INVALID_VALUE;
  made.parameters.clear();
  for (size_t i = 0; i < entry.parameter_count; i++) {
    if (!asked.kernelParams[i]) return CUDA_ERROR_INVALID_VALUE;
    made.parameters.resize(entry.offsets[i] + entry.sizes[i]);
    memcpy(&made.parameters[entry.offsets[i]], asked.kernelParams[i], entry.sizes[i]);
  }
  made.kernel = kernel;
  made.library = share(kernel->library);
  made.shared_bytes = asked.sharedMemBytes;
  return CUDA_SUCCESS;
}

static CUresult read_attributes(const CUlaunchConfig &config, kernel_launch &made) {
  if (config.numAttrs && !config.attrs) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < config.numAttrs; i++) {
    const CUlaunchAttribute &one = config.attrs[i];
    const auto &cluster = one.value.clusterDim;
    switch (one.id) {
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
      made.is_programmatic = one.value.programmaticStreamSerializationAllowed != 0;
      break;
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
      if (one.value.cooperative) return CUDA_ERROR_NOT_SUPPORTED;
      break;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      if (cluster.x * cluster.y * cluster.z != 1) return CUDA_ERROR_NOT_SUPPORTED;
      break;
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      break;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
    }
  }
  return CUDA_SUCCESS;
}

static CUresult set_limit(CUkernel kernel, CUfunction_attribute name, int value) {
  if (name == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) return CUDA_SUCCESS;
  if (name != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 || value > largest_shared)
    return CUDA_ERROR_INVALID_VALUE;
  kernel->dynamic_shared_limit = value;
  return CUDA_SUCCESS;
}

static CUresult get_attribute(CUkernel kernel, CUfunction_attribute name, int *value) {
  switch (name) {
  case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    *value = 1024;
    break;
  case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
    *value = static_cast<int>(kernel->static_shared_bytes);
    break;
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
    *value = kernel->dynamic_shared_limit;
    break;
  case CU_FUNC_ATTRIBUTE_NUM_REGS:
    *value = 32;
    break;
  case CU_FUNC_ATTRIBUTE_PTX_VERSION:
  case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
    *value = 90;
    break;
  case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
  case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
    *value = 0;
    break;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

} // namespace simulated

using namespace simulated;

extern "C" {

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *, void **, unsigned jit_count,
                           CUlibraryOption *, void **, unsigned) {
  return enter(needs::context, [&](driver &d, lock &held) {
    if (!library || !code || jit_count) return CUDA_ERROR_INVALID_VALUE;
    const CUresult done = wait_for_code(d, held);
    return done == CUDA_SUCCESS ? load(d, code, library) : done;
  });
}

CUresult cuLibraryUnload(CUlibrary library) {
  return with_library(library, [&](driver &d, lock &held) {
    const CUresult code = wait_for_code(d, held);
    if (code != CUDA_SUCCESS) return code;
    for (auto &kernel : library->kernels) d.kernels.erase(kernel.get());
    d.libraries.erase(library);
    library->is_unloaded = true;
    auto &all = loaded();
    all.erase(std::find(all.begin(), all.end(), share(library)));
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
  return with_library(library, [&](driver &, lock &) {
    if (!kernel || !name) return CUDA_ERROR_INVALID_VALUE;
    for (auto &one : library->kernels) {
      if (strcmp(one->entry->name, name) != 0) continue;
      *kernel = one.get();
      return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
  });
}

CUresult cuLibraryGetKernelCount(unsigned *count, CUlibrary library) {
  return with_library(library, [&](driver &, lock &) {
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    *count = static_cast<unsigned>(library->kernels.size());
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned count, CUlibrary library) {
  return with_library(library, [&](driver &, lock &) {
    if (!kernels) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count && i < library->kernels.size(); i++) kernels[i] = library->kernels[i].get();
    return CUDA_SUCCESS;
  });
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
  return with_kernel(kernel, [&](driver &) {
    if (!function) return CUDA_ERROR_INVALID_VALUE;
    *function = reinterpret_cast<CUfunction>(kernel);
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncLoad(CUfunction function) {
  return enter(needs::context, [&](driver &d, lock &held) {
    CUkernel kernel = kernel_of(function);
    if (!d.kernels.count(kernel)) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult code = kernel->is_loaded ? CUDA_SUCCESS : wait_for_code(d, held);
    kernel->is_loaded |= code == CUDA_SUCCESS;
    return code;
  });
}

CUresult cuKernelGetName(const char **name, CUkernel kernel) {
  return with_kernel(kernel, [&](driver &) {
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    *name = kernel->entry->name;
    return CUDA_SUCCESS;
  });
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *bytes) {
  return with_kernel(kernel, [&](driver &) {
    if (!offset || index >= kernel->entry->parameter_count) return CUDA_ERROR_INVALID_VALUE;
    *offset = kernel->entry->offsets[index];
    if (bytes) *bytes = kernel->entry->sizes[index];
    return CUDA_SUCCESS;
  });
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute name, CUkernel kernel, CUdevice device) {
  return with_kernel(kernel, [&](driver &) {
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    return value ? get_attribute(kernel, name, value) : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuKernelSetAttribute(CUfunction_attribute name, int value, CUkernel kernel, CUdevice device) {
  return with_kernel(
      kernel, [&](driver &) { return device == 0 ? set_limit(kernel, name, value) : CUDA_ERROR_INVALID_DEVICE; });
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads, size_t shared) {
  return with_kernel(kernel_of(function), [&](driver &) {
    if (!blocks || threads < 1 || threads > 1024) return CUDA_ERROR_INVALID_VALUE;
    const size_t each = shared + kernel_of(function)->static_shared_bytes + 1024; // 1 KiB is the system's
    *blocks = static_cast<int>(std::min<size_t>({size_t{2048} / static_cast<size_t>(threads), 233472 / each, 32}));
    return CUDA_SUCCESS;
  });
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra) {
  return enter(needs::context, [&](driver &d, lock &held) {
    if (!config) return CUDA_ERROR_INVALID_VALUE;
    CUstream stream = find_stream(d, config->hStream);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    work job;
    job.type = CU_GRAPH_NODE_TYPE_KERNEL;
    const CUDA_KERNEL_NODE_PARAMS asked = {function,          config->gridDimX,
                                           config->gridDimY,  config->gridDimZ,
                                           config->blockDimX, config->blockDimY,
                                           config->blockDimZ, config->sharedMemBytes,
                                           parameters,        extra,
                                           nullptr,           nullptr};
    CUresult code = describe_launch(d, asked, job.kernel);
    if (code == CUDA_SUCCESS) code = read_attributes(*config, job.kernel);
    return code == CUDA_SUCCESS ? submit(d, held, stream, std::move(job)) : code;
  });
}
}
