/* SPDX-License-Identifier: MIT */
#include "cli/npy.h"

#include <sys/stat.h>

#include "weight_fixture.h"

/* A file of version 1 with this header and as many bytes of data, 0, 1, 2, .. */
static const char *write_array(const char *header, size_t data) {
  static unsigned char bytes[4096];
  const size_t length = strlen(header);
  memcpy(bytes, "\x93NUMPY\x01\x00", 8);
  bytes[8] = (unsigned char)(length & 0xff);
  bytes[9] = (unsigned char)(length >> 8);
  memcpy(bytes + 10, header, length);
  for (size_t i = 0; i < data; i++) bytes[10 + length + i] = (unsigned char)i;
  return write_bytes("a.npy", bytes, 10 + length + data);
}

static void test_what_was_written_is_read(void **state) {
  (void)state;
  static const struct {
    ord_tensor tensor;
    uint32_t read_as;
  } row[] = {
      {{.dtype = ORD_F32, .rank = 2, .dim = {2, 3}, .bytes = 24}, ORD_F32},
      {{.dtype = ORD_F16, .rank = 1, .dim = {3}, .bytes = 6}, ORD_F16},
      {{.dtype = ORD_I32, .rank = 0, .bytes = 4}, ORD_I32},
      {{.dtype = ORD_I64, .rank = 6, .dim = {1, 1, 1, 1, 1, 2}, .bytes = 16}, ORD_I64},
      {{.dtype = ORD_BOOL, .rank = 1, .dim = {2}, .bytes = 2}, ORD_BOOL},
      {{.dtype = ORD_F32, .rank = 2, .dim = {0, 3}, .bytes = 0}, ORD_F32},
      {{.dtype = ORD_BF16, .rank = 1, .dim = {4}, .bytes = 8}, ORD_F32},
  };
  static const unsigned char numbers[24] = {0, 1, 0xc0, 0x3f, 4, 5, 6, 7};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_error err;
    ord_tensor written = row[i].tensor, tensor;
    void *data = NULL;
    written.data = numbers;
    MUST(npy_write(in_folder("a.npy"), &written, &err));
    MUST(npy_read(in_folder("a.npy"), &tensor, &data, &err));
    assert_int_equal(tensor.dtype, row[i].read_as);
    assert_int_equal(tensor.rank, written.rank);
    assert_memory_equal(tensor.dim, written.dim, sizeof written.dim);
    assert_ptr_equal(tensor.data, data);
    if (written.dtype == row[i].read_as) {
      assert_int_equal(tensor.bytes, written.bytes);
      assert_memory_equal(data, numbers, written.bytes);
    } else {
      assert_int_equal(tensor.bytes, 16);
      assert_true(((const float *)data)[1] == 1.5f);
    }
    free(data);
  }
}

/* As numpy writes it, to the byte: other programs read it too. */
static void test_the_bytes_of_a_file(void **state) {
  (void)state;
  static const int32_t number = 7;
  const ord_tensor tensor = {.dtype = ORD_I32, .rank = 1, .dim = {1}, .data = &number, .bytes = 4};
  ord_error err;
  unsigned char bytes[256];
  MUST(npy_write(in_folder("a.npy"), &tensor, &err));
  FILE *file = fopen(in_folder("a.npy"), "rb");
  assert_non_null(file);
  assert_int_equal(fread(bytes, 1, sizeof bytes, file), 128 + 4);
  fclose(file);
  static const char header[] = "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }";
  assert_memory_equal(bytes, "\x93NUMPY\x01\x00\x76\x00", 10);
  assert_memory_equal(bytes + 10, header, sizeof header - 1);
  assert_int_equal(bytes[127], '\n');
  assert_int_equal(bytes[128], 7);
}

static void test_other_spellings(void **state) {
  (void)state;
  static const struct {
    const char *header;
    size_t data;
    uint32_t dtype, rank;
    size_t bytes;
  } row[] = {
      {"{'shape':(2,2),\"fortran_order\":False,'descr':'<f4'}\n", 16, ORD_F32, 2, 16},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }      \n", 3, ORD_I32, 1, 12},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (), }", 4, ORD_F32, 0, 4},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 9223372036854775807, 9223372036854775807), }", 0, ORD_F32,
       3, 0},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_error err;
    ord_tensor tensor;
    void *data = NULL;
    MUST(npy_read(write_array(row[i].header, row[i].data), &tensor, &data, &err));
    assert_int_equal(tensor.dtype, row[i].dtype);
    assert_int_equal(tensor.rank, row[i].rank);
    assert_int_equal(tensor.bytes, row[i].bytes);
    if (row[i].dtype == ORD_I32)
      for (int n = 0; n < 3; n++) assert_int_equal(((const int32_t *)data)[n], n);
    free(data);
  }
}

#define HEADER(descr, order, shape) "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape ", }\n"

static void test_headers_that_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *header;
    size_t data;
    const char *wanted;
  } row[] = {
      {HEADER("'<f8'", "False", "(1,)"), 8, "found type '<f8'; wanted <f4"},
      {HEADER("'>f4'", "False", "(1,)"), 4, "found type '>f4'"},
      {HEADER("'|O'", "False", "(1,)"), 4, "found type '|O'"},
      {HEADER("[('x', '<f4')]", "False", "(1,)"), 4, "wanted a plain type, not a record"},
      {HEADER("'<f4'", "True", "(1,)"), 4, "found Fortran order; wanted C order"},
      {HEADER("'<f4'", "no", "(1,)"), 4, "wanted True or False"},
      {HEADER("'<f4'", "False", "(2,)"), 4, "found 4 bytes of data; wanted 8"},
      {HEADER("'<f4'", "False", "(1,)"), 5, "found 5 bytes of data; wanted 4"},
      {HEADER("'<f4'", "False", "(1)"), 4, "wanted ',' behind a single axis"},
      {HEADER("'<f4'", "False", "(1 2)"), 4, "wanted ','"},
      {HEADER("'<f4'", "False", "(1, 2;"), 4, "wanted ',' or ')'"},
      {HEADER("'<f4'", "False", "(-1,)"), 4, "wanted a whole number"},
      {HEADER("'<f4'", "False", "(1,1,1,1,1,1,1)"), 4, "found more than 6 axes"},
      {HEADER("'<f4'", "False", "(4294967296,4294967296)"), 4, "larger than any array"},
      {HEADER("'<f4'", "False", "(4611686018427387904,)"), 4, "larger than any array"},
      {HEADER("'<f4'", "False", "(99999999999999999999,)"), 4, "larger than any array"},
      {HEADER("'<f4'", "False", "[1]"), 4, "wanted a shape in parentheses"},
      {HEADER("'<f4'", "False", "("), 4, "wanted a whole number"},
      {"{'descr': '<f4', 'descr': '<f4', }", 4, "the header has twice the key 'descr'"},
      {"{'descr': '<f4', 'extra': 1}", 4, "the header has an unknown key 'extra'"},
      {"{'descr': '<f4', 'shape': ()}", 4, "the header lacks 'fortran_order'"},
      {HEADER("'<f4'", "False", "(1,)") "x", 4, "wanted nothing behind the dictionary"},
      {"", 0, "wanted '{'"},
      {"{'descr", 0, "wanted a short quoted word"},
      {HEADER("'|b1'", "False", "(3,)"), 3, "found a bool of 2; wanted 0 or 1"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_error err;
    ord_tensor tensor;
    void *data = NULL;
    MUST_FAIL(npy_read(write_array(row[i].header, row[i].data), &tensor, &data, &err), row[i].wanted);
    assert_null(data);
    assert_null(tensor.data);
  }
}

static void test_files_that_are_no_arrays(void **state) {
  (void)state;
  static const struct {
    const char *bytes;
    size_t count;
    const char *wanted;
  } row[] = {
      {"", 0, "is no .npy file"},
      {"\x93NUMPY\x01\x00\x00", 9, "is no .npy file"},
      {"PK\x03\x04 an archive", 15, "is no .npy file"},
      {"\x93NUMPY\x04\x00\x00\x00\x00\x00", 12, "found version 4 of the format"},
      {"\x93NUMPY\x01\x00\xff\xff{}", 12, "found a header of 65535 bytes in a file of 12"},
      {"\x93NUMPY\x02\x00\xff\xff\xff\xff", 12, "found a header of 4294967295 bytes in a file of 12"},
      {"\x93NUMPY\x02\x00\x02\x00\x00\x00{}", 14, "the header lacks 'descr'"},
  };
  ord_error err;
  ord_tensor tensor;
  void *data = NULL;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    MUST_FAIL(npy_read(write_bytes("a.npy", row[i].bytes, row[i].count), &tensor, &data, &err), row[i].wanted);
  MUST_FAIL(npy_read(in_folder("none.npy"), &tensor, &data, &err), "none.npy: cannot be opened: No such file");
  MUST_FAIL(npy_read(folder, &tensor, &data, &err), "is not a regular file");
  assert_int_equal(mkfifo(in_folder("pipe.npy"), 0666), 0);
  MUST_FAIL(npy_read(in_folder("pipe.npy"), &tensor, &data, &err), "is not a regular file");
}

static void test_what_cannot_be_written(void **state) {
  (void)state;
  static const float number = 1;
  ord_tensor tensor = {.dtype = ORD_F32, .rank = 1, .dim = {1}, .data = &number, .bytes = 4};
  ord_error err;
  empty_folder(folder);
  MUST_FAIL(npy_write(in_folder("none/a.npy"), &tensor, &err), "cannot be written: No such file");
  MUST_FAIL(npy_write(folder, &tensor, &err), "is not a regular file");
  assert_int_equal(mkfifo(in_folder("pipe"), 0666), 0);
  MUST_FAIL(npy_write(in_folder("pipe"), &tensor, &err), "is not a regular file");
  tensor.dtype = ORD_Q4_0;
  MUST_FAIL(npy_write(in_folder("a.npy"), &tensor, &err), "has no name in .npy");
  expect_files("pipe ");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_was_written_is_read), cmocka_unit_test(test_the_bytes_of_a_file),
      cmocka_unit_test(test_other_spellings),          cmocka_unit_test(test_headers_that_are_refused),
      cmocka_unit_test(test_files_that_are_no_arrays), cmocka_unit_test(test_what_cannot_be_written),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
