/* SPDX-License-Identifier: MIT */
#include "models/whole_file.h"

#include <sys/stat.h>

#include "weight_fixture.h"

enum { LARGE = 3 << 20 };

static void test_a_file_appears_at_its_end(void **state) {
  (void)state;
  ord_error err;
  ord_whole_file file;
  unsigned char *bytes = malloc(LARGE);
  assert_non_null(bytes);
  memset(bytes, 7, LARGE);
  MUST(ord_whole_file_begin(&file, in_folder("out"), &err));
  MUST(ord_whole_file_write(&file, "head", 4, &err));
  MUST(ord_whole_file_write(&file, bytes, LARGE, &err));
  assert_int_not_equal(access(in_folder("out"), F_OK), 0);
  MUST(ord_whole_file_end(&file, &err));
  struct stat status;
  assert_int_equal(stat(in_folder("out"), &status), 0);
  assert_int_equal(status.st_size, LARGE + 4);
  free(bytes);
}

static void test_an_abandoned_file_leaves_nothing(void **state) {
  (void)state;
  ord_error err;
  ord_whole_file file;
  write_bytes("out", "old", 3);
  MUST(ord_whole_file_begin(&file, in_folder("out"), &err));
  MUST(ord_whole_file_write(&file, "new file", 8, &err));
  ord_whole_file_abandon(&file);
  ord_whole_file_abandon(&file);
  ord_whole_file zeroed = {0};
  ord_whole_file_abandon(&zeroed);
  struct stat status;
  assert_int_equal(stat(in_folder("out"), &status), 0);
  assert_int_equal(status.st_size, 3);
  expect_files("out ");
}

/* Two writers of one name do not mix their bytes; the last one to end wins. */
static void test_two_writers_of_one_name(void **state) {
  (void)state;
  ord_error err;
  ord_whole_file one, other;
  MUST(ord_whole_file_begin(&one, in_folder("out"), &err));
  MUST(ord_whole_file_begin(&other, in_folder("out"), &err));
  MUST(ord_whole_file_write(&one, "one", 3, &err));
  MUST(ord_whole_file_write(&other, "other", 5, &err));
  MUST(ord_whole_file_end(&other, &err));
  MUST(ord_whole_file_end(&one, &err));
  char bytes[8] = "";
  FILE *file = fopen(in_folder("out"), "rb");
  assert_non_null(file);
  assert_int_equal(fread(bytes, 1, sizeof bytes, file), 3);
  fclose(file);
  assert_string_equal(bytes, "one");
}

static void test_places_that_take_no_file(void **state) {
  (void)state;
  assert_int_equal(mkfifo(in_folder("pipe"), 0666), 0);
  assert_int_equal(mkdir(in_folder("inner"), 0777), 0);
  static const struct {
    const char *name, *wanted;
  } row[] = {{"pipe", "pipe: is there and is not a regular file"},
             {"inner", "inner: is there and is not a regular file"},
             {"absent/out", "absent/out: cannot be written: No such file or directory"}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_error err;
    ord_whole_file file;
    MUST_FAIL(ord_whole_file_begin(&file, in_folder(row[i].name), &err), row[i].wanted);
    assert_int_equal(err.code, ORD_INVALID);
    ord_whole_file_abandon(&file);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_file_appears_at_its_end),
      cmocka_unit_test(test_an_abandoned_file_leaves_nothing),
      cmocka_unit_test(test_two_writers_of_one_name),
      cmocka_unit_test(test_places_that_take_no_file),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
