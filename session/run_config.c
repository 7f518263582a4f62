/* SPDX-License-Identifier: MIT
 *
 * A run configuration as the caller of ordito.h has it: the file is read once, and says its part about the options of
 * context, model and session.
 */
#include "models/run_config.h"

#include <assert.h>
#include <stdlib.h>

#include "models/yaml.h"
#include "session/parts.h"

struct ord_run_config {
  ord_run_rules rules;
  char *text; /* the rules point into it */
};

static bool read(ord_run_config *config, const char *file, size_t bytes, char **out_messages, ord_error *err) {
  ord_diagnostics list;
  ord_diagnostics_init(&list);
  bool done = ord_run_rules_read(file, config->text, bytes, &list, &config->rules);
  if (!done) ord_diagnostics_fail(&list, err);
  if (!ord_messages_give(&list, out_messages, err)) done = false;
  ord_diagnostics_finish(&list);
  return done;
}

bool ord_run_config_load(const char *file, ord_run_config **out, char **out_messages, ord_error *err) {
  *out = NULL;
  if (out_messages) *out_messages = NULL;
  ord_run_config *config = calloc(1, sizeof *config);
  if (!config) return ord_fail_memory(err, "reading a run configuration");
  size_t bytes = 0;
  if (!ord_text_file_read(file, ORD_YAML_BYTE_LIMIT, &config->text, &bytes, err) ||
      !read(config, file, bytes, out_messages, err)) {
    ord_run_config_destroy(config);
    return false;
  }
  *out = config;
  return true;
}

void ord_run_config_destroy(ord_run_config *config) {
  if (!config) return;
  ord_run_rules_finish(&config->rules);
  free(config->text);
  free(config);
}

static void apply_to_context(const ord_run_rules *rules, ord_context_options *context) {
  if (rules->has_threads) context->threads = (int)rules->threads;
  if (rules->cpu) context->cpu = rules->cpu;
  if (rules->device) context->device = rules->device;
  if (rules->plugin) {
    context->plugin = rules->plugin;
    context->plugin_count = rules->plugin_count;
  }
}

static void apply_to_session(const ord_run_rules *rules, ord_session_options *session) {
  if (rules->pin) {
    session->pin = rules->pin;
    session->pin_count = rules->pin_count;
  }
  if (rules->compute) session->compute = rules->compute;
  if (rules->kv_cache) session->kv_cache = rules->kv_cache;
  if (rules->has_capture) session->capture = rules->capture;
  if (rules->has_fallback) session->deny_fallback = rules->denies_fallback;
}

static void apply_to_model(const ord_run_rules *rules, ord_model_options *model) {
  if (rules->context) model->context = rules->context;
}

/* A struct without its size is left alone: the call that it is made for says so. */
void ord_run_config_apply(const ord_run_config *config, ord_context_options *context, ord_model_options *model,
                          ord_session_options *session) {
  ord_context_options of_context;
  ord_model_options of_model;
  ord_session_options of_session;
  bool done = true;
  if (context && ord_struct_take(context, "ord_context_options", &of_context, sizeof of_context, NULL)) {
    apply_to_context(&config->rules, &of_context);
    done = ord_struct_give(&of_context, "ord_context_options", context, sizeof of_context, NULL);
  }
  if (model && ord_struct_take(model, "ord_model_options", &of_model, sizeof of_model, NULL)) {
    apply_to_model(&config->rules, &of_model);
    done &= ord_struct_give(&of_model, "ord_model_options", model, sizeof of_model, NULL);
  }
  if (session && ord_struct_take(session, "ord_session_options", &of_session, sizeof of_session, NULL)) {
    apply_to_session(&config->rules, &of_session);
    done &= ord_struct_give(&of_session, "ord_session_options", session, sizeof of_session, NULL);
  }
  assert(done); /* their sizes were checked */
  (void)done;
}
