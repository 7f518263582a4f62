/* SPDX-License-Identifier: MIT
 *
 * cublas: matmul through NVIDIA's cuBLASLt. The two names that it exports. It links no CUDA library.
 */
#include "images.h"
#include "matmul.h"

const ord_manifest ord_plugin_manifest = {
    ORD_MANIFEST_HEAD,  .flags = ORD_PLUGIN_UNLOADABLE, .name = "cublas",
    .version = "0.1.0", .toolchain = "C11, CUDA C++",
};

static const ord_kernel *const kernels[] = {&matmul_cublas};

static const ord_plugin plugin_table = {
    .struct_size = sizeof plugin_table,
    .kernel_count = sizeof kernels / sizeof *kernels,
    .image_count = plugin_image_count,
    .kernel = kernels,
    .image = plugin_images,
};

ord_status ord_plugin_open(const ord_host *host, const ord_plugin **plugin, ord_plugin_error *err) {
  (void)host, (void)err;
  *plugin = &plugin_table;
  return ORD_OK;
}
