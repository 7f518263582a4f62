// SPDX-License-Identifier: MIT
// Entry points, errors' names, and the state that all calls share.
#include "driver.h"

#include <algorithm>
#include <cstring>

namespace simulated {

driver &state() {
  static driver *const made = new driver; // never deleted: the device's thread may still use it at exit
  return *made;
}

thread_state &this_thread() {
  static thread_local thread_state made;
  return made;
}

uint64_t next_random(driver &d) {
  if (!d.set.seed) return 0;
  uint64_t mixed = d.random += 0x9e3779b97f4a7c15u;
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
  return mixed ^ mixed >> 31;
}

void set_fault(driver &d, CUresult code, const std::string &text) {
  if (d.fault != CUDA_SUCCESS) return;
  d.fault = code;
  d.fault_text = strdup(text.c_str()); // handed out by cuGetErrorString, so it lives as long as the process
}

CUresult check(driver &d, needs what) {
  if (what == needs::nothing) return CUDA_SUCCESS;
  if (!d.is_initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (what == needs::driver) return CUDA_SUCCESS;
  const thread_state &thread = this_thread();
  if (thread.contexts.empty() || !thread.contexts.back()) return CUDA_ERROR_INVALID_CONTEXT;
  if (!d.context.references) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return d.fault;
}

struct entry_point {
  const char *name;
  void *function;
  int version;
};

struct error_text {
  CUresult code;
  const char *name, *text;
};

static const error_text errors[] = {
#define ERROR(code, text) {code, #code, text},
#include "errors.def"
#undef ERROR
};

static const error_text *find_error(CUresult code) {
  const auto *found = std::find_if(std::begin(errors), std::end(errors), [code](auto &e) { return e.code == code; });
  return found == std::end(errors) ? nullptr : found;
}

} // namespace simulated

using namespace simulated;

extern "C" {

CUresult cuGetErrorName(CUresult code, const char **name) {
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  const error_text *found = find_error(code);
  *name = found ? found->name : nullptr;
  return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// The text of the fault that ended the context tells what happened: the real driver knows less.
CUresult cuGetErrorString(CUresult code, const char **text) {
  if (!text) return CUDA_ERROR_INVALID_VALUE;
  const error_text *found = find_error(code);
  *text = found ? found->text : nullptr;
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  return enter(needs::nothing, [&](driver &d, lock &) {
    if (code != CUDA_SUCCESS && code == d.fault && d.fault_text) *text = d.fault_text;
    return CUDA_SUCCESS;
  });
}

// The newest entry of that name that is no newer than the version asked for.
CUresult cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status) {
  static const entry_point entries[] = {
#define ENTRY(asked, exported, since) {#asked, reinterpret_cast<void *>(exported), since},
#include "entries.def"
#undef ENTRY
  };
  const cuuint64_t known = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (!name || !function || (flags & ~known) || version > read_settings().driver_version)
    return CUDA_ERROR_INVALID_VALUE;
  const entry_point *found = nullptr;
  bool is_known = false;
  for (const entry_point &entry : entries) {
    if (strcmp(entry.name, name)) continue;
    is_known = true;
    if (entry.version <= version && (!found || entry.version > found->version)) found = &entry;
  }
  *function = found ? found->function : nullptr;
  if (status)
    *status = found      ? CU_GET_PROC_ADDRESS_SUCCESS
              : is_known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                         : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return CUDA_SUCCESS;
}

CUresult cuInit(unsigned flags) {
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  return enter(needs::nothing, [](driver &d, lock &) {
    if (d.is_initialised) return CUDA_SUCCESS;
    d.set = read_settings();
    if (!d.set.wrong.empty()) {
      set_fault(d, CUDA_ERROR_INVALID_VALUE, d.set.wrong);
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (!d.set.devices) return CUDA_ERROR_NO_DEVICE;
    if (!d.memory.open()) return CUDA_ERROR_OUT_OF_MEMORY;
    d.random = d.set.seed;
    if (d.set.when == order::thread) d.memory.show(); // the host may not be shut out while the device runs beside it
    d.is_initialised = true;
    return CUDA_SUCCESS;
  });
}

CUresult cuDriverGetVersion(int *version) {
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = read_settings().driver_version;
  return CUDA_SUCCESS;
}
}
