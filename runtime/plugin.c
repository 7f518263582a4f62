/* SPDX-License-Identifier: MIT
 *
 * The registry: the plugins of a context, how each came in, and the services that their kernels get. Entries never
 * move, so that borrowed pointers stay valid while more plugins are loaded.
 */
#include "runtime/plugin.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "runtime/plugin_check.h"
#include "runtime/plugin_elf.h"
#include "runtime/plugin_image.h"
#include "runtime/text.h"

enum { HOST_FEATURES = 0, LOG_LINE_BYTES = 1024 };

typedef struct {
  ord_plugin_entry entry;
  ord_manifest manifest;
  void *handle; /* NULL: built in */
} loaded_plugin;

struct ord_registry {
  ord_arena arena;
  ord_log_fn log;
  void *log_context;
  ord_host host;
  loaded_plugin **loaded;
  uint32_t count, capacity;
  ord_plugin_verdict *verdict;
  uint32_t verdict_count, verdict_capacity;
};

static void say(const ord_registry *registry, int level, const char *format, ...) ORD_PRINTF(3, 4);
static void say(const ord_registry *registry, int level, const char *format, ...) {
  if (!registry->log) return;
  char line[LOG_LINE_BYTES];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  registry->log(registry->log_context, level, line);
}

/* ---- services of the host ---- */

static void *host_allocate(void *context, size_t bytes, size_t align) {
  (void)context;
  void *memory = NULL;
  if (align < sizeof(void *)) align = sizeof(void *);
  return posix_memalign(&memory, align, bytes ? bytes : 1) ? NULL : memory;
}

static void host_release(void *context, void *memory) {
  (void)context;
  free(memory);
}

static void host_log(void *context, int level, const char *text) { say(context, level, "%s", text); }

static void *host_find(void *context, const char *name_and_version) {
  (void)context;
  (void)name_and_version;
  return NULL;
}

bool ord_registry_create(ord_log_fn log, void *log_context, ord_registry **out, ord_error *err) {
  ord_registry *registry = calloc(1, sizeof *registry);
  if (!registry) return ord_fail_memory(err, "making the plugin registry");
  registry->log = log;
  registry->log_context = log_context;
  registry->host = (ord_host){.struct_size = sizeof registry->host,
                              .abi_minor = ORD_ABI_MINOR,
                              .features = HOST_FEATURES,
                              .context = registry,
                              .allocate = host_allocate,
                              .release = host_release,
                              .log = host_log,
                              .find = host_find};
  *out = registry;
  return true;
}

static void close_plugin(const ord_registry *registry, void *handle, const ord_manifest *manifest) {
  if (!handle) return;
  /* Code of a plugin that does not promise it may still run at thread or process exit: it stays mapped. */
  if (!(manifest->flags & ORD_PLUGIN_UNLOADABLE))
    say(registry, ORD_LOG_DEBUG, "plugin %s stays mapped: it does not promise to be unloadable", manifest->name);
  else if (!ord_image_unmap(handle))
    say(registry, ORD_LOG_WARNING, "plugin %s is still mapped after it was closed", manifest->name);
}

void ord_registry_destroy(ord_registry *registry) {
  if (!registry) return;
  while (registry->count) {
    const loaded_plugin *last = registry->loaded[--registry->count];
    close_plugin(registry, last->handle, &last->manifest);
  }
  ord_arena_finish(&registry->arena);
  free(registry);
}

/* ---- from a manifest to an entry ---- */

static const loaded_plugin *find_name(const ord_registry *registry, const char *name) {
  for (uint32_t i = 0; i < registry->count; i++)
    if (strcmp(registry->loaded[i]->manifest.name, name) == 0) return registry->loaded[i];
  return NULL;
}

static bool check_is_new(const ord_registry *registry, const char *file, const ord_manifest *manifest, ord_error *err) {
  const loaded_plugin *other = find_name(registry, manifest->name);
  return !other || ord_fail(err, ORD_INVALID, "%s: plugin '%s' is already loaded from %s", file, manifest->name,
                            other->entry.file);
}

/* Gives the plugin a name that no other has. */
static bool name_beside(const ord_registry *registry, loaded_plugin *described, ord_error *err) {
  ord_manifest *manifest = &described->manifest;
  char name[sizeof manifest->name];
  for (uint32_t i = 0; i < registry->count; i++)
    if (registry->loaded[i]->entry.digest == described->entry.digest)
      return ord_fail(err, ORD_INVALID, "%s: these bytes are loaded already, as plugin '%s' from %s",
                      described->entry.file, registry->loaded[i]->manifest.name, registry->loaded[i]->entry.file);
  memcpy(name, manifest->name, sizeof name);
  for (unsigned number = 2; find_name(registry, name); number++)
    if ((size_t)snprintf(name, sizeof name, "%s#%u", manifest->name, number) >= sizeof name)
      return ord_fail(err, ORD_INVALID, "%s: plugin '%s' is already loaded, and its name has no room for #%u",
                      described->entry.file, manifest->name, number);
  memcpy(manifest->name, name, sizeof name);
  return true;
}

static bool call_open(const ord_registry *registry, const char *file, ord_plugin_open_fn open, const ord_plugin **out,
                      ord_error *err) {
  ord_plugin_error problem = {.struct_size = sizeof problem};
  *out = NULL;
  const ord_status status = open(&registry->host, out, &problem);
  if (status != ORD_OK) {
    ord_fail_plugin(err, status, &problem, "ord_plugin_open refused");
    return ord_fail_prefix(err, "%s", file);
  }
  return ord_plugin_table_check(file, *out, err);
}

/* Everything that can fail for want of memory comes before the plugin's own code. */
static bool admit(ord_registry *registry, const loaded_plugin *described, ord_plugin_open_fn open, ord_error *err) {
  const char *file = ord_arena_text(&registry->arena, described->entry.file);
  loaded_plugin *loaded = ord_arena_copy(&registry->arena, described, 1, sizeof *loaded);
  if (!file || !loaded ||
      !ord_arena_grow(&registry->arena, &registry->loaded, &registry->capacity, registry->count + 1,
                      sizeof(loaded_plugin *)))
    return ord_fail_memory(err, "registering a plugin");
  loaded->entry.file = file;
  loaded->entry.manifest = &loaded->manifest;
  if (!call_open(registry, file, open, &loaded->entry.plugin, err)) return false;
  registry->loaded[registry->count++] = loaded;
  say(registry, loaded->handle ? ORD_LOG_INFO : ORD_LOG_DEBUG, "plugin %s %s: %u kernel%s, digest %016llx, from %s",
      loaded->manifest.name, loaded->manifest.version, loaded->entry.plugin->kernel_count,
      ord_plural(loaded->entry.plugin->kernel_count), (unsigned long long)loaded->entry.digest, file);
  return true;
}

bool ord_registry_add_static(ord_registry *registry, const ord_manifest *manifest, ord_plugin_open_fn open,
                             bool is_reference, ord_error *err) {
  loaded_plugin described = {.entry = {.file = "(built in)", .is_reference = is_reference}, .manifest = *manifest};
  if (!ord_manifest_check(described.entry.file, &described.manifest, sizeof *manifest, HOST_FEATURES, err) ||
      !check_is_new(registry, described.entry.file, &described.manifest, err))
    return false;
  char identity[sizeof manifest->name + sizeof manifest->version];
  const int length = snprintf(identity, sizeof identity, "%s %s", described.manifest.name, described.manifest.version);
  described.entry.digest = XXH3_64bits(identity, (size_t)length);
  return admit(registry, &described, open, err);
}

/* ---- files ---- */

typedef enum { REFUSED, LOADED, NO_CANDIDATE } load_result;

static load_result open_image(ord_registry *registry, loaded_plugin *described, const ord_image_file *image,
                              ord_error *err) {
  const char *path = described->entry.file;
  if (!ord_image_map(path, image, &described->handle, err)) return REFUSED;
  ord_plugin_open_fn open;
  void *symbol = dlsym(described->handle, "ord_plugin_open");
  memcpy(&open, &symbol, sizeof open); /* ISO C has no cast between object and function pointers */
  bool is_admitted;
  if (open)
    is_admitted = admit(registry, described, open, err);
  else
    is_admitted =
        ord_fail(err, ORD_INVALID, "%s: is not an Ordito plugin; its symbol ord_plugin_open cannot be found", path);
  if (is_admitted) return LOADED;
  if (!ord_image_unmap(described->handle))
    say(registry, ORD_LOG_WARNING, "%s: was refused, but something in it keeps it mapped", path);
  return REFUSED;
}

static load_result load_image(ord_registry *registry, const char *path, bool beside, const ord_image_file *image,
                              ord_error *err) {
  ord_elf_plugin elf;
  if (!ord_elf_read_plugin(path, image->bytes, image->size, &elf, err)) return REFUSED;
  if (!elf.has_manifest) {
    ord_fail(err, ORD_INVALID, "%s: is not an Ordito plugin; found no symbol ord_plugin_manifest; wanted it exported",
             path);
    return NO_CANDIDATE;
  }
  loaded_plugin described = {.entry = {.file = path, .digest = XXH3_64bits(image->bytes, image->size)},
                             .manifest = elf.manifest};
  if (!ord_manifest_check(path, &described.manifest, elf.manifest_bytes, HOST_FEATURES, err))
    return elf.manifest.magic == ORD_PLUGIN_MAGIC ? REFUSED : NO_CANDIDATE;
  if (!(beside ? name_beside(registry, &described, err) : check_is_new(registry, path, &described.manifest, err)))
    return REFUSED;
  if (!elf.has_open) {
    ord_fail(err, ORD_INVALID, "%s: is not a whole Ordito plugin; found no symbol ord_plugin_open; wanted it exported",
             path);
    return REFUSED;
  }
  return open_image(registry, &described, image, err);
}

static bool note_verdict(ord_registry *registry, const char *path, const char *refused, ord_error *err) {
  ord_plugin_verdict verdict = {.file = ord_arena_text(&registry->arena, path)};
  if (refused) verdict.refused = ord_arena_text(&registry->arena, refused);
  if (!verdict.file || (refused && !verdict.refused) ||
      !ord_arena_grow(&registry->arena, &registry->verdict, &registry->verdict_capacity, registry->verdict_count + 1,
                      sizeof *registry->verdict))
    return ord_fail_memory(err, "noting what became of a plugin file");
  registry->verdict[registry->verdict_count++] = verdict;
  return true;
}

static load_result load_file(ord_registry *registry, const char *path, bool beside, ord_error *err) {
  ord_image_file image;
  if (!ord_image_file_read(path, &image, err)) return REFUSED;
  const load_result result = load_image(registry, path, beside, &image, err);
  ord_image_file_finish(&image);
  return result;
}

static bool load_asked(ord_registry *registry, const char *path, bool beside, ord_error *err) {
  ord_error reason = ORD_ERROR_INIT;
  const load_result result = load_file(registry, path, beside, &reason);
  if (!note_verdict(registry, path, result == LOADED ? NULL : reason.text, err)) return false;
  return result == LOADED || ord_fail(err, reason.code, "%s", reason.text);
}

bool ord_registry_load(ord_registry *registry, const char *path, ord_error *err) {
  return load_asked(registry, path, false, err);
}

bool ord_registry_load_beside(ord_registry *registry, const char *path, const ord_plugin_entry **out, ord_error *err) {
  if (!load_asked(registry, path, true, err)) return false;
  *out = &registry->loaded[registry->count - 1]->entry;
  return true;
}

static bool is_shared_object(const char *name) {
  const size_t length = strlen(name);
  return length > 3 && strcmp(name + length - 3, ".so") == 0;
}

/* A library beside the plugins is no plugin and no fault; a damaged file or a wrong version is one. */
static bool load_candidate(ord_registry *registry, const char *path, ord_error *err) {
  ord_error reason = ORD_ERROR_INIT;
  const load_result result = load_file(registry, path, false, &reason);
  if (result == NO_CANDIDATE) {
    say(registry, ORD_LOG_DEBUG, "%s", reason.text);
    return true;
  }
  if (result == REFUSED) say(registry, ORD_LOG_WARNING, "%s", reason.text);
  if (reason.code == ORD_NO_MEMORY) return ord_fail(err, reason.code, "%s", reason.text);
  return note_verdict(registry, path, result == LOADED ? NULL : reason.text, err);
}

typedef struct {
  const char **path; /* in the registry's arena */
  uint32_t count, capacity;
} path_list;

static bool list_folder(ord_arena *arena, DIR *opened, const char *folder, path_list *list) {
  for (const struct dirent *file; (file = readdir(opened)) != NULL;) {
    if (!is_shared_object(file->d_name)) continue;
    const char *path = ord_arena_format(arena, "%s/%s", folder, file->d_name);
    if (!path || !ord_arena_grow(arena, &list->path, &list->capacity, list->count + 1, sizeof(char *))) return false;
    list->path[list->count++] = path;
  }
  return true;
}

static int compare_paths(const void *left, const void *right) {
  return strcmp(*(const char *const *)left, *(const char *const *)right);
}

bool ord_registry_load_folder(ord_registry *registry, const char *folder, ord_error *err) {
  DIR *opened = opendir(folder);
  if (!opened && errno == ENOMEM) return ord_fail_memory(err, "listing a plugin folder");
  if (!opened) {
    say(registry, ORD_LOG_WARNING, "plugin folder %s: cannot be opened; %s", folder, strerror(errno));
    return true;
  }
  path_list list = {0};
  const bool is_listed = list_folder(&registry->arena, opened, folder, &list);
  closedir(opened);
  if (!is_listed) return ord_fail_memory(err, "listing a plugin folder");
  if (list.count) qsort(list.path, list.count, sizeof(char *), compare_paths);
  for (uint32_t i = 0; i < list.count; i++)
    if (!load_candidate(registry, list.path[i], err)) return false;
  return true;
}

uint32_t ord_registry_count(const ord_registry *registry) { return registry->count; }

const ord_plugin_entry *ord_registry_get(const ord_registry *registry, uint32_t index) {
  return index < registry->count ? &registry->loaded[index]->entry : NULL;
}

uint32_t ord_registry_verdict_count(const ord_registry *registry) { return registry->verdict_count; }

ord_plugin_verdict ord_registry_verdict(const ord_registry *registry, uint32_t index) {
  return index < registry->verdict_count ? registry->verdict[index] : (ord_plugin_verdict){NULL, NULL};
}

const ord_host *ord_registry_host(const ord_registry *registry) { return &registry->host; }
