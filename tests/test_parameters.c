/* SPDX-License-Identifier: MIT
 *
 * Parameters per part: parts that differ in a number are one row, a weight counts once in each part that reads it.
 */
#include "model_fixture.h"
#include "session/parameters.h"

static char *print_parts(const ord_graph *graph) {
  ord_arena arena = {0};
  ord_text text = {0};
  ord_part *part = NULL;
  uint32_t count = 0;
  assert_true(ord_parts_make(graph, &arena, &part, &count, NULL));
  for (uint32_t i = 0; i < count; i++)
    ord_text_add(&text, "'%s' %u of %lld, %lld\n", part[i].pattern, part[i].count, (long long)part[i].each,
                 (long long)part[i].all);
  ord_arena_finish(&arena);
  return text.bytes;
}

static void test_parts_are_whole_components(void **state) {
  (void)state;
  static const char text[] = "ordito: 1\nname: m\ninputs: {x: {dtype: f32, shape: [2, 8]}}\nweights:\n"
                             "  tied: {shape: [out: 8, in: 8]}\n  up.<n>: {shape: [out: 8, in: 8]}\n"
                             "  g: {shape: [8]}\n"
                             "graph:\n  - repeat:\n      count: 11\n      index: layer\n      body:\n"
                             "        - matmul: {in: x, weight: up.<layer>, out: x}\n"
                             "        - matmul: {in: x, weight: tied, out: y}\n"
                             "        - add: {in: [x, y], out: x}\n"
                             "  - mul: {in: [x, g], out: layers}\noutputs: [layers]\n";
  built_model made = build_good_model(text, NULL);
  char *found = print_parts(made.graph);
  assert_string_equal(found, "'' 1 of 776, 776\n"
                             "'layer' 1 of 768, 768\n"
                             "'layer.*' 11 of 128, 1408\n"
                             "'layer.*.x' 11 of 64, 704\n"
                             "'layer.*.y' 11 of 64, 704\n"
                             "'layers' 1 of 8, 8\n");
  free(found);
  finish_model(&made);
}

static void test_a_real_model(void **state) {
  (void)state;
  static const struct {
    const char *size, *row;
  } row[] = {{"12m", "'' 1 of 12780288, 12780288\n"},
             {"120m", "'' 1 of 98698752, 98698752\n"},
             {"480m", "'' 1 of 480513024, 480513024\n"},
             {"120m", "'layer.*.self_attention' 12 of 2359296, 28311552\n"}};
  char *text = read_source_file("models/andrea.yaml");
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    built_model made = build_good_model(text, &(ord_description_options){.size = row[i].size});
    char *found = print_parts(made.graph);
    if (!strstr(found, row[i].row)) fail_msg("%s: found\n%swanted %s", row[i].size, found, row[i].row);
    free(found);
    finish_model(&made);
  }
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts_are_whole_components),
                                     cmocka_unit_test(test_a_real_model)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
