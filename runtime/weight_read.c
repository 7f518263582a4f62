/* SPDX-License-Identifier: MIT
 *
 * Reading weights. All slices of all parts are numbered through, so that the threads share many small weights as evenly
 * as a large one.
 */
#include "runtime/weight_read.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"

bool ord_first_error_note(ord_first_error *first, const ord_error *error) {
  if (!atomic_flag_test_and_set(&first->is_taken)) first->error = *error;
  return false;
}

bool ord_weight_reader_init(ord_weight_reader *reader, ord_weight_source source) {
  *reader =
      (ord_weight_reader){.source = source, .told = calloc((size_t)source.weight_count + 1, sizeof *reader->told)};
  return reader->told != NULL;
}

void ord_weight_reader_finish(ord_weight_reader *reader) {
  reader->source.destroy(reader->source.context);
  free(reader->told);
}

/* ---- progress ---- */

void ord_weight_reader_progress(ord_weight_reader *reader, ord_progress_fn progress, void *context, uint64_t all) {
  reader->progress = progress;
  reader->progress_context = context;
  memset(reader->told, 0, reader->source.weight_count * sizeof *reader->told);
  reader->told_sum = 0;
  reader->all = all;
}

void ord_weight_reader_tell(ord_weight_reader *reader, uint32_t weight, uint64_t bytes) {
  if (bytes <= reader->told[weight]) return;
  reader->told_sum += bytes - reader->told[weight];
  reader->told[weight] = bytes;
}

void ord_weight_reader_forget(ord_weight_reader *reader, uint32_t weight) {
  reader->told_sum -= reader->told[weight];
  reader->told[weight] = 0;
}

bool ord_weight_reader_report(const ord_weight_reader *reader, ord_error *err) {
  if (!reader->progress || reader->progress(reader->progress_context, reader->told_sum, reader->all)) return true;
  return ord_fail(err, ORD_CANCELLED, "loading the weights was cancelled after %llu of %llu bytes",
                  (unsigned long long)reader->told_sum, (unsigned long long)reader->all);
}

/* ---- slices ---- */

typedef struct {
  const ord_weight_source *source;
  const ord_weight_part *part;
  uint32_t part_count;
  size_t begin; /* the first slice of this wave */
  ord_first_error failure;
} weight_read;

static size_t count_slices(size_t bytes) {
  return bytes / ORD_WEIGHT_SLICE_BYTES + (bytes % ORD_WEIGHT_SLICE_BYTES != 0);
}

static bool read_slice(void *context, uint32_t chunk, uint32_t chunk_count, uint32_t worker) {
  (void)chunk_count;
  (void)worker;
  weight_read *work = context;
  const ord_weight_part *part = work->part;
  size_t slice = work->begin + chunk;
  for (; slice >= count_slices(part->bytes); part++) slice -= count_slices(part->bytes);
  const size_t offset = slice * ORD_WEIGHT_SLICE_BYTES, rest = part->bytes - offset;
  const size_t bytes = rest < ORD_WEIGHT_SLICE_BYTES ? rest : ORD_WEIGHT_SLICE_BYTES;
  ord_error error = ORD_ERROR_INIT;
  return work->source->read(work->source->context, part->weight, offset, bytes, part->into + offset, &error) ||
         ord_first_error_note(&work->failure, &error);
}

/* All slices below `end` are read. */
static bool tell_progress(ord_weight_reader *reader, const weight_read *work, size_t end, ord_error *err) {
  for (uint32_t i = 0; i < work->part_count; i++) {
    const ord_weight_part *part = &work->part[i];
    const size_t slices = count_slices(part->bytes);
    ord_weight_reader_tell(reader, part->weight, end < slices ? end * ORD_WEIGHT_SLICE_BYTES : part->bytes);
    end -= end < slices ? end : slices;
  }
  return ord_weight_reader_report(reader, err);
}

static bool read_waves(ord_weight_reader *reader, ord_pool *pool, weight_read *work, ord_error *err) {
  size_t slices = 0;
  for (uint32_t i = 0; i < work->part_count; i++) slices += count_slices(work->part[i].bytes);
  while (work->begin < slices) {
    const size_t rest = slices - work->begin;
    const uint32_t wave = rest < ORD_WEIGHT_WAVE ? (uint32_t)rest : ORD_WEIGHT_WAVE;
    if (!ord_pool_run(pool, read_slice, work, wave)) {
      if (err) *err = work->failure.error;
      return false;
    }
    work->begin += wave;
    if (!tell_progress(reader, work, work->begin, err)) return false;
  }
  return true;
}

bool ord_weight_reader_read(ord_weight_reader *reader, ord_pool *pool, const ord_weight_part *part, uint32_t part_count,
                            ord_error *err) {
  const uint64_t begin_ns = ord_clock_ns();
  weight_read work = {.source = &reader->source,
                      .part = part,
                      .part_count = part_count,
                      .failure = {.is_taken = ATOMIC_FLAG_INIT, .error = ORD_ERROR_INIT}};
  const bool is_read = read_waves(reader, pool, &work, err);
  for (uint32_t i = 0; !is_read && i < part_count; i++) ord_weight_reader_forget(reader, part[i].weight);
  reader->read_ns += ord_clock_ns() - begin_ns;
  return is_read;
}
