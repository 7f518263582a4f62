/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "runtime/plugin_check.h"

static ord_manifest good_manifest(void) { return (ord_manifest){ORD_MANIFEST_HEAD, .name = "good"}; }

static void break_magic(ord_manifest *m) { m->magic = 7; }
static void break_major(ord_manifest *m) { m->abi_major = 2, m->abi_minor_needed = 0; }
static void break_newer(ord_manifest *m) { m->abi_minor_needed = 11, m->abi_minor_built = 11; }
static void break_older(ord_manifest *m) { m->abi_minor_needed = 9, m->abi_minor_built = 9; }
static void break_built(ord_manifest *m) { m->abi_minor_built = 9; }
static void break_size(ord_manifest *m) { m->struct_size = 100; }
static void break_features(ord_manifest *m) { m->host_features_needed = 6; }
static void break_flags(ord_manifest *m) { m->flags = ORD_PLUGIN_UNLOADABLE | 6; }
static void break_reserved(ord_manifest *m) { m->reserved = 3; }
static void break_empty_name(ord_manifest *m) { m->name[0] = '\0'; }
static void break_endless_name(ord_manifest *m) { memset(m->name, 'x', sizeof m->name); }
static void break_odd_name(ord_manifest *m) { strcpy(m->name, "a b"); }
static void break_version(ord_manifest *m) { strcpy(m->version, "1\"0"); }

static void test_manifests_that_are_refused(void **state) {
  (void)state;
  static const struct {
    void (*damage)(ord_manifest *manifest);
    ord_status code;
    const char *text;
  } row[] = {
      {break_magic, ORD_INVALID,
       "p.so: is not an Ordito plugin; found magic 0x00000007 in ord_plugin_manifest; wanted 0x4f524431"},
      {break_major, ORD_INVALID, "p.so: plugin needs ABI 2.0, this host speaks 0.10; rebuild one of them"},
      {break_newer, ORD_INVALID, "p.so: plugin needs ABI 0.11, this host speaks only 0.10; update the host"},
      {break_older, ORD_INVALID,
       "p.so: plugin needs ABI 0.9 and was built with 0.9, this host speaks 0.10; before 1.0 all must be equal; "
       "rebuild "
       "the plugin"},
      {break_built, ORD_INVALID,
       "p.so: plugin needs ABI 0.10 and was built with 0.9, this host speaks 0.10; before 1.0 all must be equal; "
       "rebuild "
       "the plugin"},
      {break_size, ORD_INVALID, "p.so: manifest is too small; found struct_size 100 in 176 bytes; wanted at least 176"},
      {break_features, ORD_UNSUPPORTED,
       "p.so: plugin needs host features that this host does not offer; found bits 0x6; wanted none beyond 0x1"},
      {break_flags, ORD_INVALID, "p.so: manifest has unknown flags; found bits 0x6; wanted none beyond 0x1"},
      {break_reserved, ORD_INVALID, "p.so: manifest has something in `reserved`; found 3; wanted 0"},
      {break_empty_name, ORD_INVALID, "p.so: plugin has an empty name; wanted one in its manifest"},
      {break_endless_name, ORD_INVALID, "p.so: plugin name has no end; wanted at most 39 characters and a zero"},
      {break_odd_name, ORD_INVALID, "p.so: plugin name has character 32 at 1; wanted letters, digits, _ - . and +"},
      {break_version, ORD_INVALID, "p.so: plugin version has character 34 at 1; wanted letters, digits, _ - . and +"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_manifest manifest = good_manifest();
    row[i].damage(&manifest);
    ord_error err = ORD_ERROR_INIT;
    assert_false(ord_manifest_check("p.so", &manifest, sizeof manifest, 1, &err));
    assert_string_equal(err.text, row[i].text);
    assert_int_equal(err.code, row[i].code);
  }
}

static void test_good_manifest(void **state) {
  (void)state;
  ord_manifest manifest = good_manifest();
  manifest.host_features_needed = 5;
  memset(manifest.version, 'v', sizeof manifest.version);
  ord_error err = ORD_ERROR_INIT;
  assert_true(ord_manifest_check("p.so", &manifest, sizeof manifest, 5, &err));
  assert_int_equal(strlen(manifest.version), sizeof manifest.version - 1);
}

static void test_manifest_of_which_the_file_holds_a_part(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  for (uint32_t bytes = 0; bytes < sizeof(ord_manifest); bytes += 3) {
    ord_manifest whole = good_manifest(), part = {0};
    memcpy(&part, &whole, bytes);
    assert_false(ord_manifest_check("p.so", &part, bytes, 0, &err));
  }
}

static ord_status query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  (void)kernel;
  (void)node;
  (void)answer;
  return ORD_NO;
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

static void test_kernels_that_are_refused(void **state) {
  (void)state;
  const ord_kernel whole = {.struct_size = sizeof whole,
                            .name = "k",
                            .op = "relu",
                            .query = query,
                            .prepare = prepare,
                            .launch = launch,
                            .retire = retire};
  ord_kernel other = whole;
  other.name = "other";
  ord_kernel no_op = whole, empty_op = whole, no_query = whole, no_prepare = whole, no_launch = whole,
             no_retire = whole, no_name = whole, odd_name = whole, odd_op = whole, small = whole, flagged = whole,
             foreign = whole;
  no_op.op = NULL;
  empty_op.op = "";
  no_query.query = NULL;
  no_prepare.prepare = NULL;
  no_launch.launch = NULL;
  no_retire.retire = NULL;
  no_name.name = NULL;
  odd_name.name = "k=1";
  odd_op.op = "re\nlu";
  small.struct_size = 16;
  flagged.flags = 2;
  foreign.device = 7;
  const struct {
    const ord_kernel *second;
    const char *found;
  } row[] = {
      {NULL, "p.so: entry 1 of its kernel table is NULL"},
      {&no_op, "p.so: kernel 'k' lacks its op;"},
      {&empty_op, "p.so: kernel 'k' lacks its op;"},
      {&no_query, "p.so: kernel 'k' lacks its query;"},
      {&no_prepare, "p.so: kernel 'k' lacks its prepare;"},
      {&no_launch, "p.so: kernel 'k' lacks its launch;"},
      {&no_retire, "p.so: kernel 'k' lacks its retire;"},
      {&no_name, "p.so: kernel 1 lacks its name"},
      {&odd_name, "p.so: kernel name has character 61 at 1; wanted letters"},
      {&odd_op, "p.so: kernel op has character 10 at 2; wanted letters"},
      {&small, "p.so: kernel 1 has an unknown struct_size; found 16; wanted at least"},
      {&flagged, "p.so: kernel 'k' has something in `flags`; found 2; wanted 0"},
      {&foreign, "p.so: kernel 'k' is for an unknown device; found kind 7; wanted 0 to 2"},
      {&other, "p.so: two kernels have the name 'other' (entries 0 and 1)"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    const ord_kernel *const kernel[] = {&other, row[i].second};
    const ord_plugin plugin = {.struct_size = sizeof plugin, .kernel_count = 2, .kernel = kernel};
    ord_error err = ORD_ERROR_INIT;
    assert_false(ord_plugin_table_check("p.so", &plugin, &err));
    if (!strstr(err.text, row[i].found)) fail_msg("'%s' lacks '%s'", err.text, row[i].found);
  }
  const ord_kernel *const both[] = {&whole, &other};
  const ord_plugin good = {.struct_size = sizeof good, .kernel_count = 2, .kernel = both};
  ord_error err = ORD_ERROR_INIT;
  assert_true(ord_plugin_table_check("p.so", &good, &err));
}

static void test_tables_that_are_refused(void **state) {
  (void)state;
  const ord_plugin small = {.struct_size = 8}, empty = {.struct_size = sizeof empty},
                   no_table = {.struct_size = sizeof no_table, .kernel_count = 3},
                   reserved = {.struct_size = sizeof reserved, .reserved = 5};
  const struct {
    const ord_plugin *plugin;
    const char *found;
  } row[] = {{NULL, "p.so: ord_plugin_open succeeded but gave no plugin"},
             {&small, "p.so: its plugin table has an unknown struct_size; found 8"},
             {&empty, "p.so: plugin has no kernels"},
             {&no_table, "p.so: plugin has no kernels"},
             {&reserved, "p.so: its plugin table has something in `reserved`; found 5; wanted 0"}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_error err = ORD_ERROR_INIT;
    assert_false(ord_plugin_table_check("p.so", row[i].plugin, &err));
    if (!strstr(err.text, row[i].found)) fail_msg("'%s' lacks '%s'", err.text, row[i].found);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_manifests_that_are_refused),
      cmocka_unit_test(test_good_manifest),
      cmocka_unit_test(test_manifest_of_which_the_file_holds_a_part),
      cmocka_unit_test(test_kernels_that_are_refused),
      cmocka_unit_test(test_tables_that_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
