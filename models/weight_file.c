/* SPDX-License-Identifier: MIT
 *
 * Opening, listing and reading weight files. The name's ending decides which reader is asked; what the bytes look like
 * only serves the message when that reader refuses.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "models/weight_format.h"

enum { READ_AT_ONCE = 1 << 30 };

static bool refuse_gguf(ord_weight_file *file, const ord_description *description, const ord_graph *graph,
                        ord_error *err) {
  (void)description;
  (void)graph;
  return ord_fail(err, ORD_UNSUPPORTED, "%s: GGUF files are not read; wanted safetensors or an ANDREA checkpoint",
                  file->path);
}

static const struct {
  const char *ending;
  ord_file_kind kind;
  ord_weight_open_fn open;
} formats[] = {
    {".index.json", ORD_FILE_SAFETENSORS, ord_safetensors_index_open},
    {".safetensors", ORD_FILE_SAFETENSORS, ord_safetensors_open},
    {".gguf", ORD_FILE_SAFETENSORS, refuse_gguf},
    {"", ORD_FILE_CHECKPOINT, ord_checkpoint_open},
};

static int compare_names(const void *a, const void *b, void *context) {
  const ord_weight_file *file = context;
  return strcmp(file->tensor[*(const uint32_t *)a].name, file->tensor[*(const uint32_t *)b].name);
}

bool ord_weight_file_index(ord_weight_file *file, ord_error *err) {
  file->by_name = ord_arena_take(&file->arena, file->tensor_count, sizeof *file->by_name);
  if (!file->by_name) return ord_fail_memory(err, "listing tensors");
  for (uint32_t i = 0; i < file->tensor_count; i++) file->by_name[i] = i;
  qsort_r(file->by_name, file->tensor_count, sizeof *file->by_name, compare_names, file);
  for (uint32_t i = 1; i < file->tensor_count; i++) {
    const ord_file_tensor *one = &file->tensor[file->by_name[i - 1]], *other = &file->tensor[file->by_name[i]];
    if (strcmp(one->name, other->name) == 0)
      return ord_fail(err, ORD_INVALID, "%s: tensor '%s' is there twice, in %s and in %s; wanted once", file->path,
                      one->name, file->disk[one->file].path, file->disk[other->file].path);
  }
  return true;
}

bool ord_weight_file_open(const char *path, const ord_description *description, const ord_graph *graph,
                          ord_weight_file **out, ord_error *err) {
  *out = NULL;
  char *chosen = NULL;
  if (!ord_weight_file_choose(path, &chosen, err)) return false;
  ord_weight_file *file = calloc(1, sizeof *file);
  if (!file) {
    ord_fail_memory(err, "opening weights");
    goto fail;
  }
  file->path = ord_arena_text(&file->arena, chosen);
  if (!file->path) {
    ord_fail_memory(err, "opening weights");
    goto fail;
  }
  size_t format = 0;
  while (!ord_ends_with(file->path, formats[format].ending)) format++;
  file->kind = formats[format].kind;
  if (!formats[format].open(file, description, graph, err)) goto fail;
  free(chosen);
  *out = file;
  return true;
fail:
  free(chosen);
  ord_weight_file_close(file);
  return false;
}

void ord_weight_file_close(ord_weight_file *file) {
  if (!file) return;
  for (uint32_t i = 0; i < file->disk_count; i++) close(file->disk[i].descriptor);
  ord_arena_finish(&file->arena);
  free(file);
}

const char *ord_weight_file_path(const ord_weight_file *file) { return file->path; }

uint32_t ord_weight_file_count(const ord_weight_file *file) { return file->tensor_count; }

const ord_file_tensor *ord_weight_file_tensor(const ord_weight_file *file, uint32_t index) {
  return &file->tensor[index];
}

bool ord_weight_file_add_disk(ord_weight_file *file, const char *path, ord_error *err) {
  /* The room first: once the file is open, nothing may fail before its owner knows of it. */
  if (!ord_arena_grow(&file->arena, &file->disk, &file->disk_capacity, file->disk_count + 1, sizeof *file->disk))
    return ord_fail_memory(err, "opening weights");
  const char *kept = ord_arena_text(&file->arena, path);
  if (!kept) return ord_fail_memory(err, "opening weights");
  /* Without O_NONBLOCK the opening of a pipe would wait for its writer. */
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0)
    return ord_fail(err, ord_status_of_errno(errno), "%s: cannot be opened: %s", path, strerror(errno));
  struct stat status;
  if (fstat(descriptor, &status) != 0) {
    ord_fail(err, ORD_IO, "%s: cannot be examined: %s", path, strerror(errno));
    close(descriptor);
    return false;
  }
  if (!S_ISREG(status.st_mode)) {
    close(descriptor);
    return ord_fail(err, ORD_INVALID, "%s: is not a regular file; wanted a file of weights", path);
  }
  file->disk[file->disk_count++] = (ord_weight_disk){
      .path = kept, .descriptor = descriptor, .bytes = (uint64_t)status.st_size, .changed = status.st_mtim};
  return true;
}

bool ord_weight_file_add_tensor(ord_weight_file *file, const ord_file_tensor *tensor, ord_error *err) {
  if (file->tensor_count == ORD_NONE - 1 || !ord_arena_grow(&file->arena, &file->tensor, &file->tensor_capacity,
                                                            file->tensor_count + 1, sizeof *file->tensor))
    return ord_fail_memory(err, "listing tensors");
  file->tensor[file->tensor_count++] = *tensor;
  return true;
}

bool ord_weight_file_add_metadata(ord_weight_file *file, const char *key, const char *value, ord_error *err) {
  const ord_weight_metadata entry = {ord_arena_text(&file->arena, key), ord_arena_text(&file->arena, value)};
  if (!entry.key || !entry.value ||
      !ord_arena_grow(&file->arena, &file->metadata, &file->metadata_capacity, file->metadata_count + 1,
                      sizeof *file->metadata))
    return ord_fail_memory(err, "reading metadata");
  file->metadata[file->metadata_count++] = entry;
  return true;
}

const char *ord_weight_file_metadata(const ord_weight_file *file, const char *key) {
  for (uint32_t i = 0; i < file->metadata_count; i++)
    if (strcmp(file->metadata[i].key, key) == 0) return file->metadata[i].value;
  return NULL;
}

uint32_t ord_weight_file_find_joined(const ord_weight_file *file, const char *first, const char *second) {
  const size_t length = strlen(first);
  uint32_t low = 0, high = file->tensor_count;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    const char *candidate = file->tensor[file->by_name[middle]].name;
    int order = strncmp(candidate, first, length);
    if (order == 0) order = strcmp(candidate + length, second);
    if (order == 0) return file->by_name[middle];
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return ORD_NONE;
}

uint32_t ord_weight_file_find_tensor(const ord_weight_file *file, const char *name) {
  return ord_weight_file_find_joined(file, name, "");
}

uint32_t ord_weight_file_find_companion(const ord_weight_file *file, uint32_t index, const char *suffix) {
  return ord_weight_file_find_joined(file, file->tensor[index].name, suffix);
}

const char *ord_weight_file_name_of(const ord_weight_file *file, const ord_graph_weight *weight) {
  return file->kind == ORD_FILE_CHECKPOINT ? weight->name : weight->file_name;
}

bool ord_weight_file_slices(const ord_weight_file *file, const ord_graph_weight *weight) {
  return weight->has_slice && file->kind != ORD_FILE_CHECKPOINT;
}

/* A file that was written to since its header was checked may hold anything. */
static bool check_unchanged(const ord_weight_disk *disk, ord_error *err) {
  struct stat status;
  if (fstat(disk->descriptor, &status) != 0)
    return ord_fail(err, ORD_IO, "%s: cannot be examined: %s", disk->path, strerror(errno));
  if ((uint64_t)status.st_size < disk->bytes)
    return ord_fail(err, ORD_IO, "%s: became shorter while it was in use; found %lld bytes; wanted %" PRIu64,
                    disk->path, (long long)status.st_size, disk->bytes);
  if ((uint64_t)status.st_size != disk->bytes || status.st_mtim.tv_sec != disk->changed.tv_sec ||
      status.st_mtim.tv_nsec != disk->changed.tv_nsec)
    return ord_fail(err, ORD_IO, "%s: was written to while it was in use; wanted it unchanged", disk->path);
  return true;
}

bool ord_weight_disk_read(const ord_weight_disk *disk, uint64_t offset, size_t bytes, void *into, ord_error *err) {
  if (!check_unchanged(disk, err)) return false;
  for (size_t done = 0; done < bytes;) {
    const size_t wanted = bytes - done < READ_AT_ONCE ? bytes - done : READ_AT_ONCE;
    const ssize_t got = pread(disk->descriptor, (char *)into + done, wanted, (off_t)(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ord_fail(err, ORD_IO, "%s: cannot be read: %s", disk->path, strerror(errno));
    if (got == 0)
      return ord_fail(err, ORD_IO,
                      "%s: became shorter while it was read; found its end at byte %" PRIu64 "; wanted %" PRIu64
                      " bytes",
                      disk->path, offset + done, disk->bytes);
    done += (size_t)got;
  }
  return true;
}

bool ord_weight_file_read(const ord_weight_file *file, uint32_t tensor, uint64_t offset, size_t bytes, void *into,
                          ord_error *err) {
  const ord_file_tensor *from = &file->tensor[tensor];
  if (offset > from->bytes || bytes > from->bytes - offset)
    return ord_fail(err, ORD_INTERNAL, "%s: tensor '%s': %zu bytes from byte %" PRIu64 " on asked for; it has %" PRIu64,
                    file->path, from->name, bytes, offset, from->bytes);
  return ord_weight_disk_read(&file->disk[from->file], from->offset + offset, bytes, into, err) ||
         ord_fail_prefix(err, "tensor '%s'", from->name);
}

ord_dims_text ord_dims_print(uint32_t rank, const int64_t *dim) {
  ord_dims_text text;
  size_t length = 0;
  text.bytes[length++] = '[';
  for (uint32_t axis = 0; axis < rank && axis < ORD_FILE_RANK_MAX; axis++)
    length += (size_t)snprintf(text.bytes + length, sizeof text.bytes - length, "%s%lld", axis ? ", " : "",
                               (long long)dim[axis]);
  text.bytes[length++] = ']';
  text.bytes[length] = '\0';
  return text;
}
