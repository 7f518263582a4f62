/* SPDX-License-Identifier: MIT
 *
 * Kernel choice over a table of contenders whose answers the tests write down.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/choose.h"

/* What a kernel of the test will answer; `change` may spoil the answer. */
typedef struct {
  ord_kernel kernel; /* first, so that query finds the rest */
  ord_status status;
  const char *reason;
  uint32_t epilogue_served;
  void (*change)(ord_answer *answer);
  int asked;
} test_kernel;

static ord_status query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  (void)node;
  test_kernel *test = (test_kernel *)(uintptr_t)kernel;
  test->asked++;
  answer->phase_count = 1;
  answer->chunk_limit[0] = 1;
  if (answer->epilogue_served > test->epilogue_served) answer->epilogue_served = test->epilogue_served;
  if (test->reason) strcpy(answer->reason, test->reason);
  if (test->change) test->change(answer);
  return test->status;
}
static ord_status prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                          const ord_host *host, void **made, ord_plugin_error *err) {
  (void)kernel;
  (void)node;
  (void)answer;
  (void)host;
  (void)made;
  (void)err;
  return ORD_OK;
}
static ord_status launch(void *made, const ord_exec *exec, ord_plugin_error *err) {
  (void)made;
  (void)exec;
  (void)err;
  return ORD_OK;
}
static void retire(void *made) { (void)made; }

static test_kernel make_kernel(const char *name, const char *op, int priority) {
  return (test_kernel){.kernel = {.struct_size = sizeof(ord_kernel),
                                  .priority = priority,
                                  .name = name,
                                  .op = op,
                                  .query = query,
                                  .prepare = prepare,
                                  .launch = launch,
                                  .retire = retire},
                       .epilogue_served = UINT32_MAX};
}

static const ord_device_info cpu = {.struct_size = sizeof cpu, .kind = ORD_DEVICE_CPU};
static const ord_device_info gpu = {.struct_size = sizeof gpu, .kind = ORD_DEVICE_CUDA};

/* Two plugins and the reference. Their open functions hand out what the fixture holds. */
static test_kernel plain, fast, other_fast, attention, reference;
static const ord_kernel *first_kernels[] = {&plain.kernel, &attention.kernel, &fast.kernel};
static const ord_kernel *second_kernels[] = {&other_fast.kernel};
static const ord_kernel *reference_kernels[] = {&reference.kernel};

static ord_status open_first(const ord_host *host, const ord_plugin **out, ord_plugin_error *err) {
  static const ord_plugin plugin = {.struct_size = sizeof plugin, .kernel_count = 3, .kernel = first_kernels};
  (void)host;
  (void)err;
  *out = &plugin;
  return ORD_OK;
}
static ord_status open_second(const ord_host *host, const ord_plugin **out, ord_plugin_error *err) {
  static const ord_plugin plugin = {.struct_size = sizeof plugin, .kernel_count = 1, .kernel = second_kernels};
  (void)host;
  (void)err;
  *out = &plugin;
  return ORD_OK;
}
static ord_status open_reference(const ord_host *host, const ord_plugin **out, ord_plugin_error *err) {
  static const ord_plugin plugin = {.struct_size = sizeof plugin, .kernel_count = 1, .kernel = reference_kernels};
  (void)host;
  (void)err;
  *out = &plugin;
  return ORD_OK;
}

typedef struct {
  ord_registry *registry;
  ord_chooser chooser;
  ord_arena arena;
  ord_operand operand[3];
  ord_epilogue epilogue[2];
  ord_node node;
  const char *path[2];
  ord_choice choice;
  ord_error err;
} fixture;

static void add(fixture *f, const char *name, ord_plugin_open_fn open, bool is_reference) {
  ord_manifest manifest = {.magic = ORD_PLUGIN_MAGIC,
                           .struct_size = sizeof manifest,
                           .abi_major = ORD_ABI_MAJOR,
                           .abi_minor_needed = ORD_ABI_MINOR,
                           .abi_minor_built = ORD_ABI_MINOR};
  snprintf(manifest.name, sizeof manifest.name, "%s", name);
  assert_true(ord_registry_add_static(f->registry, &manifest, open, is_reference, &f->err));
}

static int set_up(void **state) {
  fixture *f = calloc(1, sizeof *f);
  *state = f;
  plain = make_kernel("plain", "matmul", 10);
  fast = make_kernel("fast", "matmul", 50);
  other_fast = make_kernel("fast", "matmul", 50);
  attention = make_kernel("naive", "attention", 10);
  reference = make_kernel("matmul_reference", "matmul", 1000);
  f->err = (ord_error)ORD_ERROR_INIT;
  assert_true(ord_registry_create(NULL, NULL, &f->registry, &f->err));
  add(f, "reference", open_reference, true);
  add(f, "first", open_first, false);
  add(f, "second", open_second, false);
  f->chooser = (ord_chooser){.registry = f->registry, .compute = ORD_F32};
  f->operand[1].role = ORD_WEIGHT;
  f->path[0] = "layer.3.self_attention.q";
  f->path[1] = "layer.3.self_attention.k";
  f->node = (ord_node){.struct_size = sizeof f->node,
                       .device = &cpu,
                       .op = "matmul",
                       .label = f->path[0],
                       .operand_count = 3,
                       .operand = f->operand,
                       .epilogue = f->epilogue};
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  ord_arena_finish(&f->arena);
  ord_registry_destroy(f->registry);
  free(f);
  return 0;
}

static bool choose(fixture *f) { return ord_choose(&f->chooser, &f->node, f->path, 2, &f->arena, &f->choice, &f->err); }

static void assert_winner(fixture *f, const test_kernel *winner, const char *plugin) {
  if (!choose(f)) fail_msg("%s", f->err.text);
  assert_ptr_equal(f->choice.kernel, &winner->kernel);
  assert_string_equal(f->choice.plugin->manifest->name, plugin);
  assert_ptr_equal(f->choice.verdict[0].kernel, &winner->kernel);
  assert_null(f->choice.verdict[0].reason);
  for (uint32_t i = 1; i < f->choice.verdict_count; i++) assert_non_null(f->choice.verdict[i].reason);
}

static void assert_reason(fixture *f, const test_kernel *loser, const char *reason) {
  for (uint32_t i = 1; i < f->choice.verdict_count; i++)
    if (f->choice.verdict[i].kernel == &loser->kernel) {
      assert_string_equal(f->choice.verdict[i].reason, reason);
      return;
    }
  fail_msg("no verdict for %s", loser->kernel.name);
}

static void assert_refused(fixture *f, ord_status code, const char *text) {
  assert_false(choose(f));
  assert_string_equal(f->err.text, text);
  assert_int_equal(f->err.code, code);
}

static void pin(fixture *f, const ord_pin *pins, uint32_t count) {
  f->chooser.pin = pins;
  f->chooser.pin_count = count;
}

static void test_priority_then_name_then_order_of_loading(void **state) {
  fixture *f = *state;
  assert_winner(f, &fast, "first");
  assert_int_equal(f->choice.verdict_count, 4);
  assert_reason(f, &plain, "priority 10 is below 50 of fast");
  assert_reason(f, &other_fast, "same name and priority as that of plugin first, which was loaded first");
  assert_reason(f, &reference, "the reference serves what no other kernel does");
  assert_int_equal(attention.asked, 0);
  plain.kernel.priority = 50;
  fast.kernel.name = "a_fast";
  assert_winner(f, &fast, "first");
  assert_reason(f, &plain, "same priority as a_fast, whose name comes first");
}

static void test_refusals_fall_through(void **state) {
  fixture *f = *state;
  fast.status = ORD_NO;
  fast.reason = "found f16; wanted f32";
  other_fast.status = ORD_NO;
  assert_winner(f, &plain, "first");
  assert_reason(f, &fast, "found f16; wanted f32");
  assert_reason(f, &other_fast, "refused without a reason (a fault of the plugin)");
  plain.status = ORD_INTERNAL;
  assert_winner(f, &reference, "reference");
  assert_reason(f, &plain, "failed without a reason, status 5 (a fault of the plugin)");
}

static void test_nobody_serves(void **state) {
  fixture *f = *state;
  plain.status = fast.status = other_fast.status = ORD_NO;
  plain.reason = fast.reason = other_fast.reason = "no";
  f->chooser.deny_fallback = true;
  assert_refused(f, ORD_UNSUPPORTED,
                 "layer.3.self_attention.q: only the reference serves this op 'matmul', and falling to it is denied; "
                 "plain@first: no; fast@first: no; fast@second: no");
  reference.status = ORD_NO;
  reference.reason = "never";
  assert_refused(f, ORD_UNSUPPORTED,
                 "layer.3.self_attention.q: no kernel serves this op 'matmul'; matmul_reference@reference: never; "
                 "plain@first: no; fast@first: no; fast@second: no");
  f->node.op = "convolution";
  assert_refused(f, ORD_UNSUPPORTED,
                 "layer.3.self_attention.q: no plugin has a kernel of op 'convolution'; plugins: reference, first, "
                 "second");
}

static void test_kernels_for_other_devices(void **state) {
  fixture *f = *state;
  const ord_pin pins[] = {{"matmul", "plain", NULL}};
  f->node.device = &gpu;
  fast.kernel.device = ORD_DEVICE_CUDA;
  assert_winner(f, &fast, "first");
  assert_int_equal(f->choice.verdict_count, 1);
  assert_int_equal(reference.asked + other_fast.asked, 0);
  pin(f, pins, 1);
  assert_refused(f, ORD_UNSUPPORTED,
                 "layer.3.self_attention.q: the pinned kernel does not serve this op; plain@first: is for another "
                 "device: found cpu; wanted cuda");
  pin(f, NULL, 0);
  fast.kernel.device = ORD_DEVICE_CPU;
  assert_refused(f, ORD_UNSUPPORTED,
                 "layer.3.self_attention.q: no plugin has a kernel of op 'matmul' for cuda; plugins: reference, first, "
                 "second");
}

static void test_a_pin_wins_or_fails(void **state) {
  fixture *f = *state;
  const ord_pin pins[] = {{"matmul", "plain", NULL}, {"layer.*.k", "fast", "second"}};
  pin(f, pins, 1);
  assert_winner(f, &plain, "first");
  assert_ptr_equal(f->choice.pin, &pins[0]);
  assert_reason(f, &fast, "the pin matmul=plain selects another kernel");
  assert_int_equal(fast.asked, 0);
  pin(f, pins, 2); /* the last one that matches counts, by any of the node's paths */
  assert_winner(f, &other_fast, "second");
  other_fast.status = ORD_NO;
  other_fast.reason = "found 7 heads; wanted 8";
  assert_refused(f, ORD_UNSUPPORTED,
                 "layer.3.self_attention.q: the pinned kernel does not serve this op; fast@second: found 7 heads; "
                 "wanted 8");
}

static void test_pins_of_unknown_kernels(void **state) {
  fixture *f = *state;
  const ord_pin unknown = {"matmul", "quick", NULL}, elsewhere = {"matmul", "plain", "second"};
  pin(f, &unknown, 1);
  assert_refused(f, ORD_UNSUPPORTED,
                 "layer.3.self_attention.q: pin matmul=quick: no such kernel of op 'matmul'; wanted one of "
                 "matmul_reference@reference, plain@first, fast@first, fast@second");
  pin(f, &elsewhere, 1);
  assert_false(choose(f));
  assert_non_null(strstr(f->err.text, "pin matmul=plain@second: no such kernel of op 'matmul'"));
}

static void test_the_reference_can_be_pinned(void **state) {
  fixture *f = *state;
  const ord_pin pins = {"matmul", "matmul_reference", NULL};
  pin(f, &pins, 1);
  f->chooser.deny_fallback = true;
  assert_winner(f, &reference, "reference");
}

static void test_epilogues(void **state) {
  fixture *f = *state;
  f->node.epilogue_count = 2;
  fast.epilogue_served = 1;
  other_fast.epilogue_served = 0;
  assert_winner(f, &plain, "first");
  assert_reason(f, &fast, "would fuse 1 of 2 epilogue items, plain all");
  plain.epilogue_served = 1;
  assert_winner(f, &fast, "first");
  assert_int_equal(f->choice.answer.epilogue_served, 1);
}

static void no_phase(ord_answer *a) { a->phase_count = 0; }
static void many_phases(ord_answer *a) { a->phase_count = ORD_PHASE_MAX + 1; }
static void no_chunk(ord_answer *a) { a->phase_count = 2; }
static void many_items(ord_answer *a) { a->epilogue_served = 3; }
static void odd_alias(ord_answer *a) { a->alias_mask = 8; }
static void pack_input(ord_answer *a) { a->pack[0] = (ord_pack){1, 64, 0}; }
static void pack_nowhere(ord_answer *a) { a->pack[1] = (ord_pack){1, 64, 0}; }
static void other_pack(ord_answer *a) { a->pack = NULL; }
static void endless_reason(ord_answer *a) {
  memset(a->reason, 'r', sizeof a->reason);
  memset(a->variant, 'v', sizeof a->variant);
}

static void test_answers_that_are_faults_of_the_plugin(void **state) {
  fixture *f = *state;
  static const struct {
    void (*change)(ord_answer *answer);
    const char *reason;
  } row[] = {
      {no_phase, "answered with 0 phases; wanted 1 to 8 (a fault of the plugin)"},
      {many_phases, "answered with 9 phases; wanted 1 to 8 (a fault of the plugin)"},
      {no_chunk, "answered with 0 chunks in phase 1; wanted at least 1 (a fault of the plugin)"},
      {many_items, "would fuse 3 epilogue items of 0 (a fault of the plugin)"},
      {odd_alias, "would overwrite an operand that does not exist, mask 0x8 of 3 operands (a fault of the plugin)"},
      {pack_input, "wants operand 0 packed, which is no weight (a fault of the plugin)"},
      {pack_nowhere, "wants operand 1 packed but has no pack function (a fault of the plugin)"},
      {other_pack, "moved the host's pack array (a fault of the plugin)"},
  };
  other_fast.status = ORD_NO;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    fast.change = row[i].change;
    assert_winner(f, &plain, "first");
    assert_reason(f, &fast, row[i].reason);
  }
  fast.change = endless_reason;
  fast.status = ORD_NO;
  assert_winner(f, &plain, "first");
  fast.status = ORD_OK;
  assert_winner(f, &fast, "first");
  assert_int_equal(strlen(f->choice.answer.variant), sizeof f->choice.answer.variant - 1);
}

static void test_the_answer_outlives_the_choice(void **state) {
  fixture *f = *state;
  ord_choice first;
  assert_true(choose(f));
  first = f->choice;
  assert_true(choose(f));
  assert_ptr_not_equal(first.answer.pack, f->choice.answer.pack);
  for (uint32_t i = 0; i < f->node.operand_count; i++) assert_int_equal(first.answer.pack[i].key, 0);
}

static void test_pins_are_parsed(void **state) {
  fixture *f = *state;
  static const struct {
    const char *text, *selector, *kernel, *plugin;
  } row[] = {{"attention=naive", "attention", "naive", NULL},
             {"layer.*.a=naive@first", "layer.*.a", "naive", "first"},
             {"", NULL, NULL, NULL},
             {"attention", NULL, NULL, NULL},
             {"=naive", NULL, NULL, NULL},
             {"attention=", NULL, NULL, NULL},
             {"attention=@first", NULL, NULL, NULL},
             {"attention=naive@", NULL, NULL, NULL}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_pin parsed;
    assert_int_equal(ord_pin_parse(&f->arena, row[i].text, &parsed, &f->err), row[i].selector != NULL);
    if (!row[i].selector) {
      assert_non_null(strstr(f->err.text, "wanted SELECTOR=KERNEL"));
      continue;
    }
    assert_string_equal(parsed.selector, row[i].selector);
    assert_string_equal(parsed.kernel, row[i].kernel);
    if (row[i].plugin)
      assert_string_equal(parsed.plugin, row[i].plugin);
    else
      assert_null(parsed.plugin);
  }
}

static void test_pins_match_ops_and_paths(void **state) {
  (void)state;
  static const struct {
    const char *selector;
    bool matches;
  } row[] = {{"matmul", true},      {"layer.3.self_attention.q", true},
             {"layer.*.q", true},   {"*", true},
             {"layer.?.*.k", true}, {"layer.3.*_attention.k", true},
             {"*.q*", true},        {"**q", true},
             {"mat*", false},       {"layer.??.*", false},
             {"layer.3", false},    {"*.v", false},
             {"", false},           {"layer.*.q.x", false},
             {"attention", false}};
  static const char *const path[] = {"layer.3.self_attention.q", "layer.3.self_attention.k"};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    const ord_pin one = {row[i].selector, "k", NULL};
    if (ord_pin_matches(&one, "matmul", path, 2) != row[i].matches) fail_msg("selector '%s'", row[i].selector);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_priority_then_name_then_order_of_loading, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_refusals_fall_through, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_nobody_serves, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_kernels_for_other_devices, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_a_pin_wins_or_fails, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_pins_of_unknown_kernels, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_the_reference_can_be_pinned, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_epilogues, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_answers_that_are_faults_of_the_plugin, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_the_answer_outlives_the_choice, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_pins_are_parsed, set_up, tear_down),
      cmocka_unit_test(test_pins_match_ops_and_paths),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
