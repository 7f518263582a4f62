/* SPDX-License-Identifier: MIT
 *
 * A run configuration: a YAML file that says how to run models, apart from what they compute. It alone may name
 * plugins and kernels; a model file never does. See docs/run_config.md.
 */
#ifndef ORDITO_MODELS_RUN_CONFIG_H
#define ORDITO_MODELS_RUN_CONFIG_H

#include "runtime/arena.h"
#include "runtime/diagnostics.h"

/* What the file says; NULL, 0 or false with the `has_` beside it where it says nothing. */
typedef struct ord_run_rules {
  ord_arena arena; /* of all texts and lists */
  const char **plugin;
  uint32_t plugin_count;
  const char **pin; /* "SELECTOR=KERNEL[@PLUGIN]", in the order of the file */
  uint32_t pin_count;
  const char *cpu, *device;
  int64_t threads, context;
  uint32_t compute, kv_cache, capture;
  bool has_threads, has_capture, has_fallback, denies_fallback;
} ord_run_rules;

/* Reads `text` into `out`, which ord_run_rules_finish frees in any case. Faults go to `list`; true if there is none.
 * Plugins with a relative path count from the folder of `file`. */
ORD_MUST_CHECK bool ord_run_rules_read(const char *file, const char *text, size_t bytes, ord_diagnostics *list,
                                       ord_run_rules *out);
void ord_run_rules_finish(ord_run_rules *rules);

#endif
