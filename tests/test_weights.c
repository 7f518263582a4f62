/* SPDX-License-Identifier: MIT
 *
 * The weight store over a source that makes its bytes up, counts reads and fails where it is told to.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/weights.h"

enum { WEIGHT_COUNT = 5, BIG = 4, BIG_BYTES = 70 << 20, NEVER = 1000000 };
static const size_t weight_bytes[WEIGHT_COUNT] = {100, 60, 0, 5000, BIG_BYTES};

typedef struct {
  atomic_size_t read_bytes;
  uint32_t fails_at; /* this weight cannot be read */
  bool is_destroyed;
} fake_file;

static unsigned char byte_of(uint32_t weight, size_t offset) {
  return (unsigned char)(weight * 31 + offset * 7 + (offset >> 12));
}

static ord_weight_stored stored(void *context, uint32_t weight) {
  (void)context;
  return (ord_weight_stored){ORD_I8, weight_bytes[weight], weight * 4};
}

static bool read_bytes(void *context, uint32_t weight, size_t offset, size_t bytes, void *into, ord_error *err) {
  fake_file *file = context;
  if (weight == file->fails_at && offset + bytes == weight_bytes[weight])
    return ord_fail(err, ORD_IO, "w.bin: became shorter; found %zu bytes", offset);
  for (size_t i = 0; i < bytes; i++) ((unsigned char *)into)[i] = byte_of(weight, offset + i);
  atomic_fetch_add(&file->read_bytes, bytes);
  return true;
}

static bool read_scale(void *context, uint32_t weight, void *into, ord_error *err) {
  const fake_file *file = context;
  if (weight == file->fails_at) return ord_fail(err, ORD_IO, "w.bin: has no scales");
  for (uint32_t i = 0; i < weight; i++) ((float *)into)[i] = (float)(10 * weight + i);
  return true;
}

static void destroy(void *context) { ((fake_file *)context)->is_destroyed = true; }

/* The packed layout of the tests: the sum of all segments' first bytes in front, then the slice count, then slices. */
static atomic_int pack_calls;
static uint32_t pack_fails_in_slice;
static ord_status pack(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer, uint32_t weight,
                       const void *const *segment, uint32_t slice, uint32_t slice_count, void *packed) {
  (void)kernel;
  atomic_fetch_add(&pack_calls, 1);
  if (slice == pack_fails_in_slice) return ORD_NO;
  unsigned char first = 0;
  for (uint32_t i = 0; i < node->operand[weight].segment_count; i++) first += *(const unsigned char *)segment[i];
  const uint64_t bytes = answer->pack[weight].bytes;
  for (uint64_t i = bytes * slice / slice_count; i < bytes * (slice + 1) / slice_count; i++)
    ((unsigned char *)packed)[i] = (unsigned char)(first + i);
  return ORD_OK;
}

typedef struct {
  fake_file file;
  ord_weight_store *store;
  ord_pool *pool;
  ord_kernel kernel;
  ord_segment segment[2];
  ord_operand operand;
  ord_pack pack;
  ord_node node;
  ord_answer answer;
  ord_error err;
} fixture;

static int set_up(void **state) {
  fixture *f = calloc(1, sizeof *f);
  *state = f;
  f->err = (ord_error)ORD_ERROR_INIT;
  f->file.fails_at = NEVER;
  pack_fails_in_slice = NEVER;
  atomic_store(&pack_calls, 0);
  const ord_weight_source source = {&f->file, WEIGHT_COUNT, stored, read_bytes, read_scale, destroy};
  assert_true(ord_weight_store_create(source, NULL, &f->store, &f->err));
  assert_true(ord_pool_create(2, &f->pool, NULL, &f->err));
  f->kernel = (ord_kernel){.struct_size = sizeof f->kernel, .name = "packer", .op = "matmul", .pack = pack};
  f->operand = (ord_operand){.name = "weight", .role = ORD_WEIGHT, .segment = f->segment, .segment_count = 1};
  f->node = (ord_node){.op = "matmul", .label = "layer.0.q", .operand = &f->operand, .operand_count = 1};
  f->answer = (ord_answer){.struct_size = sizeof f->answer, .pack = &f->pack};
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  ord_weight_store_destroy(f->store);
  assert_true(f->file.is_destroyed);
  ord_pool_destroy(f->pool);
  free(f);
  return 0;
}

/* Which weights operand 0 is made of, and how it is wanted. */
static void want(fixture *f, uint32_t count, uint64_t first, uint64_t second, uint64_t key, uint64_t bytes) {
  f->segment[0].weight_id = first;
  f->segment[1].weight_id = second;
  f->operand.segment_count = count;
  f->pack = (ord_pack){key, bytes, 0};
}

static bool try_take(fixture *f, const void **out) {
  return ord_weight_store_take(f->store, f->pool, &f->kernel, &f->node, &f->answer, 0, out, &f->err);
}

static const unsigned char *take(fixture *f) {
  const void *memory = NULL;
  if (!try_take(f, &memory)) fail_msg("%s", f->err.text);
  assert_int_equal((uintptr_t)memory % 64, 0);
  return memory;
}

static void assert_usage(const fixture *f, size_t original, size_t packed, size_t peak) {
  const ord_weight_usage usage = ord_weight_store_usage(f->store);
  assert_int_equal(usage.original_bytes, original);
  assert_int_equal(usage.packed_bytes, packed);
  assert_int_equal(usage.peak_bytes, peak);
}

static void assert_holds(const unsigned char *memory, uint32_t weight) {
  for (size_t i = 0; i < weight_bytes[weight]; i++)
    if (memory[i] != byte_of(weight, i)) fail_msg("byte %zu of weight %u", i, weight);
}

static void test_originals_are_read_once_and_shared(void **state) {
  fixture *f = *state;
  want(f, 1, 0, 0, 0, 0);
  const unsigned char *first = take(f), *again = take(f);
  assert_ptr_equal(first, again);
  assert_holds(first, 0);
  assert_int_equal(f->file.read_bytes, 100);
  ord_weight_store_drop(f->store, first);
  assert_usage(f, 100, 0, 100);
  ord_weight_store_drop(f->store, again);
  assert_usage(f, 0, 0, 100);
}

static void test_segments_lie_one_behind_the_other(void **state) {
  fixture *f = *state;
  want(f, 2, 0, 3, 0, 0);
  const unsigned char *joined = take(f);
  assert_holds(joined, 0);
  assert_holds(joined + 100, 3);
  assert_usage(f, 5100, 0, 5100);
  want(f, 2, 3, 0, 0, 0);
  const unsigned char *other_order = take(f);
  assert_ptr_not_equal(joined, other_order);
  assert_holds(other_order + 5000, 0);
}

static void test_an_empty_weight(void **state) {
  fixture *f = *state;
  want(f, 1, 2, 0, 0, 0);
  ord_weight_store_drop(f->store, take(f));
  assert_usage(f, 0, 0, 0);
}

/* Small ones too lie in large pages so. */
static void test_blocks_lie_behind_one_another(void **state) {
  fixture *f = *state;
  want(f, 1, 0, 0, 0, 0);
  const unsigned char *original = take(f);
  want(f, 1, 1, 0, 7, 70);
  assert_ptr_equal(take(f), original + 128);
  want(f, 1, 3, 0, 0, 0);
  assert_holds(take(f), 3);
  assert_usage(f, 5100, 70, 5170 + 64);
  ord_weight_store_drop(f->store, original);
  want(f, 1, 1, 0, 0, 0);
  assert_ptr_equal(take(f), original); /* what a block leaves is used again */
  assert_holds(original, 1);
}

static void test_large_weights_are_read_in_slices(void **state) {
  fixture *f = *state;
  want(f, 1, BIG, 0, 0, 0);
  assert_holds(take(f), BIG);
  assert_int_equal(f->file.read_bytes, BIG_BYTES);
}

static void test_packs_are_made_once_for_each_key(void **state) {
  fixture *f = *state;
  want(f, 2, 0, 1, 7, 300000);
  const unsigned char *first = take(f);
  const int calls = pack_calls;
  assert_int_equal(calls, 2);
  const unsigned char start = (unsigned char)(byte_of(0, 0) + byte_of(1, 0));
  for (size_t i = 0; i < 300000; i++)
    if (first[i] != (unsigned char)(start + i)) fail_msg("byte %zu", i);
  assert_ptr_equal(take(f), first);
  assert_int_equal(pack_calls, calls);
  assert_int_equal(f->file.read_bytes, 160);
  assert_usage(f, 0, 300000, 300000 + 128 + 64); /* each segment begins at a multiple of 64 */

  want(f, 2, 0, 1, 8, 300000);
  assert_ptr_not_equal(take(f), first);
  want(f, 2, 1, 0, 7, 300000);
  assert_ptr_not_equal(take(f), first);
  want(f, 2, 0, 1, 7, 300064); /* the key of another layout by mistake: never a block that is too small */
  assert_ptr_not_equal(take(f), first);
}

static void test_originals_that_are_only_packed_share_one_buffer(void **state) {
  fixture *f = *state;
  want(f, 1, 3, 0, 7, 64);
  const unsigned char *packed = take(f);
  assert_usage(f, 0, 64, 64 + 5056);
  want(f, 1, 0, 0, 7, 64);
  ord_weight_store_drop(f->store, take(f));
  assert_usage(f, 0, 64, 128 + 5056);
  ord_weight_store_trim(f->store);
  ord_weight_store_drop(f->store, packed);
  want(f, 1, 3, 0, 9, 64); /* packed from the file again */
  take(f);
  assert_int_equal(f->file.read_bytes, 2 * 5000 + 100);
  assert_usage(f, 0, 64, 128 + 5056);
}

static void test_packing_reads_what_is_there_and_what_is_not(void **state) {
  fixture *f = *state;
  want(f, 1, 3, 0, 0, 0);
  take(f);
  want(f, 2, 3, 1, 7, 64);
  assert_int_equal(take(f)[0], (unsigned char)(byte_of(3, 0) + byte_of(1, 0)));
  assert_int_equal(f->file.read_bytes, 5060);
  assert_usage(f, 5000, 64, 5000 + 64 + 64);
  want(f, 2, 2, 1, 8, 64); /* the first is empty */
  take(f);
}

typedef struct {
  uint64_t last, all;
  int calls, cancel_at;
} progress_log;

static bool note_progress(void *context, uint64_t done, uint64_t all) {
  progress_log *log = context;
  assert_true(done > log->last);
  log->last = done;
  log->all = all;
  return ++log->calls != log->cancel_at;
}

/* Packs rows of 40 bytes as their sums, in groups of 3 rows, and reads no others. */
enum { ROW_BYTES = 40, GROUP_ROWS = 3 };
static ord_status pack_sums(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer, uint32_t weight,
                            const void *const *segment, uint32_t slice, uint32_t slice_count, void *packed) {
  (void)kernel;
  const ord_operand *operand = &node->operand[weight];
  const int64_t rows = operand->dim[0], groups = (rows + GROUP_ROWS - 1) / GROUP_ROWS;
  assert_true(answer->pack[weight].group_rows >= GROUP_ROWS);
  atomic_fetch_add(&pack_calls, 1);
  if (slice == pack_fails_in_slice) return ORD_NO;
  for (int64_t row = groups * slice / slice_count * GROUP_ROWS;
       row < groups * (slice + 1) / slice_count * GROUP_ROWS && row < rows; row++) {
    int64_t inside = row;
    uint32_t i = 0;
    for (; inside >= operand->segment[i].rows; i++) inside -= operand->segment[i].rows;
    uint32_t sum = 0;
    for (int at = 0; at < ROW_BYTES; at++) sum += ((const unsigned char *)segment[i])[inside * ROW_BYTES + at];
    ((uint32_t *)packed)[row] = sum;
  }
  return ORD_OK;
}

static void want_rows(fixture *f, uint32_t count, uint64_t first, uint64_t second) {
  want(f, count, first, second, 7, 0);
  f->kernel.pack = pack_sums;
  f->operand.rank = 2;
  f->operand.dim[0] = 0;
  f->operand.stride[0] = ROW_BYTES;
  for (uint32_t i = 0; i < count; i++) {
    f->segment[i].rows = (int64_t)(weight_bytes[f->segment[i].weight_id] / ROW_BYTES);
    f->operand.dim[0] += f->segment[i].rows;
  }
  f->pack.bytes = (uint64_t)f->operand.dim[0] * sizeof(uint32_t);
  f->pack.group_rows = GROUP_ROWS;
}

static void assert_sums(const fixture *f, const unsigned char *packed) {
  const uint32_t *found = (const uint32_t *)packed;
  for (uint32_t i = 0; i < f->operand.segment_count; i++)
    for (int64_t row = 0; row < f->segment[i].rows; row++) {
      uint32_t sum = 0;
      for (size_t at = 0; at < ROW_BYTES; at++)
        sum += byte_of((uint32_t)f->segment[i].weight_id, (size_t)row * ROW_BYTES + at);
      if (*found++ != sum) fail_msg("row %ld of segment %u", (long)row, i);
    }
}

static void test_rows_are_read_and_packed_slice_by_slice(void **state) {
  fixture *f = *state;
  progress_log log = {0};
  ord_weight_store_progress(f->store, note_progress, &log, BIG_BYTES + 5000);
  want_rows(f, 2, 3, BIG);
  const unsigned char *packed = take(f);
  assert_sums(f, packed);
  assert_int_equal(f->file.read_bytes, BIG_BYTES + 5000);
  assert_int_equal(log.last, BIG_BYTES + 5000);
  assert_true(ord_weight_store_usage(f->store).peak_bytes < f->pack.bytes + (2 << 20)); /* never the whole original */
  assert_int_equal(ord_weight_store_usage(f->store).original_bytes, 0);
  ord_weight_store_drop(f->store, packed);

  log = (progress_log){.cancel_at = 2};
  const void *memory;
  assert_false(try_take(f, &memory));
  assert_int_equal(f->err.code, ORD_CANCELLED);
  ord_weight_store_progress(f->store, NULL, NULL, 0);
  pack_fails_in_slice = 2;
  assert_false(try_take(f, &memory));
  assert_non_null(strstr(f->err.text, "status 1 in slice 2 of"));
  pack_fails_in_slice = NEVER;
  f->file.fails_at = 3;
  assert_false(try_take(f, &memory));
  assert_non_null(strstr(f->err.text, "w.bin: became shorter"));
  f->file.fails_at = NEVER;
  assert_sums(f, take(f));
}

/* All rows are one group then; no product overflows. */
static void test_groups_of_more_rows_than_there_are(void **state) {
  fixture *f = *state;
  static const uint64_t group_rows[] = {(uint64_t)1 << 63, (uint64_t)1 << 40, UINT64_MAX};
  for (size_t i = 0; i < sizeof group_rows / sizeof *group_rows; i++) {
    want_rows(f, 2, 3, BIG);
    f->pack.group_rows = group_rows[i];
    const unsigned char *packed = take(f);
    assert_sums(f, packed);
    assert_true(ord_weight_store_usage(f->store).peak_bytes >= f->pack.bytes + BIG_BYTES + 5000); /* it lay somewhere */
    ord_weight_store_drop(f->store, packed);
  }
}

static void test_rows_that_are_there_are_not_read_again(void **state) {
  fixture *f = *state;
  want(f, 1, 3, 0, 0, 0);
  take(f);
  want_rows(f, 1, 3, 0);
  assert_sums(f, take(f));
  assert_int_equal(f->file.read_bytes, 5000);
}

static void test_scales(void **state) {
  fixture *f = *state;
  want(f, 2, 1, 3, 0, 0);
  const void *memory, *again;
  assert_true(ord_weight_store_take_scale(f->store, &f->operand, &memory, &f->err));
  const float wanted[] = {10, 30, 31, 32};
  assert_memory_equal(memory, wanted, sizeof wanted);
  assert_true(ord_weight_store_take_scale(f->store, &f->operand, &again, &f->err));
  assert_ptr_equal(memory, again);
  assert_ptr_not_equal(take(f), memory);
  f->file.fails_at = 4;
  want(f, 1, 4, 0, 0, 0);
  assert_false(ord_weight_store_take_scale(f->store, &f->operand, &memory, &f->err));
  assert_string_equal(f->err.text, "w.bin: has no scales");
}

static void test_failures_leave_the_store_usable(void **state) {
  fixture *f = *state;
  const void *memory = NULL;
  f->file.fails_at = BIG;
  want(f, 1, BIG, 0, 0, 0);
  assert_false(try_take(f, &memory));
  assert_int_equal(f->err.code, ORD_IO);
  assert_non_null(strstr(f->err.text, "w.bin: became shorter"));
  want(f, 2, 0, BIG, 7, 64);
  assert_false(try_take(f, &memory));
  assert_non_null(strstr(f->err.text, "w.bin: became shorter"));

  pack_fails_in_slice = 0;
  want(f, 1, 0, 0, 7, 64);
  assert_false(try_take(f, &memory));
  assert_string_equal(f->err.text,
                      "layer.0.q: kernel 'packer' could not pack its weight 'weight'; status 1 in slice 0 of 1");
  want(f, 1, WEIGHT_COUNT, 0, 0, 0);
  assert_false(try_take(f, &memory));
  assert_string_equal(f->err.text, "weight number 5 does not exist; wanted one below 5");
  want(f, 1, 0, 0, 7, UINT64_MAX);
  assert_false(try_take(f, &memory));
  assert_int_equal(f->err.code, ORD_NO_MEMORY);
  want(f, 0, 0, 0, 0, 0);
  assert_false(try_take(f, &memory));
  want(f, 1, WEIGHT_COUNT, 0, 7, 64);
  assert_false(try_take(f, &memory));
  assert_string_equal(f->err.text, "weight number 5 does not exist; wanted one below 5");
  want(f, 0, 0, 0, 7, 64);
  assert_false(try_take(f, &memory));
  assert_string_equal(f->err.text, "a weight operand lists no segments");
  assert_int_equal(ord_weight_store_usage(f->store).original_bytes, 0);

  pack_fails_in_slice = NEVER;
  f->file.fails_at = NEVER;
  want(f, 1, 0, 0, 7, 64);
  take(f);
}

static void test_progress_and_cancel(void **state) {
  fixture *f = *state;
  progress_log log = {0};
  ord_weight_store_progress(f->store, note_progress, &log, BIG_BYTES + 100);
  want(f, 1, 0, 0, 0, 0);
  take(f);
  assert_int_equal(log.last, 100);
  want(f, 1, BIG, 0, 0, 0);
  ord_weight_store_drop(f->store, take(f));
  assert_int_equal(log.last, BIG_BYTES + 100);
  assert_int_equal(log.all, BIG_BYTES + 100);
  assert_int_equal(log.calls, 4);

  progress_log cancelled = {.cancel_at = 1};
  ord_weight_store_progress(f->store, note_progress, &cancelled, BIG_BYTES);
  const void *memory;
  assert_false(try_take(f, &memory));
  assert_int_equal(f->err.code, ORD_CANCELLED);
  assert_usage(f, 100, 0, BIG_BYTES + 100);
  ord_weight_store_progress(f->store, NULL, NULL, 0);
  take(f);
}

/* What was read before a cancel, or for another layout, is not counted again: never more than all. */
static void test_progress_of_a_second_try(void **state) {
  fixture *f = *state;
  progress_log log = {.cancel_at = 2};
  const uint64_t all = 5000 + BIG_BYTES;
  ord_weight_store_progress(f->store, note_progress, &log, all);
  want(f, 1, 3, 0, 7, 64);
  const unsigned char *packed = take(f);
  want(f, 1, BIG, 0, 7, 64);
  const void *memory;
  assert_false(try_take(f, &memory));
  assert_int_equal(f->err.code, ORD_CANCELLED);
  ord_weight_store_drop(f->store, packed);

  log.last = 0;
  want(f, 1, BIG, 0, 7, 64);
  take(f);
  assert_int_equal(log.last, BIG_BYTES);
  want(f, 1, 3, 0, 7, 64);
  take(f);
  assert_int_equal(log.last, all);
  log.last--;
  want(f, 1, 3, 0, 8, 64);
  take(f);
  assert_int_equal(log.last, all);
}

static void *take_and_drop(void *state) {
  const fixture *shared = state;
  fixture mine = {.store = shared->store,
                  .pool = shared->pool,
                  .kernel = shared->kernel,
                  .operand = shared->operand,
                  .node = shared->node,
                  .answer = shared->answer,
                  .err = ORD_ERROR_INIT};
  mine.operand.segment = mine.segment;
  mine.node.operand = &mine.operand;
  mine.answer.pack = &mine.pack;
  for (uint32_t i = 0; i < 200; i++) {
    want(&mine, 1 + i % 2, i % 4, (i + 1) % 4, i % 3, 64);
    const void *memory;
    if (!ord_weight_store_take(mine.store, mine.pool, &mine.kernel, &mine.node, &mine.answer, 0, &memory, &mine.err))
      return "failed";
    if (i % 7 == 0) ord_weight_store_trim(mine.store);
    ord_weight_store_drop(mine.store, memory);
  }
  return NULL;
}

static void test_several_sessions_at_once(void **state) {
  fixture *f = *state;
  pthread_t thread[3];
  for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&thread[i], NULL, take_and_drop, f), 0);
  for (int i = 0; i < 3; i++) {
    void *result;
    pthread_join(thread[i], &result);
    assert_null(result);
  }
  const ord_weight_usage usage = ord_weight_store_usage(f->store);
  assert_int_equal(usage.original_bytes + usage.packed_bytes, 0);
}

static void test_without_a_pool_and_without_a_store(void **state) {
  fixture *f = *state;
  ord_pool_destroy(f->pool);
  f->pool = NULL;
  want(f, 1, 3, 0, 7, 1 << 20);
  take(f);
  assert_int_equal(ord_weight_store_stored(f->store, 3).bytes, 5000);
  ord_weight_store_destroy(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_originals_are_read_once_and_shared, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_segments_lie_one_behind_the_other, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_an_empty_weight, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_blocks_lie_behind_one_another, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_large_weights_are_read_in_slices, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_packs_are_made_once_for_each_key, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_originals_that_are_only_packed_share_one_buffer, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_packing_reads_what_is_there_and_what_is_not, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_rows_are_read_and_packed_slice_by_slice, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_groups_of_more_rows_than_there_are, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_rows_that_are_there_are_not_read_again, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_scales, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_failures_leave_the_store_usable, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_progress_and_cancel, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_progress_of_a_second_try, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_several_sessions_at_once, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_without_a_pool_and_without_a_store, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
