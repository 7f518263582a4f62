/* SPDX-License-Identifier: MIT
 *
 * attention_naive: attention as it stands in a textbook. The two names that it exports.
 */
#include "attention.h"

const ord_manifest ord_plugin_manifest = {
    ORD_MANIFEST_HEAD,  .flags = ORD_PLUGIN_UNLOADABLE, .name = "attention_naive", .version = "0.1.0",
    .toolchain = "C11",
};

static const ord_kernel *const kernels[] = {&attention_naive};

static const ord_plugin plugin_table = {
    .struct_size = sizeof plugin_table,
    .kernel_count = 1,
    .kernel = kernels,
};

ord_status ord_plugin_open(const ord_host *host, const ord_plugin **plugin, ord_plugin_error *err) {
  (void)host, (void)err;
  *plugin = &plugin_table;
  return ORD_OK;
}
