/* SPDX-License-Identifier: MIT
 *
 * safetensors: 8 bytes with the size of a JSON header (little-endian), the header, the data. Every number is checked
 * against the file's size before it is used; the tensors must fill the data exactly, without overlap and without hole,
 * so that no byte can be hidden in the file.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/weight_format.h"

enum { PREFIX_BYTES = 8 };
#define HEADER_LIMIT ((uint64_t)128 << 20) /* bytes; genuine headers of 126 MB have been seen */

typedef struct file_type {
  const char *name;
  uint32_t bits;
  ord_dtype dtype; /* 0: listed, refused when a weight wants it */
} file_type;

static const file_type types[] = {
    {"F32", 32, ORD_F32}, {"F16", 16, ORD_F16},  {"BF16", 16, ORD_BF16}, {"I8", 8, ORD_I8}, {"I32", 32, ORD_I32},
    {"I64", 64, ORD_I64}, {"BOOL", 8, ORD_BOOL}, {"U8", 8, 0},           {"I16", 16, 0},    {"U16", 16, 0},
    {"U32", 32, 0},       {"U64", 64, 0},        {"F64", 64, 0},         {"C64", 64, 0},    {"F8_E4M3", 8, 0},
    {"F8_E5M2", 8, 0},    {"F8_E4M3FNUZ", 8, 0}, {"F8_E5M2FNUZ", 8, 0},  {"F8_E8M0", 8, 0}, {"F6_E2M3", 6, 0},
    {"F6_E3M2", 6, 0},    {"F4", 4, 0},
};

static const file_type *type_find(const char *name) {
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strcmp(types[i].name, name) == 0) return &types[i];
  return NULL;
}

const char *ord_safetensors_type(ord_dtype dtype) {
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (types[i].dtype == dtype && dtype) return types[i].name;
  return NULL;
}

static uint64_t read_u64(const unsigned char *bytes) {
  uint64_t number = 0;
  for (int i = 7; i >= 0; i--) number = number << 8 | bytes[i];
  return number;
}

/* The size of the header. What the first 8 bytes say is believed only if a header of that size fits. */
static bool check_prefix(const ord_weight_disk *disk, uint64_t *out_header, ord_error *err) {
  unsigned char start[PREFIX_BYTES + 1];
  if (disk->bytes < sizeof start)
    return ord_fail(err, ORD_INVALID, "%s: too short for a safetensors file; found %" PRIu64 " bytes%s", disk->path,
                    disk->bytes, ord_weight_guess(disk));
  if (!ord_weight_disk_read(disk, 0, sizeof start, start, err)) return false;
  const uint64_t header = read_u64(start), room = disk->bytes - PREFIX_BYTES;
  if (start[PREFIX_BYTES] != '{')
    return ord_fail(err, ORD_INVALID,
                    "%s: not a safetensors file; found byte 0x%02x where the header begins; wanted '{'; %" PRIu64
                    " bytes%s",
                    disk->path, start[PREFIX_BYTES], disk->bytes, ord_weight_guess(disk));
  if (header > HEADER_LIMIT)
    return ord_fail(err, ORD_INVALID,
                    "%s: not a safetensors file, or its header is too large; found %" PRIu64
                    " bytes of header declared in a file of %" PRIu64 "; wanted at most %" PRIu64 "%s",
                    disk->path, header, disk->bytes, HEADER_LIMIT, ord_weight_guess(disk));
  if (header > room)
    return ord_fail(err, ORD_INVALID,
                    "%s: the file ends inside its header; found %" PRIu64 " bytes; wanted at least %" PRIu64
                    ", %" PRIu64 " more (an unfinished download?)",
                    disk->path, disk->bytes, header + PREFIX_BYTES, header - room);
  *out_header = header;
  return true;
}

static bool fail_json(const ord_weight_disk *disk, const json_error_t *fault, ord_error *err) {
  switch (json_error_code(fault)) {
  case json_error_unknown: /* what jansson leaves when an allocation inside its tables fails */
  case json_error_out_of_memory:
    return ord_fail_memory(err, "reading a safetensors header");
  case json_error_duplicate_key:
    return ord_fail(err, ORD_INVALID, "%s: the header names a thing twice: %s; wanted each tensor once", disk->path,
                    fault->text);
  default:
    return ord_fail(err, ORD_INVALID, "%s: the header is no JSON object; found at its byte %d: %s", disk->path,
                    fault->position, fault->text);
  }
}

static bool read_header(const ord_weight_disk *disk, uint64_t bytes, json_t **out, ord_error *err) {
  char *text = malloc(bytes ? (size_t)bytes : 1);
  if (!text) return ord_fail_memory(err, "reading a safetensors header");
  bool done = ord_weight_disk_read(disk, PREFIX_BYTES, (size_t)bytes, text, err);
  if (done) {
    json_error_t fault;
    *out = json_loadb(text, (size_t)bytes, JSON_REJECT_DUPLICATES, &fault);
    done = *out || fail_json(disk, &fault, err);
  }
  free(text);
  return done;
}

/* A tensor while its header entry is read. */
typedef struct entry_reader {
  ord_weight_file *file;
  const ord_weight_disk *disk;
  const char *name;
  ord_error *err;
} entry_reader;

static bool fail_entry(const entry_reader *reader, const char *format, ...) ORD_PRINTF(2, 3);
static bool fail_entry(const entry_reader *reader, const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return ord_fail(reader->err, ORD_INVALID, "%s: tensor '%s': %s", reader->disk->path, reader->name, text);
}

/* Names go into messages and terminals. */
static bool check_name(const entry_reader *reader) {
  const size_t length = strlen(reader->name);
  if (length == 0) return ord_fail(reader->err, ORD_INVALID, "%s: a tensor has no name", reader->disk->path);
  for (size_t i = 0; i < length; i++)
    if ((unsigned char)reader->name[i] < 0x20 || reader->name[i] == 0x7f)
      return ord_fail(reader->err, ORD_INVALID,
                      "%s: a tensor's name has control byte 0x%02x at its byte %zu; wanted none", reader->disk->path,
                      (unsigned char)reader->name[i], i);
  return true;
}

static bool read_shape(const entry_reader *reader, const json_t *shape, ord_file_tensor *tensor) {
  if (!json_is_array(shape)) return fail_entry(reader, "'shape' is not a list; wanted whole numbers");
  const size_t rank = json_array_size(shape);
  if (rank > ORD_FILE_RANK_MAX) return fail_entry(reader, "found %zu axes; wanted at most %d", rank, ORD_FILE_RANK_MAX);
  for (size_t axis = 0; axis < rank; axis++) {
    const json_t *dim = json_array_get(shape, axis);
    if (!json_is_integer(dim) || json_integer_value(dim) < 0)
      return fail_entry(reader, "axis %zu of 'shape' is not a whole number of at least 0", axis);
    tensor->dim[axis] = json_integer_value(dim);
  }
  tensor->rank = (uint32_t)rank;
  return true;
}

/* Bytes that shape and type take; false if there can be no such tensor. An axis of 0 makes it empty, whatever the
 * others say. */
static bool count_bytes(const ord_file_tensor *tensor, uint32_t bits, uint64_t *out) {
  size_t count = 1;
  for (uint32_t axis = 0; axis < tensor->rank; axis++)
    if (tensor->dim[axis] == 0) count = 0;
  for (uint32_t axis = 0; axis < tensor->rank && count; axis++)
    if (!ord_size_multiply(count, (size_t)tensor->dim[axis], &count)) return false;
  if (!ord_size_multiply(count, bits, &count) || count % 8) return false;
  *out = count / 8;
  return true;
}

/* begin and end, counted from the start of the data; whether they lie inside it is checked over all tensors at once. */
static bool read_offsets(const entry_reader *reader, const json_t *offsets, ord_file_tensor *tensor) {
  const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
  if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
      json_integer_value(begin) < 0 || json_integer_value(end) < json_integer_value(begin))
    return fail_entry(reader, "'data_offsets' is not [begin, end] with 0 <= begin <= end");
  tensor->offset = (uint64_t)json_integer_value(begin);
  tensor->bytes = (uint64_t)(json_integer_value(end) - json_integer_value(begin));
  return true;
}

static bool read_entry(const entry_reader *reader, const json_t *entry) {
  if (!check_name(reader)) return false;
  const char *type_name = json_string_value(json_object_get(entry, "dtype"));
  if (!type_name) return fail_entry(reader, "has no 'dtype'; wanted dtype, shape and data_offsets");
  ord_file_tensor tensor = {.name = ord_arena_text(&reader->file->arena, reader->name),
                            .type_name = ord_arena_text(&reader->file->arena, type_name),
                            .file = reader->file->disk_count - 1};
  if (!tensor.name || !tensor.type_name) return ord_fail_memory(reader->err, "listing tensors");
  if (!read_shape(reader, json_object_get(entry, "shape"), &tensor) ||
      !read_offsets(reader, json_object_get(entry, "data_offsets"), &tensor))
    return false;
  /* A type that is not in the table may be newer than this program: it is listed with the size it states. */
  const file_type *type = type_find(type_name);
  uint64_t wanted = tensor.bytes;
  if (type && !count_bytes(&tensor, type->bits, &wanted))
    return fail_entry(reader, "%s %s is no whole number of bytes below 2^64", type_name,
                      ord_dims_print(tensor.rank, tensor.dim).bytes);
  if (wanted != tensor.bytes)
    return fail_entry(reader, "found data_offsets of %" PRIu64 " bytes; wanted %" PRIu64 " for %s %s", tensor.bytes,
                      wanted, type_name, ord_dims_print(tensor.rank, tensor.dim).bytes);
  tensor.dtype = type ? type->dtype : 0;
  return ord_weight_file_add_tensor(reader->file, &tensor, reader->err);
}

static bool read_metadata(ord_weight_file *file, const ord_weight_disk *disk, json_t *metadata, ord_error *err) {
  if (!json_is_object(metadata))
    return ord_fail(err, ORD_INVALID, "%s: '__metadata__' is not an object; wanted texts by name", disk->path);
  const bool is_first = file->metadata_count == 0; /* shards repeat it */
  const char *key;
  json_t *value;
  json_object_foreach(metadata, key, value) {
    if (!json_is_string(value))
      return ord_fail(err, ORD_INVALID, "%s: '%s' of '__metadata__' is not a text; wanted texts only", disk->path, key);
    if (is_first && !ord_weight_file_add_metadata(file, key, json_string_value(value), err)) return false;
  }
  return true;
}

static int compare_offsets(const void *a, const void *b) {
  const ord_file_tensor *one = a, *other = b;
  if (one->offset != other->offset) return one->offset < other->offset ? -1 : 1;
  return one->bytes < other->bytes ? -1 : one->bytes > other->bytes;
}

/* `cut` is the first of `count` tensors that do not lie in the file as a whole; their offsets count from `start`. */
static bool fail_cut(const ord_weight_disk *disk, const ord_file_tensor *cut, uint32_t count, uint64_t start,
                     ord_error *err) {
  uint64_t end = 0;
  for (uint32_t i = 0; i < count; i++)
    if (cut[i].offset + cut[i].bytes > end) end = cut[i].offset + cut[i].bytes;
  return ord_fail(err, ORD_INVALID,
                  "%s: the file is cut off in tensor '%s'; found %" PRIu64 " bytes; wanted %" PRIu64 ", %" PRIu64
                  " more (an unfinished download?)",
                  disk->path, cut->name, disk->bytes, start + end, start + end - disk->bytes);
}

/* The tensors from `first` on fill `data` bytes exactly. Makes their offsets count from the start of the file. */
static bool check_layout(ord_weight_file *file, const ord_weight_disk *disk, uint32_t first, uint64_t header,
                         ord_error *err) {
  const uint64_t start = header + PREFIX_BYTES, data = disk->bytes - start;
  const uint32_t count = file->tensor_count - first;
  ord_file_tensor *tensor = count ? file->tensor + first : NULL;
  if (count) qsort(tensor, count, sizeof *tensor, compare_offsets);
  uint64_t filled = 0;
  const char *before = "the header";
  for (uint32_t i = 0; i < count; i++) {
    if (tensor[i].offset != filled)
      return ord_fail(err, ORD_INVALID,
                      "%s: tensor '%s' %s '%s'; found its begin at byte %" PRIu64 " of the data; wanted %" PRIu64,
                      disk->path, tensor[i].name, tensor[i].offset < filled ? "overlaps" : "leaves a hole behind",
                      before, tensor[i].offset, filled);
    filled += tensor[i].bytes; /* both below 2^63 */
    if (filled > data) return fail_cut(disk, &tensor[i], count - i, start, err);
    tensor[i].offset += start;
    before = tensor[i].name;
  }
  if (filled < data)
    return ord_fail(err, ORD_INVALID,
                    "%s: has bytes that belong to no tensor; found %" PRIu64 " bytes; wanted %" PRIu64, disk->path,
                    disk->bytes, start + filled);
  return true;
}

bool ord_safetensors_add(ord_weight_file *file, const char *path, ord_error *err) {
  if (!ord_weight_file_add_disk(file, path, err)) return false;
  const ord_weight_disk *disk = &file->disk[file->disk_count - 1];
  uint64_t header_bytes = 0;
  json_t *header = NULL;
  if (!check_prefix(disk, &header_bytes, err) || !read_header(disk, header_bytes, &header, err)) return false;
  const uint32_t first = file->tensor_count;
  bool done = true;
  const char *name;
  json_t *entry;
  json_object_foreach(header, name, entry) {
    const entry_reader reader = {.file = file, .disk = disk, .name = name, .err = err};
    done = strcmp(name, "__metadata__") == 0 ? read_metadata(file, disk, entry, err) : read_entry(&reader, entry);
    if (!done) break;
  }
  json_decref(header);
  return done && check_layout(file, disk, first, header_bytes, err);
}

bool ord_safetensors_open(ord_weight_file *file, const ord_description *description, const ord_graph *graph,
                          ord_error *err) {
  (void)description;
  (void)graph;
  return ord_safetensors_add(file, file->path, err) && ord_weight_file_index(file, err);
}
