/* SPDX-License-Identifier: MIT
 *
 * Tests of the CUDA device. They run on the simulated driver, in every order in which it may work. With
 * ORDITO_TEST_CUDA=real they run on the real one, once, without the cases that need the simulator; with
 * ORDITO_TEST_CUDA=stand-in just these cases run on the simulated driver, so that the real run can be tried without a
 * GPU. Each case runs in a process of its own: a driver does not survive a fork, the simulated one reads its settings
 * once, and a fault ends a context for good. Included by test programs only.
 */
#ifndef ORDITO_TESTS_CUDA_FIXTURE_H
#define ORDITO_TESTS_CUDA_FIXTURE_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "must.h"
#include "ops/cases.h"
#include "runtime/device.h"

/* ---- which driver ---- */

typedef enum test_driver { ON_SIMULATED, ON_REAL, ON_STAND_IN } test_driver;

static inline test_driver get_test_driver(void) {
  const char *asked = getenv("ORDITO_TEST_CUDA");
  if (!asked) return ON_SIMULATED;
  if (strcmp(asked, "real") == 0) return ON_REAL;
  if (strcmp(asked, "stand-in") != 0) fail_msg("ORDITO_TEST_CUDA: found '%s'; wanted real or stand-in", asked);
  return ON_STAND_IN;
}

#define SIMULATED_FILE ORDITO_BUILD_DIRECTORY "/lib/libordito_simulated_cuda.so"

static inline const ord_cuda_options *cuda_options(void) {
  static const ord_cuda_options real = {
      .driver = "libcuda.so.1", .cublas = "libcublas.so.13", .cublas_lt = "libcublasLt.so.13"};
  static const ord_cuda_options simulated = {.driver = SIMULATED_FILE,
                                             .is_simulated = true,
                                             .cublas_lt = ORDITO_BUILD_DIRECTORY "/lib/libordito_simulated_cublas.so",
                                             .cublas = ORDITO_BUILD_DIRECTORY "/lib/libordito_simulated_cublas.so",
                                             .runtime_images = ORDITO_BUILD_DIRECTORY "/lib/ordito/plugins/simulated"};
  return get_test_driver() == ON_REAL ? &real : &simulated;
}

/* What a real device is to show must not have come from the simulated one. */
static inline bool is_on_wrong_driver(void) {
  if (get_test_driver() != ON_REAL || !dlopen(SIMULATED_FILE, RTLD_LAZY | RTLD_NOLOAD)) return false;
  print_error("found the simulated driver; wanted the real one, which ORDITO_TEST_CUDA asks for\n");
  return true;
}

/* ---- what is left out ---- */

static bool was_skipped;

static inline void skip_because(const char *why) {
  print_message("skipped: %s\n", why);
  was_skipped = true;
  skip();
}

/* In a test or in its child: the rest of it is skipped where the device is a real one. */
static inline void needs_simulator(const char *why) {
  if (get_test_driver() != ON_SIMULATED) skip_because(why);
}

/* ---- a process for each case ---- */

enum { CHILD_SKIPPED = 77 };

/* `settings`: pairs of a setting without its prefix (README.md of the simulator) and its value, ended by NULL; NULL:
 * none. What the case asserts is asserted there; a child that fails, or dies, fails the running test, and one that is
 * skipped skips it. */
static inline void run_with_settings(const char *name, void (*body)(void **state), const char *const *settings) {
  const struct CMUnitTest test = {name, body, NULL, NULL, NULL};
  assert_null(dlopen(cuda_options()->driver, RTLD_LAZY | RTLD_NOLOAD)); /* else the child could not use it */
  fflush(NULL);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    was_skipped = false;
    for (; settings && *settings; settings += 2) {
      char variable[64];
      snprintf(variable, sizeof variable, "ORDITO_SIMULATED_%s", settings[0]);
      setenv(variable, settings[1], 1);
    }
    const int failed = _cmocka_run_group_tests(name, &test, 1, NULL, NULL);
    fflush(NULL);
    _exit(failed || is_on_wrong_driver() ? EXIT_FAILURE : was_skipped ? CHILD_SKIPPED : EXIT_SUCCESS);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (WIFSIGNALED(status)) fail_msg("%s was ended by signal %d", name, WTERMSIG(status));
  if (WEXITSTATUS(status) == CHILD_SKIPPED) skip();
  if (WEXITSTATUS(status) != 0) fail_msg("%s failed; its output stands above", name);
}

/* A case with settings is one of the simulated driver. */
static inline void run_in_child(const char *name, void (*body)(void **state), const char *const *settings) {
  if (settings) needs_simulator("it sets the simulated driver");
  run_with_settings(name, body, settings);
}

static const char *const simulated_orders[] = {"eager", "lazy", "thread"};
enum { SIMULATED_ORDER_COUNT = sizeof simulated_orders / sizeof *simulated_orders };

/* Once for each order in which the simulated device may work; a real one works as in the last. */
static inline void run_in_all_orders(const char *name, void (*body)(void **state)) {
  const bool is_simulated = get_test_driver() == ON_SIMULATED;
  for (int i = is_simulated ? 0 : SIMULATED_ORDER_COUNT - 1; i < SIMULATED_ORDER_COUNT; i++) {
    const char *const settings[] = {"ORDER", simulated_orders[i], NULL, NULL};
    char text[128];
    snprintf(text, sizeof text, "%s, %s", name, simulated_orders[i]);
    run_with_settings(text, body, settings);
  }
}

/* In a case of run_in_all_orders. */
static inline bool is_order(const char *name) { return strcmp(getenv("ORDITO_SIMULATED_ORDER"), name) == 0; }

/* ---- devices ---- */

static inline ord_device *open_device(const ord_cuda_options *options) {
  ord_error err = ORD_ERROR_INIT;
  ord_device *device = NULL;
  if (options->is_checked) needs_simulator("it looks at each access to memory");
  MUST(ord_device_cuda_create(1, options, &device, NULL, &err));
  return device;
}

static inline ord_device *open_cuda_device(void) { return open_device(cuda_options()); }

/* One plugin on the device, with what ord_case_run needs. */
typedef struct cuda_stage {
  ord_device *device;
  ord_queue *queue;
  ord_registry *registry;
  const ord_plugin *plugin;
  ord_case_options cases;
} cuda_stage;

/* is_checked: with the images that look at each access to memory. */
static inline cuda_stage open_cuda_stage(const char *plugin_file, bool is_checked) {
  ord_error err = ORD_ERROR_INIT;
  cuda_stage s = {0};
  ord_cuda_options options = *cuda_options();
  options.is_checked = is_checked;
  s.device = open_device(&options);
  MUST(s.device->table->queue_create(s.device, &s.queue, &err));
  MUST(ord_registry_create(NULL, NULL, &s.registry, &err));
  MUST(ord_registry_load(s.registry, plugin_file, &err));
  const ord_plugin_entry *entry = ord_registry_get(s.registry, 0);
  const ord_host *host = s.device->table->host(s.device, s.registry, entry, &err);
  if (!host) fail_msg("%s", err.text);
  s.plugin = entry->plugin;
  s.cases = (ord_case_options){.host = host, .device = &s.device->info, .queue = s.queue};
  return s;
}

static inline void close_cuda_stage(cuda_stage *s) {
  s->device->table->queue_destroy(s->queue);
  ord_registry_destroy(s->registry);
  s->device->table->destroy(s->device);
}

#endif
