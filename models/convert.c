/* SPDX-License-Identifier: MIT
 *
 * Writing weights as another kind of file or in another type, tensor by tensor, from what convert_plan.c laid out.
 */
#include "models/convert.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "models/whole_file.h"
#include "runtime/text.h"

enum { CHUNK_NUMBERS = 1 << 16, CHUNK_BYTES = CHUNK_NUMBERS * 4, HEADER_ALIGN = 8 };

typedef struct writer {
  const ord_weight_file *file;
  const ord_convert_options *options;
  const ord_convert_plan *plan;
  ord_whole_file target;
  unsigned char *in, *out; /* CHUNK_BYTES each: CHUNK_NUMBERS of the types that are converted */
  float *number;           /* CHUNK_NUMBERS: what is between codes and floats of any type */
  float *scale;            /* of the rows of the tensor that is written; NULL: it needs none */
  uint64_t at;             /* numbers of that tensor that were read */
  uint64_t done, all;      /* bytes of the target's tensors */
  ord_error *err;
} writer;

/* ---- headers --------------------------------------------------------------------------------------------------- */

static bool write_named_header(writer *to) {
  ord_text text = {0};
  const char *separator = "";
  ord_text_add(&text, "{");
  if (to->file->metadata_count) {
    ord_text_add(&text, "\"__metadata__\":{");
    for (uint32_t i = 0; i < to->file->metadata_count; i++) {
      ord_text_add(&text, i ? "," : "");
      ord_text_add_json(&text, to->file->metadata[i].key);
      ord_text_add(&text, ":");
      ord_text_add_json(&text, to->file->metadata[i].value);
    }
    ord_text_add(&text, "}");
    separator = ",";
  }
  uint64_t offset = 0;
  for (uint32_t t = 0; t < to->plan->tensor_count; t++) {
    const ord_convert_tensor *tensor = &to->plan->tensor[t];
    ord_text_add(&text, "%s", separator);
    ord_text_add_json(&text, tensor->name);
    ord_text_add(&text, ":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
                 tensor->type_name, ord_dims_print(tensor->rank, tensor->dim).bytes, offset, offset + tensor->bytes);
    offset += tensor->bytes;
    separator = ",";
  }
  ord_text_add(&text, "}");
  while (text.length % HEADER_ALIGN && !text.failed) ord_text_add(&text, " ");
  unsigned char size[8];
  for (int i = 0; i < 8; i++) size[i] = (unsigned char)((uint64_t)text.length >> 8 * i);
  const bool done = text.failed ? ord_fail_memory(to->err, "writing a safetensors header")
                                : ord_whole_file_write(&to->target, size, sizeof size, to->err) &&
                                      ord_whole_file_write(&to->target, text.bytes, text.length, to->err);
  ord_text_finish(&text);
  return done;
}

/* The step of the metadata; 0 where it says nothing. */
static bool read_step(const writer *to, int32_t *out) {
  const char *text = ord_weight_file_metadata(to->file, ORD_STEP_KEY);
  *out = 0;
  if (!text) return true;
  char *end;
  errno = 0;
  const long long step = strtoll(text, &end, 10);
  if (errno || end == text || *end || step < INT32_MIN || step > INT32_MAX)
    return ord_fail(to->err, ORD_INVALID, "%s: metadata '" ORD_STEP_KEY "' is '%s'; wanted a whole number of 32 bits",
                    to->file->path, text);
  *out = (int32_t)step;
  return true;
}

static bool write_checkpoint_header(writer *to) {
  int32_t step;
  if (!read_step(to, &step)) return false;
  const uint64_t count = to->all / sizeof(float) / 3;
  if (count > INT32_MAX)
    return ord_fail(to->err, ORD_INVALID,
                    "a checkpoint counts its numbers with 31 bits; found %" PRIu64 "; wanted at most %d", count,
                    INT32_MAX);
  const uint32_t number[2] = {(uint32_t)step, (uint32_t)count};
  unsigned char header[8];
  for (int i = 0; i < 8; i++) header[i] = (unsigned char)(number[i / 4] >> 8 * (i % 4));
  return ord_whole_file_write(&to->target, header, sizeof header, to->err);
}

/* ---- data ------------------------------------------------------------------------------------------------------ */

/* What becomes of `count` numbers of type `dtype` that lie in to->in; of bytes, where a tensor is copied. */
typedef bool (*take_fn)(writer *to, const ord_convert_tensor *tensor, ord_dtype dtype, size_t count);

/* Gives run `run` of a piece to `take`. */
static bool read_run(writer *to, const ord_convert_tensor *tensor, const ord_convert_piece *piece, uint64_t run,
                     take_fn take) {
  const bool is_copied = tensor->make == ORD_MAKE_COPY;
  const size_t element = is_copied ? 1 : ord_dtype_get(piece->dtype)->block_bytes;
  const size_t chunk = is_copied ? CHUNK_BYTES : CHUNK_NUMBERS;
  for (uint64_t at = 0; at < piece->span.run;) {
    const uint64_t rest = (piece->span.run - at) / element;
    const size_t count = rest < chunk ? (size_t)rest : chunk;
    if (piece->tensor == ORD_NONE)
      memset(to->in, 0, count * element);
    else if (!ord_weight_file_read(to->file, piece->tensor, piece->span.base + run * piece->span.stride + at,
                                   count * element, to->in, to->err))
      return false;
    if (!take(to, tensor, piece->dtype, count)) return false;
    at += count * element;
    to->at += count;
  }
  return true;
}

static bool read_pieces(writer *to, const ord_convert_tensor *tensor, take_fn take) {
  const ord_convert_piece *piece = &to->plan->piece[tensor->first_piece];
  to->at = 0;
  for (uint64_t run = 0; run < piece[0].span.outer; run++)
    for (uint32_t i = 0; i < tensor->piece_count; i++)
      if (!read_run(to, tensor, &piece[i], run, take)) return false;
  return true;
}

static bool write_bytes(writer *to, const void *from, size_t bytes) {
  if (!ord_whole_file_write(&to->target, from, bytes, to->err)) return false;
  to->done += bytes;
  if (to->options->progress && !to->options->progress(to->options->progress_context, to->done, to->all))
    return ord_fail(to->err, ORD_CANCELLED, "%s: cancelled", to->target.path);
  return true;
}

static bool take_copy(writer *to, const ord_convert_tensor *tensor, ord_dtype dtype, size_t count) {
  (void)tensor;
  (void)dtype;
  return write_bytes(to, to->in, count);
}

static bool convert_numbers(const writer *to, const ord_convert_tensor *tensor, ord_dtype from_type, const void *from,
                            ord_dtype into_type, void *into, size_t count) {
  return ord_convert(from_type, from, into_type, into, count) ||
         ord_fail(to->err, ORD_INTERNAL, "tensor '%s': no conversion from %s to %s", tensor->name,
                  ord_dtype_name(from_type), ord_dtype_name(into_type));
}

/* A finite number that f16 turned into infinity would make a model that is wrong without a word. */
static bool check_range(const writer *to, const ord_convert_tensor *tensor, ord_dtype dtype, const void *from,
                        size_t count) {
  const uint16_t *half = (const uint16_t *)(const void *)to->out;
  const size_t bytes = ord_dtype_get(dtype)->block_bytes;
  for (size_t i = 0; i < count; i++) {
    if ((half[i] & 0x7fffu) != 0x7c00u) continue;
    float number;
    if (ord_convert(dtype, (const char *)from + i * bytes, ORD_F32, &number, 1) && isfinite(number))
      return ord_fail(to->err, ORD_INVALID, "%s: tensor '%s' holds %g; f16 ends at 65504; wanted bf16 or f32",
                      to->file->path, tensor->name, (double)number);
  }
  return true;
}

static bool write_floats(writer *to, const ord_convert_tensor *tensor, ord_dtype dtype, const void *from,
                         size_t count) {
  if (!convert_numbers(to, tensor, dtype, from, tensor->dtype, to->out, count)) return false;
  if (tensor->dtype == ORD_F16 && !check_range(to, tensor, dtype, from, count)) return false;
  return write_bytes(to, to->out, count * ord_dtype_get(tensor->dtype)->block_bytes);
}

static bool take_float(writer *to, const ord_convert_tensor *tensor, ord_dtype dtype, size_t count) {
  return write_floats(to, tensor, dtype, to->in, count);
}

static bool take_largest(writer *to, const ord_convert_tensor *tensor, ord_dtype dtype, size_t count) {
  size_t bad = 0;
  return convert_numbers(to, tensor, dtype, to->in, ORD_F32, to->number, count) &&
         (ord_int8_note(&tensor->rows, to->at, to->number, count, to->scale, &bad) ||
          ord_fail(to->err, ORD_INVALID, "%s: tensor '%s' holds %g at number %" PRIu64 "; wanted finite ones for i8",
                   to->file->path, tensor->name, (double)to->number[bad], to->at + bad));
}

static bool take_codes(writer *to, const ord_convert_tensor *tensor, ord_dtype dtype, size_t count) {
  if (!convert_numbers(to, tensor, dtype, to->in, ORD_F32, to->number, count)) return false;
  ord_int8_encode(&tensor->rows, to->at, to->number, count, to->scale, (int8_t *)to->out);
  return write_bytes(to, to->out, count);
}

static bool take_decoded(writer *to, const ord_convert_tensor *tensor, ord_dtype dtype, size_t count) {
  (void)dtype;
  ord_int8_decode(&tensor->rows, to->at, (const int8_t *)to->in, count, to->scale, to->number);
  return write_floats(to, tensor, ORD_F32, to->number, count);
}

/* Reads the scales of the source's codes, or works out those of its numbers. */
static bool find_scales(writer *to, const ord_convert_tensor *tensor) {
  if (tensor->make == ORD_MAKE_NUMBERS) {
    const uint64_t bytes = tensor->rows.count * sizeof *to->scale;
    return ord_weight_scales_read(to->file, tensor->scale, &(ord_weight_span){1, 0, bytes, bytes}, to->scale, to->err);
  }
  if (!read_pieces(to, tensor, take_largest)) return false;
  ord_int8_scales(tensor->rows.count, to->scale);
  return true;
}

static bool write_scaled(writer *to, const ord_convert_tensor *tensor) {
  to->scale = calloc(tensor->rows.count + 1, sizeof *to->scale);
  bool done = to->scale ? find_scales(to, tensor) : ord_fail_memory(to->err, "converting weights");
  if (done && tensor->make == ORD_MAKE_SCALES)
    done = write_bytes(to, to->scale, tensor->bytes);
  else if (done)
    done = read_pieces(to, tensor, tensor->make == ORD_MAKE_INT8 ? take_codes : take_decoded);
  free(to->scale);
  to->scale = NULL;
  return done;
}

static bool write_tensor(writer *to, const ord_convert_tensor *tensor) {
  if (tensor->make == ORD_MAKE_COPY) return read_pieces(to, tensor, take_copy);
  if (tensor->make == ORD_MAKE_FLOAT) return read_pieces(to, tensor, take_float);
  return write_scaled(to, tensor);
}

/* The source must stay whole until the target is, so it cannot be the same file. */
static bool check_apart(const ord_weight_file *file, const char *target, ord_error *err) {
  struct stat wanted, status;
  if (stat(target, &wanted) != 0) return true;
  bool is_same = stat(file->path, &status) == 0 && status.st_dev == wanted.st_dev && status.st_ino == wanted.st_ino;
  for (uint32_t i = 0; i < file->disk_count && !is_same; i++)
    is_same = fstat(file->disk[i].descriptor, &status) == 0 && status.st_dev == wanted.st_dev &&
              status.st_ino == wanted.st_ino;
  return !is_same || ord_fail(err, ORD_INVALID, "%s: is the file that is converted; wanted another name", target);
}

static bool write_all(writer *to) {
  for (uint32_t t = 0; t < to->plan->tensor_count; t++) to->all += to->plan->tensor[t].bytes;
  const bool is_checkpoint = to->options->kind == ORD_FILE_CHECKPOINT;
  if (!(is_checkpoint ? write_checkpoint_header(to) : write_named_header(to))) return false;
  for (uint32_t t = 0; t < to->plan->tensor_count; t++)
    if (!write_tensor(to, &to->plan->tensor[t])) return false;
  return ord_whole_file_end(&to->target, to->err);
}

bool ord_weight_file_convert(const ord_weight_file *file, const ord_description *description, const ord_graph *graph,
                             const char *to, const ord_convert_options *options, ord_error *err) {
  if (!check_apart(file, to, err)) return false;
  ord_convert_plan plan = {0};
  writer write = {.file = file, .options = options, .plan = &plan, .err = err};
  write.in = malloc(CHUNK_BYTES);
  write.out = malloc(CHUNK_BYTES);
  write.number = malloc(CHUNK_NUMBERS * sizeof *write.number);
  const bool done = (write.in && write.out && write.number ? true : ord_fail_memory(err, "converting weights")) &&
                    ord_convert_plan_make(file, description, graph, options, &plan, err) &&
                    ord_whole_file_begin(&write.target, to, err) && write_all(&write);
  ord_whole_file_abandon(&write.target);
  ord_arena_finish(&plan.arena);
  free(write.in);
  free(write.out);
  free(write.number);
  return done;
}
