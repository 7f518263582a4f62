/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "runtime/arena.h"

static void test_takes_are_aligned_zeroed_and_apart(void **state) {
  (void)state;
  static const size_t bytes[] = {1, 0, 15, 16, 17, 100, 5000, 3, 300000, 1 << 20, 8, 4096};
  enum { COUNT = sizeof bytes / sizeof *bytes };
  ord_arena arena = {0};
  unsigned char *taken[COUNT];
  for (size_t i = 0; i < COUNT; i++) {
    taken[i] = ord_arena_take(&arena, bytes[i], 1);
    assert_non_null(taken[i]);
    assert_int_equal((uintptr_t)taken[i] % 16, 0);
    for (size_t at = 0; at < bytes[i]; at++) assert_int_equal(taken[i][at], 0);
    memset(taken[i], (int)i + 1, bytes[i]);
  }
  for (size_t i = 0; i < COUNT; i++)
    for (size_t at = 0; at < bytes[i]; at++) assert_int_equal(taken[i][at], i + 1);
  ord_arena_finish(&arena);
  assert_null(arena.block);
  ord_arena_finish(&arena);
}

static void test_sizes_that_overflow(void **state) {
  (void)state;
  static const size_t row[][2] = {{SIZE_MAX, 1}, {SIZE_MAX / 2, 3}, {SIZE_MAX - 16, 1}, {SIZE_MAX - 40, 1}};
  ord_arena arena = {0};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) assert_null(ord_arena_take(&arena, row[i][0], row[i][1]));
  assert_null(ord_arena_text_n(&arena, "x", SIZE_MAX));
  assert_non_null(ord_arena_take(&arena, 1, 1));
  ord_arena_finish(&arena);
}

static void test_copies(void **state) {
  (void)state;
  ord_arena arena = {0};
  const int32_t numbers[] = {1, 2, 3};
  assert_string_equal(ord_arena_text(&arena, "warp"), "warp");
  assert_string_equal(ord_arena_text_n(&arena, "warping", 4), "warp");
  assert_string_equal(ord_arena_text_n(&arena, NULL, 0), "");
  assert_string_equal(ord_arena_format(&arena, "%s-%d", "layer", 12), "layer-12");
  assert_memory_equal(ord_arena_copy(&arena, numbers, 3, sizeof *numbers), numbers, sizeof numbers);
  assert_non_null(ord_arena_copy(&arena, NULL, 0, 4));
  ord_arena_finish(&arena);
}

static void test_growing_keeps_what_is_there(void **state) {
  (void)state;
  ord_arena arena = {0};
  uint64_t *items = NULL;
  uint32_t capacity = 0;
  for (uint32_t i = 0; i < 1000; i++) {
    assert_true(ord_arena_grow(&arena, &items, &capacity, i + 1, sizeof *items));
    items[i] = i * i;
  }
  assert_in_range(capacity, 1000, 2000);
  for (uint64_t i = 0; i < 1000; i++) assert_int_equal(items[i], i * i);

  uint64_t *before = items;
  const uint32_t capacity_before = capacity;
  assert_false(ord_arena_grow(&arena, &items, &capacity, UINT32_MAX, SIZE_MAX / 2));
  assert_ptr_equal(items, before);
  assert_int_equal(capacity, capacity_before);
  ord_arena_finish(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_takes_are_aligned_zeroed_and_apart),
      cmocka_unit_test(test_sizes_that_overflow),
      cmocka_unit_test(test_copies),
      cmocka_unit_test(test_growing_keeps_what_is_there),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
