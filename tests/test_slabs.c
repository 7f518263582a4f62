/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/pages.h"
#include "runtime/slabs.h"

#define MIB ((size_t)1 << 20)

static const size_t sizes[] = {1, 100, 0, 64, 70000, 300000, MIB, 3 * MIB + 5, 0, 900000, 9 * MIB + 1, 65};
enum { SIZES = sizeof sizes / sizeof *sizes, COUNT = 3 * SIZES };

static size_t size_of(int i) { return sizes[i % SIZES]; }

static unsigned char *take(ord_slabs *slabs, size_t bytes) {
  unsigned char *memory = ord_slabs_take(slabs, bytes);
  assert_non_null(memory);
  assert_int_equal((uintptr_t)memory % ORD_MEMORY_ALIGNMENT, 0);
  for (size_t at = 0; at < bytes; at++)
    if (memory[at]) fail_msg("byte %zu of %zu is not zero", at, bytes);
  return memory;
}

static void assert_filled(const unsigned char *memory, size_t bytes, int value) {
  for (size_t at = 0; at < bytes; at++)
    if (memory[at] != value) fail_msg("byte %zu of piece %d", at, value);
}

/* Pieces are taken and released in an order that looks random; each holds what was written into it until then. */
static void test_apart_and_zeroed_in_any_order(void **state) {
  (void)state;
  ord_slabs slabs = {0};
  unsigned char *memory[COUNT] = {0};
  uint32_t draw = 1;
  for (int step = 0; step < 20 * COUNT; step++) {
    draw = draw * 1664525 + 1013904223;
    const int i = (int)((draw >> 8) % COUNT);
    if (memory[i]) {
      assert_filled(memory[i], size_of(i), i + 1);
      ord_slabs_release(&slabs, memory[i]);
      memory[i] = NULL;
    } else {
      memory[i] = take(&slabs, size_of(i));
      memset(memory[i], i + 1, size_of(i));
    }
    for (int j = 0; j < COUNT; j++) assert_true(j == i || !memory[i] || memory[j] != memory[i]);
  }
  for (int i = 0; i < COUNT; i++) {
    if (memory[i]) assert_filled(memory[i], size_of(i), i + 1);
    ord_slabs_release(&slabs, memory[i]);
  }
  assert_null(slabs.first);
  assert_int_equal(slabs.bytes, 0);
}

static void test_small_pieces_lie_behind_one_another(void **state) {
  (void)state;
  ord_slabs slabs = {0};
  unsigned char *memory[5];
  for (int i = 0; i < 5; i++) memory[i] = take(&slabs, 100);
  for (int i = 1; i < 5; i++) assert_ptr_equal(memory[i], memory[i - 1] + 128);
  ord_slabs_release(&slabs, memory[1]);
  ord_slabs_release(&slabs, memory[2]);
  memory[1] = take(&slabs, 300); /* the gap is too small */
  assert_ptr_equal(memory[1], memory[4] + 128);
  memory[2] = take(&slabs, 256);
  assert_ptr_equal(memory[2], memory[0] + 128);
  for (int i = 0; i < 5; i++) ord_slabs_release(&slabs, memory[i]);
  assert_null(slabs.first);
}

/* Little is asked for while little is needed, and most lies in whole large pages when there is much. */
static void test_slabs_grow_with_what_is_in_them(void **state) {
  (void)state;
  ord_slabs slabs = {0};
  unsigned char *memory[400];
  memory[0] = take(&slabs, 1);
  assert_true(slabs.bytes <= MIB / 2);
  size_t taken = 1;
  for (int i = 1; i < 400; i++) {
    memory[i] = take(&slabs, 400000);
    taken += 400000;
    assert_true(slabs.bytes < 5 * taken / 2 + 3 * MIB);
    assert_true(slabs.bytes < taken + 70 * MIB);
  }
  int slab_count = 0;
  for (int i = 1; i < 400; i++) slab_count += memory[i] - memory[i - 1] != 400000;
  assert_true(slab_count < 16);
  for (int i = 0; i < 400; i++) ord_slabs_release(&slabs, memory[i]);
  assert_null(slabs.first);
}

static void test_a_slab_goes_with_its_last_piece(void **state) {
  (void)state;
  ord_slabs slabs = {0};
  unsigned char *small = take(&slabs, 64);
  const size_t before = slabs.bytes;
  unsigned char *large = take(&slabs, 5 * MIB), *behind = take(&slabs, 900000);
  assert_int_equal((uintptr_t)large % ORD_LARGE_PAGE_BYTES, 0);
  assert_int_equal(slabs.bytes, before + 6 * MIB);
  assert_ptr_equal(behind, large + 5 * MIB); /* what large pieces leave of their last page is of use */
  ord_slabs_release(&slabs, large);
  assert_int_equal(slabs.bytes, before + 6 * MIB);
  ord_slabs_release(&slabs, behind);
  assert_int_equal(slabs.bytes, before);
  ord_slabs_release(&slabs, NULL);
  ord_slabs_release(&slabs, small);
  assert_int_equal(slabs.bytes, 0);
}

static bool is_resident(unsigned char *memory) {
  const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
  unsigned char is_there = 0;
  assert_int_equal(mincore(memory - (uintptr_t)memory % page_bytes, 1, &is_there), 0);
  return is_there & 1;
}

static void test_what_is_released_costs_nothing(void **state) {
  (void)state;
  ord_slabs slabs = {0};
  unsigned char *large = take(&slabs, 8 * MIB - 100), *behind = take(&slabs, 64);
  memset(large, 1, 8 * MIB - 100);
  assert_true(is_resident(large + MIB));
  ord_slabs_release(&slabs, large);
  assert_false(is_resident(large + MIB));
  assert_false(is_resident(large + 5 * MIB));
  assert_ptr_equal(take(&slabs, 7 * MIB), large); /* the last page still held something */
  ord_slabs_release(&slabs, large);
  ord_slabs_release(&slabs, behind);
  assert_null(slabs.first);
}

static void test_too_much(void **state) {
  (void)state;
  ord_slabs slabs = {0};
  static const size_t too_much[] = {SIZE_MAX, SIZE_MAX - 100, SIZE_MAX / 2 + 1, SIZE_MAX / 2, (size_t)1 << 50};
  for (size_t i = 0; i < sizeof too_much / sizeof *too_much; i++) {
    assert_null(ord_slabs_take(&slabs, too_much[i]));
    assert_null(slabs.first);
    assert_int_equal(slabs.bytes, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_apart_and_zeroed_in_any_order),
      cmocka_unit_test(test_small_pieces_lie_behind_one_another),
      cmocka_unit_test(test_slabs_grow_with_what_is_in_them),
      cmocka_unit_test(test_a_slab_goes_with_its_last_piece),
      cmocka_unit_test(test_what_is_released_costs_nothing),
      cmocka_unit_test(test_too_much),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
