/* SPDX-License-Identifier: MIT
 *
 * The memory of a lane: the arena of its plan, the numbers of a run (sizes, and what each row has in the caches), and
 * what the host fills them from.
 */
#include <stdlib.h>

#include "session/parts.h"

static uint64_t bytes_of_run(const ord_answer *answer) { return answer->scratch_bytes + answer->persistent_bytes; }

const ord_step *ord_plan_hungriest(const ord_plan *plan, uint64_t (*bytes_of)(const ord_answer *answer)) {
  const ord_step *most = NULL;
  for (uint32_t n = 0; n < plan->step_count; n++)
    if (bytes_of(&plan->step[n].choice.answer) > (most ? bytes_of(&most->choice.answer) : 0)) most = &plan->step[n];
  return most;
}

/* Who needs it, in front of what the device says. */
static bool fail_memory(const ord_plan *plan, ord_error *err) {
  if (!err || err->code != ORD_NO_MEMORY) return false;
  const ord_step *most = ord_plan_hungriest(plan, bytes_of_run);
  if (!most) return ord_fail_prefix(err, "a run needs %zu bytes for values", plan->arena_bytes);
  return ord_fail_prefix(err, "a run needs %zu bytes for values and scratch; %s: kernel %s wants the most, %llu",
                         plan->arena_bytes, most->node.label, most->choice.kernel->name,
                         (unsigned long long)bytes_of_run(&most->choice.answer));
}

static bool allocate(const ord_session *session, ord_lane *lane, ord_error *err) {
  ord_device *device = session->queue->device;
  const ord_plan *plan = lane->plan;
  const size_t extent_bytes = plan->extent_count * sizeof *lane->extent;
  void *numbers = NULL;
  lane->number_bytes = extent_bytes + (size_t)session->batch_max * sizeof *lane->past;
  /* The part behind persistent_begin must be zero; clearing all of it also keeps padding finite. */
  if (!device->table->allocate(device, plan->arena_bytes ? plan->arena_bytes : 1, true, &lane->memory.arena, err) ||
      !device->table->allocate(device, lane->number_bytes ? lane->number_bytes : 1, true, &numbers, err))
    return fail_memory(plan, err);
  lane->memory.extent = numbers;
  lane->memory.past = (int32_t *)((char *)numbers + extent_bytes);
  lane->memory.cache = session->cache;
  return true;
}

static void use_device_memory(ord_lane *lane) {
  lane->extent = lane->memory.extent;
  lane->past = lane->memory.past;
  for (uint32_t i = 0; i < lane->plan->input_count; i++)
    lane->input[i] = (char *)lane->memory.arena + lane->plan->input[i].place.offset;
}

/* Each input has a place of its own in it, so that what lies between the rows of one stays what it was: zero. */
static bool make_staging(ord_lane *lane, ord_error *err) {
  const ord_plan *plan = lane->plan;
  size_t bytes = 0;
  bool fits = ord_memory_round_up(lane->number_bytes, &bytes);
  for (uint32_t i = 0; fits && i < plan->input_count; i++)
    fits = ord_size_add(bytes, ord_plan_tensor_span(&plan->input[i], plan->input[i].dim), &bytes) &&
           ord_memory_round_up(bytes, &bytes);
  if (fits) lane->staging = calloc(bytes + 1, 1);
  if (!lane->staging) return ord_fail_memory(err, "making room for the inputs");
  lane->extent = (int64_t *)lane->staging;
  lane->past = (int32_t *)(lane->staging + plan->extent_count * sizeof *lane->extent);
  bytes = 0;
  if (!ord_memory_round_up(lane->number_bytes, &bytes)) return false; /* it fitted above */
  for (uint32_t i = 0; i < plan->input_count; i++) {
    lane->input[i] = lane->staging + bytes;
    bytes += ord_plan_tensor_span(&plan->input[i], plan->input[i].dim);
    if (!ord_memory_round_up(bytes, &bytes)) return false;
  }
  return true;
}

bool ord_lane_memory_create(const ord_session *session, ord_lane *lane, ord_error *err) {
  if (!allocate(session, lane, err)) return false;
  lane->input = calloc((size_t)lane->plan->input_count + 1, sizeof *lane->input);
  if (!lane->input) return ord_fail_memory(err, "making room for the inputs");
  if (!session->queue->device->is_host_memory) return make_staging(lane, err);
  use_device_memory(lane);
  return true;
}

void ord_lane_memory_destroy(const ord_session *session, ord_lane *lane) {
  ord_device *device = session->model->context->device;
  device->table->release(device, lane->memory.arena);
  device->table->release(device, lane->memory.extent);
  free(lane->staging);
  free(lane->input);
}
