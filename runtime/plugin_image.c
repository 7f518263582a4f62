/* SPDX-License-Identifier: MIT
 *
 * Files are read whole and loaded out of an anonymous file in memory. The loader knows an object by the name it was
 * opened under, and that name is a descriptor's: a number that a mapped object still bears must not be used again, or
 * dlopen would answer with the old object. Where there is no /proc to name it by, the copy is a temporary file that is
 * unlinked as soon as it is mapped.
 */
#include "runtime/plugin_image.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/plugin_elf.h"

#define LARGEST_FILE_BYTES ((off_t)1 << 30)

typedef char image_name[PATH_MAX]; /* "/proc/self/fd/N", or a temporary file */

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
  if (S_ISDIR(status.st_mode)) return ord_fail(err, ORD_INVALID, "%s: is a directory; wanted a shared object", path);
  if (!S_ISREG(status.st_mode))
    return ord_fail(err, ORD_INVALID, "%s: is no regular file; wanted a shared object", path);
  if (status.st_size > LARGEST_FILE_BYTES)
    return ord_fail(err, ORD_INVALID, "%s: is too large; found %lld bytes; wanted at most %lld", path,
                    (long long)status.st_size, (long long)LARGEST_FILE_BYTES);
  ord_image_file file = {.bytes = malloc((size_t)status.st_size + 1), .size = (size_t)status.st_size};
  if (!file.bytes) return ord_fail_memory(err, "reading a shared object");
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
  if (descriptor < 0)
    return ord_fail(err, ord_status_of_errno(errno), "%s: cannot be opened; %s", path, strerror(errno));
  const bool is_read = read_descriptor(path, descriptor, out, err);
  close(descriptor);
  return is_read;
}

void ord_image_file_finish(ord_image_file *file) {
  free(file->bytes);
  *file = (ord_image_file){0};
}

bool ord_image_file_check(const char *path, ord_error *err) {
  ord_image_file file;
  if (!ord_image_file_read(path, &file, err)) return false;
  const bool is_whole = ord_elf_check(path, file.bytes, file.size, err);
  ord_image_file_finish(&file);
  return is_whole;
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
static bool name_descriptor(int *descriptor, image_name name) {
  for (;;) {
    snprintf(name, sizeof(image_name), "/proc/self/fd/%d", *descriptor);
    if (!is_mapped(name)) return true;
    const int next = fcntl(*descriptor, F_DUPFD_CLOEXEC, *descriptor + 1);
    if (next < 0) return false;
    close(*descriptor);
    *descriptor = next;
  }
}

/* An open copy of the file in memory, under a name that dlopen can follow; -1 with errno. */
static int copy_to_memory(const ord_image_file *file, image_name name) {
  int descriptor = memfd_create("ordito-plugin", MFD_CLOEXEC);
  if (descriptor < 0) return -1;
  if (write_bytes(descriptor, file) && name_descriptor(&descriptor, name) && access(name, R_OK) == 0) return descriptor;
  const int reason = errno;
  close(descriptor);
  errno = reason;
  return -1;
}

static int copy_to_temporary(const ord_image_file *file, image_name name) {
  const char *folder = getenv("TMPDIR");
  snprintf(name, sizeof(image_name), "%s/ordito-plugin-XXXXXX", folder && *folder ? folder : "/tmp");
  const int descriptor = mkostemp(name, O_CLOEXEC);
  if (descriptor < 0 || write_bytes(descriptor, file)) return descriptor;
  const int reason = errno;
  close(descriptor);
  unlink(name);
  errno = reason;
  return -1;
}

bool ord_image_map(const char *path, const ord_image_file *file, void **out_handle, ord_error *err) {
  image_name name;
  int descriptor = copy_to_memory(file, name);
  const bool is_temporary = descriptor < 0;
  if (is_temporary) descriptor = copy_to_temporary(file, name);
  if (descriptor < 0) return ord_fail(err, ORD_IO, "%s: cannot be copied into memory; %s", path, strerror(errno));
  void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = dlerror();
    const size_t prefix = strlen(name);
    if (!reason) reason = "no reason given";
    if (!strncmp(reason, name, prefix) && !strncmp(reason + prefix, ": ", 2)) reason += prefix + 2;
    ord_fail(err, ORD_INVALID, "%s: cannot be loaded; %s", path, reason);
  }
  close(descriptor);
  if (is_temporary) unlink(name);
  *out_handle = handle;
  return handle != NULL;
}

bool ord_image_unmap(void *handle) {
  image_name name = "";
  struct link_map *map;
  if (!dlinfo(handle, RTLD_DI_LINKMAP, &map)) snprintf(name, sizeof name, "%s", map->l_name);
  return dlclose(handle) == 0 && !is_mapped(name);
}
