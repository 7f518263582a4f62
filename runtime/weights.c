/* SPDX-License-Identifier: MIT
 *
 * The store: a list of shared blocks, each known by the weights it holds, in order, and by how they are laid out. One
 * lock guards it all; it is held while reading and packing, so that two sessions never make the same block twice.
 */
#include "runtime/weights.h"

#include <pthread.h>
#include <stdlib.h>

#include "runtime/clock.h"
#include "runtime/device.h"
#include "runtime/pages.h"
#include "runtime/slabs.h"
#include "runtime/weight_pack.h"

enum { PACK_SLICE_MAX = 64 };
#define PACK_SLICE_BYTES ((size_t)1 << 18)

typedef enum { AS_STORED, PACKED, SCALES } block_kind;

/* What makes two blocks the same. */
typedef struct {
  block_kind kind;
  uint64_t key;        /* of PACKED */
  size_t packed_bytes; /* of PACKED: a kernel that names a layout but means another size must not get this one */
  const ord_segment *segment;
  uint32_t segment_count;
} block_identity;

typedef struct {
  block_kind kind;
  uint64_t key;
  uint64_t *weight; /* ids, in order */
  uint32_t weight_count;
  uint32_t uses;
  size_t bytes;
  unsigned char *memory; /* of the host until it has moved to the device */
  bool is_on_device;     /* which has memory of its own */
} weight_block;

struct ord_weight_store {
  ord_weight_reader reader;
  ord_queue *queue; /* moves blocks to the device; NULL: they stay in the host's memory */
  pthread_mutex_t lock;
  weight_block **block;
  uint32_t count, capacity;
  ord_slabs slabs; /* the memory of the blocks */
  ord_weight_usage usage;
  /* What is only packed is read into one buffer that serves all weights in turn: its pages are taken once and it stays
   * in the caches. NULL until it is needed. */
  unsigned char *buffer;
  size_t buffer_bytes;
};

/* ---- blocks ---- */

static void release_memory(ord_weight_store *store, const weight_block *block) {
  if (block->is_on_device)
    store->queue->device->table->release(store->queue->device, block->memory);
  else
    ord_slabs_release(&store->slabs, block->memory);
}

static void block_destroy(ord_weight_store *store, weight_block *block) {
  if (!block) return;
  release_memory(store, block);
  free(block->weight);
  free(block);
}

/* Zeroed, so that padding of a packed layout is the same whoever packs it. */
static weight_block *block_create(ord_weight_store *store, const block_identity *identity, size_t bytes) {
  weight_block *block = calloc(1, sizeof *block);
  if (!block) return NULL;
  *block = (weight_block){.kind = identity->kind,
                          .key = identity->key,
                          .weight_count = identity->segment_count,
                          .bytes = bytes,
                          .weight = calloc(identity->segment_count, sizeof *block->weight),
                          .memory = ord_slabs_take(&store->slabs, bytes)};
  if (!block->weight || !block->memory) {
    block_destroy(store, block);
    return NULL;
  }
  for (uint32_t i = 0; i < identity->segment_count; i++) block->weight[i] = identity->segment[i].weight_id;
  return block;
}

static bool is_block(const weight_block *block, const block_identity *identity) {
  if (block->kind != identity->kind || block->key != identity->key || block->weight_count != identity->segment_count)
    return false;
  if (block->kind == PACKED && block->bytes != identity->packed_bytes) return false;
  for (uint32_t i = 0; i < block->weight_count; i++)
    if (block->weight[i] != identity->segment[i].weight_id) return false;
  return true;
}

static weight_block *find_block(const ord_weight_store *store, const block_identity *identity) {
  for (uint32_t i = 0; i < store->count; i++)
    if (is_block(store->block[i], identity)) return store->block[i];
  return NULL;
}

/* What packing can read: a block on the device is not. */
static const weight_block *find_readable(const ord_weight_store *store, const block_identity *identity) {
  const weight_block *block = find_block(store, identity);
  return block && !block->is_on_device ? block : NULL;
}

static size_t *usage_of(ord_weight_store *store, const weight_block *block) {
  return block->kind == PACKED ? &store->usage.packed_bytes : &store->usage.original_bytes;
}

static void note_peak(ord_weight_store *store, size_t more) {
  const size_t bytes = store->usage.original_bytes + store->usage.packed_bytes + store->buffer_bytes + more;
  if (bytes > store->usage.peak_bytes) store->usage.peak_bytes = bytes;
}

static bool move_to_device(ord_weight_store *store, weight_block *block, ord_error *err) {
  if (!store->queue) return true;
  ord_device *device = store->queue->device;
  void *memory = NULL;
  const bool is_moved = device->table->allocate(device, block->bytes ? block->bytes : 1, false, &memory, err) &&
                        device->table->write(store->queue, memory, block->memory, block->bytes, err) &&
                        device->table->wait(store->queue, err);
  if (!is_moved) {
    device->table->release(device, memory);
    return ord_fail_prefix(err, "moving weights to the device");
  }
  note_peak(store, 2 * block->bytes);
  release_memory(store, block);
  block->memory = memory;
  block->is_on_device = true;
  return true;
}

static bool list_block(ord_weight_store *store, weight_block *block, ord_error *err) {
  if (store->count == store->capacity) {
    const uint32_t capacity = store->capacity ? store->capacity * 2 : 64;
    weight_block **grown = realloc(store->block, capacity * sizeof(weight_block *));
    if (!grown) return ord_fail_memory(err, "loading weights");
    store->block = grown;
    store->capacity = capacity;
  }
  store->block[store->count++] = block;
  *usage_of(store, block) += block->bytes;
  note_peak(store, 0);
  return true;
}

/* Takes in what was read or packed; NULL after a failure, which is the end of the block. */
static weight_block *add_block(ord_weight_store *store, weight_block *block, ord_error *err) {
  if (move_to_device(store, block, err) && list_block(store, block, err)) return block;
  block_destroy(store, block);
  return NULL;
}

/* Progress forgets the weights, so that another try counts them again. */
static void remove_block(ord_weight_store *store, uint32_t index) {
  weight_block *block = store->block[index];
  for (uint32_t i = 0; i < block->weight_count; i++)
    ord_weight_reader_forget(&store->reader, (uint32_t)block->weight[i]);
  *usage_of(store, block) -= block->bytes;
  store->block[index] = store->block[--store->count];
  block_destroy(store, block);
}

/* ---- reading ---- */

static bool read_scales(ord_weight_store *store, const weight_block *block, ord_error *err) {
  size_t offset = 0;
  for (uint32_t i = 0; i < block->weight_count; i++) {
    const uint32_t weight = (uint32_t)block->weight[i];
    if (!store->reader.source.read_scale(store->reader.source.context, weight, block->memory + offset, err))
      return false;
    offset += store->reader.source.stored(store->reader.source.context, weight).scale_bytes;
  }
  return true;
}

static bool read_block(ord_weight_store *store, ord_pool *pool, const weight_block *block, ord_error *err) {
  if (block->kind == SCALES) return read_scales(store, block, err);
  ord_weight_part *part = calloc(block->weight_count, sizeof *part);
  if (!part) return ord_fail_memory(err, "loading weights");
  unsigned char *into = block->memory;
  for (uint32_t i = 0; i < block->weight_count; i++) {
    const uint32_t weight = (uint32_t)block->weight[i];
    part[i] = (ord_weight_part){weight, store->reader.source.stored(store->reader.source.context, weight).bytes, into};
    into += part[i].bytes;
  }
  const bool is_read = ord_weight_reader_read(&store->reader, pool, part, block->weight_count, err);
  free(part);
  return is_read;
}

static bool measure(const ord_weight_store *store, const block_identity *identity, size_t *out_bytes, ord_error *err) {
  *out_bytes = 0;
  if (!identity->segment_count) return ord_fail(err, ORD_INTERNAL, "a weight operand lists no segments");
  for (uint32_t i = 0; i < identity->segment_count; i++) {
    const uint64_t weight = identity->segment[i].weight_id;
    if (weight >= store->reader.source.weight_count)
      return ord_fail(err, ORD_INTERNAL, "weight number %llu does not exist; wanted one below %u",
                      (unsigned long long)weight, store->reader.source.weight_count);
    const ord_weight_stored stored = store->reader.source.stored(store->reader.source.context, (uint32_t)weight);
    if (!ord_size_add(*out_bytes, identity->kind == SCALES ? stored.scale_bytes : stored.bytes, out_bytes))
      return ord_fail(err, ORD_INVALID, "the weights are too large to be held in memory");
  }
  return true;
}

/* The block of weights one behind the other as they are stored, read if it is not there. Not counted as a use. */
static weight_block *get_stored(ord_weight_store *store, ord_pool *pool, const block_identity *identity,
                                ord_error *err) {
  weight_block *block = find_block(store, identity);
  if (block) return block;
  size_t bytes;
  if (!measure(store, identity, &bytes, err)) return NULL;
  block = block_create(store, identity, bytes);
  if (!block) {
    ord_fail(err, ORD_NO_MEMORY, "out of memory while loading weights; wanted %zu bytes", bytes);
    return NULL;
  }
  if (!read_block(store, pool, block, err)) {
    block_destroy(store, block);
    return NULL;
  }
  return add_block(store, block, err);
}

/* ---- packing ---- */

static const char *label_of(const ord_node *node) { return node->label ? node->label : node->op; }

/* A pack of a weight whose segments are all there. */
typedef struct {
  ord_weight_pack *pack;
  const void *const *segment;
} whole_pack;

static bool pack_slice(void *context, uint32_t chunk, uint32_t chunk_count, uint32_t worker) {
  (void)worker;
  const whole_pack *work = context;
  return ord_weight_pack_slice(work->pack, work->segment, chunk, chunk_count);
}

static void release_buffer(ord_weight_store *store) {
  ord_pages_release(store->buffer);
  store->buffer = NULL;
  store->buffer_bytes = 0;
}

/* Makes the buffer at least so large; what was in it may be lost. */
static bool need_buffer(ord_weight_store *store, size_t bytes, ord_error *err) {
  if (store->buffer && bytes <= store->buffer_bytes) return true;
  release_buffer(store);
  store->buffer = ord_pages_take(bytes, true);
  if (!store->buffer)
    return ord_fail(err, ORD_NO_MEMORY, "out of memory while loading weights; wanted %zu bytes", bytes);
  store->buffer_bytes = bytes;
  return true;
}

static bool add_aligned(size_t *sum, size_t bytes) {
  return ord_size_add(bytes, ORD_MEMORY_ALIGNMENT - 1, &bytes) &&
         ord_size_add(*sum, bytes / ORD_MEMORY_ALIGNMENT * ORD_MEMORY_ALIGNMENT, sum);
}

/* Finds each segment among the blocks where it can be read, or lists it in `part` [segments] for the buffer. */
static bool place_segments(ord_weight_store *store, const ord_operand *operand, const void **segment,
                           ord_weight_part *part, uint32_t *out_part_count, ord_error *err) {
  uint32_t count = 0;
  size_t bytes = 0;
  for (uint32_t i = 0; i < operand->segment_count; i++) {
    const block_identity original = {.kind = AS_STORED, .segment = &operand->segment[i], .segment_count = 1};
    const weight_block *stored = find_readable(store, &original);
    part[count].weight = (uint32_t)operand->segment[i].weight_id;
    segment[i] = stored ? stored->memory : NULL;
    if (stored) continue;
    if (!measure(store, &original, &part[count].bytes, err)) return false;
    if (!add_aligned(&bytes, part[count++].bytes))
      return ord_fail(err, ORD_INVALID, "the weights are too large to be held in memory");
  }
  if (count && !need_buffer(store, bytes, err)) return false;
  bytes = 0;
  for (uint32_t i = 0, n = 0; n < count; i++) {
    if (segment[i]) continue;
    segment[i] = part[n].into = store->buffer + bytes;
    if (!add_aligned(&bytes, part[n++].bytes)) return false; /* it fitted above */
  }
  *out_part_count = count;
  return true;
}

/* May the operand be read and packed row by row: are its rows dense, and none of them there yet? */
static bool has_rows(const ord_weight_store *store, const ord_operand *operand, const ord_pack *wanted) {
  if (!wanted->group_rows || operand->rank < 2 || operand->dim[0] < 1 || operand->stride[0] < 1 ||
      operand->segment_count > ORD_ROW_SEGMENTS_MAX)
    return false;
  for (uint32_t i = 0; i < operand->segment_count; i++) {
    const block_identity original = {.kind = AS_STORED, .segment = &operand->segment[i], .segment_count = 1};
    size_t bytes, stored;
    if (find_readable(store, &original) || !measure(store, &original, &stored, NULL) ||
        !ord_size_multiply((size_t)operand->segment[i].rows, (size_t)operand->stride[0], &bytes) || bytes != stored)
      return false;
  }
  return true;
}

static bool pack_rows(ord_weight_store *store, ord_pool *pool, ord_weight_pack *pack, ord_error *err) {
  size_t bytes;
  return ord_weight_pack_measure(pack, pool, &bytes, err) && need_buffer(store, bytes, err) &&
         ord_weight_pack_rows(pack, &store->reader, pool, store->buffer, &store->usage.pack_ns, err);
}

/* Reads the segments, where they are not there, and lets the kernel fill `block`. */
static bool pack_block(ord_weight_store *store, ord_pool *pool, ord_weight_pack *work, const weight_block *block,
                       ord_error *err) {
  const ord_operand *operand = &work->node->operand[work->operand];
  if (!operand->segment_count) return ord_fail(err, ORD_INTERNAL, "a weight operand lists no segments");
  work->packed = block->memory;
  if (has_rows(store, operand, &work->answer->pack[work->operand])) return pack_rows(store, pool, work, err);
  const void **segment = calloc(operand->segment_count, sizeof *segment);
  ord_weight_part *part = calloc(operand->segment_count, sizeof *part);
  uint32_t part_count = 0;
  bool is_packed = segment && part;
  if (!is_packed) ord_fail_memory(err, "packing weights");
  is_packed = is_packed && place_segments(store, operand, segment, part, &part_count, err) &&
              ord_weight_reader_read(&store->reader, pool, part, part_count, err);
  if (is_packed) {
    const uint64_t begin_ns = ord_clock_ns();
    const size_t slices = block->bytes / PACK_SLICE_BYTES + 1;
    whole_pack whole = {work, segment};
    is_packed = ord_pool_run(pool, pack_slice, &whole, slices < PACK_SLICE_MAX ? (uint32_t)slices : PACK_SLICE_MAX);
    store->usage.pack_ns += ord_clock_ns() - begin_ns;
    if (!is_packed && err) *err = work->failure.error;
  }
  free(segment);
  free(part);
  return is_packed;
}

static weight_block *get_packed(ord_weight_store *store, ord_pool *pool, const block_identity *identity,
                                ord_weight_pack *work, ord_error *err) {
  weight_block *block = find_block(store, identity);
  if (block) return block;
  const size_t bytes = identity->packed_bytes;
  block = block_create(store, identity, bytes);
  if (!block) {
    ord_fail(err, ORD_NO_MEMORY, "%s: out of memory while packing weights; wanted %zu bytes", label_of(work->node),
             bytes);
    return NULL;
  }
  if (!pack_block(store, pool, work, block, err)) {
    block_destroy(store, block);
    return NULL;
  }
  return add_block(store, block, err);
}

/* ---- the store ---- */

bool ord_weight_store_create(ord_weight_source source, ord_device *device, ord_weight_store **out, ord_error *err) {
  ord_weight_store *store = calloc(1, sizeof *store);
  if (!store || !ord_weight_reader_init(&store->reader, source)) {
    free(store);
    source.destroy(source.context);
    return ord_fail_memory(err, "making the weight store");
  }
  pthread_mutex_init(&store->lock, NULL);
  if (device && !device->is_host_memory && !device->table->queue_create(device, &store->queue, err)) {
    ord_weight_store_destroy(store);
    return false;
  }
  *out = store;
  return true;
}

void ord_weight_store_destroy(ord_weight_store *store) {
  if (!store) return;
  for (uint32_t i = 0; i < store->count; i++) block_destroy(store, store->block[i]);
  free(store->block);
  release_buffer(store);
  if (store->queue) store->queue->device->table->queue_destroy(store->queue);
  ord_weight_reader_finish(&store->reader);
  pthread_mutex_destroy(&store->lock);
  free(store);
}

ord_weight_stored ord_weight_store_stored(const ord_weight_store *store, uint32_t weight) {
  return store->reader.source.stored(store->reader.source.context, weight);
}

/* Counts one more use of `block`, or passes its absence on. */
static bool use_block(weight_block *block, const void **out) {
  if (!block) return false;
  block->uses++;
  *out = block->memory;
  return true;
}

bool ord_weight_store_take(ord_weight_store *store, ord_pool *pool, const ord_kernel *kernel, const ord_node *node,
                           const ord_answer *answer, uint32_t operand, const void **out, ord_error *err) {
  const ord_pack wanted = answer->pack[operand];
  const block_identity identity = {.kind = wanted.key ? PACKED : AS_STORED,
                                   .key = wanted.key,
                                   .packed_bytes = wanted.bytes,
                                   .segment = node->operand[operand].segment,
                                   .segment_count = node->operand[operand].segment_count};
  ord_weight_pack work = {.kernel = kernel,
                          .node = node,
                          .answer = answer,
                          .operand = operand,
                          .failure = {.is_taken = ATOMIC_FLAG_INIT, .error = ORD_ERROR_INIT}};
  pthread_mutex_lock(&store->lock);
  weight_block *block =
      wanted.key ? get_packed(store, pool, &identity, &work, err) : get_stored(store, pool, &identity, err);
  const bool is_taken = use_block(block, out);
  pthread_mutex_unlock(&store->lock);
  return is_taken;
}

bool ord_weight_store_take_scale(ord_weight_store *store, const ord_operand *operand, const void **out,
                                 ord_error *err) {
  const block_identity identity = {
      .kind = SCALES, .segment = operand->segment, .segment_count = operand->segment_count};
  pthread_mutex_lock(&store->lock);
  const bool is_taken = use_block(get_stored(store, NULL, &identity, err), out);
  pthread_mutex_unlock(&store->lock);
  return is_taken;
}

void ord_weight_store_drop(ord_weight_store *store, const void *memory) {
  pthread_mutex_lock(&store->lock);
  for (uint32_t i = 0; i < store->count; i++) {
    if (store->block[i]->memory != memory) continue;
    if (--store->block[i]->uses == 0) remove_block(store, i);
    break;
  }
  pthread_mutex_unlock(&store->lock);
}

void ord_weight_store_trim(ord_weight_store *store) {
  pthread_mutex_lock(&store->lock);
  release_buffer(store);
  pthread_mutex_unlock(&store->lock);
}

void ord_weight_store_progress(ord_weight_store *store, ord_progress_fn progress, void *context, uint64_t all) {
  pthread_mutex_lock(&store->lock);
  ord_weight_reader_progress(&store->reader, progress, context, all);
  pthread_mutex_unlock(&store->lock);
}

ord_weight_usage ord_weight_store_usage(const ord_weight_store *store) {
  pthread_mutex_t *lock = (pthread_mutex_t *)&store->lock; /* reading changes nothing that a caller can see */
  pthread_mutex_lock(lock);
  ord_weight_usage usage = store->usage;
  usage.read_ns = store->reader.read_ns;
  pthread_mutex_unlock(lock);
  return usage;
}
