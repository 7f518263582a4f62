/* SPDX-License-Identifier: MIT
 *
 * Writing beside, syncing, renaming.
 */
#include "models/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 20, NAME_TRIES = 100 };

static bool fail_write(const ord_whole_file *file, int reason, ord_error *err) {
  return ord_fail(err, ORD_IO, "%s: cannot be written: %s; %llu bytes were written and are removed again", file->path,
                  strerror(reason), (unsigned long long)file->written_bytes);
}

/* A new file beside the target; its name is its own, also among threads and processes that write the same target. */
static bool open_temporary(ord_whole_file *file, ord_error *err) {
  const size_t bytes = strlen(file->path) + sizeof ".part-4294967295-99";
  file->temporary = malloc(bytes);
  if (!file->temporary) return ord_fail_memory(err, "writing a file");
  for (int attempt = 0; attempt < NAME_TRIES; attempt++) {
    snprintf(file->temporary, bytes, "%s.part-%u-%d", file->path, (unsigned)getpid(), attempt);
    file->descriptor = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file->descriptor >= 0) return true;
    if (errno != EEXIST) break;
  }
  ord_fail(err, ord_status_of_errno(errno), "%s: cannot be written: %s", file->path, strerror(errno));
  free(file->temporary); /* what has this name is not ours to remove */
  file->temporary = NULL;
  return false;
}

bool ord_whole_file_begin(ord_whole_file *file, const char *path, ord_error *err) {
  *file = (ord_whole_file){.descriptor = -1};
  /* Renaming would put a plain file in the place of a device. */
  struct stat status;
  if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
    return ord_fail(err, ORD_INVALID, "%s: is there and is not a regular file; wanted the name of a file", path);
  file->path = strdup(path);
  file->buffer = malloc(BUFFER_BYTES);
  if (!file->path || !file->buffer) return ord_fail_memory(err, "writing a file");
  return open_temporary(file, err);
}

static bool flush(ord_whole_file *file, ord_error *err) {
  for (size_t done = 0; done < file->buffered_bytes;) {
    const ssize_t wrote = write(file->descriptor, file->buffer + done, file->buffered_bytes - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return fail_write(file, wrote ? errno : ENOSPC, err);
    done += (size_t)wrote;
    file->written_bytes += (uint64_t)wrote;
  }
  file->buffered_bytes = 0;
  return true;
}

bool ord_whole_file_write(ord_whole_file *file, const void *from, size_t bytes, ord_error *err) {
  const unsigned char *at = from;
  while (bytes) {
    const size_t room = BUFFER_BYTES - file->buffered_bytes, part = bytes < room ? bytes : room;
    memcpy(file->buffer + file->buffered_bytes, at, part);
    file->buffered_bytes += part;
    at += part;
    bytes -= part;
    if (file->buffered_bytes == BUFFER_BYTES && !flush(file, err)) return false;
  }
  return true;
}

/* The name itself reaches the disk with its folder. A file system that cannot sync a folder loses nothing by it. */
static void sync_folder(const char *path) {
  char *folder = strdup(path);
  if (!folder) return;
  char *slash = strrchr(folder, '/');
  if (slash) slash[1] = '\0';
  const int descriptor = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) {
    (void)fsync(descriptor);
    close(descriptor);
  }
  free(folder);
}

bool ord_whole_file_end(ord_whole_file *file, ord_error *err) {
  if (!flush(file, err)) return false;
  if (fsync(file->descriptor) != 0) return fail_write(file, errno, err);
  const int closed = close(file->descriptor);
  file->descriptor = -1;
  if (closed != 0 || rename(file->temporary, file->path) != 0) return fail_write(file, errno, err);
  sync_folder(file->path);
  free(file->temporary);
  file->temporary = NULL;
  ord_whole_file_abandon(file);
  return true;
}

void ord_whole_file_abandon(ord_whole_file *file) {
  if (file->path && file->descriptor >= 0) close(file->descriptor);
  if (file->temporary) unlink(file->temporary);
  free(file->temporary);
  free(file->buffer);
  free(file->path);
  *file = (ord_whole_file){.descriptor = -1};
}
