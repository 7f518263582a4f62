/* SPDX-License-Identifier: MIT
 *
 * plugins/attention_flash, at every level of instructions that this machine has: the conformance rows of attention; a
 * query alone against the same query among others, bit for bit; caches; what it refuses and why.
 */
#include "runtime/device.h"
#include "tests/conformance.h"

#define FLASH ORDITO_BUILD_DIRECTORY "/lib/ordito/plugins/attention_flash.so"

/* ---- levels ---- */

static const struct {
  const char *name;
  uint64_t features;
} levels[] = {
    {"baseline", 0}, {"avx2", ORD_CPU_AVX2}, {"avx512", ORD_CPU_AVX2 | ORD_CPU_AVX512 | ORD_CPU_AVX512_BF16}};
enum { LEVEL_COUNT = sizeof levels / sizeof *levels };

static bool has_level(size_t level) {
  ord_error err = ORD_ERROR_INIT;
  uint64_t found;
  if (!ord_cpu_features("native", &found, &err)) fail_msg("%s", err.text);
  if (strcmp(levels[level].name, "avx512") == 0) return found & ORD_CPU_AVX512;
  return (found & levels[level].features) == levels[level].features;
}

static ord_device_info device_of(size_t level) {
  return (ord_device_info){.struct_size = sizeof(ord_device_info),
                           .kind = ORD_DEVICE_CPU,
                           .cores = 2,
                           .features = levels[level].features,
                           .name = levels[level].name};
}

int main(void) {
  (void)has_level;
  for (size_t level = 0; level < LEVEL_COUNT; level++) {
    if (!has_level(level)) continue;
    hand made;
    hand_open(&made, FLASH, "attention");
    const ord_device_info device = device_of(level);
    const ord_case_options options = {.device = &device};
    const ord_op *op = ord_op_find("attention");
    int n = 0, refused = 0;
    for (const ord_case *row = op->cases; row->operands; row++) {
      ord_error err = ORD_ERROR_INIT;
      ord_case_result result;
      if (!ord_case_run(op, row, made.kernel, &options, &result, &err)) printf("ERR %s %s: %s\n", row->operands, row->attributes, err.text);
      else if (result.verdict == ORD_CASE_FAILED) printf("FAIL %s %s: %s\n", row->operands, row->attributes, result.text);
      else if (result.verdict == ORD_CASE_REFUSED) refused++, printf("refused %s %s: %s\n", row->operands, row->attributes, result.text);
      else n++;
      if (result.error > 0.3) printf("err %g %s %s\n", result.error, row->operands, row->attributes);
    }
    printf("%s %d passed %d refused\n", levels[level].name, n, refused);
  }
}
