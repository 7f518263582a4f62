/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <sys/stat.h>

#include "weight_fixture.h"

static void make_inner(const char *name) { assert_int_equal(mkdir(in_folder(name), 0777), 0); }

static ord_weight_file *open_small(const char *name) {
  ord_error err;
  ord_weight_file *file = NULL;
  MUST(ord_weight_file_open(write_tensors(name, small_file, SMALL_FILE_COUNT), NULL, NULL, &file, &err));
  return file;
}

static void test_ranges_of_a_tensor(void **state) {
  (void)state;
  ord_weight_file *file = open_small("w.safetensors");
  ord_error err;
  float number[4];
  assert_string_equal(ord_weight_file_path(file), in_folder("w.safetensors"));
  MUST(ord_weight_file_read(file, 2, 4 * 28, 16, number, &err));
  for (int i = 0; i < 4; i++) assert_true(number[i] == 228 + (float)i);
  static const struct {
    uint64_t offset;
    size_t bytes;
  } beyond[] = {{0, 129}, {128, 1}, {129, 0}, {UINT64_MAX, 2}, {4, SIZE_MAX}};
  for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++)
    MUST_FAIL(ord_weight_file_read(file, 2, beyond[i].offset, beyond[i].bytes, number, &err), "it has 128");
  ord_weight_file_close(file);
  ord_weight_file_close(NULL);
}

static void test_a_file_that_shrinks_or_is_written_to(void **state) {
  (void)state;
  ord_weight_file *file = open_small("w.safetensors");
  ord_error err;
  float number;
  MUST(ord_weight_file_read(file, 3, 0, sizeof number, &number, &err));
  const char *path = in_folder("w.safetensors");
  assert_int_equal(truncate(path, 300), 0);
  MUST_FAIL(ord_weight_file_read(file, 3, 0, sizeof number, &number, &err), "tensor 'lm_head.weight': ");
  assert_non_null(strstr(err.text, "became shorter while it was in use; found 300 bytes"));
  assert_int_equal(err.code, ORD_IO);
  ord_weight_file_close(file);

  file = open_small("w.safetensors");
  const struct timespec long_ago[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
  assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
  MUST_FAIL(ord_weight_file_read(file, 3, 0, sizeof number, &number, &err), "was written to while it was in use");
  assert_int_equal(err.code, ORD_IO);
  ord_weight_file_close(file);
}

static void test_paths_that_are_no_weights(void **state) {
  (void)state;
  make_inner("empty");
  make_inner("two");
  make_inner("dir.safetensors");
  write_tensors("two/model.safetensors", small_file, 1);
  write_bytes("two/pytorch_model.bin", "x", 1);
  write_bytes("two/notes.txt", "x", 1);
  write_bytes("empty/notes.txt", "x", 1);
  write_bytes("m.gguf", "GGUF", 4);
  assert_int_equal(mkfifo(in_folder("pipe.safetensors"), 0666), 0);
  static const struct {
    const char *name, *wanted;
    ord_status code;
  } row[] = {
      {"none.safetensors", "none.safetensors: cannot be opened: No such file or directory", ORD_INVALID},
      {"empty",
       "holds no weight file; found notes.txt; wanted model.safetensors, model.safetensors.index.json or *.bin",
       ORD_INVALID},
      {"dir.safetensors", "holds no weight file; found nothing", ORD_INVALID},
      {"two", "holds 2 weight files: model.safetensors, pytorch_model.bin; wanted exactly one", ORD_INVALID},
      {"m.gguf", "GGUF files are not read; wanted safetensors or an ANDREA checkpoint", ORD_UNSUPPORTED},
      {"pipe.safetensors", "is not a regular file", ORD_INVALID},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_error err;
    ord_weight_file *file = NULL;
    MUST_FAIL(ord_weight_file_open(in_folder(row[i].name), NULL, NULL, &file, &err), row[i].wanted);
    assert_int_equal(err.code, row[i].code);
    assert_null(file);
  }
}

/* Looks for weights and compares the answer, a name in the folder; NULL: none. */
static void expect_found(const test_model *model, const char *given, const char *model_file, const char *wanted) {
  ord_error err = ORD_ERROR_INIT;
  char *found = NULL;
  const bool done = ord_weight_file_find(given, model_file, model->description, &found, &err);
  if (wanted) {
    if (!done) fail_msg("%s", err.text);
    assert_string_equal(found, in_folder(wanted));
  } else {
    assert_false(done);
    assert_null(found);
  }
  free(found);
}

static void test_where_weights_are_looked_for(void **state) {
  (void)state;
  test_model model = read_model(small_model);
  char model_file[128], folders[256];
  snprintf(model_file, sizeof model_file, "%s/small.yaml", folder);
  ord_error err;
  char *found = NULL;
  unsetenv("ORDITO_MODELS");
  MUST_FAIL(ord_weight_file_find(NULL, model_file, model.description, &found, &err),
            "no weights for model 'small'; looked in");
  assert_non_null(strstr(err.text, "/small (no such folder); wanted a folder with model.safetensors"));
  assert_int_equal(err.code, ORD_INVALID);

  make_inner("small");
  write_bytes("small/train.py", "x", 1);
  MUST_FAIL(ord_weight_file_find(NULL, model_file, model.description, &found, &err), "/small (holds train.py)");

  make_inner("shared");
  make_inner("shared/small");
  write_bytes("shared/small/w.bin", "x", 1);
  snprintf(folders, sizeof folders, "/nowhere::%s", in_folder("shared"));
  setenv("ORDITO_MODELS", folders, 1);
  expect_found(&model, NULL, model_file, "shared/small/w.bin"); /* the folder beside the model holds notes alone */
  expect_found(&model, NULL, NULL, "shared/small/w.bin");

  write_tensors("small/model.safetensors", small_file, 1);
  expect_found(&model, NULL, model_file, "small/model.safetensors"); /* beside the model comes first */
  expect_found(&model, in_folder("shared/small"), model_file, "shared/small/w.bin");
  expect_found(&model, in_folder("small/train.py"), model_file, "small/train.py");
  expect_found(&model, in_folder("absent"), model_file, NULL);

  write_bytes("small/model.safetensors.index.json", "x", 1);
  MUST_FAIL(ord_weight_file_find(NULL, model_file, model.description, &found, &err), "holds 2 weight files");
  unsetenv("ORDITO_MODELS");
  finish_model(&model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ranges_of_a_tensor),
      cmocka_unit_test(test_a_file_that_shrinks_or_is_written_to),
      cmocka_unit_test(test_paths_that_are_no_weights),
      cmocka_unit_test(test_where_weights_are_looked_for),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
