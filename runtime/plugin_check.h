/* SPDX-License-Identifier: MIT
 *
 * What a plugin must look like to be accepted: its manifest (before its code runs) and the table that its open
 * function gives. Built-in plugins go through the same checks. `file` stands in front of each message.
 */
#ifndef ORDITO_RUNTIME_PLUGIN_CHECK_H
#define ORDITO_RUNTIME_PLUGIN_CHECK_H

#include "runtime/error.h"

/* `bytes`: how much of the manifest there is. On success its texts are terminated. */
ORD_MUST_CHECK bool ord_manifest_check(const char *file, ord_manifest *manifest, uint32_t bytes, uint64_t host_features,
                                       ord_error *err);

/* Every kernel complete, named, and named once. */
ORD_MUST_CHECK bool ord_plugin_table_check(const char *file, const ord_plugin *plugin, ord_error *err);

#endif
