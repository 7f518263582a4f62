/* SPDX-License-Identifier: MIT
 *
 * ordito kernel-test PLUGIN.so: the rows run in a child process, which tells each row through a pipe. Where it dies or
 * hangs, that row has its verdict and another child goes on behind it.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/kernel_report.h"

/* All was done, or failed with a message on stderr. Or: a kernel may have taken the device along, so the rows behind it
 * want another process. */
enum { THE_END = -1, DEVICE_MAY_BE_LOST = -2 };

/* What the child tells. */
typedef struct message {
  int kind; /* an ord_row_state, or one of the above */
  int code; /* THE_END: what it exits with */
  test_row row;
} message;

/* ---- the child --------------------------------------------------------------------------------------------------- */

/* Whatever goes wrong here the parent sees as the pipe's end. */
static void tell(int pipe, const message *told) {
  const char *from = (const char *)told;
  for (size_t done = 0; done < sizeof *told;) {
    const ssize_t written = write(pipe, from + done, sizeof *told - done);
    if (written < 0 && errno != EINTR) return;
    if (written > 0) done += (size_t)written;
  }
}

static void tell_row(void *context, const ord_kernel_row *row) {
  message told = {.kind = (int)row->state, .row = {.index = row->index, .count = row->count, .error = row->error}};
  snprintf(told.row.device, sizeof told.row.device, "%s", row->device);
  snprintf(told.row.row, sizeof told.row.row, "%s", row->row);
  snprintf(told.row.kernel, sizeof told.row.kernel, "%s", row->kernel);
  snprintf(told.row.op, sizeof told.row.op, "%s", row->op);
  snprintf(told.row.operands, sizeof told.row.operands, "%s", row->operands);
  snprintf(told.row.attributes, sizeof told.row.attributes, "%s", row->attributes);
  snprintf(told.row.text, sizeof told.row.text, "%s", row->text);
  tell(*(const int *)context, &told);
  if (row->state != ORD_ROW_FAILED || strcmp(row->device, "cpu") == 0) return;
  told.kind = DEVICE_MAY_BE_LOST;
  tell(*(const int *)context, &told);
  _exit(CLI_OK);
}

/* Tests the rows from `first` on. What the plugin prints must not come between the lines of the report. */
static void test_rows(const cli_request *request, uint32_t first, int pipe) {
  ord_error err = ORD_ERROR_INIT;
  const ord_kernel_test_options options = {.struct_size = sizeof options,
                                           .row = request->row,
                                           .cpu = request->cpu,
                                           .first = first,
                                           .device = cli_device(request),
                                           .simulated = request->simulated,
                                           .checked = request->simulated};
  message end = {.kind = THE_END};
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody else would end a kernel that hangs */
  dup2(STDERR_FILENO, STDOUT_FILENO);
  if (!ord_kernel_test(request->positional[0], &options, tell_row, &pipe, &err)) end.code = cli_fail(&err);
  tell(pipe, &end);
  _exit(end.code);
}

/* ---- the parent -------------------------------------------------------------------------------------------------- */

typedef struct child {
  pid_t id;
  int pipe;
} child;

static bool start(const cli_request *request, uint32_t first, child *out) {
  int end[2];
  fflush(NULL); /* else the child would hold what is not written yet, too */
  out->id = -1;
  if (pipe(end) == 0) {
    out->pipe = end[0];
    out->id = fork();
    if (out->id == 0) {
      close(end[0]);
      test_rows(request, first, end[1]);
    }
    close(end[1]);
    if (out->id < 0) close(end[0]);
  }
  if (out->id < 0) cli_say(stderr, "ordito: no child process could be started; %s\n", strerror(errno));
  return out->id >= 0;
}

static int64_t now_ms(void) { return (int64_t)(cli_now_ns() / 1e6); }

typedef enum { CHILD_TOLD, CHILD_IS_GONE, CHILD_IS_LATE } child_news;

/* A plugin can write into the pipe, too. */
static bool is_whole(const message *got) {
  const test_row *row = &got->row;
  return got->kind >= DEVICE_MAY_BE_LOST && got->kind <= (int)ORD_ROW_FAILED && !row->device[sizeof row->device - 1] &&
         !row->row[sizeof row->row - 1] && !row->kernel[sizeof row->kernel - 1] && !row->op[sizeof row->op - 1] &&
         !row->operands[sizeof row->operands - 1] && !row->attributes[sizeof row->attributes - 1] &&
         !row->text[sizeof row->text - 1];
}

static child_news listen_to(const child *from, int64_t limit_ms, message *out) {
  const int64_t end = now_ms() + limit_ms;
  for (size_t got = 0; got < sizeof *out;) {
    const int64_t left = end - now_ms();
    struct pollfd ready = {.fd = from->pipe, .events = POLLIN};
    const int found = left > 0 ? poll(&ready, 1, (int)left) : 0;
    if (found < 0 && errno == EINTR) continue;
    if (found == 0) return CHILD_IS_LATE;
    const ssize_t more = found < 0 ? -1 : read(from->pipe, (char *)out + got, sizeof *out - got);
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) return CHILD_IS_GONE;
    got += (size_t)more;
  }
  return is_whole(out) ? CHILD_TOLD : CHILD_IS_GONE;
}

/* What a child came to. */
typedef struct ending {
  bool has_ended; /* by itself, with `code` */
  int code;
  row_verdict verdict; /* else: CRASHED or TIMED_OUT */
  int signal;
  char how[96];
  bool has_told;      /* of any row */
  bool is_in_row;     /* began, not ended */
  message last;       /* row */
  bool is_no_memory;  /* the report could not be written */
  bool wants_another; /* ended by itself behind a row, and wants another child for those behind it */
} ending;

/* Without a pipe it may still be at work: a plugin that closed it, say. */
static bool ends_within(const child *dying, int64_t limit_ms, int *out_status) {
  const int64_t end = now_ms() + limit_ms;
  for (;;) {
    const pid_t found = waitpid(dying->id, out_status, WNOHANG);
    if (found > 0 || (found < 0 && errno != EINTR)) return true;
    if (now_ms() >= end) return false;
    poll(NULL, 0, 1);
  }
}

static void bury(const child *dead, child_news news, int64_t limit_s, ending *out) {
  int status = 0;
  close(dead->pipe);
  if (news != CHILD_IS_LATE && !ends_within(dead, limit_s * 1000, &status)) news = CHILD_IS_LATE;
  if (news == CHILD_IS_LATE) {
    kill(dead->id, SIGKILL);
    while (waitpid(dead->id, &status, 0) < 0 && errno == EINTR) continue;
  }
  out->verdict = news == CHILD_IS_LATE ? ROW_TIMED_OUT : ROW_CRASHED;
  if (news == CHILD_IS_LATE) {
    snprintf(out->how, sizeof out->how, "no end within %lld s (--time-limit)", (long long)limit_s);
  } else if (WIFSIGNALED(status)) {
    out->signal = WTERMSIG(status);
    snprintf(out->how, sizeof out->how, "%s", strsignal(out->signal));
  } else {
    snprintf(out->how, sizeof out->how, "it called exit(%d)", WEXITSTATUS(status));
  }
}

/* Reports the rows that the child tells until it has come to an end. */
static ending follow(const child *from, kernel_report *report) {
  static const row_verdict verdict_of[] = {
      [ORD_ROW_PASSED] = ROW_PASSED, [ORD_ROW_REFUSED] = ROW_REFUSED, [ORD_ROW_FAILED] = ROW_FAILED};
  const int64_t limit_s = report->request->time_limit;
  ending end = {0};
  message got;
  child_news news;
  while ((news = listen_to(from, limit_s * 1000, &got)) == CHILD_TOLD && got.kind >= 0) {
    end.has_told = true;
    end.is_in_row = got.kind == ORD_ROW_BEGINS;
    end.last = got;
    if (!end.is_in_row && !report_row(report, &got.row, verdict_of[got.kind], 0)) end.is_no_memory = true;
  }
  end.wants_another = news == CHILD_TOLD && got.kind == DEVICE_MAY_BE_LOST;
  end.has_ended = news == CHILD_TOLD && !end.wants_another;
  end.code = end.has_ended ? got.code : CLI_WRONG;
  bury(from, news, limit_s, &end);
  return end;
}

/* Puts the end of a child that did not end by itself down to a row, or to no row. False if no other child is to go on
 * behind it; *first is where. */
static bool judge(kernel_report *report, ending *end, uint32_t *first) {
  static const char *const how_named[] = {[ROW_CRASHED] = "crashed", [ROW_TIMED_OUT] = "timed out"};
  char fault[128];
  test_row *row = &end->last.row;
  *first = row->index + 1;
  if (end->wants_another) return *first < row->count;
  if (end->is_in_row) {
    snprintf(row->text, sizeof row->text, "%s", end->how);
    if (!report_row(report, row, end->verdict, end->signal)) end->is_no_memory = true;
    return *first < row->count;
  }
  snprintf(fault, sizeof fault, "%s: %s", how_named[end->verdict], end->how);
  const bool is_done = end->has_told && *first == row->count;
  report_fault(report,
               is_done         ? "while it was unloaded"
               : end->has_told ? "between rows"
                               : "while it was loaded",
               fault);
  return end->has_told && !is_done;
}

int cli_kernel_test(const cli_request *request) {
  kernel_report report = {.request = request};
  ending end;
  uint32_t first = 0;
  signal(SIGCHLD, SIG_DFL); /* where the caller ignores it, no child has a status */
  do {
    child process;
    if (!start(request, first, &process)) return CLI_MACHINE;
    end = follow(&process, &report);
  } while (!end.has_ended && judge(&report, &end, &first));
  if (end.is_no_memory) {
    cli_say(stderr, "ordito: out of memory\n");
    return CLI_MACHINE;
  }
  if (end.has_ended && end.code != CLI_OK && !report.has_rows) return end.code;
  const int code = report_end(&report);
  return end.has_ended && end.code != CLI_OK ? end.code : code;
}
