/* SPDX-License-Identifier: MIT */
#include "weight_fixture.h"

#define INDEX(map) "{\"metadata\":{\"total_size\":16},\"weight_map\":{" map "}}"

static const test_tensor first_shard[] = {{"a", "F32", 1, {2}}, {"b", "BF16", 1, {2}}};
static const test_tensor second_shard[] = {{"c", "F32", 1, {1}}};

static void write_shards(void) {
  write_tensors("s-1.safetensors", first_shard, 2);
  write_tensors("s-2.safetensors", second_shard, 1);
}

static const char *write_index(const char *text) {
  return write_bytes("model.safetensors.index.json", text, strlen(text));
}

static void test_shards_are_one_file(void **state) {
  (void)state;
  ord_error err;
  ord_weight_file *file = NULL;
  write_shards();
  write_index(INDEX("\"a\":\"s-1.safetensors\",\"b\":\"s-1.safetensors\",\"c\":\"s-2.safetensors\""));
  MUST(ord_weight_file_open(folder, NULL, NULL, &file, &err)); /* the folder stands for the index */
  assert_int_equal(ord_weight_file_count(file), 3);
  float number = -1;
  MUST(ord_weight_file_read(file, 0, 4, sizeof number, &number, &err));
  assert_true(number == 1);
  assert_string_equal(ord_weight_file_tensor(file, 2)->name, "c");
  MUST(ord_weight_file_read(file, 2, 0, sizeof number, &number, &err));
  assert_true(number == 0);
  ord_weight_file_close(file);
}

static void test_indexes_that_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *index, *wanted;
  } row[] = {
      {INDEX("\"a\":\"s-1.safetensors\",\"d\":\"s-3.safetensors\",\"e\":\"s-4.safetensors\""),
       "2 of 3 shards are missing: s-3.safetensors, s-4.safetensors; wanted them beside the index"},
      {INDEX("\"a\":\"s-1.safetensors\",\"d\":\"s-2.safetensors\""),
       "tensor 'd' is in no shard; wanted it in 's-2.safetensors'"},
      {INDEX("\"a\":\"s-2.safetensors\",\"c\":\"s-1.safetensors\""), "tensor 'a': found it in"},
      {INDEX("\"a\":\"../s-1.safetensors\""),
       "found shard '../s-1.safetensors'; wanted the name of a file beside the index"},
      {INDEX("\"a\":\"/etc/passwd\""), "found shard '/etc/passwd'"},
      {INDEX("\"a\":\"..\""), "found shard '..'"},
      {INDEX("\"a\":\"\""), "found shard ''"},
      {INDEX("\"a\":1"), "tensor 'a': no file name"},
      {INDEX("\"a\":\"s-1.safetensors\",\"a\":\"s-2.safetensors\""), "duplicate object key"},
      {"{}", "has no 'weight_map'"},
      {"[1]", "has no 'weight_map'"},
      {"<html></html>", "it looks like a web page"},
      {"", "not a shard index"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_error err;
    ord_weight_file *file = NULL;
    write_shards();
    MUST_FAIL(ord_weight_file_open(write_index(row[i].index), NULL, NULL, &file, &err), row[i].wanted);
    assert_null(file);
  }
}

static void test_a_short_shard_and_a_double_tensor(void **state) {
  (void)state;
  ord_error err;
  ord_weight_file *file = NULL;
  const char *index = write_index(INDEX("\"a\":\"s-1.safetensors\",\"c\":\"s-2.safetensors\""));
  write_shards();
  assert_int_equal(truncate(in_folder("s-2.safetensors"), 64), 0);
  MUST_FAIL(ord_weight_file_open(index, NULL, NULL, &file, &err), "s-2.safetensors: the file is cut off in tensor 'c'");
  write_tensors("s-2.safetensors", first_shard, 1);
  MUST_FAIL(ord_weight_file_open(index, NULL, NULL, &file, &err), "tensor 'a' is there twice");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_shards_are_one_file),
      cmocka_unit_test(test_indexes_that_are_refused),
      cmocka_unit_test(test_a_short_shard_and_a_double_tensor),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
