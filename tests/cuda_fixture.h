/* SPDX-License-Identifier: MIT
 *
 * Tests on the simulated CUDA driver. Each case runs in a process of its own, since the driver reads its settings once
 * and a fault ends its context for good. Included by test programs only.
 */
#ifndef ORDITO_TESTS_CUDA_FIXTURE_H
#define ORDITO_TESTS_CUDA_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "must.h"
#include "ops/cases.h"
#include "runtime/device.h"

#define SIMULATED_DRIVER ORDITO_BUILD_DIRECTORY "/lib/libordito_simulated_cuda.so"

static const ord_cuda_options simulated_options = {
    .driver = SIMULATED_DRIVER,
    .is_simulated = true,
    .cublas_lt = ORDITO_BUILD_DIRECTORY "/lib/libordito_simulated_cublas.so",
    .cublas = ORDITO_BUILD_DIRECTORY "/lib/libordito_simulated_cublas.so",
    .runtime_images = ORDITO_BUILD_DIRECTORY "/lib/ordito/plugins/simulated"};

/* `settings`: pairs of a setting without its prefix (README.md of the simulator) and its value, ended by NULL; NULL:
 * none. What the case asserts is asserted there; a child that fails, or dies, fails the running test. */
static inline void run_in_child(const char *name, void (*body)(void **state), const char *const *settings) {
  const struct CMUnitTest test = {name, body, NULL, NULL, NULL};
  fflush(NULL);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    for (; settings && *settings; settings += 2) {
      char variable[64];
      snprintf(variable, sizeof variable, "ORDITO_SIMULATED_%s", settings[0]);
      setenv(variable, settings[1], 1);
    }
    const int failed = _cmocka_run_group_tests(name, &test, 1, NULL, NULL);
    fflush(NULL);
    _exit(failed);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (WIFSIGNALED(status)) fail_msg("%s was ended by signal %d", name, WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) fail_msg("%s failed; its output stands above", name);
}

static const char *const simulated_orders[] = {"eager", "lazy", "thread"};
enum { SIMULATED_ORDER_COUNT = sizeof simulated_orders / sizeof *simulated_orders };

/* Once for each order in which the simulated device may work. */
static inline void run_in_all_orders(const char *name, void (*body)(void **state)) {
  for (int i = 0; i < SIMULATED_ORDER_COUNT; i++) {
    const char *const settings[] = {"ORDER", simulated_orders[i], NULL, NULL};
    char text[128];
    snprintf(text, sizeof text, "%s, %s", name, simulated_orders[i]);
    run_in_child(text, body, settings);
  }
}

static inline ord_device *open_simulated_device(void) {
  ord_error err = ORD_ERROR_INIT;
  ord_device *device = NULL;
  MUST(ord_device_cuda_create(1, &simulated_options, &device, NULL, &err));
  return device;
}

/* One plugin on the simulated device, with what ord_case_run needs. */
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
  ord_cuda_options options = simulated_options;
  options.is_checked = is_checked;
  MUST(ord_device_cuda_create(1, &options, &s.device, NULL, &err));
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
