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
  const ord_device_table *table = plan->device ? plan->device->table : NULL;
  if (table) {
    (void)table->make_current(plan->device, NULL);
    table->pause_captures();
  }
  step->choice.kernel->retire(step->state);
  if (table) table->resume_captures();
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
