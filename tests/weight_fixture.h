/* SPDX-License-Identifier: MIT
 *
 * What the tests of weight files begin with: a folder of their own, files made of a header and data, and a small model.
 * Included by test programs only; every function fails the running test if something does not work.
 */
#ifndef ORDITO_TESTS_WEIGHT_FIXTURE_H
#define ORDITO_TESTS_WEIGHT_FIXTURE_H

#include <dirent.h>
#include <unistd.h>

#include "fixture.h"
#include "models/weight_file.h"

static char folder[64];

static inline int make_folder(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "/tmp/ordito-test-XXXXXX");
  return mkdtemp(folder) ? 0 : -1;
}

static inline void empty_folder(const char *path) {
  DIR *listed = opendir(path);
  for (struct dirent *entry = listed ? readdir(listed) : NULL; entry; entry = readdir(listed)) {
    char inner[512];
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    assert_true(snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name) < (int)sizeof inner);
    if (unlink(inner) != 0) {
      empty_folder(inner);
      rmdir(inner);
    }
  }
  if (listed) closedir(listed);
}

static inline int remove_folder(void **state) {
  (void)state;
  empty_folder(folder);
  return rmdir(folder);
}

/* The path of a file in the folder, in one of a few buffers: good for a statement or two. */
static inline const char *in_folder(const char *name) {
  static char path[8][256];
  static unsigned next;
  char *chosen = path[next++ % 8];
  snprintf(chosen, sizeof *path, "%s/%s", folder, name);
  return chosen;
}

/* No file is in the folder but these, sorted, each with a space behind it. */
static inline void expect_files(const char *names) {
  char found[256] = "";
  struct dirent **entry;
  const int count = scandir(folder, &entry, NULL, alphasort);
  assert_true(count >= 0);
  for (int i = 0; i < count; i++) {
    const size_t length = strlen(found), left = sizeof found - length;
    if (entry[i]->d_name[0] != '.') assert_true(snprintf(found + length, left, "%s ", entry[i]->d_name) < (int)left);
    free(entry[i]);
  }
  free(entry);
  assert_string_equal(found, names);
}

static inline const char *write_bytes(const char *name, const void *bytes, size_t count) {
  const char *path = in_folder(name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, count, file), count);
  assert_int_equal(fclose(file), 0);
  return path;
}

/* A safetensors file; the data are the bytes 0, 1, 2, .. if `data` is NULL. */
static inline const char *write_safetensors(const char *name, const char *header, const void *data, size_t count) {
  const size_t length = strlen(header);
  unsigned char *bytes = calloc(1, 8 + length + count);
  assert_non_null(bytes);
  for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)((uint64_t)length >> 8 * i);
  memcpy(bytes + 8, header, length);
  for (size_t i = 0; i < count; i++) bytes[8 + length + i] = data ? ((const unsigned char *)data)[i] : (unsigned char)i;
  const char *path = write_bytes(name, bytes, 8 + length + count);
  free(bytes);
  return path;
}

/* A tensor of a test file; number i of tensor t of the list is 100 * t + i. */
typedef struct test_tensor {
  const char *name, *type;
  uint32_t rank;
  int64_t dim[4];
} test_tensor;

static inline size_t put_number(unsigned char *to, const char *type, float number) {
  if (!strcmp(type, "F32") || !strcmp(type, "I32")) {
    memcpy(to, &number, 4);
    return 4;
  }
  if (!strcmp(type, "I8")) {
    to[0] = (unsigned char)number;
    return 1;
  }
  const uint16_t half = !strcmp(type, "F16") ? ord_f16_from_f32(number) : ord_bf16_from_f32(number);
  memcpy(to, &half, 2);
  return 2;
}

static inline const char *write_tensors(const char *name, const test_tensor *tensor, size_t count) {
  static char header[1 << 16];
  static unsigned char data[1 << 16];
  size_t length = (size_t)snprintf(header, sizeof header, "{");
  size_t filled = 0;
  for (size_t t = 0; t < count; t++) {
    const size_t begin = filled;
    size_t numbers = 1;
    length += (size_t)snprintf(header + length, sizeof header - length, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[",
                               t ? "," : "", tensor[t].name, tensor[t].type);
    for (uint32_t axis = 0; axis < tensor[t].rank; axis++) {
      length +=
          (size_t)snprintf(header + length, sizeof header - length, "%s%d", axis ? "," : "", (int)tensor[t].dim[axis]);
      numbers *= (size_t)tensor[t].dim[axis];
    }
    for (size_t i = 0; i < numbers; i++) filled += put_number(data + filled, tensor[t].type, (float)(100 * t + i));
    length += (size_t)snprintf(header + length, sizeof header - length, "],\"data_offsets\":[%zu,%zu]}", begin, filled);
  }
  snprintf(header + length, sizeof header - length, "}");
  return write_safetensors(name, header, data, filled);
}

/* A model from text: the description borrows the text. */
typedef struct test_model {
  ord_diagnostics list;
  ord_description *description;
  ord_graph *graph;
} test_model;

static inline test_model read_model(const char *text) {
  test_model model = {0};
  const ord_description_options options = {0};
  ord_error err = ORD_ERROR_INIT;
  ord_diagnostics_init(&model.list);
  ord_diagnostics_source(&model.list, "m.yaml", text, strlen(text));
  if (!ord_description_read("m.yaml", text, strlen(text), &options, &model.list, &model.description) ||
      !ord_graph_build(model.description, &model.list, &model.graph)) {
    ord_diagnostics_fail(&model.list, &err);
    fail_msg("%s", err.text);
  }
  return model;
}

static inline void finish_model(test_model *model) {
  ord_graph_destroy(model->graph);
  ord_description_destroy(model->description);
  ord_diagnostics_finish(&model->list);
}

/* A decoder in small: a table, a norm, two slices of one tensor, a head. Its weights as a file has them: small_file. */
static const char small_model[] = "ordito: 1\n"
                                  "name: small\n"
                                  "dims: {batch: 1, seq: {min: 1, max: 4}, d: 4, vocab: 6}\n"
                                  "inputs:\n"
                                  "  tokens: {dtype: i32, shape: [batch, seq], fill: tokens}\n"
                                  "weights:\n"
                                  "  wte:  {shape: [vocab, d], from: emb.weight}\n"
                                  "  norm: {shape: [d]}\n"
                                  "  wq:   {shape: [out: d, in: d], from: fused, slice: {axis: 0, start: 0}}\n"
                                  "  wk:   {shape: [out: d, in: d], from: fused, slice: {axis: 0, start: d}}\n"
                                  "  head: {shape: [out: vocab, in: d], from: lm_head.weight}\n"
                                  "checkpoint:\n"
                                  "  ignore: [pooler.*]\n"
                                  "  order: [wte, norm, wq, wk, head]\n"
                                  "graph:\n"
                                  "  - embedding: {in: tokens, weight: wte, out: x}\n"
                                  "  - rmsnorm:   {in: x, weight: norm, eps: 1e-5, out: x}\n"
                                  "  - matmul:    {in: x, weight: wq, out: q}\n"
                                  "  - matmul:    {in: x, weight: wk, out: k}\n"
                                  "  - add:       {in: [q, k], out: x}\n"
                                  "  - matmul:    {in: x, weight: head, out: logits}\n"
                                  "outputs: [logits]\n";

static const test_tensor small_file[] = {{"emb.weight", "F32", 2, {6, 4}},
                                         {"norm", "F32", 1, {4}},
                                         {"fused", "F32", 2, {8, 4}},
                                         {"lm_head.weight", "F32", 2, {6, 4}}};
enum { SMALL_FILE_COUNT = sizeof small_file / sizeof *small_file };

static inline ord_weight_file *open_file(const test_model *model, const char *path) {
  ord_error err;
  ord_weight_file *file = NULL;
  MUST(ord_weight_file_open(path, model->description, model->graph, &file, &err));
  return file;
}

static inline void convert(const test_model *model, const char *from, const char *to,
                           const ord_convert_options *options) {
  ord_error err;
  ord_weight_file *file = open_file(model, from);
  MUST(ord_weight_file_convert(file, model->description, model->graph, to, options, &err));
  ord_weight_file_close(file);
}

#endif
