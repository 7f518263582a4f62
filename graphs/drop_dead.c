/* SPDX-License-Identifier: MIT
 *
 * Pass drop_dead: nodes that no output needs any more are taken out.
 */
#include "graphs/edit.h"
#include "graphs/passes.h"

bool ord_pass_drop_dead(const ord_graph *graph, const ord_pass_options *options, ord_graph **out, ord_error *err) {
  (void)options;
  ord_graph *copy = NULL;
  if (!ord_graph_copy(graph, &copy, err)) return false;
  if (!ord_graph_prune(copy, err)) {
    ord_graph_destroy(copy);
    return false;
  }
  *out = copy;
  return true;
}
