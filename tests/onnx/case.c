/* SPDX-License-Identifier: MIT
 *
 * Reading a node case. The .npy reader knows what these files use: version 1, six types, either order of the axes.
 */
#include "onnx/case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A type of case.yaml, and how its .npy file names it. */
typedef struct array_type {
  const char *name, *descr;
  ord_dtype dtype;
} array_type;

static const array_type types[] = {
    {"float32", "<f4", ORD_F32}, {"float16", "<f2", ORD_F16}, {"bfloat16", "<u2", ORD_BF16},
    {"int64", "<i8", ORD_I64},   {"bool", "|b1", ORD_BOOL},
};

static const array_type *find_type(const char *name) {
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strcmp(types[i].name, name) == 0) return &types[i];
  fail_msg("dtype %s is unknown", name);
  return NULL;
}

static char *read_file(ord_arena *arena, const char *path, size_t *out_bytes) {
  FILE *stream = fopen(path, "rb");
  if (!stream) fail_msg("%s cannot be opened", path);
  assert_int_equal(fseek(stream, 0, SEEK_END), 0);
  const long bytes = ftell(stream);
  assert_true(bytes >= 0);
  rewind(stream);
  char *text = ord_arena_take(arena, (size_t)bytes + 1, 1);
  assert_non_null(text);
  assert_int_equal(fread(text, 1, (size_t)bytes, stream), bytes);
  fclose(stream);
  *out_bytes = (size_t)bytes;
  return text;
}

/* Reads the numbers of an array whose type and shape are known. */
static void read_numbers(ord_arena *arena, const char *path, const array_type *type, onnx_array *array) {
  enum { PREFIX_BYTES = 10 }; /* magic word, version, bytes of the header */
  size_t file_bytes;
  const char *file = read_file(arena, path, &file_bytes);
  assert_true(file_bytes > PREFIX_BYTES);
  assert_memory_equal(file, "\x93NUMPY\x01", 7);
  const size_t header_bytes = (unsigned char)file[8] | (size_t)(unsigned char)file[9] << 8;
  assert_true(ord_tensor_bytes(array->dtype, array->rank, array->dim, &array->bytes));
  assert_int_equal(file_bytes, PREFIX_BYTES + header_bytes + array->bytes);
  const char *header = ord_arena_text_n(arena, file + PREFIX_BYTES, header_bytes);
  assert_non_null(header);
  if (!strstr(header, type->descr)) fail_msg("%s: found %s; wanted %s", path, header, type->descr);

  int64_t stride[ORD_RANK_MAX];
  ord_tensor_strides(array->dtype, array->rank, array->dim, stride);
  if (strstr(header, "'fortran_order': True")) {
    int64_t step = ord_dtype_get(array->dtype)->block_bytes;
    for (uint32_t axis = 0; axis < array->rank; step *= array->dim[axis++]) stride[axis] = step;
  }
  array->data = ord_arena_take(arena, array->bytes + 1, 1);
  assert_non_null(array->data);
  ord_tensor_pack(array->dtype, array->rank, array->dim, stride, file + PREFIX_BYTES + header_bytes, array->data);
}

static const char *scalar(const ord_yaml_node *map, const char *key) {
  const ord_yaml_node *node = ord_yaml_find(map, key);
  if (!node || node->kind != ORD_YAML_SCALAR) fail_msg("%s is missing", key);
  return node->text;
}

static void read_array(ord_arena *arena, const char *folder, const ord_yaml_node *node, onnx_array *array) {
  if (node->kind == ORD_YAML_SCALAR) return; /* absent */
  const array_type *type = find_type(scalar(node, "dtype"));
  array->name = scalar(node, "name");
  array->dtype = type->dtype;
  array->count = 1;
  for (const ord_yaml_node *size = ord_yaml_find(node, "shape")->first; size; size = size->next) {
    assert_true(array->rank < ORD_RANK_MAX);
    array->dim[array->rank] = strtoll(size->text, NULL, 10);
    array->count *= array->dim[array->rank++];
  }
  const char *path = ord_arena_format(arena, "%s/%s", folder, scalar(node, "file"));
  assert_non_null(path);
  read_numbers(arena, path, type, array);
}

static uint32_t read_arrays(ord_arena *arena, const char *folder, const ord_yaml_node *list, onnx_array *array) {
  uint32_t count = 0;
  for (const ord_yaml_node *node = list->first; node; node = node->next) {
    assert_true(count < ONNX_ARRAY_MAX);
    read_array(arena, folder, node, &array[count++]);
  }
  return count;
}

static void read_attributes(onnx_case *node, const ord_yaml_node *map) {
  if (!map) return;
  node->attribute = ord_arena_take(&node->arena, map->count, sizeof *node->attribute);
  assert_non_null(node->attribute);
  for (const ord_yaml_node *key = map->first; key; key = key->next)
    node->attribute[node->attribute_count++] = (onnx_attribute){.name = key->text, .value = key->value};
}

void onnx_case_read(const char *file, onnx_case *out) {
  *out = (onnx_case){0};
  size_t bytes;
  const char *text = read_file(&out->arena, file, &bytes);
  ord_diagnostics list;
  ord_diagnostics_init(&list);
  const ord_yaml_node *root;
  ord_yaml_read(text, bytes, ORD_YAML_BYTE_LIMIT, &out->arena, &list, &root);
  if (!root || list.error_count > 0) fail_msg("%s: %s", file, list.count > 0 ? list.entry[0].text : "out of memory");
  ord_diagnostics_finish(&list);

  char *folder = ord_arena_text_n(&out->arena, file, (size_t)(strrchr(file, '/') - file));
  assert_non_null(folder);
  out->name = strrchr(folder, '/') + 1;
  out->op = scalar(root, "op");
  out->rtol = strtod(scalar(root, "rtol"), NULL);
  out->atol = strtod(scalar(root, "atol"), NULL);
  read_attributes(out, ord_yaml_find(root, "attributes"));
  out->input_count = read_arrays(&out->arena, folder, ord_yaml_find(root, "inputs"), out->input);
  out->output_count = read_arrays(&out->arena, folder, ord_yaml_find(root, "outputs"), out->output);
}

void onnx_case_finish(onnx_case *node) { ord_arena_finish(&node->arena); }
