/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "runtime/device.h"

static void test_thread_counts(void **state) {
  (void)state;
  static const struct {
    int threads;
    bool is_made;
  } row[] = {{0, true}, {1, true}, {4, true}, {-1, false}, {1000, false}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_device *device = NULL;
    ord_error err = ORD_ERROR_INIT;
    bool is_oversubscribed;
    assert_int_equal(ord_device_cpu_create(row[i].threads, NULL, &device, &is_oversubscribed, &err), row[i].is_made);
    if (row[i].is_made) {
      if (row[i].threads) assert_int_equal(ord_pool_threads(device->pool), row[i].threads);
      device->table->destroy(device);
    } else {
      assert_int_equal(err.code, ORD_INVALID);
    }
  }
}

static void test_what_the_device_says_of_itself(void **state) {
  (void)state;
  ord_device *device;
  ord_error err = ORD_ERROR_INIT;
  assert_true(ord_device_cpu_create(1, NULL, &device, NULL, &err));
  assert_string_equal(device->info.name, "cpu");
  assert_int_equal(device->info.struct_size, sizeof device->info);
  assert_int_equal(device->info.kind, ORD_DEVICE_CPU);
  assert_int_equal(device->info.cores, ord_pool_cores());
  assert_true(device->info.l1_bytes < device->info.l2_bytes && device->info.l2_bytes < device->info.l3_bytes);
  /* Every wider set of instructions comes with the narrower ones. */
  const uint64_t features = device->info.features;
  if (features & (ORD_CPU_AVX512_BF16 | ORD_CPU_AVX512_VNNI)) assert_true(features & ORD_CPU_AVX512);
  if (features & ORD_CPU_AVX512) assert_true(features & ORD_CPU_AVX2);
  const ord_device_table *table = device->table;
  table->destroy(device);
  table->destroy(NULL);
}

static void test_memory(void **state) {
  (void)state;
  ord_device *device;
  ord_error err = ORD_ERROR_INIT;
  assert_true(ord_device_cpu_create(1, NULL, &device, NULL, &err));
  static const size_t bytes[] = {0, 1, 100, 1 << 20};
  for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
    void *memory;
    assert_true(device->table->allocate(device, bytes[i], true, &memory, &err));
    assert_int_equal((uintptr_t)memory % 64, 0);
    for (size_t at = 0; at < bytes[i]; at++) assert_int_equal(((unsigned char *)memory)[at], 0);
    device->table->release(device, memory);
    assert_true(device->table->allocate(device, bytes[i], false, &memory, &err));
    device->table->release(device, memory);
  }
  device->table->release(device, NULL);
  device->table->destroy(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_thread_counts),
      cmocka_unit_test(test_what_the_device_says_of_itself),
      cmocka_unit_test(test_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
