// SPDX-License-Identifier: MIT
// The state of the simulated driver and how a call enters it. One lock guards everything; it is let go while an
// operation runs. The state is made once and lives until the process ends, so that threads may still be inside then.
#ifndef SIMULATOR_DRIVER_H
#define SIMULATOR_DRIVER_H

// The first versions of calls are declared beside those that replaced them, and no name is renamed by a macro.
#define __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_PUSH_VISIBILITY_DEFAULT // the calls are all that the library exports
#include <cuda.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <unordered_set>
#include <vector>

#include "memory.h"
#include "settings.h"

struct CUctx_st {
  unsigned references = 0, flags = 0;
};

namespace simulated {

using lock = std::unique_lock<std::mutex>;

struct capture;
class checker;

struct driver {
  std::mutex guard;
  std::condition_variable changed; // an operation was enqueued or is done, a stream of work is free
  bool is_initialised = false;
  settings set;
  CUctx_st context;
  simulated::memory memory;
  checker *checks = nullptr; // from the time that a checked image was loaded; as the state, never deleted
  unsigned allocation_count = 0, kernel_count = 0;
  // After a fault every call answers with its code, until the process ends.
  CUresult fault = CUDA_SUCCESS;
  const char *fault_text = nullptr;
  uint64_t random = 0; // state of the generator that the seed starts

  std::unordered_set<CUstream> streams;
  std::unordered_set<CUevent> events;
  std::unordered_set<CUlibrary> libraries;
  std::unordered_set<CUkernel> kernels;
  std::unordered_set<CUgraph> graphs;
  std::unordered_set<CUgraphNode> nodes;
  std::unordered_set<CUgraphExec> executables;
  std::vector<std::shared_ptr<capture>> captures; // those that were begun and not ended
  bool is_running = false;                        // an operation runs on some thread
  unsigned drivers = 0;                           // threads inside drive()
  bool has_device_thread = false;
};

driver &state();

// Each call is made current per thread.
struct thread_state {
  std::vector<CUcontext> contexts; // the last is current
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
};
thread_state &this_thread();

uint64_t next_random(driver &d); // 0 where the seed is 0

void set_fault(driver &d, CUresult code, const std::string &text);

enum class needs { nothing, driver, context };

CUresult check(driver &d, needs what);

// Every exported function: takes the lock, checks what the call needs, and lets no exception out.
template <typename Function> CUresult enter(needs what, Function body) {
  try {
    driver &d = state();
    lock held(d.guard);
    const CUresult code = check(d, what);
    return code == CUDA_SUCCESS ? body(d, held) : code;
  } catch (const std::bad_alloc &) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  } catch (...) {
    return CUDA_ERROR_UNKNOWN;
  }
}

} // namespace simulated

#endif
