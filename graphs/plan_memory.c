/* SPDX-License-Identifier: MIT
 *
 * Pass plan_memory: allows lowering to lay values that are never needed together into the same memory (memory.c), and
 * to let an op write over its last-read operand where its kernel says that it may. Without it every value has memory
 * of its own.
 */
#include "graphs/passes.h"

bool ord_pass_plan_memory(const ord_graph *graph, const ord_pass_options *options, ord_graph **out, ord_error *err) {
  (void)options;
  if (!ord_graph_copy(graph, out, err)) return false;
  (*out)->shares_memory = true;
  return true;
}
