/* SPDX-License-Identifier: MIT
 *
 * Which weights plugin cublas packs, and into what; neither asking nor packing needs a device.
 */
#include <math.h>

#include "cublas_node.h"
#include "must.h"
#include "runtime/plugin.h"

static const ord_kernel *load_kernel(ord_registry **registry) {
  ord_error err = ORD_ERROR_INIT;
  MUST(ord_registry_create(NULL, NULL, registry, &err));
  MUST(ord_registry_load(*registry, CUBLAS_PLUGIN, &err));
  return ord_registry_get(*registry, 0)->plugin->kernel[0];
}

static void test_views_of_weights(void **state) {
  (void)state;
  ord_registry *registry = NULL;
  const ord_kernel *kernel = load_kernel(&registry);
  ord_operand operand[OPERANDS];
  ord_pack pack[OPERANDS] = {{0, 0, 0}};
  set_operands(operand);
  const ord_node node = node_of(operand, ORD_BF16);
  ord_answer answer = {.struct_size = sizeof answer, .pack = pack};
  assert_int_equal(kernel->query(kernel, &node, &answer), ORD_OK);
  assert_int_equal(pack[WEIGHT].key, 0);
  operand[WEIGHT].dtype = ORD_F16; /* never packed, so it would have to be bf16 */
  assert_int_equal(kernel->query(kernel, &node, &answer), ORD_NO);
  assert_non_null(strstr(answer.reason, "weight is a view"));
  set_operands(operand);
  operand[BIAS].stride[0] = 8;
  assert_int_equal(kernel->query(kernel, &node, &answer), ORD_NO);
  assert_non_null(strstr(answer.reason, "bias"));
  ord_registry_destroy(registry);
}

/* f32 [3, 3] in one segment of one row and one of two, each row 20 bytes, into bf16. */
static void test_packing(void **state) {
  (void)state;
  enum { COLUMNS = 3, LENGTH = 3, STRIDE = 5, PACKED = 8 };
  static const float first[STRIDE] = {1.00390625f, 1.01171875f, -2.0f, 9.0f, 9.0f}; /* halfway: to even */
  static const float rest[2 * STRIDE] = {1.0041f, 0x1p-130f, 3e38f, 9, 9, INFINITY, NAN, 0.0f, 9, 9};
  static const uint16_t wanted[COLUMNS][PACKED] = {
      {0x3f80, 0x3f82, 0xc000}, {0x3f81, 0x0008, 0x7f62}, {0x7f80, 0x7fc0, 0x0000}};
  static const ord_segment segments[] = {{1, 1}, {2, 2}};
  const void *const data[] = {first, rest};
  uint16_t packed[COLUMNS][PACKED];
  ord_registry *registry = NULL;
  const ord_kernel *kernel = load_kernel(&registry);
  ord_operand operand[OPERANDS];
  ord_pack pack[OPERANDS] = {{0, 0, 0}};
  set_operands(operand);
  set_operand(&operand[IN], "in", ORD_INPUT, ORD_F32, 1, LENGTH);
  set_operand(&operand[WEIGHT], "weight", ORD_WEIGHT, ORD_F32, COLUMNS, LENGTH);
  set_operand(&operand[BIAS], "bias", ORD_WEIGHT, ORD_F16, COLUMNS, 0);
  set_operand(&operand[OUT], "out", ORD_OUTPUT, ORD_F32, 1, COLUMNS);
  operand[WEIGHT].stride[0] = STRIDE * sizeof(float);
  operand[WEIGHT].segment = operand[BIAS].segment = segments;
  operand[WEIGHT].segment_count = operand[BIAS].segment_count = 2;
  operand[BIAS].stride[0] = 4;
  const ord_node node = node_of(operand, ORD_BF16);
  ord_answer answer = {.struct_size = sizeof answer, .pack = pack};
  assert_int_equal(kernel->query(kernel, &node, &answer), ORD_OK);
  assert_int_equal(pack[WEIGHT].bytes, sizeof packed);
  assert_int_equal(pack[WEIGHT].group_rows, 1);
  memset(packed, 0xff, sizeof packed);
  for (uint32_t slice = 0; slice < 2; slice++)
    assert_int_equal(kernel->pack(kernel, &node, &answer, WEIGHT, data, slice, 2, packed), ORD_OK);
  assert_memory_equal(packed, wanted, sizeof packed);

  /* a bias in f16, every second number of what is stored */
  static const uint16_t bias_first[] = {0x3c00, 0}, bias_rest[] = {0x0001, 0, 0xfbff, 0}; /* 1; 2^-24, -65504 */
  const void *const bias_data[] = {bias_first, bias_rest};
  float bias[COLUMNS];
  assert_int_equal(pack[BIAS].bytes, sizeof bias);
  assert_int_equal(kernel->pack(kernel, &node, &answer, BIAS, bias_data, 0, 1, bias), ORD_OK);
  assert_true(bias[0] == 1.0f && bias[1] == 0x1p-24f && bias[2] == -65504.0f);
  ord_registry_destroy(registry);
}

/* The largest, small ones, those below the normal ones, halfway between two: to even. */
static void test_packing_f16(void **state) {
  (void)state;
  static const float numbers[8] = {1.0f, -65504.0f, 65520.0f, 0x1p-24f, 0x1.8p-12f, 0x1p-15f, 0x1.002p0f, 0x1.006p0f};
  static const uint16_t wanted[8] = {0x3c00, 0xfbff, 0x7c00, 0x0001, 0x0e00, 0x0200, 0x3c00, 0x3c02};
  static const ord_segment segment = {1, 1};
  const void *const data[] = {numbers};
  uint16_t packed[8];
  ord_registry *registry = NULL;
  const ord_kernel *kernel = load_kernel(&registry);
  ord_operand operand[OPERANDS];
  ord_pack pack[OPERANDS] = {{0, 0, 0}};
  set_operands(operand);
  set_operand(&operand[IN], "in", ORD_INPUT, ORD_F32, 1, 8);
  set_operand(&operand[WEIGHT], "weight", ORD_WEIGHT, ORD_F32, 1, 8);
  set_operand(&operand[OUT], "out", ORD_OUTPUT, ORD_F32, 1, 1);
  operand[BIAS].role = ORD_ABSENT;
  operand[WEIGHT].segment = &segment;
  operand[WEIGHT].segment_count = 1;
  const ord_node node = node_of(operand, ORD_F16);
  ord_answer answer = {.struct_size = sizeof answer, .pack = pack};
  assert_int_equal(kernel->query(kernel, &node, &answer), ORD_OK);
  assert_int_equal(kernel->pack(kernel, &node, &answer, WEIGHT, data, 0, 1, packed), ORD_OK);
  assert_memory_equal(packed, wanted, sizeof packed);
  ord_registry_destroy(registry);
}

/* Which weights are used as stored: rows of whole units of 16 bytes, aligned so, one behind the other. */
static void test_weights_as_stored(void **state) {
  (void)state;
  static const ord_segment segments[] = {{16, 1}, {24, 2}};
  static const struct {
    int64_t depth, stride, number_stride;
    uint32_t align_log2, segment_count;
    bool is_stored;
  } row[] = {{72, 144, 2, 6, 1, true},  {72, 160, 2, 6, 1, true},  {72, 144, 2, 6, 2, true},
             {72, 160, 2, 6, 2, false}, {72, 144, 2, 3, 1, false}, {70, 144, 2, 6, 1, false},
             {72, 152, 2, 6, 1, false}, {72, 2, 80, 6, 1, false},  {40, 160, 4, 6, 1, false}};
  ord_registry *registry = NULL;
  const ord_kernel *kernel = load_kernel(&registry);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_operand operand[OPERANDS];
    ord_pack pack[OPERANDS] = {{0, 0, 0}};
    set_operands(operand);
    operand[IN].dim[1] = operand[WEIGHT].dim[1] = row[i].depth;
    operand[WEIGHT].role = ORD_WEIGHT;
    operand[WEIGHT].stride[0] = row[i].stride;
    operand[WEIGHT].stride[1] = row[i].number_stride;
    operand[WEIGHT].align_log2 = row[i].align_log2;
    operand[WEIGHT].segment = segments;
    operand[WEIGHT].segment_count = row[i].segment_count;
    const ord_node node = node_of(operand, ORD_BF16);
    ord_answer answer = {.struct_size = sizeof answer, .pack = pack};
    assert_int_equal(kernel->query(kernel, &node, &answer), ORD_OK);
    if ((pack[WEIGHT].key == 0) != row[i].is_stored) fail_msg("weight %zu: key %llx", i, (long long)pack[WEIGHT].key);
  }
  ord_registry_destroy(registry);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_views_of_weights),
      cmocka_unit_test(test_packing),
      cmocka_unit_test(test_packing_f16),
      cmocka_unit_test(test_weights_as_stored),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
