/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "weight_fixture.h"

enum { SMALL_COUNT = 6 * 4 + 4 + 4 * 4 + 4 * 4 + 6 * 4, SMALL_BYTES = 8 + 12 * SMALL_COUNT };

static const ord_convert_options to_named = {.kind = ORD_FILE_SAFETENSORS};
static const ord_convert_options to_checkpoint = {.kind = ORD_FILE_CHECKPOINT};

/* Number i of the file is i. */
static const char *write_checkpoint(const char *name, int32_t step, int32_t count) {
  static unsigned char bytes[1 << 16];
  memcpy(bytes, (int32_t[]){step, count}, 8);
  for (int i = 0; i < 3 * count; i++) memcpy(bytes + 8 + 4 * i, &(float){(float)i}, 4);
  return write_bytes(name, bytes, 8 + 12 * (size_t)count);
}

static size_t read_bytes(const char *path, unsigned char *bytes, size_t limit) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  const size_t count = fread(bytes, 1, limit, file);
  fclose(file);
  return count;
}

/* The tensor has this type, and its number i is first + i. */
static void expect_tensor(const ord_weight_file *file, const char *name, ord_dtype dtype, float first) {
  for (uint32_t t = 0; t < ord_weight_file_count(file); t++) {
    const ord_file_tensor *tensor = ord_weight_file_tensor(file, t);
    if (strcmp(tensor->name, name) != 0) continue;
    assert_int_equal(tensor->dtype, dtype);
    unsigned char bytes[512];
    float number[128];
    ord_error err;
    const size_t count = tensor->bytes / ord_dtype_get(dtype)->block_bytes;
    MUST(ord_weight_file_read(file, t, 0, tensor->bytes, bytes, &err));
    assert_true(ord_convert(dtype, bytes, ORD_F32, number, count));
    for (size_t i = 0; i < count; i++) assert_true(number[i] == first + (float)i);
    return;
  }
  fail_msg("no tensor %s", name);
}

static void test_a_checkpoint_there_and_back(void **state) {
  (void)state;
  test_model model = read_model(small_model);
  empty_folder(folder);
  const char *from = write_checkpoint("w.bin", 43587, SMALL_COUNT);
  convert(&model, from, in_folder("w.safetensors"), &to_named);
  ord_weight_file *file = open_file(&model, in_folder("w.safetensors"));
  assert_int_equal(ord_weight_file_count(file), 12);
  expect_tensor(file, "emb.weight", ORD_F32, 0);
  expect_tensor(file, "norm", ORD_F32, 24);
  expect_tensor(file, "fused", ORD_F32, 28); /* wq and wk joined */
  expect_tensor(file, "lm_head.weight", ORD_F32, 60);
  expect_tensor(file, "fused.adam_m", ORD_F32, 84 + 28);
  expect_tensor(file, "lm_head.weight.adam_v", ORD_F32, 168 + 60);
  ord_weight_file_close(file);

  convert(&model, in_folder("w.safetensors"), in_folder("again.bin"), &to_checkpoint);
  unsigned char first[SMALL_BYTES + 1], second[SMALL_BYTES + 1];
  assert_int_equal(read_bytes(from, first, sizeof first), SMALL_BYTES);
  assert_int_equal(read_bytes(in_folder("again.bin"), second, sizeof second), SMALL_BYTES);
  assert_memory_equal(first, second, SMALL_BYTES);
  expect_files("again.bin w.bin w.safetensors ");
  finish_model(&model);
}

static void test_a_named_file_gets_empty_moments(void **state) {
  (void)state;
  static const test_tensor tensor[] = {{"emb.weight", "BF16", 2, {6, 4}},
                                       {"norm", "F32", 1, {4}},
                                       {"fused", "F16", 2, {8, 4}},
                                       {"lm_head.weight", "BF16", 2, {6, 4}}};
  test_model model = read_model(small_model);
  convert(&model, write_tensors("w.safetensors", tensor, 4), in_folder("w.bin"), &to_checkpoint);
  unsigned char bytes[SMALL_BYTES + 1];
  assert_int_equal(read_bytes(in_folder("w.bin"), bytes, sizeof bytes), SMALL_BYTES);
  const int32_t header[2] = {0, SMALL_COUNT};
  assert_memory_equal(bytes, header, sizeof header);
  float number[3 * SMALL_COUNT];
  memcpy(number, bytes + 8, sizeof number);
  assert_true(number[5] == 5 && number[24] == 100 && number[28] == 200 && number[44] == 216);
  for (int i = SMALL_COUNT; i < 3 * SMALL_COUNT; i++) assert_true(number[i] == 0);
  finish_model(&model);
}

/* Numbers become bf16; what is f32 by its meaning, and what is no float, stays. Nothing is dropped. */
static void test_types_of_a_conversion(void **state) {
  (void)state;
  static const test_tensor tensor[] = {{"a", "F32", 2, {3, 2}}, {"a.adam_m", "F32", 2, {3, 2}}, {"b", "F16", 1, {4}},
                                       {"q", "I8", 2, {2, 2}},  {"q.scale", "F32", 1, {2}},     {"n", "I32", 1, {2}}};
  static const struct {
    ord_dtype wanted, dtype[6];
  } row[] = {{ORD_BF16, {ORD_BF16, ORD_F32, ORD_BF16, ORD_I8, ORD_F32, ORD_I32}},
             {ORD_F16, {ORD_F16, ORD_F32, ORD_F16, ORD_I8, ORD_F32, ORD_I32}},
             {ORD_F32, {ORD_F32, ORD_F32, ORD_F32, ORD_I8, ORD_F32, ORD_I32}},
             {0, {ORD_F32, ORD_F32, ORD_F16, ORD_I8, ORD_F32, ORD_I32}}};
  const char *from = write_tensors("w.safetensors", tensor, 6);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_error err;
    ord_weight_file *file = NULL;
    const ord_convert_options options = {.kind = ORD_FILE_SAFETENSORS, .dtype = row[i].wanted};
    MUST(ord_weight_file_open(from, NULL, NULL, &file, &err));
    MUST(ord_weight_file_convert(file, NULL, NULL, in_folder("out.safetensors"), &options, &err));
    ord_weight_file_close(file);
    MUST(ord_weight_file_open(in_folder("out.safetensors"), NULL, NULL, &file, &err));
    assert_int_equal(ord_weight_file_count(file), 6);
    for (uint32_t t = 0; t < 6; t++) {
      assert_string_equal(ord_weight_file_tensor(file, t)->name, tensor[t].name);
      assert_int_equal(ord_weight_file_tensor(file, t)->dtype, row[i].dtype[t]);
    }
    expect_tensor(file, "a", row[i].dtype[0], 0);
    expect_tensor(file, "b", row[i].dtype[2], 200);
    expect_tensor(file, "q.scale", ORD_F32, 400);
    ord_weight_file_close(file);
  }
}

static void test_metadata_is_kept(void **state) {
  (void)state;
  ord_error err;
  ord_weight_file *file = NULL;
  char bytes[256] = "";
  const char *from =
      write_safetensors("w.safetensors", "{\"__metadata__\":{\"format\":\"pt\",\"say\":\"\\\"\"}}", NULL, 0);
  MUST(ord_weight_file_open(from, NULL, NULL, &file, &err));
  MUST(ord_weight_file_convert(file, NULL, NULL, in_folder("out.safetensors"), &to_named, &err));
  ord_weight_file_close(file);
  read_bytes(in_folder("out.safetensors"), (unsigned char *)bytes, sizeof bytes - 1);
  assert_non_null(strstr(bytes + 8, "{\"__metadata__\":{\"format\":\"pt\",\"say\":\"\\\"\"}}"));
}

/* Slices along the second axis lie interleaved in the tensor that they make. */
static void test_slices_of_the_second_axis(void **state) {
  (void)state;
  static const char text[] = "ordito: 1\n"
                             "name: pair\n"
                             "dims: {rows: 2, d: 4}\n"
                             "inputs:\n"
                             "  x: {dtype: f32, shape: [rows, d]}\n"
                             "weights:\n"
                             "  a: {shape: [in: d, out: 2], from: t, slice: {axis: 1, start: 0}}\n"
                             "  b: {shape: [in: d, out: 3], from: t, slice: {axis: 1, start: 2}}\n"
                             "checkpoint:\n"
                             "  order: [b, a]\n"
                             "graph:\n"
                             "  - matmul: {in: x, weight: a, out: p}\n"
                             "  - matmul: {in: x, weight: b, out: q}\n"
                             "outputs: [p, q]\n";
  static const test_tensor tensor[] = {{"t", "F32", 2, {4, 5}}};
  static const float ordered[20] = {2, 3, 4, 7, 8, 9, 12, 13, 14, 17, 18, 19, 0, 1, 5, 6, 10, 11, 15, 16};
  test_model model = read_model(text);
  convert(&model, write_tensors("w.safetensors", tensor, 1), in_folder("w.bin"), &to_checkpoint);
  unsigned char bytes[8 + 12 * 20];
  assert_int_equal(read_bytes(in_folder("w.bin"), bytes, sizeof bytes), sizeof bytes);
  assert_memory_equal(bytes + 8, ordered, sizeof ordered);
  const ord_convert_options to_half = {.kind = ORD_FILE_SAFETENSORS, .dtype = ORD_BF16};
  convert(&model, in_folder("w.bin"), in_folder("again.safetensors"), &to_half);
  ord_weight_file *file = open_file(&model, in_folder("again.safetensors"));
  expect_tensor(file, "t", ORD_BF16, 0);
  ord_weight_file_close(file);
  finish_model(&model);
}

/* A tensor that the model's weights do not make up cannot be written under its name. */
static void test_slices_that_do_not_join(void **state) {
  (void)state;
  static const char form[] = "ordito: 1\nname: pair\ndims: {rows: 2, d: 4}\n"
                             "inputs:\n  x: {dtype: f32, shape: [rows, d]}\n"
                             "weights:\n  a: {%s}\n  b: {%s}\ncheckpoint:\n  order: [a, b]\n"
                             "graph:\n  - matmul: {in: x, weight: a, out: p}\n  - matmul: {in: x, weight: b, out: q}\n"
                             "outputs: [p, q]\n";
#define PART(axis, start) "shape: [out: 2, in: d], from: t, slice: {axis: " #axis ", start: " #start "}"
#define ALONE "shape: [out: 2, in: d], from: t"
  static const struct {
    const char *a, *b;
  } row[] = {{PART(0, 0), PART(0, 3)}, {PART(0, 0), PART(0, 1)}, {PART(0, 1), PART(0, 3)},
             {PART(0, 0), PART(1, 2)}, {ALONE, ALONE},           {ALONE, PART(0, 2)}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char text[1024];
    snprintf(text, sizeof text, form, row[i].a, row[i].b);
    test_model model = read_model(text);
    ord_error err;
    ord_weight_file *file = open_file(&model, write_checkpoint("w.bin", 1, 16));
    MUST_FAIL(ord_weight_file_convert(file, model.description, model.graph, in_folder("out"), &to_named, &err),
              "to tensor 't'; wanted slices along one axis without hole or overlap");
    ord_weight_file_close(file);
    finish_model(&model);
  }
}

static void test_conversions_that_are_refused(void **state) {
  (void)state;
  static const ord_convert_options half = {.kind = ORD_FILE_CHECKPOINT, .dtype = ORD_BF16};
  static const ord_convert_options integer = {.kind = ORD_FILE_SAFETENSORS, .dtype = ORD_I32};
  static const struct {
    test_tensor tensor[6];
    uint32_t count;
    const ord_convert_options *options;
    const char *wanted;
  } row[] = {
      {{{"a", "F32", 1, {1}}}, 1, &to_checkpoint, "5 faults for the model: missing emb.weight"},
      {{{"emb.weight", "F32", 2, {6, 4}},
        {"norm", "F32", 1, {4}},
        {"fused", "I8", 2, {8, 4}},
        {"fused.scale", "F32", 1, {8}},
        {"lm_head.weight", "F32", 2, {6, 4}}},
       5,
       &to_checkpoint,
       "tensor 'fused' is I8; a checkpoint holds F32 and takes F32, F16 and BF16"},
      {{{"emb.weight", "F32", 2, {6, 4}},
        {"norm", "F32", 1, {4}},
        {"norm.adam_m", "F32", 1, {4}},
        {"fused", "F32", 2, {8, 4}},
        {"lm_head.weight", "F32", 2, {6, 4}}},
       5,
       &to_checkpoint,
       "lacks its Adam moments, others have theirs; wanted all or none"},
      {{{"emb.weight", "F32", 2, {6, 4}},
        {"norm", "F32", 1, {4}},
        {"norm.adam_m", "F32", 1, {3}},
        {"fused", "F32", 2, {8, 4}},
        {"lm_head.weight", "F32", 2, {6, 4}}},
       5,
       &to_checkpoint,
       "tensor 'norm.adam_m' is F32 [3], wanted F32 [4]"},
      {{{"a", "F32", 1, {1}}}, 1, &half, "found type bf16; wanted f32, the type of a checkpoint"},
      {{{"a", "F32", 1, {1}}}, 1, &integer, "found type i32; wanted f32, f16, bf16 or i8"},
  };
  test_model model = read_model(small_model);
  empty_folder(folder);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_error err;
    ord_weight_file *file = open_file(&model, write_tensors("w.safetensors", row[i].tensor, row[i].count));
    MUST_FAIL(ord_weight_file_convert(file, model.description, model.graph, in_folder("out"), row[i].options, &err),
              row[i].wanted);
    ord_weight_file_close(file);
    expect_files("w.safetensors ");
  }
  finish_model(&model);
}

static void test_numbers_that_do_not_fit(void **state) {
  (void)state;
  static const float number[2] = {1, 70000};
  ord_error err;
  ord_weight_file *file = NULL;
  ord_convert_options options = {.kind = ORD_FILE_SAFETENSORS, .dtype = ORD_F16};
  MUST(ord_weight_file_open(
      write_safetensors("w.safetensors", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", number, 8),
      NULL, NULL, &file, &err));
  MUST_FAIL(ord_weight_file_convert(file, NULL, NULL, in_folder("out"), &options, &err),
            "tensor 'a' holds 70000; f16 ends at 65504; wanted bf16 or f32");
  options.dtype = ORD_BF16;
  MUST(ord_weight_file_convert(file, NULL, NULL, in_folder("out"), &options, &err));
  ord_weight_file_close(file);
}

static void test_a_step_that_is_no_number(void **state) {
  (void)state;
  static const char text[] = "ordito: 1\nname: m\ndims: {d: 1}\ninputs:\n  x: {dtype: f32, shape: [d, d]}\nweights:\n  "
                             "w: {shape: [out: d, in: d]}\n"
                             "checkpoint: {order: [w]}\ngraph:\n  - matmul: {in: x, weight: w, out: x}\noutputs: [x]\n";
  static const char *const step[] = {"x", "", "2147483648", "1 "};
  test_model model = read_model(text);
  for (size_t i = 0; i < sizeof step / sizeof *step; i++) {
    char header[256];
    snprintf(header, sizeof header,
             "{\"__metadata__\":{\"step\":\"%s\"},\"w\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[0,4]}}",
             step[i]);
    ord_error err;
    ord_weight_file *file = open_file(&model, write_safetensors("w.safetensors", header, NULL, 4));
    MUST_FAIL(ord_weight_file_convert(file, model.description, model.graph, in_folder("out"), &to_checkpoint, &err),
              "wanted a whole number of 32 bits");
    ord_weight_file_close(file);
  }
  finish_model(&model);
}

static void test_the_source_is_never_overwritten(void **state) {
  (void)state;
  empty_folder(folder);
  const char *from = write_tensors("w.safetensors", small_file, SMALL_FILE_COUNT);
  assert_int_equal(symlink("w.safetensors", in_folder("link")), 0);
  assert_int_equal(link(from, in_folder("hard")), 0);
  ord_error err;
  ord_weight_file *file = NULL;
  MUST(ord_weight_file_open(from, NULL, NULL, &file, &err));
  static const char *const name[] = {"w.safetensors", "link", "hard"};
  for (int i = 0; i < 3; i++)
    MUST_FAIL(ord_weight_file_convert(file, NULL, NULL, in_folder(name[i]), &to_named, &err),
              "is the file that is converted; wanted another name");
  ord_weight_file_close(file);
  expect_files("hard link w.safetensors ");
}

static bool cancel_late(void *context, uint64_t done, uint64_t all) {
  *(uint32_t *)context += 1;
  assert_true(done <= all);
  return done < all;
}

/* Whatever goes wrong: the file that was there stays, and nothing else is left. */
static void test_a_failure_leaves_the_old_file(void **state) {
  (void)state;
  empty_folder(folder);
  const char *from = write_tensors("w.safetensors", small_file, SMALL_FILE_COUNT), *to = write_bytes("out", "old", 3);
  ord_error err;
  ord_weight_file *file = NULL;
  MUST(ord_weight_file_open(from, NULL, NULL, &file, &err));

  uint32_t calls = 0;
  const ord_convert_options cancelled = {
      .kind = ORD_FILE_SAFETENSORS, .progress = cancel_late, .progress_context = &calls};
  MUST_FAIL(ord_weight_file_convert(file, NULL, NULL, to, &cancelled, &err), "cancelled");
  assert_int_equal(err.code, ORD_CANCELLED);
  assert_int_equal(calls, SMALL_FILE_COUNT);

  struct rlimit limit;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const struct rlimit full = {.rlim_cur = 100, .rlim_max = limit.rlim_max};
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
  const bool done = ord_weight_file_convert(file, NULL, NULL, to, &to_named, &err);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
  assert_false(done);
  assert_int_equal(err.code, ORD_IO);
  assert_non_null(
      strstr(err.text, "out: cannot be written: File too large; 100 bytes were written and are removed again"));

  assert_int_equal(truncate(from, 500), 0); /* the source shrinks while it is read */
  MUST_FAIL(ord_weight_file_convert(file, NULL, NULL, to, &to_named, &err), "became shorter");
  ord_weight_file_close(file);

  unsigned char old[8];
  assert_int_equal(read_bytes(to, old, sizeof old), 3);
  expect_files("out w.safetensors ");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_checkpoint_there_and_back),   cmocka_unit_test(test_a_named_file_gets_empty_moments),
      cmocka_unit_test(test_types_of_a_conversion),         cmocka_unit_test(test_metadata_is_kept),
      cmocka_unit_test(test_slices_of_the_second_axis),     cmocka_unit_test(test_slices_that_do_not_join),
      cmocka_unit_test(test_conversions_that_are_refused),  cmocka_unit_test(test_numbers_that_do_not_fit),
      cmocka_unit_test(test_a_step_that_is_no_number),      cmocka_unit_test(test_the_source_is_never_overwritten),
      cmocka_unit_test(test_a_failure_leaves_the_old_file),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
