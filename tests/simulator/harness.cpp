// SPDX-License-Identifier: MIT
#include "harness.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

namespace harness {

entries cu;

void expect(bool is_true, const char *claim, const char *file, int line) {
  if (is_true) return;
  printf("%s:%d: not so: %s\n", file, line, claim);
  fflush(stdout);
  _exit(1);
}

void expect_code(CUresult found, CUresult wanted, const char *call, const char *file, int line) {
  if (found == wanted) return;
  printf("%s:%d: %s: found %d (%s); wanted %d\n", file, line, call, found, fault_text(found).c_str(), wanted);
  fflush(stdout);
  _exit(1);
}

bool is_order(const char *name) { return !strcmp(getenv("ORDITO_SIMULATED_ORDER"), name); }

std::string fault_text(CUresult code) {
  const char *text = nullptr;
  if (cu.cuGetErrorString) cu.cuGetErrorString(code, &text);
  return text ? text : "unknown";
}

static void open_driver() {
  void *handle = dlopen(SIMULATED_DRIVER, RTLD_NOW | RTLD_LOCAL);
  EXPECT(handle);
  const auto find = reinterpret_cast<decltype(&::cuGetProcAddress_v2)>(dlsym(handle, "cuGetProcAddress_v2"));
  EXPECT(find);
  CUdriverProcAddressQueryResult status;
#define ENTRY(asked, exported, since)                                                                                  \
  MUST(find(#asked, reinterpret_cast<void **>(&cu.exported), since, CU_GET_PROC_ADDRESS_DEFAULT, &status));            \
  EXPECT(cu.exported &&status == CU_GET_PROC_ADDRESS_SUCCESS);
#include "entries.def"
#undef ENTRY
}

void make_context() {
  CUcontext context;
  MUST(cu.cuInit(0));
  MUST(cu.cuDevicePrimaryCtxRetain(&context, 0));
  MUST(cu.cuCtxSetCurrent(context));
}

CUstream make_stream() {
  CUstream stream;
  MUST(cu.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
  return stream;
}

CUevent make_event() {
  CUevent event;
  MUST(cu.cuEventCreate(&event, CU_EVENT_DEFAULT));
  return event;
}

CUlibrary load_image(const char *name) {
  std::ifstream file(std::string(SIMULATED_IMAGES "/") + name, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  EXPECT(!bytes.empty());
  CUlibrary library;
  MUST(cu.cuLibraryLoadData(&library, bytes.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  return library;
}

CUkernel get_kernel(CUlibrary library, const char *name) {
  CUkernel kernel;
  MUST(cu.cuLibraryGetKernel(&kernel, library, name));
  return kernel;
}

CUdeviceptr allocate(size_t bytes) {
  CUdeviceptr start;
  MUST(cu.cuMemAlloc_v2(&start, bytes));
  return start;
}

CUresult launch_with(CUkernel kernel, CUstream stream, launch_shape shape, void **parameters) {
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attribute.value.programmaticStreamSerializationAllowed = shape.is_programmatic;
  const CUlaunchConfig config = {shape.blocks, 1, 1, shape.threads, 1, 1, shape.shared_bytes, stream, &attribute, 1};
  return cu.cuLaunchKernelEx(&config, reinterpret_cast<CUfunction>(kernel), parameters, nullptr);
}

CUgraphNodeParams kernel_node(CUkernel kernel, launch_shape shape, void **parameters) {
  CUgraphNodeParams made = {};
  made.type = CU_GRAPH_NODE_TYPE_KERNEL;
  made.kernel.kern = kernel;
  made.kernel.gridDimX = shape.blocks;
  made.kernel.blockDimX = shape.threads;
  made.kernel.gridDimY = made.kernel.gridDimZ = made.kernel.blockDimY = made.kernel.blockDimZ = 1;
  made.kernel.sharedMemBytes = shape.shared_bytes;
  made.kernel.kernelParams = parameters;
  return made;
}

CUgraphExec instantiate(CUgraph graph) {
  CUgraphExec executable;
  CUDA_GRAPH_INSTANTIATE_PARAMS asked = {};
  MUST(cu.cuGraphInstantiateWithParams(&executable, graph, &asked));
  EXPECT(asked.result_out == CUDA_GRAPH_INSTANTIATE_SUCCESS);
  return executable;
}

static int run_case(const test &one, const char *order) {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    setenv("ORDITO_SIMULATED_ORDER", order, 1);
    for (const auto &[name, value] : one.settings) setenv((std::string("ORDITO_SIMULATED_") + name).c_str(), value, 1);
    open_driver();
    one.run();
    _exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  const bool is_good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  printf("%s %s %s\n", is_good ? "ok    " : "FAILED", order, one.name);
  if (WIFSIGNALED(status)) printf("  ended by signal %d\n", WTERMSIG(status));
  return is_good ? 0 : 1;
}

int run(const std::vector<test> &tests) {
  static const std::pair<unsigned, const char *> orders[] = {{eager, "eager"}, {lazy, "lazy"}, {thread, "thread"}};
  int failed = 0;
  for (const test &one : tests)
    for (const auto &[bit, name] : orders)
      if (one.orders & bit) failed += run_case(one, name);
  return failed ? 1 : 0;
}

} // namespace harness
