/* SPDX-License-Identifier: MIT
 *
 * attention_flash: attention by blocks of keys. The two names that it exports.
 */
#include "flash.h"

const ord_manifest ord_plugin_manifest = {ORD_MANIFEST_HEAD, .flags = ORD_PLUGIN_UNLOADABLE, .name = "attention_flash",
                                          .version = "0.1.0", .toolchain = "C11"};

static const ord_kernel *const kernels[] = {&attention_flash};

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
