/* SPDX-License-Identifier: MIT
 *
 * ordito explain MODEL.yaml: kernel, plugin and variant per node, with each loser's reason.
 */
#include "cli/cli.h"

int cli_explain(const cli_request *request) {
  cli_stage stage;
  ord_error err = ORD_ERROR_INIT;
  char *report = NULL;
  int code = cli_open_model(request, &stage);
  if (code == CLI_OK) {
    ord_session_options options;
    cli_session_options(request, &options);
    code = ord_model_report_explain(stage.model, &options, request->json, &report, &err) ? cli_print(report)
                                                                                         : cli_fail(&err);
  }
  cli_close(&stage);
  return code;
}
