// SPDX-License-Identifier: MIT
// The built-ins of CUDA C++ for kernel sources that g++ compiles into an image for the simulated driver. nvcc has its
// own: there this header defines the three macros at its end and nothing else. Include it before any header of the
// toolkit, since __shared__ has another meaning here.
//   __shared__ works for static shared memory; for dynamic shared memory write DYNAMIC_SHARED(float, name);
//   after each kernel write EXPORT_KERNEL(name); with its name as the driver shall know it.
#ifndef SIMULATOR_DEVICE_CUDA_BUILTINS_H
#define SIMULATOR_DEVICE_CUDA_BUILTINS_H

#ifdef __CUDACC__

#define DYNAMIC_SHARED(type, name) extern __shared__ __align__(16) type name[]
#define EXPORT_KERNEL(name) static_assert(true, "")
#define KERNEL_TRAP(text) __trap()

#else

// One block at a time runs on a thread of the operating system, so its shared memory is that thread's own.
#define __shared__ thread_local
#define __launch_bounds__(...)

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <utility>

#include <vector_functions.h>
#include <vector_types.h>

#include "interface.h"

extern "C" {
extern const simulated::kernel_entry *const __start_simulated_kernels[] __attribute__((weak, visibility("hidden")));
extern const simulated::kernel_entry *const __stop_simulated_kernels[] __attribute__((weak, visibility("hidden")));
__attribute__((used, visibility("default"))) simulated::image simulated_image = {
    simulated::image_magic, simulated::image_version, __start_simulated_kernels, __stop_simulated_kernels, nullptr};
}

namespace simulated {

template <typename Function> struct signature;
template <typename... Parameters> struct signature<void (*)(Parameters...)> {
  static constexpr size_t count = sizeof...(Parameters);
  struct layout {
    size_t offsets[count + 1], sizes[count + 1];
  };
  static constexpr layout make_layout() {
    layout made = {};
    const size_t sizes[] = {sizeof(Parameters)..., 0}, alignments[] = {alignof(Parameters)..., 1};
    size_t end = 0;
    for (size_t i = 0; i < count; i++) {
      made.offsets[i] = (end + alignments[i] - 1) / alignments[i] * alignments[i];
      made.sizes[i] = sizes[i];
      end = made.offsets[i] + sizes[i];
    }
    return made;
  }
  static constexpr layout parameters = make_layout();
  template <void (*kernel)(Parameters...), size_t... i>
  static void invoke_with(void **arguments, std::index_sequence<i...>) {
    (void)arguments;
    kernel(*static_cast<Parameters *>(arguments[i])...);
  }
  template <void (*kernel)(Parameters...)> static void invoke(void **arguments) {
    invoke_with<kernel>(arguments, std::index_sequence_for<Parameters...>());
  }
};

inline const services *host() { return simulated_image.host; }

} // namespace simulated

#define EXPORT_KERNEL(name)                                                                                            \
  static const simulated::kernel_entry simulated_entry_##name = {                                                      \
      #name, simulated::signature<decltype(&name)>::invoke<name>, simulated::signature<decltype(&name)>::count,        \
      simulated::signature<decltype(&name)>::parameters.offsets,                                                       \
      simulated::signature<decltype(&name)>::parameters.sizes};                                                        \
  __attribute__((section("simulated_kernels"),                                                                         \
                 used)) static const simulated::kernel_entry *const simulated_pointer_##name = &simulated_entry_##name
#define DYNAMIC_SHARED(type, name) type *name = static_cast<type *>(simulated::host()->dynamic_shared())
#define KERNEL_TRAP(text) simulated::host()->trap(text, {__FILE__, __LINE__})

#define threadIdx (simulated::host()->position()->thread)
#define blockIdx (simulated::host()->position()->block)
#define blockDim (simulated::host()->position()->block_size)
#define gridDim (simulated::host()->position()->grid_size)
constexpr int warpSize = simulated::warp_size;

#include "cuda_collectives.h"
#include "cuda_scalars.h"

#endif
#endif
