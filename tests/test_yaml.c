/* SPDX-License-Identifier: MIT
 *
 * The tree, its places and its limits. What syntax errors say is tested by the files of tests/bad_models.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "models/yaml.h"
#include "runtime/text.h"

typedef struct reading {
  ord_arena arena;
  ord_diagnostics list;
  const ord_yaml_node *root;
} reading;

static reading read_limited(const char *text, size_t bytes, size_t limit) {
  reading made = {.root = NULL};
  ord_diagnostics_init(&made.list);
  ord_yaml_read(text, bytes, limit, &made.arena, &made.list, &made.root);
  return made;
}

static reading read(const char *text) { return read_limited(text, strlen(text), ORD_YAML_BYTE_LIMIT); }

static void finish(reading *made) {
  ord_arena_finish(&made->arena);
  ord_diagnostics_finish(&made->list);
}

/* "{a: [1, 2], b: x}", with the place of each scalar if asked for: "x@2:4". */
static void print_node(const ord_yaml_node *node, bool has_places, ord_text *out) {
  if (node->kind == ORD_YAML_SCALAR || node->kind == ORD_YAML_REFUSED) {
    ord_text_add(out, "%s", node->kind == ORD_YAML_REFUSED ? "?" : node->is_nothing ? "-" : node->text);
    if (has_places) ord_text_add(out, "@%u:%u", node->line, node->column);
    return;
  }
  const bool is_map = node->kind == ORD_YAML_MAP;
  uint32_t count = 0;
  ord_text_add(out, is_map ? "{" : "[");
  for (const ord_yaml_node *at = node->first; at; at = at->next, count++) {
    print_node(at, has_places, out);
    if (is_map) ord_text_add(out, ": ");
    if (is_map) print_node(at->value, has_places, out);
    if (at->next) ord_text_add(out, ", ");
  }
  ord_text_add(out, is_map ? "}" : "]");
  assert_int_equal(count, node->count);
}

static void test_trees(void **state) {
  (void)state;
  static const struct {
    const char *text, *tree;
    bool has_places;
  } row[] = {
      {"a: 1\nb: [x, 'y', \"z\"]\n", "{a: 1, b: [x, y, z]}", false},
      {"a: no\nb: null\nc: 0010\nd:\n", "{a: no, b: null, c: 0010, d: -}", false},
      {"- a: 1\n  b: 2\n", "[{a: 1, b: 2}]", false},
      {"\xef\xbb\xbf- a: 1\n  b: 2\n", "[{a@1:3: 1@1:6, b@2:3: 2@2:6}]", true},
      {"a: 1\r\nb:\r\n  - 2\r\n", "{a@1:1: 1@1:4, b@2:1: [2@3:5]}", true},
      {"{out: [out: a, in: b]}", "{out@1:2: [{out@1:8: a@1:13}, {in@1:16: b@1:20}]}", true},
      {"---\nä: ö\n...\n", "{ä@2:1: ö@2:4}", true},
      {"a: 1 # b: 2\n", "{a: 1}", false},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    reading made = read(row[i].text);
    ord_text printed = {0};
    assert_int_equal(made.list.error_count, 0);
    assert_non_null(made.root);
    print_node(made.root, row[i].has_places, &printed);
    assert_string_equal(printed.bytes, row[i].tree);
    ord_text_finish(&printed);
    finish(&made);
  }
}

static void test_refused_nodes_leave_the_rest_readable(void **state) {
  (void)state;
  static const struct {
    const char *text, *tree;
    uint32_t errors;
  } row[] = {
      {"a: &x 1\nb: *x\n", "{a: 1, b: ?}", 2},
      {"a: 1\na: 2\nb: 3\n", "{a: 1, b: 3}", 1},
      {"a: !!int 1\n", "{a: 1}", 1},
      {"<<: {c: 1}\nb: 3\n", "{b: 3}", 1},
      {"[a, {b: c}]: 1\nb: 3\n", "{b: 3}", 1},
      {"{a: 1, b: {c: 2, c: [3]}}", "{a: 1, b: {c: 2}}", 1},
      {"a: \"\\0\"\nb: 3\n", "{a: ?, b: 3}", 1},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    reading made = read(row[i].text);
    ord_text printed = {0};
    assert_int_equal(made.list.error_count, row[i].errors);
    assert_non_null(made.root);
    print_node(made.root, false, &printed);
    assert_string_equal(printed.bytes, row[i].tree);
    ord_text_finish(&printed);
    finish(&made);
  }
}

static void test_columns_inside_scalars(void **state) {
  (void)state;
  reading made = read("a: d / n\nb: 'd / n'\nc: \"ä / n\"\nd: \"d\\x20/ n\"\n");
  assert_int_equal(ord_yaml_column(ord_yaml_find(made.root, "a"), 2), 6);
  assert_int_equal(ord_yaml_column(ord_yaml_find(made.root, "b"), 2), 7);
  assert_int_equal(ord_yaml_column(ord_yaml_find(made.root, "c"), 3), 7);
  assert_int_equal(ord_yaml_column(ord_yaml_find(made.root, "d"), 3), 4); /* an escape moves what follows: the scalar */
  assert_null(ord_yaml_find(made.root, "e"));
  finish(&made);
}

/* `before`, `count` times `part`, `after`; freed by the caller. */
static char *repeat(const char *before, const char *part, size_t count, const char *after, size_t *out_bytes) {
  const size_t part_bytes = strlen(part), begin = strlen(before), end = strlen(after);
  char *text = malloc(begin + count * part_bytes + end + 1);
  assert_non_null(text);
  memcpy(text, before, begin);
  for (size_t i = 0; i < count; i++) memcpy(text + begin + i * part_bytes, part, part_bytes);
  memcpy(text + begin + count * part_bytes, after, end + 1);
  *out_bytes = begin + count * part_bytes + end;
  return text;
}

static void test_limits_stop_at_once(void **state) {
  (void)state;
  static const struct {
    const char *before, *part, *after;
    size_t count;
    const char *message; /* NULL: within the limits */
    size_t limit;
  } row[] = {
      {"a: ", "[", "", 31, "a value is missing; found the end of the line; wanted a value", 0},
      {"a: ", "[", "", 32, "nested too deep; found 33 levels; wanted at most 32", 0},
      {"", "- ", "", 500000, "nested too deep; found 33 levels; wanted at most 32", 0},
      {"", "-", "", 1 << 20, NULL, 0},
      {"", "-", "", (1 << 20) + 1, "the text is too long; found 1048577 bytes; wanted at most 1048576", 0},
      {"", "-", "", 200, "the text is too long; found 200 bytes; wanted at most 199", 199},
      {"[", "1,", "]", 99998, NULL, 0},
      {"[", "1,", "]", 100001, "the file holds too much; found more than 100000 YAML nodes; wanted fewer", 0},
      {"", "{", "", 1000000, "a key is a word; found a mapping; wanted a word before the ':'", 0},
      {"", "a: &a [*a, *a]\n", "", 5000,
       "anchors and aliases are not part of the format; found &; wanted a block under blocks:", 0},
      {"", "\t\n", "", 5000, "tab used for indentation; found a tab; wanted spaces", 0},
      {"", "'", "", 500001,
       "a quote is not closed; found ''''''''''''''''''''''''''''''''''''''''; wanted a closing quote", 0},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    size_t bytes;
    char *text = repeat(row[i].before, row[i].part, row[i].count, row[i].after, &bytes);
    reading made = read_limited(text, bytes, row[i].limit ? row[i].limit : ORD_YAML_BYTE_LIMIT);
    assert_int_equal(made.list.error_count == 0, row[i].message == NULL);
    if (row[i].message) assert_string_equal(made.list.entry[0].text, row[i].message);
    finish(&made);
    free(text);
  }
}

static void test_lines_are_found_whatever_ends_them(void **state) {
  (void)state;
  static const char text[] = "\xef\xbb\xbfone\ntwo\r\n\rfour";
  static const char *const wanted[] = {"one", "two", "", "four"};
  for (uint32_t line = 1; line <= 4; line++) {
    size_t bytes;
    const char *at = ord_yaml_line(text, sizeof text - 1, line, &bytes);
    assert_non_null(at);
    assert_int_equal(bytes, strlen(wanted[line - 1]));
    assert_memory_equal(at, wanted[line - 1], bytes);
  }
  size_t bytes;
  assert_null(ord_yaml_line(text, sizeof text - 1, 5, &bytes));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_trees),
      cmocka_unit_test(test_refused_nodes_leave_the_rest_readable),
      cmocka_unit_test(test_columns_inside_scalars),
      cmocka_unit_test(test_limits_stop_at_once),
      cmocka_unit_test(test_lines_are_found_whatever_ends_them),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
