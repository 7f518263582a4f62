/* SPDX-License-Identifier: MIT
 *
 * What most verbs begin with: context, model, weights, session; and how errors, logs and progress reach the user.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

int cli_fail(const ord_error *err) {
  fprintf(stderr, "ordito: %s\n", err->text);
  switch (err->code) {
  case ORD_UNSUPPORTED:
  case ORD_DEVICE_FAILED:
    return CLI_UNSUPPORTED;
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

int cli_flush(void) {
  errno = 0;
  if (fflush(stdout) == 0 && !ferror(stdout)) return CLI_OK;
  fprintf(stderr, "ordito: the output could not be written; %s\n", errno ? strerror(errno) : "an earlier write failed");
  return CLI_MACHINE;
}

int cli_print(char *report) {
  if (report) fputs(report, stdout);
  ord_text_free(report);
  return cli_flush();
}

static void print_log(void *context, int level, const char *text) {
  (void)context;
  if (level >= ORD_LOG_WARNING) fprintf(stderr, "ordito: %s\n", text);
}

int cli_open_context(const cli_request *request, ord_context **out) {
  ord_error err = ORD_ERROR_INIT;
  const ord_context_options options = {.struct_size = sizeof options,
                                       .threads = (int)request->threads,
                                       .cpu = request->cpu,
                                       .plugin = request->plugins.item,
                                       .plugin_count = request->plugins.count,
                                       .log = print_log};
  return ord_context_create(&options, out, &err) ? CLI_OK : cli_fail(&err);
}

int cli_load_model(const cli_request *request, ord_context *context, ord_model **out) {
  ord_error err = ORD_ERROR_INIT;
  char *messages = NULL;
  const ord_model_options options = {
      .struct_size = sizeof options, .size = request->size, .context = request->context, .strict = request->strict};
  const bool loaded = ord_model_load(context, request->positional[0], &options, out, &messages, &err);
  if (messages) fputs(messages, stderr);
  /* The list of messages says more than the one error that stands for it. */
  const bool is_told = messages && err.code == ORD_INVALID && !request->strict;
  ord_text_free(messages);
  if (loaded) return CLI_OK;
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

static bool read_seed(const char *text, uint64_t *out) {
  char *end = NULL;
  errno = 0;
  *out = strtoull(text, &end, 10);
  return end != text && !*end && !errno && *text != '-';
}

int cli_open_weights(const cli_request *request, ord_model *model) {
  static int last_percent = -1;
  ord_error err = ORD_ERROR_INIT;
  char *messages = NULL;
  ord_weight_options options = {.struct_size = sizeof options, .path = request->weights};
  if (request->random_weights) {
    options.random = true;
    if (!read_seed(request->random_weights, &options.seed)) {
      fprintf(stderr, "ordito: --random-weights: found '%s'; wanted a seed, a whole number from 0\n",
              request->random_weights);
      return CLI_USAGE;
    }
  }
  if (isatty(STDERR_FILENO)) {
    options.progress = print_progress;
    options.progress_context = &last_percent;
  }
  const bool opened = ord_model_open_weights(model, &options, &messages, &err);
  if (messages) fputs(messages, stderr);
  ord_text_free(messages);
  return opened ? CLI_OK : cli_fail(&err);
}

bool cli_read_type(const char *option, const char *word, const char *wanted, uint32_t *out) {
  static const struct {
    const char *word;
    uint32_t type;
  } types[] = {{"f32", ORD_F32}, {"f16", ORD_F16}, {"bf16", ORD_BF16}, {"int8", ORD_I8}};
  if (!word) return true;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strcmp(types[i].word, word) == 0 && strstr(wanted, word)) {
      *out = types[i].type;
      return true;
    }
  fprintf(stderr, "ordito: %s: found '%s'; wanted %s\n", option, word, wanted);
  return false;
}

static bool read_types(const cli_request *request, uint32_t *out_compute, uint32_t *out_kv_cache) {
  *out_compute = *out_kv_cache = 0;
  return cli_read_type("--compute", request->compute, "f32|bf16|int8", out_compute) &&
         cli_read_type("--kv-cache", request->kv_cache, "f32|bf16", out_kv_cache);
}

void cli_session_options(const cli_request *request, ord_session_options *out) {
  uint32_t compute, kv_cache;
  (void)read_types(request, &compute, &kv_cache);
  *out = (ord_session_options){.struct_size = sizeof *out,
                               .pin = request->kernels.item,
                               .pin_count = request->kernels.count,
                               .disabled_pass = request->disabled_passes.item,
                               .disabled_pass_count = request->disabled_passes.count,
                               .eager = request->eager,
                               .deny_fallback = request->fallback && strcmp(request->fallback, "deny") == 0,
                               .compute = compute,
                               .kv_cache = kv_cache};
}

static int check_fallback(const cli_request *request) {
  if (!request->fallback || strcmp(request->fallback, "deny") == 0 || strcmp(request->fallback, "allow") == 0)
    return CLI_OK;
  fprintf(stderr, "ordito: --fallback: found '%s'; wanted allow or deny\n", request->fallback);
  return CLI_USAGE;
}

int cli_open_model(const cli_request *request, cli_stage *out) {
  *out = (cli_stage){0};
  uint32_t compute, kv_cache;
  if (!read_types(request, &compute, &kv_cache)) return CLI_USAGE;
  int code = check_fallback(request);
  if (code == CLI_OK) code = cli_open_context(request, &out->context);
  if (code == CLI_OK) code = cli_load_model(request, out->context, &out->model);
  return code;
}

/* How much memory a session will take, before it is taken. */
static int print_memory(ord_model *model, const ord_session_options *options) {
  ord_error err = ORD_ERROR_INIT;
  ord_memory_report need = {.struct_size = sizeof need};
  if (!ord_model_estimate_memory(model, options, &need, &err)) return cli_fail(&err);
  fprintf(stderr, "memory: %.1f MB (weights %.1f, packed weights %.1f, cache %.1f, values %.1f)\n",
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
  if (code == CLI_OK) code = print_memory(stage->model, &options);
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
