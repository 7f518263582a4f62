/* SPDX-License-Identifier: MIT
 *
 * A plugin whose open function refuses, with its reason and a native code.
 */
#include "ordito_plugin.h"

#include <stdio.h>

const ord_manifest ord_plugin_manifest = {ORD_MANIFEST_HEAD, .flags = ORD_PLUGIN_UNLOADABLE, .name = "bad_open_fails"};

ord_status ord_plugin_open(const ord_host *host, const ord_plugin **out, ord_plugin_error *err) {
  (void)host;
  (void)out;
  snprintf(err->text, sizeof err->text, "found no device; wanted one");
  err->native = 100;
  return ORD_UNSUPPORTED;
}
