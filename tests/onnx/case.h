/* SPDX-License-Identifier: MIT
 *
 * A node case of the ONNX standard, read from its folder in tests/data/onnx_nodes: operator, attributes, arrays.
 * Included by tests only: what cannot be read fails the running test.
 */
#ifndef ORDITO_TESTS_ONNX_CASE_H
#define ORDITO_TESTS_ONNX_CASE_H

#include "models/yaml.h"
#include "runtime/arena.h"
#include "runtime/tensor.h"

#define ONNX_ARRAY_MAX 8

typedef struct onnx_array {
  const char *name; /* the standard's, "attn_mask"; NULL: absent */
  ord_dtype dtype;
  uint32_t rank;
  int64_t dim[ORD_RANK_MAX];
  int64_t count;
  void *data; /* dense, row-major */
  size_t bytes;
  bool is_used; /* by the translation */
} onnx_array;

typedef struct onnx_attribute {
  const char *name;
  const ord_yaml_node *value;
  bool is_used; /* by the translation */
} onnx_attribute;

typedef struct onnx_case {
  ord_arena arena; /* holds all that is pointed at */
  const char *name, *op;
  onnx_attribute *attribute;
  uint32_t attribute_count;
  onnx_array input[ONNX_ARRAY_MAX], output[ONNX_ARRAY_MAX];
  uint32_t input_count, output_count;
  double rtol, atol;
} onnx_case;

/* `file`: the case.yaml. */
void onnx_case_read(const char *file, onnx_case *out);
void onnx_case_finish(onnx_case *node);

#endif
