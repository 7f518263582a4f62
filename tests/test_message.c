/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "models/description.h"

static void check(ord_diagnostics *list, const char *wanted) {
  ord_text found = {0};
  ord_diagnostics_print(list, &found);
  assert_string_equal(found.bytes, wanted);
  ord_text_finish(&found);
  ord_diagnostics_finish(list);
}

static ord_diagnostics make(const char *source) {
  ord_diagnostics list;
  ord_diagnostics_init(&list);
  ord_diagnostics_source(&list, "m.yaml", source, source ? strlen(source) : 0);
  return list;
}

static void test_place_line_and_caret(void **state) {
  (void)state;
  ord_diagnostics list = make("\xef\xbb\xbf"
                              "a: 1\r\n\tb: ö x\n\nc");
  ord_diagnose(&list, 1, 1, "first");
  ord_diagnose(&list, 2, 7, "second; found %s", "x");
  ord_diagnose_warning(&list, "unused-dim", 4, 1, "third");
  ord_diagnose(&list, 4, 2, "behind the end");
  ord_diagnose(&list, 9, 1, "no such line");
  ord_diagnose(&list, 0, 0, "no place");
  check(&list, "m.yaml:1:1: first\n"
               "    a: 1\n"
               "    ^\n"
               "m.yaml:2:7: second; found x\n"
               "    →b: ö x\n"
               "          ^\n"
               "m.yaml:4:1: warning[unused-dim]: third\n"
               "    c\n"
               "    ^\n"
               "m.yaml:4:2: behind the end\n"
               "    c\n"
               "     ^\n"
               "m.yaml:9:1: no such line\n"
               "m.yaml: no place\n");
}

static void test_control_characters_take_one_column(void **state) {
  (void)state;
  ord_diagnostics list = make("a: \x1b\xc2\x9b\x7f\xc2\xa0 x");
  ord_diagnose(&list, 1, 9, "here");
  check(&list, "m.yaml:1:9: here\n"
               "    a: ?\?\?\xc2\xa0 x\n"
               "            ^\n");
}

static void test_long_lines_are_cut_around_the_caret(void **state) {
  (void)state;
  char line[301];
  for (int i = 0; i < 300; i++) line[i] = (char)('a' + i % 26);
  line[300] = '\0';
  ord_diagnostics list = make(line);
  ord_diagnose(&list, 1, 3, "near the begin");
  ord_diagnose(&list, 1, 200, "far inside");
  char wanted[1000];
  snprintf(wanted, sizeof wanted,
           "m.yaml:1:3: near the begin\n    %.100s…\n      ^\n"
           "m.yaml:1:200: far inside\n    …%.100s…\n    %60s^\n",
           line, line + 140, "");
  check(&list, wanted);
}

static void test_errors_beyond_the_limit_are_counted(void **state) {
  (void)state;
  static const struct {
    uint32_t errors;
    const char *last;
  } row[] = {{20, "m.yaml: fault\n"}, {21, "m.yaml: and 1 more error\n"}, {45, "m.yaml: and 25 more errors\n"}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_diagnostics list = make(NULL);
    for (uint32_t n = 0; n < row[i].errors; n++) ord_diagnose(&list, 0, 0, "fault");
    ord_text found = {0};
    ord_diagnostics_print(&list, &found);
    assert_string_equal(found.bytes + found.length - strlen(row[i].last), row[i].last);
    ord_text_finish(&found);
    ord_diagnostics_finish(&list);
  }
}

static void test_out_of_memory_is_told(void **state) {
  (void)state;
  ord_diagnostics list = make(NULL);
  list.out_of_memory = true;
  check(&list, "m.yaml: out of memory while checking the model\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_place_line_and_caret),
      cmocka_unit_test(test_control_characters_take_one_column),
      cmocka_unit_test(test_long_lines_are_cut_around_the_caret),
      cmocka_unit_test(test_errors_beyond_the_limit_are_counted),
      cmocka_unit_test(test_out_of_memory_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
