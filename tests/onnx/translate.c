/* SPDX-License-Identifier: MIT
 *
 * The operators of the ONNX standard in the words of the model format: one function per kind of translation, one table
 * of operators. The definitions are those of the ONNX documentation.
 */
#include "onnx/translate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const char *const onnx_input_name[ONNX_ARRAY_MAX] = {"input_0", "input_1", "input_2", "input_3",
                                                     "input_4", "input_5", "input_6", "input_7"};
const char *const onnx_output_name[ONNX_ARRAY_MAX] = {"output_0", "output_1", "output_2", "output_3",
                                                      "output_4", "output_5", "output_6", "output_7"};

typedef struct writer {
  onnx_case *node;
  onnx_model *model;
  ord_text graph;
  const char *word; /* the op of ours that the operator's row names; NULL: none */
} writer;

/* ---- what the translations are written with -------------------------------------------------------------------- */

static void item(writer *w, const char *format, ...) ORD_PRINTF(2, 3);
static void item(writer *w, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  ord_text_add(&w->graph, "  - ");
  ord_text_add_list(&w->graph, format, arguments);
  ord_text_add(&w->graph, "\n");
  va_end(arguments);
}

static bool is_given(const writer *w, uint32_t input) {
  return input < w->node->input_count && w->node->input[input].name;
}

/* An input of the case as an input of the model; gives its name. */
static const char *take(writer *w, uint32_t input) {
  assert_true(is_given(w, input));
  w->node->input[input].is_used = w->model->has_input[input] = true;
  return onnx_input_name[input];
}

/* An output of the case as an output of the model; gives its name. */
static const char *give(writer *w, uint32_t output) {
  assert_true(output < w->node->output_count && w->node->output[output].name);
  w->model->has_output[output] = true;
  return onnx_output_name[output];
}

/* An input of the case whose numbers become attributes of the model. */
static const int64_t *take_numbers(writer *w, uint32_t input, int64_t *out_count) {
  assert_true(is_given(w, input));
  onnx_array *array = &w->node->input[input];
  assert_int_equal(array->dtype, ORD_I64);
  array->is_used = true;
  *out_count = array->count;
  return array->data;
}

/* NULL if the case has no such attribute. */
static const ord_yaml_node *find_attribute(writer *w, const char *name) {
  for (uint32_t i = 0; i < w->node->attribute_count; i++) {
    onnx_attribute *attribute = &w->node->attribute[i];
    if (strcmp(attribute->name, name) != 0) continue;
    attribute->is_used = true;
    return attribute->value;
  }
  return NULL;
}

static int64_t attribute_whole(writer *w, const char *name, int64_t otherwise) {
  const ord_yaml_node *value = find_attribute(w, name);
  return value ? strtoll(value->text, NULL, 10) : otherwise;
}

static const char *attribute_text(writer *w, const char *name, const char *otherwise) {
  const ord_yaml_node *value = find_attribute(w, name);
  return value ? value->text : otherwise;
}

/* "[2, 3, 4]" */
static const char *list_text(writer *w, uint32_t count, const int64_t *number) {
  const char *text = "[";
  for (uint32_t i = 0; text && i < count; i++)
    text = ord_arena_format(&w->node->arena, "%s%s%lld", text, i ? ", " : "", (long long)number[i]);
  text = text ? ord_arena_format(&w->node->arena, "%s]", text) : NULL;
  assert_non_null(text);
  return text;
}

static const char *shape_text(writer *w, const onnx_array *array) { return list_text(w, array->rank, array->dim); }

static int64_t axis_from_front(const onnx_array *array, int64_t axis) { return axis < 0 ? axis + array->rank : axis; }

static int64_t count_between(const onnx_array *array, int64_t first, int64_t end) {
  int64_t count = 1;
  for (int64_t axis = first; axis < end; axis++) count *= array->dim[axis];
  return count;
}

/* ---- one op for one operator ----------------------------------------------------------------------------------- */

static void write_pair(writer *w) {
  item(w, "%s: {in: [%s, %s], out: %s}", w->word, take(w, 0), take(w, 1), give(w, 0));
}

static void write_pointwise(writer *w) { item(w, "%s: {in: %s, out: %s}", w->word, take(w, 0), give(w, 0)); }

static void write_swish(writer *w) {
  assert_true(strtod(attribute_text(w, "alpha", "1"), NULL) == 1);
  write_pointwise(w);
}

static void write_softmax(writer *w) {
  item(w, "softmax: {in: %s, axis: %lld, out: %s}", take(w, 0), (long long)attribute_whole(w, "axis", -1), give(w, 0));
}

static void write_concat(writer *w) {
  assert_int_equal(w->node->input_count, 2);
  item(w, "concat: {in: [%s, %s], axis: %lld, out: %s}", take(w, 0), take(w, 1),
       (long long)attribute_whole(w, "axis", 0), give(w, 0));
}

static void write_transpose(writer *w) {
  const uint32_t rank = w->node->input[0].rank;
  const ord_yaml_node *given = find_attribute(w, "perm"), *entry = given ? given->first : NULL;
  int64_t axes[ORD_RANK_MAX];
  for (uint32_t i = 0; i < rank; i++, entry = entry ? entry->next : NULL)
    axes[i] = entry ? strtoll(entry->text, NULL, 10) : rank - 1 - i;
  item(w, "transpose: {in: %s, axes: %s, out: %s}", take(w, 0), list_text(w, rank, axes), give(w, 0));
}

/* Reshape, Squeeze and Unsqueeze differ in how the new shape is said; the case has it with its output. */
static void write_reshape(writer *w) {
  int64_t count;
  (void)take_numbers(w, 1, &count);
  item(w, "reshape: {in: %s, shape: %s, out: %s}", take(w, 0), shape_text(w, &w->node->output[0]), give(w, 0));
}

static void write_gather(writer *w) {
  const int64_t axis = attribute_whole(w, "axis", 0);
  const int64_t rows = w->node->input[0].dim[axis_from_front(&w->node->input[0], axis)];
  int64_t *index = w->node->input[1].data;
  for (int64_t i = 0; i < w->node->input[1].count; i++)
    if (index[i] < 0) index[i] += rows;
  item(w, "gather: {in: %s, index: %s, axis: %lld, out: %s}", take(w, 0), take(w, 1), (long long)axis, give(w, 0));
}

/* One `slice` an axis. Places beyond an end mean the end. */
static void write_slice(writer *w) {
  const onnx_array *in = &w->node->input[0];
  static const int64_t every[] = {0, 1, 2, 3, 4, 5}, ones[] = {1, 1, 1, 1, 1, 1};
  int64_t count;
  const int64_t *start = take_numbers(w, 1, &count), *end = take_numbers(w, 2, &count);
  const int64_t *axes = is_given(w, 3) ? take_numbers(w, 3, &count) : every;
  const int64_t *step = is_given(w, 4) ? take_numbers(w, 4, &count) : ones;
  const char *name = take(w, 0);
  for (int64_t i = 0; i < count; i++) {
    const int64_t size = in->dim[axis_from_front(in, axes[i])];
    if (step[i] < 0) w->model->left_out = "a slice has no negative step";
    item(w, "slice: {in: %s, axis: %lld, start: %lld, end: %lld, step: %lld, out: %s}", name, (long long)axes[i],
         (long long)(start[i] > size ? size : start[i]), (long long)(end[i] > size ? size : end[i]), (long long)step[i],
         give(w, 0));
    name = onnx_output_name[0];
  }
}

/* Sizes are written where the case gives them or the parts are uneven. */
static void write_split(writer *w) {
  const onnx_array *out = w->node->output;
  const int64_t axis = attribute_whole(w, "axis", 0), at = axis_from_front(&w->node->input[0], axis);
  const uint32_t parts = w->node->output_count;
  assert_int_equal(attribute_whole(w, "num_outputs", parts), parts);
  bool is_uneven = out[parts - 1].dim[at] != out[0].dim[at];
  int64_t sizes[ONNX_ARRAY_MAX], count;
  if (is_given(w, 1)) {
    (void)take_numbers(w, 1, &count);
    assert_int_equal(count, parts);
    is_uneven = true;
  }
  ord_text_add(&w->graph, "  - split: {in: %s, axis: %lld", take(w, 0), (long long)axis);
  for (uint32_t i = 0; i < parts; i++) sizes[i] = out[i].dim[at];
  if (is_uneven) ord_text_add(&w->graph, ", sizes: %s", list_text(w, parts, sizes));
  ord_text_add(&w->graph, ", out: [");
  for (uint32_t i = 0; i < parts; i++) ord_text_add(&w->graph, "%s%s", i ? ", " : "", give(w, i));
  ord_text_add(&w->graph, "]}\n");
}

/* ---- products -------------------------------------------------------------------------------------------------- */

static void write_gemm(writer *w) {
  const char *by = take(w, 1);
  if (attribute_whole(w, "transB", 0)) {
    item(w, "transpose: {in: %s, axes: [1, 0], out: b}", by);
    by = "b";
  }
  item(w, "matmul: {in: %s, by: %s, out: y}", take(w, 0), by);
  item(w, "add: {in: [y, %s], out: %s}", take(w, 2), give(w, 0));
}

/* A vector on the right is a column, whose axis falls away again. */
static void write_matmul(writer *w) {
  const onnx_array *by = &w->node->input[1];
  if (by->rank > 1) {
    item(w, "matmul: {in: %s, by: %s, out: %s}", take(w, 0), take(w, 1), give(w, 0));
    return;
  }
  item(w, "reshape: {in: %s, shape: [%lld, 1], out: column}", take(w, 1), (long long)by->dim[0]);
  item(w, "matmul: {in: %s, by: column, out: y}", take(w, 0));
  item(w, "reshape: {in: y, shape: %s, out: %s}", shape_text(w, &w->node->output[0]), give(w, 0));
}

/* ---- norms and means ------------------------------------------------------------------------------------------- */

/* A norm over several axes is one over the last with a reshape around it. The optional outputs of LayerNormalization
 * (mean and inverse deviation) are not of our op. */
static void write_norm(writer *w) {
  const onnx_array *in = &w->node->input[0];
  const int64_t axis = axis_from_front(in, attribute_whole(w, "axis", -1)), width = count_between(in, axis, in->rank);
  const char *eps = attribute_text(w, "epsilon", "1e-5"), *name[] = {take(w, 0), take(w, 1), NULL};
  if (is_given(w, 2)) name[2] = take(w, 2);
  const bool is_last = axis == in->rank - 1;
  if (!is_last) {
    static const char *const flat[] = {"x", "weight", "bias"};
    item(w, "reshape: {in: %s, shape: [%lld, %lld], out: x}", name[0], (long long)count_between(in, 0, axis),
         (long long)width);
    for (int i = 1; i < 3 && name[i]; i++)
      item(w, "reshape: {in: %s, shape: [%lld], out: %s}", name[i], (long long)width, flat[i]);
    for (int i = 0; i < 3 && name[i]; i++) name[i] = flat[i];
  }
  item(w, "%s: {in: %s, weight: %s%s%s, eps: %s, out: %s}", w->word, name[0], name[1], name[2] ? ", bias: " : "",
       name[2] ? name[2] : "", eps, is_last ? give(w, 0) : "y");
  if (!is_last) item(w, "reshape: {in: y, shape: %s, out: %s}", shape_text(w, in), give(w, 0));
}

/* x becomes [before, reduced, behind]; the case's axes must be one, or all where it names none. */
static void write_reduced_view(writer *w, int64_t shape[3]) {
  const onnx_array *in = &w->node->input[0];
  int64_t count;
  const int64_t *axes = take_numbers(w, 1, &count);
  assert_true(count <= 1);
  const int64_t first = count ? axis_from_front(in, axes[0]) : 0, end = count ? first + 1 : in->rank;
  shape[0] = count_between(in, 0, first);
  shape[1] = count_between(in, first, end);
  shape[2] = count_between(in, end, in->rank);
  item(w, "reshape: {in: %s, shape: %s, out: x}", take(w, 0), list_text(w, 3, shape));
}

/* Whether the reduced axis stays, with size 1, is seen in the output's shape. */
static void write_reduced_result(writer *w) {
  (void)find_attribute(w, "keepdims");
  item(w, "reshape: {in: y, shape: %s, out: %s}", shape_text(w, &w->node->output[0]), give(w, 0));
}

static void write_mean(writer *w) {
  int64_t shape[3];
  write_reduced_view(w, shape);
  item(w, "pool: {in: x, kind: mean, out: y}");
  write_reduced_result(w);
}

/* A vector's length is its product with its own direction. */
static void write_length(writer *w) {
  int64_t shape[3];
  write_reduced_view(w, shape);
  item(w, "transpose: {in: x, axes: [0, 2, 1], out: x}");
  item(w, "l2_normalize: {in: x, out: direction}");
  item(w, "reshape: {in: x, shape: [%lld, %lld, 1, %lld], out: x}", (long long)shape[0], (long long)shape[2],
       (long long)shape[1]);
  item(w, "reshape: {in: direction, shape: [%lld, %lld, %lld, 1], out: direction}", (long long)shape[0],
       (long long)shape[2], (long long)shape[1]);
  item(w, "matmul: {in: x, by: direction, out: y}");
  write_reduced_result(w);
}

/* ---- heads ----------------------------------------------------------------------------------------------------- */

/* An input as [batch, heads, tokens, width]; a 3-D one has its heads side by side in the last axis. */
static const char *write_split_heads(writer *w, uint32_t input, int64_t heads, const char *out) {
  const onnx_array *in = &w->node->input[input];
  if (in->rank == 4) return take(w, input);
  item(w, "reshape: {in: %s, shape: [%lld, %lld, %lld, %lld], out: %s}", take(w, input), (long long)in->dim[0],
       (long long)in->dim[1], (long long)heads, (long long)(in->dim[2] / heads), out);
  item(w, "transpose: {in: %s, axes: [0, 2, 1, 3], out: %s}", out, out);
  return out;
}

/* Value y becomes output_0, its heads side by side. */
static void write_join_heads(writer *w) {
  item(w, "transpose: {in: y, axes: [0, 2, 1, 3], out: y}");
  item(w, "reshape: {in: y, shape: %s, out: %s}", shape_text(w, &w->node->output[0]), give(w, 0));
}

static void write_rotary(writer *w) {
  const bool is_3d = w->node->input[0].rank == 3;
  const char *x = write_split_heads(w, 0, attribute_whole(w, "num_heads", 0), "x"), *cos = take(w, 1),
             *sin = take(w, 2);
  if (is_given(w, 3)) {
    item(w, "gather: {in: %s, index: %s, axis: 0, out: cos}", cos, take(w, 3));
    item(w, "gather: {in: %s, index: %s, axis: 0, out: sin}", sin, take(w, 3));
    cos = "cos";
    sin = "sin";
  }
  const char *rotary = attribute_text(w, "rotary_embedding_dim", NULL);
  item(w, "rope: {in: %s, cos: %s, sin: %s, pairing: %s%s%s, out: %s}", x, cos, sin,
       attribute_whole(w, "interleaved", 0) ? "interleaved" : "halves", rotary ? ", rotary: " : "",
       rotary ? rotary : "", is_3d ? "y" : give(w, 0));
  if (is_3d) write_join_heads(w);
}

/* ---- attention ------------------------------------------------------------------------------------------------- */

enum { ATTENTION_MASK = 3, ATTENTION_PAST = 4, ATTENTION_LENGTHS = 6, ATTENTION_PROBABILITIES = 3 };

/* Keys (input 1) or values (input 2), those of the past in front of them. A mask with fewer columns than there are keys
 * hides the rest: here they are cut off. */
static const char *write_keys(writer *w, uint32_t input, const char *out) {
  const uint32_t past = input - 1 + ATTENTION_PAST;
  const onnx_array *mask = &w->node->input[ATTENTION_MASK], *in = &w->node->input[input];
  const char *name = write_split_heads(w, input, attribute_whole(w, "kv_num_heads", 0), out);
  int64_t keys = in->dim[in->rank == 3 ? 1 : 2];
  if (is_given(w, past)) {
    item(w, "concat: {in: [%s, %s], axis: 2, out: %s}", take(w, past), name, give(w, input));
    name = onnx_output_name[input];
    keys += w->node->input[past].dim[2];
  }
  if (!is_given(w, ATTENTION_MASK) || mask->dim[mask->rank - 1] == keys) return name;
  item(w, "slice: {in: %s, axis: 2, end: %lld, out: %s}", name, (long long)mask->dim[mask->rank - 1], out);
  return out;
}

/* ONNX counts the queries from behind the past, with lengths from the end of those. */
static void write_limits(writer *w) {
  const bool is_causal = attribute_whole(w, "is_causal", 0) != 0;
  const int64_t before = attribute_whole(w, "left_window_size", -1);
  ord_text_add(&w->graph, ", causal: %s", is_causal ? "true" : "false");
  if (before >= 0) ord_text_add(&w->graph, ", window_before: %lld", (long long)before);
  if (!is_causal && before < 0) return;
  if (is_given(w, ATTENTION_LENGTHS))
    ord_text_add(&w->graph, ", align: last");
  else if (is_given(w, ATTENTION_PAST))
    ord_text_add(&w->graph, ", align: %lld", (long long)w->node->input[ATTENTION_PAST].dim[2]);
  else
    ord_text_add(&w->graph, ", align: first");
}

/* Of the modes of qk_matmul_output only 3, the probabilities, is something that our op gives. */
static void write_attention(writer *w) {
  const bool is_3d = w->node->input[0].rank == 3;
  const char *q = write_split_heads(w, 0, attribute_whole(w, "q_num_heads", 0), "q");
  const char *k = write_keys(w, 1, "k"), *v = write_keys(w, 2, "v");
  ord_text_add(&w->graph, "  - attention: {q: %s, k: %s, v: %s", q, k, v);
  if (is_given(w, ATTENTION_MASK)) ord_text_add(&w->graph, ", mask: %s", take(w, ATTENTION_MASK));
  if (is_given(w, ATTENTION_LENGTHS)) ord_text_add(&w->graph, ", lengths: %s", take(w, ATTENTION_LENGTHS));
  write_limits(w);
  const char *scale = attribute_text(w, "scale", NULL), *soft_cap = attribute_text(w, "softcap", NULL);
  if (scale) ord_text_add(&w->graph, ", scale: %s", scale);
  if (soft_cap) ord_text_add(&w->graph, ", soft_cap: %s", soft_cap);
  (void)find_attribute(w, "softmax_precision"); /* ours is f32 always */
  const char *y = is_3d ? "y" : give(w, 0);
  if (attribute_whole(w, "qk_matmul_output_mode", 0) == 3)
    ord_text_add(&w->graph, ", out: [%s, %s]}\n", y, give(w, ATTENTION_PROBABILITIES));
  else
    ord_text_add(&w->graph, ", out: %s}\n", y);
  if (is_3d) write_join_heads(w);
}

/* ---- the operators --------------------------------------------------------------------------------------------- */

static const struct {
  const char *name;
  void (*write)(writer *w);
  const char *word;
} operators[] = {
    {"Add", write_pair, "add"},
    {"Attention", write_attention, NULL},
    {"Concat", write_concat, NULL},
    {"Gather", write_gather, NULL},
    {"Gelu", write_pointwise, "gelu_erf"},
    {"Gemm", write_gemm, NULL},
    {"LayerNormalization", write_norm, "layernorm"},
    {"MatMul", write_matmul, NULL},
    {"Mul", write_pair, "mul"},
    {"RMSNormalization", write_norm, "rmsnorm"},
    {"ReduceL2", write_length, NULL},
    {"ReduceMean", write_mean, NULL},
    {"Reshape", write_reshape, NULL},
    {"RotaryEmbedding", write_rotary, NULL},
    {"Sigmoid", write_pointwise, "sigmoid"},
    {"Slice", write_slice, NULL},
    {"Softmax", write_softmax, NULL},
    {"Split", write_split, NULL},
    {"Squeeze", write_reshape, NULL},
    {"Sub", write_pair, "sub"},
    {"Swish", write_swish, "silu"},
    {"Transpose", write_transpose, NULL},
    {"Unsqueeze", write_reshape, NULL},
};

static void write_graph(writer *w) {
  for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
    if (strcmp(operators[i].name, w->node->op) != 0) continue;
    w->word = operators[i].word;
    operators[i].write(w);
    return;
  }
  fail_msg("operator %s has no translation", w->node->op);
}

static void check_all_is_used(const onnx_case *node) {
  for (uint32_t i = 0; i < node->attribute_count; i++)
    if (!node->attribute[i].is_used) fail_msg("attribute %s has no translation", node->attribute[i].name);
  for (uint32_t i = 0; i < node->input_count; i++)
    if (node->input[i].name && !node->input[i].is_used) fail_msg("input %s has no translation", node->input[i].name);
}

void onnx_translate(onnx_case *node, onnx_model *out) {
  writer w = {.node = node, .model = out};
  *out = (onnx_model){0};
  write_graph(&w);
  check_all_is_used(node);
  ord_text_add(&out->text, "ordito: 1\nname: %s\ninputs:\n", node->name);
  for (uint32_t i = 0; i < node->input_count; i++)
    if (out->has_input[i])
      ord_text_add(&out->text, "  %s: {dtype: %s, shape: %s}\n", onnx_input_name[i],
                   ord_dtype_name(node->input[i].dtype == ORD_I64 ? ORD_I32 : node->input[i].dtype),
                   shape_text(&w, &node->input[i]));
  ord_text_add(&out->text, "graph:\n%soutputs:\n", w.graph.bytes);
  for (uint32_t i = 0; i < node->output_count; i++)
    if (out->has_output[i]) ord_text_add(&out->text, "  - %s\n", onnx_output_name[i]);
  assert_false(w.graph.failed || out->text.failed);
  ord_text_finish(&w.graph);
}

void onnx_model_finish(onnx_model *model) { ord_text_finish(&model->text); }
