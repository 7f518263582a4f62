/* SPDX-License-Identifier: MIT
 *
 * Lowering, first part: nodes become steps with a kernel each. Puts a cache_append before each attention whose kernel
 * does not append, checks that every pin selects something, and says once per op where only the reference serves.
 */
#include <string.h>

#include "graphs/lower_parts.h"

static const char DOING[] = "choosing kernels";

/* ---- cache_append --------------------------------------------------------------------------------------------- */

/* Unknown until its kernel is: an attention that nobody serves is told later, with all others. */
static bool needs_append(const ord_lower *lower, const ord_graph_node *node, bool *out, ord_error *err) {
  *out = false;
  if (node->cache == ORD_NONE || !(node->op->flags & ORD_OP_ATTENDS)) return true;
  ord_arena arena = {0};
  ord_described described;
  ord_choice choice;
  ord_error refusal = ORD_ERROR_INIT;
  const ord_chooser *chooser = lower->options->chooser;
  if (ord_describe_node(lower->graph, node, chooser, &arena, &described, &refusal) &&
      ord_choose(chooser, &described.node, node->path, node->path_count, &arena, &choice, &refusal))
    *out = !(choice.answer.flags & ORD_APPENDS);
  ord_arena_finish(&arena);
  return refusal.code != ORD_NO_MEMORY || ord_fail_memory(err, DOING);
}

/* Its slots are those of the attention that have the same names. */
static bool append_before(ord_lower *lower, const ord_graph_node *attention, ord_error *err) {
  const ord_op *op = ord_op_find("cache_append");
  if (!op) return ord_fail(err, ORD_INTERNAL, "there is no op 'cache_append'");
  ord_arena *arena = &lower->graph->arena;
  ord_graph_node node = *attention;
  node.op = op;
  node.in_count = op->slot_count;
  node.in = ord_arena_take(arena, op->slot_count, sizeof *node.in);
  node.out_count = node.attr_count = 0;
  node.path = ord_arena_take(arena, 1, sizeof *node.path);
  node.path_count = 1;
  const char *path = ord_arena_format(arena, "%s.cache_append", attention->path[0]);
  if (!node.in || !node.path || !path) return ord_fail_memory(err, DOING);
  node.path[0] = path;
  for (uint32_t i = 0; i < op->slot_count; i++) {
    const uint32_t slot = ord_op_find_slot(attention->op, op->slot[i].name);
    node.in[i] = slot < attention->in_count ? attention->in[slot] : ORD_NONE;
  }
  return ord_graph_append_node(lower->graph, &node, err);
}

static bool insert_appends(ord_lower *lower, ord_error *err) {
  ord_graph *graph = lower->graph;
  const ord_graph_node *old = graph->node;
  const uint32_t count = graph->node_count;
  graph->node = NULL;
  graph->node_count = graph->node_capacity = 0;
  for (uint32_t n = 0; n < count; n++) {
    bool appends;
    if (!needs_append(lower, &old[n], &appends, err) || (appends && !append_before(lower, &old[n], err)) ||
        !ord_graph_append_node(graph, &old[n], err))
      return false;
  }
  ord_graph_close_gaps(graph);
  return true;
}

/* ---- pins ----------------------------------------------------------------------------------------------------- */

static bool pin_selects_any(const ord_graph *graph, const ord_pin *pin) {
  for (uint32_t n = 0; n < graph->node_count; n++) {
    const ord_graph_node *node = &graph->node[n];
    if (ord_pin_matches(pin, node->op->name, node->path, node->path_count)) return true;
  }
  return false;
}

static bool is_first_of_its_op(const ord_graph *graph, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (graph->node[i].op == graph->node[n].op) return false;
  return true;
}

/* Names the nearest of all paths and ops, and the ops that there are. */
static bool fail_pin(const ord_lower *lower, ord_arena *arena, const ord_pin *pin, ord_error *err) {
  const ord_graph *graph = lower->graph;
  uint32_t name_count = 0, name_max = graph->node_count;
  for (uint32_t n = 0; n < graph->node_count; n++) name_max += graph->node[n].path_count;
  const char **name = ord_arena_take(arena, name_max, sizeof *name);
  ord_text ops = {0};
  for (uint32_t n = 0; name && n < graph->node_count; n++) {
    const ord_graph_node *node = &graph->node[n];
    for (uint32_t i = 0; i < node->path_count; i++) name[name_count++] = node->path[i];
    if (!is_first_of_its_op(graph, n)) continue;
    name[name_count++] = node->op->name;
    ord_text_add(&ops, "%s%s", ops.length ? ", " : "", node->op->name);
  }
  if (!name || ops.failed) {
    ord_text_finish(&ops);
    return ord_fail_memory(err, DOING);
  }
  const char *nearest = ord_nearest_name(pin->selector, name, name_count);
  ord_fail(err, ORD_INVALID, "pin %s=%s: '%s' selects no node; wanted a layer path or one of the ops %s%s%s%s",
           pin->selector, pin->kernel, pin->selector, ops.length ? ops.bytes : "(none)",
           nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
  ord_text_finish(&ops);
  return false;
}

static bool check_pins(ord_lower *lower, ord_error *err) {
  const ord_chooser *chooser = lower->options->chooser;
  for (uint32_t i = 0; i < chooser->pin_count; i++)
    if (!(chooser->refusal && chooser->refusal[i]) && /* without it, what it selected may be gone from the graph */
        !pin_selects_any(lower->graph, &chooser->pin[i]))
      return fail_pin(lower, &lower->arena, &chooser->pin[i], err);
  return true;
}

/* ---- steps ---------------------------------------------------------------------------------------------------- */

/* A pass folds only what the kernel takes; a pin that came to choose another kernel since would drop the rest. */
static bool check_answer(const ord_step *step, ord_error *err) {
  const uint32_t served = step->choice.answer.epilogue_served, wanted = step->node.epilogue_count;
  return served == wanted || ord_fail(err, ORD_UNSUPPORTED, "%s: kernel %s fuses %u of %u epilogue items; wanted all",
                                      step->node.label, step->choice.kernel->name, served, wanted);
}

static bool choose_step(ord_lower *lower, uint32_t n, ord_error *err) {
  ord_plan *plan = lower->plan;
  const ord_graph_node *node = &lower->graph->node[n];
  ord_step *step = &plan->step[n];
  ord_described *described = &lower->described[n];
  step->path = ord_texts_copy(&plan->arena, node->path, node->path_count);
  if (!step->path) return ord_fail_memory(err, DOING);
  step->path_count = node->path_count;
  if (!ord_describe_node(lower->graph, node, lower->options->chooser, &plan->arena, described, err)) return false;
  step->node = described->node;
  return ord_choose(lower->options->chooser, &step->node, step->path, step->path_count, &plan->arena, &step->choice,
                    err) &&
         check_answer(step, err);
}

enum { TOLD_MAX = 5 }; /* nodes without a kernel that a message lists; the reasons are often the same */

static bool choose_steps(ord_lower *lower, ord_error *err) {
  ord_refused_pin *refused_pin = lower->options->refused;
  ord_text refusals = {0};
  uint32_t refused = 0;
  for (uint32_t n = 0; n < lower->plan->step_count; n++) {
    ord_error refusal = ORD_ERROR_INIT;
    if (choose_step(lower, n, &refusal)) continue;
    if (refusal.code != ORD_UNSUPPORTED) {
      if (err) *err = refusal;
      ord_text_finish(&refusals);
      return false;
    }
    const ord_pin *pin = lower->plan->step[n].choice.pin;
    if (refused_pin && !refused_pin->pin) *refused_pin = (ord_refused_pin){pin, refusal};
    if (refused++ < TOLD_MAX) ord_text_add(&refusals, "\n%s", refusal.text);
  }
  if (refused > TOLD_MAX) ord_text_add(&refusals, "\nand %u more", refused - TOLD_MAX);
  if (refusals.failed)
    ord_fail_memory(err, DOING);
  else if (refused)
    ord_fail(err, ORD_UNSUPPORTED, "%u of %u node%s without a kernel:%s", refused, lower->plan->step_count,
             ord_plural(lower->plan->step_count), refusals.bytes);
  ord_text_finish(&refusals);
  return refused == 0;
}

/* ---- the log -------------------------------------------------------------------------------------------------- */

/* Why the first of the other kernels lost; they stand behind the winner. */
static const char *find_reason(const ord_choice *choice) {
  for (uint32_t i = 0; i < choice->verdict_count; i++)
    if (choice->verdict[i].reason && !choice->verdict[i].plugin->is_reference) return choice->verdict[i].reason;
  return "no other kernel knows the op";
}

static void log_fallback(const ord_lower *lower, const ord_step *step, uint32_t count) {
  ord_text line = {0};
  ord_text_add(&line, "%s falls to the reference at %s", step->node.op, step->node.label);
  if (count > 1) ord_text_add(&line, " and %u more", count - 1);
  ord_text_add(&line, ": %s", find_reason(&step->choice));
  if (!line.failed) lower->options->log(lower->options->log_context, ORD_LOG_INFO, line.bytes);
  ord_text_finish(&line);
}

/* Each op is told of once, at its first node. */
static bool log_fallbacks(ord_lower *lower, ord_error *err) {
  const ord_plan *plan = lower->plan;
  const ord_op **told = ord_arena_take(&lower->arena, ord_op_count(), sizeof(const ord_op *));
  uint32_t told_count = 0;
  if (!told) return ord_fail_memory(err, DOING);
  for (uint32_t n = 0; lower->options->log && n < plan->step_count; n++) {
    const ord_op *op = lower->graph->node[n].op;
    uint32_t place = 0, count = 0;
    while (place < told_count && told[place] != op) place++;
    if (!plan->step[n].choice.plugin->is_reference || place < told_count) continue;
    told[told_count++] = op;
    for (uint32_t i = n; i < plan->step_count; i++)
      count += lower->graph->node[i].op == op && plan->step[i].choice.plugin->is_reference;
    log_fallback(lower, &plan->step[n], count);
  }
  return true;
}

bool ord_lower_choose(ord_lower *lower, ord_error *err) {
  if (!insert_appends(lower, err) || !check_pins(lower, err)) return false;
  const uint32_t count = lower->graph->node_count;
  ord_plan *plan = lower->plan;
  plan->step = ord_arena_take(&plan->arena, count, sizeof *plan->step);
  lower->described = ord_arena_take(&lower->arena, count, sizeof *lower->described);
  if (!plan->step || !lower->described) return ord_fail_memory(err, DOING);
  plan->step_count = count;
  return choose_steps(lower, err) && log_fallbacks(lower, err);
}
