/* SPDX-License-Identifier: MIT
 *
 * Which bytes of a tensor a weight reads. A slice along axis a takes, for each place on the axes before a, one run of
 * bytes; a slice along axis 0 and a whole tensor are a single run.
 */
#include "models/weight_format.h"

#include <float.h>

/* The span of elements start .. start + length of axis `axis` in a dense block of `dim`; all was checked to fit. */
static ord_weight_span cut(uint32_t rank, const int64_t *dim, uint32_t axis, int64_t start, int64_t length,
                           uint64_t element_bytes) {
  uint64_t outer = 1, inner = element_bytes;
  for (uint32_t i = 0; i < axis; i++) outer *= (uint64_t)dim[i];
  for (uint32_t i = axis + 1; i < rank; i++) inner *= (uint64_t)dim[i];
  const uint64_t run = (uint64_t)length * inner;
  if (length == dim[axis]) return (ord_weight_span){1, 0, outer * run, outer * run};
  return (ord_weight_span){outer, (uint64_t)start * inner, (uint64_t)dim[axis] * inner, run};
}

ord_weight_span ord_weight_span_make(const ord_weight_file *file, uint32_t tensor, const ord_graph_weight *weight) {
  const ord_file_tensor *from = &file->tensor[tensor];
  if (!ord_weight_file_slices(file, weight)) return (ord_weight_span){1, 0, from->bytes, from->bytes};
  return cut(from->rank, from->dim, weight->slice_axis, weight->slice_start, weight->stored_dim[weight->slice_axis],
             ord_dtype_get(from->dtype)->block_bytes);
}

/* The axes of the file that make the rows: those at the front whose product is the number of rows, or those at the back
 * of a matrix that is stored [in, out]. */
static uint32_t row_axes(const ord_graph_weight *weight, uint32_t *out_first) {
  const int64_t rows = weight->value_dim[0];
  int64_t product = 1;
  uint32_t count = 0;
  while (count < weight->stored_rank && (count == 0 || product < rows)) {
    const uint32_t axis = weight->in_first ? weight->stored_rank - 1 - count : count;
    product *= weight->stored_dim[axis];
    count++;
  }
  *out_first = weight->in_first ? weight->stored_rank - count : 0;
  return count;
}

bool ord_weight_rows_find(uint32_t rank, const int64_t *dim, const ord_graph_weight *weight, ord_weight_rows *out) {
  if (weight->value_rank < 2) return false;
  uint32_t first;
  const uint32_t count = row_axes(weight, &first);
  *out = (ord_weight_rows){1, 1};
  for (uint32_t axis = first; axis < first + count; axis++) out->count *= (uint64_t)dim[axis];
  for (uint32_t axis = first + count; axis < rank; axis++) out->inner *= (uint64_t)dim[axis];
  return true;
}

bool ord_weight_span_scale(const ord_file_tensor *tensor, const ord_graph_weight *weight, ord_weight_span *out,
                           uint64_t *out_whole) {
  ord_weight_rows rows;
  if (!ord_weight_rows_find(tensor->rank, tensor->dim, weight, &rows)) return false;
  uint32_t first;
  const uint32_t count = row_axes(weight, &first);
  *out_whole = rows.count;
  *out = (ord_weight_span){1, 0, rows.count * sizeof(float), rows.count * sizeof(float)};
  if (weight->has_slice && weight->slice_axis >= first && weight->slice_axis < first + count)
    *out = cut(count, tensor->dim + first, weight->slice_axis - first, weight->slice_start,
               weight->stored_dim[weight->slice_axis], sizeof(float));
  return true;
}

uint64_t ord_weight_span_bytes(const ord_weight_span *span) { return span->outer * span->run; }

bool ord_weight_span_read(const ord_weight_file *file, uint32_t tensor, const ord_weight_span *span, uint64_t offset,
                          size_t bytes, void *into, ord_error *err) {
  unsigned char *to = into;
  while (bytes) {
    const uint64_t row = offset / span->run, skipped = offset % span->run;
    const uint64_t rest = span->run - skipped;
    const size_t part = bytes < rest ? bytes : (size_t)rest;
    if (!ord_weight_file_read(file, tensor, span->base + row * span->stride + skipped, part, to, err)) return false;
    to += part;
    offset += part;
    bytes -= part;
  }
  return true;
}

bool ord_weight_scales_read(const ord_weight_file *file, uint32_t scale, const ord_weight_span *span, float *into,
                            ord_error *err) {
  const uint64_t bytes = ord_weight_span_bytes(span), count = bytes / sizeof *into;
  if (!ord_weight_span_read(file, scale, span, 0, bytes, into, err)) return false;
  for (uint64_t i = 0; i < count; i++) {
    if (into[i] >= 0 && into[i] <= FLT_MAX) continue;
    const uint64_t at = i * sizeof *into, place = span->base + at / span->run * span->stride + at % span->run;
    const ord_file_tensor *tensor = &file->tensor[scale];
    return ord_fail(err, ORD_INVALID, "%s: tensor '%s', row %llu: found %g; wanted a finite number from 0",
                    file->disk[tensor->file].path, tensor->name, (unsigned long long)(place / sizeof *into),
                    (double)into[i]);
  }
  return true;
}
