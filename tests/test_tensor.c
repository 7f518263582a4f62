/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "runtime/tensor.h"

static void test_types(void **state) {
  (void)state;
  static const struct {
    ord_dtype dtype;
    const char *name;
    uint16_t elements, bytes;
  } row[] = {{ORD_F32, "f32", 1, 4},    {ORD_F16, "f16", 1, 2},     {ORD_BF16, "bf16", 1, 2},
             {ORD_I8, "i8", 1, 1},      {ORD_I32, "i32", 1, 4},     {ORD_I64, "i64", 1, 8},
             {ORD_BOOL, "bool", 1, 1},  {ORD_Q8_0, "q8_0", 32, 34}, {ORD_Q4_0, "q4_0", 32, 18},
             {ORD_Q4_1, "q4_1", 32, 20}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    const ord_dtype_info *info = ord_dtype_get(row[i].dtype);
    assert_non_null(info);
    assert_string_equal(info->name, row[i].name);
    assert_int_equal(info->block_elements, row[i].elements);
    assert_int_equal(info->block_bytes, row[i].bytes);
    assert_int_equal(ord_dtype_find(row[i].name), row[i].dtype);
    assert_string_equal(ord_dtype_name(row[i].dtype), row[i].name);
  }
  assert_null(ord_dtype_get(0));
  assert_null(ord_dtype_get(999));
  assert_int_equal(ord_dtype_find("float"), 0);
  assert_string_equal(ord_dtype_name(999), "?");
}

static void test_computes(void **state) {
  (void)state;
  static const struct {
    uint32_t type;
    const char *name;
    double half_step;
    bool is_on_cpu;
  } row[] = {{ORD_F32, "f32", 0x1p-24, true},
             {ORD_BF16, "bf16", 0x1p-8, true},
             {ORD_I8, "int8", 0x1p-7, true},
             {ORD_TF32, "tf32", 0x1p-11, false},
             {ORD_F16, "f16", 0x1p-11, false}};
  const char *const *of_cpu = ord_compute_names(false);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    assert_int_equal(ord_compute_find(row[i].name), row[i].type);
    assert_string_equal(ord_compute_name(row[i].type), row[i].name);
    assert_string_equal(ord_compute_names(true)[i], row[i].name);
    if (row[i].is_on_cpu) assert_string_equal(*of_cpu++, row[i].name);
    assert_true(ord_compute_is_served(row[i].type, true));
    assert_int_equal(ord_compute_is_served(row[i].type, false), row[i].is_on_cpu);
    assert_true(ord_half_step(row[i].type) == row[i].half_step);
    assert_true(ord_compute_half_step(row[i].type) == (row[i].type == ORD_F32 ? 0 : row[i].half_step));
  }
  assert_null(ord_compute_names(true)[sizeof row / sizeof *row]);
  assert_null(*of_cpu);
  assert_int_equal(ord_compute_find("i64"), 0);
  assert_string_equal(ord_compute_name(ORD_I64), "?");
  assert_false(ord_compute_is_served(ORD_I64, true));
  assert_true(ord_half_step(ORD_I64) == 0);
}

static void test_bytes(void **state) {
  (void)state;
  static const struct {
    ord_dtype dtype;
    uint32_t rank;
    int64_t dim[3];
    bool fits;
    size_t bytes;
  } row[] = {
      {ORD_F32, 0, {0}, true, 4},
      {ORD_F32, 2, {3, 5}, true, 60},
      {ORD_BF16, 3, {2, 3, 4}, true, 48},
      {ORD_Q4_1, 2, {3, 64}, true, 120},
      {ORD_Q4_1, 2, {3, 65}, false, 0},
      {ORD_Q4_1, 0, {0}, false, 0},
      {ORD_F32, 2, {0, 5}, true, 0},
      {ORD_F32, 2, {-1, 5}, false, 0},
      {ORD_F32, 2, {5, -1}, false, 0},
      {999, 1, {5}, false, 0},
      {ORD_F32, 3, {INT64_C(1) << 31, INT64_C(1) << 31, 4}, false, 0},
      {ORD_F32, 1, {INT64_MAX}, false, 0},
      {ORD_I8, 1, {INT64_MAX}, true, INT64_MAX},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    size_t bytes = 0;
    assert_int_equal(ord_tensor_bytes(row[i].dtype, row[i].rank, row[i].dim, &bytes), row[i].fits);
    if (row[i].fits) assert_int_equal(bytes, row[i].bytes);
  }
  size_t out;
  assert_false(ord_size_multiply(SIZE_MAX, 2, &out));
  assert_false(ord_size_add(SIZE_MAX, 1, &out));
  assert_true(ord_size_add(SIZE_MAX - 1, 1, &out));
}

static void test_strides(void **state) {
  (void)state;
  int64_t stride[3];
  ord_tensor_strides(ORD_F32, 3, (const int64_t[]){2, 3, 5}, stride);
  assert_memory_equal(stride, ((const int64_t[]){60, 20, 4}), sizeof stride);
  ord_tensor_strides(ORD_Q4_1, 3, (const int64_t[]){2, 3, 64}, stride);
  assert_memory_equal(stride, ((const int64_t[]){120, 40, 20}), sizeof stride);
}

/* The transpose of [2, 3] as a view, there and back. */
static void test_strided_copies(void **state) {
  (void)state;
  const float stored[6] = {0, 1, 2, 3, 4, 5};
  const float transposed[6] = {0, 3, 1, 4, 2, 5};
  const int64_t dim[2] = {3, 2}, stride[2] = {4, 12};
  float dense[6] = {0}, back[6] = {0};
  ord_tensor_pack(ORD_F32, 2, dim, stride, stored, dense);
  assert_memory_equal(dense, transposed, sizeof dense);
  ord_tensor_unpack(ORD_F32, 2, dim, stride, dense, back);
  assert_memory_equal(back, stored, sizeof back);

  int16_t scalar = 0;
  ord_tensor_pack(ORD_F16, 0, NULL, NULL, &(int16_t){77}, &scalar);
  assert_int_equal(scalar, 77);

  /* Rows with a gap behind each: the inner axis is dense, the outer is not. */
  const int32_t gaps[8] = {1, 2, 3, -1, 4, 5, 6, -1};
  int32_t rows[6];
  ord_tensor_pack(ORD_I32, 2, (const int64_t[]){2, 3}, (const int64_t[]){16, 4}, gaps, rows);
  assert_memory_equal(rows, ((const int32_t[]){1, 2, 3, 4, 5, 6}), sizeof rows);
  ord_tensor_pack(ORD_I32, 2, (const int64_t[]){0, 3}, (const int64_t[]){16, 4}, gaps, rows);
  assert_int_equal(rows[0], 1);
}

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* Every f16 survives the way through f32; NaN stays NaN. */
static void test_f16_round_trip(void **state) {
  (void)state;
  for (uint32_t half = 0; half <= UINT16_MAX; half++) {
    const float value = ord_f16_to_f32((uint16_t)half);
    const uint16_t back = ord_f16_from_f32(value);
    if (isnan(value))
      assert_true((back & 0x7c00u) == 0x7c00u && (back & 0x3ffu));
    else
      assert_int_equal(back, half);
  }
}

static void test_rounding_to_f16(void **state) {
  (void)state;
  static const struct {
    float value;
    uint16_t half;
  } row[] = {
      {1.0f, 0x3c00},
      {-2.0f, 0xc000},
      {65504.0f, 0x7bff},
      {65519.99f, 0x7bff},
      {65520.0f, 0x7c00},
      {-1e30f, 0xfc00},
      {INFINITY, 0x7c00},
      {0x1p-24f, 0x0001},
      {0x1p-25f, 0x0000},
      {0x1.8p-24f, 0x0002}, /* ties go to even */
      {0x1.000002p-25f, 0x0001},
      {0x1.004p0f, 0x3c01},
      {0x1.002p0f, 0x3c00},
      {0x1.006p0f, 0x3c02},
      {0x1.ff8p-15f, 0x03ff},
      {0x1.ffcp-15f, 0x0400},
      {-0.0f, 0x8000},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) assert_int_equal(ord_f16_from_f32(row[i].value), row[i].half);
}

static void test_bf16(void **state) {
  (void)state;
  static const struct {
    float value;
    uint16_t bits;
  } row[] = {
      {1.0f, 0x3f80},        {0x1.01p0f, 0x3f80}, {0x1.03p0f, 0x3f82}, /* ties go to even */
      {0x1.0101p0f, 0x3f81}, {3.4e38f, 0x7f80},   {-INFINITY, 0xff80},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) assert_int_equal(ord_bf16_from_f32(row[i].value), row[i].bits);
  for (uint32_t bits = 0; bits <= UINT16_MAX; bits++) {
    const float value = ord_bf16_to_f32((uint16_t)bits);
    if (isnan(value))
      assert_true(isnan(ord_bf16_to_f32(ord_bf16_from_f32(value))));
    else
      assert_int_equal(ord_bf16_from_f32(value), bits);
  }
  float narrow_nan;
  memcpy(&narrow_nan, &(uint32_t){0x7f800001u}, sizeof narrow_nan); /* its set bit lies in what is cut off */
  assert_true(isnan(ord_bf16_to_f32(ord_bf16_from_f32(narrow_nan))));
  assert_true(isnan(ord_f16_to_f32(ord_f16_from_f32(narrow_nan))));
}

static void test_convert(void **state) {
  (void)state;
  const float numbers[3] = {1.5f, -0.25f, 1024.0f};
  uint16_t half[3], brain[3];
  float back[3];
  assert_true(ord_convert(ORD_F32, numbers, ORD_F16, half, 3));
  assert_true(ord_convert(ORD_F16, half, ORD_BF16, brain, 3));
  assert_true(ord_convert(ORD_BF16, brain, ORD_F32, back, 3));
  assert_memory_equal(back, numbers, sizeof back);
  assert_true(ord_convert(ORD_F32, numbers, ORD_F32, back, 3));
  assert_int_equal(bits_of(back[2]), bits_of(1024.0f));
  assert_false(ord_convert(ORD_I8, numbers, ORD_F32, back, 3));
  assert_false(ord_convert(ORD_F32, numbers, ORD_Q4_0, back, 3));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_types),           cmocka_unit_test(test_computes),
      cmocka_unit_test(test_bytes),           cmocka_unit_test(test_strides),
      cmocka_unit_test(test_strided_copies),  cmocka_unit_test(test_f16_round_trip),
      cmocka_unit_test(test_rounding_to_f16), cmocka_unit_test(test_bf16),
      cmocka_unit_test(test_convert),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
