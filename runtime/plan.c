/* SPDX-License-Identifier: MIT
 *
 * The end of a plan. graphs/lower.c makes it on the heap and may hand it over half built.
 */
#include "runtime/plan.h"

#include <stdlib.h>

#include "runtime/device.h"

/* Kernels rely on the device being current when they retire a state. Where that fails, the device is lost, and what
 * they free is memory of the host. */
static void retire(const ord_plan *plan, const ord_step *step) {
  if (plan->device) {
    (void)plan->device->table->host(plan->device, plan->registry, step->choice.plugin, NULL);
    plan->device->table->pause_captures(plan->device);
  }
  step->choice.kernel->retire(step->state);
  if (plan->device) plan->device->table->resume_captures(plan->device);
}

void ord_plan_destroy(ord_plan *plan) {
  if (!plan) return;
  for (uint32_t i = plan->step_count; i-- > 0;) {
    if (plan->step[i].state) retire(plan, &plan->step[i]);
  }
  for (uint32_t i = 0; i < plan->weight_count; i++)
    if (plan->weight[i]) ord_weight_store_drop(plan->store, plan->weight[i]);
  ord_arena_finish(&plan->arena);
  free(plan);
}
