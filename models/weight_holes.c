/* SPDX-License-Identifier: MIT
 *
 * A fused tensor that is read in slices should be read once and as a whole: a hole or an overlap is nearly always a
 * wrong start, and the model would run with it.
 */
#include <stdlib.h>

#include "models/weight_format.h"

/* What one weight reads of a tensor, along the axis that is cut. */
typedef struct slice_read {
  uint32_t tensor, weight, axis;
  bool is_whole;
  int64_t start, end;
} slice_read;

static int compare_reads(const void *a, const void *b) {
  const slice_read *one = a, *other = b;
  if (one->tensor != other->tensor) return one->tensor < other->tensor ? -1 : 1;
  if (one->start != other->start) return one->start < other->start ? -1 : 1;
  return one->weight < other->weight ? -1 : one->weight > other->weight;
}

static void warn_hole(const ord_file_tensor *tensor, const ord_graph_weight *near, uint32_t axis, int64_t start,
                      int64_t end, ord_diagnostics *list) {
  ord_diagnose_warning(list, "weight-hole", near->line, near->column,
                       "no weight reads %lld to %lld along axis %u of tensor '%s' %s; wanted slices without a hole",
                       (long long)start, (long long)end - 1, axis, tensor->name,
                       ord_dims_print(tensor->rank, tensor->dim).bytes);
}

/* The reads of one tensor, in the order of their starts. */
static void check_tensor(const ord_file_tensor *tensor, const ord_graph *graph, const slice_read *read, uint32_t count,
                         ord_diagnostics *list) {
  const slice_read *cut = NULL;
  for (uint32_t i = 0; i < count; i++) {
    if (read[i].is_whole) continue;
    if (cut && read[i].axis != cut->axis) {
      const ord_graph_weight *weight = &graph->weight[read[i].weight];
      ord_diagnose_warning(list, "weight-hole", weight->line, weight->column,
                           "tensor '%s' is cut along axis %u and along axis %u; wanted one axis, so that holes show",
                           tensor->name, cut->axis, read[i].axis);
      return;
    }
    cut = &read[i];
  }
  if (!cut) return;
  const int64_t whole = tensor->dim[cut->axis];
  int64_t reached = 0;
  const ord_graph_weight *last = &graph->weight[read[0].weight];
  for (uint32_t i = 0; i < count; i++) {
    const ord_graph_weight *weight = &graph->weight[read[i].weight];
    const int64_t end = read[i].is_whole ? whole : read[i].end;
    if (read[i].start > reached) warn_hole(tensor, weight, cut->axis, reached, read[i].start, list);
    if (read[i].start < reached)
      ord_diagnose_warning(
          list, "weight-hole", weight->line, weight->column,
          "weights '%s' and '%s' both read %lld to %lld along axis %u of tensor '%s'; wanted slices that "
          "do not overlap",
          last->name, weight->name, (long long)read[i].start, (long long)(end < reached ? end : reached) - 1, cut->axis,
          tensor->name);
    if (end > reached) {
      reached = end;
      last = weight;
    }
  }
  if (reached < whole) warn_hole(tensor, last, cut->axis, reached, whole, list);
}

bool ord_weight_warn_holes(const ord_weight_file *file, const ord_graph *graph, const ord_mapping *mapping,
                           ord_diagnostics *list, ord_error *err) {
  slice_read *read = calloc((size_t)mapping->row_count + 1, sizeof *read);
  if (!read) return ord_fail_memory(err, "mapping weights");
  uint32_t count = 0;
  for (uint32_t i = 0; i < mapping->row_count; i++) {
    const ord_mapping_row *row = &mapping->row[i];
    if (row->state != ORD_MAPS) continue;
    const ord_graph_weight *weight = &graph->weight[row->weight];
    slice_read *entry = &read[count++];
    *entry = (slice_read){.tensor = row->tensor, .weight = row->weight};
    if (!ord_weight_file_slices(file, weight)) {
      entry->is_whole = true;
      continue;
    }
    entry->axis = weight->slice_axis;
    entry->start = weight->slice_start;
    entry->end = weight->slice_start + weight->stored_dim[weight->slice_axis];
  }
  qsort(read, count, sizeof *read, compare_reads);
  for (uint32_t first = 0; first < count;) {
    uint32_t next = first + 1;
    while (next < count && read[next].tensor == read[first].tensor) next++;
    check_tensor(&file->tensor[read[first].tensor], graph, read + first, next - first, list);
    first = next;
  }
  free(read);
  return true;
}
