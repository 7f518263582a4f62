/* SPDX-License-Identifier: MIT
 *
 * A plugin that forgot to export its open function.
 */
#include "ordito_plugin.h"

const ord_manifest ord_plugin_manifest = {.magic = ORD_PLUGIN_MAGIC,
                                          .struct_size = sizeof(ord_manifest),
                                          .abi_major = ORD_ABI_MAJOR,
                                          .abi_minor_needed = ORD_ABI_MINOR,
                                          .abi_minor_built = ORD_ABI_MINOR,
                                          .flags = ORD_PLUGIN_UNLOADABLE,
                                          .name = "bad_no_open"};
