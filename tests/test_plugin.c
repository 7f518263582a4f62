/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/plugin.h"
#include "runtime/plugin_image.h"
#include "runtime/text.h"

#define PLUGINS ORDITO_BUILD_DIRECTORY "/tests/plugins/"
#define GOOD PLUGINS "good_relu.so"

static void remember(void *context, int level, const char *text) { ord_text_add(context, "%d %s\n", level, text); }

static ord_registry *create(ord_text *log) {
  ord_registry *registry;
  ord_error err = ORD_ERROR_INIT;
  assert_true(ord_registry_create(log ? remember : NULL, log, &registry, &err));
  return registry;
}

static bool is_mapped(const char *what) {
  FILE *maps = fopen("/proc/self/maps", "r");
  assert_non_null(maps);
  char line[1024];
  bool found = false;
  while (fgets(line, sizeof line, maps)) found |= strstr(line, what) != NULL;
  fclose(maps);
  return found;
}

static void test_loading_a_good_plugin(void **state) {
  (void)state;
  ord_text log = {0};
  ord_registry *registry = create(&log);
  ord_error err = ORD_ERROR_INIT;
  if (!ord_registry_load(registry, GOOD, &err)) fail_msg("%s", err.text);
  assert_int_equal(ord_registry_count(registry), 1);
  const ord_plugin_entry *entry = ord_registry_get(registry, 0);
  assert_string_equal(entry->manifest->name, "good_relu");
  assert_string_equal(entry->plugin->kernel[0]->name, "relu_rows");
  assert_string_equal(entry->file, GOOD);
  assert_false(entry->is_reference);
  assert_true(entry->digest != 0);
  assert_int_equal(ord_registry_verdict_count(registry), 1);
  assert_null(ord_registry_verdict(registry, 0).refused);
  assert_null(ord_registry_get(registry, 1));
  assert_non_null(strstr(log.bytes, "1 plugin good_relu 0.1.0: 1 kernel, digest "));
  assert_true(is_mapped("ordito-plugin"));
  ord_registry_destroy(registry);
  assert_false(is_mapped("ordito-plugin"));
  ord_text_finish(&log);
}

static void test_files_that_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *path, *found;
  } row[] = {
      {"/nowhere/x.so", "/nowhere/x.so: cannot be opened; No such file or directory"},
      {PLUGINS, "is a directory"},
      {ORDITO_SOURCE_DIRECTORY "/runtime/plugin.h", "is not an ELF file; found text"},
      {"/dev/null", "is no regular file"},
      {PLUGINS "bad_no_symbol.so", "is not an Ordito plugin; found no symbol ord_plugin_manifest; wanted it exported"},
      {PLUGINS "bad_version.so", "plugin needs ABI 2.0, this host speaks 0.10"},
      {PLUGINS "bad_no_open.so", "is not a whole Ordito plugin; found no symbol ord_plugin_open"},
      {PLUGINS "bad_open_fails.so",
       "bad_open_fails.so: ord_plugin_open refused: found no device; wanted one (native code 100)"},
      {PLUGINS "bad_kernel_incomplete.so", "kernel 'half' lacks its retire"},
  };
  ord_registry *registry = create(NULL);
  for (uint32_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_error err = ORD_ERROR_INIT;
    assert_false(ord_registry_load(registry, row[i].path, &err));
    if (!strstr(err.text, row[i].found)) fail_msg("'%s' lacks '%s'", err.text, row[i].found);
    assert_int_equal(ord_registry_verdict_count(registry), i + 1);
    assert_string_equal(ord_registry_verdict(registry, i).file, row[i].path);
    assert_string_equal(ord_registry_verdict(registry, i).refused, err.text);
    assert_false(is_mapped("ordito-plugin"));
  }
  assert_int_equal(ord_registry_count(registry), 0);
  ord_error err = ORD_ERROR_INIT;
  assert_true(ord_registry_load(registry, GOOD, &err));
  ord_registry_destroy(registry);
}

/* A temporary file that holds the good plugin with some bytes of its manifest changed. */
static void load_changed(ord_registry *registry, size_t offset, const void *bytes, size_t count, const char *found) {
  ord_image_file file;
  ord_error err = ORD_ERROR_INIT;
  assert_true(ord_image_file_read(GOOD, &file, &err));
  const uint32_t start[2] = {ORD_PLUGIN_MAGIC, sizeof(ord_manifest)};
  unsigned char *manifest = memmem(file.bytes, file.size, start, sizeof start);
  assert_non_null(manifest);
  memcpy(manifest + offset, bytes, count);
  char path[] = "/tmp/ordito-plugin-XXXXXX";
  const int descriptor = mkstemp(path);
  assert_true(descriptor >= 0);
  assert_int_equal(write(descriptor, file.bytes, file.size), (ssize_t)file.size);
  close(descriptor);
  const bool is_loaded = ord_registry_load(registry, path, &err);
  unlink(path);
  ord_image_file_finish(&file);
  if (!found) {
    if (!is_loaded) fail_msg("%s", err.text);
  } else if (is_loaded || !strstr(err.text, found))
    fail_msg("'%s' lacks '%s'", is_loaded ? "loaded" : err.text, found);
}

static void test_manifests_in_files(void **state) {
  (void)state;
  ord_registry *registry = create(NULL);
  load_changed(registry, offsetof(ord_manifest, magic), &(uint32_t){1}, 4,
               "is not an Ordito plugin; found magic 0x00000001");
  load_changed(registry, offsetof(ord_manifest, abi_minor_needed), &(uint16_t){8}, 2, "plugin needs ABI 0.8");
  load_changed(registry, offsetof(ord_manifest, struct_size), &(uint32_t){20}, 4, "manifest is too small");
  load_changed(registry, offsetof(ord_manifest, host_features_needed), &(uint64_t){1}, 8, "needs host features");
  load_changed(registry, offsetof(ord_manifest, name), "", 1, "plugin has an empty name");
  load_changed(registry, offsetof(ord_manifest, name), "first", 6, NULL);
  load_changed(registry, offsetof(ord_manifest, name), "first", 6,
               "plugin 'first' is already loaded from /tmp/ordito-plugin-");
  load_changed(registry, offsetof(ord_manifest, name), "second", 7, NULL);
  assert_int_equal(ord_registry_count(registry), 2);
  assert_ptr_not_equal(ord_registry_get(registry, 0)->plugin, ord_registry_get(registry, 1)->plugin);
  assert_true(ord_registry_get(registry, 0)->digest != ord_registry_get(registry, 1)->digest);
  ord_registry_destroy(registry);
}

static void test_a_folder(void **state) {
  (void)state;
  ord_text log = {0};
  ord_registry *registry = create(&log);
  ord_error err = ORD_ERROR_INIT;
  assert_true(ord_registry_load_folder(registry, "/nowhere/plugins", &err));
  assert_non_null(strstr(log.bytes, "2 plugin folder /nowhere/plugins: cannot be opened; No such file"));
  assert_int_equal(ord_registry_verdict_count(registry), 0);
  assert_true(ord_registry_load_folder(registry, ORDITO_BUILD_DIRECTORY "/tests/plugins", &err));
  bool has_good = false;
  for (uint32_t i = 0; i < ord_registry_verdict_count(registry); i++) {
    const ord_plugin_verdict verdict = ord_registry_verdict(registry, i);
    const char *name = strrchr(verdict.file, '/') + 1;
    if (!strcmp(name, "good_relu.so")) has_good = true;
    assert_string_not_equal(name, "bad_no_symbol.so"); /* an ordinary library is no candidate */
    /* Of bad_kernels the kernels are bad, which only their use shows. */
    assert_int_equal(verdict.refused != NULL, !strncmp(name, "bad_", 4) && strcmp(name, "bad_kernels.so") != 0);
    if (i) assert_true(strcmp(ord_registry_verdict(registry, i - 1).file, verdict.file) < 0);
  }
  assert_true(has_good);
  assert_non_null(strstr(log.bytes, "2 " ORDITO_BUILD_DIRECTORY "/tests/plugins/bad_version.so: plugin needs ABI 2.0"));
  ord_registry_destroy(registry);
  ord_text_finish(&log);
}

static ord_status refuse(const ord_host *host, const ord_plugin **plugin, ord_plugin_error *err) {
  (void)host;
  (void)plugin;
  (void)err;
  return ORD_INTERNAL;
}

static ord_status open_nothing(const ord_host *host, const ord_plugin **plugin, ord_plugin_error *err) {
  (void)host;
  (void)plugin;
  (void)err;
  return ORD_OK;
}

static void test_built_in_plugins_go_through_the_same_checks(void **state) {
  (void)state;
  ord_registry *registry = create(NULL);
  ord_error err = ORD_ERROR_INIT;
  assert_true(ord_registry_load(registry, GOOD, &err));
  ord_manifest manifest = *ord_registry_get(registry, 0)->manifest;
  assert_false(ord_registry_add_static(registry, &manifest, refuse, true, &err));
  assert_string_equal(err.text, "(built in): plugin 'good_relu' is already loaded from " GOOD);
  strcpy(manifest.name, "builtin");
  assert_false(ord_registry_add_static(registry, &manifest, refuse, true, &err));
  assert_string_equal(err.text, "(built in): ord_plugin_open refused: failed without a reason (status 5)");
  assert_false(ord_registry_add_static(registry, &manifest, open_nothing, true, &err));
  assert_string_equal(err.text, "(built in): ord_plugin_open succeeded but gave no plugin");
  manifest.abi_major = 3;
  assert_false(ord_registry_add_static(registry, &manifest, open_nothing, true, &err));
  assert_int_equal(ord_registry_count(registry), 1);
  ord_registry_destroy(registry);
  ord_registry_destroy(NULL);
}

static void test_services_of_the_host(void **state) {
  (void)state;
  ord_text log = {0};
  ord_registry *registry = create(&log);
  const ord_host *host = ord_registry_host(registry);
  static const size_t align[] = {1, 8, 64, 4096};
  for (size_t i = 0; i < sizeof align / sizeof *align; i++) {
    void *memory = host->allocate(host->context, 100, align[i]);
    assert_non_null(memory);
    assert_int_equal((uintptr_t)memory % align[i], 0);
    host->release(host->context, memory);
  }
  host->release(host->context, NULL);
  host->log(host->context, ORD_LOG_WARNING, "100% sure");
  assert_string_equal(log.bytes, "2 100% sure\n");
  assert_null(host->find(host->context, "anything@1"));
  ord_registry_destroy(registry);
  ord_text_finish(&log);
}

static void test_loading_and_unloading_many_times(void **state) {
  (void)state;
  for (int i = 0; i < 300; i++) {
    ord_registry *registry = create(NULL);
    ord_error err = ORD_ERROR_INIT;
    assert_true(ord_registry_load(registry, GOOD, &err));
    ord_registry_destroy(registry);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_loading_a_good_plugin),
      cmocka_unit_test(test_files_that_are_refused),
      cmocka_unit_test(test_manifests_in_files),
      cmocka_unit_test(test_a_folder),
      cmocka_unit_test(test_built_in_plugins_go_through_the_same_checks),
      cmocka_unit_test(test_services_of_the_host),
      cmocka_unit_test(test_loading_and_unloading_many_times),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
