/* SPDX-License-Identifier: MIT
 *
 * Packing. Read and packed slice by slice, each by one thread, a weight goes through a piece of the buffer that stays
 * in the cache of that thread.
 */
#include "runtime/weight_pack.h"

#include "runtime/clock.h"
#include "runtime/pages.h"

bool ord_weight_pack_slice(ord_weight_pack *pack, const void *const *segment, uint32_t slice, uint32_t slice_count) {
  const ord_kernel *kernel = pack->kernel;
  const ord_node *node = pack->node;
  const ord_status status =
      kernel->pack(kernel, node, pack->answer, pack->operand, segment, slice, slice_count, pack->packed);
  if (status == ORD_OK) return true;
  ord_error error = ORD_ERROR_INIT;
  ord_fail(&error, status == ORD_NO_MEMORY ? status : ORD_INTERNAL,
           "%s: kernel '%s' could not pack its weight '%s'; status %d in slice %u of %u",
           node->label ? node->label : node->op, kernel->name, node->operand[pack->operand].name, (int)status, slice,
           slice_count);
  return ord_first_error_note(&pack->failure, &error);
}

typedef struct {
  ord_weight_pack *pack;
  const ord_weight_source *source;
  const ord_operand *operand;
  unsigned char *buffer;
  uint64_t rows, row_bytes, group_rows, group_count;
  size_t piece_bytes;          /* of the buffer, for each thread */
  uint32_t begin, slice_count; /* the first slice of this wave; of all */
  _Atomic uint64_t read_ns, pack_ns;
} row_pack;

static bool begin_rows(row_pack *work, const ord_weight_pack *pack, ord_error *err) {
  work->operand = &pack->node->operand[pack->operand];
  work->rows = (uint64_t)work->operand->dim[0];
  work->row_bytes = (uint64_t)work->operand->stride[0];
  const uint64_t wanted = pack->answer->pack[pack->operand].group_rows;
  work->group_rows = wanted < work->rows ? wanted : work->rows; /* products of a larger one could overflow */
  work->group_count = (work->rows - 1) / work->group_rows + 1;
  const uint64_t slices = work->rows * work->row_bytes / ORD_WEIGHT_SLICE_BYTES + 1;
  work->slice_count = (uint32_t)(slices < work->group_count ? slices : work->group_count);
  const uint64_t most_rows = (work->group_count / work->slice_count + 1) * work->group_rows;
  if (!ord_size_multiply(most_rows < work->rows ? most_rows : work->rows, work->row_bytes, &work->piece_bytes) ||
      !ord_size_add(work->piece_bytes, ORD_MEMORY_ALIGNMENT - 1, &work->piece_bytes))
    return ord_fail(err, ORD_INVALID, "the weights are too large to be held in memory");
  work->piece_bytes = work->piece_bytes / ORD_MEMORY_ALIGNMENT * ORD_MEMORY_ALIGNMENT;
  return true;
}

bool ord_weight_pack_measure(const ord_weight_pack *pack, const ord_pool *pool, size_t *out_bytes, ord_error *err) {
  row_pack work = {0};
  if (!begin_rows(&work, pack, err)) return false;
  return ord_size_multiply(work.piece_bytes, pool ? ord_pool_threads(pool) : 1, out_bytes) ||
         ord_fail(err, ORD_INVALID, "the weights are too large to be held in memory");
}

static uint64_t first_row(const row_pack *work, uint32_t slice) {
  const uint64_t row = work->group_count * slice / work->slice_count * work->group_rows;
  return row < work->rows ? row : work->rows;
}

/* Reads rows [first, end) of the operand. */
static bool read_rows(const row_pack *work, uint64_t first, uint64_t end, unsigned char *into, const void **segment,
                      ord_error *err) {
  for (uint32_t i = 0; i < work->operand->segment_count; i++) {
    const ord_segment *from = &work->operand->segment[i];
    const uint64_t rows = (uint64_t)from->rows, to = end < rows ? end : rows;
    if (first < to) {
      const size_t offset = (size_t)(first * work->row_bytes), bytes = (size_t)((to - first) * work->row_bytes);
      if (!work->source->read(work->source->context, (uint32_t)from->weight_id, offset, bytes, into, err)) return false;
      segment[i] = (const void *)((uintptr_t)into - offset); /* where row 0 would lie */
      into += bytes;
    }
    first = first > rows ? first - rows : 0;
    end = end > rows ? end - rows : 0;
  }
  return true;
}

static bool read_and_pack(void *context, uint32_t chunk, uint32_t chunk_count, uint32_t worker) {
  (void)chunk_count;
  row_pack *work = context;
  const uint32_t slice = work->begin + chunk;
  const void *segment[ORD_ROW_SEGMENTS_MAX] = {0};
  ord_error error = ORD_ERROR_INIT;
  const uint64_t begin_ns = ord_clock_ns();
  if (!read_rows(work, first_row(work, slice), first_row(work, slice + 1), work->buffer + worker * work->piece_bytes,
                 segment, &error))
    return ord_first_error_note(&work->pack->failure, &error);
  const uint64_t middle_ns = ord_clock_ns();
  const bool is_packed = ord_weight_pack_slice(work->pack, segment, slice, work->slice_count);
  atomic_fetch_add_explicit(&work->read_ns, middle_ns - begin_ns, memory_order_relaxed);
  atomic_fetch_add_explicit(&work->pack_ns, ord_clock_ns() - middle_ns, memory_order_relaxed);
  return is_packed;
}

/* Progress of the rows before slice `end`. */
static bool tell_rows(const row_pack *work, ord_weight_reader *reader, uint32_t end, ord_error *err) {
  uint64_t done = first_row(work, end);
  for (uint32_t i = 0; i < work->operand->segment_count; i++) {
    const ord_segment *from = &work->operand->segment[i];
    const uint64_t rows = (uint64_t)from->rows, mine = done < rows ? done : rows;
    ord_weight_reader_tell(reader, (uint32_t)from->weight_id, mine * work->row_bytes);
    done -= mine;
  }
  return ord_weight_reader_report(reader, err);
}

static bool run_waves(row_pack *work, ord_weight_reader *reader, ord_pool *pool, ord_error *err) {
  while (work->begin < work->slice_count) {
    const uint32_t rest = work->slice_count - work->begin, wave = rest < ORD_WEIGHT_WAVE ? rest : ORD_WEIGHT_WAVE;
    if (!ord_pool_run(pool, read_and_pack, work, wave)) {
      if (err) *err = work->pack->failure.error;
      return false;
    }
    work->begin += wave;
    if (!tell_rows(work, reader, work->begin, err)) return false;
  }
  return true;
}

bool ord_weight_pack_rows(ord_weight_pack *pack, ord_weight_reader *reader, ord_pool *pool, unsigned char *buffer,
                          uint64_t *pack_ns, ord_error *err) {
  const uint64_t begin_ns = ord_clock_ns();
  row_pack work = {.pack = pack, .source = &reader->source, .buffer = buffer};
  if (!begin_rows(&work, pack, err)) return false;
  const bool is_packed = run_waves(&work, reader, pool, err);
  for (uint32_t i = 0; !is_packed && i < work.operand->segment_count; i++)
    ord_weight_reader_forget(reader, (uint32_t)work.operand->segment[i].weight_id);
  /* The threads read and pack at the same time: it is shared out as they spent theirs. */
  const double share = (double)work.read_ns / (double)(work.read_ns + work.pack_ns + 1);
  const uint64_t ns = ord_clock_ns() - begin_ns, read_ns = (uint64_t)(share * (double)ns);
  reader->read_ns += read_ns;
  *pack_ns += ns - read_ns;
  return is_packed;
}
