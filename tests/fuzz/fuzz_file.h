/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a file of a given name. The name is a link, made once, to a file in memory: a disk would set the pace.
 */
#ifndef ORDITO_TESTS_FUZZ_FILE_H
#define ORDITO_TESTS_FUZZ_FILE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static char fuzz_folder[64], fuzz_path[96];

static inline void fuzz_remove(void) {
  unlink(fuzz_path);
  rmdir(fuzz_folder);
}

/* The path of the file, which stays until the next call. Whatever fails here is no finding. */
static inline const char *fuzz_file(const char *name, const uint8_t *bytes, size_t count) {
  static int memory = -1;
  if (memory < 0) {
    char target[64];
    memory = memfd_create(name, 0);
    snprintf(target, sizeof target, "/proc/self/fd/%d", memory);
    snprintf(fuzz_folder, sizeof fuzz_folder, "/tmp/ordito-fuzz-XXXXXX");
    if (memory < 0 || !mkdtemp(fuzz_folder)) exit(1);
    snprintf(fuzz_path, sizeof fuzz_path, "%s/%s", fuzz_folder, name);
    atexit(fuzz_remove);
    if (symlink(target, fuzz_path) != 0) exit(1);
  }
  if (ftruncate(memory, 0) != 0 || pwrite(memory, bytes, count, 0) != (ssize_t)count) exit(1);
  return fuzz_path;
}

#endif
