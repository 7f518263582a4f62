/* SPDX-License-Identifier: MIT
 *
 * Device code is data: plugins carry images, the host loads them and hands out their kernels. Each plugin has services
 * of its own (ord_host), by which a call tells whose images are meant. An image is loaded when its first kernel is
 * asked for, its code when a kernel is, since a load in the middle of a capture would be an allocation there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda.h"
#include "runtime/cuda_images.h"
#include "runtime/plugin_elf.h"
#include "runtime/plugin_image.h"
#include "runtime/text.h"

typedef struct loaded_kernel {
  struct loaded_kernel *next;
  CUkernel kernel;
  uint32_t dynamic_shared_bytes; /* the most that was asked for */
  char symbol[];
} loaded_kernel;

typedef struct loaded_image {
  struct loaded_image *next;
  CUlibrary library;
  loaded_kernel *kernel;
  char name[];
} loaded_image;

struct ord_cuda_plugin {
  ord_cuda_plugin *next;
  ord_cuda_device *device;
  const ord_plugin_entry *entry; /* NULL: the runtime itself */
  const ord_host *common;        /* the registry's; NULL: the runtime itself */
  ord_host host;
  loaded_image *image;
};

static const char *plugin_name(const ord_cuda_plugin *plugin) {
  return plugin->entry ? plugin->entry->manifest->name : "runtime";
}

/* What a registry appends to the name of a plugin that is loaded beside another ("#2") is not part of its files' names.
 */
static int file_name_length(const ord_cuda_plugin *plugin) { return (int)strcspn(plugin_name(plugin), "#"); }

/* ---- the bytes of an image ---- */

static const ord_image *find_image(const ord_cuda_plugin *plugin, const char *name, uint32_t kind) {
  const ord_image *image = plugin->entry ? plugin->entry->plugin->image : ord_runtime_images;
  const uint32_t count = plugin->entry ? plugin->entry->plugin->image_count : ord_runtime_image_count;
  for (uint32_t i = 0; i < count; i++)
    if (image[i].kind == kind && strcmp(image[i].name, name) == 0) return &image[i];
  return NULL;
}

/* FOLDER/PLUGIN.IMAGE.so, with .checked before the ending; FOLDER is simulated/ beside the plugin. Free *out. */
static bool simulated_file(const ord_cuda_plugin *plugin, const char *name, char **out, ord_error *err) {
  const char *beside = plugin->entry ? plugin->entry->file : plugin->device->options.runtime_images;
  const char *slash = plugin->entry ? strrchr(beside, '/') : beside + strlen(beside);
  ord_text path = {0};
  ord_text_add(&path, "%.*s%s/%.*s.%s%s.so", slash ? (int)(slash - beside) : 1, slash ? beside : ".",
               plugin->entry ? "/simulated" : "", file_name_length(plugin), plugin_name(plugin), name,
               plugin->device->options.is_checked ? ".checked" : "");
  return ord_text_give(&path, "loading a device image", out, err);
}

/* The whole file, which the simulated driver maps: one that was cut would end the process there. Without it there is no
 * device that can serve. */
static bool read_file(const char *path, ord_image_file *out, ord_error *err) {
  ord_error why = ORD_ERROR_INIT;
  if (ord_image_file_read(path, out, &why)) {
    if (ord_elf_check(path, out->bytes, out->size, &why)) return true;
    ord_image_file_finish(out);
  }
  return ord_fail(err, why.code == ORD_NO_MEMORY ? ORD_NO_MEMORY : ORD_UNSUPPORTED, "%s", why.text);
}

static bool load_bytes(ord_cuda_plugin *plugin, const void *bytes, loaded_image *image, ord_error *err) {
  ord_cuda_device *device = plugin->device;
  char what[160];
  snprintf(what, sizeof what, "loading image '%s' of plugin %s for compute capability %u.%u", image->name,
           plugin_name(plugin), device->base.info.compute_capability / 10, device->base.info.compute_capability % 10);
  return ord_cuda_check(device, device->call.LibraryLoadData(&image->library, bytes, NULL, NULL, 0, NULL, NULL, 0),
                        "cuLibraryLoadData", what, err);
}

static bool load_image(ord_cuda_plugin *plugin, loaded_image *image, ord_error *err) {
  const bool is_simulated = plugin->device->options.is_simulated;
  const ord_image *carried = find_image(plugin, image->name, is_simulated ? ORD_IMAGE_SIMULATED : ORD_IMAGE_FATBIN);
  if (carried) return load_bytes(plugin, carried->bytes, image, err);
  if (!is_simulated)
    return ord_fail(err, ORD_INVALID, "plugin %s has no image '%s' for CUDA devices", plugin_name(plugin), image->name);
  char *path = NULL;
  ord_image_file file = {0};
  if (!simulated_file(plugin, image->name, &path, err)) return false;
  const bool done = read_file(path, &file, err) && load_bytes(plugin, file.bytes, image, err);
  free(path);
  ord_image_file_finish(&file);
  return done;
}

/* ---- images and kernels, each once ---- */

static loaded_image *get_image(ord_cuda_plugin *plugin, const char *name, ord_error *err) {
  for (loaded_image *image = plugin->image; image; image = image->next)
    if (strcmp(image->name, name) == 0) return image;
  loaded_image *image = calloc(1, sizeof *image + strlen(name) + 1);
  if (!image) {
    ord_fail_memory(err, "loading a device image");
    return NULL;
  }
  memcpy(image->name, name, strlen(name) + 1);
  if (!load_image(plugin, image, err)) {
    free(image);
    return NULL;
  }
  image->next = plugin->image;
  plugin->image = image;
  return image;
}

/* Loads the code as well: else that would happen at the first launch. */
static bool load_kernel(ord_cuda_plugin *plugin, loaded_image *image, loaded_kernel *kernel, ord_error *err) {
  ord_cuda_device *device = plugin->device;
  CUfunction function = NULL;
  char what[200];
  snprintf(what, sizeof what, "loading kernel '%s' of image '%s' of plugin %s", kernel->symbol, image->name,
           plugin_name(plugin));
  return ord_cuda_check(device, device->call.LibraryGetKernel(&kernel->kernel, image->library, kernel->symbol),
                        "cuLibraryGetKernel", what, err) &&
         ord_cuda_check(device, device->call.KernelGetFunction(&function, kernel->kernel), "cuKernelGetFunction", what,
                        err) &&
         ord_cuda_check(device, device->call.FuncLoad(function), "cuFuncLoad", what, err);
}

static loaded_kernel *get_kernel(ord_cuda_plugin *plugin, loaded_image *image, const char *symbol, ord_error *err) {
  for (loaded_kernel *kernel = image->kernel; kernel; kernel = kernel->next)
    if (strcmp(kernel->symbol, symbol) == 0) return kernel;
  loaded_kernel *kernel = calloc(1, sizeof *kernel + strlen(symbol) + 1);
  if (!kernel) {
    ord_fail_memory(err, "loading a device kernel");
    return NULL;
  }
  memcpy(kernel->symbol, symbol, strlen(symbol) + 1);
  if (!load_kernel(plugin, image, kernel, err)) {
    free(kernel);
    return NULL;
  }
  kernel->next = image->kernel;
  image->kernel = kernel;
  return kernel;
}

/* What one user of a kernel asks for must not take from another. */
static bool allow_shared(ord_cuda_device *device, loaded_kernel *kernel, uint32_t bytes, ord_error *err) {
  char what[160];
  if (bytes <= kernel->dynamic_shared_bytes) return true;
  if (bytes > device->base.info.shared_bytes)
    return ord_fail(err, ORD_UNSUPPORTED,
                    "kernel '%s' wants %u bytes of shared memory; the device has %llu for a block", kernel->symbol,
                    bytes, (unsigned long long)device->base.info.shared_bytes);
  snprintf(what, sizeof what, "giving kernel '%s' %u bytes of shared memory", kernel->symbol, bytes);
  if (!ord_cuda_check(device,
                      device->call.KernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)bytes,
                                                      kernel->kernel, device->ordinal),
                      "cuKernelSetAttribute", what, err))
    return false;
  kernel->dynamic_shared_bytes = bytes;
  return true;
}

static bool find_kernel(ord_cuda_plugin *plugin, const char *image_name, const char *symbol, uint32_t shared_bytes,
                        CUkernel *out, ord_error *err) {
  ord_cuda_device *device = plugin->device;
  if (!ord_cuda_enter(device, err)) return false;
  if (ord_cuda_is_launching())
    return ord_fail(err, ORD_INVALID, "found a launch that asks for kernel '%s' of image '%s'; wanted that in prepare",
                    symbol, image_name);
  ord_cuda_pause_captures();
  loaded_image *image = get_image(plugin, image_name, err);
  loaded_kernel *kernel = image ? get_kernel(plugin, image, symbol, err) : NULL;
  const bool done = kernel && allow_shared(device, kernel, shared_bytes, err);
  if (done) *out = kernel->kernel;
  ord_cuda_resume_captures();
  return done;
}

bool ord_cuda_runtime_kernel(ord_cuda_device *device, const char *image, const char *symbol, CUkernel *out,
                             ord_error *err) {
  const ord_host *host = ord_cuda_host(&device->base, NULL, NULL, err);
  return host && find_kernel(host->context, image, symbol, 0, out, err);
}

/* ---- services ---- */

static void *host_allocate(void *context, size_t bytes, size_t align) {
  const ord_host *common = ((ord_cuda_plugin *)context)->common;
  return common->allocate(common->context, bytes, align);
}

static void host_release(void *context, void *memory) {
  const ord_host *common = ((ord_cuda_plugin *)context)->common;
  common->release(common->context, memory);
}

static void host_log(void *context, int level, const char *text) {
  const ord_host *common = ((ord_cuda_plugin *)context)->common;
  common->log(common->context, level, text);
}

static ord_status host_image_kernel(void *context, const char *image, const char *symbol, uint32_t shared_bytes,
                                    void **kernel, ord_plugin_error *err) {
  ord_error failure = ORD_ERROR_INIT;
  CUkernel found = NULL;
  if (!find_kernel(context, image, symbol, shared_bytes, &found, &failure)) return ord_cuda_tell_plugin(&failure, err);
  *kernel = found;
  return ORD_OK;
}

static void *host_find(void *context, const char *name_and_version) {
  const ord_cuda_options *options = &((ord_cuda_plugin *)context)->device->options;
  const char *found = NULL;
  if (strcmp(name_and_version, "library.cublas@1") == 0) found = options->cublas;
  if (strcmp(name_and_version, "library.cublasLt@1") == 0) found = options->cublas_lt;
  return (void *)(uintptr_t)found; /* only read; extras have one pointer type */
}

static ord_cuda_plugin *make_plugin(ord_cuda_device *device, const ord_registry *registry,
                                    const ord_plugin_entry *entry) {
  ord_cuda_plugin *made = calloc(1, sizeof *made);
  if (!made) return NULL;
  made->device = device;
  made->entry = entry;
  made->common = registry ? ord_registry_host(registry) : NULL;
  made->host = (ord_host){.struct_size = sizeof made->host,
                          .abi_minor = ORD_ABI_MINOR,
                          .features = made->common ? made->common->features : 0,
                          .context = made,
                          .allocate = host_allocate,
                          .release = host_release,
                          .log = host_log,
                          .image_kernel = host_image_kernel,
                          .gpu_launch = ord_cuda_gpu_launch,
                          .find = host_find};
  made->next = device->plugin;
  device->plugin = made;
  return made;
}

const ord_host *ord_cuda_host(ord_device *base, const ord_registry *registry, const ord_plugin_entry *entry,
                              ord_error *err) {
  ord_cuda_device *device = (ord_cuda_device *)base;
  if (!ord_cuda_enter(device, err)) return NULL;
  pthread_mutex_lock(&device->lock);
  ord_cuda_plugin *found = device->plugin;
  while (found && found->entry != entry) found = found->next;
  if (!found) found = make_plugin(device, registry, entry);
  pthread_mutex_unlock(&device->lock);
  if (!found) {
    ord_fail_memory(err, "making services for a plugin");
    return NULL;
  }
  return &found->host;
}

static void destroy_image(ord_cuda_device *device, bool is_alive, loaded_image *image) {
  while (image->kernel) {
    loaded_kernel *kernel = image->kernel;
    image->kernel = kernel->next;
    free(kernel);
  }
  if (is_alive) (void)device->call.LibraryUnload(image->library);
  free(image);
}

void ord_cuda_plugins_destroy(ord_cuda_device *device) {
  if (!device->plugin) return;
  const bool is_alive = ord_cuda_enter(device, NULL);
  ord_cuda_pause_captures();
  while (device->plugin) {
    ord_cuda_plugin *plugin = device->plugin;
    device->plugin = plugin->next;
    while (plugin->image) {
      loaded_image *image = plugin->image;
      plugin->image = image->next;
      destroy_image(device, is_alive, image);
    }
    free(plugin);
  }
  ord_cuda_resume_captures();
}
