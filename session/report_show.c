/* SPDX-License-Identifier: MIT
 *
 * `ordito show`: what the model file was turned into. Needs no weights; plans are made dry.
 */
#include <stdio.h>
#include <string.h>

#include "session/parameters.h"
#include "session/parts.h"

/* 28311552 -> "28,311,552", to the right in `width` columns; `number` is not negative. */
static void add_number(ord_text *text, int64_t number, int width) {
  char digits[32];
  const int length = snprintf(digits, sizeof digits, "%lld", (long long)number);
  const int blanks = width - length - (length - 1) / 3;
  ord_text_add(text, "%*s", blanks > 0 ? blanks : 0, "");
  for (int i = 0; i < length; i++) ord_text_add(text, i > 0 && (length - i) % 3 == 0 ? ",%c" : "%c", digits[i]);
}

static void add_shape(ord_text *text, const ord_graph *graph, uint32_t value) {
  ord_text_add(text, "%s ", ord_dtype_name(graph->value[value].dtype));
  ord_graph_print_shape(text, graph, value);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void show_name(const ord_model *model, ord_text *text) {
  const char *about = ord_description_about(model->description);
  ord_text_add(text, "%s", ord_model_name(model));
  if (about) ord_text_add(text, ": %s", about);
  ord_text_add(text, "\n");
}

static void show_dims(const ord_model *model, ord_text *text) {
  ord_text_add(text, "\ndims\n");
  const char *value = NULL;
  for (uint32_t i = 0;; i++) {
    const char *name = ord_description_dim(model->description, i, &value);
    if (!name) break;
    ord_text_add(text, "  %-20s %s\n", name, value);
  }
}

static void show_tensors(const ord_graph *graph, ord_text *text) {
  static const char *const fill_name[] = {"", "  fill: tokens", "  fill: positions", "  fill: lengths",
                                          "  fill: a number"};
  ord_text_add(text, "\ninputs\n");
  for (uint32_t i = 0; i < graph->input_count; i++) {
    ord_text_add(text, "  %-20s ", graph->input[i].name);
    add_shape(text, graph, graph->input[i].value);
    ord_text_add(text, "%s\n", fill_name[graph->input[i].fill]);
  }
  ord_text_add(text, "\noutputs\n");
  for (uint32_t i = 0; i < graph->output_count; i++) {
    ord_text_add(text, "  %-20s ", graph->output[i].name);
    add_shape(text, graph, graph->output[i].value);
    ord_text_add(text, "\n");
  }
}

static bool show_parameters(const ord_graph *graph, ord_text *text, ord_error *err) {
  ord_arena arena = {0};
  ord_part *part = NULL;
  uint32_t count = 0;
  const bool done = ord_parts_make(graph, &arena, &part, &count, err);
  ord_text_add(text, "\nparameters\n");
  for (uint32_t i = 0; i < count; i++) {
    ord_text_add(text, "  %-40s ", *part[i].pattern ? part[i].pattern : "(the whole model)");
    add_number(text, part[i].all, 14);
    if (part[i].count > 1) {
      ord_text_add(text, "  (%u parts, ", part[i].count);
      add_number(text, part[i].each, 0);
      ord_text_add(text, " in the first)");
    }
    ord_text_add(text, "\n");
  }
  ord_arena_finish(&arena);
  return done;
}

static void show_passes(const ord_lane *lane, ord_text *text) {
  ord_text_add(text, "\npasses for %s (ops, bytes moved, peak bytes: before -> after)\n", lane->name);
  for (uint32_t i = 0; i < ord_pass_count(); i++) {
    const ord_pass_record *record = &lane->record[i];
    ord_text_add(text, "  %-18s ", ord_pass_get(i)->name);
    if (record->was_disabled) {
      ord_text_add(text, "disabled\n");
      continue;
    }
    ord_text_add(text, "ops %u -> %u, moved %llu -> %llu, peak %llu -> %llu\n", record->ops_before, record->ops_after,
                 (unsigned long long)record->moved_before, (unsigned long long)record->moved_after,
                 (unsigned long long)record->peak_before, (unsigned long long)record->peak_after);
    ord_text_add(text, "    %s\n", ord_pass_get(i)->about);
  }
  if (lane->plan->written_out_count)
    ord_text_add(text, "  written out in the plan all the same: %u composite%s that no kernel serves\n",
                 lane->plan->written_out_count, ord_plural(lane->plan->written_out_count));
  ord_text_add(text, "\ngraph for %s after the passes\n", lane->name);
  ord_graph_print(text, lane->graph);
}

static void show_plan(const ord_lane *lane, ord_text *text) {
  const ord_plan *plan = lane->plan;
  ord_text_add(text, "\nplan for %s: %u step%s, %u phase%s, arena %zu bytes, %zu for each thread, %zu bytes moved\n",
               lane->name, plan->step_count, ord_plural(plan->step_count), plan->phase_count,
               ord_plural(plan->phase_count), plan->arena_bytes, plan->worker_bytes, plan->moved_bytes);
  for (uint32_t i = 0; i < plan->step_count; i++) {
    const ord_step *step = &plan->step[i];
    ord_text_add(text, "  %4u  %-18s %-22s %s@%s", i, step->node.op, step->choice.answer.variant,
                 step->choice.kernel->name, step->choice.plugin->manifest->name);
    for (uint32_t e = 0; e < step->node.epilogue_count; e++) ord_text_add(text, " +%s", step->node.epilogue[e].op);
    for (uint32_t p = 0; p < step->path_count; p++) ord_text_add(text, "%s%s", p ? ", " : "  ", step->path[p]);
    ord_text_add(text, "\n");
  }
}

static bool show_text(const ord_model *model, const ord_show_options *options, const ord_session *plans, ord_text *text,
                      ord_error *err) {
  show_name(model, text);
  if (options->passes == options->plan) { /* one of them alone is all that is wanted */
    show_dims(model, text);
    show_tensors(model->graph, text);
    ord_text_add(text, "\nops\n");
    ord_graph_print(text, model->graph);
    if (!show_parameters(model->graph, text, err)) return false;
  }
  for (uint32_t i = 0; plans && i < plans->lanes->count; i++) {
    if (options->passes) show_passes(&plans->lanes->lane[i], text);
    if (options->plan) show_plan(&plans->lanes->lane[i], text);
  }
  return true;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void json_tensor(ord_text *text, const ord_graph *graph, const char *name, uint32_t value, bool is_first) {
  const ord_value *what = &graph->value[value];
  ord_text_add(text, "%s\n    {\"name\": ", is_first ? "" : ",");
  ord_text_add_json(text, name);
  ord_text_add(text, ", \"dtype\": \"%s\", \"shape\": [", ord_dtype_name(what->dtype));
  for (uint32_t i = 0; i < what->rank; i++) {
    ord_text size = {0};
    ord_size_print(&size, what->dim[i], graph->run_dim_name);
    if (i) ord_text_add(text, ", ");
    ord_text_add_json(text, size.bytes ? size.bytes : "");
    ord_text_finish(&size);
  }
  ord_text_add(text, "]}");
}

static void json_ops(ord_text *text, const ord_graph *graph) {
  for (uint32_t n = 0; n < graph->node_count; n++) {
    const ord_graph_node *node = &graph->node[n];
    ord_text_add(text, "%s\n    {\"op\": \"%s\", \"path\": ", n ? "," : "", node->op->name);
    ord_text_add_json(text, node->path[0]);
    ord_text_add(text, ", \"results\": [");
    for (uint32_t i = 0, given = 0; i < node->out_count; i++)
      if (node->out[i] != ORD_NONE)
        json_tensor(text, graph, graph->value[node->out[i]].name, node->out[i], given++ == 0);
    ord_text_add(text, "]}");
  }
}

static bool json_parameters(ord_text *text, const ord_graph *graph, ord_error *err) {
  ord_arena arena = {0};
  ord_part *part = NULL;
  uint32_t count = 0;
  const bool done = ord_parts_make(graph, &arena, &part, &count, err);
  for (uint32_t i = 0; i < count; i++) {
    ord_text_add(text, "%s\n    {\"part\": ", i ? "," : "");
    ord_text_add_json(text, part[i].pattern);
    ord_text_add(text, ", \"parts\": %u, \"each\": %lld, \"all\": %lld}", part[i].count, (long long)part[i].each,
                 (long long)part[i].all);
  }
  ord_arena_finish(&arena);
  return done;
}

static void json_passes(ord_text *text, const ord_lane *lane) {
  for (uint32_t i = 0; i < ord_pass_count(); i++) {
    const ord_pass_record *record = &lane->record[i];
    ord_text_add(text,
                 "%s\n    {\"pass\": \"%s\", \"disabled\": %s, \"ops\": [%u, %u], \"moved_bytes\": [%llu, %llu], "
                 "\"peak_bytes\": [%llu, %llu]}",
                 i ? "," : "", ord_pass_get(i)->name, record->was_disabled ? "true" : "false", record->ops_before,
                 record->ops_after, (unsigned long long)record->moved_before, (unsigned long long)record->moved_after,
                 (unsigned long long)record->peak_before, (unsigned long long)record->peak_after);
  }
}

static void json_plan(ord_text *text, const ord_lane *lane, bool is_first) {
  const ord_plan *plan = lane->plan;
  ord_text_add(text, "%s\n  {\"plan\": \"%s\", \"passes\": [", is_first ? "" : ",", lane->name);
  json_passes(text, lane);
  ord_text_add(text,
               "],\n   \"written_out\": %u, \"arena_bytes\": %zu, \"moved_bytes\": %zu, \"phases\": %u, \"steps\": [",
               plan->written_out_count, plan->arena_bytes, plan->moved_bytes, plan->phase_count);
  for (uint32_t i = 0; i < plan->step_count; i++) {
    ord_text_add(text, "%s\n    {", i ? "," : "");
    ord_report_step_json(text, &plan->step[i]);
    ord_text_add(text, "}");
  }
  ord_text_add(text, "]}");
}

static bool show_json(const ord_model *model, const ord_session *plans, ord_text *text, ord_error *err) {
  const ord_graph *graph = model->graph;
  ord_text_add(text, "{\n  \"name\": ");
  ord_text_add_json(text, ord_model_name(model));
  ord_text_add(text, ",\n  \"dims\": {");
  const char *value = NULL;
  for (uint32_t i = 0;; i++) {
    const char *name = ord_description_dim(model->description, i, &value);
    if (!name) break;
    ord_text_add(text, "%s\n    \"%s\": ", i ? "," : "", name);
    ord_text_add_json(text, value);
  }
  ord_text_add(text, "},\n  \"inputs\": [");
  for (uint32_t i = 0; i < graph->input_count; i++)
    json_tensor(text, graph, graph->input[i].name, graph->input[i].value, i == 0);
  ord_text_add(text, "],\n  \"outputs\": [");
  for (uint32_t i = 0; i < graph->output_count; i++)
    json_tensor(text, graph, graph->output[i].name, graph->output[i].value, i == 0);
  ord_text_add(text, "],\n  \"ops\": [");
  json_ops(text, graph);
  ord_text_add(text, "],\n  \"parameters\": [");
  if (!json_parameters(text, graph, err)) return false;
  ord_text_add(text, "]");
  if (plans) {
    ord_text_add(text, ",\n  \"plans\": [");
    for (uint32_t i = 0; i < plans->lanes->count; i++) json_plan(text, &plans->lanes->lane[i], i == 0);
    ord_text_add(text, "]");
  }
  ord_text_add(text, "\n}\n");
  return true;
}

/* ---- */

const char *ord_pass_name(uint32_t index) { return index < ord_pass_count() ? ord_pass_get(index)->name : NULL; }

bool ord_model_report_show(ord_model *model, const ord_show_options *options, char **out, ord_error *err) {
  ord_show_options own;
  if (!ord_struct_take(options, "ord_show_options", &own, sizeof own, err)) return false;
  options = &own;
  const bool needs_plan = options->passes || options->plan;
  ord_session *plans = NULL;
  ord_text text = {0};
  *out = NULL;
  if (needs_plan && !ord_session_create_dry(model, options->session, &plans, err)) return false;
  const bool done = options->json ? show_json(model, plans, &text, err) : show_text(model, options, plans, &text, err);
  ord_session_destroy(plans);
  if (done) return ord_text_give(&text, "writing a report", out, err);
  ord_text_finish(&text);
  return false;
}
