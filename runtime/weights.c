/* SPDX-License-Identifier: MIT
 *
 * The store: a list of shared blocks, each known by the weights it holds, in order, and by how they are laid out. One
 * lock guards it all; it is held while reading and packing, so that two sessions never make the same block twice.
 */
#include "runtime/weights.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_ALIGNMENT = 64, PACK_SLICE_MAX = 64 };
#define READ_SLICE_BYTES ((size_t)4 << 20)
#define PACK_SLICE_BYTES ((size_t)1 << 18)
/* Slices read between two calls of progress. */
#define READ_WAVE 16u

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
  void *allocation;
  unsigned char *memory; /* inside the allocation, aligned */
} weight_block;

struct ord_weight_store {
  ord_weight_source source;
  pthread_mutex_t lock;
  weight_block **block;
  uint32_t count, capacity;
  ord_weight_usage usage;
  ord_progress_fn progress;
  void *progress_context;
  uint64_t progress_done, progress_all;
};

/* ---- blocks ---- */

static void block_destroy(weight_block *block) {
  if (!block) return;
  free(block->allocation);
  free(block->weight);
  free(block);
}

/* Zeroed, so that padding of a packed layout is the same whoever packs it; large blocks come zeroed from the system. */
static weight_block *block_create(const block_identity *identity, size_t bytes) {
  size_t with_slack;
  if (!ord_size_add(bytes, BLOCK_ALIGNMENT, &with_slack)) return NULL;
  weight_block *block = calloc(1, sizeof *block);
  if (!block) return NULL;
  *block = (weight_block){.kind = identity->kind,
                          .key = identity->key,
                          .weight_count = identity->segment_count,
                          .bytes = bytes,
                          .weight = calloc(identity->segment_count, sizeof *block->weight),
                          .allocation = calloc(1, with_slack)};
  if (!block->weight || !block->allocation) {
    block_destroy(block);
    return NULL;
  }
  const uintptr_t address = (uintptr_t)block->allocation;
  block->memory = (unsigned char *)block->allocation + (BLOCK_ALIGNMENT - address % BLOCK_ALIGNMENT) % BLOCK_ALIGNMENT;
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

static size_t *usage_of(ord_weight_store *store, const weight_block *block) {
  return block->kind == PACKED ? &store->usage.packed_bytes : &store->usage.original_bytes;
}

static bool add_block(ord_weight_store *store, weight_block *block) {
  if (store->count == store->capacity) {
    const uint32_t capacity = store->capacity ? store->capacity * 2 : 64;
    weight_block **grown = realloc(store->block, capacity * sizeof(weight_block *));
    if (!grown) return false;
    store->block = grown;
    store->capacity = capacity;
  }
  store->block[store->count++] = block;
  *usage_of(store, block) += block->bytes;
  const size_t bytes = store->usage.original_bytes + store->usage.packed_bytes;
  if (bytes > store->usage.peak_bytes) store->usage.peak_bytes = bytes;
  return true;
}

static void remove_block(ord_weight_store *store, uint32_t index) {
  weight_block *block = store->block[index];
  *usage_of(store, block) -= block->bytes;
  store->block[index] = store->block[--store->count];
  block_destroy(block);
}

/* ---- work on the pool ---- */

/* The first failure of any thread; later ones are dropped. */
typedef struct {
  atomic_flag is_taken;
  ord_error error;
} first_failure;

static bool note_failure(first_failure *failure, const ord_error *error) {
  if (!atomic_flag_test_and_set(&failure->is_taken)) failure->error = *error;
  return false;
}

static bool run_phase(ord_pool *pool, ord_pool_chunk_fn chunk_fn, void *context, uint32_t chunk_count) {
  if (!pool) {
    for (uint32_t chunk = 0; chunk < chunk_count; chunk++)
      if (!chunk_fn(context, chunk, chunk_count, 0)) return false;
    return true;
  }
  ord_pool_lease(pool);
  const bool is_done = ord_pool_phase(pool, chunk_fn, context, chunk_count);
  ord_pool_release(pool);
  return is_done;
}

/* ---- reading ---- */

typedef struct {
  const ord_weight_source *source;
  uint32_t weight;
  size_t bytes, begin; /* of the weight; where this wave begins */
  unsigned char *into;
  first_failure failure;
} weight_read;

static bool read_slice(void *context, uint32_t chunk, uint32_t chunk_count, uint32_t worker) {
  (void)chunk_count;
  (void)worker;
  weight_read *work = context;
  const size_t offset = work->begin + chunk * READ_SLICE_BYTES, rest = work->bytes - offset;
  const size_t bytes = rest < READ_SLICE_BYTES ? rest : READ_SLICE_BYTES;
  ord_error error = ORD_ERROR_INIT;
  return work->source->read(work->source->context, work->weight, offset, bytes, work->into + offset, &error) ||
         note_failure(&work->failure, &error);
}

static bool tell_progress(ord_weight_store *store, size_t bytes, ord_error *err) {
  store->progress_done += bytes;
  if (!store->progress || store->progress(store->progress_context, store->progress_done, store->progress_all))
    return true;
  return ord_fail(err, ORD_CANCELLED, "loading the weights was cancelled after %llu of %llu bytes",
                  (unsigned long long)store->progress_done, (unsigned long long)store->progress_all);
}

static bool read_weight(ord_weight_store *store, ord_pool *pool, uint32_t weight, size_t bytes, unsigned char *into,
                        ord_error *err) {
  weight_read work = {.source = &store->source,
                      .weight = weight,
                      .bytes = bytes,
                      .into = into,
                      .failure = {.is_taken = ATOMIC_FLAG_INIT, .error = ORD_ERROR_INIT}};
  while (work.begin < bytes) {
    const size_t slices = (bytes - work.begin - 1) / READ_SLICE_BYTES + 1;
    const uint32_t wave = slices < READ_WAVE ? (uint32_t)slices : READ_WAVE;
    if (!run_phase(pool, read_slice, &work, wave)) {
      if (err) *err = work.failure.error;
      return false;
    }
    const size_t end = slices <= READ_WAVE ? bytes : work.begin + wave * READ_SLICE_BYTES;
    if (!tell_progress(store, end - work.begin, err)) return false;
    work.begin = end;
  }
  return true;
}

static bool read_segments(ord_weight_store *store, ord_pool *pool, const weight_block *block, ord_error *err) {
  size_t offset = 0;
  for (uint32_t i = 0; i < block->weight_count; i++) {
    const uint32_t weight = (uint32_t)block->weight[i];
    const ord_weight_stored stored = store->source.stored(store->source.context, weight);
    unsigned char *into = block->memory + offset;
    if (block->kind == SCALES) {
      if (!store->source.read_scale(store->source.context, weight, into, err)) return false;
      offset += stored.scale_bytes;
    } else {
      if (!read_weight(store, pool, weight, stored.bytes, into, err)) return false;
      offset += stored.bytes;
    }
  }
  return true;
}

static bool measure(const ord_weight_store *store, const block_identity *identity, size_t *out_bytes, ord_error *err) {
  *out_bytes = 0;
  if (!identity->segment_count) return ord_fail(err, ORD_INTERNAL, "a weight operand lists no segments");
  for (uint32_t i = 0; i < identity->segment_count; i++) {
    const uint64_t weight = identity->segment[i].weight_id;
    if (weight >= store->source.weight_count)
      return ord_fail(err, ORD_INTERNAL, "weight number %llu does not exist; wanted one below %u",
                      (unsigned long long)weight, store->source.weight_count);
    const ord_weight_stored stored = store->source.stored(store->source.context, (uint32_t)weight);
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
  block = block_create(identity, bytes);
  if (!block) {
    ord_fail(err, ORD_NO_MEMORY, "out of memory while loading weights; wanted %zu bytes", bytes);
    return NULL;
  }
  if (!read_segments(store, pool, block, err)) {
    block_destroy(block);
    return NULL;
  }
  if (!add_block(store, block)) {
    block_destroy(block);
    ord_fail_memory(err, "loading weights");
    return NULL;
  }
  return block;
}

/* ---- packing ---- */

typedef struct {
  const ord_kernel *kernel;
  const ord_node *node;
  const ord_answer *answer;
  uint32_t operand;
  const void *const *segment;
  void *packed;
  first_failure failure;
} weight_pack;

static const char *label_of(const ord_node *node) { return node->label ? node->label : node->op; }

static bool pack_slice(void *context, uint32_t chunk, uint32_t chunk_count, uint32_t worker) {
  (void)worker;
  weight_pack *work = context;
  const ord_kernel *kernel = work->kernel;
  const ord_status status =
      kernel->pack(kernel, work->node, work->answer, work->operand, work->segment, chunk, chunk_count, work->packed);
  if (status == ORD_OK) return true;
  ord_error error = ORD_ERROR_INIT;
  ord_fail(&error, status == ORD_NO_MEMORY ? status : ORD_INTERNAL,
           "%s: kernel '%s' could not pack its weight '%s'; status %d in slice %u of %u", label_of(work->node),
           kernel->name, work->node->operand[work->operand].name, (int)status, chunk, chunk_count);
  return note_failure(&work->failure, &error);
}

/* Reads the segments (or finds them) and lets the kernel fill `block`. */
static bool pack_block(ord_weight_store *store, ord_pool *pool, weight_pack *work, const weight_block *block,
                       ord_error *err) {
  const ord_operand *operand = &work->node->operand[work->operand];
  if (!operand->segment_count) return ord_fail(err, ORD_INTERNAL, "a weight operand lists no segments");
  const void **segment = calloc(operand->segment_count, sizeof *segment);
  if (!segment) return ord_fail_memory(err, "packing weights");
  bool is_packed = true;
  for (uint32_t i = 0; is_packed && i < operand->segment_count; i++) {
    const block_identity original = {.kind = AS_STORED, .segment = &operand->segment[i], .segment_count = 1};
    const weight_block *stored = get_stored(store, pool, &original, err);
    is_packed = stored != NULL;
    if (stored) segment[i] = stored->memory;
  }
  if (is_packed) {
    const size_t slices = block->bytes / PACK_SLICE_BYTES + 1;
    work->segment = segment;
    work->packed = block->memory;
    is_packed = run_phase(pool, pack_slice, work, slices < PACK_SLICE_MAX ? (uint32_t)slices : PACK_SLICE_MAX);
    if (!is_packed && err) *err = work->failure.error;
  }
  free(segment);
  return is_packed;
}

static weight_block *get_packed(ord_weight_store *store, ord_pool *pool, const block_identity *identity,
                                weight_pack *work, ord_error *err) {
  weight_block *block = find_block(store, identity);
  if (block) return block;
  const size_t bytes = identity->packed_bytes;
  block = block_create(identity, bytes);
  if (!block) {
    ord_fail(err, ORD_NO_MEMORY, "%s: out of memory while packing weights; wanted %zu bytes", label_of(work->node),
             bytes);
    return NULL;
  }
  if (!pack_block(store, pool, work, block, err)) {
    block_destroy(block);
    return NULL;
  }
  if (!add_block(store, block)) {
    block_destroy(block);
    ord_fail_memory(err, "packing weights");
    return NULL;
  }
  return block;
}

/* ---- the store ---- */

bool ord_weight_store_create(ord_weight_source source, ord_weight_store **out, ord_error *err) {
  ord_weight_store *store = calloc(1, sizeof *store);
  if (!store) {
    source.destroy(source.context);
    return ord_fail_memory(err, "making the weight store");
  }
  store->source = source;
  pthread_mutex_init(&store->lock, NULL);
  *out = store;
  return true;
}

void ord_weight_store_destroy(ord_weight_store *store) {
  if (!store) return;
  for (uint32_t i = 0; i < store->count; i++) block_destroy(store->block[i]);
  free(store->block);
  store->source.destroy(store->source.context);
  pthread_mutex_destroy(&store->lock);
  free(store);
}

ord_weight_stored ord_weight_store_stored(const ord_weight_store *store, uint32_t weight) {
  return store->source.stored(store->source.context, weight);
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
  weight_pack work = {.kernel = kernel,
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
  for (uint32_t i = store->count; i-- > 0;)
    if (!store->block[i]->uses) remove_block(store, i);
  pthread_mutex_unlock(&store->lock);
}

void ord_weight_store_progress(ord_weight_store *store, ord_progress_fn progress, void *context, uint64_t all) {
  pthread_mutex_lock(&store->lock);
  store->progress = progress;
  store->progress_context = context;
  store->progress_done = 0;
  store->progress_all = all;
  pthread_mutex_unlock(&store->lock);
}

ord_weight_usage ord_weight_store_usage(const ord_weight_store *store) {
  pthread_mutex_t *lock = (pthread_mutex_t *)&store->lock; /* reading changes nothing that a caller can see */
  pthread_mutex_lock(lock);
  const ord_weight_usage usage = store->usage;
  pthread_mutex_unlock(lock);
  return usage;
}
