/* SPDX-License-Identifier: MIT
 *
 * cuda_core: CUDA kernels for every op that a decoder or an encoder needs but attention. The two names that it exports.
 */
#include "core.h"
#include "images.h"

const ord_manifest ord_plugin_manifest = {
    ORD_MANIFEST_HEAD, .flags = ORD_PLUGIN_UNLOADABLE, .name = "cuda_core", .version = "0.1.0", .toolchain = "CUDA C++",
};

static const ord_kernel *const kernels[] = {
#define KERNEL(op) &core_##op,
#include "kernels.def"
};

static const ord_plugin cuda_core = {
    .struct_size = sizeof cuda_core,
    .kernel_count = sizeof kernels / sizeof *kernels,
    .image_count = plugin_image_count,
    .kernel = kernels,
    .image = plugin_images,
};

ord_status ord_plugin_open(const ord_host *host, const ord_plugin **plugin, ord_plugin_error *err) {
  (void)host, (void)err;
  *plugin = &cuda_core;
  return ORD_OK;
}
