/* SPDX-License-Identifier: MIT
 *
 * What the end-to-end tests begin with: a context with the built plugins, a model of the tree, a session. Included by
 * test programs only; every function fails the running test if something does not work.
 */
#ifndef ORDITO_TESTS_FIXTURE_H
#define ORDITO_TESTS_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>

#include "must.h"
#include "ordito.h"

#define MODEL(name) ORDITO_SOURCE_DIRECTORY "/models/" name ".yaml"
#define PLUGIN(name) ORDITO_BUILD_DIRECTORY "/lib/ordito/plugins/" name ".so"
#define TEST_PLUGIN(name) ORDITO_BUILD_DIRECTORY "/tests/plugins/" name ".so"

typedef struct stage {
  ord_context *context;
  ord_model *model;
  ord_session *session;
} stage;

static inline ord_context *open_context(int threads, bool with_plugins) {
  static const char *const plugin[] = {PLUGIN("attention_naive"), PLUGIN("cpu_plain")};
  const ord_context_options options = {.struct_size = sizeof options,
                                       .threads = threads,
                                       .plugin = plugin,
                                       .plugin_count = with_plugins ? 2 : 0,
                                       .no_default_plugins = true};
  ord_error err = ORD_ERROR_INIT;
  ord_context *context = NULL;
  MUST(ord_context_create(&options, &context, &err));
  return context;
}

/* weights: a path, or NULL for random ones. */
static inline ord_model *open_model(ord_context *context, const char *file, const char *size, const char *weights) {
  ord_error err = ORD_ERROR_INIT;
  ord_model *model = NULL;
  const ord_model_options options = {.struct_size = sizeof options, .size = size};
  MUST(ord_model_load(context, file, &options, &model, NULL, &err));
  const ord_weight_options where = {.struct_size = sizeof where, .path = weights, .random = weights == NULL, .seed = 1};
  MUST(ord_model_open_weights(model, &where, NULL, &err));
  return model;
}

static inline ord_session *open_session(ord_model *model, const ord_session_options *options) {
  ord_error err = ORD_ERROR_INIT;
  ord_session *session = NULL;
  MUST(ord_session_create(model, options, &session, &err));
  return session;
}

#define NANO_WEIGHTS ORDITO_SOURCE_DIRECTORY "/models/andrea-nano"

static inline stage open_nano(int threads, const ord_session_options *options) {
  stage s = {.context = open_context(threads, true)};
  s.model = open_model(s.context, MODEL("andrea-nano"), NULL, NANO_WEIGHTS);
  s.session = open_session(s.model, options);
  return s;
}

static inline void close_stage(stage *s) {
  ord_session_destroy(s->session);
  ord_model_destroy(s->model);
  ord_context_destroy(s->context);
}

#endif
