/* SPDX-License-Identifier: MIT
 *
 * --config FILE: what a run configuration says joins what the command line says. The lists of the file come first, so
 * that the last pin, which counts, is the command line's; of single options the command line's wins (shared.c).
 */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

/* Puts `count` items before those of the list. */
static bool put_before(cli_list *list, const char *const *item, uint32_t count) {
  if (count == 0) return true;
  const char **joined = malloc((size_t)(count + list->count) * sizeof *joined);
  if (!joined) {
    cli_say(stderr, "ordito: out of memory\n");
    return false;
  }
  memcpy(joined, item, count * sizeof *joined);
  if (list->count > 0) memcpy(joined + count, list->item, list->count * sizeof *joined);
  free(list->item);
  list->item = joined;
  list->count += count;
  return true;
}

int cli_load_config(cli_request *request) {
  ord_error err = ORD_ERROR_INIT;
  char *messages = NULL;
  if (!request->config) return CLI_OK;
  const bool loaded = ord_run_config_load(request->config, &request->run_config, &messages, &err);
  if (messages) cli_write(stderr, messages);
  const bool is_told = messages != NULL;
  ord_text_free(messages);
  if (!loaded) return is_told && err.code == ORD_INVALID ? CLI_WRONG : cli_fail(&err);
  ord_context_options context = {.struct_size = sizeof context};
  ord_session_options session = {.struct_size = sizeof session};
  ord_run_config_apply(request->run_config, &context, NULL, &session);
  request->configured = session.pin_count;
  return put_before(&request->plugins, context.plugin, context.plugin_count) &&
                 put_before(&request->kernels, session.pin, session.pin_count)
             ? CLI_OK
             : CLI_MACHINE;
}
