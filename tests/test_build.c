/* SPDX-License-Identifier: MIT
 *
 * From a description to an op graph: paths, names, families, blocks, repeats. Faults are tested by the files of
 * tests/bad_models.
 */
#include <dirent.h>

#include "model_fixture.h"

/* An input x [4, 8], a square weight w and whatever the rows below add. */
#define HEAD                                                                                                           \
  "ordito: 1\nname: m\ndims: {d: 8}\ninputs: {x: {dtype: f32, shape: [4, d]}}\nweights:\n  w: {shape: [out: d, in: "   \
  "d]}\n"

/* "op path(inputs)" of every node, a line each. */
static void print_nodes(const ord_graph *graph, ord_text *out) {
  for (uint32_t i = 0; i < graph->node_count; i++) {
    const ord_graph_node *node = &graph->node[i];
    ord_text_add(out, "%s %s(", node->op->name, node->path[0]);
    for (uint32_t in = 0, shown = 0; in < node->in_count; in++)
      if (node->in[in] != ORD_NONE) ord_text_add(out, "%s%s", shown++ ? " " : "", graph->value[node->in[in]].path);
    ord_text_add(out, ")\n");
  }
}

static void test_paths_and_what_names_stand_for(void **state) {
  (void)state;
  static const struct {
    const char *text, *nodes;
  } row[] = {
      /* A name bound again stands for the new value below; the old value stays what it was. */
      {HEAD "graph:\n"
            "  - matmul: {in: x, weight: w, out: y}\n"
            "  - relu: {in: y, out: y}\n"
            "  - add: {in: [x, y], out: x}\n"
            "outputs: [x]\n",
       "matmul y(x w)\nrelu y#2(y)\nadd x(x y#2)\n"},
      /* A number in place of a value is no operand. */
      {HEAD "graph:\n  - matmul: {in: x, weight: w, out: y}\n  - mul: {in: [0.5, y], out: y}\noutputs: [y]\n",
       "matmul y(x w)\nmul y#2(y)\n"},
      /* x is carried through the passes, h is not; the second repeat with the same index gets #2. */
      {HEAD "graph:\n"
            "  - repeat:\n"
            "      count: 2\n"
            "      index: i\n"
            "      body:\n"
            "        - matmul: {in: x, weight: w, out: h}\n"
            "        - add: {in: [x, h], out: x}\n"
            "  - repeat: {count: 1, index: i, body: [relu: {in: x, out: x}]}\n"
            "  - relu: {in: x, out: h}\n"
            "outputs: [h]\n",
       "matmul i.0.h(x w)\nadd i.0.x(x i.0.h)\nmatmul i.1.h(i.0.x w)\nadd i.1.x(i.0.x i.1.h)\n"
       "relu i#2.0.x(i.1.x)\nrelu h(i#2.0.x)\n"},
      /* Repeats nest; a name of the outer pass is carried through the inner ones. */
      {HEAD "graph:\n"
            "  - matmul: {in: x, weight: w, out: y}\n"
            "  - repeat:\n"
            "      count: 2\n"
            "      index: i\n"
            "      body:\n"
            "        - relu: {in: y, out: h}\n"
            "        - repeat: {count: i + 1, index: j, body: [add: {in: [h, y], out: h}]}\n"
            "        - relu: {in: h, out: y}\n"
            "outputs: [y]\n",
       "matmul y(x w)\n"
       "relu i.0.h(y)\nadd i.0.j.0.h(i.0.h y)\nrelu i.0.y(i.0.j.0.h)\n"
       "relu i.1.h(i.0.y)\nadd i.1.j.0.h(i.1.h i.0.y)\nadd i.1.j.1.h(i.1.j.0.h i.0.y)\nrelu i.1.y(i.1.j.1.h)\n"},
      /* A block called again gets #2; the path takes the block's name, not the call's `out`; a weight may be passed. */
      {HEAD "blocks:\n"
            "  project:\n"
            "    takes: {a: value, m: value}\n"
            "    gives: [b]\n"
            "    body:\n"
            "      - matmul: {in: a, weight: m, out: b}\n"
            "      - relu: {in: b, out: b}\n"
            "  twice:\n"
            "    takes: {a: value}\n"
            "    gives: [a, half]\n"
            "    body:\n"
            "      - project: {a: a, m: w, out: half}\n"
            "      - project: {a: half, m: w, out: a}\n"
            "graph:\n"
            "  - twice: {a: x, out: [y, z]}\n"
            "  - twice: {a: y, out: [y, _]}\n"
            "  - add: {in: [y, z], out: y}\n"
            "outputs: [y]\n",
       "matmul twice.project.b(x w)\nrelu twice.project.b#2(twice.project.b)\n"
       "matmul twice.project#2.b(twice.project.b#2 w)\nrelu twice.project#2.b#2(twice.project#2.b)\n"
       "matmul twice#2.project.b(twice.project#2.b#2 w)\nrelu twice#2.project.b#2(twice#2.project.b)\n"
       "matmul twice#2.project#2.b(twice#2.project.b#2 w)\nrelu twice#2.project#2.b#2(twice#2.project#2.b)\n"
       "add y(twice#2.project#2.b#2 twice.project.b#2)\n"},
      /* The first name that is not dropped makes the path. */
      {HEAD "graph:\n"
            "  - matmul: {in: x, weight: w, out: y}\n"
            "  - split: {in: y, axis: 0, out: [_, a, b, _]}\n"
            "  - concat: {in: [b, a, b], axis: 0, out: y}\n"
            "outputs: [y]\n",
       "matmul y(x w)\nsplit a(y)\nconcat y#2(b a b)\n"},
      /* An index is an expression of its own; int parameters carry it into blocks. */
      {HEAD "  h.<l>.v: {shape: [d]}\n"
            "blocks:\n"
            "  shift: {takes: {a: value, n: int}, gives: [a], body: [add: {in: [a, h.<2 * n + 1>.v], out: a}]}\n"
            "graph:\n"
            "  - matmul: {in: x, weight: w, out: y}\n"
            "  - repeat: {count: 2, index: i, body: [shift: {a: y, n: i + 3, out: y}]}\n"
            "outputs: [y]\n",
       "matmul y(x w)\nadd i.0.shift.a(y h.7.v)\nadd i.1.shift.a(i.0.shift.a h.9.v)\n"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    built_model made = build_good_model(row[i].text, NULL);
    ord_text found = {0};
    print_nodes(made.graph, &found);
    assert_string_equal(found.bytes, row[i].nodes);
    ord_text_finish(&found);
    finish_model(&made);
  }
}

static void test_weights_as_the_file_stores_them(void **state) {
  (void)state;
  static const struct {
    const char *shape, *described;
  } row[] = {
      {"{shape: [out: 6, in: d]}", "weight w from w axes 1 0 slice 0 0 0 [ 6 8 ] [ 6/8 8/1 ]\n"},
      {"{shape: [in: d, out: 6]}", "weight w from w axes 1 1 slice 0 0 0 [ 8 6 ] [ 6/1 8/6 ]\n"},
      {"{shape: [out: 6, in: [2, 2, 2]], from: a/b:0}",
       "weight w from a/b:0 axes 1 0 slice 0 0 0 [ 6 2 2 2 ] [ 6/8 8/1 ]\n"},
      {"{shape: [in: [2, 4], out: [3, 2]]}", "weight w from w axes 1 1 slice 0 0 0 [ 2 4 3 2 ] [ 6/1 8/6 ]\n"},
      {"{shape: [out: 6, in: d], from: all, slice: {axis: 0, start: 2 * d}}",
       "weight w from all axes 1 0 slice 1 0 16 [ 6 8 ] [ 6/8 8/1 ]\n"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_text text = {0}, found = {0};
    ord_text_add(&text,
                 "ordito: 1\nname: m\ndims: {d: 8}\ninputs: {x: {dtype: f32, shape: [4, d]}}\nweights:\n  w: %s\n"
                 "graph:\n  - matmul: {in: x, weight: w, out: y}\noutputs: [y]\n",
                 row[i].shape);
    built_model made = build_good_model(text.bytes, NULL);
    describe_weights(&found, made.graph);
    assert_string_equal(found.bytes, row[i].described);
    assert_int_equal(made.graph->weight[0].line, 6);
    assert_int_equal(made.graph->weight[0].column, 3);
    ord_text_finish(&text);
    ord_text_finish(&found);
    finish_model(&made);
  }
}

static void test_members_of_a_family_use_their_number(void **state) {
  (void)state;
  static const char text[] = "ordito: 1\nname: m\ninputs: {x: {dtype: f32, shape: [4, 8]}}\nweights:\n"
                             "  v.<n>: {shape: [4 + 4 * n], from: t.<n + 10>, slice: {axis: 0, start: 8 * n}}\n"
                             "graph:\n  - add: {in: [x, v.1], out: x}\n  - add: {in: [x, v.1], out: x}\noutputs: [x]\n";
  built_model made = build_good_model(text, NULL);
  ord_text found = {0};
  describe_weights(&found, made.graph);
  assert_string_equal(found.bytes, "weight v.1 from t.11 axes 0 0 slice 1 0 8 [ 8 ] [ 8/1 ]\n");
  ord_text_finish(&found);
  finish_model(&made);
}

static void test_the_graph_outlives_its_description(void **state) {
  (void)state;
  char *text = read_source_file("models/andrea.yaml");
  ord_text before = {0}, after = {0};
  built_model made = build_good_model(text, &(ord_description_options){.size = "12m"});
  describe_graph(&before, made.graph);
  ord_description_destroy(made.description);
  made.description = NULL;
  free(text);
  describe_graph(&after, made.graph);
  assert_string_equal(before.bytes, after.bytes);
  ord_text_finish(&before);
  ord_text_finish(&after);
  finish_model(&made);
}

static void test_every_model_file_builds_without_a_word(void **state) {
  (void)state;
  DIR *folder = opendir(ORDITO_SOURCE_DIRECTORY "/models");
  assert_non_null(folder);
  uint32_t count = 0;
  for (const struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
    char name[300];
    const char *dot = strrchr(entry->d_name, '.');
    if (!dot || strcmp(dot, ".yaml") != 0) continue;
    snprintf(name, sizeof name, "models/%s", entry->d_name);
    char *text = read_source_file(name);
    const char *sizes = strstr(text, "\nsizes:\n  ");
    char size[32] = "";
    if (sizes) sscanf(sizes, "\nsizes:\n %31[^: ]", size);
    built_model made = build_good_model(text, &(ord_description_options){.size = sizes ? size : NULL});
    finish_model(&made);
    free(text);
    count++;
  }
  closedir(folder);
  assert_true(count >= 5);
}

/* Whatever the graph is asked for, the same text gives the same graph. */
static void test_building_twice_gives_the_same(void **state) {
  (void)state;
  char *text = read_source_file("models/andrea.yaml");
  ord_text first = {0}, second = {0};
  built_model made = build_good_model(text, &(ord_description_options){.size = "12m"});
  describe_graph(&first, made.graph);
  ord_graph_destroy(made.graph);
  assert_true(ord_graph_build(made.description, &made.list, &made.graph));
  describe_graph(&second, made.graph);
  assert_string_equal(first.bytes, second.bytes);
  ord_text_finish(&first);
  ord_text_finish(&second);
  finish_model(&made);
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_paths_and_what_names_stand_for),
      cmocka_unit_test(test_weights_as_the_file_stores_them),
      cmocka_unit_test(test_members_of_a_family_use_their_number),
      cmocka_unit_test(test_the_graph_outlives_its_description),
      cmocka_unit_test(test_every_model_file_builds_without_a_word),
      cmocka_unit_test(test_building_twice_gives_the_same),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
