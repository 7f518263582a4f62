/* SPDX-License-Identifier: MIT
 *
 * Swapping kernels while a session lives: lanes with the new pins are made and compared beside those that run, and take
 * over by the exchange of one pointer. Until then nothing of the session changes, so that a failure leaves it as it
 * was.
 */
#include <math.h>
#include <string.h>

#include "session/parts.h"

/* ---- what a swap changes ---------------------------------------------------------------------------------------- */

static bool share_path(const ord_step *a, const ord_step *b) {
  for (uint32_t i = 0; i < a->path_count; i++)
    for (uint32_t j = 0; j < b->path_count; j++)
      if (strcmp(a->path[i], b->path[j]) == 0) return true;
  return false;
}

/* Does `plan` compute what the step stands for with the same code? */
static bool has_same(const ord_plan *plan, const ord_step *step) {
  for (uint32_t i = 0; i < plan->step_count; i++) {
    const ord_step *other = &plan->step[i];
    if (strcmp(other->node.op, step->node.op) == 0 && share_path(other, step) &&
        strcmp(other->choice.kernel->name, step->choice.kernel->name) == 0 &&
        other->choice.plugin->digest == step->choice.plugin->digest)
      return true;
  }
  return false;
}

static uint32_t count_changed(const ord_lane *from, const ord_lane *to, const ord_pin *pin) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < to->plan->step_count; i++) {
    const ord_step *step = &to->plan->step[i];
    count += step->choice.pin == pin && !has_same(from->plan, step);
  }
  return count;
}

static bool is_in_force(const ord_lanes *lanes, const ord_pin *pin) {
  for (uint32_t i = 0; i < lanes->count; i++) {
    const ord_plan *plan = lanes->lane[i].plan;
    for (uint32_t n = 0; n < plan->step_count; n++)
      if (plan->step[n].choice.pin == pin) return true;
  }
  return false;
}

static bool fail_unchanged(const ord_lanes *lanes, const ord_pin *pin, ord_error *err) {
  ord_text text = {0};
  ord_pin_tell(pin, &text);
  if (text.failed)
    ord_fail_memory(err, "swapping kernels");
  else
    ord_fail(
        err, ORD_INVALID, "swapping %s changes nothing: %s", text.bytes,
        is_in_force(lanes, pin)
            ? "found the same kernel of a plugin with the same digest in every node that it selects; wanted another"
            : "found pins behind it for every node that it selects; wanted it without them, or them alone");
  ord_text_finish(&text);
  return false;
}

/* Counts, for each of the new pins, the nodes that got another kernel; a pin without one is an error. */
static bool count_all_changed(const ord_session *session, const ord_lanes *lanes, uint32_t first_pin, uint32_t *out,
                              ord_error *err) {
  for (uint32_t p = first_pin; p < lanes->chooser.pin_count; p++) {
    const ord_pin *pin = &lanes->chooser.pin[p];
    uint32_t most = 0;
    for (uint32_t i = 0; i < lanes->count; i++) {
      const uint32_t count = count_changed(&session->lanes->lane[i], &lanes->lane[i], pin);
      if (count > most) most = count;
    }
    if (most == 0) return fail_unchanged(lanes, pin, err);
    *out += most;
  }
  return true;
}

/* ---- the tolerance ---------------------------------------------------------------------------------------------- */

static int64_t longest_dim(const ord_plan *plan, const ord_pin *first_pin) {
  int64_t longest = 0;
  for (uint32_t i = 0; i < plan->step_count; i++) {
    const ord_step *step = &plan->step[i];
    if (!step->choice.pin || step->choice.pin < first_pin) continue;
    for (uint32_t o = 0; o < step->node.operand_count; o++)
      for (uint32_t axis = 0; axis < step->node.operand[o].rank; axis++)
        if (step->node.operand[o].dim[axis] > longest) longest = step->node.operand[o].dim[axis];
  }
  return longest;
}

/* As ordito.h states it; ops/cases.h has the same for one node. */
static double default_tolerance(const ord_session *session, const ord_lanes *lanes, uint32_t first_pin) {
  int64_t longest = 0;
  for (uint32_t i = 0; i < lanes->count; i++) {
    const int64_t found = longest_dim(lanes->lane[i].plan, &lanes->chooser.pin[first_pin]);
    if (found > longest) longest = found;
  }
  const double product = ord_compute_half_step(session->options.compute);
  const double kept = ord_compute_half_step(session->options.kv_cache);
  return 0x1p-23 * (16 + (double)longest) + 8 * (product > kept ? product : kept);
}

static bool compare(ord_session *session, const ord_lanes *lanes, ord_swap_result *result, ord_error *err) {
  ord_difference found;
  if (!ord_lanes_compare(session, lanes, &found, err)) return false;
  if (!found.name)
    return ord_fail(err, ORD_INVALID,
                    "swapping kernels: found no output or cache with floating-point numbers; wanted "
                    "one that can be compared");
  result->difference = found.part;
  return found.part <= result->tolerance ||
         ord_fail(err, ORD_UNSUPPORTED,
                  "swapping kernels: '%s' differs by %.3g of its largest value from what the kernels in use give; "
                  "wanted at most %.3g",
                  found.name, found.part, result->tolerance);
}

/* ---- taking over ------------------------------------------------------------------------------------------------ */

static void take_over(ord_session *session, ord_lanes *lanes) {
  session->former = session->lanes;
  session->lanes = lanes;
}

static bool holds_outputs(const ord_session *session, const ord_lanes *lanes) {
  for (uint32_t i = 0; lanes && i < lanes->count; i++)
    if (session->last == &lanes->lane[i]) return true;
  return false;
}

/* Lanes that are neither in use nor the way back. The outputs of the last run may lie in them: then they stay for one
 * more run. */
static void retire(ord_session *session, ord_lanes *lanes) {
  if (holds_outputs(session, lanes))
    session->kept = lanes;
  else
    ord_lanes_destroy(session, lanes);
}

/* A loop where the lanes in use have one, so that nothing is left to make when they are taken over. */
static bool prepare_loop(ord_session *session, ord_lanes *lanes, ord_error *err) {
  uint32_t mode = ORD_LOOP_OFF;
  for (uint32_t i = 0; i < session->lanes->count; i++)
    if (session->lanes->lane[i].loop) mode = session->lanes->lane[i].loop_mode;
  ord_error why = ORD_ERROR_INIT;
  if (ord_loop_prepare(session, lanes, mode, &mode, &why)) return true;
  if (why.code == ORD_UNSUPPORTED && !session->is_generating) return true; /* the next generation says so */
  return ord_fail(err, why.code, "%s", why.text);
}

static bool prepare(ord_session *session, const ord_swap_options *options, ord_lanes **out, ord_swap_result *result,
                    ord_error *err) {
  const uint64_t begin = ord_clock_ns();
  if (!ord_lanes_create(session, session->lanes, options->pin, options->pin_count, false, out, err) ||
      !prepare_loop(session, *out, err))
    return false;
  const uint32_t first_pin = (*out)->first_new_pin;
  result->tolerance = options->tolerance > 0 ? options->tolerance : default_tolerance(session, *out, first_pin);
  if (!count_all_changed(session, *out, first_pin, &result->node_count, err)) return false;
  const uint64_t end = ord_clock_ns();
  result->prepare_ns = end - begin;
  const bool done = compare(session, *out, result, err);
  result->compare_ns = ord_clock_ns() - end;
  return done;
}

static bool swap(ord_session *session, const ord_swap_options *options, ord_swap_result *result, ord_error *err) {
  ord_lanes *lanes = NULL;
  if (options->pin_count == 0)
    return ord_fail(err, ORD_INVALID, "swapping kernels: found no pin; wanted SELECTOR=KERNEL[@PLUGIN]");
  if (!isfinite(options->tolerance) || options->tolerance < 0)
    return ord_fail(err, ORD_INVALID, "tolerance: found %g; wanted a finite number of at least 0 (0 is derived)",
                    options->tolerance);
  if (!session->has_run)
    return ord_fail(err, ORD_INVALID,
                    "swapping kernels: found no finished run since the session was made or reset, or a later one that "
                    "failed; wanted one to compare with");
  if (!ord_loop_end(session, err)) return false;
  if (!prepare(session, options, &lanes, result, err)) {
    ord_lanes_destroy(session, lanes);
    return false;
  }
  ord_lanes *retired = session->former;
  const uint64_t begin = ord_clock_ns();
  take_over(session, lanes);
  result->flip_ns = ord_clock_ns() - begin;
  retire(session, retired);
  return true;
}

bool ord_session_swap_kernel(ord_session *session, const ord_swap_options *options, ord_swap_result *out,
                             ord_error *err) {
  ord_swap_options own;
  ord_swap_result made = {0};
  if (!ord_struct_take(options, "ord_swap_options", &own, sizeof own, err) ||
      (out && !ord_struct_give(&made, "ord_swap_result", out, sizeof made, err)))
    return false;
  const bool done = swap(session, &own, &made, err);
  return (!out || ord_struct_give(&made, "ord_swap_result", out, sizeof made, NULL)) && done;
}

bool ord_session_rollback_kernel(ord_session *session, ord_error *err) {
  if (!session->former)
    return ord_fail(err, ORD_INVALID, "going back to former kernels: found none; wanted a swap before");
  if (!ord_loop_end(session, err) || !prepare_loop(session, session->former, err)) return false;
  take_over(session, session->former);
  return true;
}
