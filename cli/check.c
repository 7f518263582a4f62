/* SPDX-License-Identifier: MIT
 *
 * ordito check MODEL.yaml ..: every fault and warning of the files, no weights, no kernel.
 */
#include <stdio.h>

#include "cli/cli.h"

static int check_one(const cli_request *request, ord_context *context, int index) {
  cli_request one = *request;
  ord_model *model = NULL;
  one.positional = &request->positional[index];
  const int code = cli_load_model(&one, context, 0, &model);
  if (code == CLI_OK) {
    const char *about = ord_model_about(model);
    cli_say(stdout, "%s: %s is right%s%s\n", one.positional[0], ord_model_name(model), about ? ": " : "",
            about ? about : "");
  }
  ord_model_destroy(model);
  return code;
}

int cli_check(const cli_request *request) {
  ord_context *context = NULL;
  int code = cli_open_context(request, &context);
  for (int i = 0; code != CLI_MACHINE && context && i < request->positional_count; i++) {
    const int one = check_one(request, context, i);
    if (one != CLI_OK) code = one;
  }
  ord_context_destroy(context);
  const int flushed = cli_flush();
  return code != CLI_OK ? code : flushed;
}
