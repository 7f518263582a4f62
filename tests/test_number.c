/* SPDX-License-Identifier: MIT
 *
 * plugins/cpu_plain/number.c, for cpu_plain and for each level of cpu_x86 that this machine has: f32 stored as bf16 and
 * f16, bit for bit, through cache_append, which stores what it is given. A tolerance would let a tie go the wrong way.
 */
#include "runtime/device.h"
#include "runtime/tensor.h"
#include "tests/by_hand.h"

#define PLUGIN(name) ORDITO_BUILD_DIRECTORY "/lib/ordito/plugins/" name ".so"

static const struct {
  const char *plugin, *kernel;
  uint64_t features;
} kernels[] = {
    {PLUGIN("cpu_plain"), "cache_append_plain", 0},
    {PLUGIN("cpu_x86"), "cache_append_baseline", 0},
    {PLUGIN("cpu_x86"), "cache_append_avx2", ORD_CPU_AVX2},
    {PLUGIN("cpu_x86"), "cache_append_avx512", ORD_CPU_AVX2 | ORD_CPU_AVX512},
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

static bool is_here(int which) { return hand_cpu_has(kernels[which].features); }

/* `count` numbers as the keys of one token. */
static void store(int which, uint16_t dtype, uint32_t *number, int64_t count, uint16_t *stored) {
  uint32_t value = 0;
  uint16_t value_stored;
  int32_t past = 0;
  hand made;
  ord_plugin_error err;
  hand_open(&made, kernels[which].plugin, "cache_append");
  const ord_plugin *plugin = ord_registry_get(made.registry, 0)->plugin;
  made.kernel = NULL;
  for (uint32_t i = 0; i < plugin->kernel_count; i++)
    if (strcmp(plugin->kernel[i]->name, kernels[which].kernel) == 0) made.kernel = plugin->kernel[i];
  assert_non_null(made.kernel);
  made.device.features = kernels[which].features;
  const int64_t width[] = {1, 1, 1, count}, one[] = {1, 1, 1, 1};
  hand_add(&made, "k", ORD_INPUT, ORD_F32, 4, width, number);
  hand_add(&made, "v", ORD_INPUT, ORD_F32, 4, one, &value);
  hand_add(&made, "cache_k", ORD_STATE, dtype, 4, width, stored);
  hand_add(&made, "cache_v", ORD_STATE, dtype, 4, one, &value_stored);
  hand_add(&made, "past", ORD_INPUT, ORD_I32, 1, one, &past);
  assert_int_equal(hand_run(&made, &err), ORD_OK);
  hand_close(&made);
}

/* A NaN must stay one, quiet and of its sign; its other bits are free. */
static void check(int which, uint16_t dtype, uint32_t number, uint16_t stored, uint16_t wanted) {
  const uint16_t quiet = dtype == ORD_BF16 ? 0x7fc0 : 0x7e00;
  const bool is_nan = (number & 0x7fffffffu) > 0x7f800000u;
  const bool is_right = is_nan ? (stored & quiet) == quiet && stored >> 15 == number >> 31 : stored == wanted;
  if (!is_right)
    fail_msg("%s: %08x as %s: found %04x, wanted %04x", kernels[which].kernel, number,
             dtype == ORD_BF16 ? "bf16" : "f16", stored, wanted);
}

/* Ties, both sides of them, what rounds to infinity, NaN, subnormal numbers. */
static void test_known(void **unused) {
  (void)unused;
  static const struct {
    uint16_t dtype;
    uint32_t number;
    uint16_t wanted;
  } row[] = {
      {ORD_BF16, 0x3f807fff, 0x3f80}, {ORD_BF16, 0x3f808000, 0x3f80}, {ORD_BF16, 0x3f808001, 0x3f81},
      {ORD_BF16, 0x3f817fff, 0x3f81}, {ORD_BF16, 0x3f818000, 0x3f82}, {ORD_BF16, 0xbf808000, 0xbf80},
      {ORD_BF16, 0xbf818000, 0xbf82}, {ORD_BF16, 0x3fff8000, 0x4000}, {ORD_BF16, 0x7f7f7fff, 0x7f7f},
      {ORD_BF16, 0x7f7f8000, 0x7f80}, {ORD_BF16, 0xff7fffff, 0xff80}, {ORD_BF16, 0x7f800000, 0x7f80},
      {ORD_BF16, 0xff800000, 0xff80}, {ORD_BF16, 0x7f800001, 0x7fc0}, {ORD_BF16, 0xff80ffff, 0xffc0},
      {ORD_BF16, 0x7fffffff, 0x7fff}, {ORD_BF16, 0x80000000, 0x8000}, {ORD_BF16, 0x00008000, 0x0000},
      {ORD_BF16, 0x00008001, 0x0001}, {ORD_BF16, 0x80018000, 0x8002}, {ORD_BF16, 0x007f8000, 0x0080},
      {ORD_F16, 0x3f801000, 0x3c00},  {ORD_F16, 0x3f801001, 0x3c01},  {ORD_F16, 0xbf803000, 0xbc02},
      {ORD_F16, 0x477fefff, 0x7bff},  {ORD_F16, 0x477ff000, 0x7c00},  {ORD_F16, 0xff7fffff, 0xfc00},
      {ORD_F16, 0x7f800000, 0x7c00},  {ORD_F16, 0x7f800001, 0x7e00},  {ORD_F16, 0xffffffff, 0xfe00},
      {ORD_F16, 0x33000000, 0x0000},  {ORD_F16, 0x33000001, 0x0001},  {ORD_F16, 0xb3c00000, 0x8002},
      {ORD_F16, 0x387fdfff, 0x03ff},  {ORD_F16, 0x387fe000, 0x0400},  {ORD_F16, 0x38801000, 0x0400},
  };
  for (int which = 0; which < KERNELS; which++)
    for (size_t i = 0; i < sizeof row / sizeof *row && is_here(which); i++) {
      uint32_t number = row[i].number;
      uint16_t stored;
      store(which, row[i].dtype, &number, 1, &stored);
      check(which, row[i].dtype, number, stored, row[i].wanted);
    }
}

/* Every upper half of a number with lower halves around the ties of both types, as the reference rounds it. */
static void test_like_the_reference(void **unused) {
  (void)unused;
  static const uint16_t low[] = {0, 1, 0xfff, 0x1000, 0x1001, 0x2fff, 0x3000, 0x3001, 0x7fff, 0x8000, 0x8001, 0xffff};
  enum { LOWS = sizeof low / sizeof *low, COUNT = LOWS << 16 };
  static uint32_t number[COUNT];
  static uint16_t stored[COUNT];
  static const struct {
    uint16_t dtype;
    uint16_t (*from_f32)(float);
  } type[] = {{ORD_BF16, ord_bf16_from_f32}, {ORD_F16, ord_f16_from_f32}};
  for (uint32_t i = 0; i < COUNT; i++) number[i] = i / LOWS << 16 | low[i % LOWS];
  for (int which = 0; which < KERNELS; which++)
    for (int t = 0; t < 2 && is_here(which); t++) {
      store(which, type[t].dtype, number, COUNT, stored);
      for (int i = 0; i < COUNT; i++) {
        float value;
        memcpy(&value, &number[i], sizeof value);
        check(which, type[t].dtype, number[i], stored[i], type[t].from_f32(value));
      }
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_known),
      cmocka_unit_test(test_like_the_reference),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
