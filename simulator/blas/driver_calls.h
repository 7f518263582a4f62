// SPDX-License-Identifier: MIT
// The simulated driver's calls, as far as they are used here, and the image of the kernels.
#ifndef SIMULATOR_BLAS_DRIVER_CALLS_H
#define SIMULATOR_BLAS_DRIVER_CALLS_H

#include <cuda.h>

namespace simulated_blas {

struct driver_calls {
  decltype(&::cuCtxGetCurrent) get_current;
  decltype(&::cuCtxSynchronize) synchronize;
  decltype(&::cuLibraryLoadData) load;
  decltype(&::cuLibraryUnload) unload;
  decltype(&::cuLibraryGetKernel) get_kernel;
  decltype(&::cuLaunchKernelEx) launch;
};

// Those of the driver that the process uses; of the one beside this library where it uses none. Null: there is none.
const driver_calls *find_driver();

extern "C" __attribute__((visibility("hidden"))) const unsigned char simulated_blas_image[];

} // namespace simulated_blas

#endif
