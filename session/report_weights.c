/* SPDX-License-Identifier: MIT
 *
 * `ordito weights` and `ordito convert`: the dry run of a weight file, and writing it in another form.
 */
#include <stdlib.h>
#include <string.h>

#include "session/parts.h"

static const char *const state_name[] = {"maps", "missing", "wrong shape", "wrong type", "unused", "ignored"};

static void describe_tensor(ord_text *text, const ord_file_tensor *tensor) {
  ord_text_add(text, "%s %s [", tensor->name, ord_dtype_name(tensor->dtype));
  for (uint32_t i = 0; i < tensor->rank; i++) ord_text_add(text, i ? ", %lld" : "%lld", (long long)tensor->dim[i]);
  ord_text_add(text, "]");
}

static void report_text(const ord_mapping *mapping, const ord_weight_file *file, const ord_graph *graph,
                        ord_text *text) {
  const uint32_t tensors = ord_weight_file_count(file), faults = mapping->fault_count;
  ord_text_add(text, "%s: %u tensor%s, %u fault%s\n", ord_weight_file_path(file), tensors, ord_plural(tensors), faults,
               ord_plural(faults));
  for (uint32_t i = 0; i < mapping->row_count; i++) {
    const ord_mapping_row *row = &mapping->row[i];
    ord_text_add(text, "  %-12s", state_name[row->state]);
    if (row->state == ORD_MISSING) { /* its text begins with the state */
      ord_text_add(text, "%s\n", row->text + strlen(state_name[row->state]));
      continue;
    }
    if (row->weight != ORD_NONE) ord_text_add(text, " %s", graph->weight[row->weight].name);
    if (row->weight != ORD_NONE && row->tensor != ORD_NONE) ord_text_add(text, " <-");
    if (row->tensor != ORD_NONE) {
      ord_text_add(text, " ");
      describe_tensor(text, ord_weight_file_tensor(file, row->tensor));
    }
    if (row->text) ord_text_add(text, ": %s", row->text);
    ord_text_add(text, "\n");
  }
}

static void report_json(const ord_mapping *mapping, const ord_weight_file *file, const ord_graph *graph,
                        ord_text *text) {
  ord_text_add(text, "{\"file\": ");
  ord_text_add_json(text, ord_weight_file_path(file));
  ord_text_add(text, ", \"faults\": %u, \"rows\": [", mapping->fault_count);
  for (uint32_t i = 0; i < mapping->row_count; i++) {
    const ord_mapping_row *row = &mapping->row[i];
    ord_text_add(text, "%s\n  {\"state\": \"%s\"", i ? "," : "", state_name[row->state]);
    if (row->weight != ORD_NONE) {
      ord_text_add(text, ", \"weight\": ");
      ord_text_add_json(text, graph->weight[row->weight].name);
    }
    if (row->tensor != ORD_NONE) {
      ord_text_add(text, ", \"tensor\": ");
      ord_text_add_json(text, ord_weight_file_tensor(file, row->tensor)->name);
    }
    if (row->text) {
      ord_text_add(text, ", \"fault\": ");
      ord_text_add_json(text, row->text);
    }
    ord_text_add(text, "}");
  }
  ord_text_add(text, "]}\n");
}

bool ord_model_report_weights(ord_model *model, const char *path, bool json, char **out, uint32_t *out_faults,
                              ord_error *err) {
  ord_weight_file *file = NULL;
  ord_mapping mapping = {0};
  ord_text text = {0};
  *out = NULL;
  *out_faults = 0;
  if (!ord_weight_file_open(path, model->description, model->graph, &file, err)) return false;
  bool done = ord_mapping_make(file, model->description, model->graph, &mapping, NULL, err);
  if (done && json) report_json(&mapping, file, model->graph, &text);
  if (done && !json) report_text(&mapping, file, model->graph, &text);
  *out_faults = mapping.fault_count;
  ord_mapping_finish(&mapping);
  ord_weight_file_close(file);
  if (done) return ord_text_give(&text, "writing a report", out, err);
  ord_text_finish(&text);
  return false;
}

bool ord_model_convert(ord_model *model, const char *from, const char *to, ord_file_kind kind, uint32_t dtype,
                       ord_progress_fn progress, void *progress_context, char **out_messages, ord_error *err) {
  ord_weight_file *file = NULL;
  ord_diagnostics list;
  if (out_messages) *out_messages = NULL;
  if (!ord_weight_file_open(from, model->description, model->graph, &file, err)) return false;
  ord_diagnostics_init(&list);
  ord_diagnostics_source(&list, model->file, model->text, strlen(model->text));
  const ord_convert_options options = {.kind = kind,
                                       .dtype = (ord_dtype)dtype,
                                       .progress = progress,
                                       .progress_context = progress_context,
                                       .model_file = model->file,
                                       .list = &list};
  bool done = ord_weight_file_convert(file, model->description, model->graph, to, &options, err);
  if (!ord_messages_give(&list, out_messages, err)) done = false;
  ord_diagnostics_finish(&list);
  ord_weight_file_close(file);
  return done;
}
