/* SPDX-License-Identifier: MIT
 *
 * The checks of plugins, in the order in which their answers can be trusted: a field is read only after what stands
 * before it has shown that it is there and means what we think.
 */
#include "runtime/plugin_check.h"

#include <ctype.h>

static bool check_version(const char *file, const ord_manifest *manifest, ord_error *err) {
  const unsigned major = manifest->abi_major, needed = manifest->abi_minor_needed, built = manifest->abi_minor_built;
  if (major != ORD_ABI_MAJOR)
    return ord_fail(err, ORD_INVALID, "%s: plugin needs ABI %u.%u, this host speaks %u.%u; rebuild one of them", file,
                    major, needed, ORD_ABI_MAJOR, ORD_ABI_MINOR);
  if (needed > ORD_ABI_MINOR)
    return ord_fail(err, ORD_INVALID, "%s: plugin needs ABI %u.%u, this host speaks only %u.%u; update the host", file,
                    major, needed, ORD_ABI_MAJOR, ORD_ABI_MINOR);
  if (ORD_ABI_MAJOR == 0 && (needed != ORD_ABI_MINOR || built != ORD_ABI_MINOR))
    return ord_fail(err, ORD_INVALID,
                    "%s: plugin needs ABI %u.%u and was built with %u.%u, this host speaks %u.%u; before 1.0 all must "
                    "be equal; rebuild the plugin",
                    file, major, needed, major, built, ORD_ABI_MAJOR, ORD_ABI_MINOR);
  return true;
}

/* What stands in pins, reports and JSON as it is. */
static bool check_word(const char *file, const char *what, const char *word, ord_error *err) {
  for (size_t i = 0; word[i]; i++)
    if (!isalnum((unsigned char)word[i]) && !strchr("_-.+", word[i]))
      return ord_fail(err, ORD_INVALID, "%s: %s has character %u at %zu; wanted letters, digits, _ - . and +", file,
                      what, (unsigned char)word[i], i);
  return true;
}

/* Before 1.0 host and plugin are of one version, so that an unknown bit is a mistake. */
static bool check_flags(const char *file, const ord_manifest *manifest, ord_error *err) {
  const uint64_t unknown = manifest->flags & ~(uint64_t)ORD_PLUGIN_UNLOADABLE;
  if (unknown)
    return ord_fail(err, ORD_INVALID, "%s: manifest has unknown flags; found bits 0x%llx; wanted none beyond 0x%x",
                    file, (unsigned long long)unknown, ORD_PLUGIN_UNLOADABLE);
  if (manifest->reserved)
    return ord_fail(err, ORD_INVALID, "%s: manifest has something in `reserved`; found %u; wanted 0", file,
                    manifest->reserved);
  return true;
}

static bool check_name(const char *file, const ord_manifest *manifest, ord_error *err) {
  const size_t length = strnlen(manifest->name, sizeof manifest->name);
  if (!length) return ord_fail(err, ORD_INVALID, "%s: plugin has an empty name; wanted one in its manifest", file);
  if (length == sizeof manifest->name)
    return ord_fail(err, ORD_INVALID, "%s: plugin name has no end; wanted at most %zu characters and a zero", file,
                    sizeof manifest->name - 1);
  return check_word(file, "plugin name", manifest->name, err);
}

bool ord_manifest_check(const char *file, ord_manifest *manifest, uint32_t bytes, uint64_t host_features,
                        ord_error *err) {
  if (bytes < sizeof manifest->magic || manifest->magic != ORD_PLUGIN_MAGIC)
    return ord_fail(err, ORD_INVALID,
                    "%s: is not an Ordito plugin; found magic 0x%08x in ord_plugin_manifest; wanted 0x%08x", file,
                    manifest->magic, ORD_PLUGIN_MAGIC);
  if (!check_version(file, manifest, err)) return false;
  if (manifest->struct_size < sizeof *manifest || bytes < sizeof *manifest)
    return ord_fail(err, ORD_INVALID,
                    "%s: manifest is too small; found struct_size %u in %u bytes; wanted at least %zu", file,
                    manifest->struct_size, bytes, sizeof *manifest);
  const uint64_t missing = manifest->host_features_needed & ~host_features;
  if (missing)
    return ord_fail(err, ORD_UNSUPPORTED,
                    "%s: plugin needs host features that this host does not offer; found bits 0x%llx; wanted none "
                    "beyond 0x%llx",
                    file, (unsigned long long)missing, (unsigned long long)host_features);
  if (!check_flags(file, manifest, err) || !check_name(file, manifest, err)) return false;
  manifest->version[sizeof manifest->version - 1] = '\0';
  manifest->build_id[sizeof manifest->build_id - 1] = '\0';
  manifest->toolchain[sizeof manifest->toolchain - 1] = '\0';
  return check_word(file, "plugin version", manifest->version, err);
}

static const char *find_missing_part(const ord_kernel *kernel) {
  return !kernel->op || !*kernel->op ? "op"
         : !kernel->query            ? "query"
         : !kernel->prepare          ? "prepare"
         : !kernel->launch           ? "launch"
         : !kernel->retire           ? "retire"
                                     : NULL;
}

static bool check_kernel(const char *file, const ord_plugin *plugin, uint32_t index, ord_error *err) {
  const ord_kernel *kernel = plugin->kernel[index];
  if (!kernel) return ord_fail(err, ORD_INVALID, "%s: entry %u of its kernel table is NULL", file, index);
  if (kernel->struct_size < sizeof *kernel)
    return ord_fail(err, ORD_INVALID, "%s: kernel %u has an unknown struct_size; found %u; wanted at least %zu", file,
                    index, kernel->struct_size, sizeof *kernel);
  if (!kernel->name || !*kernel->name) return ord_fail(err, ORD_INVALID, "%s: kernel %u lacks its name", file, index);
  const char *missing = find_missing_part(kernel);
  if (missing)
    return ord_fail(err, ORD_INVALID,
                    "%s: kernel '%s' lacks its %s; wanted name, op, query, prepare, launch and retire", file,
                    kernel->name, missing);
  if (kernel->flags)
    return ord_fail(err, ORD_INVALID, "%s: kernel '%s' has something in `flags`; found %u; wanted 0", file,
                    kernel->name, kernel->flags);
  if (kernel->device > ORD_DEVICE_CUDA)
    return ord_fail(err, ORD_INVALID, "%s: kernel '%s' is for an unknown device; found kind %u; wanted 0 to %d", file,
                    kernel->name, kernel->device, ORD_DEVICE_CUDA);
  if (!check_word(file, "kernel name", kernel->name, err) || !check_word(file, "kernel op", kernel->op, err))
    return false;
  for (uint32_t before = 0; before < index; before++)
    if (strcmp(plugin->kernel[before]->name, kernel->name) == 0)
      return ord_fail(err, ORD_INVALID, "%s: two kernels have the name '%s' (entries %u and %u); wanted each once",
                      file, kernel->name, before, index);
  return true;
}

bool ord_plugin_table_check(const char *file, const ord_plugin *plugin, ord_error *err) {
  if (!plugin) return ord_fail(err, ORD_INVALID, "%s: ord_plugin_open succeeded but gave no plugin", file);
  if (plugin->struct_size < sizeof *plugin)
    return ord_fail(err, ORD_INVALID, "%s: its plugin table has an unknown struct_size; found %u; wanted at least %zu",
                    file, plugin->struct_size, sizeof *plugin);
  if (plugin->reserved)
    return ord_fail(err, ORD_INVALID, "%s: its plugin table has something in `reserved`; found %u; wanted 0", file,
                    plugin->reserved);
  if (!plugin->kernel_count || !plugin->kernel)
    return ord_fail(err, ORD_INVALID, "%s: plugin has no kernels; wanted at least one", file);
  for (uint32_t i = 0; i < plugin->kernel_count; i++)
    if (!check_kernel(file, plugin, i, err)) return false;
  return true;
}
