/* SPDX-License-Identifier: MIT
 *
 * A plugin that forgot to export its open function.
 */
#include "ordito_plugin.h"

const ord_manifest ord_plugin_manifest = {ORD_MANIFEST_HEAD, .flags = ORD_PLUGIN_UNLOADABLE, .name = "bad_no_open"};
