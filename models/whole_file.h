/* SPDX-License-Identifier: MIT
 *
 * A file that is written whole or not at all: everything goes into a temporary file beside it, which is synced and
 * renamed at the end. Depends on the runtime's errors alone; belongs to one thread.
 */
#ifndef ORDITO_MODELS_WHOLE_FILE_H
#define ORDITO_MODELS_WHOLE_FILE_H

#include "runtime/error.h"

typedef struct ord_whole_file {
  char *path, *temporary;
  int descriptor;
  unsigned char *buffer;
  size_t buffered_bytes;
  uint64_t written_bytes;
} ord_whole_file;

/* Makes the temporary file. `path` may name a regular file, which is replaced at the end, or nothing. */
ORD_MUST_CHECK bool ord_whole_file_begin(ord_whole_file *file, const char *path, ord_error *err);
ORD_MUST_CHECK bool ord_whole_file_write(ord_whole_file *file, const void *from, size_t bytes, ord_error *err);
/* Puts the file in its place. After a failure it is still to be abandoned. */
ORD_MUST_CHECK bool ord_whole_file_end(ord_whole_file *file, ord_error *err);
/* Frees everything and removes what is not in its place. Accepts a zeroed file and one that failed to begin. */
void ord_whole_file_abandon(ord_whole_file *file);

#endif
