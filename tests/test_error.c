/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "runtime/error.h"

static void test_fail_fills_code_and_text(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  err.line = 7;
  assert_false(ord_fail(&err, ORD_IO, "read %d bytes", 3));
  assert_int_equal(err.code, ORD_IO);
  assert_int_equal(err.line, 0);
  assert_string_equal(err.text, "read 3 bytes");
  assert_int_equal(err.struct_size, sizeof err);
}

static void test_no_error_wanted(void **state) {
  (void)state;
  const ord_plugin_error from = {.struct_size = sizeof from};
  assert_false(ord_fail(NULL, ORD_IO, "x"));
  assert_false(ord_fail_at(NULL, ORD_IO, "f", 1, 1, "x"));
  assert_false(ord_fail_memory(NULL, "x"));
  assert_false(ord_fail_prefix(NULL, "x"));
  assert_false(ord_fail_plugin(NULL, ORD_IO, &from, "x"));
}

static void test_places(void **state) {
  (void)state;
  static const struct {
    const char *file;
    uint32_t line, column, wanted_column;
    const char *text;
  } row[] = {{"m.yaml", 14, 7, 7, "m.yaml:14:7: wrong"},
             {"m.yaml", 14, 0, 0, "m.yaml:14: wrong"},
             {"m.yaml", 0, 9, 0, "m.yaml: wrong"},
             {"", 0, 0, 0, "wrong"}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_error err = ORD_ERROR_INIT;
    assert_false(ord_fail_at(&err, ORD_INVALID, row[i].file, row[i].line, row[i].column, "wro%s", "ng"));
    assert_string_equal(err.text, row[i].text);
    assert_string_equal(err.file, row[i].file);
    assert_int_equal(err.line, row[i].line);
    assert_int_equal(err.column, row[i].wanted_column);
  }
}

/* The error of a program that was built when its text was shorter. */
static void test_a_shorter_error(void **state) {
  (void)state;
  ord_error err = {.struct_size = offsetof(ord_error, text) + 8};
  memset(err.text, '~', sizeof err.text);
  assert_false(ord_fail(&err, ORD_IO, "%s", "0123456789"));
  assert_string_equal(err.text, "0123456");
  assert_false(ord_fail(&err, ORD_IO, "%s", "tomb\xc3\xa9\xc3\xa9"));
  assert_string_equal(err.text, "tomb\xc3\xa9");
  assert_false(ord_fail_prefix(&err, "%s", "in"));
  assert_string_equal(err.text, "in: tom");
  for (size_t i = 8; i < sizeof err.text; i++) assert_int_equal(err.text[i], '~');
}

/* "é" is two bytes, "🙂" four: wherever the cut falls, only whole characters stay. */
static void test_long_texts_are_cut_between_characters(void **state) {
  (void)state;
  static const char *const character[] = {"a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x99\x82"};
  for (size_t i = 0; i < sizeof character / sizeof *character; i++)
    for (size_t shift = 0; shift < 4; shift++) {
      char text[5000] = "";
      memset(text, 'x', shift);
      const size_t bytes = strlen(character[i]);
      for (size_t at = shift; at + bytes < sizeof text; at += bytes) memcpy(text + at, character[i], bytes);
      ord_error err = ORD_ERROR_INIT;
      ord_fail(&err, ORD_INVALID, "%s", text);
      const size_t length = strlen(err.text);
      assert_int_equal((length - shift) % bytes, 0);
      assert_in_range(length, sizeof err.text - bytes, sizeof err.text - 1);
    }
}

static void test_long_file_is_cut_in_the_field(void **state) {
  (void)state;
  char file[400];
  memset(file, 'f', sizeof file - 1);
  file[sizeof file - 1] = '\0';
  ord_error err = ORD_ERROR_INIT;
  ord_fail_at(&err, ORD_IO, file, 1, 2, "wrong");
  assert_int_equal(strlen(err.file), sizeof err.file - 1);
  assert_non_null(strstr(err.text, ":1:2: wrong"));
}

static void test_prefix_keeps_code_and_place(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  ord_fail_at(&err, ORD_IO, "w.bin", 3, 4, "too short");
  assert_false(ord_fail_prefix(&err, "weight '%s'", "wte"));
  assert_string_equal(err.text, "weight 'wte': w.bin:3:4: too short");
  assert_int_equal(err.code, ORD_IO);
  assert_int_equal(err.line, 3);
}

static void test_arguments_may_point_into_the_error(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  ord_fail(&err, ORD_IO, "inner");
  ord_fail(&err, ORD_INVALID, "outer (%s)", err.text);
  assert_string_equal(err.text, "outer (inner)");
}

static void test_memory(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  assert_false(ord_fail_memory(&err, "packing weights"));
  assert_int_equal(err.code, ORD_NO_MEMORY);
  assert_string_equal(err.text, "out of memory while packing weights");
}

static void test_plugin_errors(void **state) {
  (void)state;
  static const struct {
    ord_status code, wanted_code;
    int32_t native;
    const char *text, *wanted;
  } row[] = {
      {ORD_NO_MEMORY, ORD_NO_MEMORY, 0, "no room", "k: no room"},
      {ORD_DEVICE_FAILED, ORD_DEVICE_FAILED, 719, "launch", "k: launch (native code 719)"},
      {ORD_INVALID, ORD_INVALID, 0, "", "k: failed without a reason (status 2)"},
      {ORD_NO_MEMORY, ORD_NO_MEMORY, 0, "", "k: out of memory"},
      {ORD_NO_MEMORY, ORD_NO_MEMORY, 2, "", "k: out of memory (native code 2)"},
      {ORD_OK, ORD_INTERNAL, 0, "odd", "k: odd"},
      {ORD_UNSUPPORTED, ORD_UNSUPPORTED, 0, "no device", "k: no device"},
      {ORD_CANCELLED, ORD_INTERNAL, 0, "not its word to say", "k: not its word to say"},
      {(ord_status)77, ORD_INTERNAL, 0, "", "k: failed without a reason (status 77)"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_plugin_error from = {.struct_size = sizeof from, .native = row[i].native};
    strcpy(from.text, row[i].text);
    ord_error err = ORD_ERROR_INIT;
    assert_false(ord_fail_plugin(&err, row[i].code, &from, "k"));
    assert_int_equal(err.code, row[i].wanted_code);
    assert_string_equal(err.text, row[i].wanted);
  }
}

static void test_plugin_text_without_an_end(void **state) {
  (void)state;
  ord_plugin_error from = {.struct_size = sizeof from};
  memset(from.text, 'x', sizeof from.text);
  ord_error err = ORD_ERROR_INIT;
  ord_fail_plugin(&err, ORD_INTERNAL, &from, "k");
  assert_int_equal(strlen(err.text), 3 + sizeof from.text);
}

static void test_what_an_errno_means(void **state) {
  (void)state;
  assert_int_equal(ord_status_of_errno(ENOENT), ORD_INVALID);
  assert_int_equal(ord_status_of_errno(EACCES), ORD_INVALID);
  assert_int_equal(ord_status_of_errno(EISDIR), ORD_INVALID);
  assert_int_equal(ord_status_of_errno(ENOMEM), ORD_NO_MEMORY);
  assert_int_equal(ord_status_of_errno(ENOSPC), ORD_IO);
  assert_int_equal(ord_status_of_errno(EIO), ORD_IO);
  assert_int_equal(ord_status_of_errno(0), ORD_IO);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fail_fills_code_and_text),
      cmocka_unit_test(test_no_error_wanted),
      cmocka_unit_test(test_places),
      cmocka_unit_test(test_a_shorter_error),
      cmocka_unit_test(test_long_texts_are_cut_between_characters),
      cmocka_unit_test(test_long_file_is_cut_in_the_field),
      cmocka_unit_test(test_prefix_keeps_code_and_place),
      cmocka_unit_test(test_arguments_may_point_into_the_error),
      cmocka_unit_test(test_memory),
      cmocka_unit_test(test_plugin_errors),
      cmocka_unit_test(test_plugin_text_without_an_end),
      cmocka_unit_test(test_what_an_errno_means),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
