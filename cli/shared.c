/* SPDX-License-Identifier: MIT
 *
 * What most verbs begin with: context, model, weights, session; and how errors, logs and progress reach the user.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

int cli_fail(const ord_error *err) {
  cli_say(stderr, "ordito: %s\n", err->text);
  switch (err->code) {
  case ORD_UNSUPPORTED:
    return CLI_UNSUPPORTED;
  case ORD_DEVICE_FAILED:
  case ORD_NO_MEMORY:
  case ORD_IO:
  case ORD_INTERNAL:
    return CLI_MACHINE;
  case ORD_CANCELLED:
    return CLI_INTERRUPTED;
  default:
    return CLI_WRONG;
  }
}

double cli_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

int cli_print(char *report) {
  if (report) cli_write(stdout, report);
  ord_text_free(report);
  return cli_flush();
}

static void print_log(void *context, int level, const char *text) {
  (void)context;
  if (level >= ORD_LOG_WARNING) cli_say(stderr, "ordito: %s\n", text);
}

static const char *choose_device(const cli_request *request, const char *configured) {
  if (request->device) return request->device;
  if (request->simulated) return "cuda"; /* no other device is simulated */
  return configured ? configured : "cpu";
}

const char *cli_device(const cli_request *request) {
  ord_context_options options = {.struct_size = sizeof options};
  if (request->run_config) ord_run_config_apply(request->run_config, &options, NULL, NULL);
  return choose_device(request, options.device);
}

int cli_open_context(const cli_request *request, ord_context **out) {
  ord_error err = ORD_ERROR_INIT;
  ord_context_options options = {.struct_size = sizeof options, .log = print_log};
  if (request->run_config) ord_run_config_apply(request->run_config, &options, NULL, NULL);
  if (request->threads >= 0) options.threads = (int)request->threads;
  if (request->cpu) options.cpu = request->cpu;
  options.device = choose_device(request, options.device);
  options.simulated = request->simulated;
  options.checked = request->checked;
  options.no_dependent_launch = request->no_dependent_launch;
  options.plugin = request->plugins.item;
  options.plugin_count = request->plugins.count;
  return ord_context_create(&options, out, &err) ? CLI_OK : cli_fail(&err);
}

/* A context that the model does not have is a slip: it would change nothing. */
static int check_context(int64_t wanted, const ord_model *model) {
  const int64_t most = ord_model_context(model);
  if (wanted <= most) return CLI_OK;
  if (most == 0)
    cli_say(stderr, "ordito: context: found %lld; %s has neither caches nor tokens that could be bounded\n",
            (long long)wanted, ord_model_name(model));
  else
    cli_say(stderr, "ordito: context: found %lld; wanted at most %lld, the context of %s\n", (long long)wanted,
            (long long)most, ord_model_name(model));
  return CLI_WRONG;
}

int cli_load_model(const cli_request *request, ord_context *context, int64_t most, ord_model **out) {
  ord_error err = ORD_ERROR_INIT;
  char *messages = NULL;
  ord_model_options options = {.struct_size = sizeof options, .size = request->size, .strict = request->strict};
  if (request->run_config) ord_run_config_apply(request->run_config, NULL, &options, NULL);
  if (request->context) options.context = request->context;
  const int64_t wanted = options.context;
  bool loaded = ord_model_load(context, request->positional[0], &options, out, &messages, &err);
  const int64_t full = loaded && most > 0 && wanted == 0 ? ord_model_context(*out) : 0;
  if (full > most) { /* the same file gives the same warnings again */
    ord_text_free(messages);
    ord_model_destroy(*out);
    options.context = most;
    loaded = ord_model_load(context, request->positional[0], &options, out, &messages, &err);
  }
  if (messages && !(loaded && request->is_repeated)) cli_write(stderr, messages);
  /* The list of messages says more than the one error that stands for it. */
  const bool is_told = messages && err.code == ORD_INVALID && !request->strict;
  ord_text_free(messages);
  if (loaded && full > most)
    cli_say(stderr, "context bounded to %lld of %lld tokens (--context)\n", (long long)most, (long long)full);
  if (loaded) return check_context(wanted, *out);
  return is_told ? CLI_WRONG : cli_fail(&err);
}

/* Progress on a terminal only: a line that is written over. */
static bool print_progress(void *context, uint64_t done, uint64_t all) {
  int *last = context;
  const int percent = all ? (int)(100 * done / all) : 100;
  if (percent == *last) return true;
  *last = percent;
  fprintf(stderr, percent < 100 ? "\rloading weights %d %%" : "\r                    \r", percent);
  return true;
}

int cli_open_weights(const cli_request *request, ord_model *model) {
  static int last_percent = -1;
  ord_error err = ORD_ERROR_INIT;
  char *messages = NULL;
  ord_weight_options options = {.struct_size = sizeof options,
                                .path = request->weights,
                                .random = request->random_weights >= 0,
                                .seed = (uint64_t)request->random_weights};
  if (isatty(STDERR_FILENO)) {
    options.progress = print_progress;
    options.progress_context = &last_percent;
  }
  const bool opened = ord_model_open_weights(model, &options, &messages, &err);
  if (messages && !(opened && request->is_repeated)) cli_write(stderr, messages);
  ord_text_free(messages);
  return opened ? CLI_OK : cli_fail(&err);
}

/* The types that options.def speaks of: those of products, one of them with another word too. */
static const struct {
  const char *word;
  uint32_t type;
} types[] = {
#define COMPUTE(name, type, half_step) {name, type},
#define COMPUTE_GPU COMPUTE
#include "ordito_compute.def"
    {"i8", ORD_I8}};
enum { TYPE_COUNT = sizeof types / sizeof *types };

uint32_t cli_type_of(const char *word) {
  for (size_t i = 0; word && i < TYPE_COUNT; i++)
    if (strcmp(types[i].word, word) == 0) return types[i].type;
  return 0;
}

const char *cli_type_name(uint32_t type) {
  size_t i = 0;
  while (i + 1 < TYPE_COUNT && types[i].type != type) i++;
  return types[i].word;
}

uint32_t cli_place_of(const char *word, const char *const *words) {
  uint32_t place = 0;
  while (words[place] && strcmp(words[place], word) != 0) place++;
  return place;
}

uint32_t cli_loop(const cli_request *request) {
  static const char *const loops[] = {"auto", "off", "whole", "ahead", NULL}; /* in the order of ord_loop_mode */
  return request->loop ? cli_place_of(request->loop, loops) : ORD_LOOP_AUTO;
}

void cli_session_options(const cli_request *request, ord_session_options *out) {
  static const char *const policies[] = {"require", "prefer", "off", NULL}; /* in the order of ord_capture_policy */
  *out = (ord_session_options){.struct_size = sizeof *out};
  if (request->run_config) ord_run_config_apply(request->run_config, NULL, NULL, out);
  out->pin = request->kernels.item;
  out->pin_count = request->kernels.count;
  out->disabled_pass = request->disabled_passes.item;
  out->disabled_pass_count = request->disabled_passes.count;
  if (request->capture) out->capture = cli_place_of(request->capture, policies);
  if (request->fallback) out->deny_fallback = strcmp(request->fallback, "deny") == 0;
  if (request->compute) out->compute = cli_type_of(request->compute);
  if (request->kv_cache) out->kv_cache = cli_type_of(request->kv_cache);
}

int cli_open_bounded(const cli_request *request, int64_t most, cli_stage *out) {
  *out = (cli_stage){0};
  int code = cli_open_context(request, &out->context);
  if (code == CLI_OK) code = cli_load_model(request, out->context, most, &out->model);
  return code;
}

int cli_open_model(const cli_request *request, cli_stage *out) { return cli_open_bounded(request, 0, out); }

int cli_print_memory(ord_model *model, const ord_session_options *options) {
  ord_error err = ORD_ERROR_INIT;
  ord_memory_report need = {.struct_size = sizeof need};
  if (!ord_model_estimate_memory(model, options, &need, &err)) return cli_fail(&err);
  cli_say(stderr, "memory: %.1f MB (weights %.1f, packed weights %.1f, cache %.1f, values %.1f)\n",
          (double)need.peak / 1e6, (double)need.weights / 1e6, (double)need.packed / 1e6, (double)need.cache / 1e6,
          (double)need.arena / 1e6);
  return CLI_OK;
}

int cli_start_session(const cli_request *request, bool generates, cli_stage *stage) {
  ord_error err = ORD_ERROR_INIT;
  ord_session_options options;
  int code = cli_open_weights(request, stage->model);
  cli_session_options(request, &options);
  options.generates = generates;
  if (code == CLI_OK) code = cli_print_memory(stage->model, &options);
  if (code != CLI_OK) return code;
  return ord_session_create(stage->model, &options, &stage->session, &err) ? CLI_OK : cli_fail(&err);
}

void cli_close(cli_stage *stage) {
  ord_session_destroy(stage->session);
  ord_model_destroy(stage->model);
  ord_context_destroy(stage->context);
  *stage = (cli_stage){0};
}

static _Atomic(ord_session *) interruptible;

/* ord_session_cancel only stores a flag, so a signal handler may call it. A second Ctrl-C ends the program. */
static void on_interrupt(int signal_number) {
  ord_session *session = atomic_exchange(&interruptible, NULL);
  if (session) {
    ord_session_cancel(session);
    return;
  }
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

void cli_cancel_on_interrupt(ord_session *session) {
  atomic_store(&interruptible, session);
  struct sigaction action = {.sa_handler = on_interrupt};
  sigaction(SIGINT, session ? &action : &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
}
