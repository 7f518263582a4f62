/* SPDX-License-Identifier: MIT
 *
 * From a graph to a plan: the parts in their order, and the sums that reports read. Composites that no kernel serves
 * are written out even if the pass that does it was switched off, so that the same kernels compute them.
 */
#include "graphs/lower.h"

#include <stdlib.h>

#include "graphs/lower_parts.h"
#include "graphs/passes.h"

/* What the store will hold for one weight operand. Operands that share it are equal but for the step. */
typedef struct holding {
  uint64_t first_weight, key;
  uint32_t segment_count;
  size_t bytes;
} holding;

static int by_identity(const void *a, const void *b) {
  const holding *x = a, *y = b;
  if (x->first_weight != y->first_weight) return x->first_weight < y->first_weight ? -1 : 1;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return (x->segment_count > y->segment_count) - (x->segment_count < y->segment_count);
}

static holding hold(const ord_step *step, uint32_t which) {
  const ord_operand *operand = &step->node.operand[which];
  const ord_pack *pack = &step->choice.answer.pack[which];
  holding held = {.key = pack->key, .bytes = pack->bytes, .segment_count = operand->segment_count};
  if (operand->segment_count > 0) held.first_weight = operand->segment[0].weight_id;
  if (!pack->key && !ord_tensor_bytes(operand->dtype, operand->rank, operand->dim, &held.bytes)) held.bytes = 0;
  return held;
}

/* The bytes of weights that the plan keeps, as stored and packed; each once. */
static bool sum_weights(ord_lower *lower, ord_error *err) {
  ord_plan *plan = lower->plan;
  uint32_t count = 0;
  holding *held = ord_arena_take(&lower->arena, (size_t)plan->weight_count + 1, sizeof *held);
  if (!held) return ord_fail_memory(err, "making a plan");
  for (uint32_t n = 0; n < plan->step_count; n++)
    for (uint32_t i = 0; i < plan->step[n].node.operand_count; i++)
      if (plan->step[n].node.operand[i].role == ORD_WEIGHT && count < plan->weight_count)
        held[count++] = hold(&plan->step[n], i);
  if (count > 0) qsort(held, count, sizeof *held, by_identity);
  for (uint32_t i = 0; i < count; i++) {
    if (i > 0 && by_identity(&held[i - 1], &held[i]) == 0) continue;
    *(held[i].key ? &plan->packed_bytes : &plan->stored_bytes) += held[i].bytes;
  }
  return true;
}

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
  return sum_weights(lower, err);
}

static uint32_t count_composites(const ord_graph *graph) {
  uint32_t count = 0;
  for (uint32_t n = 0; n < graph->node_count; n++) count += graph->node[n].op->lower != NULL;
  return count;
}

/* The lowering's own copy of the graph. */
static bool write_out_composites(ord_lower *lower, const ord_graph *graph, ord_error *err) {
  const ord_pass_options options = {.chooser = lower->options->chooser};
  if (!ord_pass_lower_composites(graph, &options, &lower->graph, err)) return false;
  lower->plan->written_out_count = count_composites(graph) - count_composites(lower->graph);
  return true;
}

bool ord_plan_create(const ord_graph *graph, const ord_lower_options *options, ord_plan **out, ord_error *err) {
  ord_lower lower = {.options = options};
  bool done = false;
  lower.plan = calloc(1, sizeof *lower.plan);
  if (!lower.plan) return ord_fail_memory(err, "making a plan");
  if (write_out_composites(&lower, graph, err))
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
