/* SPDX-License-Identifier: MIT
 *
 * A node case of the ONNX standard, written as a model file. The model's inputs and outputs carry the names of the
 * case's files: input_0, output_0. An attribute, an input or an operator that no translation reads fails the running
 * test, so that nothing of a case is dropped without a word.
 */
#ifndef ORDITO_TESTS_ONNX_TRANSLATE_H
#define ORDITO_TESTS_ONNX_TRANSLATE_H

#include "onnx/case.h"
#include "runtime/text.h"

typedef struct onnx_model {
  ord_text text;
  const char *left_out;                                       /* why the format cannot say it; NULL: it can */
  bool has_input[ONNX_ARRAY_MAX], has_output[ONNX_ARRAY_MAX]; /* the arrays of the case that the model has */
} onnx_model;

extern const char *const onnx_input_name[ONNX_ARRAY_MAX], *const onnx_output_name[ONNX_ARRAY_MAX];

/* Changes the case where the format counts differently: indices below 0 become those from the front. */
void onnx_translate(onnx_case *node, onnx_model *out);
void onnx_model_finish(onnx_model *model);

#endif
