/* SPDX-License-Identifier: MIT */
#include "weight_fixture.h"

enum { SMALL_COUNT = 6 * 4 + 4 + 4 * 4 + 4 * 4 + 6 * 4, SMALL_BYTES = 8 + 12 * SMALL_COUNT };

/* A checkpoint whose number i is i; `bytes` long, whatever `count` says. */
static const char *write_checkpoint(int32_t step, int32_t count, size_t bytes) {
  unsigned char *file = calloc(1, bytes + 8);
  assert_non_null(file);
  const int32_t header[2] = {step, count};
  memcpy(file, header, sizeof header);
  for (size_t i = 0; 8 + 4 * i + 4 <= bytes; i++) {
    const float number = (float)i;
    memcpy(file + 8 + 4 * i, &number, sizeof number);
  }
  const char *path = write_bytes("w.bin", file, bytes);
  free(file);
  return path;
}

static void test_weights_and_moments_are_tensors(void **state) {
  (void)state;
  static const struct {
    const char *name;
    uint32_t rank;
    float first;
  } row[] = {{"wte", 2, 0},         {"norm", 1, 24},         {"wq", 2, 28},           {"wk", 2, 44},
             {"head", 2, 60},       {"wte.adam_m", 2, 84},   {"norm.adam_m", 1, 108}, {"wq.adam_m", 2, 112},
             {"wk.adam_m", 2, 128}, {"head.adam_m", 2, 144}, {"wte.adam_v", 2, 168},  {"norm.adam_v", 1, 192},
             {"wq.adam_v", 2, 196}, {"wk.adam_v", 2, 212},   {"head.adam_v", 2, 228}};
  test_model model = read_model(small_model);
  ord_error err;
  ord_weight_file *file = NULL;
  MUST(ord_weight_file_open(write_checkpoint(100, SMALL_COUNT, SMALL_BYTES), model.description, model.graph, &file,
                            &err));
  assert_int_equal(ord_weight_file_count(file), sizeof row / sizeof *row);
  for (uint32_t i = 0; i < sizeof row / sizeof *row; i++) {
    const ord_file_tensor *tensor = ord_weight_file_tensor(file, i);
    float number;
    assert_string_equal(tensor->name, row[i].name);
    assert_int_equal(tensor->rank, row[i].rank);
    assert_int_equal(tensor->dtype, ORD_F32);
    MUST(ord_weight_file_read(file, i, 0, sizeof number, &number, &err));
    assert_true(number == row[i].first);
  }
  ord_weight_file_close(file);
  finish_model(&model);
}

/* A slice of the model is a block of its own here: the order says where it lies. */
static void test_the_source_reads_in_order(void **state) {
  (void)state;
  test_model model = read_model(small_model);
  ord_error err;
  ord_weight_file *file = NULL;
  ord_weight_source source;
  ord_diagnostics list;
  ord_diagnostics_init(&list);
  MUST(
      ord_weight_file_open(write_checkpoint(0, SMALL_COUNT, SMALL_BYTES), model.description, model.graph, &file, &err));
  MUST(ord_weight_file_source(file, model.description, model.graph, "m.yaml", &list, &source, &err));
  assert_int_equal(list.count, 0); /* moments are no unused tensors, slices leave no holes */
  for (uint32_t w = 0; w < model.graph->weight_count; w++) {
    if (strcmp(model.graph->weight[w].name, "wk") != 0) continue;
    float number[16];
    MUST(source.read(source.context, w, 0, sizeof number, number, &err));
    for (int i = 0; i < 16; i++) assert_true(number[i] == (float)(44 + i));
  }
  source.destroy(source.context);
  ord_diagnostics_finish(&list);
  finish_model(&model);
}

static void test_files_that_are_refused(void **state) {
  (void)state;
  static const struct {
    int32_t count;
    size_t bytes;
    const char *wanted;
  } row[] = {
      {0, 4, "too short for a checkpoint; found 4 bytes; wanted at least 8"},
      {0, 0, "found 0 bytes; wanted at least 8; it is empty"},
      {0, 8, "not a checkpoint; found n_params 0; wanted at least 1"},
      {-1, 8, "found n_params -1"},
      {INT32_MIN, 8, "found n_params -2147483648"},
      {SMALL_COUNT, SMALL_BYTES - 1, "found 1015 bytes with n_params 84; wanted 8 + 12 * n_params = 1016"},
      {SMALL_COUNT, SMALL_BYTES + 4, "found 1020 bytes with n_params 84; wanted 8 + 12 * n_params = 1016"},
      {INT32_MAX, SMALL_BYTES, "wanted 8 + 12 * n_params = 25769803772"},
      {SMALL_COUNT + 1, SMALL_BYTES + 12,
       "found n_params 85; wanted 84, what checkpoint.order adds up to: wte [6, 4], norm [4], wq [4, 4], wk [4, 4], "
       "head [6, 4]"},
      {1, 20, "found n_params 1; wanted 84"},
  };
  test_model model = read_model(small_model);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_error err;
    ord_weight_file *file = NULL;
    const char *path = write_checkpoint(1, row[i].count, row[i].bytes);
    MUST_FAIL(ord_weight_file_open(path, model.description, model.graph, &file, &err), row[i].wanted);
    assert_int_equal(err.code, ORD_INVALID);
    assert_null(file);
  }
  finish_model(&model);
}

static void test_files_that_are_something_else(void **state) {
  (void)state;
  static const char zip[] = "PK\x03\x04 archive/data.pkl and more", html[] = "<!doctype html><title>404</title>";
  static const char named[] = "\x08\x00\x00\x00\x00\x00\x00\x00{}      ";
  static const struct {
    const char *bytes;
    size_t count;
    const char *wanted;
  } row[] = {{zip, sizeof zip, "; it looks like a zip archive (a PyTorch file?)"},
             {html, sizeof html - 1, "; it looks like a web page (HTML)"},
             {named, sizeof named - 1, "; it looks like a safetensors file (NAME.safetensors)"}};
  test_model model = read_model(small_model);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_error err;
    ord_weight_file *file = NULL;
    MUST_FAIL(ord_weight_file_open(write_bytes("w.bin", row[i].bytes, row[i].count), model.description, model.graph,
                                   &file, &err),
              row[i].wanted);
  }
  finish_model(&model);
}

static void test_a_model_without_an_order(void **state) {
  (void)state;
  static const char text[] = "ordito: 1\n"
                             "name: m\n"
                             "dims: {d: 4}\n"
                             "inputs:\n"
                             "  x: {dtype: f32, shape: [d, d]}\n"
                             "weights:\n"
                             "  w: {shape: [out: d, in: d]}\n"
                             "graph:\n"
                             "  - matmul: {in: x, weight: w, out: x}\n"
                             "outputs: [x]\n";
  test_model model = read_model(text);
  ord_error err;
  ord_weight_file *file = NULL;
  const char *path = write_checkpoint(1, 16, 8 + 12 * 16);
  MUST_FAIL(ord_weight_file_open(path, model.description, model.graph, &file, &err),
            "wanted a model file with checkpoint.order");
  MUST_FAIL(ord_weight_file_open(path, NULL, NULL, &file, &err), "wanted a model file with checkpoint.order");
  finish_model(&model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_weights_and_moments_are_tensors), cmocka_unit_test(test_the_source_reads_in_order),
      cmocka_unit_test(test_files_that_are_refused),          cmocka_unit_test(test_files_that_are_something_else),
      cmocka_unit_test(test_a_model_without_an_order),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
