// SPDX-License-Identifier: MIT
// One piece of work for the device: what a call enqueues and what a graph node holds.
#ifndef SIMULATOR_WORK_H
#define SIMULATOR_WORK_H

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "device/interface.h"
#include "driver.h"

namespace simulated {
struct image_checks;
struct past_launch;

// A static __shared__ variable: it lies in the image's thread-local storage.
struct shared_variable {
  size_t offset, bytes;
  std::string symbol;
};
} // namespace simulated

// Kernels live as long as their library, and a library as long as anything still names one of its kernels.
struct CUlib_st {
  void *handle = nullptr;
  int file = -1; // of the image, in memory
  bool is_unloaded = false;
  uintptr_t start = 0; // of the loaded image
  size_t bytes = 0;
  size_t shared_bytes = 0;                           // of all static __shared__ variables of the image
  size_t module_id = 0;                              // of its thread-local storage
  std::vector<simulated::shared_variable> variables; // by offset; none where the image is stripped
  simulated::image_checks *checks = nullptr;         // of a checked image
  std::vector<std::unique_ptr<CUkern_st>> kernels;
  ~CUlib_st();
};

struct CUkern_st {
  CUlib_st *library;
  const simulated::kernel_entry *entry;
  int dynamic_shared_limit;
  std::vector<simulated::shared_variable> variables = {}; // that it may use
  size_t static_shared_bytes = 0;
  bool is_loaded = false; // by cuFuncLoad
};

namespace simulated {

// The switch of a conditional node.
struct condition {
  cuuint64_t handle;
  CUgraph graph;
  unsigned default_value, flags;
  bool is_used = false;
  std::atomic<unsigned> value{0};
};

struct kernel_launch {
  std::shared_ptr<CUlib_st> library;
  CUkernel kernel = nullptr;
  dim3 grid, block;
  unsigned shared_bytes = 0;
  bool is_programmatic = false; // may overlap the kernel before it
  std::vector<unsigned char> parameters;
};

struct work {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  kernel_launch kernel;
  CUDA_MEMCPY3D copy = {};
  CUDA_MEMSET_NODE_PARAMS fill = {};
  CUgraph child = nullptr; // owned by the node
  std::shared_ptr<condition> on;
  CUgraphConditionalNodeType loop = CU_GRAPH_COND_TYPE_IF;
  std::vector<CUgraph> bodies; // owned by the node
};

using conditions = std::vector<std::shared_ptr<condition>>;

// What a piece of work runs among.
struct surroundings {
  const conditions *switches = nullptr; // what a kernel may switch; null outside a graph's launch
  // Launches of checked kernels: those that need not have ended when the kernel begins; and, made here, its own.
  std::vector<std::shared_ptr<const past_launch>> ahead = {};
  std::shared_ptr<const past_launch> launched = {};
};

// Runs a kernel, a copy or a memset. Without the lock.
CUresult run_work(const work &job, surroundings &among, std::string &text);
CUresult run_kernel(const kernel_launch &launch, surroundings &among, std::string &text);

CUresult check_copy(driver &d, const CUDA_MEMCPY3D &copy);
CUresult check_fill(driver &d, const CUDA_MEMSET_NODE_PARAMS &fill);
bool is_device_or_mapped(driver &d, const CUDA_MEMCPY3D &copy);
// Fills `made` from a kernel node's parameters, or says what is wrong with them.
CUresult describe_launch(driver &d, const CUDA_KERNEL_NODE_PARAMS &asked, kernel_launch &made);

} // namespace simulated

#endif
