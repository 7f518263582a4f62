/* SPDX-License-Identifier: MIT
 *
 * Whole sessions on the simulated CUDA device, through the public API. Included by test programs only.
 */
#ifndef ORDITO_TESTS_CUDA_SESSION_H
#define ORDITO_TESTS_CUDA_SESSION_H

#include "cuda_fixture.h"
#include "fixture.h"
#include "runtime/cuda.h"
#include "session/parts.h"

/* Where the simulator lies for a program that links the library statically. */
static inline void set_simulator_path(void) { setenv("ORDITO_SIMULATOR_PATH", ORDITO_BUILD_DIRECTORY "/lib", 1); }

/* `extra`: a plugin of the test's, or NULL. */
static inline bool create_simulated_context(const char *extra, ord_log_fn log, void *log_context, ord_context **out,
                                            ord_error *err) {
  const char *const plugin[] = {PLUGIN("cublas"),
                                PLUGIN("cuda_attention_flash"),
                                PLUGIN("cuda_attention_naive"),
                                PLUGIN("cuda_attention_split"),
                                PLUGIN("cuda_core"),
                                extra};
  const ord_context_options options = {.struct_size = sizeof options,
                                       .threads = 2,
                                       .plugin = plugin,
                                       .plugin_count = extra ? 6 : 5,
                                       .no_default_plugins = true,
                                       .log = log,
                                       .log_context = log_context,
                                       .device = "cuda",
                                       .simulated = true};
  set_simulator_path();
  return ord_context_create(&options, out, err);
}

static inline ord_context *open_simulated_context(void) {
  ord_error err = ORD_ERROR_INIT;
  ord_context *context = NULL;
  MUST(create_simulated_context(NULL, NULL, NULL, &context, &err));
  return context;
}

/* The device below a context, whose table of driver calls a test may change. */
static inline ord_cuda_device *cuda_device_of(const ord_context *context) { return (ord_cuda_device *)context->device; }

static inline bool swap_one(ord_session *session, const char *pin, double tolerance, ord_error *err) {
  const ord_swap_options options = {.struct_size = sizeof options, .pin = &pin, .pin_count = 1, .tolerance = tolerance};
  return ord_session_swap_kernel(session, &options, NULL, err);
}

#endif
