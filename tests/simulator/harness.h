// SPDX-License-Identifier: MIT
// Each case runs in a process of its own, once for every order in which the simulated device may work: a fault ends a
// context for good, and settings are read once. The driver is opened as the runtime opens it: by cuGetProcAddress.
#ifndef TESTS_SIMULATOR_HARNESS_H
#define TESTS_SIMULATOR_HARNESS_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <string>
#include <utility>
#include <vector>

namespace harness {

struct entries {
#define ENTRY(asked, exported, since) decltype(&::exported) exported;
#include "entries.def"
#undef ENTRY
};
extern entries cu;

enum orders : unsigned { eager = 1, lazy = 2, thread = 4, all = 7 };

struct test {
  const char *name;
  void (*run)();
  unsigned orders = all;
  std::vector<std::pair<const char *, const char *>> settings = {}; // without their prefix
};

// The first one that fails ends the case.
void expect(bool is_true, const char *claim, const char *file, int line);
void expect_code(CUresult found, CUresult wanted, const char *call, const char *file, int line);
#define EXPECT(claim) harness::expect((claim), #claim, __FILE__, __LINE__)
#define EXPECT_CODE(wanted, call) harness::expect_code((call), (wanted), #call, __FILE__, __LINE__)
#define MUST(call) EXPECT_CODE(CUDA_SUCCESS, call)

bool is_order(const char *name);
void make_context(); // initialises the driver and makes its context current
CUstream make_stream();
CUevent make_event();
CUlibrary load_image(const char *name); // of the folder of images
CUkernel get_kernel(CUlibrary library, const char *name);
CUdeviceptr allocate(size_t bytes);
std::string fault_text(CUresult code);

struct launch_shape {
  unsigned blocks = 1, threads = 1, shared_bytes = 0;
  bool is_programmatic = false;
};
CUresult launch_with(CUkernel kernel, CUstream stream, launch_shape shape, void **parameters);
template <typename... Values> CUresult launch(CUkernel kernel, CUstream stream, launch_shape shape, Values... values) {
  void *parameters[] = {&values..., nullptr};
  return launch_with(kernel, stream, shape, parameters);
}
CUgraphNodeParams kernel_node(CUkernel kernel, launch_shape shape, void **parameters);
CUgraphExec instantiate(CUgraph graph);

template <typename Value> std::vector<Value> read_back(CUdeviceptr start, size_t count, CUstream stream) {
  std::vector<Value> values(count);
  MUST(cu.cuMemcpyDtoHAsync_v2(values.data(), start, count * sizeof(Value), stream));
  MUST(cu.cuStreamSynchronize(stream));
  return values;
}

int run(const std::vector<test> &tests);

} // namespace harness

#endif
