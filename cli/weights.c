/* SPDX-License-Identifier: MIT
 *
 * ordito weights MODEL.yaml FILE: the dry run; exit code 1 if a weight cannot be served.
 */
#include "cli/cli.h"

int cli_weights(const cli_request *request) {
  cli_stage stage;
  ord_error err = ORD_ERROR_INIT;
  char *report = NULL;
  uint32_t faults = 0;
  int code = cli_open_model(request, &stage);
  if (code == CLI_OK)
    code = ord_model_report_weights(stage.model, request->positional[1], request->json, &report, &faults, &err)
               ? cli_print(report)
               : cli_fail(&err);
  cli_close(&stage);
  return code == CLI_OK && faults > 0 ? CLI_WRONG : code;
}
