/* SPDX-License-Identifier: MIT
 *
 * Whole sessions on the CUDA device, simulated or real, through the public API. Included by test programs only.
 */
#ifndef ORDITO_TESTS_CUDA_SESSION_H
#define ORDITO_TESTS_CUDA_SESSION_H

#include "cuda_calls.h"
#include "fixture.h"
#include "session/parts.h"

/* Options of a context on the device that the tests run on, simulated or real. */
static inline ord_context_options cuda_context_options(const char *const *plugin, uint32_t count) {
  const bool is_simulated = cuda_options()->is_simulated;
  if (is_simulated) setenv("ORDITO_SIMULATOR_PATH", ORDITO_BUILD_DIRECTORY "/lib", 1);
  return (ord_context_options){.struct_size = sizeof(ord_context_options),
                               .threads = 2,
                               .plugin = plugin,
                               .plugin_count = count,
                               .no_default_plugins = true,
                               .device = "cuda",
                               .simulated = is_simulated};
}

/* `extra`: a plugin of the test's, or NULL. */
static inline bool create_cuda_context(const char *extra, ord_log_fn log, void *log_context, ord_context **out,
                                       ord_error *err) {
  const char *const plugin[] = {PLUGIN("cublas"),
                                PLUGIN("cuda_attention_flash"),
                                PLUGIN("cuda_attention_naive"),
                                PLUGIN("cuda_attention_split"),
                                PLUGIN("cuda_core"),
                                extra};
  ord_context_options options = cuda_context_options(plugin, extra ? 6 : 5);
  options.log = log;
  options.log_context = log_context;
  return ord_context_create(&options, out, err);
}

static inline ord_context *open_cuda_context(void) {
  ord_error err = ORD_ERROR_INIT;
  ord_context *context = NULL;
  MUST(create_cuda_context(NULL, NULL, NULL, &context, &err));
  return context;
}

static inline bool swap_one(ord_session *session, const char *pin, double tolerance, ord_error *err) {
  const ord_swap_options options = {.struct_size = sizeof options, .pin = &pin, .pin_count = 1, .tolerance = tolerance};
  return ord_session_swap_kernel(session, &options, NULL, err);
}

#endif
