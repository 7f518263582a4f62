/* SPDX-License-Identifier: MIT
 *
 * ordito show MODEL.yaml: what the file was turned into; with --op-table, the table of all ops.
 */
#include <stdio.h>

#include "cli/cli.h"

static int show_ops(void) {
  ord_error err = ORD_ERROR_INIT;
  char *report = NULL;
  return ord_report_ops(&report, &err) ? cli_print(report) : cli_fail(&err);
}

int cli_show(const cli_request *request) {
  if (request->op_table) return show_ops();
  if (request->positional_count == 0) {
    cli_say(stderr, "ordito: show: found no model; wanted MODEL.yaml, or --op-table\n");
    return CLI_USAGE;
  }
  cli_stage stage;
  ord_error err = ORD_ERROR_INIT;
  char *report = NULL;
  int code = cli_open_model(request, &stage);
  if (code == CLI_OK) {
    ord_session_options how;
    cli_session_options(request, &how);
    const ord_show_options options = {.struct_size = sizeof options,
                                      .json = request->json,
                                      .passes = request->passes,
                                      .plan = request->plan,
                                      .session = &how};
    code = ord_model_report_show(stage.model, &options, &report, &err) ? cli_print(report) : cli_fail(&err);
  }
  cli_close(&stage);
  return code;
}
