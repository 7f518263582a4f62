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

/* The kernels of a context beside the reference: none; all that are built, of which the fast ones come first, as for
 * users; those of plain C alone. */
typedef enum plugin_set { NO_PLUGINS, ALL_PLUGINS, PLAIN_PLUGINS } plugin_set;

/* Sanitizers make programs slow; some tests then do less. */
static inline bool is_slow_build(void) { return getenv("ORDITO_SLOW_BUILD") != NULL; }

/* A way to run a model. */
typedef struct setup {
  const char *name;
  plugin_set plugins;
  const char *cpu;            /* as in ord_context_options */
  uint32_t compute, kv_cache; /* as in ord_session_options */
} setup;

/* The first is what users get who ask for nothing else. A level that the machine lacks becomes the one that it has. */
static const setup setups[] = {
    {"as users get it", ALL_PLUGINS, NULL, 0, 0},
    {"plain kernels", PLAIN_PLUGINS, NULL, 0, 0},
    {"bf16", ALL_PLUGINS, NULL, ORD_BF16, ORD_BF16},
    {"int8", ALL_PLUGINS, NULL, ORD_I8, 0},
    {"int8, bf16 caches", ALL_PLUGINS, NULL, ORD_I8, ORD_BF16},
    {"avx2", ALL_PLUGINS, "avx2", 0, 0},
    {"avx2, bf16", ALL_PLUGINS, "avx2", ORD_BF16, ORD_BF16},
    {"avx2, int8", ALL_PLUGINS, "avx2", ORD_I8, 0},
    {"baseline", ALL_PLUGINS, "baseline", 0, 0},
    {"baseline, bf16", ALL_PLUGINS, "baseline", ORD_BF16, ORD_BF16},
    {"baseline, int8", ALL_PLUGINS, "baseline", ORD_I8, 0},
};
enum { SETUP_COUNT = sizeof setups / sizeof *setups, NATIVE_SETUP_COUNT = 4 };

static inline ord_context_options context_options_for(const setup *how, int threads) {
  static const char *const plain[] = {PLUGIN("attention_naive"), PLUGIN("cpu_plain")};
  static const char *const all[] = {PLUGIN("attention_flash"), PLUGIN("attention_naive"), PLUGIN("cpu_plain"),
                                    PLUGIN("cpu_x86")};
  static const uint32_t count[] = {[NO_PLUGINS] = 0, [ALL_PLUGINS] = 4, [PLAIN_PLUGINS] = 2};
  return (ord_context_options){.struct_size = sizeof(ord_context_options),
                               .threads = threads,
                               .plugin = how->plugins == ALL_PLUGINS ? all : plain,
                               .plugin_count = count[how->plugins],
                               .no_default_plugins = true,
                               .cpu = how->cpu};
}

static inline ord_context *open_context_for(const setup *how, int threads) {
  ord_context_options options = context_options_for(how, threads);
  ord_error err = ORD_ERROR_INIT;
  ord_context *context = NULL;
  if (ord_context_create(&options, &context, &err)) return context;
  if (err.code == ORD_UNSUPPORTED) options.cpu = NULL;
  MUST(ord_context_create(&options, &context, &err));
  return context;
}

static inline ord_context *open_context(int threads, plugin_set plugins) {
  return open_context_for(&(setup){.plugins = plugins}, threads);
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

static inline ord_session_options options_for(const setup *how, const ord_session_options *options) {
  ord_session_options made = options ? *options : (ord_session_options){.struct_size = sizeof made};
  made.compute = how->compute;
  made.kv_cache = how->kv_cache;
  return made;
}

static inline stage open_nano_for(const setup *how, int threads, const ord_session_options *options) {
  const ord_session_options all = options_for(how, options);
  stage s = {.context = open_context_for(how, threads)};
  s.model = open_model(s.context, MODEL("andrea-nano"), NULL, NANO_WEIGHTS);
  s.session = open_session(s.model, &all);
  return s;
}

static inline stage open_nano(int threads, const ord_session_options *options) {
  return open_nano_for(&setups[0], threads, options);
}

static inline void close_stage(stage *s) {
  ord_session_destroy(s->session);
  ord_model_destroy(s->model);
  ord_context_destroy(s->context);
}

#endif
