/* SPDX-License-Identifier: MIT
 *
 * The .npy format, versions 1 to 3: a magic word, a version, the size of a header, the header (a Python dictionary with
 * descr, fortran_order and shape, padded with spaces to a newline), the data.
 */
#include "cli/npy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAGIC_BYTES = 6, PREFIX_BYTES = 12, HEADER_LIMIT = 1 << 16, HEADER_ALIGN = 64, WORD_MAX = 32 };
static const char magic[] = "\x93NUMPY";

/* What a descr is in the library. The first row of a dtype is how it is written. */
typedef struct npy_type {
  const char *descr;
  uint32_t dtype, file_bytes, memory_bytes;
} npy_type;

static const npy_type types[] = {
    {"<f4", ORD_F32, 4, 4},  {"<f2", ORD_F16, 2, 2}, {"<i4", ORD_I32, 4, 4},  {"<i8", ORD_I64, 8, 8},
    {"|b1", ORD_BOOL, 1, 1}, {"|u1", ORD_I32, 1, 4}, {"<f4", ORD_BF16, 4, 2},
};

static bool fail(ord_error *err, ord_status code, const char *path, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static bool fail(ord_error *err, ord_status code, const char *path, const char *format, ...) {
  if (!err) return false;
  err->code = code;
  err->line = err->column = 0;
  snprintf(err->file, sizeof err->file, "%s", path);
  const int length = snprintf(err->text, sizeof err->text, "%s: ", path);
  const size_t at = length < 0 ? 0 : (size_t)length < sizeof err->text ? (size_t)length : sizeof err->text - 1;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(err->text + at, sizeof err->text - at, format, arguments);
  va_end(arguments);
  return false;
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

typedef struct npy_reader {
  const char *path;
  int descriptor;
  uint64_t file_bytes, data_offset;
  const char *at, *end; /* of the header's text */
  const npy_type *type;
  ord_tensor *tensor;
  unsigned char *data;
  ord_error *err;
} npy_reader;

static bool read_at(const npy_reader *reader, uint64_t offset, void *into, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t got = pread(reader->descriptor, (char *)into + done, bytes - done, (off_t)(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(reader->err, ORD_IO, reader->path, "cannot be read: %s", strerror(errno));
    if (got == 0) return fail(reader->err, ORD_IO, reader->path, "became shorter while it was read");
    done += (size_t)got;
  }
  return true;
}

static bool fail_header(const npy_reader *reader, const char *wanted) {
  const int bytes = reader->end - reader->at < WORD_MAX ? (int)(reader->end - reader->at) : WORD_MAX;
  return fail(reader->err, ORD_INVALID, reader->path, "the header is wrong; found '%.*s'; wanted %s", bytes, reader->at,
              wanted);
}

static void skip_spaces(npy_reader *reader) {
  while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\n')) reader->at++;
}

/* Takes `text` if it comes next. */
static bool take(npy_reader *reader, const char *text) {
  skip_spaces(reader);
  const size_t length = strlen(text);
  if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, text, length) != 0) return false;
  reader->at += length;
  return true;
}

/* A quoted word without escapes. */
static bool read_word(npy_reader *reader, char word[WORD_MAX]) {
  skip_spaces(reader);
  const char *start = reader->at;
  if (start == reader->end || (*start != '\'' && *start != '"')) return fail_header(reader, "a quoted word");
  const char *close = memchr(start + 1, *start, (size_t)(reader->end - start - 1));
  if (!close || close - start > WORD_MAX) return fail_header(reader, "a short quoted word");
  memcpy(word, start + 1, (size_t)(close - start - 1));
  word[close - start - 1] = '\0';
  reader->at = close + 1;
  return true;
}

static bool read_descr(npy_reader *reader) {
  char descr[WORD_MAX];
  skip_spaces(reader);
  if (reader->at < reader->end && *reader->at == '[') return fail_header(reader, "a plain type, not a record");
  if (!read_word(reader, descr)) return false;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (strcmp(types[i].descr, descr) != 0) continue;
    reader->type = &types[i];
    return true;
  }
  return fail(reader->err, ORD_INVALID, reader->path,
              "found type '%s'; wanted <f4, <f2, <i4, <i8, |b1 or |u1 (a.astype('float32') in Python)", descr);
}

static bool read_order(npy_reader *reader) {
  if (take(reader, "False")) return true;
  if (take(reader, "True"))
    return fail(reader->err, ORD_INVALID, reader->path,
                "found Fortran order; wanted C order (numpy.ascontiguousarray(a) in Python)");
  return fail_header(reader, "True or False");
}

static bool read_dim(npy_reader *reader, int64_t *out) {
  int64_t dim = 0;
  const char *start = reader->at;
  for (; reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9'; reader->at++)
    if (__builtin_mul_overflow(dim, 10, &dim) || __builtin_add_overflow(dim, *reader->at - '0', &dim))
      return fail(reader->err, ORD_INVALID, reader->path, "an axis is larger than any array");
  *out = dim;
  return reader->at > start || fail_header(reader, "a whole number");
}

static bool read_shape(npy_reader *reader) {
  ord_tensor *tensor = reader->tensor;
  if (!take(reader, "(")) return fail_header(reader, "a shape in parentheses");
  while (!take(reader, ")")) {
    if (tensor->rank == ORD_RANK_MAX)
      return fail(reader->err, ORD_INVALID, reader->path, "found more than %d axes; wanted at most %d", ORD_RANK_MAX,
                  ORD_RANK_MAX);
    if (!read_dim(reader, &tensor->dim[tensor->rank++])) return false;
    if (!take(reader, ",")) {
      if (tensor->rank == 1) return fail_header(reader, "',' behind a single axis");
      if (!take(reader, ")")) return fail_header(reader, "',' or ')'");
      return true;
    }
  }
  return true;
}

/* The keys of the dictionary; each is wanted exactly once. */
static const struct {
  const char *name;
  bool (*read)(npy_reader *reader);
} keys[] = {{"descr", read_descr}, {"fortran_order", read_order}, {"shape", read_shape}};

enum { KEY_COUNT = sizeof keys / sizeof *keys };

static bool read_dictionary(npy_reader *reader) {
  bool seen[KEY_COUNT] = {false};
  if (!take(reader, "{")) return fail_header(reader, "'{'");
  while (!take(reader, "}")) {
    char name[WORD_MAX];
    if (!read_word(reader, name)) return false;
    size_t key = 0;
    while (key < KEY_COUNT && strcmp(keys[key].name, name) != 0) key++;
    if (key == KEY_COUNT || seen[key])
      return fail(reader->err, ORD_INVALID, reader->path,
                  "the header has %s key '%s'; wanted descr, fortran_order, shape",
                  key == KEY_COUNT ? "an unknown" : "twice the", name);
    seen[key] = true;
    if (!take(reader, ":")) return fail_header(reader, "':'");
    if (!keys[key].read(reader)) return false;
    if (take(reader, ",")) continue;
    if (!take(reader, "}")) return fail_header(reader, "',' or '}'");
    break;
  }
  for (size_t key = 0; key < KEY_COUNT; key++)
    if (!seen[key])
      return fail(reader->err, ORD_INVALID, reader->path, "the header lacks '%s'; wanted descr, fortran_order, shape",
                  keys[key].name);
  skip_spaces(reader);
  return reader->at == reader->end || fail_header(reader, "nothing behind the dictionary");
}

static bool read_prefix(npy_reader *reader, size_t *out_header) {
  unsigned char start[PREFIX_BYTES] = {0};
  const size_t bytes = reader->file_bytes < sizeof start ? (size_t)reader->file_bytes : sizeof start;
  if (!read_at(reader, 0, start, bytes)) return false;
  if (bytes < MAGIC_BYTES + 4 || memcmp(start, magic, MAGIC_BYTES) != 0)
    return fail(reader->err, ORD_INVALID, reader->path, "is no .npy file; it does not begin as one (%llu bytes)",
                (unsigned long long)reader->file_bytes);
  const unsigned version = start[MAGIC_BYTES];
  if (version < 1 || version > 3)
    return fail(reader->err, ORD_INVALID, reader->path, "found version %u of the format; wanted 1 to 3", version);
  uint64_t header = (uint64_t)start[8] | (uint64_t)start[9] << 8;
  if (version > 1) header |= (uint64_t)start[10] << 16 | (uint64_t)start[11] << 24;
  reader->data_offset = (version > 1 ? 12 : 10) + header;
  if (header > HEADER_LIMIT || reader->data_offset > reader->file_bytes)
    return fail(reader->err, ORD_INVALID, reader->path,
                "found a header of %llu bytes in a file of %llu; wanted at most %d", (unsigned long long)header,
                (unsigned long long)reader->file_bytes, HEADER_LIMIT);
  *out_header = (size_t)header;
  return true;
}

/* The numbers of the shape must be all that is left of the file. */
static bool check_size(const npy_reader *reader, uint64_t *out_count) {
  const ord_tensor *tensor = reader->tensor;
  uint64_t count = 1, bytes;
  bool is_empty = false;
  for (uint32_t axis = 0; axis < tensor->rank; axis++) is_empty = is_empty || tensor->dim[axis] == 0;
  for (uint32_t axis = 0; axis < tensor->rank && !is_empty; axis++)
    if (__builtin_mul_overflow(count, (uint64_t)tensor->dim[axis], &count))
      return fail(reader->err, ORD_INVALID, reader->path, "the shape is larger than any array");
  if (is_empty) count = 0;
  if (__builtin_mul_overflow(count, (uint64_t)reader->type->file_bytes, &bytes))
    return fail(reader->err, ORD_INVALID, reader->path, "the shape is larger than any array");
  const uint64_t found = reader->file_bytes - reader->data_offset;
  if (bytes != found)
    return fail(reader->err, ORD_INVALID, reader->path,
                "found %llu bytes of data; wanted %llu, what type and shape take", (unsigned long long)found,
                (unsigned long long)bytes);
  *out_count = count;
  return true;
}

static bool check_bools(const npy_reader *reader, const unsigned char *data, uint64_t count) {
  for (uint64_t i = 0; i < count; i++)
    if (data[i] > 1) return fail(reader->err, ORD_INVALID, reader->path, "found a bool of %u; wanted 0 or 1", data[i]);
  return true;
}

static bool read_data(npy_reader *reader) {
  ord_tensor *tensor = reader->tensor;
  const npy_type *type = reader->type;
  uint64_t count = 0;
  if (!check_size(reader, &count)) return false;
  tensor->dtype = type->dtype;
  tensor->bytes = (size_t)count * type->memory_bytes;
  unsigned char *data = reader->data = calloc(count ? (size_t)count : 1, type->memory_bytes);
  if (!data) return fail(reader->err, ORD_NO_MEMORY, reader->path, "out of memory");
  /* Smaller elements go to the end of the memory and are widened from the front, so that none is overwritten unread. */
  unsigned char *stored = data + (size_t)count * (type->memory_bytes - type->file_bytes);
  if (!read_at(reader, reader->data_offset, stored, (size_t)count * type->file_bytes)) return false;
  if (type->dtype == ORD_BOOL) return check_bools(reader, data, count);
  for (uint64_t i = 0; type->file_bytes < type->memory_bytes && i < count; i++) {
    const int32_t wide = stored[i];
    memcpy(data + i * sizeof wide, &wide, sizeof wide);
  }
  return true;
}

static bool read_file(npy_reader *reader) {
  struct stat status;
  if (fstat(reader->descriptor, &status) != 0)
    return fail(reader->err, ORD_IO, reader->path, "cannot be examined: %s", strerror(errno));
  if (!S_ISREG(status.st_mode)) return fail(reader->err, ORD_INVALID, reader->path, "is not a regular file");
  reader->file_bytes = (uint64_t)status.st_size;
  size_t header_bytes = 0;
  if (!read_prefix(reader, &header_bytes)) return false;
  char *header = malloc(header_bytes + 1);
  if (!header) return fail(reader->err, ORD_NO_MEMORY, reader->path, "out of memory");
  reader->at = header;
  reader->end = header + header_bytes;
  const bool done =
      read_at(reader, reader->data_offset - header_bytes, header, header_bytes) && read_dictionary(reader);
  free(header);
  return done && read_data(reader);
}

bool npy_read(const char *path, ord_tensor *tensor, void **out_data, ord_error *err) {
  *tensor = (ord_tensor){.struct_size = sizeof *tensor};
  *out_data = NULL;
  npy_reader reader = {.path = path, .type = types, .tensor = tensor, .err = err};
  reader.descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (reader.descriptor < 0)
    return fail(err, ord_status_of_errno(errno), path, "cannot be opened: %s", strerror(errno));
  const bool done = read_file(&reader);
  close(reader.descriptor);
  if (!done) free(reader.data);
  tensor->data = *out_data = done ? reader.data : NULL;
  return done;
}

/* ---- writing --------------------------------------------------------------------------------------------------- */

static bool write_header(FILE *file, const npy_type *type, const ord_tensor *tensor) {
  char text[512];
  int length = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (", type->descr);
  for (uint32_t axis = 0; axis < tensor->rank; axis++)
    length += snprintf(text + length, sizeof text - (size_t)length, "%lld,%s", (long long)tensor->dim[axis],
                       axis + 1 < tensor->rank ? " " : "");
  /* Numpy writes (3,) and (3, 4). */
  if (tensor->rank > 1) length--;
  length += snprintf(text + length, sizeof text - (size_t)length, "), }");
  const int prefix = MAGIC_BYTES + 4,
            padded = (prefix + length + 1 + HEADER_ALIGN - 1) / HEADER_ALIGN * HEADER_ALIGN - prefix;
  const unsigned char size[4] = {1, 0, (unsigned char)(padded & 0xff), (unsigned char)(padded >> 8)};
  return fwrite(magic, 1, MAGIC_BYTES, file) == MAGIC_BYTES && fwrite(size, 1, sizeof size, file) == sizeof size &&
         fprintf(file, "%.*s%*s", length, text, padded - length, "\n") >= 0;
}

static bool write_data(FILE *file, const npy_type *type, const ord_tensor *tensor) {
  if (type->file_bytes == type->memory_bytes)
    return tensor->bytes == 0 || fwrite(tensor->data, 1, tensor->bytes, file) == tensor->bytes;
  const uint16_t *half = tensor->data; /* a bf16 is the upper half of an f32 */
  for (size_t i = 0; i < tensor->bytes / sizeof *half; i++) {
    const uint32_t bits = (uint32_t)half[i] << 16;
    if (fwrite(&bits, sizeof bits, 1, file) != 1) return false;
  }
  return true;
}

static bool write_file(const char *path, const char *temporary, const npy_type *type, const ord_tensor *tensor,
                       ord_error *err) {
  const int descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) return fail(err, ord_status_of_errno(errno), path, "cannot be written: %s", strerror(errno));
  FILE *file = fdopen(descriptor, "wb");
  bool done = file && write_header(file, type, tensor) && write_data(file, type, tensor) && fflush(file) == 0 &&
              fsync(descriptor) == 0;
  int reason = errno;
  if (file ? fclose(file) != 0 : close(descriptor) != 0) {
    if (done) reason = errno;
    done = false;
  }
  if (done && rename(temporary, path) == 0) return true;
  if (done) reason = errno;
  unlink(temporary);
  return fail(err, ORD_IO, path, "cannot be written: %s; nothing is left of it", strerror(reason));
}

bool npy_write(const char *path, const ord_tensor *tensor, ord_error *err) {
  const npy_type *type = NULL;
  for (size_t i = 0; i < sizeof types / sizeof *types && !type; i++)
    if (types[i].dtype == tensor->dtype) type = &types[i];
  if (!type) return fail(err, ORD_UNSUPPORTED, path, "type number %u has no name in .npy", tensor->dtype);
  /* Renaming would put a plain file in the place of a device. */
  struct stat status;
  if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
    return fail(err, ORD_INVALID, path, "is there and is not a regular file; wanted the name of a file");
  const size_t bytes = strlen(path) + sizeof ".part-4294967295";
  char *temporary = malloc(bytes);
  if (!temporary) return fail(err, ORD_NO_MEMORY, path, "out of memory");
  snprintf(temporary, bytes, "%s.part-%u", path, (unsigned)getpid());
  const bool done = write_file(path, temporary, type, tensor, err);
  free(temporary);
  return done;
}
