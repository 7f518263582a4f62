/* SPDX-License-Identifier: MIT
 *
 * Weights in memory. A source (a table of functions; implemented in models/) says how each weight is stored and reads
 * its bytes. A store reads what kernels ask for, packs it once per (segments, key), in parallel, and shares it
 * between plans and sessions; originals that nobody needs are released. Reading and packing are done in the caller's
 * memory; where the device has its own, the block then moves there.
 */
#ifndef ORDITO_RUNTIME_WEIGHTS_H
#define ORDITO_RUNTIME_WEIGHTS_H

#include "runtime/pool.h"
#include "runtime/tensor.h"

typedef struct ord_device ord_device;

/* How a weight of the model is stored, after its slice: a dense row-major block in the order of the file. */
typedef struct ord_weight_stored {
  ord_dtype dtype;
  size_t bytes;       /* of the whole weight (after slicing) */
  size_t scale_bytes; /* of its scales (i8), else 0 */
} ord_weight_stored;

/* `weight` is the index of the weight in the model's graph. Functions may be called from several threads at once.
 * Everything in the table must have been checked against the file when the source was made: dims fit, ranges lie
 * inside the file. read fails if the file shrank meanwhile. */
typedef struct ord_weight_source {
  void *context;
  uint32_t weight_count;
  ord_weight_stored (*stored)(void *context, uint32_t weight);
  bool (*read)(void *context, uint32_t weight, size_t offset, size_t bytes, void *into, ord_error *err);
  bool (*read_scale)(void *context, uint32_t weight, void *into, ord_error *err); /* f32 [out] */
  void (*destroy)(void *context);
} ord_weight_source;

typedef struct ord_weight_store ord_weight_store;

/* Bytes in the store now and at its peak, of the caller's memory and of the device's together; and the time that
 * reading and packing have taken so far. */
typedef struct ord_weight_usage {
  size_t original_bytes, packed_bytes, peak_bytes;
  uint64_t read_ns, pack_ns;
} ord_weight_usage;

/* Takes the source over, also on failure. Blocks lie in the memory of `device`; NULL: in the caller's. Calls are
 * serialised by the store's own lock. */
ORD_MUST_CHECK bool ord_weight_store_create(ord_weight_source source, ord_device *device, ord_weight_store **out,
                                            ord_error *err);
void ord_weight_store_destroy(ord_weight_store *store);

/* How weight `weight` is stored. */
ord_weight_stored ord_weight_store_stored(const ord_weight_store *store, uint32_t weight);

/* Memory of operand `operand` of `node` as `answer` wants it: packed under its key, or (key 0) as stored, the
 * segments one behind the other. Counted: release with ord_weight_store_drop. `*out` is an address of the device,
 * 64-byte aligned and valid until then. `node` must stay valid during the call only. Runs pack on `pool` (leased
 * inside). */
ORD_MUST_CHECK bool ord_weight_store_take(ord_weight_store *store, ord_pool *pool, const ord_kernel *kernel,
                                          const ord_node *node, const ord_answer *answer, uint32_t operand,
                                          const void **out, ord_error *err);
/* The scales of an i8 weight whose segments operand `operand` lists, one behind the other, f32 [out]. */
ORD_MUST_CHECK bool ord_weight_store_take_scale(ord_weight_store *store, const ord_operand *operand, const void **out,
                                                ord_error *err);
void ord_weight_store_drop(ord_weight_store *store, const void *memory);

/* Frees what reading and packing worked with. Call when a plan is made. */
void ord_weight_store_trim(ord_weight_store *store);

void ord_weight_store_progress(ord_weight_store *store, ord_progress_fn progress, void *context, uint64_t all);
ord_weight_usage ord_weight_store_usage(const ord_weight_store *store);

#endif
