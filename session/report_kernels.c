/* SPDX-License-Identifier: MIT
 *
 * Reports about kernels: what there is (`ordito kernels`), which one computes what and why (`ordito explain`), and
 * the op table of the format's page.
 */
#include "session/parts.h"

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* One line for an op: kernels of the same op that follow one another share it. */
static void kernel_text(const ord_kernel *kernel, const ord_kernel *before, ord_text *text) {
  if (before && strcmp(before->op, kernel->op) == 0)
    ord_text_add(text, ", %s %d", kernel->name, kernel->priority);
  else
    ord_text_add(text, "%s  %-20s %-28s priority %d", before ? "\n" : "", kernel->op, kernel->name, kernel->priority);
}

static void kernels_text(const ord_registry *registry, ord_text *text) {
  for (uint32_t i = 0; i < ord_registry_count(registry); i++) {
    const ord_plugin_entry *entry = ord_registry_get(registry, i);
    ord_text_add(text, "%s %s  %s  digest %016llx\n", entry->manifest->name, entry->manifest->version, entry->file,
                 (unsigned long long)entry->digest);
    for (uint32_t k = 0; k < entry->plugin->kernel_count; k++)
      kernel_text(entry->plugin->kernel[k], k ? entry->plugin->kernel[k - 1] : NULL, text);
    if (entry->plugin->kernel_count) ord_text_add(text, "\n");
  }
  for (uint32_t i = 0; i < ord_registry_verdict_count(registry); i++) {
    const ord_plugin_verdict verdict = ord_registry_verdict(registry, i);
    if (verdict.refused) ord_text_add(text, "refused %s\n", verdict.refused); /* begins with the file */
  }
}

static void kernels_json(const ord_registry *registry, ord_text *text) {
  ord_text_add(text, "{\"plugins\": [");
  for (uint32_t i = 0; i < ord_registry_count(registry); i++) {
    const ord_plugin_entry *entry = ord_registry_get(registry, i);
    ord_text_add(text,
                 "%s\n  {\"name\": \"%s\", \"version\": \"%s\", \"digest\": \"%016llx\", \"file\": ", i ? "," : "",
                 entry->manifest->name, entry->manifest->version, (unsigned long long)entry->digest);
    ord_text_add_json(text, entry->file);
    ord_text_add(text, ", \"kernels\": [");
    for (uint32_t k = 0; k < entry->plugin->kernel_count; k++) {
      const ord_kernel *kernel = entry->plugin->kernel[k];
      ord_text_add(text, "%s\n    {\"op\": \"%s\", \"kernel\": \"%s\", \"priority\": %d}", k ? "," : "", kernel->op,
                   kernel->name, kernel->priority);
    }
    ord_text_add(text, "]}");
  }
  ord_text_add(text, "],\n\"refused\": [");
  bool is_first = true;
  for (uint32_t i = 0; i < ord_registry_verdict_count(registry); i++) {
    const ord_plugin_verdict verdict = ord_registry_verdict(registry, i);
    if (!verdict.refused) continue;
    ord_text_add(text, "%s\n  {\"file\": ", is_first ? "" : ",");
    ord_text_add_json(text, verdict.file);
    ord_text_add(text, ", \"reason\": ");
    ord_text_add_json(text, verdict.refused);
    ord_text_add(text, "}");
    is_first = false;
  }
  ord_text_add(text, "]}\n");
}

bool ord_context_report_kernels(ord_context *context, bool json, char **out, ord_error *err) {
  ord_text text = {0};
  *out = NULL;
  if (json)
    kernels_json(context->registry, &text);
  else
    kernels_text(context->registry, &text);
  return ord_text_give(&text, "writing a report", out, err);
}

/* ---- explain ----------------------------------------------------------------------------------------------------- */

static void explain_head(const ord_context *context, ord_text *text) {
  const ord_registry *registry = context->registry;
  ord_text_add(text, "device\n  %s\nplugins\n", context->device->info.name);
  for (uint32_t i = 0; i < ord_registry_count(registry); i++) {
    const ord_plugin_entry *entry = ord_registry_get(registry, i);
    ord_text_add(text, "  %-16s %-8s digest %016llx  %s\n", entry->manifest->name, entry->manifest->version,
                 (unsigned long long)entry->digest, entry->file);
  }
}

static void explain_step_text(const ord_step *step, ord_text *text) {
  for (uint32_t i = 0; i < step->path_count; i++) ord_text_add(text, "%s%s", i ? ", " : "", step->path[i]);
  ord_text_add(text, "\n  %s", step->node.op);
  for (uint32_t i = 0; i < step->node.epilogue_count; i++) ord_text_add(text, " + %s", step->node.epilogue[i].op);
  ord_text_add(text, ": %s of %s%s%s%s%s\n", step->choice.kernel->name, step->choice.plugin->manifest->name,
               *step->choice.answer.variant ? ", variant " : "", step->choice.answer.variant,
               step->choice.plugin->is_reference ? ", the fallback" : "", step->choice.pin ? ", forced" : "");
  for (uint32_t i = 0; i < step->choice.verdict_count; i++) {
    const ord_verdict *verdict = &step->choice.verdict[i];
    if (verdict->reason)
      ord_text_add(text, "    not %s of %s: %s\n", verdict->kernel->name, verdict->plugin->manifest->name,
                   verdict->reason);
  }
}

void ord_report_step_json(ord_text *text, const ord_step *step) {
  ord_text_add(text, "\"paths\": [");
  for (uint32_t i = 0; i < step->path_count; i++) {
    if (i) ord_text_add(text, ", ");
    ord_text_add_json(text, step->path[i]);
  }
  ord_text_add(text, "], \"op\": \"%s\", \"epilogues\": [", step->node.op);
  for (uint32_t i = 0; i < step->node.epilogue_count; i++)
    ord_text_add(text, "%s\"%s\"", i ? ", " : "", step->node.epilogue[i].op);
  ord_text_add(text, "], \"kernel\": \"%s\", \"plugin\": \"%s\", \"variant\": ", step->choice.kernel->name,
               step->choice.plugin->manifest->name);
  ord_text_add_json(text, step->choice.answer.variant);
}

static void explain_step_json(const ord_step *step, ord_text *text) {
  ord_text_add(text, "{");
  ord_report_step_json(text, step);
  ord_text_add(text,
               ", \"version\": \"%s\", \"digest\": \"%016llx\", \"file\": ", step->choice.plugin->manifest->version,
               (unsigned long long)step->choice.plugin->digest);
  ord_text_add_json(text, step->choice.plugin->file);
  ord_text_add(text, ", \"forced\": %s, \"fallback\": %s, \"scratch_bytes\": %llu, \"losers\": [",
               step->choice.pin ? "true" : "false", step->choice.plugin->is_reference ? "true" : "false",
               (unsigned long long)step->choice.answer.scratch_bytes);
  bool is_first = true;
  for (uint32_t i = 0; i < step->choice.verdict_count; i++) {
    const ord_verdict *verdict = &step->choice.verdict[i];
    if (!verdict->reason) continue;
    ord_text_add(text, "%s{\"kernel\": \"%s\", \"plugin\": \"%s\", \"reason\": ", is_first ? "" : ", ",
                 verdict->kernel->name, verdict->plugin->manifest->name);
    ord_text_add_json(text, verdict->reason);
    ord_text_add(text, "}");
    is_first = false;
  }
  ord_text_add(text, "]}");
}

static void explain_plan_head(const ord_lane *lane, ord_text *text) {
  const uint32_t steps = lane->plan->step_count, written_out = lane->plan->written_out_count;
  ord_text_add(text, "\nplan for %s: %u step%s\n", lane->name, steps, ord_plural(steps));
  if (written_out)
    ord_text_add(text, "written out, though the pass is disabled: %u composite%s that no kernel serves\n", written_out,
                 ord_plural(written_out));
  for (uint32_t i = 0; i < lane->chooser.pin_count; i++) {
    if (!lane->chooser.refusal[i]) continue;
    ord_text_add(text, "without the pin ");
    ord_pin_tell(&lane->chooser.pin[i], text);
    ord_text_add(text, ": %s\n", lane->chooser.refusal[i]);
  }
  ord_text_add(text, "\n");
}

static void explain_pins_json(const ord_chooser *chooser, ord_text *text) {
  bool is_first = true;
  ord_text_add(text, "\"without_pins\": [");
  for (uint32_t i = 0; i < chooser->pin_count; i++) {
    if (!chooser->refusal[i]) continue;
    ord_text pin = {0};
    ord_pin_tell(&chooser->pin[i], &pin);
    if (pin.failed) text->failed = true;
    ord_text_add(text, "%s{\"pin\": ", is_first ? "" : ", ");
    ord_text_add_json(text, pin.failed ? "" : pin.bytes);
    ord_text_add(text, ", \"reason\": ");
    ord_text_add_json(text, chooser->refusal[i]);
    ord_text_add(text, "}");
    ord_text_finish(&pin);
    is_first = false;
  }
  ord_text_add(text, "], ");
}

static void explain_plan(const ord_lane *lane, bool json, bool is_first, ord_text *text) {
  const ord_plan *plan = lane->plan;
  if (json) {
    ord_text_add(text, "%s\n{\"plan\": \"%s\", \"written_out\": %u, ", is_first ? "" : ",", lane->name,
                 plan->written_out_count);
    explain_pins_json(&lane->chooser, text);
    ord_text_add(text, "\"steps\": [");
  } else {
    explain_plan_head(lane, text);
  }
  for (uint32_t i = 0; i < plan->step_count; i++) {
    if (json) ord_text_add(text, "%s\n  ", i ? "," : "");
    if (json)
      explain_step_json(&plan->step[i], text);
    else
      explain_step_text(&plan->step[i], text);
  }
  if (json) ord_text_add(text, "]}");
}

bool ord_model_report_explain(ord_model *model, const ord_session_options *options, bool json, char **out,
                              ord_error *err) {
  ord_session *session = NULL;
  ord_text text = {0};
  *out = NULL;
  if (!ord_session_create_dry(model, options, &session, err)) return false;
  if (json) {
    ord_text_add(&text, "{\"device\": ");
    ord_text_add_json(&text, model->context->device->info.name);
    ord_text_add(&text, ", \"plans\": [");
  } else {
    explain_head(model->context, &text);
  }
  for (uint32_t i = 0; i < session->lanes->count; i++) explain_plan(&session->lanes->lane[i], json, i == 0, &text);
  if (json) ord_text_add(&text, "]}\n");
  ord_session_destroy(session);
  return ord_text_give(&text, "writing a report", out, err);
}

bool ord_report_ops(char **out, ord_error *err) {
  ord_text text = {0};
  if (!ord_op_table_print(&text)) text.failed = true;
  return ord_text_give(&text, "writing a report", out, err);
}
