/* SPDX-License-Identifier: MIT
 *
 * The end of a plan. graphs/lower.c makes it on the heap and may hand it over half built.
 */
#include "runtime/plan.h"

#include <stdlib.h>

void ord_plan_destroy(ord_plan *plan) {
  if (!plan) return;
  for (uint32_t i = plan->step_count; i-- > 0;) {
    const ord_step *step = &plan->step[i];
    if (step->state) step->choice.kernel->retire(step->state);
  }
  for (uint32_t i = 0; i < plan->weight_count; i++)
    if (plan->weight[i]) ord_weight_store_drop(plan->store, plan->weight[i]);
  ord_arena_finish(&plan->arena);
  free(plan);
}
