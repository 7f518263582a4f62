/* SPDX-License-Identifier: MIT
 *
 * A weight file as the table of functions through which the store reads: every weight of the graph with the part of
 * the tensor that it is, all of it checked when the source is made.
 */
#include <stdlib.h>

#include "models/weight_format.h"

typedef struct source_weight {
  uint32_t tensor, scale; /* scale ORD_NONE: none */
  ord_weight_span span, scale_span;
} source_weight;

typedef struct file_source {
  ord_weight_file *file; /* owned */
  source_weight weight[];
} file_source;

static ord_weight_stored source_stored(void *context, uint32_t weight) {
  const file_source *source = context;
  const source_weight *from = &source->weight[weight];
  return (ord_weight_stored){.dtype = source->file->tensor[from->tensor].dtype,
                             .bytes = ord_weight_span_bytes(&from->span),
                             .scale_bytes = from->scale == ORD_NONE ? 0 : ord_weight_span_bytes(&from->scale_span)};
}

static bool source_read(void *context, uint32_t weight, size_t offset, size_t bytes, void *into, ord_error *err) {
  const file_source *source = context;
  const source_weight *from = &source->weight[weight];
  return ord_weight_span_read(source->file, from->tensor, &from->span, offset, bytes, into, err);
}

static bool source_read_scale(void *context, uint32_t weight, void *into, ord_error *err) {
  const file_source *source = context;
  const source_weight *from = &source->weight[weight];
  if (from->scale == ORD_NONE)
    return ord_fail(err, ORD_INTERNAL, "%s: tensor '%s' has no scales", source->file->path,
                    source->file->tensor[from->tensor].name);
  return ord_weight_scales_read(source->file, from->scale, &from->scale_span, into, err);
}

static void source_destroy(void *context) {
  file_source *source = context;
  if (!source) return;
  ord_weight_file_close(source->file);
  free(source);
}

static bool fill_weight(const ord_weight_file *file, const ord_graph_weight *weight, uint32_t tensor,
                        source_weight *out, ord_error *err) {
  *out = (source_weight){.tensor = tensor, .scale = ORD_NONE, .span = ord_weight_span_make(file, tensor, weight)};
  if (file->tensor[tensor].dtype != ORD_I8) return true;
  uint64_t rows;
  out->scale = ord_weight_file_find_companion(file, tensor, ORD_SCALE);
  return ord_weight_span_scale(&file->tensor[tensor], weight, &out->scale_span, &rows) ||
         ord_fail(err, ORD_INTERNAL, "%s: weight '%s' has no rows", file->path, weight->name);
}

bool ord_weight_file_source(ord_weight_file *file, const ord_description *description, const ord_graph *graph,
                            const char *model_file, ord_diagnostics *list, ord_weight_source *out, ord_error *err) {
  ord_mapping mapping = {0};
  file_source *source = calloc(1, sizeof *source + graph->weight_count * sizeof *source->weight);
  if (!source) {
    ord_weight_file_close(file);
    return ord_fail_memory(err, "opening weights");
  }
  source->file = file;
  bool done = ord_mapping_make(file, description, graph, &mapping, list, err);
  if (done && mapping.fault_count) done = ord_mapping_fail(&mapping, file, model_file, err);
  for (uint32_t i = 0; done && i < mapping.row_count; i++) {
    const ord_mapping_row *row = &mapping.row[i];
    if (row->state == ORD_MAPS)
      done = fill_weight(file, &graph->weight[row->weight], row->tensor, &source->weight[row->weight], err);
  }
  ord_mapping_finish(&mapping);
  if (!done) {
    source_destroy(source);
    return false;
  }
  *out = (ord_weight_source){.context = source,
                             .weight_count = graph->weight_count,
                             .stored = source_stored,
                             .read = source_read,
                             .read_scale = source_read_scale,
                             .destroy = source_destroy};
  return true;
}
