/* SPDX-License-Identifier: MIT
 *
 * ordito version
 */
#include <stdio.h>

#include "cli/cli.h"

int cli_version(const cli_request *request) {
  (void)request;
  printf("ordito %s, plugin ABI %d.%d\n", ORD_VERSION, ORD_ABI_MAJOR, ORD_ABI_MINOR);
  return cli_flush();
}
