/* SPDX-License-Identifier: MIT
 *
 * Every CUDA plugin of the build on the simulated driver, whatever it holds, under the checks of memory and races: all
 * conformance rows, the longest sweeps shortened. Each of its kernels serves a row, and each kernel of its device code
 * is launched by one, so that nothing is there that no test has checked. The whole rows, unchecked, and what a kernel
 * needs beyond them, its own test program has.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <glob.h>
#include <string.h>

#include "cuda_fixture.h"

#define PLUGINS ORDITO_BUILD_DIRECTORY "/lib/ordito/plugins/"

/* ---- the kernels of device code, and which of them were launched ---- */

enum { SYMBOLS_MAX = 512 };
static char symbols[SYMBOLS_MAX][96];
static bool is_launched[SYMBOLS_MAX];
static int symbol_count;

static const ord_host *inner; /* the device's own services for the plugin */

static void *driver_call(const char *name) {
  void *driver = dlopen(cuda_options()->driver, RTLD_NOW | RTLD_NOLOAD), *call = driver ? dlsym(driver, name) : NULL;
  if (!call) fail_msg("the driver has no %s", name);
  return call;
}

static const char *name_kernel(CUkernel kernel) {
  CUresult (*get_name)(const char **, CUkernel) = driver_call("cuKernelGetName");
  const char *name = NULL;
  assert_int_equal(get_name(&name, kernel), CUDA_SUCCESS);
  return name;
}

static ord_status launch_noted(void *context, ord_gpu_stream *stream, const ord_gpu_launch *launch,
                               ord_plugin_error *err) {
  const char *name = name_kernel(launch->kernel);
  for (int i = 0; i < symbol_count; i++) is_launched[i] |= strcmp(symbols[i], name) == 0;
  return inner->gpu_launch(context, stream, launch, err);
}

static void list_image(const char *file) {
  CUresult (*load)(CUlibrary *, const void *, CUjit_option *, void **, unsigned, CUlibraryOption *, void **, unsigned) =
      driver_call("cuLibraryLoadData");
  CUresult (*count_kernels)(unsigned *, CUlibrary) = driver_call("cuLibraryGetKernelCount");
  CUresult (*list_kernels)(CUkernel *, unsigned, CUlibrary) = driver_call("cuLibraryEnumerateKernels");
  static unsigned char bytes[1 << 24];
  CUkernel kernels[SYMBOLS_MAX];
  CUlibrary library;
  unsigned count = 0;
  FILE *image = fopen(file, "rb");
  assert_non_null(image);
  const size_t read = fread(bytes, 1, sizeof bytes, image);
  fclose(image);
  assert_true(read > 0 && read < sizeof bytes);
  assert_int_equal(load(&library, bytes, NULL, NULL, 0, NULL, NULL, 0), CUDA_SUCCESS);
  assert_int_equal(count_kernels(&count, library), CUDA_SUCCESS);
  assert_true(count > 0 && symbol_count + count <= SYMBOLS_MAX);
  assert_int_equal(list_kernels(kernels, count, library), CUDA_SUCCESS);
  for (unsigned i = 0; i < count; i++)
    snprintf(symbols[symbol_count++], sizeof symbols[0], "%s", name_kernel(kernels[i]));
}

static void list_symbols(const char *plugin) {
  char pattern[256];
  glob_t found;
  snprintf(pattern, sizeof pattern, PLUGINS "simulated/%s.*.so", plugin);
  assert_int_equal(glob(pattern, 0, NULL, &found), 0);
  for (size_t i = 0; i < found.gl_pathc; i++)
    if (!strstr(found.gl_pathv[i], ".checked.")) list_image(found.gl_pathv[i]);
  globfree(&found);
}

static const char *find_missing(void) {
  for (int i = 0; i < symbol_count; i++)
    if (!is_launched[i]) return symbols[i];
  return NULL;
}

/* ---- the rows ---- */

static const char *current; /* the plugin's file */

/* Of a sweep over a range ($=1..130) its first number, and one beyond it by more than a warp. */
static void shorten(const char *attributes, char *out, size_t bytes) {
  const char *sweep = strstr(attributes, "$="), *range = sweep ? strstr(sweep, "..") : NULL;
  if (!range || strcspn(sweep, " ") < (size_t)(range - sweep)) {
    snprintf(out, bytes, "%s", attributes);
    return;
  }
  const long long first = strtoll(sweep + 2, NULL, 10), last = strtoll(range + 2, NULL, 10);
  snprintf(out, bytes, "%.*s$=%lld,%lld%s", (int)(sweep - attributes), attributes, first,
           first + 34 < last ? first + 34 : last, sweep + strcspn(sweep, " "));
}

static void serve_rows(const ord_kernel *kernel, const ord_case_options *options) {
  const ord_op *op = ord_op_find(kernel->op);
  int served = 0;
  assert_non_null(op);
  for (const ord_case *each = op->cases; each->operands; each++) {
    char attributes[256];
    ord_error err = ORD_ERROR_INIT;
    ord_case_result result;
    shorten(each->attributes, attributes, sizeof attributes);
    const ord_case row = {each->operands, attributes};
    MUST(ord_case_run(op, &row, kernel, options, &result, &err));
    if (result.verdict == ORD_CASE_FAILED)
      fail_msg("%s: %s %s: %s", kernel->name, row.operands, row.attributes, result.text);
    served += result.verdict == ORD_CASE_PASSED;
  }
  if (!served) fail_msg("%s serves no row", kernel->name);
}

/* Grids and variants depend on the number of multiprocessors: what the large device has no use for, a small one has. */
static void visit_plugin(void **state) {
  (void)state;
  cuda_stage s = open_cuda_stage(current, true);
  ord_device_info info = s.device->info;
  inner = s.cases.host;
  ord_host noting = *inner;
  noting.gpu_launch = launch_noted;
  s.cases.host = &noting;
  s.cases.device = &info;
  list_symbols(ord_registry_get(s.registry, 0)->manifest->name);
  for (uint32_t k = 0; k < s.plugin->kernel_count; k++) serve_rows(s.plugin->kernel[k], &s.cases);
  info.cores = 1;
  for (uint32_t k = 0; k < s.plugin->kernel_count && find_missing(); k++) serve_rows(s.plugin->kernel[k], &s.cases);
  if (find_missing()) fail_msg("no row launches %s", find_missing());
  close_cuda_stage(&s);
}

static void test_plugins(void **state) {
  (void)state;
  needs_simulator("it looks at each access to memory");
  glob_t found;
  assert_int_equal(glob(PLUGINS "cuda_*.so", 0, NULL, &found), 0);
  glob(PLUGINS "cublas.so", GLOB_APPEND, NULL, &found);
  for (size_t i = 0; i < found.gl_pathc; i++) {
    current = found.gl_pathv[i];
    run_in_child(current, visit_plugin, NULL);
  }
  globfree(&found);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_plugins)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
