/* SPDX-License-Identifier: MIT
 *
 * The pins of all lanes, and which lane goes without which: a kernel may serve some lengths of runs only, as one for a
 * few tokens does. A pin holds in the plans where its kernel serves every node that it selects, and is an error where
 * it holds in none.
 */
#include <stdlib.h>
#include <string.h>

#include "session/parts.h"

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static bool copy_pin(ord_arena *arena, const ord_pin *pin, ord_pin *out) {
  *out = (ord_pin){.selector = ord_arena_text(arena, pin->selector),
                   .kernel = ord_arena_text(arena, pin->kernel),
                   .plugin = pin->plugin ? ord_arena_text(arena, pin->plugin) : NULL};
  return out->selector && out->kernel && (out->plugin || !pin->plugin);
}

/* The last pin of a selector is the one that counts: those before it are left out. */
static bool is_replaced(const ord_pin *pin, const ord_pin *by, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (strcmp(pin->selector, by[i].selector) == 0) return true;
  return false;
}

bool ord_lanes_read_pins(const ord_session *session, const ord_lanes *before, const char *const *text,
                         uint32_t text_count, ord_lanes *lanes, ord_error *err) {
  const uint32_t before_count = before ? before->chooser.pin_count : 0;
  ord_pin *pin = ord_arena_take(&lanes->arena, (size_t)before_count + text_count + 1, sizeof *pin);
  ord_pin *added = ord_arena_take(&lanes->arena, (size_t)text_count + 1, sizeof *added);
  uint32_t count = 0;
  if (!pin || !added) return ord_fail_memory(err, "reading kernel pins");
  for (uint32_t i = 0; i < text_count; i++)
    if (!ord_pin_parse(&lanes->arena, text[i], &added[i], err)) return false;
  for (uint32_t i = 0; i < before_count; i++)
    if (!is_replaced(&before->chooser.pin[i], added, text_count) &&
        !copy_pin(&lanes->arena, &before->chooser.pin[i], &pin[count++]))
      return ord_fail_memory(err, "reading kernel pins");
  if (text_count > 0) memcpy(pin + count, added, text_count * sizeof *pin);
  const ord_context *context = session->model->context;
  lanes->chooser = (ord_chooser){.registry = context->registry,
                                 .device = &context->device->info,
                                 .pin = pin,
                                 .pin_count = count + text_count,
                                 .compute = session->options.compute ? session->options.compute : ORD_F32,
                                 .deny_fallback = session->options.deny_fallback};
  return true;
}

/* ---- where they hold --------------------------------------------------------------------------------------------- */

static bool fail_settling(ord_error *err) { return ord_fail_memory(err, "planning with kernel pins"); }

/* Plans without reading a weight, leaving out one pin after the other whose kernel does not serve. `held` and `refusal`
 * have an entry for each pin. */
static bool settle_lane(const ord_session *session, ord_lanes *lanes, ord_lane *lane, bool *held, const char **refusal,
                        ord_error *err) {
  ord_refused_pin refused;
  ord_error why = ORD_ERROR_INIT;
  lane->chooser.refusal = refusal;
  while (!ord_lane_try_plan(session, lanes, lane, &refused, &why)) {
    ord_lane_forget_plan(lane);
    if (!refused.pin) {
      if (err) *err = why;
      return false;
    }
    const char **reason = &refusal[refused.pin - lanes->chooser.pin];
    *reason = ord_arena_text(&lanes->arena, refused.why.text);
    if (!*reason) return fail_settling(err);
  }
  for (uint32_t i = 0; i < lane->plan->step_count; i++) {
    const ord_pin *pin = lane->plan->step[i].choice.pin;
    if (pin) held[pin - lanes->chooser.pin] = true;
  }
  ord_lane_forget_plan(lane);
  return true;
}

static const ord_lane *find_refusing_lane(const ord_lanes *lanes, uint32_t pin, uint32_t *out_count) {
  const ord_lane *first = NULL;
  *out_count = 0;
  for (uint32_t i = 0; i < lanes->count; i++) {
    if (!lanes->lane[i].chooser.refusal[pin]) continue;
    if (!first) first = &lanes->lane[i];
    ++*out_count;
  }
  return first;
}

static void tell_refusal(const ord_lanes *lanes, uint32_t pin, bool is_held, ord_text *text) {
  uint32_t count;
  const ord_lane *lane = find_refusing_lane(lanes, pin, &count);
  ord_text_add(text, "pin ");
  ord_pin_tell(&lanes->chooser.pin[pin], text);
  ord_text_add(text, is_held ? " does not hold in the plan for " : " holds in no plan, not in that for ");
  ord_text_add(text, "%s", lane->name);
  if (count > 1) ord_text_add(text, " and %u more", count - 1);
  ord_text_add(text, ": %s", lane->chooser.refusal[pin]);
}

/* `log` gets a warning, since the pin's user asked for that kernel in every plan; may be NULL. */
static bool check_held(const ord_lanes *lanes, uint32_t pin, bool is_held, ord_log_fn log, void *log_context,
                       ord_error *err) {
  uint32_t count;
  if (!find_refusing_lane(lanes, pin, &count)) return true;
  ord_text text = {0};
  tell_refusal(lanes, pin, is_held, &text);
  if (text.failed)
    fail_settling(err);
  else if (!is_held)
    ord_fail(err, ORD_UNSUPPORTED, "%s", text.bytes);
  else if (log)
    log(log_context, ORD_LOG_WARNING, text.bytes);
  const bool done = is_held && !text.failed;
  ord_text_finish(&text);
  return done;
}

bool ord_lanes_settle_pins(const ord_session *session, bool dry, ord_lanes *lanes, ord_error *err) {
  const ord_context *context = session->model->context;
  const uint32_t count = lanes->chooser.pin_count;
  bool *held = ord_arena_take(&lanes->arena, count, sizeof *held);
  if (!held) return fail_settling(err);
  for (uint32_t i = 0; i < lanes->count; i++) {
    ord_lane *lane = &lanes->lane[i];
    const char **refusal = ord_arena_take(&lanes->arena, count, sizeof *refusal);
    if (!refusal) return fail_settling(err);
    lane->chooser = lanes->chooser;
    if (count > 0 && !settle_lane(session, lanes, lane, held, refusal, err)) return false;
  }
  for (uint32_t i = 0; i < count; i++)
    if (!check_held(lanes, i, held[i], dry ? NULL : context->log, context->log_context, err)) return false;
  return true;
}
