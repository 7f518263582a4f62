/* SPDX-License-Identifier: MIT
 *
 * ordito generate MODEL.yaml: text on stdout as it comes, words about it on stderr.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

#define DEFAULT_TOKENS 128
#define DEFAULT_CONTEXT 2048 /* caches of a longer one cost memory that few prompts need */

typedef struct output {
  int32_t *id; /* [capacity], for --print-ids */
  uint32_t count;
  bool has_text, failed;
} output;

/* ---- the prompt -------------------------------------------------------------------------------------------------- */

static int parse_ids(const char *text, int32_t **out, size_t *out_count) {
  size_t count = 0;
  int32_t *id = malloc((strlen(text) / 2 + 1) * sizeof *id);
  if (!id) {
    cli_say(stderr, "ordito: out of memory\n");
    return CLI_MACHINE;
  }
  for (const char *at = text; *at;) {
    char *end = NULL;
    errno = 0;
    const long long number = strtoll(at, &end, 10);
    if (end == at || errno || number < INT32_MIN || number > INT32_MAX || (*end && *end != ',') || (*end && !end[1])) {
      cli_say(stderr, "ordito: --prompt-ids: found '%s'; wanted token ids with commas, as 1,2,3\n", at);
      free(id);
      return CLI_USAGE;
    }
    id[count++] = (int32_t)number;
    at = *end ? end + 1 : end;
  }
  *out = id;
  *out_count = count;
  return CLI_OK;
}

/* Longer than any context; a pipe that never ends must not eat the memory. */
enum { PROMPT_LIMIT = 16 << 20 };

static int read_stdin(char **out, size_t *out_bytes) {
  char *text = malloc(PROMPT_LIMIT + 1);
  *out = text;
  *out_bytes = text ? fread(text, 1, PROMPT_LIMIT + 1, stdin) : 0;
  if (!text) {
    cli_say(stderr, "ordito: out of memory\n");
    return CLI_MACHINE;
  }
  if (ferror(stdin)) {
    cli_say(stderr, "ordito: --prompt: stdin cannot be read; %s\n", strerror(errno));
    return CLI_MACHINE;
  }
  if (*out_bytes <= PROMPT_LIMIT) return CLI_OK;
  cli_say(stderr, "ordito: --prompt: found more than %d bytes on stdin; wanted fewer\n", PROMPT_LIMIT);
  return CLI_WRONG;
}

static int encode(const ord_model *model, const char *text, size_t bytes, int32_t **out, size_t *out_count) {
  ord_error err = ORD_ERROR_INIT;
  int32_t *id = NULL;
  if (!ord_model_encode(model, text, bytes, &id, out_count, &err)) return cli_fail(&err);
  *out = malloc((*out_count + 1) * sizeof **out); /* own memory, so that both kinds of prompt are freed alike */
  if (*out) memcpy(*out, id, *out_count * sizeof **out);
  ord_ids_free(id);
  return *out ? CLI_OK : CLI_MACHINE;
}

static int read_prompt(const cli_request *request, const ord_model *model, int32_t **out, size_t *out_count) {
  *out = NULL;
  *out_count = 0;
  if (request->prompt && request->prompt_ids) {
    cli_say(stderr, "ordito: found --prompt and --prompt-ids; wanted one of them\n");
    return CLI_USAGE;
  }
  if (request->prompt_ids) return parse_ids(request->prompt_ids, out, out_count);
  if (!request->prompt || !*request->prompt) return CLI_OK; /* the model's start token */
  if (strcmp(request->prompt, "-") != 0) return encode(model, request->prompt, strlen(request->prompt), out, out_count);
  char *text = NULL;
  size_t bytes = 0;
  int code = read_stdin(&text, &bytes);
  if (code == CLI_OK && bytes > 0) code = encode(model, text, bytes, out, out_count);
  free(text);
  return code;
}

/* ---- the tokens -------------------------------------------------------------------------------------------------- */

static bool print_token(void *context, int32_t id, const char *text, size_t bytes) {
  output *out = context;
  out->id[out->count++] = id;
  if (bytes == 0) return true;
  out->has_text = true;
  if (fwrite(text, 1, bytes, stdout) == bytes && fflush(stdout) == 0) return true;
  out->failed = true; /* a full disk or a closed pipe: no use in going on */
  return false;
}

static void print_speed(const ord_generate_result *result) {
  const double prefill = (double)result->prefill_ns / 1e9, decode = (double)result->decode_ns / 1e9;
  if (result->token_count == 0) return; /* nothing ran */
  cli_say(stderr, "%u prompt token%s in %.1f ms (%.0f tokens/s)", result->prompt_count,
          cli_plural(result->prompt_count), prefill * 1e3, result->prompt_count / prefill);
  const uint32_t others = result->token_count - 1;
  if (others > 0)
    cli_say(stderr, ", %u token%s after the first in %.1f ms (%.0f tokens/s)", others, cli_plural(others), decode * 1e3,
            others / decode);
  cli_say(stderr, "\n");
}

static int print_ids(const output *out) {
  for (uint32_t i = 0; i < out->count; i++) printf("%s%d", i ? "," : "", out->id[i]);
  printf("\n");
  return cli_flush();
}

/* Ends the line of the text first, so that the words about it have their own on a terminal. */
static int print_end(const cli_request *request, const output *out, const ord_generate_result *result) {
  if (out->has_text && !out->failed) printf("\n");
  const int code = cli_flush();
  if (code != CLI_OK) return code;
  print_speed(result);
  return request->print_ids ? print_ids(out) : CLI_OK;
}

/* How many tokens: as asked; else 128, or what the context still holds, at least one. */
static uint32_t token_limit(const cli_request *request, const ord_model *model, size_t prompt_count) {
  if (request->tokens >= 0) return (uint32_t)request->tokens;
  const int64_t room = ord_model_context(model) - (int64_t)(prompt_count ? prompt_count : 1);
  return room < DEFAULT_TOKENS ? (uint32_t)(room > 1 ? room : 1) : DEFAULT_TOKENS;
}

static int generate(const cli_request *request, cli_stage *stage, const int32_t *prompt, size_t prompt_count) {
  ord_error err = ORD_ERROR_INIT;
  ord_generate_result result = {.struct_size = sizeof result};
  const ord_generate_options options = {.struct_size = sizeof options,
                                        .max_tokens = token_limit(request, stage->model, prompt_count),
                                        .temperature = (float)request->temperature,
                                        .top_k = (int32_t)request->top_k,
                                        .top_p = (float)request->top_p,
                                        .seed = (uint64_t)request->seed,
                                        .ignore_stop = request->ignore_stop};
  output out = {.id = malloc(((size_t)options.max_tokens + 1) * sizeof *out.id)};
  if (!out.id) {
    cli_say(stderr, "ordito: out of memory\n");
    return CLI_MACHINE;
  }
  cli_cancel_on_interrupt(stage->session);
  const bool done =
      ord_session_generate(stage->session, prompt, prompt_count, &options, print_token, &out, &result, &err);
  cli_cancel_on_interrupt(NULL);
  if (!done && out.has_text) fprintf(stderr, "\n");
  const int code = done ? print_end(request, &out, &result) : cli_fail(&err);
  free(out.id);
  return code;
}

int cli_generate(const cli_request *request) {
  cli_stage stage;
  int32_t *prompt = NULL;
  size_t prompt_count = 0;
  int code = cli_open_bounded(request, DEFAULT_CONTEXT, &stage);
  if (code == CLI_OK) code = read_prompt(request, stage.model, &prompt, &prompt_count);
  if (code == CLI_OK) code = cli_start_session(request, true, &stage);
  if (code == CLI_OK) code = generate(request, &stage, prompt, prompt_count);
  free(prompt);
  cli_close(&stage);
  return code;
}
