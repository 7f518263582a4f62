/* SPDX-License-Identifier: MIT
 *
 * The CUDA device: opening it, memory and copies, images and kernels, too little memory.
 */
#include "cuda_fixture.h"

#include "runtime/plugin.h"

/* ---- opening ---- */

static void assert_refused(const char *driver, const char *part) {
  ord_error err = ORD_ERROR_INIT;
  ord_device *device = NULL;
  ord_cuda_options options = *cuda_options();
  options.driver = driver;
  MUST_FAIL(ord_device_cuda_create(1, &options, &device, NULL, &err), part);
  assert_int_equal(err.code, ORD_UNSUPPORTED);
  assert_null(device);
}

static void without_driver(void **state) {
  (void)state;
  assert_refused("/nowhere/libcuda.so.1", "no CUDA device: the driver cannot be opened (/nowhere/libcuda.so.1");
  assert_refused("libm.so.6", "the CUDA driver is too old: libm.so.6 has no cuGetProcAddress_v2");
}

static void without_device(void **state) {
  (void)state;
  assert_refused(cuda_options()->driver, "no CUDA device: the driver found none");
}

static void with_an_old_driver(void **state) {
  (void)state;
  assert_refused(cuda_options()->driver,
                 "the CUDA driver is too old: found one for CUDA 12.3; wanted 12.4 (release 550) or later");
}

static void test_no_driver(void **state) {
  (void)state;
  run_in_child("no driver", without_driver, NULL);
}

static void test_what_is_no_device(void **state) {
  (void)state;
  static const char *const none[] = {"DEVICES", "0", NULL, NULL}, *const old[] = {"DRIVER_VERSION", "12030", NULL,
                                                                                  NULL};
  run_in_child("no device", without_device, none);
  run_in_child("an old driver", with_an_old_driver, old);
}

static void opening(void **state) {
  (void)state;
  ord_device *device = open_cuda_device();
  assert_int_equal(device->info.kind, ORD_DEVICE_CUDA);
  assert_int_equal(strncmp(device->info.name, "SIMULATED", 9) == 0, cuda_options()->is_simulated);
  assert_true(device->info.compute_capability >= 80);
  assert_true(device->info.cores > 0 && device->info.l2_bytes > 0 && device->info.shared_bytes >= (48u << 10));
  assert_false(device->is_host_memory);
  device->table->destroy(device);
  device = open_cuda_device(); /* it can be opened again */
  device->table->destroy(device);
  device = NULL;
}

static void test_opening(void **state) {
  (void)state;
  run_in_child("opening", opening, NULL);
}

/* ---- memory ---- */

static unsigned char *make_bytes(size_t count, unsigned seed) {
  unsigned char *bytes = malloc(count);
  assert_non_null(bytes);
  for (size_t i = 0; i < count; i++) bytes[i] = (unsigned char)((i * 31 + i / 251 + seed) % 256);
  return bytes;
}

/* More than the pinned memory of a queue, and odd sizes. */
static void copies(void **state) {
  (void)state;
  static const size_t sizes[] = {1, 4, 1000, (4u << 20) - 3, (9u << 20) + 5};
  ord_error err = ORD_ERROR_INIT;
  ord_device *device = open_cuda_device();
  const ord_device_table *table = device->table;
  ord_queue *queue = NULL;
  MUST(table->queue_create(device, &queue, &err));
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    unsigned char *source = make_bytes(sizes[i], (unsigned)i), *wanted = make_bytes(sizes[i], (unsigned)i);
    unsigned char *got = calloc(1, sizes[i]);
    void *first = NULL, *second = NULL;
    MUST(table->allocate(device, sizes[i], false, &first, &err));
    MUST(table->allocate(device, sizes[i], false, &second, &err));
    MUST(table->write(queue, first, source, sizes[i], &err));
    memset(source, 0, sizes[i]); /* the source may be changed at once */
    MUST(table->copy(queue, second, first, sizes[i], &err));
    MUST(table->read(queue, got, second, sizes[i], &err));
    assert_memory_equal(got, wanted, sizes[i]);
    table->release(device, first);
    table->release(device, second);
    free(source);
    free(wanted);
    free(got);
  }
  MUST(table->wait(queue, &err));
  table->queue_destroy(queue);
  table->destroy(device);
}

static void test_copies(void **state) {
  (void)state;
  run_in_all_orders("copies", copies);
}

static void zeroing(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  ord_device *device = open_cuda_device();
  ord_queue *queue = NULL;
  void *memory = NULL;
  unsigned char got[1000], zero[1000] = {0};
  MUST(device->table->queue_create(device, &queue, &err));
  MUST(device->table->allocate(device, sizeof got, true, &memory, &err));
  MUST(device->table->read(queue, got, memory, sizeof got, &err));
  assert_memory_equal(got, zero, sizeof got);
  assert_int_equal((uintptr_t)memory % 64, 0);
  device->table->release(device, memory);
  MUST(device->table->allocate(device, 0, true, &memory, &err)); /* nothing is something too */
  device->table->release(device, memory);
  device->table->release(device, NULL);
  device->table->queue_destroy(queue);
  device->table->queue_destroy(NULL);
  device->table->destroy(device);
}

static void test_zeroing(void **state) {
  (void)state;
  run_in_all_orders("zeroing", zeroing);
}

static void too_much(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  ord_device *device = open_cuda_device();
  void *memory = NULL;
  MUST_FAIL(device->table->allocate(device, (size_t)1 << 40, false, &memory, &err),
            "taking device memory: cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY (2)");
  assert_int_equal(err.code, ORD_NO_MEMORY);
  assert_null(memory);
  MUST(device->table->allocate(device, 64, false, &memory, &err)); /* it works on */
  device->table->release(device, memory);
  device->table->destroy(device);
}

/* Opening, a queue and memory, with the n-th allocation failing. */
static void one_failing_allocation(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  ord_device *device = NULL;
  ord_queue *queue = NULL;
  void *memory = NULL;
  const bool done = ord_device_cuda_create(1, cuda_options(), &device, NULL, &err) &&
                    device->table->queue_create(device, &queue, &err) &&
                    device->table->allocate(device, 100, true, &memory, &err);
  assert_false(done);
  assert_int_equal(err.code, ORD_NO_MEMORY);
  assert_non_null(device);
  if (!queue) MUST(device->table->queue_create(device, &queue, &err));
  MUST(device->table->allocate(device, 100, true, &memory, &err));
  device->table->release(device, memory);
  device->table->queue_destroy(queue);
  device->table->destroy(device);
}

static void test_too_much_memory(void **state) {
  (void)state;
  run_in_child("too much", too_much, NULL);
}

static void test_too_little_memory(void **state) {
  (void)state;
  for (int i = 1; i <= 2; i++) { /* pinned memory of the queue; device memory */
    char number[16];
    snprintf(number, sizeof number, "%d", i);
    const char *const settings[] = {"FAIL_ALLOCATION", number, NULL, NULL};
    run_in_child("a failing allocation", one_failing_allocation, settings);
  }
}

/* ---- images ---- */

static void services(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  ord_device *device = open_cuda_device();
  ord_registry *registry = NULL;
  MUST(ord_registry_create(NULL, NULL, &registry, &err));
  MUST(ord_registry_load(registry, ORDITO_BUILD_DIRECTORY "/lib/ordito/plugins/cuda_core.so", &err));
  const ord_plugin_entry *entry = ord_registry_get(registry, 0);
  const ord_host *host = device->table->host(device, registry, entry, &err);
  assert_non_null(host);
  assert_ptr_equal(device->table->host(device, registry, entry, &err), host);
  void *memory = host->allocate(host->context, 100, 64);
  assert_non_null(memory);
  host->release(host->context, memory);
  assert_string_equal(host->find(host->context, "library.cublasLt@1"), cuda_options()->cublas_lt);
  assert_null(host->find(host->context, "library.cublasLt@2"));
  void *kernel = NULL;
  ord_plugin_error fault = {.struct_size = sizeof fault};
  assert_int_not_equal(host->image_kernel(host->context, "nonsense", "k", 0, &kernel, &fault), ORD_OK);
  assert_non_null(strstr(fault.text, cuda_options()->is_simulated ? "simulated/cuda_core.nonsense.so: cannot be opened"
                                                                  : "plugin cuda_core has no image 'nonsense'"));
  assert_int_equal(host->image_kernel(host->context, "elementwise", "nonsense", 0, &kernel, &fault), ORD_DEVICE_FAILED);
  assert_non_null(strstr(fault.text, "loading kernel 'nonsense' of image 'elementwise' of plugin cuda_core: "
                                     "cuLibraryGetKernel failed: CUDA_ERROR_NOT_FOUND (500)"));
  ord_registry_destroy(registry);
  device->table->destroy(device);
}

static void test_services(void **state) {
  (void)state;
  run_in_child("services", services, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_no_driver),         cmocka_unit_test(test_what_is_no_device),
      cmocka_unit_test(test_opening),           cmocka_unit_test(test_copies),
      cmocka_unit_test(test_zeroing),           cmocka_unit_test(test_too_much_memory),
      cmocka_unit_test(test_too_little_memory), cmocka_unit_test(test_services),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
