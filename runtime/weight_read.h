/* SPDX-License-Identifier: MIT
 *
 * Reading weights from their source into memory: in slices, by all threads of the pool, with progress and cancel. The
 * store owns the one reader; its lock guards it.
 */
#ifndef ORDITO_RUNTIME_WEIGHT_READ_H
#define ORDITO_RUNTIME_WEIGHT_READ_H

#include <stdatomic.h>

#include "runtime/weights.h"

/* What a thread reads at a time: so little that it stays in its cache and that the threads share a weight of a few MiB
 * evenly, so much that the calls do not count. */
#define ORD_WEIGHT_SLICE_BYTES ((size_t)1 << 18)
/* Slices between two calls of progress. */
enum { ORD_WEIGHT_WAVE = 128 };

/* The first failure of any thread; later ones are dropped. */
typedef struct ord_first_error {
  atomic_flag is_taken;
  ord_error error;
} ord_first_error;

/* Returns false, as the chunk that failed does. */
bool ord_first_error_note(ord_first_error *first, const ord_error *error);

typedef struct ord_weight_reader {
  ord_weight_source source;
  ord_progress_fn progress; /* may be NULL */
  void *progress_context;
  uint64_t *told; /* [weights]: bytes that progress counts, so that a weight that is read again counts once */
  uint64_t told_sum, all;
  uint64_t read_ns;
} ord_weight_reader;

/* Takes the source over, unless it fails: then memory is out. */
ORD_MUST_CHECK bool ord_weight_reader_init(ord_weight_reader *reader, ord_weight_source source);
void ord_weight_reader_finish(ord_weight_reader *reader);

/* Where a weight is read to. */
typedef struct ord_weight_part {
  uint32_t weight;
  size_t bytes; /* of the weight */
  unsigned char *into;
} ord_weight_part;

/* Reads them all; pool NULL: on the caller alone. */
ORD_MUST_CHECK bool ord_weight_reader_read(ord_weight_reader *reader, ord_pool *pool, const ord_weight_part *part,
                                           uint32_t part_count, ord_error *err);

/* The first `bytes` of the weight are in memory. */
void ord_weight_reader_tell(ord_weight_reader *reader, uint32_t weight, uint64_t bytes);
/* Calls progress; fails if that cancels. */
ORD_MUST_CHECK bool ord_weight_reader_report(const ord_weight_reader *reader, ord_error *err);
/* Progress begins at 0 of `all`. */
void ord_weight_reader_progress(ord_weight_reader *reader, ord_progress_fn progress, void *context, uint64_t all);
/* The weight left memory: progress counts it again when it is read again. */
void ord_weight_reader_forget(ord_weight_reader *reader, uint32_t weight);

#endif
