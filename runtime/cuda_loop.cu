// SPDX-License-Identifier: MIT
// Generation without the host: what follows the steps of a captured plan that have sampled a token. One sequence, one
// token a run.
#include "ordito_device.h"

#include "cuda_loop.h"

// Hands the token to the host and makes it the input of the next run; ends the loop at a stop token, at the limit, or
// when the host asks. A run behind the end changes nothing here. <<<1, 32>>>; lane i looks at stop token i.
extern "C" __global__ void advance(const loop_places at) {
  ord_dependency_wait();
  loop_request *request = at.request;
  if (!request->goes_on) return;
  const unsigned lane = threadIdx.x;
  const int32_t token = *at.sampled;
  const bool is_stop = __any_sync(0xffffffffu, lane < request->stop_count && request->stop[lane] == token);
  __syncwarp(); // what lane 0 is about to write, the others have read
  if (lane != 0) return;

  const uint32_t made = request->made + 1;
  uint32_t state = SLOT_GOES_ON;
  if (at.cancel && ord_load_acquire_system(at.cancel)) state = SLOT_CANCELLED;
  if (made == request->limit) state = SLOT_LIMIT;
  if (is_stop) state = SLOT_STOPPED;
  ord_store_release_system(&at.ring[made - 1], (uint64_t)(uint32_t)token << 32 | (made << 2 | state));

  *at.token = token;
  *at.past += 1;
  if (at.position) *at.position = *at.past;
  *at.counter += 1;
  request->made = made;
  if (state != SLOT_GOES_ON) {
    request->goes_on = 0;
    ord_store_release_system(at.done, state);
  }
}
ORD_EXPORT_KERNEL(advance);

// ---------------------------------------------------------------------------------------------------------------------

// Only in the body of the WHILE node that the handle belongs to; anywhere else it would be a fault. <<<1, 1>>>.
extern "C" __global__ void loop_control(uint64_t handle, const loop_request *request) {
  ord_dependency_wait();
  ord_set_condition(handle, request->goes_on != 0);
}
ORD_EXPORT_KERNEL(loop_control);
