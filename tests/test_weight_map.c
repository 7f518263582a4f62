/* SPDX-License-Identifier: MIT */
#include "weight_fixture.h"

/* Two matrices, declared as the test says. */
static const char pair_model[] = "ordito: 1\n"
                                 "name: pair\n"
                                 "dims: {rows: 2, d: 4}\n"
                                 "inputs:\n"
                                 "  x: {dtype: f32, shape: [rows, d]}\n"
                                 "weights:\n"
                                 "  %s: {%s}\n"
                                 "  %s: {%s}\n"
                                 "graph:\n"
                                 "  - matmul: {in: x, weight: %s, out: p}\n"
                                 "  - matmul: {in: x, weight: %s, out: q}\n"
                                 "outputs: [p, q]\n";

static test_model read_pair(const char *a, const char *a_rule, const char *b, const char *b_rule) {
  static char text[1024];
  snprintf(text, sizeof text, pair_model, a, a_rule, b, b_rule, a, b);
  return read_model(text);
}

static ord_weight_file *open_tensors(const test_tensor *tensor, size_t count) {
  ord_error err;
  ord_weight_file *file = NULL;
  MUST(ord_weight_file_open(write_tensors("w.safetensors", tensor, count), NULL, NULL, &file, &err));
  return file;
}

static ord_weight_source open_source(const test_model *model, ord_weight_file *file) {
  ord_error err;
  ord_weight_source source = {0};
  MUST(ord_weight_file_source(file, model->description, model->graph, "m.yaml", NULL, &source, &err));
  return source;
}

static void expect_fault(const test_model *model, const test_tensor *tensor, size_t count, const char *wanted) {
  ord_error err;
  ord_weight_source source = {0};
  ord_weight_file *file = open_tensors(tensor, count);
  MUST_FAIL(ord_weight_file_source(file, model->description, model->graph, "m.yaml", NULL, &source, &err), wanted);
  assert_int_equal(err.code, ORD_INVALID);
}

static void test_faults_of_a_file(void **state) {
  (void)state;
  static const struct {
    test_tensor tensor[6];
    uint32_t count;
    const char *wanted;
  } row[] = {
      {{{"emb.weight", "F32", 2, {6, 4}}, {"norm", "F32", 1, {4}}, {"fused", "F32", 2, {8, 4}}},
       3,
       "w.safetensors: 1 fault for m.yaml: missing lm_head.weight (weight head, m.yaml:11; a tied head reads the "
       "embedding "
       "table, 'wte')"},
      {{{"emb.weight", "F32", 2, {4, 6}},
        {"norm", "I32", 1, {4}},
        {"fused", "F32", 2, {7, 4}},
        {"lm_head.weight", "F32", 3, {6, 4, 1}}},
       4,
       "w.safetensors: 4 faults for m.yaml: emb.weight is [4, 6], wanted [6, 4] (weight wte, m.yaml:7); norm is I32, "
       "wanted "
       "F32, F16, BF16 or I8 (m.yaml:8); fused is [7, 4], wanted [4, 4] from 4 on along axis 0 (weight wk, m.yaml:10); "
       "lm_head.weight is [6, 4, 1], wanted [6, 4] (weight head, m.yaml:11)"},
      {{{"emb.weight", "F32", 2, {6, 4}},
        {"norms", "F32", 1, {4}},
        {"fused", "F32", 2, {8, 4}},
        {"lm_head.weight", "F32", 2, {6, 4}}},
       4,
       "1 fault for m.yaml: missing norm (m.yaml:8; the nearest in the file is 'norms')"},
      {{{"model.emb.weight", "F32", 2, {6, 4}},
        {"model.norm", "F32", 1, {4}},
        {"model.fused", "F32", 2, {8, 4}},
        {"model.lm_head.weight", "F32", 2, {6, 4}}},
       4,
       "5 faults for m.yaml: all missing names are in the file with 'model.' in front; missing emb.weight (weight wte, "
       "m.yaml:7; the file has 'model.emb.weight'); missing norm"},
      {{{"transformer.norm", "F32", 1, {4}},
        {"emb.weight", "F32", 2, {6, 4}},
        {"fused", "F32", 2, {8, 4}},
        {"lm_head.weight", "F32", 2, {6, 4}}},
       4,
       "all missing names are in the file with 'transformer.' in front; missing norm (m.yaml:8; the file has "
       "'transformer.norm')"},
      {{{"emb.weight", "F32", 2, {6, 4}},
        {"norm", "I8", 1, {4}},
        {"fused", "I8", 2, {8, 4}},
        {"lm_head.weight", "F32", 2, {6, 4}}},
       4,
       "3 faults for m.yaml: norm is I8 without rows, wanted F32, F16 or BF16 (m.yaml:8); missing fused.scale (weight "
       "wq, "
       "m.yaml:9; the scales of an I8 tensor, F32, one a row); missing fused.scale (weight wk"},
      {{{"emb.weight", "F32", 2, {6, 4}},
        {"norm", "F32", 1, {4}},
        {"fused", "I8", 2, {8, 4}},
        {"fused.scale", "F32", 1, {4}},
        {"lm_head.weight", "F32", 2, {6, 4}}},
       5,
       "fused.scale is F32 [4], wanted F32 [8] (weight wq, m.yaml:9)"},
      {{{"emb.weight", "F32", 2, {6, 4}},
        {"norm", "F32", 1, {4}},
        {"fused", "I8", 2, {8, 4}},
        {"fused.scale", "F16", 1, {8}},
        {"lm_head.weight", "F32", 2, {6, 4}}},
       5,
       "fused.scale is F16 [8], wanted F32 [8] (weight wq, m.yaml:9)"},
  };
  test_model model = read_model(small_model);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    expect_fault(&model, row[i].tensor, row[i].count, row[i].wanted);
  finish_model(&model);
}

static void test_a_prefix_that_only_the_model_has(void **state) {
  (void)state;
  static const test_tensor tensor[] = {{"a", "F32", 2, {3, 4}}, {"b", "F32", 2, {3, 4}}};
  test_model model = read_pair("model.a", "shape: [out: 3, in: d]", "model.b", "shape: [out: 3, in: d]");
  expect_fault(
      &model, tensor, 2,
      "all missing names are in the file without 'model.' in front; missing model.a (m.yaml:7; the file has 'a')");
  finish_model(&model);
}

static void test_a_long_list_is_cut(void **state) {
  (void)state;
  static const char text[] = "ordito: 1\n"
                             "name: long\n"
                             "dims: {d: 4}\n"
                             "inputs:\n"
                             "  x: {dtype: f32, shape: [d, d]}\n"
                             "weights:\n"
                             "  w.<i>: {shape: [out: d, in: d]}\n"
                             "graph:\n"
                             "  - repeat:\n"
                             "      count: 12\n"
                             "      index: i\n"
                             "      body:\n"
                             "        - matmul: {in: x, weight: w.<i>, out: x}\n"
                             "outputs: [x]\n";
  test_model model = read_model(text);
  expect_fault(&model, NULL, 0, "12 faults for m.yaml: missing w.0 (m.yaml:7); missing w.1 (");
  expect_fault(&model, NULL, 0, "missing w.7 (m.yaml:7) and 4 more");
  finish_model(&model);
}

static void test_rows_and_warnings(void **state) {
  (void)state;
  static const test_tensor tensor[] = {{"emb.weight", "BF16", 2, {6, 4}},
                                       {"norm", "F32", 1, {4}},
                                       {"norm.adam_m", "F32", 1, {4}},
                                       {"fused", "F16", 2, {8, 4}},
                                       {"lm_head.weight", "F32", 2, {6, 4}},
                                       {"pooler.dense", "F32", 1, {1}},
                                       {"extra", "I32", 1, {1}}};
  test_model model = read_model(small_model);
  ord_weight_file *file = open_tensors(tensor, sizeof tensor / sizeof *tensor);
  ord_diagnostics list;
  ord_diagnostics_init(&list);
  ord_mapping mapping = {0};
  ord_error err;
  MUST(ord_mapping_make(file, model.description, model.graph, &mapping, &list, &err));
  static const struct {
    ord_mapping_state state;
    const char *weight, *tensor;
  } row[] = {{ORD_MAPS, "wte", "emb.weight"}, {ORD_MAPS, "norm", "norm"},           {ORD_MAPS, "wq", "fused"},
             {ORD_MAPS, "wk", "fused"},       {ORD_MAPS, "head", "lm_head.weight"}, {ORD_IGNORED, NULL, "pooler.dense"},
             {ORD_UNUSED, NULL, "extra"}};
  assert_int_equal(mapping.row_count, sizeof row / sizeof *row);
  assert_int_equal(mapping.fault_count, 0);
  for (uint32_t wanted = 0; wanted < mapping.row_count; wanted++) {
    bool is_there = false; /* the order of the weights is the graph's affair */
    for (uint32_t i = 0; i < mapping.row_count; i++) {
      const ord_mapping_row *found = &mapping.row[i];
      const char *weight = found->weight == ORD_NONE ? NULL : model.graph->weight[found->weight].name;
      is_there = is_there || (found->state == row[wanted].state && (!weight) == (!row[wanted].weight) &&
                              (!weight || !strcmp(weight, row[wanted].weight)) &&
                              !strcmp(ord_weight_file_tensor(file, found->tensor)->name, row[wanted].tensor));
    }
    assert_true(is_there);
  }
  assert_int_equal(list.count, 1);
  assert_string_equal(list.entry[0].warning, "unused-tensor");
  assert_non_null(strstr(list.entry[0].text,
                         "w.safetensors: no weight reads 1 tensor: extra; wanted checkpoint.ignore to name it"));
  ord_mapping_finish(&mapping);
  ord_diagnostics_finish(&list);
  ord_weight_file_close(file);
  finish_model(&model);
}

#define CUT(shape, axis, start) "shape: " shape ", from: t, slice: {axis: " #axis ", start: " #start "}"

/* The bytes of weight `name` as the store sees them, in two reads that meet in the middle of a number. */
static void read_whole(const test_model *model, const ord_weight_source *source, const char *name, void *into,
                       size_t bytes) {
  ord_error err;
  for (uint32_t w = 0; w < model->graph->weight_count; w++) {
    if (strcmp(model->graph->weight[w].name, name) != 0) continue;
    const size_t half = bytes / 2 - 1;
    assert_int_equal(source->stored(source->context, w).bytes, bytes);
    MUST(source->read(source->context, w, 0, half, into, &err));
    MUST(source->read(source->context, w, half, bytes - half, (char *)into + half, &err));
    return;
  }
  fail_msg("no weight %s", name);
}

static void test_slices_are_read_dense(void **state) {
  (void)state;
  static const struct {
    const char *a, *b;
    test_tensor tensor;
    float wanted[2][12];
  } row[] = {
      {CUT("[out: 3, in: d]", 0, 0),
       CUT("[out: 3, in: d]", 0, 3),
       {"t", "F32", 2, {6, 4}},
       {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}}},
      {CUT("[in: d, out: 3]", 1, 3),
       CUT("[in: d, out: 3]", 1, 0),
       {"t", "F32", 2, {4, 6}},
       {{3, 4, 5, 9, 10, 11, 15, 16, 17, 21, 22, 23}, {0, 1, 2, 6, 7, 8, 12, 13, 14, 18, 19, 20}}},
      {CUT("[out: 3, in: [2, 2]]", 1, 0),
       CUT("[out: 3, in: [2, 2]]", 1, 2),
       {"t", "F32", 3, {3, 4, 2}},
       {{0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19}, {4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23}}},
      {CUT("[out: 3, in: d]", 1, 0),
       "shape: [out: 3, in: d], from: t, slice: {axis: 1, start: d}",
       {"t", "F32", 2, {3, 8}},
       {{0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19}, {4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23}}},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    test_model model = read_pair("a", row[i].a, "b", row[i].b);
    ord_weight_source source = open_source(&model, open_tensors(&row[i].tensor, 1));
    for (int which = 0; which < 2; which++) {
      float numbers[12];
      read_whole(&model, &source, which ? "b" : "a", numbers, sizeof numbers);
      for (int n = 0; n < 12; n++)
        if (numbers[n] != row[i].wanted[which][n])
          fail_msg("row %zu, weight %d, number %d: %g", i, which, n, (double)numbers[n]);
    }
    source.destroy(source.context);
    finish_model(&model);
  }
}

static void test_scales_follow_the_rows(void **state) {
  (void)state;
  static const struct {
    const char *a, *b;
    test_tensor tensor[2];
    float wanted[2][3];
  } row[] = {
      {CUT("[out: 3, in: d]", 0, 0),
       CUT("[out: 3, in: d]", 0, 3),
       {{"t", "I8", 2, {6, 4}}, {"t.scale", "F32", 1, {6}}},
       {{100, 101, 102}, {103, 104, 105}}},
      {CUT("[in: d, out: 3]", 1, 3),
       CUT("[in: d, out: 3]", 1, 0),
       {{"t", "I8", 2, {4, 6}}, {"t.scale", "F32", 1, {6}}},
       {{103, 104, 105}, {100, 101, 102}}},
      {CUT("[out: 3, in: d]", 1, 0),
       CUT("[out: 3, in: d]", 1, 4),
       {{"t", "I8", 2, {3, 8}}, {"t.scale", "F32", 1, {3}}},
       {{100, 101, 102}, {100, 101, 102}}},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    test_model model = read_pair("a", row[i].a, "b", row[i].b);
    ord_weight_source source = open_source(&model, open_tensors(row[i].tensor, 2));
    for (uint32_t w = 0; w < 2; w++) {
      ord_error err;
      float scale[3];
      const int which = !strcmp(model.graph->weight[w].name, "b");
      assert_int_equal(source.stored(source.context, w).dtype, ORD_I8);
      assert_int_equal(source.stored(source.context, w).scale_bytes, sizeof scale);
      MUST(source.read_scale(source.context, w, scale, &err));
      for (int n = 0; n < 3; n++) assert_true(scale[n] == row[i].wanted[which][n]);
    }
    source.destroy(source.context);
    finish_model(&model);
  }
}

static void test_holes_and_overlaps(void **state) {
  (void)state;
  static const struct {
    const char *a, *b;
    test_tensor tensor;
    const char *wanted[3];
  } row[] = {
      {CUT("[out: 3, in: d]", 0, 0), CUT("[out: 3, in: d]", 0, 3), {"t", "F32", 2, {6, 4}}, {NULL}},
      {CUT("[out: 3, in: d]", 0, 1),
       CUT("[out: 3, in: d]", 0, 5),
       {"t", "F32", 2, {9, 4}},
       {"no weight reads 0 to 0 along axis 0 of tensor 't' [9, 4]", "no weight reads 4 to 4 along axis 0",
        "no weight reads 8 to 8 along axis 0"}},
      {CUT("[out: 3, in: d]", 0, 0),
       CUT("[out: 3, in: d]", 0, 2),
       {"t", "F32", 2, {5, 4}},
       {"weights 'a' and 'b' both read 2 to 2 along axis 0 of tensor 't'"}},
      {CUT("[out: 3, in: d]", 0, 0),
       "shape: [out: 6, in: d], from: t",
       {"t", "F32", 2, {6, 4}},
       {"both read 0 to 2 along axis 0 of tensor 't'"}},
      {CUT("[out: 3, in: d]", 0, 0),
       CUT("[out: 6, in: d]", 1, 0),
       {"t", "F32", 2, {6, 4}},
       {"tensor 't' is cut along axis"}},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    test_model model = read_pair("a", row[i].a, "b", row[i].b);
    ord_weight_file *file = open_tensors(&row[i].tensor, 1);
    ord_diagnostics list;
    ord_diagnostics_init(&list);
    ord_mapping mapping = {0};
    ord_error err;
    MUST(ord_mapping_make(file, model.description, model.graph, &mapping, &list, &err));
    assert_int_equal(mapping.fault_count, 0);
    uint32_t count = 0;
    for (; count < 3 && row[i].wanted[count]; count++) {
      assert_true(count < list.count);
      assert_string_equal(list.entry[count].warning, "weight-hole");
      assert_true(list.entry[count].line == 7 || list.entry[count].line == 8);
      if (!strstr(list.entry[count].text, row[i].wanted[count]))
        fail_msg("row %zu said: %s", i, list.entry[count].text);
    }
    assert_int_equal(list.count, count);
    ord_mapping_finish(&mapping);
    ord_diagnostics_finish(&list);
    ord_weight_file_close(file);
    finish_model(&model);
  }
}

/* The message names the cause also where it is told without a model file. */
static void test_a_message_without_a_model_file(void **state) {
  (void)state;
  test_model model = read_model(small_model);
  ord_weight_file *file = open_tensors(small_file, 3);
  ord_mapping mapping = {0};
  ord_error err;
  MUST(ord_mapping_make(file, NULL, model.graph, &mapping, NULL, &err));
  MUST_FAIL(ord_mapping_fail(&mapping, file, NULL, &err),
            "1 fault for the model: missing lm_head.weight (weight head, line 11; a tied");
  ord_mapping_finish(&mapping);
  ord_weight_file_close(file);
  finish_model(&model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_faults_of_a_file),      cmocka_unit_test(test_a_prefix_that_only_the_model_has),
      cmocka_unit_test(test_a_long_list_is_cut),    cmocka_unit_test(test_rows_and_warnings),
      cmocka_unit_test(test_slices_are_read_dense), cmocka_unit_test(test_scales_follow_the_rows),
      cmocka_unit_test(test_holes_and_overlaps),    cmocka_unit_test(test_a_message_without_a_model_file),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
