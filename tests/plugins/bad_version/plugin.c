/* SPDX-License-Identifier: MIT
 *
 * A plugin of a later major version. Its constructor and its open function must never run.
 */
#include "ordito_plugin.h"

#include <stdlib.h>

const ord_manifest ord_plugin_manifest = {.magic = ORD_PLUGIN_MAGIC,
                                          .struct_size = sizeof(ord_manifest),
                                          .abi_major = 2,
                                          .abi_minor_needed = 0,
                                          .abi_minor_built = 3,
                                          .name = "bad_version"};

__attribute__((constructor)) static void run_on_load(void) { abort(); }

ord_status ord_plugin_open(const ord_host *host, const ord_plugin **out, ord_plugin_error *err) {
  (void)host;
  (void)out;
  (void)err;
  abort();
}
