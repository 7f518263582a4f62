/* SPDX-License-Identifier: MIT
 *
 * The bytes of a plugin file and their mapping: a private copy in memory is what gets loaded, so that the file may be
 * overwritten or rebuilt while the program runs, and be loaded again beside the old one.
 */
#ifndef ORDITO_RUNTIME_PLUGIN_IMAGE_H
#define ORDITO_RUNTIME_PLUGIN_IMAGE_H

#include "runtime/error.h"

typedef struct ord_image_file {
  unsigned char *bytes;
  size_t size;
} ord_image_file;

/* Reads a regular file whole; the bytes are freed by ord_image_file_finish. */
ORD_MUST_CHECK bool ord_image_file_read(const char *path, ord_image_file *out, ord_error *err);
void ord_image_file_finish(ord_image_file *file);

/* ord_elf_check of a file that the system's loader is going to open by its path. */
ORD_MUST_CHECK bool ord_image_file_check(const char *path, ord_error *err);

/* Loads a copy of the bytes with dlopen (local symbols, everything resolved at once); its constructors run. `path` is
 * for messages alone. `*out_handle` is for dlsym and ord_image_unmap. */
ORD_MUST_CHECK bool ord_image_map(const char *path, const ord_image_file *file, void **out_handle, ord_error *err);

/* Unloads; false if something (a thread-local destructor, a unique symbol) keeps the code mapped. */
bool ord_image_unmap(void *handle);

#endif
