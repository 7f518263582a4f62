/* SPDX-License-Identifier: MIT
 *
 * ordito kernels: what can be loaded, and why a file was refused.
 */
#include "cli/cli.h"

int cli_kernels(const cli_request *request) {
  ord_context *context = NULL;
  ord_error err = ORD_ERROR_INIT;
  char *report = NULL;
  int code = cli_open_context(request, &context);
  if (code == CLI_OK)
    code = ord_context_report_kernels(context, request->json, &report, &err) ? cli_print(report) : cli_fail(&err);
  ord_context_destroy(context);
  return code;
}
