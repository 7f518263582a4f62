// SPDX-License-Identifier: MIT
#include "driver_calls.h"

#include <dlfcn.h>

#include <string>

// The kernels, built beside this file, as data.
__asm__(".pushsection .rodata\n.balign 64\n.globl simulated_blas_image\n.hidden simulated_blas_image\n"
        "simulated_blas_image:\n.incbin \"" SIMULATED_BLAS_IMAGE "\"\n.popsection");

namespace simulated_blas {

constexpr const char *driver_name = "libordito_simulated_cuda.so";

static void *open_driver() {
  if (void *used = dlopen(driver_name, RTLD_NOW | RTLD_NOLOAD)) return used;
  Dl_info own;
  if (!dladdr(simulated_blas_image, &own)) return nullptr;
  const std::string path = own.dli_fname;
  return dlopen((path.substr(0, path.rfind('/') + 1) + driver_name).c_str(), RTLD_NOW | RTLD_LOCAL);
}

template <typename Call> static bool find(void *driver, const char *name, Call &call) {
  call = reinterpret_cast<Call>(dlsym(driver, name));
  return call != nullptr;
}

const driver_calls *find_driver() {
  static driver_calls calls;
  static const bool is_found = [] {
    void *driver = open_driver();
    return driver && find(driver, "cuCtxGetCurrent", calls.get_current) &&
           find(driver, "cuCtxSynchronize", calls.synchronize) && find(driver, "cuLibraryLoadData", calls.load) &&
           find(driver, "cuLibraryUnload", calls.unload) && find(driver, "cuLibraryGetKernel", calls.get_kernel) &&
           find(driver, "cuLaunchKernelEx", calls.launch);
  }();
  return is_found ? &calls : nullptr;
}

} // namespace simulated_blas
