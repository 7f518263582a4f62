/* SPDX-License-Identifier: MIT
 *
 * A context: a device with its pool of threads, and the plugins. Where plugins are looked for is decided here.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "session/parts.h"

void ord_text_free(char *text) { free(text); }

/* The folder of the library (or of the program, where it is linked statically). */
bool ord_library_folder(char *out, size_t bytes) {
  Dl_info info;
  char real[PATH_MAX];
  if (!dladdr((void *)(uintptr_t)ord_context_create, &info) || !info.dli_fname) return false;
  if (!realpath(info.dli_fname, real)) return false;
  char *slash = strrchr(real, '/');
  if (!slash) return false;
  *slash = 0;
  return (size_t)snprintf(out, bytes, "%s", real) < bytes;
}

static bool load_folders(ord_registry *registry, ord_error *err) {
  const char *path = getenv("ORDITO_PLUGIN_PATH");
  while (path && *path) {
    const size_t length = strcspn(path, ":");
    char *folder = strndup(path, length);
    if (!folder) return ord_fail_memory(err, "looking for plugins");
    const bool done = length == 0 || ord_registry_load_folder(registry, folder, err);
    free(folder);
    if (!done) return false;
    path += length + (path[length] == ':');
  }
  /* That folder nobody asked for: an installation without plugins is no fault. */
  char library[PATH_MAX], beside[PATH_MAX + 32];
  if (!ord_library_folder(library, sizeof library)) return true;
  snprintf(beside, sizeof beside, "%s/ordito/plugins", library);
  return access(beside, F_OK) != 0 || ord_registry_load_folder(registry, beside, err);
}

static bool load_plugins(ord_context *context, const ord_context_options *options, ord_error *err) {
  if (!ord_registry_create(options->log, options->log_context, &context->registry, err)) return false;
  if (!ord_registry_add_static(context->registry, &ord_reference_manifest, ord_reference_open, true, err)) return false;
  for (uint32_t i = 0; i < options->plugin_count; i++)
    if (!ord_registry_load(context->registry, options->plugin[i], err)) return false;
  return options->no_default_plugins || load_folders(context->registry, err);
}

bool ord_context_create(const ord_context_options *options, ord_context **out, ord_error *err) {
  ord_context_options own;
  *out = NULL;
  if (!ord_struct_take(options, "ord_context_options", &own, sizeof own, err)) return false;
  options = &own;
  ord_context *context = calloc(1, sizeof *context);
  if (!context) return ord_fail_memory(err, "creating a context");
  context->log = options->log;
  context->log_context = options->log_context;
  bool oversubscribed = false;
  if (!ord_device_open(options, &context->device, &oversubscribed, err)) goto fail;
  if (!load_plugins(context, options, err)) goto fail;
  if (oversubscribed && context->log) {
    char text[128];
    snprintf(text, sizeof text, "%u threads on %u cores: they will take turns", ord_pool_threads(context->device->pool),
             ord_pool_cores());
    context->log(context->log_context, ORD_LOG_WARNING, text);
  }
  *out = context;
  return true;
fail:
  ord_context_destroy(context);
  return false;
}

void ord_context_destroy(ord_context *context) {
  if (!context) return;
  ord_registry_destroy(context->registry);
  if (context->device) context->device->table->destroy(context->device);
  free(context);
}

bool ord_context_load_plugin(ord_context *context, const char *file, const char **out_name, ord_error *err) {
  const ord_plugin_entry *loaded = NULL;
  if (!ord_registry_load_beside(context->registry, file, &loaded, err)) return false;
  if (out_name) *out_name = loaded->manifest->name;
  return true;
}

uint32_t ord_context_threads(const ord_context *context) { return ord_pool_threads(context->device->pool); }

const ord_device_info *ord_context_device_info(const ord_context *context) { return &context->device->info; }

bool ord_context_driver_use(const ord_context *context, ord_driver_use *out, ord_error *err) {
  const ord_driver_counts *counts = &context->device->driver;
  const ord_driver_use made = {.calls = counts->calls, .polls = counts->polls, .wait_ns = counts->wait_ns};
  return ord_struct_give(&made, "ord_driver_use", out, sizeof made, err);
}
