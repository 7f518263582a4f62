/* SPDX-License-Identifier: MIT
 *
 * Any bytes as an ANDREA checkpoint of a model with seven numbers. Wanted: an answer, and no access outside of the
 * file.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz_file.h"
#include "models/weight_file.h"

static const char model[] = "ordito: 1\n"
                            "name: m\n"
                            "dims: {d: 2}\n"
                            "inputs:\n"
                            "  x: {dtype: f32, shape: [d, d]}\n"
                            "weights:\n"
                            "  a: {shape: [out: d, in: d]}\n"
                            "  b: {shape: [1]}\n"
                            "  c: {shape: [d]}\n"
                            "checkpoint: {order: [c, b, a]}\n"
                            "graph:\n"
                            "  - matmul: {in: x, weight: a, out: x}\n"
                            "  - add: {in: [x, b], out: x}\n"
                            "  - add: {in: [x, c], out: x}\n"
                            "outputs: [x]\n";

static ord_diagnostics list;
static ord_description *description;
static ord_graph *graph;

static void finish_model(void) {
  ord_graph_destroy(graph);
  ord_description_destroy(description);
  ord_diagnostics_finish(&list);
}

static void read_model(void) {
  const ord_description_options options = {0};
  ord_diagnostics_init(&list);
  if (!ord_description_read("m.yaml", model, strlen(model), &options, &list, &description) ||
      !ord_graph_build(description, &list, &graph))
    abort();
  atexit(finish_model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ord_error err = ORD_ERROR_INIT;
  ord_weight_file *file = NULL;
  ord_weight_source source;
  if (!graph) read_model();
  if (!ord_weight_file_open(fuzz_file("f.bin", data, size), description, graph, &file, &err)) return 0;
  if (!ord_weight_file_source(file, description, graph, "m.yaml", NULL, &source, &err))
    abort(); /* the order is whole */
  for (uint32_t w = 0; w < source.weight_count; w++) {
    float number[4];
    if (!source.read(source.context, w, 0, source.stored(source.context, w).bytes, number, &err)) abort();
  }
  source.destroy(source.context);
  return 0;
}
