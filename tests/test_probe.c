/* SPDX-License-Identifier: MIT
 *
 * The probes: every byte is read, every product is made, whatever instructions the machine has. How fast is no matter
 * here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device.h"
#include "runtime/probe_code.h"

static uint64_t features_of_this_machine(void) {
  ord_error err = ORD_ERROR_INIT;
  ord_device *device = NULL;
  if (!ord_device_cpu_create(1, NULL, &device, NULL, &err)) fail_msg("%s", err.text);
  const uint64_t features = device->info.features;
  device->table->destroy(device);
  return features;
}

static const uint64_t levels[] = {0, ORD_CPU_AVX2, ORD_CPU_AVX2 | ORD_CPU_AVX512};

static void every_byte_is_read_once(void **state) {
  (void)state;
  enum { PIECES = 24, WORDS = PIECES * ORD_READ_CODE_BYTES / 8 };
  const uint64_t features = features_of_this_machine();
  uint64_t *memory = aligned_alloc(64, sizeof(uint64_t) * WORDS), wanted = 0;
  assert_non_null(memory);
  for (uint64_t i = 0; i < WORDS; i++) {
    memory[i] = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    wanted ^= memory[i];
  }
  for (size_t level = 0; level < sizeof levels / sizeof *levels; level++)
    for (uint32_t streams = 1; streams <= 4; streams *= 2) {
      const ord_read_code_fn code = ord_read_code_choose(levels[level] & features);
      assert_int_equal(code((const unsigned char *)memory, PIECES / streams, streams), wanted);
    }
  free(memory);
}

/* Each chain is x = x * a + b, or a sum that grows by the same in every round: what comes out is known. */
static void every_product_is_made(void **state) {
  (void)state;
  enum { ROUNDS = 64 };
  static const struct {
    const char *name;
    double result;
  } row[] = {
      {"f32 4 wide", 12 * (2 + 8.0 / 3 + 6 + 16.0 / 3)},
      {"avx2 fma", 12 * 2},
      {"avx512 fma", 12 * 2},
      {"avx512_bf16 vdpbf16ps", 66 + 12 * ROUNDS * 2 * 0.5 * 0.03125},
      {"avx512_vnni vpdpbusd", 16 * (66 + 12 * ROUNDS * 4 * 3 * 2)},
  };
  const uint64_t features = features_of_this_machine();
  for (uint32_t i = 0; i < ord_peak_code_count; i++) {
    const ord_peak_code *code = &ord_peak_codes[i];
    if (code->features & ~features) continue;
    const double found = (double)code->run(ROUNDS);
    assert_true(isfinite(found));
    assert_true(code->operations > 0);
    for (size_t k = 0; k < sizeof row / sizeof *row; k++)
      if (strcmp(row[k].name, code->name) == 0 && fabs(found - row[k].result) > 1e-4 * row[k].result)
        fail_msg("%s makes %g; wanted %g", code->name, found, row[k].result);
  }
}

/* x86-64 always has. */
static bool has_int8_for_all(void) {
  for (uint32_t i = 0; i < ord_peak_code_count; i++)
    if (ord_peak_codes[i].compute == ORD_I8 && !ord_peak_codes[i].features) return true;
  return false;
}

static void a_type_without_instructions_falls_to_f32(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  ord_pool *pool = NULL;
  assert_true(ord_pool_create(2, &pool, NULL, &err));
  static const ord_dtype types[] = {ORD_F32, ORD_BF16, ORD_I8};
  for (size_t i = 0; i < 3; i++) {
    const ord_peak peak = ord_peak_run(pool, 0, types[i]);
    assert_string_equal(peak.code, types[i] == ORD_I8 && has_int8_for_all() ? "sse2 pmaddwd" : "f32 4 wide");
    assert_true(peak.operations_per_s > 0);
  }
  ord_pool_destroy(pool);
}

static void reads_of_all_patterns(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  ord_pool *pool = NULL;
  ord_read_probe *probe = NULL;
  assert_true(ord_pool_create(2, &pool, NULL, &err));
  assert_true(ord_read_probe_create(5 << 20, &probe, &err));
  uint32_t count = 0;
  for (const ord_read_pattern *pattern; (pattern = ord_read_pattern_get(count)) != NULL; count++)
    assert_true(ord_read_probe_run(probe, pool, features_of_this_machine(), pattern) > 0);
  assert_true(count >= 3);
  ord_read_probe_destroy(probe);
  ord_read_probe_destroy(NULL);
  assert_false(ord_read_probe_create(SIZE_MAX / 4, &probe, &err));
  assert_int_equal(err.code, ORD_NO_MEMORY);
  assert_null(probe);
  ord_pool_destroy(pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_byte_is_read_once),
      cmocka_unit_test(every_product_is_made),
      cmocka_unit_test(a_type_without_instructions_falls_to_f32),
      cmocka_unit_test(reads_of_all_patterns),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
