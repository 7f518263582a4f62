/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a model file: read, built, its messages printed. Wanted: a graph or at least one message, within the
 * limits, and nothing left behind.
 */
#include <stdlib.h>

#include "models/description.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  /* Few items, so that an input which repeats a lot costs the fuzzer little. */
  const ord_description_options options = {.size = size % 2 ? "12m" : NULL, .item_limit = 300, .context = size % 3};
  ord_diagnostics list;
  ord_description *description;
  ord_graph *graph = NULL;
  ord_text text = {0};
  ord_diagnostics_init(&list);
  const bool is_good = ord_description_read("fuzz.yaml", (const char *)data, size, &options, &list, &description) &&
                       ord_graph_build(description, &list, &graph);
  ord_diagnostics_print(&list, &text);
  if (is_good != (list.error_count == 0) || is_good != (graph != NULL)) abort();
  ord_text_finish(&text);
  ord_graph_destroy(graph);
  ord_description_destroy(description);
  ord_diagnostics_finish(&list);
  return 0;
}
