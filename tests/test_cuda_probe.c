/* SPDX-License-Identifier: MIT
 *
 * What bench asks of a GPU,: the probe reads each byte of its memory once, in every pattern;
 * marks come in order; what the host does is counted. How fast anything is is no matter here.
 */
#include "cuda_fixture.h"

#include "runtime/cuda.h"

/* ---- the probe ---- */

enum { FEW_CORES = 2 };

/* What thread number `thread` has read: words that hold their numbers. */
static uint32_t sum_of(const ord_cuda_probe *probe, uint32_t thread) {
  uint32_t sum = 0;
  for (uint64_t i = thread; i < probe->count; i += probe->threads)
    for (uint32_t word = 0; word < 4; word++) sum += (uint32_t)(4 * i) + word;
  return sum;
}

static void read_once(ord_device *device, ord_queue *queue, ord_device_probe *base, uint32_t pattern) {
  ord_error err = ORD_ERROR_INIT;
  const ord_cuda_probe *probe = (const ord_cuda_probe *)base;
  const size_t bytes = probe->threads * sizeof(uint32_t);
  uint32_t *sum = test_malloc(bytes);
  memset(sum, 0xff, bytes);
  MUST(device->table->write(queue, probe->sum, sum, bytes, &err));
  MUST(device->table->probe_read(base, queue, pattern, &err));
  MUST(device->table->read(queue, sum, probe->sum, bytes, &err));
  for (uint32_t thread = 0; thread < probe->threads; thread++)
    if (sum[thread] != sum_of(probe, thread))
      fail_msg("%s: %llu loads: thread %u summed up %u; wanted %u", device->table->probe_pattern(pattern),
               (unsigned long long)probe->count, thread, sum[thread], sum_of(probe, thread));
  test_free(sum);
}

/* Nothing, less than a load, one, fewer and more than there are threads, whole rounds of each pattern and a rest. */
static void read_all(bool is_checked) {
  ord_error err = ORD_ERROR_INIT;
  ord_cuda_options options = *cuda_options();
  ord_queue *queue = NULL;
  options.is_checked = is_checked;
  ord_device *device = open_device(&options);
  device->info.cores = FEW_CORES; /* few threads, so that little memory makes many rounds */
  MUST(device->table->queue_create(device, &queue, &err));
  static const size_t loads[] = {0, 0, 1, 300, 5000, 9 * 2048 + 5, 16 * 2048};
  for (size_t i = 0; i < sizeof loads / sizeof *loads; i++) {
    ord_device_probe *probe = NULL;
    MUST(device->table->probe_create(device, loads[i] * 16 + (i > 0 ? 7 : 0), &probe, &err));
    assert_int_equal(((ord_cuda_probe *)probe)->count, loads[i]);
    uint32_t pattern = 0;
    for (; device->table->probe_pattern(pattern); pattern++) read_once(device, queue, probe, pattern);
    assert_int_equal(pattern, ORD_CUDA_PROBE_KERNELS);
    device->table->probe_destroy(probe);
  }
  device->table->probe_destroy(NULL);
  device->table->queue_destroy(queue);
  device->table->destroy(device);
}

static void read_all_plain(void **state) {
  (void)state;
  read_all(false);
}
static void read_all_checked(void **state) {
  (void)state;
  read_all(true);
}

static void no_memory_for_a_probe(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  ord_device *device = open_cuda_device();
  ord_device_probe *probe = NULL;
  MUST_FAIL(device->table->probe_create(device, (size_t)1 << 50, &probe, &err), "cuMemAlloc failed");
  assert_int_equal(err.code, ORD_NO_MEMORY);
  assert_null(probe);
  device->table->destroy(device);
}

static void test_every_byte_is_read_once(void **state) {
  (void)state;
  run_in_all_orders("reads", read_all_plain);
  run_in_child("reads, each access checked", read_all_checked, NULL);
  run_in_child("a probe that finds no memory", no_memory_for_a_probe, NULL);
}

/* ---- the clock ---- */

static void marks(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  ord_device *device = open_cuda_device();
  const ord_device_table *table = device->table;
  ord_queue *queue = NULL;
  ord_device_clock *clock = NULL;
  MUST(table->queue_create(device, &queue, &err));
  MUST(table->clock_create(queue, 3, &clock, &err));
  for (int round = 0; round < 2; round++) { /* marks are gone once they are read */
    uint64_t ns[3] = {UINT64_MAX, UINT64_MAX, 77};
    for (int i = 0; i < 3; i++) MUST(table->clock_mark(clock, &err));
    MUST_FAIL(table->clock_mark(clock, &err), "found room for 3 marks; wanted more");
    MUST(table->clock_read(clock, ns, &err));
    assert_true(ns[0] != UINT64_MAX && ns[1] != UINT64_MAX);
    assert_int_equal(ns[2], 77);
  }
  MUST(table->clock_read(clock, NULL, &err)); /* no marks, no times */
  table->clock_destroy(clock);
  table->clock_destroy(NULL);
  table->queue_destroy(queue);
  table->destroy(device);
}

static void test_marks(void **state) {
  (void)state;
  run_in_all_orders("marks", marks);
}

/* ---- what the host does ---- */

static void counts(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  ord_device *device = open_cuda_device();
  const ord_device_table *table = device->table;
  ord_queue *queue = NULL;
  void *memory = NULL;
  const int32_t number = 1;
  MUST(table->queue_create(device, &queue, &err));
  MUST(table->allocate(device, 64, false, &memory, &err));
  const uint64_t before = device->driver.calls;
  MUST(table->write(queue, memory, &number, sizeof number, &err)); /* the context, the copy */
  assert_int_equal(device->driver.calls, before + 2);
  assert_int_equal(device->driver.wait_ns, 0);
  MUST(table->wait(queue, &err)); /* the context, the wait */
  assert_int_equal(device->driver.calls, before + 4);
  assert_true(device->driver.wait_ns > 0);
  assert_int_equal(device->driver.polls, 0);
  table->release(device, memory);
  table->queue_destroy(queue);
  table->destroy(device);
}

static void test_counts(void **state) {
  (void)state;
  run_in_child("counts", counts, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_byte_is_read_once),
      cmocka_unit_test(test_marks),
      cmocka_unit_test(test_counts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
