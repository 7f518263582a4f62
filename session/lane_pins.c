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

static bool is_same(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

/* A pin that is said again stands at its new place alone, so that swaps to and fro do not add up. */
static bool is_said_again(const ord_pin *pin, const ord_pin *by, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (is_same(pin->selector, by[i].selector) && is_same(pin->kernel, by[i].kernel) &&
        is_same(pin->plugin, by[i].plugin))
      return true;
  return false;
}

bool ord_lanes_read_pins(const ord_session *session, const ord_lanes *before, const char *const *text,
                         uint32_t text_count, ord_lanes *lanes, ord_error *err) {
  const uint32_t before_count = before ? before->chooser.pin_count : 0, all_count = before_count + text_count;
  ord_pin *all = ord_arena_take(&lanes->arena, all_count, sizeof *all);
  ord_pin *pin = ord_arena_take(&lanes->arena, all_count, sizeof *pin);
  uint32_t count = 0;
  if (!pin || !all) return ord_fail_memory(err, "reading kernel pins");
  for (uint32_t i = 0; i < before_count; i++)
    if (!copy_pin(&lanes->arena, &before->chooser.pin[i], &all[i])) return ord_fail_memory(err, "reading kernel pins");
  for (uint32_t i = 0; i < text_count; i++)
    if (!ord_pin_parse(&lanes->arena, text[i], &all[before_count + i], err)) return false;
  for (uint32_t i = 0; i < all_count; i++) {
    if (is_said_again(&all[i], &all[i + 1], all_count - i - 1)) continue;
    pin[count++] = all[i];
    if (i < before_count) lanes->first_new_pin = count;
  }
  const ord_context *context = session->model->context;
  lanes->chooser = (ord_chooser){.registry = context->registry,
                                 .device = &context->device->info,
                                 .pin = pin,
                                 .pin_count = count,
                                 .compute = session->options.compute ? session->options.compute : ORD_F32,
                                 .deny_fallback = session->options.deny_fallback};
  return true;
}

/* ---- where they hold --------------------------------------------------------------------------------------------- */

static bool fail_settling(ord_error *err) { return ord_fail_memory(err, "planning with kernel pins"); }

/* Plans without reading a weight, leaving out one pin after the other whose kernel does not serve. `refusal` has an
 * entry for each pin. */
static bool settle_lane(const ord_session *session, ord_lanes *lanes, ord_lane *lane, const char **refusal,
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
  ord_lane_forget_plan(lane);
  return true;
}

static const char *find_refusal(const ord_lanes *lanes, uint32_t pin) {
  for (uint32_t i = 0; i < lanes->count; i++)
    if (lanes->lane[i].chooser.refusal[pin]) return lanes->lane[i].chooser.refusal[pin];
  return NULL;
}

static void tell_refusal(const ord_lanes *lanes, uint32_t pin, bool holds, ord_text *text) {
  const char *separator = " ";
  ord_text_add(text, "pin ");
  ord_pin_tell(&lanes->chooser.pin[pin], text);
  ord_text_add(text, holds ? " does not hold in the plan" : " holds in no plan, not in that");
  for (uint32_t i = 0; i < lanes->count; i++) {
    if (!lanes->lane[i].chooser.refusal[pin]) continue;
    ord_text_add(text, "%sfor %s", separator, lanes->lane[i].name);
    separator = ", ";
  }
  ord_text_add(text, ": %s", find_refusal(lanes, pin));
}

/* In a lane that has no refusal it is chosen, or pins behind it select all its nodes. */
static bool is_held(const ord_lanes *lanes, uint32_t pin) {
  for (uint32_t i = 0; i < lanes->count; i++)
    if (!lanes->lane[i].chooser.refusal[pin]) return true;
  return false;
}

/* `log` gets a warning, since the pin's user asked for that kernel in every plan; may be NULL. */
static bool check_held(const ord_lanes *lanes, uint32_t pin, ord_log_fn log, void *log_context, ord_error *err) {
  if (!find_refusal(lanes, pin)) return true;
  const bool holds = is_held(lanes, pin);
  ord_text text = {0};
  tell_refusal(lanes, pin, holds, &text);
  if (text.failed)
    fail_settling(err);
  else if (!holds)
    ord_fail(err, ORD_UNSUPPORTED, "%s", text.bytes);
  else if (log)
    log(log_context, ORD_LOG_WARNING, text.bytes);
  const bool done = holds && !text.failed;
  ord_text_finish(&text);
  return done;
}

bool ord_lanes_settle_pins(const ord_session *session, uint32_t first_told, ord_lanes *lanes, ord_error *err) {
  const ord_context *context = session->model->context;
  const uint32_t count = lanes->chooser.pin_count;
  for (uint32_t i = 0; i < lanes->count; i++) {
    ord_lane *lane = &lanes->lane[i];
    const char **refusal = ord_arena_take(&lanes->arena, count, sizeof *refusal);
    if (!refusal) return fail_settling(err);
    lane->chooser = lanes->chooser;
    if (count > 0 && !settle_lane(session, lanes, lane, refusal, err)) return false;
  }
  for (uint32_t i = 0; i < count; i++)
    if (!check_held(lanes, i, i < first_told ? NULL : context->log, context->log_context, err)) return false;
  return true;
}
