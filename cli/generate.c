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
  const cli_request *request;
  const char *device;
  ord_session *session;
  bool has_tried, has_swapped; /* what --swap-at asks for */
  ord_swap_result swap;
  ord_error swap_error;
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

/* ---- --swap-at --------------------------------------------------------------------------------------------------- */

/* Those of --kernel; those of a configuration are there from the start. */
static cli_list swapped_in(const cli_request *request) {
  const cli_list *all = &request->kernels;
  return (cli_list){all->item + request->configured, all->count - request->configured};
}

static bool swap_kernels(output *out) {
  const cli_list kernels = swapped_in(out->request);
  const ord_swap_options options = {.struct_size = sizeof options, .pin = kernels.item, .pin_count = kernels.count};
  out->swap = (ord_swap_result){.struct_size = sizeof out->swap};
  const bool done = ord_session_swap_kernel(out->session, &options, &out->swap, &out->swap_error);
  out->has_tried = true;
  out->has_swapped = done;
  return done;
}

/* Before anything is generated: whether there will be so many tokens, and kernels of these names that serve. */
static int check_swap(const cli_request *request, ord_model *model, uint32_t tokens) {
  ord_error err = ORD_ERROR_INIT;
  ord_session_options swapped;
  ord_memory_report unused = {.struct_size = sizeof unused};
  if (request->swap_at == 0) return CLI_OK;
  if (request->swap_at > tokens) {
    cli_say(stderr, "ordito: --swap-at: found %lld; wanted at most %u, as many tokens as are made\n",
            (long long)request->swap_at, tokens);
    return request->tokens >= 0 ? CLI_USAGE : CLI_WRONG;
  }
  cli_session_options(request, &swapped);
  swapped.generates = true;
  return ord_model_estimate_memory(model, &swapped, &unused, &err) ? CLI_OK : cli_fail(&err);
}

/* When the text is out, so that words do not run into it. What is simulated has no times that mean anything. */
static int print_swap(const output *out) {
  const ord_swap_result *swap = &out->swap;
  if (out->request->swap_at == 0) return CLI_OK;
  const cli_list kernels = swapped_in(out->request);
  if (!out->has_tried) {
    cli_say(stderr, "ordito: nothing was swapped: the generation ended after %u token%s; wanted %lld (--swap-at)\n",
            out->count, cli_plural(out->count), (long long)out->request->swap_at);
    return CLI_WRONG;
  }
  if (!out->has_swapped) return cli_fail(&out->swap_error);
  cli_say(stderr, "swapped");
  for (uint32_t i = 0; i < kernels.count; i++) cli_say(stderr, "%s %s", i ? "," : "", kernels.item[i]);
  cli_say(stderr, " after %lld token%s: %u node%s, difference %.2g of at most %.2g", (long long)out->request->swap_at,
          cli_plural((uint64_t)out->request->swap_at), swap->node_count, cli_plural(swap->node_count), swap->difference,
          swap->tolerance);
  if (!out->request->simulated)
    cli_say(stderr, "; prepared in %.1f ms, compared in %.1f ms, flipped in %.2f us", (double)swap->prepare_ns / 1e6,
            (double)swap->compare_ns / 1e6, (double)swap->flip_ns / 1e3);
  cli_say(stderr, "\n");
  return CLI_OK;
}

/* ---- the tokens -------------------------------------------------------------------------------------------------- */

static bool print_token(void *context, int32_t id, const char *text, size_t bytes) {
  output *out = context;
  out->id[out->count++] = id;
  if (bytes > 0) {
    out->has_text = true;
    out->failed = fwrite(text, 1, bytes, stdout) != bytes || fflush(stdout) != 0;
    if (out->failed) return false; /* a full disk or a closed pipe: no use in going on */
  }
  return out->count != out->request->swap_at || swap_kernels(out);
}

/* On a GPU its name comes first. */
static void print_speed(const output *out, const ord_generate_result *result) {
  const double prefill = (double)result->prefill_ns / 1e9, decode = (double)result->decode_ns / 1e9;
  if (result->token_count == 0) return; /* nothing ran */
  const uint32_t others = result->token_count - 1;
  if (strcmp(out->device, "cpu") != 0) cli_say(stderr, "%s: ", out->device);
  if (out->request->simulated) {
    cli_say(stderr, "%u prompt token%s, %u token%s after the first; no speed, since it is simulated\n",
            result->prompt_count, cli_plural(result->prompt_count), others, cli_plural(others));
    return;
  }
  cli_say(stderr, "%u prompt token%s in %.1f ms (%.0f tokens/s)", result->prompt_count,
          cli_plural(result->prompt_count), prefill * 1e3, result->prompt_count / prefill);
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
static int print_end(const output *out, const ord_generate_result *result) {
  if (out->has_text && !out->failed) printf("\n");
  int code = cli_flush();
  if (code != CLI_OK) return code;
  const int swap_code = print_swap(out);
  print_speed(out, result);
  if (out->request->print_ids) code = print_ids(out);
  return swap_code != CLI_OK ? swap_code : code;
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
                                        .loop = cli_loop(request),
                                        .max_tokens = token_limit(request, stage->model, prompt_count),
                                        .temperature = (float)request->temperature,
                                        .top_k = (int32_t)request->top_k,
                                        .top_p = (float)request->top_p,
                                        .seed = (uint64_t)request->seed,
                                        .ignore_stop = request->ignore_stop};
  output out = {.id = malloc(((size_t)options.max_tokens + 1) * sizeof *out.id),
                .request = request,
                .session = stage->session,
                .device = ord_context_device_info(stage->context)->name,
                .swap_error = ORD_ERROR_INIT};
  if (!out.id) {
    cli_say(stderr, "ordito: out of memory\n");
    return CLI_MACHINE;
  }
  cli_cancel_on_interrupt(stage->session);
  const bool done =
      ord_session_generate(stage->session, prompt, prompt_count, &options, print_token, &out, &result, &err);
  cli_cancel_on_interrupt(NULL);
  if (!done && out.has_text) fprintf(stderr, "\n");
  const int code = done ? print_end(&out, &result) : cli_fail(&err);
  free(out.id);
  return code;
}

int cli_generate(const cli_request *request) {
  cli_stage stage;
  int32_t *prompt = NULL;
  size_t prompt_count = 0;
  cli_request at_start = *request;
  if (request->swap_at > 0) at_start.kernels.count = request->configured;
  if (request->swap_at > 0 && request->kernels.count == request->configured) {
    cli_say(stderr, "ordito: --swap-at: found no --kernel; wanted the kernels to swap in\n");
    return CLI_USAGE;
  }
  int code = cli_open_bounded(request, DEFAULT_CONTEXT, &stage);
  if (code == CLI_OK) code = read_prompt(request, stage.model, &prompt, &prompt_count);
  if (code == CLI_OK) code = cli_start_session(&at_start, true, &stage);
  if (code == CLI_OK) code = check_swap(request, stage.model, token_limit(request, stage.model, prompt_count));
  if (code == CLI_OK) code = generate(request, &stage, prompt, prompt_count);
  free(prompt);
  cli_close(&stage);
  return code;
}
