/* SPDX-License-Identifier: MIT
 *
 * Conversions to int8 and back: which tensors, with which scales, what a model makes of them, and what is refused.
 */
#include <float.h>
#include <math.h>

#include "weight_fixture.h"

static const ord_convert_options to_int8 = {.kind = ORD_FILE_SAFETENSORS, .dtype = ORD_I8};
static const ord_convert_options to_f32 = {.kind = ORD_FILE_SAFETENSORS, .dtype = ORD_F32};

/* Matrices stored both ways, a fused one, a table that a matmul reads too, one that none does, a norm. */
static const char mixed_model[] = "ordito: 1\n"
                                  "name: mixed\n"
                                  "dims: {batch: 1, seq: {min: 1, max: 4}, d: 4, vocab: 6}\n"
                                  "inputs:\n"
                                  "  tokens: {dtype: i32, shape: [batch, seq], fill: tokens}\n"
                                  "  positions: {dtype: i32, shape: [batch, seq], fill: positions}\n"
                                  "weights:\n"
                                  "  wte:  {shape: [out: vocab, in: d]}\n"
                                  "  wpe:  {shape: [4, d]}\n"
                                  "  norm: {shape: [d]}\n"
                                  "  wq:   {shape: [out: d, in: d], from: fused, slice: {axis: 0, start: 0}}\n"
                                  "  wk:   {shape: [out: d, in: d], from: fused, slice: {axis: 0, start: d}}\n"
                                  "  wt:   {shape: [in: d, out: d]}\n"
                                  "checkpoint: {order: [wte, wpe, norm, wq, wk, wt]}\n"
                                  "graph:\n"
                                  "  - embedding: {in: tokens, weight: wte, out: x}\n"
                                  "  - position:  {in: x, positions: positions, weight: wpe, out: x}\n"
                                  "  - rmsnorm:   {in: x, weight: norm, eps: 1e-5, out: x}\n"
                                  "  - matmul:    {in: x, weight: wq, out: q}\n"
                                  "  - matmul:    {in: x, weight: wk, out: k}\n"
                                  "  - add:       {in: [q, k], out: x}\n"
                                  "  - matmul:    {in: x, weight: wt, out: x}\n"
                                  "  - matmul:    {in: x, weight: wte, out: logits}\n"
                                  "outputs: [logits]\n";
enum { MIXED_COUNT = 24 + 16 + 4 + 32 + 16 };

static const test_tensor mixed_file[] = {
    {"wte", "F32", 2, {6, 4}},   {"wpe", "BF16", 2, {4, 4}}, {"norm", "F16", 1, {4}},
    {"fused", "F32", 2, {8, 4}}, {"wt", "F16", 2, {4, 4}},
};
enum { MIXED_TENSORS = sizeof mixed_file / sizeof *mixed_file };

/* The numbers of a tensor; codes as they are. *out_dtype: its type, 0 if it is not there. */
static size_t read_tensor(const ord_weight_file *file, const char *name, ord_dtype *out_dtype, float *number) {
  *out_dtype = 0;
  for (uint32_t t = 0; t < ord_weight_file_count(file); t++) {
    const ord_file_tensor *tensor = ord_weight_file_tensor(file, t);
    if (strcmp(tensor->name, name) != 0) continue;
    unsigned char bytes[512];
    ord_error err;
    *out_dtype = tensor->dtype;
    const size_t count = tensor->bytes / ord_dtype_get(tensor->dtype)->block_bytes;
    MUST(ord_weight_file_read(file, t, 0, tensor->bytes, bytes, &err));
    if (tensor->dtype == ORD_I8)
      for (size_t i = 0; i < count; i++) number[i] = ((int8_t *)bytes)[i];
    else
      assert_true(ord_convert(tensor->dtype, bytes, ORD_F32, number, count));
    return count;
  }
  return 0;
}

/* What tensor `name` of `file` must be: codes of the numbers first, first + 1, .. with the scales of these rows. */
static void expect_codes(const ord_weight_file *file, const char *name, size_t count, float first, size_t rows,
                         size_t inner) {
  char scale_name[64];
  float code[128], scale[128], largest[128] = {0};
  ord_dtype dtype;
  snprintf(scale_name, sizeof scale_name, "%s.scale", name);
  assert_int_equal(read_tensor(file, name, &dtype, code), count);
  assert_int_equal(dtype, ORD_I8);
  assert_int_equal(read_tensor(file, scale_name, &dtype, scale), rows);
  assert_int_equal(dtype, ORD_F32);
  for (size_t i = 0; i < count; i++)
    largest[i / inner % rows] = fmaxf(largest[i / inner % rows], fabsf(first + (float)i));
  for (size_t i = 0; i < count; i++) {
    const size_t row = i / inner % rows;
    assert_true(scale[row] == largest[row] / 127);
    assert_true(code[i] == rintf((first + (float)i) / scale[row]));
  }
}

static void test_what_becomes_int8(void **state) {
  (void)state;
  test_model model = read_model(mixed_model);
  convert(&model, write_tensors("w.safetensors", mixed_file, MIXED_TENSORS), in_folder("i8.safetensors"), &to_int8);
  ord_weight_file *file = open_file(&model, in_folder("i8.safetensors"));
  assert_int_equal(ord_weight_file_count(file), MIXED_TENSORS + 3);
  expect_codes(file, "wte", 24, 0, 6, 4); /* the head multiplies it, the embedding reads the same scales */
  expect_codes(file, "fused", 32, 300, 8, 4);
  expect_codes(file, "wt", 16, 400, 4, 1); /* its rows are its columns */
  float number[128];
  ord_dtype dtype;
  read_tensor(file, "wpe", &dtype, number);
  assert_int_equal(dtype, ORD_BF16); /* nothing multiplies it */
  read_tensor(file, "norm", &dtype, number);
  assert_int_equal(dtype, ORD_F16);
  ord_weight_file_close(file);
  finish_model(&model);
}

static void test_from_a_checkpoint(void **state) {
  (void)state;
  static unsigned char bytes[8 + 12 * MIXED_COUNT];
  test_model model = read_model(mixed_model);
  memcpy(bytes, (int32_t[]){7, MIXED_COUNT}, 8);
  for (int i = 0; i < 3 * MIXED_COUNT; i++) memcpy(bytes + 8 + 4 * i, &(float){(float)i}, 4);
  convert(&model, write_bytes("w.bin", bytes, sizeof bytes), in_folder("i8.safetensors"), &to_int8);
  ord_weight_file *file = open_file(&model, in_folder("i8.safetensors"));
  expect_codes(file, "wte", 24, 0, 6, 4);
  expect_codes(file, "fused", 32, 44, 8, 4);
  expect_codes(file, "wt", 16, 76, 4, 1);
  float number[128];
  ord_dtype dtype;
  assert_int_equal(read_tensor(file, "wt.adam_m", &dtype, number), 16);
  assert_int_equal(dtype, ORD_F32);
  assert_true(number[0] == MIXED_COUNT + 76);
  ord_weight_file_close(file);
  finish_model(&model);
}

/* Back: every number within half a step, and a second time the same codes. */
static void test_there_and_back(void **state) {
  (void)state;
  static const ord_dtype target[] = {ORD_F32, ORD_BF16, ORD_F16};
  static const char *const name[] = {"wte", "fused", "wt"};
  static const float rounding[] = {0x1p-23f, 0x1p-8f, 0x1p-11f};
  test_model model = read_model(mixed_model);
  convert(&model, write_tensors("w.safetensors", mixed_file, MIXED_TENSORS), in_folder("i8.safetensors"), &to_int8);
  for (size_t i = 0; i < sizeof target / sizeof *target; i++) {
    const ord_convert_options options = {.kind = ORD_FILE_SAFETENSORS, .dtype = target[i]};
    convert(&model, in_folder("i8.safetensors"), in_folder("back.safetensors"), &options);
    ord_weight_file *first = open_file(&model, in_folder("w.safetensors"));
    ord_weight_file *back = open_file(&model, in_folder("back.safetensors"));
    assert_int_equal(ord_weight_file_count(back), MIXED_TENSORS);
    for (size_t t = 0; t < sizeof name / sizeof *name; t++) {
      float was[128], is[128], largest = 0;
      ord_dtype dtype;
      const size_t count = read_tensor(first, name[t], &dtype, was);
      assert_int_equal(read_tensor(back, name[t], &dtype, is), count);
      assert_int_equal(dtype, target[i]);
      for (size_t n = 0; n < count; n++) largest = fmaxf(largest, was[n]);
      for (size_t n = 0; n < count; n++)
        assert_true(fabsf(was[n] - is[n]) <= largest / 254 * (1 + 0x1p-20f) + rounding[i] * was[n]);
    }
    ord_weight_file_close(first);
    ord_weight_file_close(back);
  }
  convert(&model, in_folder("i8.safetensors"), in_folder("back.safetensors"), &to_f32);
  convert(&model, in_folder("back.safetensors"), in_folder("again.safetensors"), &to_int8);
  ord_weight_file *one = open_file(&model, in_folder("i8.safetensors"));
  ord_weight_file *other = open_file(&model, in_folder("again.safetensors"));
  for (size_t t = 0; t < sizeof name / sizeof *name; t++) {
    float first[128], second[128];
    ord_dtype dtype;
    const size_t count = read_tensor(one, name[t], &dtype, first);
    assert_int_equal(read_tensor(other, name[t], &dtype, second), count);
    assert_memory_equal(first, second, count * sizeof *first);
  }
  ord_weight_file_close(one);
  ord_weight_file_close(other);
  /* As it is, and to int8 what is int8 already: the same bytes. */
  convert(&model, in_folder("i8.safetensors"), in_folder("same.safetensors"), &to_int8);
  other = open_file(&model, in_folder("same.safetensors"));
  assert_int_equal(ord_weight_file_count(other), MIXED_TENSORS + 3);
  expect_codes(other, "wte", 24, 0, 6, 4);
  ord_weight_file_close(other);
  finish_model(&model);
}

static void test_a_row_of_zeros(void **state) {
  (void)state;
  static const char text[] = "ordito: 1\nname: m\ndims: {d: 2}\ninputs:\n  x: {dtype: f32, shape: [d, d]}\nweights:\n  "
                             "w: {shape: [out: d, in: d]}\n"
                             "graph:\n  - matmul: {in: x, weight: w, out: x}\noutputs: [x]\n";
  static const float number[4] = {0, 0, -254, 1};
  test_model model = read_model(text);
  convert(&model,
          write_safetensors("w.safetensors", "{\"w\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}",
                            number, 16),
          in_folder("i8.safetensors"), &to_int8);
  ord_weight_file *file = open_file(&model, in_folder("i8.safetensors"));
  float code[4], scale[2];
  ord_dtype dtype;
  assert_int_equal(read_tensor(file, "w", &dtype, code), 4);
  assert_int_equal(read_tensor(file, "w.scale", &dtype, scale), 2);
  assert_true(code[0] == 0 && code[1] == 0 && code[2] == -127 && code[3] == 0);
  assert_true(scale[0] == 1 && scale[1] == 2);
  ord_weight_file_close(file);
  finish_model(&model);
}

static void test_numbers_that_are_refused(void **state) {
  (void)state;
  static const char text[] = "ordito: 1\nname: m\ndims: {d: 2}\ninputs:\n  x: {dtype: f32, shape: [d, d]}\nweights:\n  "
                             "w: {shape: [out: d, in: d]}\n"
                             "graph:\n  - matmul: {in: x, weight: w, out: x}\noutputs: [x]\n";
  static const float bad[] = {NAN, INFINITY, -INFINITY};
  test_model model = read_model(text);
  for (size_t i = 0; i < 3; i++) {
    const float number[4] = {0, 1, 2, bad[i]};
    empty_folder(folder);
    ord_error err;
    ord_weight_file *file = open_file(
        &model, write_safetensors("w.safetensors",
                                  "{\"w\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}", number, 16));
    MUST_FAIL(ord_weight_file_convert(file, model.description, model.graph, in_folder("out"), &to_int8, &err),
              "tensor 'w' holds ");
    assert_non_null(strstr(err.text, "at number 3; wanted finite ones for i8"));
    ord_weight_file_close(file);
    expect_files("w.safetensors ");
  }
  finish_model(&model);
}

static void test_conversions_that_are_refused(void **state) {
  (void)state;
  static const char square[] = "ordito: 1\nname: m\ndims: {d: 2}\ninputs:\n  x: {dtype: f32, shape: [d, d]}\nweights:\n"
                               "  a: {shape: [out: d, in: d], from: w}\n  b: {shape: [in: d, out: d], from: w}\n"
                               "graph:\n  - matmul: {in: x, weight: a, out: x}\n"
                               "  - matmul: {in: x, weight: b, out: x}\noutputs: [x]\n";
  static const test_tensor one[] = {{"w", "F32", 2, {2, 2}}};
  static const test_tensor taken[] = {{"w", "F32", 2, {2, 2}}, {"w.scale", "F32", 1, {3}}};
  static const test_tensor codes[] = {{"w", "I8", 2, {2, 2}}, {"w.scale", "F32", 1, {2}}};
  static const char same[] = "ordito: 1\nname: m\ndims: {d: 2}\ninputs:\n  x: {dtype: f32, shape: [d, d]}\nweights:\n"
                             "  w: {shape: [out: d, in: d]}\ncheckpoint: {order: [w]}\n"
                             "graph:\n  - matmul: {in: x, weight: w, out: x}\noutputs: [x]\n";
  static const ord_convert_options int8_checkpoint = {.kind = ORD_FILE_CHECKPOINT, .dtype = ORD_I8};
  static const ord_convert_options checkpoint = {.kind = ORD_FILE_CHECKPOINT};
  const struct {
    const char *model;
    const test_tensor *tensor;
    size_t count;
    const ord_convert_options *options;
    const char *wanted;
  } row[] = {
      {square, one, 1, &to_int8, "tensor 'w': weights 'a' (line 7) and 'b' (line 8) have its rows on different axes"},
      {square, codes, 2, &to_f32, "tensor 'w': weights 'a' (line 7) and 'b' (line 8) have its rows on different axes"},
      {same, taken, 2, &to_int8, "holds a tensor 'w.scale'; wanted that name free, for the scales of 'w' as I8"},
      {same, one, 1, &int8_checkpoint, "found type i8; wanted f32, the type of a checkpoint"},
      {same, codes, 2, &checkpoint, "tensor 'w' is I8; a checkpoint holds F32 and takes F32, F16 and BF16"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    test_model model = read_model(row[i].model);
    empty_folder(folder);
    ord_error err;
    ord_weight_file *file = open_file(&model, write_tensors("w.safetensors", row[i].tensor, row[i].count));
    MUST_FAIL(ord_weight_file_convert(file, model.description, model.graph, in_folder("out"), row[i].options, &err),
              row[i].wanted);
    MUST_FAIL(ord_weight_file_convert(file, NULL, NULL, in_folder("out"), &to_int8, &err), "wanted a model");
    ord_weight_file_close(file);
    expect_files("w.safetensors ");
    finish_model(&model);
  }
}

/* Such a scale would make numbers of its whole row that are none: neither a session nor a conversion takes it. */
static void test_scales_that_are_no_numbers(void **state) {
  (void)state;
  static const char text[] = "ordito: 1\nname: m\ndims: {d: 4}\ninputs:\n  x: {dtype: f32, shape: [d, d]}\nweights:\n"
                             "  a: {shape: [out: 2, in: d], from: w, slice: {axis: 0, start: 0}}\n"
                             "  b: {shape: [out: 2, in: d], from: w, slice: {axis: 0, start: 2}}\n"
                             "graph:\n  - matmul: {in: x, weight: a, out: y}\n  - matmul: {in: x, weight: b, out: z}\n"
                             "  - add: {in: [y, z], out: y}\noutputs: [y]\n";
  static const char header[] = "{\"w\":{\"dtype\":\"I8\",\"shape\":[4,4],\"data_offsets\":[0,16]},"
                               "\"w.scale\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[16,32]}}";
  const struct {
    int at;
    float scale;
    const char *found; /* NULL: it is right */
  } row[] = {{0, INFINITY, "inf"}, {3, -INFINITY, "-inf"}, {2, NAN, "nan"},
             {1, -0.5f, "-0.5"},   {3, 0, NULL},           {3, FLT_MAX, NULL}};
  test_model inside = read_model(text);
  ord_context *context = open_context(1, ALL_PLUGINS);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_error err = ORD_ERROR_INIT;
    unsigned char data[32] = {1, 2, 3};
    float scale[4] = {1, 2, 3, 4};
    char wanted[512];
    empty_folder(folder);
    scale[row[i].at] = row[i].scale;
    memcpy(data + 16, scale, sizeof scale);
    const char *path = write_safetensors("w.safetensors", header, data, sizeof data);
    snprintf(wanted, sizeof wanted, "%s: tensor 'w.scale', row %d: found %s; wanted a finite number from 0", path,
             row[i].at, row[i].found ? row[i].found : "");
    stage s = {.context = context};
    MUST(ord_model_load_text(context, "m.yaml", text, strlen(text), NULL, &s.model, NULL, &err));
    const ord_weight_options where = {.struct_size = sizeof where, .path = path};
    MUST(ord_model_open_weights(s.model, &where, NULL, &err));
    ord_weight_file *file = open_file(&inside, path);
    if (row[i].found) {
      MUST_FAIL(ord_session_create(s.model, NULL, &s.session, &err), wanted);
      assert_int_equal(err.code, ORD_INVALID);
      MUST_FAIL(ord_weight_file_convert(file, inside.description, inside.graph, in_folder("out"), &to_f32, &err),
                wanted);
      expect_files("w.safetensors ");
    } else {
      s.session = open_session(s.model, NULL);
      MUST(ord_weight_file_convert(file, inside.description, inside.graph, in_folder("out"), &to_f32, &err));
    }
    ord_weight_file_close(file);
    ord_session_destroy(s.session);
    ord_model_destroy(s.model);
  }
  ord_context_destroy(context);
  finish_model(&inside);
}

/* A file that cannot serve the model is told of before anything is written; what may be meant is a warning. */
static void test_the_file_must_serve_the_model(void **state) {
  (void)state;
  static const test_tensor lacking[] = {
      {"emb.weight", "F32", 2, {6, 4}}, {"norm", "F32", 1, {4}}, {"fused", "F32", 2, {4, 8}}, {"extra", "F32", 1, {2}}};
  test_model model = read_model(small_model);
  ord_convert_options options = {.kind = ORD_FILE_SAFETENSORS, .model_file = "m.yaml"};
  empty_folder(folder);
  ord_error err;
  ord_weight_file *file = open_file(&model, write_tensors("w.safetensors", lacking, 4));
  MUST_FAIL(ord_weight_file_convert(file, model.description, model.graph, in_folder("out"), &options, &err),
            "3 faults for m.yaml: fused is [4, 8], wanted [4, 4] from 0 on along axis 0 (weight wq, m.yaml:9)");
  assert_non_null(strstr(err.text, "missing lm_head.weight (weight head, m.yaml:11"));
  ord_weight_file_close(file);
  expect_files("w.safetensors ");

  test_tensor more[SMALL_FILE_COUNT + 1];
  memcpy(more, small_file, sizeof small_file);
  more[SMALL_FILE_COUNT] = lacking[3];
  ord_diagnostics list;
  ord_diagnostics_init(&list);
  options.list = &list;
  file = open_file(&model, write_tensors("w.safetensors", more, SMALL_FILE_COUNT + 1));
  MUST(ord_weight_file_convert(file, model.description, model.graph, in_folder("out.safetensors"), &options, &err));
  ord_weight_file_close(file);
  assert_int_equal(list.count, 1);
  assert_string_equal(list.entry[0].warning, "unused-tensor");
  file = open_file(&model, in_folder("out.safetensors"));
  assert_int_equal(ord_weight_file_count(file), SMALL_FILE_COUNT + 1); /* nothing is dropped */
  ord_weight_file_close(file);
  ord_diagnostics_finish(&list);
  finish_model(&model);
}

/* ---- what a model makes of it ------------------------------------------------------------------------------------ */

enum { TOKENS = 32, VOCAB = 257 };

static void nano_logits(ord_context *context, const char *weights, float *out) {
  const char *const output[] = {"logits"};
  const ord_session_options options = {.struct_size = sizeof options, .output = output, .output_count = 1};
  int32_t id[TOKENS];
  static const char text[] = "In the beginning God created the heaven";
  for (int i = 0; i < TOKENS; i++) id[i] = (unsigned char)text[i];
  ord_error err;
  stage s = {.context = context, .model = open_model(context, MODEL("andrea-nano"), NULL, weights)};
  s.session = open_session(s.model, &options);
  ord_tensor got = {.struct_size = sizeof got};
  MUST(ord_session_set_tokens(s.session, id, 1, TOKENS, &err));
  MUST(ord_session_run(s.session, &err));
  MUST(ord_session_get(s.session, "logits", &got, &err));
  assert_int_equal(got.bytes, TOKENS * VOCAB * sizeof *out);
  memcpy(out, got.data, got.bytes);
  ord_session_destroy(s.session);
  ord_model_destroy(s.model);
}

static void convert_nano(ord_context *context, const char *from, const char *to, uint32_t dtype) {
  ord_error err;
  ord_model *model = NULL;
  char *messages = NULL;
  MUST(ord_model_load(context, MODEL("andrea-nano"), NULL, &model, NULL, &err));
  MUST(ord_model_convert(model, from, to, ORD_FILE_SAFETENSORS, dtype, NULL, NULL, &messages, &err));
  assert_null(messages);
  ord_model_destroy(model);
}

/* The noise that int8 adds to the results of the matrices of a file, as a part of these results: a code is off by up to
 * half a step s, evenly spread, which is s / sqrt(12) on the average; against the rms number of the matrix. Matrices
 * add theirs independently of one another, so that squares add. */
static double noise_of(const char *path) {
  ord_error err;
  ord_weight_file *file = NULL;
  double sum = 0;
  MUST(ord_weight_file_open(path, NULL, NULL, &file, &err));
  for (uint32_t t = 0; t < ord_weight_file_count(file); t++) {
    const ord_file_tensor *tensor = ord_weight_file_tensor(file, t);
    if (tensor->dtype != ORD_I8) continue;
    const size_t rows = (size_t)tensor->dim[0], columns = (size_t)tensor->dim[1];
    char name[64];
    static int8_t code[1 << 20];
    float scale[2048];
    double step = 0, size = 0;
    snprintf(name, sizeof name, "%s.scale", tensor->name);
    MUST(ord_weight_file_read(file, t, 0, tensor->bytes, code, &err));
    for (uint32_t s = 0; s < ord_weight_file_count(file); s++)
      if (!strcmp(ord_weight_file_tensor(file, s)->name, name))
        MUST(ord_weight_file_read(file, s, 0, rows * sizeof *scale, scale, &err));
    for (size_t r = 0; r < rows; r++)
      for (size_t c = 0; c < columns; c++) {
        step += (double)scale[r] * scale[r] / 12;
        size += pow((double)scale[r] * code[r * columns + c], 2);
      }
    sum += step / size;
  }
  ord_weight_file_close(file);
  return sqrt(sum);
}

/* The root mean square difference, as a part of the root mean square of the first. */
static double difference(const float *one, const float *other) {
  double sum = 0, size = 0;
  for (int i = 0; i < TOKENS * VOCAB; i++) {
    sum += pow((double)one[i] - other[i], 2);
    size += pow(one[i], 2);
  }
  return sqrt(sum / size);
}

static void test_the_model_with_it(void **state) {
  (void)state;
  static float full[TOKENS * VOCAB], small[TOKENS * VOCAB], back[TOKENS * VOCAB];
  empty_folder(folder);
  ord_context *context = open_context(1, ALL_PLUGINS);
  convert_nano(context, NANO_WEIGHTS, in_folder("i8.safetensors"), ORD_I8);
  convert_nano(context, in_folder("i8.safetensors"), in_folder("back.safetensors"), ORD_F32);
  nano_logits(context, NANO_WEIGHTS, full);
  nano_logits(context, in_folder("i8.safetensors"), small);
  nano_logits(context, in_folder("back.safetensors"), back);
  ord_context_destroy(context);
  const double noise = noise_of(in_folder("i8.safetensors"));
  print_message("int8 against its source: %.4f of the logits, noise %.4f; against its f32 form: %.2g\n",
                difference(full, small), noise, difference(back, small));
  assert_true(difference(full, small) <= noise);
  assert_true(difference(full, small) > 0);
  /* The same weights: only sums round differently, each by at most its 1024 terms. */
  assert_true(difference(back, small) <= 1024 * 0x1p-24);
}

/* A table that an embedding looks up and a matmul multiplies has one set of scales for both. */
static void test_a_tied_table(void **state) {
  (void)state;
  float logits[2][2 * 6];
  static const char *const name[] = {"i8.safetensors", "back.safetensors"};
  test_model inside = read_model(mixed_model);
  convert(&inside, write_tensors("w.safetensors", mixed_file, MIXED_TENSORS), in_folder(name[0]), &to_int8);
  convert(&inside, in_folder(name[0]), in_folder(name[1]), &to_f32);
  finish_model(&inside);
  for (plugin_set plugins = NO_PLUGINS; plugins <= PLAIN_PLUGINS; plugins++) {
    ord_context *context = open_context(1, plugins);
    for (int i = 0; i < 2; i++) {
      ord_error err;
      ord_model *model = NULL;
      ord_tensor got = {.struct_size = sizeof got};
      MUST(ord_model_load_text(context, "m.yaml", mixed_model, strlen(mixed_model), NULL, &model, NULL, &err));
      const char *const path = in_folder(name[i]);
      const ord_weight_options where = {.struct_size = sizeof where, .path = path};
      MUST(ord_model_open_weights(model, &where, NULL, &err));
      ord_session *session = open_session(model, NULL);
      MUST(ord_session_set_tokens(session, (int32_t[]){5, 2}, 1, 2, &err));
      MUST(ord_session_run(session, &err));
      MUST(ord_session_get(session, "logits", &got, &err));
      assert_int_equal(got.bytes, sizeof logits[i]);
      memcpy(logits[i], got.data, got.bytes);
      ord_session_destroy(session);
      ord_model_destroy(model);
    }
    for (int i = 0; i < 2 * 6; i++)
      assert_true(logits[1][i] != 0 && fabsf(logits[0][i] / logits[1][i] - 1) <= 64 * FLT_EPSILON);
    ord_context_destroy(context);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_becomes_int8),
      cmocka_unit_test(test_from_a_checkpoint),
      cmocka_unit_test(test_there_and_back),
      cmocka_unit_test(test_a_row_of_zeros),
      cmocka_unit_test(test_numbers_that_are_refused),
      cmocka_unit_test(test_conversions_that_are_refused),
      cmocka_unit_test(test_scales_that_are_no_numbers),
      cmocka_unit_test(test_the_file_must_serve_the_model),
      cmocka_unit_test(test_the_model_with_it),
      cmocka_unit_test(test_a_tied_table),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
