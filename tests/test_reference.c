/* SPDX-License-Identifier: MIT
 *
 * The reference plugin and the toolkit of its kernels: one kernel per op, and single elements of every type.
 */
#include "op_testing.h"

#include "ops/reference.h"

static void test_plugin(void **state) {
  (void)state;
  assert_int_equal(ord_reference_manifest.magic, ORD_PLUGIN_MAGIC);
  assert_int_equal(ord_reference_manifest.struct_size, sizeof(ord_manifest));
  assert_string_equal(ord_reference_manifest.name, "reference");
  const ord_plugin *plugin = NULL, *again = NULL;
  ord_plugin_error err = {.struct_size = sizeof err};
  assert_int_equal(ord_reference_open(NULL, &plugin, &err), ORD_OK);
  assert_int_equal(ord_reference_open(NULL, &again, &err), ORD_OK);
  assert_ptr_equal(plugin, again);
  assert_int_equal(plugin->kernel_count, ord_op_count());
  for (uint32_t i = 0; i < plugin->kernel_count; i++) {
    const ord_kernel *kernel = plugin->kernel[i];
    char name[64];
    snprintf(name, sizeof name, "%s_reference", ord_op_get(i)->name);
    assert_string_equal(kernel->op, ord_op_get(i)->name);
    assert_string_equal(kernel->name, name);
    assert_int_equal(kernel->struct_size, sizeof *kernel);
    assert_int_equal(kernel->priority, ORD_REFERENCE_PRIORITY);
    assert_true(kernel->query && kernel->prepare && kernel->launch && kernel->retire);
  }
}

/* A reference serves every node but never counts as a kernel that fuses. */
static void test_query(void **state) {
  (void)state;
  ord_pack pack[4] = {{0}};
  ord_answer answer = {.struct_size = sizeof answer, .epilogue_served = 3, .pack = pack};
  const ord_node node = {.struct_size = sizeof node, .epilogue_count = 3};
  assert_int_equal(ord_reference_query(NULL, &node, &answer), ORD_OK);
  assert_int_equal(answer.epilogue_served, 0);
  assert_int_equal(answer.alias_mask, 0);
  assert_int_equal(answer.phase_count, 1);
  assert_int_equal(answer.chunk_limit[0], 1);
  for (int which = 0; which < 4; which++) assert_int_equal(pack[which].key, 0);
}

/* Every half and every bfloat, both ways, as runtime/tensor.c has them. */
static void test_halves(void **state) {
  (void)state;
  for (uint32_t bits = 0; bits < 65536; bits++) {
    const float half = ord_f16_to_f32((uint16_t)bits);
    const double found = ord_reference_from_half((uint16_t)bits);
    assert_true(isnan(half) ? isnan(found) : found == (double)half && !signbit(found) == !signbit(half));
    if (!isnan(half)) assert_int_equal(ord_reference_to_half((double)half), bits);
    const float bfloat = ord_bf16_to_f32((uint16_t)bits);
    if (!isnan(bfloat)) assert_int_equal(ord_reference_to_bfloat((double)bfloat), bits);
  }
  assert_true(isnan(ord_reference_from_half(ord_reference_to_half((double)NAN))));
  assert_true(isnan(ord_bf16_to_f32(ord_reference_to_bfloat((double)NAN))));
}

static void test_rounding(void **state) {
  (void)state;
  static const float value[] = {1.0f,      1.0004883f, 1.0014648f,  65519.9f,   65520.0f, 1e30f,
                                -INFINITY, 6.1e-5f,    5.96e-8f,    2.98e-8f,   2.99e-8f, 1e-30f,
                                -0.0f,     3.3895e38f, 1.00390625f, 1.01171875f};
  for (size_t i = 0; i < sizeof value / sizeof *value; i++) {
    assert_int_equal(ord_reference_to_half((double)value[i]), ord_f16_from_f32(value[i]));
    assert_int_equal(ord_reference_to_bfloat((double)value[i]), ord_bf16_from_f32(value[i]));
  }
}

static ord_reference_tensor vector(void *data, uint32_t dtype) {
  return (ord_reference_tensor){
      .data = data, .dtype = dtype, .rank = 1, .dim = {32}, .stride = {sizeof(double)}, .block_elements = 1};
}

static void test_elements(void **state) {
  (void)state;
  static const struct {
    uint32_t dtype;
    double written, read;
  } row[] = {{ORD_F32, 0.1, (double)0.1f},
             {ORD_F16, 0.1, 0.0999755859375},
             {ORD_BF16, 0.1, 0.10009765625},
             {ORD_I8, -127.6, -128},
             {ORD_I8, 300, 127},
             {ORD_I32, 2.5, 2},
             {ORD_I32, 1e12, INT32_MAX},
             {ORD_I32, -1e12, INT32_MIN},
             {ORD_I64, -9e15, -9e15},
             {ORD_I64, 1e30, (double)INT64_MAX},
             {ORD_BOOL, 3, 1},
             {ORD_BOOL, 0, 0}};
  for (size_t i = 0; i < op_testing_count(row); i++) {
    double memory[2] = {0};
    const ord_reference_tensor tensor = vector(memory, row[i].dtype);
    const int64_t index = 1;
    ord_reference_write(&tensor, &index, row[i].written);
    assert_true(ord_reference_read(&tensor, &index) == row[i].read);
    assert_true(memory[0] == 0);
  }
  double memory[2] = {0};
  const ord_reference_tensor tensor = vector(memory, ORD_I32);
  ord_reference_write(&tensor, (const int64_t[]){0}, (double)NAN);
  assert_true(ord_reference_read(&tensor, (const int64_t[]){0}) == 0);
}

/* A NaN's bits and whole numbers beyond 2^53 survive a move. */
static void test_move(void **state) {
  (void)state;
  int64_t from = INT64_C(0x7ff123456789abcd), to = 0;
  const int64_t index = 0;
  const ord_reference_tensor whole = vector(&from, ORD_I64), moved = vector(&to, ORD_I64);
  ord_reference_move(&whole, &index, &moved, &index);
  assert_int_equal(to, from);
  float number = 0;
  uint32_t bits = 0x7fc12345;
  const ord_reference_tensor nan_from = vector(&bits, ORD_F32), nan_to = vector(&number, ORD_F32);
  ord_reference_move(&nan_from, &index, &nan_to, &index);
  assert_memory_equal(&number, &bits, sizeof bits);
}

static void test_blocks(void **state) {
  (void)state;
  /* f16 2.0 is 0x4000, f16 -1.0 is 0xbc00; element 1 sits in the low, element 17 in the high half of byte 1. */
  uint8_t q8[34] = {0x00, 0x40, 0, (uint8_t)-3}, q4_0[18] = {0x00, 0x40, 0, 0xf2},
          q4_1[20] = {0x00, 0x40, 0x00, 0xbc, 0, 0xf2};
  static const int64_t low = 1, high = 17;
  ord_reference_tensor tensor = {.data = (char *)q8, .dtype = ORD_Q8_0, .rank = 1, .dim = {32}, .block_elements = 32};
  assert_true(ord_reference_read(&tensor, &low) == -6);
  tensor.data = (char *)q4_0, tensor.dtype = ORD_Q4_0;
  assert_true(ord_reference_read(&tensor, &low) == -12 && ord_reference_read(&tensor, &high) == 14);
  tensor.data = (char *)q4_1, tensor.dtype = ORD_Q4_1;
  assert_true(ord_reference_read(&tensor, &low) == 3 && ord_reference_read(&tensor, &high) == 29);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_plugin),   cmocka_unit_test(test_query),
                                     cmocka_unit_test(test_halves),   cmocka_unit_test(test_rounding),
                                     cmocka_unit_test(test_elements), cmocka_unit_test(test_move),
                                     cmocka_unit_test(test_blocks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
