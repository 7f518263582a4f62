/* SPDX-License-Identifier: MIT
 *
 * The report of a kernel test, written row by row: text or JSON on stdout. The rows of a kernel come one behind the
 * other.
 */
#ifndef ORDITO_CLI_KERNEL_REPORT_H
#define ORDITO_CLI_KERNEL_REPORT_H

#include "cli/cli.h"

typedef enum { ROW_PASSED, ROW_REFUSED, ROW_FAILED, ROW_CRASHED, ROW_TIMED_OUT, VERDICT_COUNT } row_verdict;

/* A row as it comes out of the child process. */
typedef struct test_row {
  uint32_t index, count; /* of ord_kernel_row */
  double error;
  char device[128], row[ORD_ROW_NAME_BYTES], kernel[ORD_ROW_NAME_BYTES], op[64], operands[512], attributes[512],
      text[1024];
} test_row;

/* Rows that a kernel refuses for one reason. */
typedef struct refusal {
  char *reason;
  uint32_t count;
  char first[ORD_ROW_NAME_BYTES]; /* a row */
} refusal;

typedef struct kernel_report {
  const cli_request *request;
  uint32_t all[VERDICT_COUNT], of_kernel[VERDICT_COUNT];
  test_row last; /* that was told */
  refusal *refusal;
  uint32_t refusal_count;
  bool has_rows;
  const char *fault_when; /* what went wrong outside the rows; NULL: nothing */
  char fault[128];
} kernel_report;

/* signal: what a crashed row died of, 0: something else. False when out of memory. */
bool report_row(kernel_report *report, const test_row *row, row_verdict verdict, int signal);
/* Something that is not to be put down to a row: "crashed: Segmentation fault", `when` "while it was unloaded". */
void report_fault(kernel_report *report, const char *when, const char *how);
/* Writes the end of the report and frees what it holds. CLI_WRONG if anything failed. */
int report_end(kernel_report *report);

#endif
