/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "models/scalar.h"

#define BEYOND "', which f32 does not hold; wanted 0, or a size from 1.2e-38 to 3.4e+38"

static void test_numbers(void **state) {
  (void)state;
  static const struct {
    const char *text;
    double value;
  } good[] = {{"1", 1},      {"-2", -2},     {"1.5", 1.5},       {".5", .5},      {"5.", 5},       {"1e-5", 1e-5},
              {"1E+4", 1e4}, {"2e-5", 2e-5}, {"1e4", 1e4},       {"-.5e2", -50},  {"0", 0},        {"0.000", 0},
              {"007", 7},    {"0e9", 0},     {"3.4e38", 3.4e38}, {"100000", 1e5}, {"1e-37", 1e-37}};
  static const struct {
    const char *text, *message;
  } bad[] = {
      {"1e-5f", "eps: found '1e-5f'; wanted a number such as 1e-5"},
      {"inf", "eps: found 'inf'; wanted a finite number such as 1e-5"},
      {"-.inf", "eps: found '-.inf'; wanted a finite number such as 1e-5"},
      {"NaN", "eps: found 'NaN'; wanted a finite number such as 1e-5"},
      {"1_000.0", "eps: found '1_000.0'; wanted a number; write 1000.0"},
      {"1/8", "eps: found '1/8'; wanted a number; write 0.125"},
      {"1/3", "eps: found '1/3'; wanted a number; write 0.3333333333333333"},
      {"1/0", "eps: found '1/0'; wanted a number such as 1e-5"},
      {"+5", "eps: found '+5'; wanted a number; write 5"},
      {"0x10", "eps: found '0x10'; wanted a number such as 1e-5"},
      {"", "eps: found ''; wanted a number such as 1e-5"},
      {".", "eps: found '.'; wanted a number such as 1e-5"},
      {"1e", "eps: found '1e'; wanted a number such as 1e-5"},
      {" 1", "eps: found ' 1'; wanted a number such as 1e-5"},
      {"1e999", "eps: found '1e999" BEYOND},
      {"-1e300", "eps: found '-1e300" BEYOND},
      {"3.41e38", "eps: found '3.41e38" BEYOND},
      {"1e-39", "eps: found '1e-39" BEYOND},
      {"-1e-999", "eps: found '-1e-999" BEYOND},
  };
  ord_fault fault;
  double value;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    assert_true(ord_scalar_number("eps", good[i].text, &value, &fault));
    assert_true(value == good[i].value);
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_false(ord_scalar_number("eps", bad[i].text, &value, &fault));
    assert_string_equal(fault.text, bad[i].message);
  }
}

static void test_numbers_do_not_follow_the_locale(void **state) {
  (void)state;
  ord_fault fault;
  double value;
  const char *german = setlocale(LC_ALL, "de_DE.UTF-8"); /* where it is installed */
  assert_true(ord_scalar_number("eps", "1.5", &value, &fault));
  assert_true(value == 1.5);
  if (german) setlocale(LC_ALL, "C");
}

static void test_bools(void **state) {
  (void)state;
  static const struct {
    const char *text, *hint;
  } bad[] = {{"yes", "; write true"},
             {"no", "; write false"},
             {"on", "; write true"},
             {"off", "; write false"},
             {"1", "; write true"},
             {"0", "; write false"},
             {"True", "; write true"},
             {"FALSE", "; write false"},
             {"y", "; write true"},
             {"N", "; write false"},
             {"maybe", ""},
             {"", ""}};
  ord_fault fault;
  bool value = false;
  assert_true(ord_scalar_bool("causal", "true", &value, &fault));
  assert_true(value);
  assert_true(ord_scalar_bool("causal", "false", &value, &fault));
  assert_false(value);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char wanted[200];
    snprintf(wanted, sizeof wanted, "causal: found '%s'; wanted true or false%s", bad[i].text, bad[i].hint);
    assert_false(ord_scalar_bool("causal", bad[i].text, &value, &fault));
    assert_string_equal(fault.text, wanted);
  }
}

static void test_words(void **state) {
  (void)state;
  static const char *const word[] = {"mean", "first", "last", NULL};
  ord_fault fault;
  uint32_t number = 9;
  assert_true(ord_scalar_word("kind", "first", word, &number, &fault));
  assert_int_equal(number, 1);
  assert_false(ord_scalar_word("kind", "frist", word, &number, &fault));
  assert_string_equal(fault.text, "kind: found 'frist'; wanted mean, first or last; did you mean 'first'?");
  assert_false(ord_scalar_word("kind", "max", word, &number, &fault));
  assert_string_equal(fault.text, "kind: found 'max'; wanted mean, first or last");
}

static void test_names_and_labels(void **state) {
  (void)state;
  static const struct {
    const char *text;
    bool is_name, is_label;
    size_t offset; /* of the fault as a name */
  } row[] = {{"x", true, true, 0},      {"_x9", true, true, 0},   {"no", true, true, 0},   {"9x", false, true, 0},
             {"a-b", false, true, 1},   {"a.b", false, true, 1},  {"-a", false, false, 0}, {"", false, false, 0},
             {"../m", false, false, 0}, {"a b", false, false, 1}, {"ä", false, false, 0}};
  char longest[ORD_NAME_BYTES_MAX + 2];
  ord_fault fault;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    assert_int_equal(ord_scalar_name("a dim", row[i].text, &fault), row[i].is_name);
    if (!row[i].is_name) assert_int_equal(fault.offset, row[i].offset);
    assert_int_equal(ord_scalar_label("a model", row[i].text, &fault), row[i].is_label);
  }
  memset(longest, 'a', sizeof longest);
  longest[ORD_NAME_BYTES_MAX] = '\0';
  assert_true(ord_scalar_name("a dim", longest, &fault));
  longest[ORD_NAME_BYTES_MAX] = 'a';
  longest[ORD_NAME_BYTES_MAX + 1] = '\0';
  assert_false(ord_scalar_name("a dim", longest, &fault));
  assert_string_equal(fault.text, "a dim: the name is too long; found 201 bytes; wanted at most 200");
}

static void test_digits_that_are_no_whole_number(void **state) {
  (void)state;
  static const struct {
    const char *token, *hint;
  } row[] = {{"0012", "write 12"},  {"1_000", "write 1000"}, {"1e3", "write 1000"}, {"0x10", "write 16"},
             {"12.0", "write 12"},  {"0b11", "write 3"},     {"0o17", "write 15"},  {"0_0_7", "write 7"},
             {"1.5e1", "write 15"}, {"12.5", NULL},          {"4k", NULL},          {"0x", NULL},
             {"1e99", NULL},        {"1e-3", NULL},          {"0xg", NULL}};
  ord_fault fault;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char wanted[200];
    snprintf(wanted, sizeof wanted, "'%s' is not a whole number here; %s", row[i].token,
             row[i].hint ? row[i].hint : "wanted digits or the name of a dim");
    assert_false(ord_scalar_refuse_digits(row[i].token, 3, &fault));
    assert_int_equal(fault.offset, 3);
    assert_string_equal(fault.text, wanted);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_numbers),
      cmocka_unit_test(test_numbers_do_not_follow_the_locale),
      cmocka_unit_test(test_bools),
      cmocka_unit_test(test_words),
      cmocka_unit_test(test_names_and_labels),
      cmocka_unit_test(test_digits_that_are_no_whole_number),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
