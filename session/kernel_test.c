/* SPDX-License-Identifier: MIT
 *
 * `ordito kernel-test`: runs the conformance cases of every op that a plugin claims. In this process: the command
 * starts it in a child, so that a plugin that crashes is a row of the report.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/cases.h"
#include "session/parts.h"

/* Rows that a kernel refuses for one reason. */
typedef struct refusal {
  const char *reason;
  uint32_t count, first; /* first: the row's number */
} refusal;

typedef struct kernel_test {
  const char *file, *wanted_row;
  bool json;
  const ord_registry *registry;
  const ord_device_info *device;
  ord_text *text;
  ord_row_fn row_fn;
  void *row_context;
  uint32_t passed, refused, failed;
  ord_arena arena;
  refusal *refusal; /* of the kernel that is tested */
  uint32_t refusal_count, refusal_capacity;
} kernel_test;

static const char *const verdict_name[] = {"passed", "refused", "failed"};

/* "matmul_plain:12" names a row so that it can be run alone. */
static void name_row(char *out, size_t bytes, const ord_kernel *kernel, uint32_t number) {
  snprintf(out, bytes, "%s:%u", kernel->name, number);
}

static void add_row_text(kernel_test *test, const char *name, const ord_case *row, const ord_case_result *result) {
  if (result->verdict == ORD_CASE_FAILED)
    ord_text_add(test->text, "FAILED  %s  %s %s\n        %s\n        again: ordito kernel-test %s --row %s\n", name,
                 row->operands, row->attributes ? row->attributes : "", result->text, test->file, name);
  else if (test->wanted_row)
    ord_text_add(test->text, "%s  %s  %s %s\n        %s\n", verdict_name[result->verdict], name, row->operands,
                 row->attributes ? row->attributes : "", result->text);
}

static void add_row_json(kernel_test *test, const char *name, const ord_kernel *kernel, const ord_case *row,
                         const ord_case_result *result) {
  const bool is_first = test->passed + test->refused + test->failed == 0;
  ord_text_add(test->text,
               "%s\n  {\"row\": \"%s\", \"op\": \"%s\", \"verdict\": \"%s\", \"error\": %.3g, \"operands\": ",
               is_first ? "" : ",", name, kernel->op, verdict_name[result->verdict], result->error);
  ord_text_add_json(test->text, row->operands);
  ord_text_add(test->text, ", \"attributes\": ");
  ord_text_add_json(test->text, row->attributes ? row->attributes : "");
  ord_text_add(test->text, ", \"text\": ");
  ord_text_add_json(test->text, result->text);
  ord_text_add(test->text, "}");
}

static bool note_refusal(kernel_test *test, uint32_t number, const char *reason, ord_error *err) {
  for (uint32_t i = 0; i < test->refusal_count; i++)
    if (strcmp(test->refusal[i].reason, reason) == 0) {
      test->refusal[i].count++;
      return true;
    }
  const refusal made = {.reason = ord_arena_text(&test->arena, reason), .count = 1, .first = number};
  if (!made.reason ||
      !ord_arena_grow(&test->arena, &test->refusal, &test->refusal_capacity, test->refusal_count + 1, sizeof made))
    return ord_fail_memory(err, "testing a kernel");
  test->refusal[test->refusal_count++] = made;
  return true;
}

static void add_refusals(const kernel_test *test, const ord_kernel *kernel) {
  for (uint32_t i = 0; i < test->refusal_count; i++)
    ord_text_add(test->text, "  refused %u: %s (%s:%u%s)\n", test->refusal[i].count, test->refusal[i].reason,
                 kernel->name, test->refusal[i].first, test->refusal[i].count > 1 ? ", .." : "");
}

static bool test_row(kernel_test *test, const ord_op *op, const ord_kernel *kernel, uint32_t number, ord_error *err) {
  char name[96];
  ord_case_result result = {0};
  const ord_case_options options = {.host = ord_registry_host(test->registry), .device = test->device};
  name_row(name, sizeof name, kernel, number);
  if (test->wanted_row && strcmp(test->wanted_row, name) != 0) return true;
  if (test->row_fn) test->row_fn(test->row_context, name);
  if (!ord_case_run(op, &op->cases[number], kernel, &options, &result, err)) return false;
  if (test->json)
    add_row_json(test, name, kernel, &op->cases[number], &result);
  else
    add_row_text(test, name, &op->cases[number], &result);
  test->passed += result.verdict == ORD_CASE_PASSED;
  test->refused += result.verdict == ORD_CASE_REFUSED;
  test->failed += result.verdict == ORD_CASE_FAILED;
  return result.verdict != ORD_CASE_REFUSED || note_refusal(test, number, result.text, err);
}

static bool test_kernel(kernel_test *test, const ord_kernel *kernel, ord_error *err) {
  const ord_op *op = ord_op_find(kernel->op);
  if (!op)
    return ord_fail(err, ORD_INVALID, "kernel '%s' claims op '%s', which this version does not know", kernel->name,
                    kernel->op);
  const uint32_t passed = test->passed, refused = test->refused, failed = test->failed;
  test->refusal_count = 0;
  for (uint32_t i = 0; op->cases && op->cases[i].operands; i++)
    if (!test_row(test, op, kernel, i, err)) return false;
  if (test->json || test->passed + test->refused + test->failed == passed + refused + failed) return true;
  ord_text_add(test->text, "%-28s %-18s %u passed, %u refused, %u failed\n", kernel->name, kernel->op,
               test->passed - passed, test->refused - refused, test->failed - failed);
  if (!test->wanted_row) add_refusals(test, kernel);
  return true;
}

static bool test_plugin(kernel_test *test, const ord_plugin_entry *entry, ord_error *err) {
  if (test->json) ord_text_add(test->text, "{\"rows\": [");
  for (uint32_t k = 0; k < entry->plugin->kernel_count; k++)
    if (!test_kernel(test, entry->plugin->kernel[k], err)) return false;
  if (test->passed + test->refused + test->failed == 0)
    return ord_fail(err, ORD_INVALID, "no row was run; found row '%s'; wanted KERNEL:NUMBER as the report prints it",
                    test->wanted_row ? test->wanted_row : "(all)");
  if (test->json)
    ord_text_add(test->text, "],\n\"passed\": %u, \"refused\": %u, \"failed\": %u}\n", test->passed, test->refused,
                 test->failed);
  else
    ord_text_add(test->text, "%u rows passed, %u refused, %u failed\n", test->passed, test->refused, test->failed);
  return true;
}

bool ord_kernel_test(const char *file, const ord_kernel_test_options *options, char **out, uint32_t *out_failed,
                     ord_error *err) {
  static const ord_kernel_test_options defaults = {.struct_size = sizeof defaults};
  if (!options) options = &defaults;
  ord_registry *registry = NULL;
  ord_device *device = NULL;
  ord_text text = {0};
  *out = NULL;
  *out_failed = 0;
  kernel_test test = {.file = file,
                      .wanted_row = options->row,
                      .json = options->json,
                      .text = &text,
                      .row_fn = options->row_fn,
                      .row_context = options->row_context};
  bool done = ord_device_cpu_create(1, NULL, &device, NULL, err) && ord_registry_create(NULL, NULL, &registry, err) &&
              ord_registry_load(registry, file, err);
  if (done) {
    test.registry = registry;
    test.device = &device->info;
    done = test_plugin(&test, ord_registry_get(registry, 0), err);
  }
  ord_registry_destroy(registry);
  ord_arena_finish(&test.arena);
  if (device) device->table->destroy(device);
  *out_failed = test.failed;
  if (done) return ord_text_give(&text, "writing a report", out, err);
  ord_text_finish(&text);
  return false;
}
