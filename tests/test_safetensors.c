/* SPDX-License-Identifier: MIT */
#include "weight_fixture.h"

#define ONE(dtype, shape, offsets) "{\"a\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define ENTRY(name, begin, end, count)                                                                                 \
  "\"" name "\":{\"dtype\":\"F32\",\"shape\":[" #count "],\"data_offsets\":[" #begin "," #end "]}"

static void test_headers_that_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *header;
    size_t data;
    const char *wanted;
  } row[] = {
      /* A shape that claims far more than the data holds, and one that claims something where nothing is. */
      {ONE("\"F32\"", "[1000,1000]", "[0,4]"), 4,
       "tensor 'a': found data_offsets of 4 bytes; wanted 4000000 for F32 [1000, 1000]"},
      {ONE("\"F32\"", "[1]", "[0,0]"), 0, "found data_offsets of 0 bytes; wanted 4 for F32 [1]"},
      {"{" ENTRY("a", 0, 4, 1) "," ENTRY("a", 4, 8, 1) "}", 8, "the header names a thing twice"},
      {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, "twice"},
      {ONE("\"F32\"", "[4294967296,4294967296]", "[0,4]"), 4, "is no whole number of bytes below 2^64"},
      {ONE("\"F64\"", "[2305843009213693952]", "[0,4]"), 4, "is no whole number of bytes below 2^64"},
      {ONE("\"F4\"", "[3]", "[0,2]"), 2, "is no whole number of bytes"},
      {ONE("\"F32\"", "[-1]", "[0,4]"), 4, "axis 0 of 'shape' is not a whole number of at least 0"},
      {ONE("\"F32\"", "[1.0]", "[0,4]"), 4, "axis 0 of 'shape' is not a whole number"},
      {ONE("\"F32\"", "[99999999999999999999]", "[0,4]"), 4, "the header is no JSON object"},
      {ONE("\"F32\"", "\"1\"", "[0,4]"), 4, "'shape' is not a list"},
      {ONE("\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "found 9 axes; wanted at most 8"},
      {ONE("\"F32\"", "[1]", "[0]"), 4, "'data_offsets' is not [begin, end]"},
      {ONE("\"F32\"", "[1]", "[4,0]"), 4, "'data_offsets' is not [begin, end]"},
      {ONE("\"F32\"", "[1]", "[-4,0]"), 4, "'data_offsets' is not [begin, end]"},
      {ONE("\"F32\"", "[1]", "[0,4,8]"), 4, "'data_offsets' is not [begin, end]"},
      {ONE("\"F32\"", "[1]", "7"), 4, "'data_offsets' is not [begin, end]"},
      {ONE("\"F32\"", "[2]", "[9223372036854775799,9223372036854775807]"), 8, "leaves a hole behind 'the header'"},
      {ONE("7", "[1]", "[0,4]"), 4, "has no 'dtype'"},
      {"{\"a\":7}", 0, "has no 'dtype'"},
      {"{\"\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "a tensor has no name"},
      {"{\"a\\u001b[2J\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "control byte 0x1b"},
      {"{" ENTRY("a", 0, 8, 2) "," ENTRY("b", 4, 12, 2) "}", 12, "tensor 'b' overlaps 'a'; found its begin at byte 4"},
      {"{" ENTRY("a", 0, 8, 2) "," ENTRY("b", 0, 8, 2) "}", 8, "overlaps"},
      {"{" ENTRY("a", 0, 4, 1) "," ENTRY("b", 8, 12, 1) "}", 12, "tensor 'b' leaves a hole behind 'a'"},
      {"{" ENTRY("a", 4, 8, 1) "}", 8, "leaves a hole behind 'the header'"},
      {"{" ENTRY("a", 0, 4, 1) "}", 5, "has bytes that belong to no tensor; found 67 bytes; wanted 66"},
      {"{}", 1, "has bytes that belong to no tensor"},
      {"{" ENTRY("a", 0, 4, 1) "," ENTRY("b", 4, 400, 99) "}", 100,
       "the file is cut off in tensor 'b'; found 218 bytes; wanted 518, 300 more (an unfinished download?)"},
      {"{\"__metadata__\":7}", 0, "'__metadata__' is not an object"},
      {"{\"__metadata__\":{\"k\":1}}", 0, "'k' of '__metadata__' is not a text"},
      {"{\"a\":", 0, "the header is no JSON object"},
      {"{}x", 0, "the header is no JSON object"},
      {"{\"\xff\":1}", 0, "the header is no JSON object"},
      {"[]", 8, "found byte 0x5b where the header begins; wanted '{'"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_error err;
    ord_weight_file *file = NULL;
    const char *path = write_safetensors("w.safetensors", row[i].header, NULL, row[i].data);
    MUST_FAIL(ord_weight_file_open(path, NULL, NULL, &file, &err), row[i].wanted);
    assert_null(file);
    assert_int_equal(err.code, ORD_INVALID);
    assert_non_null(strstr(err.text, path));
  }
}

/* What is no safetensors file at all: the message says what it looks like, and how large it is. */
static void test_files_that_are_something_else(void **state) {
  (void)state;
  static const char zip[] = "PK\x03\x04 and so on, archive/data.pkl", pickle[] = "\x80\x02}q\x00(X\x05 model state";
  static const char html[] = "<!DOCTYPE html><html><body>Not found</body></html>";
  static const char space_html[] = "\n  <HTML>Sign in</HTML>";
  static const char lfs[] = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 6825936\n";
  static const char text[] = "Access to this model is restricted.";
  static const char huge[] = "\xff\xff\xff\xff\xff\xff\xff\xff{}";
  static const char limit[] = "\x01\x00\x00\x08\x00\x00\x00\x00{}";
  static const char cut[] = "\x10\x00\x00\x00\x00\x00\x00\x00{\"a\"";
  static const char zeros[64] = {0}, gguf[] = "GGUF\x03\x00\x00\x00\x00\x00\x00\x00";
  static const struct {
    const char *bytes;
    size_t count;
    const char *wanted;
  } row[] = {
      {"", 0, "too short for a safetensors file; found 0 bytes; it is empty"},
      {"\x02\0\0\0\0\0\0", 7, "too short for a safetensors file; found 7 bytes"},
      {"\x02\0\0\0\0\0\0\0", 8, "too short for a safetensors file; found 8 bytes"},
      {zip, sizeof zip, "33 bytes; it looks like a zip archive (a PyTorch file?)"},
      {pickle, sizeof pickle, "it looks like a Python pickle (a PyTorch file?)"},
      {html, sizeof html - 1, "it looks like a web page (HTML)"},
      {space_html, sizeof space_html - 1, "it looks like a web page (HTML)"},
      {lfs, sizeof lfs - 1, "it is a git-lfs pointer, the weights themselves were not fetched (git lfs pull)"},
      {text, sizeof text - 1, "it looks like text"},
      {zeros, sizeof zeros, "it begins with zeros (an unfinished download?)"},
      {gguf, sizeof gguf, "it looks like a GGUF file"},
      {huge, sizeof huge - 1,
       "found 18446744073709551615 bytes of header declared in a file of 10; wanted at most 134217728"},
      {limit, sizeof limit - 1, "found 134217729 bytes of header declared in a file of 10"},
      {cut, sizeof cut - 1, "the file ends inside its header; found 12 bytes; wanted at least 24, 12 more"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_error err;
    ord_weight_file *file = NULL;
    const char *path = write_bytes("w.safetensors", row[i].bytes, row[i].count);
    MUST_FAIL(ord_weight_file_open(path, NULL, NULL, &file, &err), row[i].wanted);
    assert_null(file);
  }
}

static void test_types_are_listed(void **state) {
  (void)state;
  static const struct {
    const char *name;
    ord_dtype dtype;
    uint32_t bits;
  } row[] = {{"F32", ORD_F32, 32}, {"F16", ORD_F16, 16}, {"BF16", ORD_BF16, 16}, {"I8", ORD_I8, 8},
             {"I32", ORD_I32, 32}, {"I64", ORD_I64, 64}, {"BOOL", ORD_BOOL, 8},  {"F64", 0, 64},
             {"U8", 0, 8},         {"F8_E4M3", 0, 8},    {"F4", 0, 4},           {"F6_E2M3", 0, 6},
             {"C64", 0, 64}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_error err;
    ord_weight_file *file = NULL;
    char header[256];
    snprintf(header, sizeof header, "{\"a\":{\"dtype\":\"%s\",\"shape\":[2,4],\"data_offsets\":[0,%u]}}", row[i].name,
             row[i].bits);
    MUST(ord_weight_file_open(write_safetensors("w.safetensors", header, NULL, row[i].bits), NULL, NULL, &file, &err));
    const ord_file_tensor *tensor = ord_weight_file_tensor(file, 0);
    assert_int_equal(ord_weight_file_count(file), 1);
    assert_int_equal(tensor->dtype, row[i].dtype);
    assert_string_equal(tensor->type_name, row[i].name);
    assert_int_equal(tensor->rank, 2);
    assert_int_equal(tensor->dim[1], 4);
    assert_int_equal(tensor->bytes, row[i].bits);
    ord_weight_file_close(file);
  }
}

/* A type of the future is listed by what the file says of it. */
static void test_an_unknown_type_is_listed(void **state) {
  (void)state;
  ord_error err;
  ord_weight_file *file = NULL;
  MUST(ord_weight_file_open(write_safetensors("w.safetensors", ONE("\"F3\"", "[5]", "[0,2]"), NULL, 2), NULL, NULL,
                            &file, &err));
  assert_int_equal(ord_weight_file_tensor(file, 0)->dtype, 0);
  assert_string_equal(ord_weight_file_tensor(file, 0)->type_name, "F3");
  ord_weight_file_close(file);
}

static void test_empty_tensors_scalars_and_padding(void **state) {
  (void)state;
  static const char header[] =
      "{\"__metadata__\":{\"format\":\"pt\"},"
      "\"none\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[4,4]},"
      "\"vast\":{\"dtype\":\"F32\",\"shape\":[9223372036854775807,9223372036854775807,0],\"data_offsets\":[0,0]},"
      "\"one\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}   ";
  ord_error err;
  ord_weight_file *file = NULL;
  MUST(ord_weight_file_open(write_safetensors("w.safetensors", header, NULL, 4), NULL, NULL, &file, &err));
  assert_int_equal(ord_weight_file_count(file), 3);
  const char *wanted[] = {"vast", "one", "none"};
  for (uint32_t i = 0; i < 3; i++) assert_string_equal(ord_weight_file_tensor(file, i)->name, wanted[i]);
  assert_int_equal(ord_weight_file_tensor(file, 1)->rank, 0);
  unsigned char byte[4];
  MUST(ord_weight_file_read(file, 1, 0, 4, byte, &err));
  for (int i = 0; i < 4; i++) assert_int_equal(byte[i], i);
  MUST(ord_weight_file_read(file, 2, 0, 0, byte, &err));
  ord_weight_file_close(file);
}

/* A file with no tensor is a file. */
static void test_an_empty_file(void **state) {
  (void)state;
  ord_error err;
  ord_weight_file *file = NULL;
  MUST(ord_weight_file_open(write_safetensors("w.safetensors", "{}", NULL, 0), NULL, NULL, &file, &err));
  assert_int_equal(ord_weight_file_count(file), 0);
  ord_weight_file_close(file);
}

static void test_depth_is_bounded(void **state) {
  (void)state;
  enum { DEPTH = 100000 };
  char *header = malloc(DEPTH + 6);
  assert_non_null(header);
  memcpy(header, "{\"a\":", 5);
  memset(header + 5, '[', DEPTH);
  header[DEPTH + 5] = '\0';
  ord_error err;
  ord_weight_file *file = NULL;
  MUST_FAIL(ord_weight_file_open(write_safetensors("w.safetensors", header, NULL, 0), NULL, NULL, &file, &err),
            "the header is no JSON object");
  free(header);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_headers_that_are_refused),
      cmocka_unit_test(test_files_that_are_something_else),
      cmocka_unit_test(test_types_are_listed),
      cmocka_unit_test(test_an_unknown_type_is_listed),
      cmocka_unit_test(test_empty_tensors_scalars_and_padding),
      cmocka_unit_test(test_an_empty_file),
      cmocka_unit_test(test_depth_is_bounded),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
