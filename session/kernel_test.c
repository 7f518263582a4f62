/* SPDX-License-Identifier: MIT
 *
 * `ordito kernel-test`: runs the conformance cases of every op that a plugin claims. In this process: the command
 * starts it in a child, so that a plugin that crashes is a row of the report.
 */
#include <stdio.h>
#include <string.h>

#include "ops/cases.h"
#include "session/parts.h"

typedef struct kernel_test {
  ord_kernel_test_options options;
  ord_row_fn row_fn;
  void *row_context;
  ord_case_options cases;
  ord_kernel_row row; /* the one that is being run; count: of all */
} kernel_test;

/* "matmul_plain:12" names a row so that it can be run alone. */
static void name_row(char *out, size_t bytes, const ord_kernel *kernel, uint32_t number) {
  snprintf(out, bytes, "%s:%u", kernel->name, number);
}

static bool is_wanted(const kernel_test *test, const ord_kernel *kernel, uint32_t number) {
  char name[ORD_ROW_NAME_BYTES];
  name_row(name, sizeof name, kernel, number);
  return !test->options.row || strcmp(test->options.row, name) == 0;
}

static uint32_t count_cases(const ord_op *op) {
  uint32_t count = 0;
  while (op->cases && op->cases[count].operands) count++;
  return count;
}

static bool is_for_device(const kernel_test *test, const ord_kernel *kernel) {
  return (kernel->device ? kernel->device : ORD_DEVICE_CPU) == test->cases.device->kind;
}

/* Counts what is to be run, and refuses a plugin for an unknown op before its first kernel runs. */
static bool count_rows(kernel_test *test, const ord_plugin *plugin, ord_error *err) {
  uint32_t kernel_count = 0;
  for (uint32_t k = 0; k < plugin->kernel_count; k++) {
    const ord_kernel *kernel = plugin->kernel[k];
    const ord_op *op = ord_op_find(kernel->op);
    if (!is_for_device(test, kernel)) continue;
    kernel_count++;
    if (!op)
      return ord_fail(err, ORD_INVALID, "kernel '%s' claims op '%s', which this version does not know", kernel->name,
                      kernel->op);
    for (uint32_t i = 0; i < count_cases(op); i++) test->row.count += is_wanted(test, kernel, i);
  }
  if (kernel_count == 0)
    return ord_fail(err, ORD_UNSUPPORTED,
                    "none of the plugin's kernels is for the device; found %s; wanted --device cuda or --simulated for "
                    "those of CUDA, else neither",
                    test->row.device);
  return test->row.count > 0 ||
         ord_fail(err, ORD_INVALID, "no row was run; found row '%s'; wanted KERNEL:NUMBER as the report prints it",
                  test->options.row ? test->options.row : "(all)");
}

static bool test_row(kernel_test *test, const ord_op *op, const ord_kernel *kernel, uint32_t number, ord_error *err) {
  static const ord_row_state state_of[] = {
      [ORD_CASE_PASSED] = ORD_ROW_PASSED, [ORD_CASE_REFUSED] = ORD_ROW_REFUSED, [ORD_CASE_FAILED] = ORD_ROW_FAILED};
  const ord_case *row = &op->cases[number];
  ord_case_result result = {0};
  char name[ORD_ROW_NAME_BYTES];
  name_row(name, sizeof name, kernel, number);
  test->row.state = ORD_ROW_BEGINS;
  test->row.row = name;
  test->row.kernel = kernel->name;
  test->row.op = kernel->op;
  test->row.operands = row->operands;
  test->row.attributes = row->attributes ? row->attributes : "";
  test->row.text = "";
  test->row.error = 0;
  test->row_fn(test->row_context, &test->row);
  if (!ord_case_run(op, row, kernel, &test->cases, &result, err)) return false;
  test->row.state = state_of[result.verdict];
  test->row.text = result.text;
  test->row.error = result.error;
  test->row_fn(test->row_context, &test->row);
  return true;
}

static bool test_plugin(kernel_test *test, const ord_plugin *plugin, ord_error *err) {
  if (!count_rows(test, plugin, err)) return false;
  for (uint32_t k = 0; k < plugin->kernel_count; k++) {
    const ord_kernel *kernel = plugin->kernel[k];
    if (!is_for_device(test, kernel)) continue;
    const ord_op *op = ord_op_find(kernel->op);
    for (uint32_t i = 0; i < count_cases(op); i++) {
      if (!is_wanted(test, kernel, i)) continue;
      if (test->row.index >= test->options.first && !test_row(test, op, kernel, i, err)) return false;
      test->row.index++;
    }
  }
  return true;
}

/* The device, the plugin, and what its kernels get. */
static bool open_plugin(kernel_test *test, const char *file, ord_registry *registry, ord_device *device,
                        ord_error *err) {
  if (!ord_registry_load(registry, file, err) || !device->table->queue_create(device, &test->cases.queue, err))
    return false;
  test->cases.host = device->table->host(device, registry, ord_registry_get(registry, 0), err);
  test->cases.device = &device->info;
  test->row.device = device->info.name;
  return test->cases.host != NULL;
}

bool ord_kernel_test(const char *file, const ord_kernel_test_options *options, ord_row_fn row_fn, void *context,
                     ord_error *err) {
  kernel_test test = {.row_fn = row_fn, .row_context = context, .row = {.struct_size = sizeof test.row}};
  if (!ord_struct_take(options, "ord_kernel_test_options", &test.options, sizeof test.options, err)) return false;
  const ord_context_options where = {.struct_size = sizeof where,
                                     .threads = 1,
                                     .cpu = test.options.cpu,
                                     .device = test.options.device,
                                     .simulated = test.options.simulated,
                                     .checked = test.options.checked};
  ord_registry *registry = NULL;
  ord_device *device = NULL;
  const bool done = ord_device_open(&where, &device, NULL, err) && ord_registry_create(NULL, NULL, &registry, err) &&
                    open_plugin(&test, file, registry, device, err) &&
                    test_plugin(&test, ord_registry_get(registry, 0)->plugin, err);
  if (device) device->table->queue_destroy(test.cases.queue);
  ord_registry_destroy(registry);
  if (device) device->table->destroy(device);
  return done;
}
