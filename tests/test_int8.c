/* SPDX-License-Identifier: MIT */
#include "models/int8.h"

#include <float.h>
#include <math.h>

#include "fixture.h"

static void test_rounding(void **state) {
  (void)state;
  static const struct {
    float number;
    int code;
  } row[] = {{127, 127}, {-127, -127}, {0, 0},      {0.5f, 0},     {1.5f, 2},      {2.5f, 2},
             {-0.5f, 0}, {-1.5f, -2},  {63.4f, 63}, {-63.6f, -64}, {0.499999f, 0}, {126.6f, 127}};
  const ord_weight_rows rows = {1, 1};
  const float scale = 1;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    int8_t code;
    ord_int8_encode(&rows, 0, &row[i].number, 1, &scale, &code);
    assert_int_equal(code, row[i].code);
  }
  /* Beyond the codes: the last of them. */
  const float far[2] = {1e30f, -1e30f};
  int8_t code[2];
  ord_int8_encode(&rows, 0, far, 2, &scale, code);
  assert_true(code[0] == 127 && code[1] == -127);
}

static void test_scales(void **state) {
  (void)state;
  float largest[5] = {127, 1, 0, FLT_MIN, FLT_MAX};
  ord_int8_scales(5, largest);
  assert_true(largest[0] == 1 && largest[1] == 1.0f / 127);
  assert_true(largest[2] == 1);                        /* a row of zeros */
  assert_true(largest[3] == 1);                        /* its scale would be subnormal */
  assert_true(isfinite(largest[4]) && largest[4] > 0); /* the largest numbers have one too */
}

/* Every cut into pieces gives the same, whichever axes make the rows. */
static void test_rows_and_pieces(void **state) {
  (void)state;
  enum { COUNT = 24 };
  static const ord_weight_rows shape[] = {{4, 6}, {6, 1}, {3, 2}, {1, 24}, {24, 1}};
  float number[COUNT];
  for (int i = 0; i < COUNT; i++) number[i] = (float)((i * 37 % 23) - 11);
  for (size_t s = 0; s < sizeof shape / sizeof *shape; s++) {
    float wanted[COUNT] = {0};
    for (size_t i = 0; i < COUNT; i++) {
      const uint64_t row = i / shape[s].inner % shape[s].count;
      wanted[row] = fmaxf(wanted[row], fabsf(number[i]) / 127);
    }
    for (size_t piece = 1; piece <= COUNT; piece++) {
      float scale[COUNT] = {0}, again[COUNT];
      int8_t code[COUNT];
      size_t bad;
      for (size_t at = 0; at < COUNT; at += piece)
        assert_true(ord_int8_note(&shape[s], at, number + at, at + piece > COUNT ? COUNT - at : piece, scale, &bad));
      ord_int8_scales(shape[s].count, scale);
      for (size_t at = 0; at < COUNT; at += piece) {
        const size_t count = at + piece > COUNT ? COUNT - at : piece;
        ord_int8_encode(&shape[s], at, number + at, count, scale, code + at);
        ord_int8_decode(&shape[s], at, code + at, count, scale, again + at);
      }
      for (size_t i = 0; i < COUNT; i++) {
        const float of_row = scale[i / shape[s].inner % shape[s].count];
        assert_true(wanted[i / shape[s].inner % shape[s].count] == 0 ||
                    of_row == wanted[i / shape[s].inner % shape[s].count]);
        /* Half a step, and the rounding of the product. */
        assert_true(fabsf(again[i] - number[i]) <= of_row * 0.5f * (1 + 256 * FLT_EPSILON));
        assert_true(code[i] == (int8_t)rintf(number[i] / of_row));
      }
    }
  }
}

static void test_numbers_that_are_none(void **state) {
  (void)state;
  static const float bad_number[] = {NAN, INFINITY, -INFINITY};
  const ord_weight_rows rows = {2, 2};
  for (size_t i = 0; i < 3; i++) {
    float largest[2] = {0};
    size_t bad = 9;
    assert_false(ord_int8_note(&rows, 0, (float[]){1, 2, 3, bad_number[i]}, 4, largest, &bad));
    assert_int_equal(bad, 3);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rounding),
      cmocka_unit_test(test_scales),
      cmocka_unit_test(test_rows_and_pieces),
      cmocka_unit_test(test_numbers_that_are_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
