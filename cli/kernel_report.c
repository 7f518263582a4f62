/* SPDX-License-Identifier: MIT
 *
 * Writes the report of a kernel test.
 */
#include "cli/kernel_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const verdict_name[VERDICT_COUNT] = {"passed", "refused", "failed", "crashed", "timed out"};

static bool is_bad(row_verdict verdict) { return verdict >= ROW_FAILED; }

/* ---- the command that repeats a row ------------------------------------------------------------------------------ */

typedef struct command {
  char text[8192];
} command;

/* One word for a shell. */
static void add_word(command *made, const char *word) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%";
  size_t length = strlen(made->text);
  const bool is_plain = *word && strspn(word, plain) == strlen(word);
  length += (size_t)snprintf(made->text + length, sizeof made->text - length, is_plain ? " " : " '");
  for (; *word && length + 8 < sizeof made->text; word++)
    length += (size_t)snprintf(made->text + length, sizeof made->text - length, *word == '\'' ? "'\\''" : "%c", *word);
  if (!is_plain) snprintf(made->text + length, sizeof made->text - length, "'");
}

/* row NULL: all rows. */
static command repeat(const kernel_report *report, const char *row) {
  command made = {"ordito kernel-test"};
  add_word(&made, report->request->positional[0]);
  if (row) {
    add_word(&made, "--row");
    add_word(&made, row);
  }
  if (report->request->cpu) {
    add_word(&made, "--cpu");
    add_word(&made, report->request->cpu);
  }
  if (report->request->simulated) add_word(&made, "--simulated");
  if (report->request->device && !report->request->simulated) {
    add_word(&made, "--device");
    add_word(&made, report->request->device);
  }
  return made;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void write_row_text(const kernel_report *report, const test_row *row, row_verdict verdict) {
  if (!is_bad(verdict) && !report->request->row) return;
  cli_say(stdout, "%s  %s  %s %s\n        %s%s%s\n", is_bad(verdict) ? "FAILED" : verdict_name[verdict], row->row,
          row->operands, row->attributes, verdict > ROW_FAILED ? verdict_name[verdict] : "",
          verdict > ROW_FAILED ? ": " : "", row->text);
  if (is_bad(verdict)) cli_say(stdout, "        again: %s\n", repeat(report, row->row).text);
}

static void write_counts(const uint32_t *count) {
  printf("%u refused, %u failed", count[ROW_REFUSED], count[ROW_FAILED]);
  for (int verdict = ROW_CRASHED; verdict < VERDICT_COUNT; verdict++)
    if (count[verdict]) printf(", %u %s", count[verdict], verdict_name[verdict]);
  printf("\n");
}

static void write_kernel_text(const kernel_report *report) {
  cli_say(stdout, "%-28s %-18s %u passed, ", report->last.kernel, report->last.op, report->of_kernel[ROW_PASSED]);
  write_counts(report->of_kernel);
  for (uint32_t i = 0; i < report->refusal_count && !report->request->row; i++) {
    const refusal *one = &report->refusal[i];
    cli_say(stdout, "  refused %u: %s (%s%s)\n", one->count, one->reason, one->first, one->count > 1 ? ", .." : "");
  }
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void write_json_member(const char *name, const char *text) {
  printf(", \"%s\": ", name);
  cli_write_json(stdout, text, SIZE_MAX);
}

static void write_row_json(const kernel_report *report, const test_row *row, row_verdict verdict, int signal) {
  printf("%s\n  {\"row\": ", report->has_rows ? "," : "{\"rows\": [");
  cli_write_json(stdout, row->row, SIZE_MAX);
  write_json_member("op", row->op);
  write_json_member("verdict", verdict_name[verdict]);
  if (isfinite(row->error))
    printf(", \"error\": %.3g", row->error);
  else
    printf(", \"error\": null");
  write_json_member("operands", row->operands);
  write_json_member("attributes", row->attributes);
  write_json_member("text", row->text);
  if (signal) printf(", \"signal\": %d", signal);
  if (is_bad(verdict)) write_json_member("again", repeat(report, row->row).text);
  printf("}");
}

static void write_end_json(const kernel_report *report) {
  printf("%s],\n\"device\": ", report->has_rows ? "" : "{\"rows\": [");
  cli_write_json(stdout, report->has_rows ? report->last.device : "", SIZE_MAX);
  printf(",\n\"passed\": %u, \"refused\": %u, \"failed\": %u, \"crashed\": %u, \"timed_out\": %u, \"fault\": ",
         report->all[ROW_PASSED], report->all[ROW_REFUSED], report->all[ROW_FAILED], report->all[ROW_CRASHED],
         report->all[ROW_TIMED_OUT]);
  if (report->fault_when) {
    char text[256];
    snprintf(text, sizeof text, "%s %s", report->fault, report->fault_when);
    cli_write_json(stdout, text, SIZE_MAX);
  } else {
    printf("null");
  }
  printf("}\n");
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static bool note_refusal(kernel_report *report, const test_row *row) {
  for (uint32_t i = 0; i < report->refusal_count; i++)
    if (strcmp(report->refusal[i].reason, row->text) == 0) {
      report->refusal[i].count++;
      return true;
    }
  refusal *grown = realloc(report->refusal, (report->refusal_count + 1) * sizeof *grown);
  if (!grown) return false;
  report->refusal = grown;
  refusal *made = &grown[report->refusal_count];
  *made = (refusal){.reason = strdup(row->text), .count = 1};
  memcpy(made->first, row->row, sizeof made->first);
  report->refusal_count += made->reason != NULL;
  return made->reason != NULL;
}

static void end_kernel(kernel_report *report) {
  if (report->has_rows && !report->request->json) write_kernel_text(report);
  for (uint32_t i = 0; i < report->refusal_count; i++) free(report->refusal[i].reason);
  report->refusal_count = 0;
  memset(report->of_kernel, 0, sizeof report->of_kernel);
}

bool report_row(kernel_report *report, const test_row *row, row_verdict verdict, int signal) {
  if (strcmp(report->last.kernel, row->kernel) != 0 || strcmp(report->last.op, row->op) != 0) end_kernel(report);
  if (!report->has_rows && !report->request->json && strcmp(row->device, "cpu") != 0)
    cli_say(stdout, "on %s%s\n", row->device, report->request->simulated ? ", checked" : "");
  report->all[verdict]++;
  report->of_kernel[verdict]++;
  if (report->request->json)
    write_row_json(report, row, verdict, signal);
  else
    write_row_text(report, row, verdict);
  report->last = *row;
  report->has_rows = true;
  return verdict != ROW_REFUSED || note_refusal(report, row);
}

void report_fault(kernel_report *report, const char *when, const char *how) {
  report->fault_when = when;
  snprintf(report->fault, sizeof report->fault, "%s", how);
}

int report_end(kernel_report *report) {
  end_kernel(report);
  if (report->request->json) {
    write_end_json(report);
  } else {
    if (report->fault_when)
      cli_say(stdout, "FAILED  %s %s\n        again: %s\n", report->fault, report->fault_when,
              repeat(report, report->request->row).text);
    printf("%u row%s passed, ", report->all[ROW_PASSED], cli_plural(report->all[ROW_PASSED]));
    write_counts(report->all);
  }
  free(report->refusal);
  const int code = cli_flush();
  bool is_wrong = report->fault_when != NULL;
  for (int verdict = ROW_FAILED; verdict < VERDICT_COUNT; verdict++) is_wrong |= report->all[verdict] > 0;
  return code == CLI_OK && is_wrong ? CLI_WRONG : code;
}
