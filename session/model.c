/* SPDX-License-Identifier: MIT
 *
 * A model: from a YAML file to the op graph, and its weights from a file or a seed to the store.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/parts.h"

#define MODEL_FILE_LIMIT ((size_t)64 << 20) /* no caller may raise the limit of the text beyond this */

bool ord_text_file_read(const char *file, size_t limit, char **out, size_t *out_bytes, ord_error *err) {
  FILE *stream = fopen(file, "rb");
  if (!stream) return ord_fail_at(err, ord_status_of_errno(errno), file, 0, 0, "cannot be opened; %s", strerror(errno));
  char *text = malloc(limit + 2);
  if (!text) {
    fclose(stream);
    return ord_fail_memory(err, "reading a model file");
  }
  /* One byte more than the limit, so that the reader can tell that the text is too long. */
  const size_t bytes = fread(text, 1, limit + 1, stream);
  const bool failed = ferror(stream) != 0;
  const int reason = errno;
  fclose(stream);
  if (failed) {
    free(text);
    return ord_fail_at(err, ord_status_of_errno(reason), file, 0, 0, "cannot be read; %s", strerror(reason));
  }
  text[bytes] = 0;
  *out = text;
  *out_bytes = bytes;
  return true;
}

/* Width of the logits, 0 if the model generates nothing. */
static int64_t vocab_of(const ord_model *model) {
  const ord_generate_rules *rules = ord_description_generate(model->description);
  if (!rules->is_given) return 0;
  const uint32_t output = ord_graph_find_output(model->graph, rules->logits);
  int64_t vocab = 0;
  if (output == ORD_NONE) return 0;
  const ord_value *logits = &model->graph->value[model->graph->output[output].value];
  return logits->rank == 2 && ord_size_is_constant(logits->dim[1], &vocab) ? vocab : 0;
}

static bool build(ord_model *model, size_t bytes, const ord_model_options *options, ord_diagnostics *list,
                  ord_error *err) {
  ord_diagnostics_source(list, model->file, model->text, bytes);
  const ord_description_options wanted = {.size = options->size,
                                          .byte_limit = options->byte_limit,
                                          .item_limit = options->item_limit,
                                          .context = options->context};
  if (!ord_description_read(model->file, model->text, bytes, &wanted, list, &model->description))
    return ord_diagnostics_fail(list, err);
  if (!ord_graph_build(model->description, list, &model->graph)) return ord_diagnostics_fail(list, err);
  if (options->strict && list->warning_count > 0)
    return ord_fail_at(err, ORD_INVALID, model->file, 0, 0, "%u warning%s; wanted none (--strict)", list->warning_count,
                       ord_plural(list->warning_count));
  const ord_tokenizer_rules *rules = ord_description_tokenizer(model->description);
  const int64_t vocab = vocab_of(model);
  return rules->kind != ORD_TOKENIZER_BYTES || vocab == 0 || ord_tokenizer_create(rules, vocab, &model->tokenizer, err);
}

bool ord_messages_give(ord_diagnostics *list, char **out, ord_error *err) {
  if (list->out_of_memory) return ord_fail_memory(err, "collecting messages");
  if (!out || list->count == 0) return true;
  ord_text text = {0};
  ord_diagnostics_sort(list);
  ord_diagnostics_print(list, &text);
  return ord_text_give(&text, "writing messages", out, err);
}

/* Takes `text` over. */
static bool load(ord_context *context, const char *name, char *text, size_t bytes, const ord_model_options *options,
                 ord_model **out, char **out_messages, ord_error *err) {
  ord_diagnostics list;
  ord_diagnostics_init(&list);
  ord_model *model = calloc(1, sizeof *model);
  bool done = false;
  if (!model || !(model->file = strdup(name))) {
    free(text);
    ord_fail_memory(err, "loading a model");
    goto end;
  }
  model->context = context;
  model->text = text;
  done = build(model, bytes, options, &list, err);
  if (!ord_messages_give(&list, out_messages, err)) done = false;
end:
  ord_diagnostics_finish(&list);
  if (!done) {
    ord_model_destroy(model);
    return false;
  }
  *out = model;
  return true;
}

bool ord_model_load(ord_context *context, const char *file, const ord_model_options *options, ord_model **out,
                    char **out_messages, ord_error *err) {
  ord_model_options own;
  *out = NULL;
  if (out_messages) *out_messages = NULL;
  if (!ord_struct_take(options, "ord_model_options", &own, sizeof own, err)) return false;
  size_t limit = own.byte_limit ? own.byte_limit : (size_t)1 << 20;
  if (limit > MODEL_FILE_LIMIT) limit = MODEL_FILE_LIMIT;
  char *text = NULL;
  size_t bytes = 0;
  if (!ord_text_file_read(file, limit, &text, &bytes, err)) return false;
  return load(context, file, text, bytes, &own, out, out_messages, err);
}

bool ord_model_load_text(ord_context *context, const char *name, const char *text, size_t bytes,
                         const ord_model_options *options, ord_model **out, char **out_messages, ord_error *err) {
  ord_model_options own;
  *out = NULL;
  if (out_messages) *out_messages = NULL;
  if (!ord_struct_take(options, "ord_model_options", &own, sizeof own, err)) return false;
  char *copy = malloc(bytes + 1);
  if (!copy) return ord_fail_memory(err, "loading a model");
  if (bytes > 0) memcpy(copy, text, bytes);
  copy[bytes] = 0;
  return load(context, name, copy, bytes, &own, out, out_messages, err);
}

void ord_model_destroy(ord_model *model) {
  if (!model) return;
  ord_weight_store_destroy(model->store);
  ord_tokenizer_destroy(model->tokenizer);
  ord_graph_destroy(model->graph);
  ord_description_destroy(model->description);
  free(model->weight_path);
  free(model->text);
  free(model->file);
  free(model);
}

const char *ord_model_name(const ord_model *model) { return ord_description_full_name(model->description); }
const char *ord_model_about(const ord_model *model) { return ord_description_about(model->description); }
int64_t ord_model_vocab(const ord_model *model) { return vocab_of(model); }

int64_t ord_model_context(const ord_model *model) {
  const ord_graph *graph = model->graph;
  int64_t maximum[ORD_RUN_DIM_MAX], most = 0, length;
  ord_run_dim_maxima(graph, maximum);
  for (uint32_t i = 0; i < graph->cache_count; i++)
    if (ord_size_evaluate(graph->cache[i].length, maximum, &length) && (most == 0 || length < most)) most = length;
  for (uint32_t i = 0; graph->cache_count == 0 && i < graph->input_count; i++)
    if (graph->input[i].fill == ORD_FILL_TOKENS &&
        !ord_size_evaluate(graph->value[graph->input[i].value].dim[1], maximum, &most))
      return 0;
  return most;
}

static bool open_source(ord_model *model, const ord_weight_options *options, ord_diagnostics *list,
                        ord_weight_source *source, ord_error *err) {
  if (options->random) return ord_random_source(model->graph, options->seed, source, err);
  if (!ord_weight_file_find(options->path, model->file, model->description, &model->weight_path, err)) return false;
  ord_weight_file *file = NULL;
  if (!ord_weight_file_open(model->weight_path, model->description, model->graph, &file, err)) return false;
  return ord_weight_file_source(file, model->description, model->graph, model->file, list, source, err);
}

uint64_t ord_model_weight_bytes(const ord_model *model) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < model->graph->weight_count; i++) bytes += ord_weight_store_stored(model->store, i).bytes;
  return bytes;
}

bool ord_model_open_weights(ord_model *model, const ord_weight_options *options, char **out_messages, ord_error *err) {
  ord_weight_options own;
  if (out_messages) *out_messages = NULL;
  if (!ord_struct_take(options, "ord_weight_options", &own, sizeof own, err)) return false;
  options = &own;
  if (model->graph->weight_count == 0 && !options->path) return true; /* nothing to look for */
  if (model->store) return ord_fail(err, ORD_INVALID, "the weights of %s are open already", ord_model_name(model));
  ord_diagnostics list;
  ord_diagnostics_init(&list);
  ord_diagnostics_source(&list, model->file, model->text, strlen(model->text));
  ord_weight_source source = {0};
  bool done = open_source(model, options, &list, &source, err) &&
              ord_weight_store_create(source, model->context->device, &model->store, err);
  if (done && options->progress)
    ord_weight_store_progress(model->store, options->progress, options->progress_context,
                              ord_model_weight_bytes(model));
  if (!ord_messages_give(&list, out_messages, err)) done = false;
  ord_diagnostics_finish(&list);
  if (!done) {
    ord_weight_store_destroy(model->store);
    model->store = NULL;
    free(model->weight_path);
    model->weight_path = NULL;
  }
  return done;
}

bool ord_model_need_weights(const ord_model *model, ord_error *err) {
  if (model->store || model->graph->weight_count == 0) return true;
  return ord_fail(err, ORD_INVALID, "the weights of %s are not open; wanted ord_model_open_weights before a session",
                  ord_model_name(model));
}

bool ord_model_encode(const ord_model *model, const char *text, size_t bytes, int32_t **out, size_t *out_count,
                      ord_error *err) {
  if (!model->tokenizer)
    return ord_fail(err, ORD_INVALID, "%s has no tokenizer that can be used; wanted token ids (--prompt-ids)",
                    ord_model_name(model));
  return ord_tokenizer_encode(model->tokenizer, text, bytes, out, out_count, err);
}

void ord_ids_free(int32_t *ids) { free(ids); }
