/* SPDX-License-Identifier: MIT
 *
 * For tests that read model text: reading, building, and a picture of the result as text, so that two models can be
 * compared.
 */
#ifndef ORDITO_TESTS_MODEL_FIXTURE_H
#define ORDITO_TESTS_MODEL_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graphs/pass.h"
#include "models/description.h"

typedef struct built_model {
  ord_diagnostics list;
  ord_description *description; /* NULL after an error */
  ord_graph *graph;
} built_model;

/* `text` must live as long as the result. */
static inline built_model build_model(const char *text, const ord_description_options *options) {
  built_model made = {.graph = NULL};
  ord_diagnostics_init(&made.list);
  if (ord_description_read("m.yaml", text, strlen(text), options, &made.list, &made.description) &&
      !ord_graph_build(made.description, &made.list, &made.graph))
    assert_null(made.graph);
  assert_false(made.list.out_of_memory);
  return made;
}

static inline void finish_model(built_model *made) {
  ord_graph_destroy(made->graph);
  ord_description_destroy(made->description);
  ord_diagnostics_finish(&made->list);
}

/* As build_model, but there must be no message at all. */
static inline built_model build_good_model(const char *text, const ord_description_options *options) {
  built_model made = build_model(text, options);
  if (made.list.count) print_error("%s\n", made.list.entry[0].text);
  assert_int_equal(made.list.count, 0);
  assert_non_null(made.graph);
  return made;
}

static inline void describe_tokens(ord_text *out, const char *name, const ord_token_name *token, uint32_t count) {
  ord_text_add(out, "%s:", name);
  for (uint32_t i = 0; i < count; i++)
    ord_text_add(out, " %s/%lld", token[i].text ? token[i].text : "", (long long)token[i].id);
  ord_text_add(out, "\n");
}

static inline void describe_text_rules(ord_text *out, const ord_description *description) {
  const ord_tokenizer_rules *tokenizer = ord_description_tokenizer(description);
  const ord_generate_rules *generate = ord_description_generate(description);
  ord_text_add(out, "tokenizer %d first %lld cut %lld\n", (int)tokenizer->kind, (long long)tokenizer->first,
               (long long)tokenizer->cut);
  describe_tokens(out, "before", tokenizer->before, tokenizer->before_count);
  describe_tokens(out, "after", tokenizer->after, tokenizer->after_count);
  ord_text_add(out, "generate %d %s\n", generate->is_given, generate->logits ? generate->logits : "-");
  describe_tokens(out, "stop", generate->stop, generate->stop_count);
}

static inline void describe_weights(ord_text *out, const ord_graph *graph) {
  for (uint32_t i = 0; i < graph->weight_count; i++) {
    const ord_graph_weight *weight = &graph->weight[i];
    ord_text_add(out, "weight %s from %s axes %d %d slice %d %u %lld [", weight->name, weight->file_name,
                 weight->has_axes, weight->in_first, weight->has_slice, weight->slice_axis,
                 (long long)weight->slice_start);
    for (uint32_t axis = 0; axis < weight->stored_rank; axis++)
      ord_text_add(out, " %lld", (long long)weight->stored_dim[axis]);
    ord_text_add(out, " ] [");
    for (uint32_t axis = 0; axis < weight->value_rank; axis++)
      ord_text_add(out, " %lld/%lld", (long long)weight->value_dim[axis], (long long)weight->value_stride[axis]);
    ord_text_add(out, " ]\n");
  }
}

static inline void describe_attributes(ord_text *out, const ord_graph_node *node) {
  for (uint32_t i = 0; i < node->attr_count; i++) {
    const ord_attr *attr = &node->attr[i];
    ord_text_add(out, " %s=", attr->name);
    if (attr->kind == ORD_ATTR_NUMBER)
      ord_text_add(out, "%.17g", attr->value.f);
    else if (attr->kind == ORD_ATTR_WORD)
      ord_text_add(out, "%s", attr->value.s);
    else if (attr->kind == ORD_ATTR_INTS)
      for (uint32_t n = 0; n < attr->count; n++) ord_text_add(out, "%lld,", (long long)attr->value.ints[n]);
    else
      ord_text_add(out, "%lld", (long long)attr->value.i);
  }
}

static inline void describe_graph(ord_text *out, const ord_graph *graph) {
  ord_text_add(out, "graph %s\n", graph->model_name);
  for (uint32_t i = 0; i < graph->run_dim_count; i++)
    ord_text_add(out, "run dim %s %lld..%lld\n", graph->run_dim[i].name, (long long)graph->run_dim[i].min,
                 (long long)graph->run_dim[i].max);
  for (uint32_t i = 0; i < graph->input_count; i++) {
    const ord_graph_input *input = &graph->input[i];
    ord_text_add(out, "input %s %s fill %d %g ", input->name, ord_dtype_name(graph->value[input->value].dtype),
                 (int)input->fill, input->fill_number);
    ord_graph_print_shape(out, graph, input->value);
    ord_text_add(out, "\n");
  }
  describe_weights(out, graph);
  for (uint32_t i = 0; i < graph->cache_count; i++) {
    ord_text_add(out, "cache %s length ", graph->cache[i].name);
    ord_size_print(out, graph->cache[i].length, graph->run_dim_name);
    ord_text_add(out, " kv %lld %lld %lld\n", (long long)graph->cache[i].kv_heads, (long long)graph->cache[i].k_dim,
                 (long long)graph->cache[i].v_dim);
  }
  for (uint32_t i = 0; i < graph->node_count; i++) {
    const ord_graph_node *node = &graph->node[i];
    ord_text_add(out, "%s %s cache %d in", node->path[0], node->op->name, (int)node->cache);
    for (uint32_t in = 0; in < node->in_count; in++)
      ord_text_add(out, " %s", node->in[in] == ORD_NONE ? "-" : graph->value[node->in[in]].path);
    ord_text_add(out, " out");
    for (uint32_t n = 0; n < node->out_count; n++) {
      ord_text_add(out, " %s ", graph->value[node->out[n]].path);
      ord_graph_print_shape(out, graph, node->out[n]);
    }
    describe_attributes(out, node);
    ord_text_add(out, "\n");
  }
  for (uint32_t i = 0; i < graph->output_count; i++)
    ord_text_add(out, "output %s %s\n", graph->output[i].name, graph->value[graph->output[i].value].path);
}

/* Everything that a model file can say, as text. */
static inline void describe_model(ord_text *out, const built_model *made) {
  const ord_description *description = made->description;
  const char *about = ord_description_about(description), *value;
  ord_text_add(out, "%s %s %s\n", ord_description_name(description), ord_description_full_name(description),
               about ? about : "-");
  const char *name = ord_description_dim(description, 0, &value);
  for (uint32_t i = 1; name; name = ord_description_dim(description, i++, &value))
    ord_text_add(out, "dim %s %s\n", name, value);
  const char *const *order;
  const uint32_t order_count = ord_description_order(description, &order);
  for (uint32_t i = 0; i < order_count; i++) ord_text_add(out, "order %s\n", order[i]);
  ord_text_add(out, "ignores %d\n", ord_description_ignores(description, "pooler.weight"));
  describe_text_rules(out, description);
  describe_graph(out, made->graph);
  assert_false(out->failed);
}

/* The text of a file below the source directory; freed by the caller. */
static inline char *read_source_file(const char *name) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", ORDITO_SOURCE_DIRECTORY, name);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  char *text = calloc(1, 1 << 16);
  assert_non_null(text);
  assert_true(fread(text, 1, (1 << 16) - 1, file) > 0);
  fclose(file);
  return text;
}

/* `text` with the first `old` replaced by `new_text`; freed by the caller. */
static inline char *replace_in(const char *text, const char *old, const char *new_text) {
  const char *at = strstr(text, old);
  if (!at) print_error("'%s' is not in the text\n", old);
  assert_non_null(at);
  ord_text made = {0};
  ord_text_add(&made, "%.*s%s%s", (int)(at - text), text, new_text, at + strlen(old));
  assert_false(made.failed);
  return made.bytes;
}

#endif
