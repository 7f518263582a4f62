/* SPDX-License-Identifier: MIT */
#include <math.h>

#include "weight_fixture.h"

enum { VECTOR, MATRIX, SAME_SHAPE, WEIGHT_COUNT, COUNT = 64 * 1024 };

/* A graph needs no more than its weights here. */
static ord_graph_weight weights[WEIGHT_COUNT] = {
    [VECTOR] = {.name = "norm", .stored_rank = 1, .stored_dim = {COUNT}},
    [MATRIX] = {.name = "wq", .stored_rank = 2, .stored_dim = {64, 1024}},
    [SAME_SHAPE] = {.name = "wk", .stored_rank = 2, .stored_dim = {64, 1024}},
};
static const ord_graph graph = {.weight = weights, .weight_count = WEIGHT_COUNT};

static float *read_numbers(uint64_t seed, uint32_t weight) {
  ord_weight_source source;
  ord_error err;
  float *numbers = malloc(COUNT * sizeof *numbers);
  assert_non_null(numbers);
  MUST(ord_random_source(&graph, seed, &source, &err));
  const ord_weight_stored stored = source.stored(source.context, weight);
  assert_int_equal(stored.dtype, ORD_F32);
  assert_int_equal(stored.bytes, COUNT * sizeof *numbers);
  assert_int_equal(stored.scale_bytes, 0);
  MUST(source.read(source.context, weight, 0, stored.bytes, numbers, &err));
  source.destroy(source.context);
  return numbers;
}

static void test_the_numbers_are_normal(void **state) {
  (void)state;
  for (uint32_t weight = 0; weight < WEIGHT_COUNT; weight++) {
    float *numbers = read_numbers(7, weight);
    const double mean_wanted = weight == VECTOR ? 1 : 0;
    double sum = 0, squares = 0;
    uint32_t inside = 0;
    for (int i = 0; i < COUNT; i++) {
      const double off = numbers[i] - mean_wanted;
      sum += off;
      squares += off * off;
      inside += fabs(off) < 0.02;
    }
    assert_true(fabs(sum / COUNT) < 0.0005);
    assert_true(fabs(sqrt(squares / COUNT) - 0.02) < 0.0003);
    assert_true(fabs((double)inside / COUNT - 0.683) < 0.02); /* within one deviation */
    free(numbers);
  }
}

/* Written down once: a change of these bits would change every result made from a seed. */
static void test_the_numbers_are_the_same_everywhere(void **state) {
  (void)state;
  static const uint32_t wanted[4] = {0x3b72cb1d, 0x3c9f19b8, 0xbc4af242, 0x3c23409a};
  float *numbers = read_numbers(1, MATRIX);
  uint32_t bits[4];
  memcpy(bits, numbers, sizeof bits);
  for (int i = 0; i < 4; i++) assert_int_equal(bits[i], wanted[i]);
  free(numbers);
}

static void test_seed_and_name_matter(void **state) {
  (void)state;
  float *one = read_numbers(1, MATRIX), *other_seed = read_numbers(2, MATRIX),
        *other_name = read_numbers(1, SAME_SHAPE);
  uint32_t same_seed = 0, same_name = 0;
  for (int i = 0; i < COUNT; i++) {
    same_seed += one[i] == other_seed[i];
    same_name += one[i] == other_name[i];
  }
  assert_true(same_seed < COUNT / 100 && same_name < COUNT / 100);
  free(one);
  free(other_seed);
  free(other_name);
}

static void test_any_range_gives_the_same_bytes(void **state) {
  (void)state;
  static const size_t range[][2] = {{0, 1},        {1, 2}, {3, 6}, {5, 4}, {4, 4}, {17, 1000}, {COUNT * 4 - 3, 3},
                                    {COUNT * 4, 0}};
  ord_weight_source source;
  ord_error err;
  float *numbers = read_numbers(3, MATRIX);
  MUST(ord_random_source(&graph, 3, &source, &err));
  unsigned char part[1000];
  for (size_t i = 0; i < sizeof range / sizeof *range; i++) {
    MUST(source.read(source.context, MATRIX, range[i][0], range[i][1], part, &err));
    assert_memory_equal(part, (const char *)numbers + range[i][0], range[i][1]);
  }
  MUST_FAIL(source.read(source.context, MATRIX, COUNT * 4, 1, part, &err), "asked for");
  MUST_FAIL(source.read(source.context, MATRIX, SIZE_MAX, 2, part, &err), "asked for");
  MUST_FAIL(source.read_scale(source.context, MATRIX, part, &err), "has no scales");
  source.destroy(source.context);
  free(numbers);
}

static void test_a_weight_too_large(void **state) {
  (void)state;
  ord_graph_weight weight = {.name = "vast", .stored_rank = 2, .stored_dim = {INT64_MAX, 4}};
  const ord_graph vast = {.weight = &weight, .weight_count = 1};
  ord_weight_source source;
  ord_error err;
  MUST_FAIL(ord_random_source(&vast, 1, &source, &err), "weight 'vast' is too large");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_the_numbers_are_normal), cmocka_unit_test(test_the_numbers_are_the_same_everywhere),
      cmocka_unit_test(test_seed_and_name_matter),   cmocka_unit_test(test_any_range_gives_the_same_bytes),
      cmocka_unit_test(test_a_weight_too_large),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
