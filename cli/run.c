/* SPDX-License-Identifier: MIT
 *
 * ordito run MODEL.yaml --input x=x.npy --output y=y.npy: any model, once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/npy.h"

/* NAME=FILE taken apart; the name is malloc'ed. */
static bool split_pair(const char *option, const char *text, char **out_name, const char **out_file) {
  const char *equal = strchr(text, '=');
  if (!equal || equal == text || !equal[1]) {
    cli_say(stderr, "ordito: %s: found '%s'; wanted NAME=FILE.npy\n", option, text);
    return false;
  }
  *out_name = strndup(text, (size_t)(equal - text));
  *out_file = equal + 1;
  if (!*out_name) cli_say(stderr, "ordito: out of memory\n");
  return *out_name != NULL;
}

/* How to make an input of another type: whole numbers are 64 bits wide in Python unless one says otherwise. */
static void print_conversion(const ord_session *session, const char *name, const char *file, const ord_tensor *tensor) {
  static const struct {
    const char *described, *python;
    uint32_t dtype;
  } types[] = {{" f32 ", "float32", ORD_F32},
               {" f16 ", "float16", ORD_F16},
               {" i32 ", "int32", ORD_I32},
               {" i64 ", "int64", ORD_I64},
               {" bool ", "bool", ORD_BOOL}};
  const size_t length = strlen(name);
  const char *wanted = NULL;
  for (uint32_t i = 0; (wanted = ord_session_input(session, i)) != NULL; i++)
    if (strncmp(wanted, name, length) == 0 && wanted[length] == ' ') break;
  for (size_t i = 0; wanted && i < sizeof types / sizeof *types; i++)
    if (strncmp(wanted + length, types[i].described, strlen(types[i].described)) == 0 &&
        types[i].dtype != tensor->dtype)
      cli_say(stderr, "in Python: numpy.save('%s', numpy.load('%s').astype('%s'))\n", file, file, types[i].python);
}

static int set_input(ord_session *session, const char *text) {
  ord_error err = ORD_ERROR_INIT;
  char *name = NULL;
  const char *file = NULL;
  ord_tensor tensor = {.struct_size = sizeof tensor};
  void *data = NULL;
  if (!split_pair("--input", text, &name, &file)) return CLI_USAGE;
  const bool is_read = npy_read(file, &tensor, &data, &err);
  const bool done = is_read && ord_session_set(session, name, &tensor, &err);
  const int code = done ? CLI_OK : cli_fail(&err);
  if (is_read && !done) print_conversion(session, name, file, &tensor);
  free(data);
  free(name);
  return code;
}

static int write_output(ord_session *session, const char *option, const char *text) {
  ord_error err = ORD_ERROR_INIT;
  char *name = NULL;
  const char *file = NULL;
  ord_tensor tensor = {.struct_size = sizeof tensor};
  if (!split_pair(option, text, &name, &file)) return CLI_USAGE;
  const bool done = ord_session_get(session, name, &tensor, &err) && npy_write(file, &tensor, &err);
  if (done) {
    cli_say(stderr, "wrote %s: %s [", file, name);
    for (uint32_t i = 0; i < tensor.rank; i++) cli_say(stderr, i ? ", %lld" : "%lld", (long long)tensor.dim[i]);
    cli_say(stderr, "]\n");
  }
  free(name);
  return done ? CLI_OK : cli_fail(&err);
}

/* What could have been asked for, where nothing was. */
static void print_outputs(const ord_session *session) {
  cli_say(stderr, "it ran; --output NAME=FILE.npy writes an output:\n");
  const char *output;
  for (uint32_t i = 0; (output = ord_session_output(session, i)) != NULL; i++) cli_say(stderr, "  %s\n", output);
}

/* The names before `=`; malloc'ed. */
static const char **names_of(const char *option, const cli_list *list, int *code) {
  const char **name = calloc(list->count + 1, sizeof *name);
  for (uint32_t i = 0; name && i < list->count; i++) {
    char *one = NULL;
    const char *file = NULL;
    if (!split_pair(option, list->item[i], &one, &file)) *code = CLI_USAGE;
    name[i] = one;
  }
  if (!name) *code = CLI_MACHINE;
  return name;
}

static void free_names(const char **name, uint32_t count) {
  for (uint32_t i = 0; name && i < count; i++) free((void *)(uintptr_t)name[i]);
  free(name);
}

static int run(const cli_request *request, cli_stage *stage) {
  ord_error err = ORD_ERROR_INIT;
  int code = CLI_OK;
  for (uint32_t i = 0; code == CLI_OK && i < request->inputs.count; i++)
    code = set_input(stage->session, request->inputs.item[i]);
  if (code != CLI_OK) return code;
  cli_cancel_on_interrupt(stage->session);
  const bool done = ord_session_run(stage->session, &err);
  cli_cancel_on_interrupt(NULL);
  if (!done) return cli_fail(&err);
  for (uint32_t i = 0; code == CLI_OK && i < request->outputs.count; i++)
    code = write_output(stage->session, "--output", request->outputs.item[i]);
  for (uint32_t i = 0; code == CLI_OK && i < request->dumps.count; i++)
    code = write_output(stage->session, "--dump", request->dumps.item[i]);
  if (request->outputs.count + request->dumps.count == 0) print_outputs(stage->session);
  return code;
}

static int open_session(const cli_request *request, cli_stage *stage, const char *const *output,
                        const char *const *keep) {
  ord_error err = ORD_ERROR_INIT;
  ord_session_options options;
  int code = cli_open_model(request, stage);
  if (code == CLI_OK) code = cli_open_weights(request, stage->model);
  if (code != CLI_OK) return code;
  cli_session_options(request, &options);
  options.output = output;
  options.output_count = request->outputs.count;
  options.keep = keep;
  options.keep_count = request->dumps.count;
  return ord_session_create(stage->model, &options, &stage->session, &err) ? CLI_OK : cli_fail(&err);
}

int cli_run(const cli_request *request) {
  cli_stage stage = {0};
  int code = CLI_OK;
  const char **output = names_of("--output", &request->outputs, &code);
  const char **keep = names_of("--dump", &request->dumps, &code);
  if (code == CLI_OK) code = open_session(request, &stage, output, keep);
  if (code == CLI_OK) code = run(request, &stage);
  cli_close(&stage);
  free_names(output, request->outputs.count);
  free_names(keep, request->dumps.count);
  return code;
}
