/* SPDX-License-Identifier: MIT
 *
 * ordito convert MODEL.yaml FILE --to FILE [--dtype bf16]
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static bool find_kind(const char *to, ord_file_kind *out) {
  const char *dot = to ? strrchr(to, '.') : NULL;
  if (dot && strcmp(dot, ".safetensors") == 0)
    *out = ORD_FILE_SAFETENSORS;
  else if (dot && strcmp(dot, ".bin") == 0)
    *out = ORD_FILE_CHECKPOINT;
  else {
    cli_say(stderr, "ordito: --to: found '%s'; wanted a name that ends in .safetensors, or .bin for a checkpoint\n",
            to ? to : "nothing");
    return false;
  }
  return true;
}

/* A checkpoint holds f32 and nothing else. */
static bool check_type(const cli_request *request, ord_file_kind kind) {
  if (kind != ORD_FILE_CHECKPOINT || !request->dtype || cli_type_of(request->dtype) == ORD_F32) return true;
  cli_say(stderr, "ordito: --dtype: found '%s'; wanted f32, which is what the checkpoint '%s' of --to holds\n",
          request->dtype, request->to);
  return false;
}

static volatile sig_atomic_t is_interrupted;

static void note_interrupt(int signal_number) {
  (void)signal_number;
  is_interrupted = 1;
}

static bool go_on(void *context, uint64_t done, uint64_t all) {
  (void)context, (void)done, (void)all;
  return !is_interrupted;
}

/* An interrupt ends it between two writes, so that the library removes what was written. */
static int convert(const cli_request *request, ord_model *model, ord_file_kind kind) {
  ord_error err = ORD_ERROR_INIT;
  signal(SIGINT, note_interrupt);
  signal(SIGTERM, note_interrupt);
  char *messages = NULL;
  const bool done = ord_model_convert(model, request->positional[1], request->to, kind, cli_type_of(request->dtype),
                                      go_on, NULL, &messages, &err);
  if (messages) cli_write(stderr, messages);
  ord_text_free(messages);
  if (!done) return cli_fail(&err);
  cli_say(stderr, "wrote %s\n", request->to);
  return CLI_OK;
}

int cli_convert(const cli_request *request) {
  cli_stage stage;
  ord_file_kind kind = ORD_FILE_SAFETENSORS;
  if (!find_kind(request->to, &kind) || !check_type(request, kind)) return CLI_USAGE;
  int code = cli_open_model(request, &stage);
  if (code == CLI_OK) code = convert(request, stage.model, kind);
  cli_close(&stage);
  return code;
}
