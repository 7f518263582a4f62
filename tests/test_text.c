/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "runtime/text.h"

static void test_appending(void **state) {
  (void)state;
  ord_text text = {0};
  for (int i = 0; i < 1000; i++) ord_text_add(&text, "%d,", i % 10);
  ord_text_add_n(&text, "end....", 3);
  assert_false(text.failed);
  assert_int_equal(text.length, 2003);
  assert_int_equal(strlen(text.bytes), 2003);
  assert_string_equal(text.bytes + 1996, "8,9,end");
  ord_text_finish(&text);
  assert_null(text.bytes);
  ord_text_finish(&text);
}

static void test_appending_nothing_terminates(void **state) {
  (void)state;
  ord_text text = {0};
  ord_text_add_n(&text, NULL, 0);
  assert_string_equal(text.bytes, "");
  ord_text_finish(&text);
}

static void test_too_large_is_remembered(void **state) {
  (void)state;
  ord_text text = {0};
  ord_text_add(&text, "whole");
  ord_text_add_n(&text, "x", SIZE_MAX / 2);
  assert_true(text.failed);
  ord_text_add(&text, "ignored");
  assert_string_equal(text.bytes, "whole");
  ord_text_finish(&text);
}

static void test_giving_hands_over_or_fails(void **state) {
  (void)state;
  ord_text text = {0}, cut = {0};
  ord_error err = ORD_ERROR_INIT;
  char *out = NULL;
  ord_text_add(&text, "whole");
  assert_true(ord_text_give(&text, "writing", &out, &err));
  assert_string_equal(out, "whole");
  assert_null(text.bytes);
  ord_text_free(out);
  ord_text_add(&cut, "whole");
  ord_text_add_n(&cut, "x", SIZE_MAX / 2);
  assert_false(ord_text_give(&cut, "writing", &out, &err));
  assert_int_equal(err.code, ORD_NO_MEMORY);
  assert_null(out);
  assert_null(cut.bytes);
}

static void test_endings(void **state) {
  (void)state;
  assert_true(ord_ends_with("a.safetensors", ".safetensors"));
  assert_true(ord_ends_with("a", ""));
  assert_true(ord_ends_with("bias", "bias"));
  assert_false(ord_ends_with("as", "bias"));
  assert_false(ord_ends_with("bias_scale", "bias"));
}

static void test_json(void **state) {
  (void)state;
  static const struct {
    const char *string, *json;
  } row[] = {
      {"", "\"\""},
      {"layer.0 \"q\"\\", "\"layer.0 \\\"q\\\"\\\\\""},
      {"\b\f\n\r\t\x01\x1f", "\"\\b\\f\\n\\r\\t\\u0001\\u001f\""},
      {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82\""},
      {"\x7f\xc2\x9b\xc2\xa0", "\"\\u007f\\u009b\xc2\xa0\""},
      {"a\xff"
       "b",
       "\"a\xef\xbf\xbd"
       "b\""},
      {"\xe2\x82", "\"\xef\xbf\xbd\xef\xbf\xbd\""},                                 /* cut in the middle */
      {"\xc0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\""},                                 /* overlong */
      {"\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},                 /* a surrogate */
      {"\xf4\x90\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""}, /* beyond U+10FFFF */
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_text text = {0};
    ord_text_add_json(&text, row[i].string);
    assert_string_equal(text.bytes, row[i].json);
    ord_text_finish(&text);
  }
}

static void test_what_a_terminal_may_get(void **state) {
  (void)state;
  static const struct {
    const char *text;
    size_t printable;
  } row[] = {{"", 0},
             {"one\n\ttwo ~", 10},
             {"a\x1b[31m", 1},
             {"a\rb", 1},
             {"\x7f", 0},
             {"\xc3\xa9\xff", 2},
             {"\xc2\x9b"
              "31m",
              0},
             {"\xc2\xa0.", 3},
             {"ab\xe2\x82", 2},
             {"\xc0\x9b", 0}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    assert_int_equal(ord_text_printable(row[i].text), row[i].printable);
}

static void test_plurals(void **state) {
  (void)state;
  assert_string_equal(ord_plural(0), "s");
  assert_string_equal(ord_plural(1), "");
  assert_string_equal(ord_plural(2), "s");
}

static void test_nearest_name(void **state) {
  (void)state;
  static const char *const candidate[] = {
      NULL,       "matmul",   "reshape", "eps", "h", "logits", "rmsnorm", "weight", "transformer.wte.weight",
      "gelu_erf", "gelu_tanh"};
  static const struct {
    const char *name, *nearest;
  } row[] = {
      {"matmull", "matmul"},
      {"matmul", "matmul"},
      {"mtamul", "matmul"},
      {"epsilon", "eps"},
      {"logit", "logits"},
      {"hh", "h"},
      {"q", NULL},
      {"zzz", NULL},
      {"rmsnrom", "rmsnorm"},
      {"rms", "rmsnorm"},
      {"wieght", "weight"},
      {"wte.weight", "transformer.wte.weight"},
      {"MatMul", "matmul"},
      {"LOGIT", "logits"},
      {"Gelu_Tanh", "gelu_tanh"},
      {"gelu", "gelu_erf"},
      {"", NULL},
      {"convolution", NULL},
      {"gelu_tan", "gelu_tanh"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    const char *nearest = ord_nearest_name(row[i].name, candidate, sizeof candidate / sizeof *candidate);
    if (row[i].nearest)
      assert_string_equal(nearest ? nearest : "nothing", row[i].nearest);
    else
      assert_null(nearest);
  }
}

static void test_names_too_long_to_compare(void **state) {
  (void)state;
  char long_name[600];
  memset(long_name, 'a', sizeof long_name - 1);
  long_name[sizeof long_name - 1] = '\0';
  const char *const candidate[] = {long_name, "abc"};
  assert_string_equal(ord_nearest_name("abd", candidate, 2), "abc");
  assert_null(ord_nearest_name(long_name, candidate, 2));
  long_name[255] = '\0';
  assert_ptr_equal(ord_nearest_name(long_name, candidate, 2), long_name);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_appending),
      cmocka_unit_test(test_appending_nothing_terminates),
      cmocka_unit_test(test_too_large_is_remembered),
      cmocka_unit_test(test_giving_hands_over_or_fails),
      cmocka_unit_test(test_endings),
      cmocka_unit_test(test_json),
      cmocka_unit_test(test_what_a_terminal_may_get),
      cmocka_unit_test(test_plurals),
      cmocka_unit_test(test_nearest_name),
      cmocka_unit_test(test_names_too_long_to_compare),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
