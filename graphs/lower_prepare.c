/* SPDX-License-Identifier: MIT
 *
 * Lowering, third part: what may be slow. Weights are taken from the store, packed as each kernel asks, and every
 * kernel makes its state. What was made so far belongs to the plan, so that destroying it undoes everything.
 */
#include "graphs/lower_parts.h"

/* A view of a weight reads it as stored: the store is asked for the whole weight under key 0. */
static bool take_stored(const ord_lower *lower, const ord_step *step, uint32_t base, const void **out, ord_error *err) {
  const ord_value *value = &lower->graph->value[base];
  const ord_segment segment = {.rows = lower->graph->weight[value->index].value_dim[0], .weight_id = value->index};
  const ord_operand operand = {.name = value->name,
                               .role = ORD_WEIGHT,
                               .dtype = value->dtype,
                               .rank = value->rank,
                               .segment_count = 1,
                               .segment = &segment};
  const ord_node node = {.struct_size = sizeof node,
                         .op = step->node.op,
                         .label = step->node.label,
                         .operand_count = 1,
                         .operand = &operand,
                         .device = step->node.device};
  ord_pack as_stored = {0};
  const ord_answer answer = {.struct_size = sizeof answer, .pack = &as_stored};
  return ord_weight_store_take(lower->options->store, lower->options->device->pool, step->choice.kernel, &node, &answer,
                               0, out, err);
}

static bool take_weight(const ord_lower *lower, uint32_t n, uint32_t which, ord_error *err) {
  const ord_step *step = &lower->plan->step[n];
  const ord_described_operand *operand = &lower->described[n].operand[which];
  const void **out = &lower->plan->weight[step->place[which].index];
  ord_weight_store *store = lower->options->store;
  if (!store) return ord_fail(err, ORD_INVALID, "%s: reads a weight; found no weights", step->node.label);
  if (operand->is == ORD_IS_SCALE) return ord_weight_store_take_scale(store, &step->node.operand[which], out, err);
  if (step->node.operand[which].role != ORD_WEIGHT)
    return take_stored(lower, step, ord_value_base(lower->graph, operand->value), out, err);
  return ord_weight_store_take(store, lower->options->device->pool, step->choice.kernel, &step->node,
                               &step->choice.answer, which, out, err);
}

static bool prepare_step(const ord_lower *lower, ord_step *step, ord_error *err) {
  const ord_kernel *kernel = step->choice.kernel;
  ord_device *device = lower->options->device;
  const ord_host *host = device->table->host(device, lower->options->chooser->registry, step->choice.plugin, err);
  if (!host) return ord_fail_prefix(err, "%s", step->node.label);
  ord_plugin_error fault = {.struct_size = sizeof fault};
  device->table->pause_captures();
  const ord_status status = kernel->prepare(kernel, &step->node, &step->choice.answer, host, &step->state, &fault);
  device->table->resume_captures();
  if (status == ORD_OK) return true;
  ord_fail_plugin(err, status, &fault, kernel->name);
  return ord_fail_prefix(err, "%s", step->node.label);
}

static bool prepare_steps(const ord_lower *lower, ord_error *err) {
  ord_plan *plan = lower->plan;
  for (uint32_t n = 0; n < plan->step_count; n++) {
    ord_step *step = &plan->step[n];
    for (uint32_t i = 0; i < step->node.operand_count; i++)
      if (step->place[i].space == ORD_SPACE_WEIGHT && !take_weight(lower, n, i, err)) return false;
    if (!prepare_step(lower, step, err)) return false;
  }
  return true;
}

bool ord_lower_prepare(ord_lower *lower, ord_error *err) {
  lower->plan->store = lower->options->store;
  lower->plan->device = lower->options->device;
  const bool done = prepare_steps(lower, err);
  if (lower->plan->store) ord_weight_store_trim(lower->plan->store);
  return done;
}
