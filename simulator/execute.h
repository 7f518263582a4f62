// SPDX-License-Identifier: MIT
// How a kernel runs: its blocks are shared out to a few threads of the operating system. What goes wrong on the way
// ends the kernel, never the process.
#ifndef SIMULATOR_EXECUTE_H
#define SIMULATOR_EXECUTE_H

#include <cstdint>

#include "work.h"

namespace simulated {

const services &device_services();

// What ended a kernel.
struct kernel_failure {
  CUresult code = CUDA_SUCCESS;
  bool has_address = false;
  uintptr_t address = 0; // that was touched
  std::string text;
};

// All that the threads running one launch need to know.
struct launch_job {
  const kernel_launch &launch;
  const conditions *switches;
  uint64_t seed;
  std::vector<void *> arguments;
  checker *checks; // of a checked image, else null
};

// While it lives, a fault of this thread in a kernel, or the end of the kernel's processor time, ends the block.
class kernel_watch {
public:
  explicit kernel_watch(unsigned milliseconds);
  ~kernel_watch();
  kernel_watch(const kernel_watch &) = delete;
  kernel_watch &operator=(const kernel_watch &) = delete;
};

} // namespace simulated

#endif
