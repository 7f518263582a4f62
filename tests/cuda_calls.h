/* SPDX-License-Identifier: MIT
 *
 * What a test does with the driver below the runtime: it asks for what the runtime does not use, and puts functions of
 * its own in the place of the driver's. Included by test programs only.
 */
#ifndef ORDITO_TESTS_CUDA_CALLS_H
#define ORDITO_TESTS_CUDA_CALLS_H

#include <time.h>

#include "cuda_fixture.h"
#include "runtime/cuda.h"

/* A function of the driver that the runtime itself does not use. */
static inline void *driver_function(const char *name) {
  void *found = dlsym(dlopen(cuda_options()->driver, RTLD_NOW | RTLD_NOLOAD), name);
  assert_non_null(found);
  return found;
}

/* 0 on a real device, where others take and free memory too. */
static inline size_t free_device_bytes(void) {
  CUresult (*get_info)(size_t *, size_t *) = NULL;
  size_t free_bytes = 0, all = 0;
  if (!cuda_options()->is_simulated) return 0;
  *(void **)&get_info = driver_function("cuMemGetInfo_v2");
  assert_int_equal(get_info(&free_bytes, &all), CUDA_SUCCESS);
  return free_bytes;
}

/* The driver's own functions, for those that stand in their place. */
static ord_cuda_calls real_calls;

/* The device's table of calls, to be changed; real_calls keeps what it was. */
static inline ord_cuda_calls *replace_calls(ord_device *device) {
  ord_cuda_calls *call = &((ord_cuda_device *)device)->call;
  real_calls = *call;
  return call;
}

static inline void restore_calls(ord_device *device) { ((ord_cuda_device *)device)->call = real_calls; }

static long capture_end_ns;
static inline CUresult end_late(CUstream stream, CUgraph *out) {
  nanosleep(&(struct timespec){.tv_nsec = capture_end_ns}, NULL);
  return real_calls.StreamEndCapture(stream, out);
}

/* Each capture waits so long before it ends, which leaves time for others to break it. */
static inline void slow_down_captures(ord_device *device, long ns) {
  capture_end_ns = ns;
  replace_calls(device)->StreamEndCapture = end_late;
}

#endif
