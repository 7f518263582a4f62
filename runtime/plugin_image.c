/* SPDX-License-Identifier: MIT
 *
 * Files are read whole and loaded out of an anonymous file in memory. The loader knows an object by the name it was
 * opened under, and that name is a descriptor's: a number that a mapped object still bears must not be used again, or
 * dlopen would answer with the old object.
 */
#include "runtime/plugin_image.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LARGEST_FILE_BYTES ((off_t)1 << 30)

typedef char image_name[32]; /* "/proc/self/fd/N" */

static bool read_bytes(const char *path, int descriptor, ord_image_file *file, ord_error *err) {
  for (size_t done = 0; done < file->size;) {
    const ssize_t got = read(descriptor, file->bytes + done, file->size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ord_fail(err, ORD_IO, "%s: cannot be read; %s", path, strerror(errno));
    if (!got)
      return ord_fail(err, ORD_IO, "%s: became shorter while it was read; found %zu bytes; wanted %zu", path, done,
                      file->size);
    done += (size_t)got;
  }
  return true;
}

static bool read_descriptor(const char *path, int descriptor, ord_image_file *out, ord_error *err) {
  struct stat status;
  if (fstat(descriptor, &status)) return ord_fail(err, ORD_IO, "%s: cannot be read; %s", path, strerror(errno));
  if (S_ISDIR(status.st_mode))
    return ord_fail(err, ORD_INVALID, "%s: is a directory; wanted a plugin's shared object", path);
  if (!S_ISREG(status.st_mode))
    return ord_fail(err, ORD_INVALID, "%s: is no regular file; wanted a plugin's shared object", path);
  if (status.st_size > LARGEST_FILE_BYTES)
    return ord_fail(err, ORD_INVALID, "%s: is too large for a plugin; found %lld bytes; wanted at most %lld", path,
                    (long long)status.st_size, (long long)LARGEST_FILE_BYTES);
  ord_image_file file = {.bytes = malloc((size_t)status.st_size + 1), .size = (size_t)status.st_size};
  if (!file.bytes) return ord_fail_memory(err, "reading a plugin");
  if (!read_bytes(path, descriptor, &file, err)) {
    ord_image_file_finish(&file);
    return false;
  }
  *out = file;
  return true;
}

bool ord_image_file_read(const char *path, ord_image_file *out, ord_error *err) {
  *out = (ord_image_file){0};
  /* O_NONBLOCK: a named pipe is refused below instead of waiting for a writer here. */
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return ord_fail(err, ORD_IO, "%s: cannot be opened; %s", path, strerror(errno));
  const bool is_read = read_descriptor(path, descriptor, out, err);
  close(descriptor);
  return is_read;
}

void ord_image_file_finish(ord_image_file *file) {
  free(file->bytes);
  *file = (ord_image_file){0};
}

static int compare_name(struct dl_phdr_info *info, size_t bytes, void *name) {
  (void)bytes;
  return info->dlpi_name && strcmp(info->dlpi_name, name) == 0;
}

static bool is_mapped(image_name name) { return dl_iterate_phdr(compare_name, name) != 0; }

static bool write_bytes(int descriptor, const ord_image_file *file) {
  for (size_t done = 0; done < file->size;) {
    const ssize_t put = write(descriptor, file->bytes + done, file->size - done);
    if (put < 0 && errno != EINTR) return false;
    if (put > 0) done += (size_t)put;
  }
  return true;
}

/* Moves the descriptor to a number whose name no mapped object bears. */
static bool name_image(int *descriptor, image_name name) {
  for (;;) {
    snprintf(name, sizeof(image_name), "/proc/self/fd/%d", *descriptor);
    if (!is_mapped(name)) return true;
    const int next = fcntl(*descriptor, F_DUPFD_CLOEXEC, *descriptor + 1);
    if (next < 0) return false;
    close(*descriptor);
    *descriptor = next;
  }
}

bool ord_image_map(const char *path, const ord_image_file *file, void **out_handle, ord_error *err) {
  int descriptor = memfd_create("ordito-plugin", MFD_CLOEXEC);
  image_name name;
  if (descriptor < 0 || !write_bytes(descriptor, file) || !name_image(&descriptor, name)) {
    const int reason = errno;
    if (descriptor >= 0) close(descriptor);
    return ord_fail(err, ORD_IO, "%s: cannot be copied into memory; %s", path, strerror(reason));
  }
  void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = dlerror();
    const size_t prefix = strlen(name);
    if (!reason) reason = "no reason given";
    if (!strncmp(reason, name, prefix) && !strncmp(reason + prefix, ": ", 2)) reason += prefix + 2;
    ord_fail(err, ORD_INVALID, "%s: cannot be loaded; %s", path, reason);
  }
  close(descriptor);
  *out_handle = handle;
  return handle != NULL;
}

bool ord_image_unmap(void *handle) {
  image_name name = "";
  struct link_map *map;
  if (!dlinfo(handle, RTLD_DI_LINKMAP, &map)) snprintf(name, sizeof name, "%s", map->l_name);
  return dlclose(handle) == 0 && !is_mapped(name);
}
