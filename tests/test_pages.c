/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "runtime/pages.h"

static const size_t sizes[] = {0, 1, 100, 4096, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 2 << 20, (5 << 20) + 12345};
enum { COUNT = sizeof sizes / sizeof *sizes };

static void test_zeroed_aligned_and_apart(void **state) {
  (void)state;
  unsigned char *memory[2 * COUNT];
  for (int round = 0; round < 3; round++) { /* what was released comes back clean */
    for (int i = 0; i < 2 * COUNT; i++) {
      memory[i] = ord_pages_take(sizes[i / 2], i % 2);
      assert_non_null(memory[i]);
      assert_int_equal((uintptr_t)memory[i] % ORD_MEMORY_ALIGNMENT, 0);
      for (size_t at = 0; at < sizes[i / 2]; at++)
        if (memory[i][at]) fail_msg("byte %zu of %zu", at, sizes[i / 2]);
      memset(memory[i], i + 1, sizes[i / 2]);
    }
    for (int i = 0; i < 2 * COUNT; i++) {
      for (size_t at = 0; at < sizes[i / 2]; at++)
        if (memory[i][at] != i + 1) fail_msg("byte %zu of piece %d", at, i);
      ord_pages_release(memory[i]);
    }
  }
}

static void test_too_much_and_nothing(void **state) {
  (void)state;
  static const size_t too_much[] = {SIZE_MAX, SIZE_MAX - 100, SIZE_MAX / 2 + 1, SIZE_MAX / 2, (size_t)1 << 50};
  for (size_t i = 0; i < sizeof too_much / sizeof *too_much; i++)
    for (int filled = 0; filled < 2; filled++) assert_null(ord_pages_take(too_much[i], filled));
  ord_pages_release(NULL);
}

static size_t resident_bytes(void) {
  FILE *file = fopen("/proc/self/statm", "r");
  unsigned long all, resident;
  if (!file) return 0;
  const int found = fscanf(file, "%lu %lu", &all, &resident);
  fclose(file);
  return found == 2 ? resident * 4096 : 0;
}

static void test_what_is_not_touched_costs_nothing(void **state) {
  (void)state;
  const size_t bytes = (size_t)256 << 20, before = resident_bytes();
  if (!before) {
    print_message("skipped: the system does not tell what is resident\n");
    skip();
  }
  for (int filled = 0; filled < 2; filled++) {
    unsigned char *memory = ord_pages_take(bytes, filled);
    assert_non_null(memory);
    assert_true(resident_bytes() < before + (1 << 20));
    memory[bytes / 2] = 1;
    assert_true(resident_bytes() < before + (8 << 20));
    ord_pages_release(memory);
  }
}

static void test_what_is_given_back_costs_nothing(void **state) {
  (void)state;
  const size_t large = ORD_LARGE_PAGE_BYTES, bytes = 32 * large;
  unsigned char *memory = ord_pages_take(bytes, true);
  assert_non_null(memory);
  memset(memory, 1, bytes);
  const size_t full = resident_bytes();
  ord_pages_give_back(memory + 4096, 2 * large - 4097); /* no whole large page lies inside */
  ord_pages_give_back(memory + 100, 100);
  ord_pages_give_back(memory + large - 1, large);
  for (size_t at = 0; at < bytes; at++)
    if (memory[at] != 1) fail_msg("byte %zu is lost", at);
  ord_pages_give_back(memory + large - 1, bytes - 2 * large + 2);
  assert_true(!full || resident_bytes() < full - 29 * large);
  for (size_t at = 0; at < bytes; at++)
    if (memory[at] != (at < large || at >= bytes - large)) fail_msg("byte %zu is %d", at, memory[at]);
  ord_pages_release(memory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_zeroed_aligned_and_apart),
      cmocka_unit_test(test_too_much_and_nothing),
      cmocka_unit_test(test_what_is_not_touched_costs_nothing),
      cmocka_unit_test(test_what_is_given_back_costs_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
