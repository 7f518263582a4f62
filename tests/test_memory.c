/* SPDX-License-Identifier: MIT
 *
 * The memory planner: what lives together lies apart, what does not may share, and nothing is wasted in the cases that
 * count.
 */
#include "graph_fixture.h"

static bool overlap(const ord_memory_item *a, const ord_memory_item *b) {
  const bool in_time = a->first <= b->last && b->first <= a->last;
  return in_time && a->bytes && b->bytes && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

static void check(const ord_memory_item *item, uint32_t count, size_t bytes) {
  for (uint32_t i = 0; i < count; i++) {
    assert_int_equal(item[i].offset % 64, 0);
    assert_true(item[i].offset + item[i].bytes <= bytes);
    for (uint32_t other = 0; other < i; other++)
      if (overlap(&item[i], &item[other])) fail_msg("items %u and %u overlap", other, i);
  }
}

static void rows_are_placed(void **state) {
  (void)state;
  static const struct {
    const char *about;
    ord_memory_item item[5];
    uint32_t count;
    size_t wanted;
  } row[] = {
      {"nothing", {{0}}, 0, 0},
      {"a chain of two alive at a time", {{64, 0, 1, 0}, {64, 1, 2, 0}, {64, 2, 3, 0}, {64, 3, 4, 0}}, 4, 128},
      {"all at once", {{100, 0, 4, 0}, {1, 0, 4, 0}, {64, 0, 4, 0}}, 3, 128 + 64 + 64},
      {"never together", {{1000, 0, 0, 0}, {64, 1, 1, 0}, {640, 2, 2, 0}}, 3, 1024},
      {"small ones share the gap above a large one",
       {{640, 0, 9, 0}, {64, 0, 2, 0}, {64, 3, 5, 0}, {64, 6, 9, 0}},
       4,
       704},
      {"nothing needs no room", {{0, 0, 9, 0}, {64, 0, 9, 0}, {0, 3, 4, 0}}, 3, 64},
      {"a gap between two", {{128, 0, 5, 0}, {128, 0, 1, 0}, {128, 0, 5, 0}, {64, 2, 5, 0}, {64, 2, 5, 0}}, 5, 384},
  };
  for (size_t r = 0; r < sizeof row / sizeof *row; r++) {
    ord_memory_item item[5];
    size_t bytes = 1;
    memcpy(item, row[r].item, sizeof item);
    MUST(ord_memory_place(item, row[r].count, &bytes, &err));
    check(item, row[r].count, bytes);
    if (bytes != row[r].wanted) fail_msg("%s: %zu bytes", row[r].about, bytes);
  }
}

static void many_items_never_overlap(void **state) {
  (void)state;
  enum { COUNT = 300 };
  static ord_memory_item item[COUNT], again[COUNT];
  uint32_t random = 1;
  size_t most = 0, bytes, same;
  for (uint32_t i = 0; i < COUNT; i++) {
    random = random * 1664525u + 1013904223u;
    item[i] = (ord_memory_item){.bytes = random >> 20, .first = random >> 8 & 127};
    item[i].last = item[i].first + (random >> 4 & 15);
  }
  memcpy(again, item, sizeof again);
  MUST(ord_memory_place(item, COUNT, &bytes, &err));
  MUST(ord_memory_place(again, COUNT, &same, &err));
  check(item, COUNT, bytes);
  assert_memory_equal(item, again, sizeof item);
  for (uint32_t at = 0; at < 150; at++) {
    size_t alive = 0;
    for (uint32_t i = 0; i < COUNT; i++)
      if (item[i].first <= at && at <= item[i].last) alive += (item[i].bytes + 63) / 64 * 64;
    if (alive > most) most = alive;
  }
  assert_true(bytes < most + most / 5); /* near what is alive at once */
}

/* As if each were held against all that were placed before it. */
static void each_lies_in_the_lowest_gap(void **state) {
  (void)state;
  enum { COUNT = 700 };
  static ord_memory_item item[COUNT];
  uint32_t random = 7;
  size_t bytes;
  for (uint32_t i = 0; i < COUNT; i++) {
    random = random * 1664525u + 1013904223u;
    item[i] = (ord_memory_item){.bytes = 64 * (COUNT - i), .first = random >> 8 & 255}; /* placed in this order */
    item[i].last = item[i].first + (random >> 4 & (i % 9 ? 7 : 255));
  }
  MUST(ord_memory_place(item, COUNT, &bytes, &err));
  check(item, COUNT, bytes);
  for (uint32_t i = 0; i < COUNT; i++) {
    ord_memory_item lower = item[i]; /* only the ends of others are worth a look */
    for (uint32_t other = 0; other <= i; other++) {
      lower.offset = other < i ? item[other].offset + item[other].bytes : 0;
      bool is_free = lower.offset < item[i].offset;
      for (uint32_t k = 0; k < i && is_free; k++) is_free = !overlap(&lower, &item[k]);
      if (is_free) fail_msg("item %u lies at %zu, %zu is free", i, item[i].offset, lower.offset);
    }
  }
}

static void too_much_is_an_error(void **state) {
  (void)state;
  ord_memory_item item[] = {{SIZE_MAX - 10, 0, 1, 0}, {SIZE_MAX / 2, 0, 1, 0}};
  size_t bytes;
  MUST_FAIL(ord_memory_place(item, 2, &bytes, &err), "more bytes than");
  assert_int_equal(err.code, ORD_NO_MEMORY);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_are_placed),
      cmocka_unit_test(many_items_never_overlap),
      cmocka_unit_test(each_lies_in_the_lowest_gap),
      cmocka_unit_test(too_much_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
