/* SPDX-License-Identifier: MIT
 *
 * Packing one weight: a slice of it from segments that are in memory, or all of it, read and packed slice by slice, so
 * that the original is never in memory as a whole. The store calls this under its lock.
 */
#ifndef ORDITO_RUNTIME_WEIGHT_PACK_H
#define ORDITO_RUNTIME_WEIGHT_PACK_H

#include "runtime/weight_read.h"

enum { ORD_ROW_SEGMENTS_MAX = 16 };

typedef struct ord_weight_pack {
  const ord_kernel *kernel;
  const ord_node *node;
  const ord_answer *answer;
  uint32_t operand;
  void *packed;
  ord_first_error failure;
} ord_weight_pack;

/* One call of the kernel; a failure is noted. Any thread. */
bool ord_weight_pack_slice(ord_weight_pack *pack, const void *const *segment, uint32_t slice, uint32_t slice_count);

/* For an operand of dense rows, at most ORD_ROW_SEGMENTS_MAX segments, whose pack tells its group_rows. measure: how
 * large `buffer` must be, aligned to ORD_MEMORY_ALIGNMENT. Adds to reader->read_ns and *pack_ns. */
ORD_MUST_CHECK bool ord_weight_pack_measure(const ord_weight_pack *pack, const ord_pool *pool, size_t *out_bytes,
                                            ord_error *err);
ORD_MUST_CHECK bool ord_weight_pack_rows(ord_weight_pack *pack, ord_weight_reader *reader, ord_pool *pool,
                                         unsigned char *buffer, uint64_t *pack_ns, ord_error *err);

#endif
