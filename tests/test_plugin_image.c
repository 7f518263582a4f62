/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/plugin_image.h"

#define GOOD ORDITO_BUILD_DIRECTORY "/tests/plugins/good_relu.so"

static void test_paths_that_cannot_be_read(void **state) {
  (void)state;
  char folder[] = "/tmp/ordito-pipe-XXXXXX", pipe_path[64];
  assert_non_null(mkdtemp(folder));
  snprintf(pipe_path, sizeof pipe_path, "%s/pipe", folder);
  assert_int_equal(mkfifo(pipe_path, 0600), 0);
  const struct {
    const char *path;
    ord_status code;
    const char *found;
  } row[] = {{"/nowhere/plugin.so", ORD_INVALID, "/nowhere/plugin.so: cannot be opened; No such file or directory"},
             {"", ORD_INVALID, "cannot be opened"},
             {ORDITO_BUILD_DIRECTORY, ORD_INVALID, ": is a directory; wanted a shared object"},
             {pipe_path, ORD_INVALID, ": is no regular file"}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_image_file file;
    ord_error err = ORD_ERROR_INIT;
    assert_false(ord_image_file_read(row[i].path, &file, &err));
    assert_null(file.bytes);
    assert_int_equal(err.code, row[i].code);
    if (!strstr(err.text, row[i].found)) fail_msg("'%s' lacks '%s'", err.text, row[i].found);
  }
  unlink(pipe_path);
  rmdir(folder);
}

static int count_descriptors(void) {
  DIR *folder = opendir("/proc/self/fd");
  assert_non_null(folder);
  int count = 0;
  while (readdir(folder)) count++;
  closedir(folder);
  return count;
}

/* Copies have code and data of their own, also after an earlier one is gone, and hold no descriptor. */
static void test_each_mapping_is_its_own(void **state) {
  (void)state;
  ord_image_file file;
  ord_error err = ORD_ERROR_INIT;
  assert_true(ord_image_file_read(GOOD, &file, &err));
  const int descriptors = count_descriptors();
  void *handle[3];
  for (int i = 0; i < 3; i++) {
    if (!ord_image_map(GOOD, &file, &handle[i], &err)) fail_msg("%s", err.text);
    for (int before = 0; before < i; before++)
      assert_ptr_not_equal(dlsym(handle[i], "ord_plugin_open"), dlsym(handle[before], "ord_plugin_open"));
  }
  assert_true(ord_image_unmap(handle[0]));
  assert_true(ord_image_map(GOOD, &file, &handle[0], &err));
  for (int i = 0; i < 3; i++) assert_true(ord_image_unmap(handle[i]));
  assert_int_equal(count_descriptors(), descriptors);
  ord_image_file_finish(&file);
}

/* The name of a library that the plugin needs is changed in its bytes: the loader's own words must come through. */
static void test_what_the_loader_says_comes_through(void **state) {
  (void)state;
  ord_image_file file;
  ord_error err = ORD_ERROR_INIT;
  assert_true(ord_image_file_read(GOOD, &file, &err));
  char *needed = memmem(file.bytes, file.size, "libc.so.6", 9);
  assert_non_null(needed);
  memcpy(needed, "libq.so.6", 9);
  void *handle;
  assert_false(ord_image_map("p.so", &file, &handle, &err));
  assert_null(handle);
  if (!strstr(err.text, "p.so: cannot be loaded; libq.so.6: cannot open shared object file")) fail_msg("%s", err.text);
  ord_image_file_finish(&file);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_paths_that_cannot_be_read),
      cmocka_unit_test(test_each_mapping_is_its_own),
      cmocka_unit_test(test_what_the_loader_says_comes_through),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
