/* SPDX-License-Identifier: MIT
 *
 * Plugins: loading shared objects through the ABI of ordito_plugin.h and keeping what they offer. The manifest is read
 * from the ELF file before any code of it runs; each load maps a private copy of the file, so that a rebuilt plugin
 * can be loaded beside the old one. A refusal is an error with its own message and leaves nothing mapped.
 * A registry belongs to one context; loading is for one thread at a time, reading for any.
 */
#ifndef ORDITO_RUNTIME_PLUGIN_H
#define ORDITO_RUNTIME_PLUGIN_H

#include "runtime/arena.h"
#include "runtime/error.h"

typedef struct ord_registry ord_registry;

/* One plugin that was opened. Borrowed; valid until its registry is destroyed. */
typedef struct ord_plugin_entry {
  const ord_manifest *manifest;
  const ord_plugin *plugin;
  const char *file;  /* the path it came from; "(built in)" for a static one */
  uint64_t digest;   /* xxh3 of the file's bytes; of a static one of its name and version */
  bool is_reference; /* the reference plugin: correct for every node, chosen last */
} ord_plugin_entry;

/* One verdict a file: loaded, or refused with the reason. */
typedef struct ord_plugin_verdict {
  const char *file;
  const char *refused; /* NULL: loaded */
} ord_plugin_verdict;

ORD_MUST_CHECK bool ord_registry_create(ord_log_fn log, void *log_context, ord_registry **out, ord_error *err);
/* Closes the plugins. No state made by their kernels may be alive. Accepts NULL. */
void ord_registry_destroy(ord_registry *registry);

/* Registers a plugin that is linked into the program; goes through the same checks as a file. */
ORD_MUST_CHECK bool ord_registry_add_static(ord_registry *registry, const ord_manifest *manifest,
                                            ord_plugin_open_fn open, bool is_reference, ord_error *err);

/* Loads one file. Refuses a file that is no ELF object, is for another machine, lacks a symbol, has a wrong ABI or a
 * name that is already there; notes the verdict either way. */
ORD_MUST_CHECK bool ord_registry_load(ord_registry *registry, const char *path, ord_error *err);

/* Loads one file beside plugins of the same name, as a rebuilt one beside the old: then its entry's name gets "#2",
 * "#3",
 * .. appended, so that pins tell them apart. Refuses bytes that are loaded already. */
ORD_MUST_CHECK bool ord_registry_load_beside(ord_registry *registry, const char *path, const ord_plugin_entry **out,
                                             ord_error *err);

/* Loads every plugin of a folder (files *.so whose manifest carries the magic, in name order). A file that is refused
 * is a verdict and a warning in the log, not a failure; a missing folder is a warning. Fails only on memory. */
ORD_MUST_CHECK bool ord_registry_load_folder(ord_registry *registry, const char *folder, ord_error *err);

uint32_t ord_registry_count(const ord_registry *registry);
const ord_plugin_entry *ord_registry_get(const ord_registry *registry, uint32_t index);
uint32_t ord_registry_verdict_count(const ord_registry *registry);
ord_plugin_verdict ord_registry_verdict(const ord_registry *registry, uint32_t index);
/* The services that are handed to prepare. */
const ord_host *ord_registry_host(const ord_registry *registry);

#endif
