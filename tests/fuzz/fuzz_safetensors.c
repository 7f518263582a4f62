/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a safetensors file: opened, mapped to a few weights, read where they map. Wanted: an answer, and no
 * access outside of the file and of the memory that was asked for.
 */
#include <stdlib.h>

#include "fuzz_file.h"
#include "models/weight_file.h"

/* One weight of each sort: plain, two slices of the second axis, a scalar, rows that may be i8. */
static ord_graph_weight weights[] = {
    {.name = "a",
     .file_name = "a",
     .line = 1,
     .stored_rank = 2,
     .stored_dim = {2, 3},
     .value_rank = 2,
     .value_dim = {2, 3}},
    {.name = "b",
     .file_name = "t",
     .line = 2,
     .stored_rank = 2,
     .stored_dim = {2, 1},
     .has_axes = true,
     .value_rank = 2,
     .value_dim = {2, 1},
     .has_slice = true,
     .slice_axis = 1},
    {.name = "c",
     .file_name = "t",
     .line = 3,
     .stored_rank = 2,
     .stored_dim = {2, 2},
     .has_axes = true,
     .value_rank = 2,
     .value_dim = {2, 2},
     .has_slice = true,
     .slice_axis = 1,
     .slice_start = 1},
    {.name = "s", .file_name = "model.s", .line = 4},
};
static const ord_graph graph = {.weight = weights, .weight_count = sizeof weights / sizeof *weights};

static void read_tensors(const ord_weight_file *file) {
  for (uint32_t t = 0; t < ord_weight_file_count(file); t++) {
    const ord_file_tensor *tensor = ord_weight_file_tensor(file, t);
    void *into = malloc(tensor->bytes ? tensor->bytes : 1);
    ord_error err = ORD_ERROR_INIT;
    if (into && !ord_weight_file_read(file, t, 0, tensor->bytes, into, &err)) abort(); /* its place was checked */
    free(into);
  }
}

static void read_weights(const ord_weight_source *source) {
  for (uint32_t w = 0; w < source->weight_count; w++) {
    const ord_weight_stored stored = source->stored(source->context, w);
    unsigned char *into = malloc(stored.bytes + stored.scale_bytes + 1);
    ord_error err = ORD_ERROR_INIT;
    if (into && !source->read(source->context, w, 0, stored.bytes, into, &err)) abort();
    if (into && stored.scale_bytes && !source->read_scale(source->context, w, into, &err) && err.code != ORD_INVALID)
      abort(); /* a scale may be no number */
    free(into);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ord_error err = ORD_ERROR_INIT;
  ord_weight_file *file = NULL;
  if (!ord_weight_file_open(fuzz_file("f.safetensors", data, size), NULL, NULL, &file, &err)) return 0;
  read_tensors(file);
  ord_diagnostics list;
  ord_diagnostics_init(&list);
  ord_weight_source source;
  if (ord_weight_file_source(file, NULL, &graph, "m.yaml", &list, &source, &err)) {
    read_weights(&source);
    source.destroy(source.context);
  }
  ord_diagnostics_finish(&list);
  return 0;
}
