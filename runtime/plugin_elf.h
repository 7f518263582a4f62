/* SPDX-License-Identifier: MIT
 *
 * Reading a plugin's manifest out of the bytes of its ELF file, so that nothing of a foreign file runs before it was
 * checked. The bytes are not trusted: every offset in them is checked against their length.
 */
#ifndef ORDITO_RUNTIME_PLUGIN_ELF_H
#define ORDITO_RUNTIME_PLUGIN_ELF_H

#include "runtime/error.h"

typedef struct ord_elf_plugin {
  bool has_manifest;       /* exports ord_plugin_manifest as data that stands in the file */
  bool has_open;           /* exports ord_plugin_open */
  uint32_t manifest_bytes; /* how many bytes of `manifest` the file holds; the rest is zero */
  ord_manifest manifest;   /* as it stands in the file, unchecked */
} ord_elf_plugin;

/* Fails, with the path in front, if the bytes are no ELF shared object for this machine (says what they look like) or
 * not all of one (says how many there are and how many it takes). What passes the system's loader can map. */
ORD_MUST_CHECK bool ord_elf_check(const char *path, const unsigned char *bytes, size_t size, ord_error *err);

/* The same, and fails if a table of symbols points outside of the file. A missing symbol is no failure. */
ORD_MUST_CHECK bool ord_elf_read_plugin(const char *path, const unsigned char *bytes, size_t size, ord_elf_plugin *out,
                                        ord_error *err);

#endif
