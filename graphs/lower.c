/* SPDX-License-Identifier: MIT
 *
 * From a graph to a plan: the parts in their order, and the sums that reports read.
 */
#include "graphs/lower.h"

#include <stdlib.h>

#include "graphs/lower_parts.h"

static bool sum_up(ord_lower *lower, ord_error *err) {
  ord_plan *plan = lower->plan;
  for (uint32_t n = 0; n < plan->step_count; n++) {
    const ord_answer *answer = &plan->step[n].choice.answer;
    plan->phase_count += answer->phase_count;
    if (answer->worker_bytes > plan->worker_bytes) plan->worker_bytes = answer->worker_bytes;
  }
  uint64_t moved;
  if (!ord_graph_moved_bytes(lower->graph, &moved, err)) return false;
  plan->moved_bytes = moved;
  return true;
}

bool ord_plan_create(const ord_graph *graph, const ord_lower_options *options, ord_plan **out, ord_error *err) {
  ord_lower lower = {.options = options};
  bool done = false;
  lower.plan = calloc(1, sizeof *lower.plan);
  if (!lower.plan) return ord_fail_memory(err, "making a plan");
  lower.plan->device = options->chooser->device;
  if (ord_graph_copy(graph, &lower.graph, err))
    done = ord_lower_choose(&lower, err) && ord_lower_place(&lower, err) && sum_up(&lower, err) &&
           (options->dry || ord_lower_prepare(&lower, err));
  ord_graph_destroy(lower.graph);
  ord_arena_finish(&lower.arena);
  if (done)
    *out = lower.plan;
  else
    ord_plan_destroy(lower.plan);
  return done;
}
