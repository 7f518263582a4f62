/* SPDX-License-Identifier: MIT
 *
 * The driver library, opened at run time, and its functions. Only cuGetProcAddress_v2 is looked up by name: each other
 * function is asked of it with the version of its own arguments, since a base name may mean older ones and the newest
 * version others than ours.
 */
#include <dlfcn.h>

#include "runtime/cuda.h"

enum { OLDEST_DRIVER = 12040 }; /* release 550: the youngest of the entries, cuFuncLoad, came with it */

typedef struct entry {
  const char *name; /* "cuInit" */
  int version;
  void **function;
} entry;

static bool get_entry(PFN_cuGetProcAddress_v12000 get, const entry *wanted, ord_error *err) {
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
  const CUresult code = get(wanted->name, wanted->function, wanted->version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found);
  if (code == CUDA_ERROR_STUB_LIBRARY)
    return ord_fail(err, ORD_UNSUPPORTED,
                    "no CUDA device: found the toolkit's stub library in place of the driver; wanted the driver's own "
                    "libcuda.so.1");
  if (code != CUDA_SUCCESS || !*wanted->function)
    return ord_fail(err, ORD_UNSUPPORTED,
                    "the CUDA driver is too old: it has no %s (code %d); wanted one for CUDA %d.%d or later",
                    wanted->name, (int)code, wanted->version / 1000, wanted->version % 1000 / 10);
  return true;
}

static bool check_version(ord_cuda_device *device, ord_error *err) {
  const CUresult code = device->call.DriverGetVersion(&device->driver_version);
  if (code != CUDA_SUCCESS)
    return ord_fail(err, ORD_UNSUPPORTED, "no CUDA device: cuDriverGetVersion failed with code %d", (int)code);
  if (device->driver_version >= OLDEST_DRIVER) return true;
  return ord_fail(err, ORD_UNSUPPORTED,
                  "the CUDA driver is too old: found one for CUDA %d.%d; wanted %d.%d (release 550) or later",
                  device->driver_version / 1000, device->driver_version % 1000 / 10, OLDEST_DRIVER / 1000,
                  OLDEST_DRIVER % 1000 / 10);
}

static bool get_all(ord_cuda_device *device, PFN_cuGetProcAddress_v12000 get, ord_error *err) {
  const entry first = {"cuDriverGetVersion", 2020, (void **)&device->call.DriverGetVersion};
  if (!get_entry(get, &first, err) || !check_version(device, err)) return false;
  const entry all[] = {
#define ENTRY(name, version) {"cu" #name, version, (void **)&device->call.name},
#include "runtime/cuda_entries.def"
#undef ENTRY
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (!get_entry(get, &all[i], err)) return false;
  return true;
}

bool ord_cuda_open_driver(ord_cuda_device *device, ord_error *err) {
  PFN_cuGetProcAddress_v12000 get = NULL;
  device->library = dlopen(device->options.driver, RTLD_NOW | RTLD_LOCAL);
  if (!device->library)
    return ord_fail(err, ORD_UNSUPPORTED, "no CUDA device: the driver cannot be opened (%s)", dlerror());
  /* Data and function pointers have one representation wherever there is dlsym. */
  *(void **)&get = dlsym(device->library, "cuGetProcAddress_v2");
  if (!get)
    return ord_fail(err, ORD_UNSUPPORTED,
                    "the CUDA driver is too old: %s has no cuGetProcAddress_v2; wanted release 550 or later",
                    device->options.driver);
  return get_all(device, get, err);
}
