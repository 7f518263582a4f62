/* SPDX-License-Identifier: MIT
 *
 * The ANDREA checkpoint, numbers without names: little-endian int32 step and int32 n, then n f32 weights, n first and n
 * second moments of Adam. The model file's checkpoint.order says which weights the numbers are, the graph how many
 * numbers each has. As tensors: NAME, NAME.adam_m and NAME.adam_v.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/weight_format.h"
#include "runtime/text.h"

enum { HEADER_BYTES = 8, NUMBER_BYTES = 4, PART_COUNT = 3 };

static const char *const part_suffix[PART_COUNT] = {"", ORD_ADAM_M, ORD_ADAM_V};

/* A weight of the order. */
typedef struct ordered_weight {
  const ord_graph_weight *weight;
  uint64_t count; /* numbers */
} ordered_weight;

typedef struct named_weight {
  const char *name;
  uint32_t weight;
} named_weight;

typedef struct checkpoint_reader {
  ord_weight_file *file;
  const ord_weight_disk *disk;
  int32_t step, declared;
  ordered_weight *ordered;
  uint32_t ordered_count;
  uint64_t sum; /* of all counts */
  ord_error *err;
} checkpoint_reader;

static int32_t read_i32(const unsigned char *bytes) {
  const uint32_t number =
      (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
  return (int32_t)number;
}

static bool read_header(checkpoint_reader *reader) {
  const ord_weight_disk *disk = reader->disk;
  unsigned char header[HEADER_BYTES];
  if (disk->bytes < sizeof header)
    return ord_fail(reader->err, ORD_INVALID,
                    "%s: too short for a checkpoint; found %" PRIu64 " bytes; wanted at least %d%s", disk->path,
                    disk->bytes, HEADER_BYTES, ord_weight_guess(disk));
  if (!ord_weight_disk_read(disk, 0, sizeof header, header, reader->err)) return false;
  reader->step = read_i32(header);
  reader->declared = read_i32(header + 4);
  if (reader->declared <= 0)
    return ord_fail(reader->err, ORD_INVALID, "%s: not a checkpoint; found n_params %d; wanted at least 1%s",
                    disk->path, reader->declared, ord_weight_guess(disk));
  const uint64_t wanted = HEADER_BYTES + (uint64_t)PART_COUNT * NUMBER_BYTES * (uint64_t)reader->declared;
  if (disk->bytes != wanted)
    return ord_fail(reader->err, ORD_INVALID,
                    "%s: not a checkpoint, or not whole; found %" PRIu64
                    " bytes with n_params %d; wanted 8 + 12 * n_params = %" PRIu64 "%s",
                    disk->path, disk->bytes, reader->declared, wanted, ord_weight_guess(disk));
  return true;
}

static int compare_names(const void *a, const void *b) {
  return strcmp(((const named_weight *)a)->name, ((const named_weight *)b)->name);
}

bool ord_checkpoint_order(const ord_description *description, const ord_graph *graph, ord_arena *arena,
                          uint32_t **out_weight, uint32_t *out_count, ord_error *err) {
  const char *const *name = NULL;
  const uint32_t count = description ? ord_description_order(description, &name) : 0;
  *out_count = 0;
  if (!count || !graph)
    return ord_fail(err, ORD_INVALID,
                    "a checkpoint has numbers without names; wanted a model file with checkpoint.order");
  named_weight *by_name = ord_arena_take(arena, graph->weight_count, sizeof *by_name);
  *out_weight = ord_arena_take(arena, count, sizeof **out_weight);
  if (!by_name || !*out_weight) return ord_fail_memory(err, "reading checkpoint.order");
  for (uint32_t w = 0; w < graph->weight_count; w++)
    by_name[w] = (named_weight){.name = graph->weight[w].name, .weight = w};
  qsort(by_name, graph->weight_count, sizeof *by_name, compare_names);
  for (uint32_t i = 0; i < count; i++) {
    const named_weight wanted = {.name = name[i]};
    const named_weight *found = bsearch(&wanted, by_name, graph->weight_count, sizeof *by_name, compare_names);
    if (!found)
      return ord_fail(err, ORD_INVALID, "checkpoint.order names '%s'; wanted weights of the model only", name[i]);
    (*out_weight)[i] = found->weight;
  }
  *out_count = count;
  return true;
}

/* Adds up the numbers of the weights in the order. */
static bool resolve_order(checkpoint_reader *reader, const ord_description *description, const ord_graph *graph) {
  uint32_t *order = NULL;
  ord_arena *arena = &reader->file->arena;
  if (!ord_checkpoint_order(description, graph, arena, &order, &reader->ordered_count, reader->err))
    return ord_fail_prefix(reader->err, "%s", reader->disk->path);
  reader->ordered = ord_arena_take(arena, reader->ordered_count, sizeof *reader->ordered);
  if (!reader->ordered) return ord_fail_memory(reader->err, "reading checkpoint.order");
  for (uint32_t i = 0; i < reader->ordered_count; i++) {
    const ord_graph_weight *weight = &graph->weight[order[i]];
    size_t count, sum;
    if (!ord_tensor_bytes(ORD_BOOL, weight->stored_rank, weight->stored_dim, &count) || /* one byte a number */
        !ord_size_add(reader->sum, count, &sum))
      return ord_fail(reader->err, ORD_INVALID, "%s: weight '%s' is too large for any file", reader->disk->path,
                      weight->name);
    reader->ordered[i] = (ordered_weight){.weight = weight, .count = count};
    reader->sum = sum;
  }
  return true;
}

/* The sum, with its parts, as far as a message lists them. */
static bool fail_sum(const checkpoint_reader *reader) {
  ord_text parts = {0};
  for (uint32_t i = 0; i < reader->ordered_count && i < ORD_LIST_MAX; i++) {
    const ord_graph_weight *weight = reader->ordered[i].weight;
    ord_text_add(&parts, "%s%s %s", i ? ", " : "", weight->name,
                 ord_dims_print(weight->stored_rank, weight->stored_dim).bytes);
  }
  if (reader->ordered_count > ORD_LIST_MAX) ord_text_add(&parts, " and %u more", reader->ordered_count - ORD_LIST_MAX);
  if (parts.failed)
    ord_fail_memory(reader->err, "checking a checkpoint");
  else
    ord_fail(reader->err, ORD_INVALID,
             "%s: found n_params %d; wanted %" PRIu64 ", what checkpoint.order adds up to: %s", reader->disk->path,
             reader->declared, reader->sum, parts.bytes);
  ord_text_finish(&parts);
  return false;
}

static bool list_tensors(const checkpoint_reader *reader) {
  uint64_t offset = HEADER_BYTES;
  for (uint32_t part = 0; part < PART_COUNT; part++) {
    for (uint32_t i = 0; i < reader->ordered_count; i++) {
      const ordered_weight *entry = &reader->ordered[i];
      ord_file_tensor tensor = {
          .name = ord_arena_format(&reader->file->arena, "%s%s", entry->weight->name, part_suffix[part]),
          .type_name = ord_safetensors_type(ORD_F32),
          .dtype = ORD_F32,
          .rank = entry->weight->stored_rank,
          .offset = offset,
          .bytes = entry->count * NUMBER_BYTES};
      if (!tensor.name) return ord_fail_memory(reader->err, "listing tensors");
      memcpy(tensor.dim, entry->weight->stored_dim, tensor.rank * sizeof *tensor.dim);
      if (!ord_weight_file_add_tensor(reader->file, &tensor, reader->err)) return false;
      offset += tensor.bytes;
    }
  }
  return true;
}

bool ord_checkpoint_open(ord_weight_file *file, const ord_description *description, const ord_graph *graph,
                         ord_error *err) {
  if (!ord_weight_file_add_disk(file, file->path, err)) return false;
  checkpoint_reader reader = {.file = file, .disk = &file->disk[0], .err = err};
  if (!read_header(&reader)) return false;
  if (!resolve_order(&reader, description, graph)) return false;
  if (reader.sum != (uint64_t)reader.declared) return fail_sum(&reader);
  char step[16];
  snprintf(step, sizeof step, "%d", reader.step);
  return list_tensors(&reader) && ord_weight_file_add_metadata(file, ORD_STEP_KEY, step, err) &&
         ord_weight_file_index(file, err);
}
