/* SPDX-License-Identifier: MIT
 *
 * cpu_plain: clear C for every op that a decoder or an encoder needs but attention. The two names that it exports.
 */
#include "plain.h"

const ord_manifest ord_plugin_manifest = {
    ORD_MANIFEST_HEAD, .flags = ORD_PLUGIN_UNLOADABLE, .name = "cpu_plain", .version = "0.1.0", .toolchain = "C11",
};

static const ord_kernel *const kernels[] = {
#define KERNEL(op) &op##_plain.base,
#include "kernels.def"
};

enum {
#define KERNEL(op) COUNT_##op,
#include "kernels.def"
  KERNEL_COUNT
};

static const ord_plugin cpu_plain = {
    .struct_size = sizeof cpu_plain,
    .kernel_count = KERNEL_COUNT,
    .kernel = kernels,
};

ord_status ord_plugin_open(const ord_host *host, const ord_plugin **plugin, ord_plugin_error *err) {
  (void)host, (void)err;
  *plugin = &cpu_plain;
  return ORD_OK;
}
