/* SPDX-License-Identifier: MIT
 *
 * The packed matmul of plugins/cpu_x86, each level of instructions that this machine has: the conformance rows of
 * matmul and more; a row alone against the same row among many, bit for bit; packed bytes that do not depend on the
 * level; what numbers that are not finite come to; refusals.
 */
#include "runtime/device.h"
#include "tests/conformance.h"

#define X86 ORDITO_BUILD_DIRECTORY "/lib/ordito/plugins/cpu_x86.so"

/* ---- levels ---- */

/* A kernel on a CPU with some features. */
typedef struct level {
  const char *kernel;
  uint64_t features;
} level;

static const level levels[] = {
    {"matmul_baseline", 0},
    {"matmul_avx2", ORD_CPU_AVX2},
    {"matmul_avx512", ORD_CPU_AVX2 | ORD_CPU_AVX512},
    {"matmul_avx512", ORD_CPU_AVX2 | ORD_CPU_AVX512 | ORD_CPU_AVX512_BF16 | ORD_CPU_AVX512_VNNI},
};
enum { LEVELS = sizeof levels / sizeof *levels };

static bool is_here(const level *wanted) {
  uint64_t features = 0;
  ord_error err = ORD_ERROR_INIT;
  if (!ord_cpu_features(NULL, &features, &err)) fail_msg("%s", err.text);
  return !(wanted->features & ~features);
}

static const ord_kernel *find_kernel(const ord_registry *registry, const char *name) {
  const ord_plugin *plugin = ord_registry_get(registry, 0)->plugin;
  for (uint32_t i = 0; i < plugin->kernel_count; i++)
    if (strcmp(plugin->kernel[i]->name, name) == 0) return plugin->kernel[i];
  fail_msg("no kernel %s", name);
  return NULL;
}

typedef void (*level_fn)(const ord_kernel *kernel, const ord_case_options *options);

static void on_each_level(level_fn test) {
  ord_registry *registry;
  ord_error err = ORD_ERROR_INIT;
  if (!ord_registry_create(NULL, NULL, &registry, &err)) fail_msg("%s", err.text);
  if (!ord_registry_load(registry, X86, &err)) fail_msg("%s", err.text);
  for (int i = 0; i < LEVELS; i++) {
    if (!is_here(&levels[i])) continue;
    const ord_device_info device = {.struct_size = sizeof device,
                                    .kind = ORD_DEVICE_CPU,
                                    .cores = 2,
                                    .features = levels[i].features,
                                    .name = "forced"};
    const ord_case_options options = {.device = &device};
    test(find_kernel(registry, levels[i].kernel), &options);
  }
  ord_registry_destroy(registry);
}

/* ---- conformance ---- */

static void check_conformance(const ord_kernel *kernel, const ord_case_options *options) {
  static const char *const reason[] = {"is f16; wanted",  "is bf16; wanted f32", "is q8_0; wanted",
                                       "is q4_0; wanted", "is q4_1; wanted",     "bytes apart",
                                       "with 'by'",       NULL};
  conformance_run_on(kernel, options, reason);
}

static void test_conformance(void **unused) {
  (void)unused;
  on_each_level(check_conformance);
}

/* What must not fall to another kernel, whatever the grid holds. */
static void check_serves(const ord_kernel *kernel, const ord_case_options *options) {
  static const ord_case row[] = {
      {"in[$,40] weight[70,40] bias[70]", "$=1..50"},
      {"in[$,40] weight:bf16[70,40] bias[70]", "$=1..26"},
      {"in[$,40] weight:i8[70,40] bias[70]", "$=1..26"},
      {"in[$,37] weight[70,37] bias[70]", "compute=bf16 $=1..26"},
      {"in[$,37] weight:f16[70,37]", "compute=bf16 $=1,5"},
      {"in[$,37] weight:i8[70,37]", "compute=bf16 $=1,5"},
      {"in[$,37] weight[70,37] bias[70]", "compute=i8 $=1..26"},
      {"in[$,37] weight:bf16[70,37]", "compute=i8 $=1,5"},
      {"in[13,$] weight[33,$]", "compute=bf16 $=1..66"},
      {"in[1,$] weight[33,$]", "compute=bf16 $=1..66"},
      {"in[13,$] weight:i8[33,$]", "compute=i8 $=1..66"},
      {"in[1,$] weight:f16[33,$]", "compute=i8 $=1..66"},
      {"in[3,$] weight:bf16[33,$]", "$=127..130,255..258,511..514"},
      {"in[200,40] weight[$,40]", "$=1,31,32,33,64,65"},
      {"in[1,40] weight[$,40]", "$=1,31,32,33,64,65,255..257,600,1000"},
      {"in[2,5/64,40] weight:bf16[20|20|7,40] bias:bf16[47]", ""},
      {"in[2,0/64,40] weight[20|20|7,40]", "compute=i8"},
      {"in[97,40] weight^:f16[130,40]", ""},
      {"in^[3,65] weight^:bf16[33,65]", "compute=bf16"},
      {"in^[1,65] weight+:i8[33,65]", "compute=i8"},
      {"in+[3,2,65] weight+[33,65]", "compute=i8"},
      {"in[3,40] weight:i8[33,40] bias[33]", "epilogue=gelu_tanh>+add(residual[3,33])"},
      {"in[3,40] weight[33,40]", "compute=i8 epilogue=silu+mul(gate[3,33])+add(late_bias:bf16[33])"},
      {"in[$,40] weight[70,40] bias[70]", "epilogue=add(residual[$,70])>+layernorm(w[70],b[70];eps=1e-5) $=1,30"},
      {"in[$,40] weight[70,40]", "compute=bf16 epilogue=add(residual[$,70])>+rmsnorm(w[70];eps=1e-5) $=1,30"},
      {"in[2,3/8,65] weight[33,65]", "compute=i8 epilogue=gelu_erf+rmsnorm(w*:f16[33];eps=1e-5)"},
      {"in[1,8] weight[400,8]", "epilogue=add(residual[1,400])>+relu"},
      {"in+[2,3,7,9] by[2,3,9,50]", "epilogue=relu"},
      {"in[2,3,50,9] by^[3,9,20]", ""},
      {"in[2/4,3/8,9] by[2/4,9,5]", ""},
      {"in[7,9] by[9,70] bias[70]", "compute=bf16 epilogue=rmsnorm(w[70];eps=1e-5)"},
      {"in[3,5]=nan,inf,2,3,4,0,1,2,3,4,0,1,2,3,4 weight[40,5]", "compute=bf16"},
      {"in[3,5]=nan,1,2,3,4,0,1,2,3,4,0,0,0,0,0 weight[40,5]", "compute=i8"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    conformance_serves_on(kernel, options, row[i].operands, row[i].attributes);
}

static void test_serves(void **unused) {
  (void)unused;
  on_each_level(check_serves);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_conformance),
      cmocka_unit_test(test_serves),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
