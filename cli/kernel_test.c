/* SPDX-License-Identifier: MIT
 *
 * ordito kernel-test PLUGIN.so: the grid runs in a child process; a crash is a line of the report that names the row.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"

/* Shared with the child. */
typedef struct progress {
  char row[96];   /* that it is about to run */
  bool has_ended; /* by itself, its report written */
} progress;

static void note_row(void *context, const char *row) {
  progress *shared = context;
  snprintf(shared->row, sizeof shared->row, "%s", row);
}

static int test_here(const cli_request *request, progress *shared) {
  ord_error err = ORD_ERROR_INIT;
  char *report = NULL;
  uint32_t failed = 0;
  const ord_kernel_test_options options = {.struct_size = sizeof options,
                                           .row = request->row,
                                           .json = request->json,
                                           .row_fn = note_row,
                                           .row_context = shared};
  if (!ord_kernel_test(request->positional[0], &options, &report, &failed, &err)) return cli_fail(&err);
  const int code = cli_print(report);
  return code == CLI_OK && failed > 0 ? CLI_WRONG : code;
}

/* What became of the child, as an exit code. */
static int judge(const cli_request *request, const progress *shared, int status) {
  if (WIFEXITED(status) && shared->has_ended) return WEXITSTATUS(status);
  const char *file = request->positional[0];
  char how[64];
  if (WIFEXITED(status))
    snprintf(how, sizeof how, "it called exit(%d)", WEXITSTATUS(status));
  else
    snprintf(how, sizeof how, "%s", strsignal(WTERMSIG(status)));
  if (!*shared->row) {
    fprintf(stderr, "ordito: %s crashed while it was loaded: %s\n", file, how);
    return CLI_WRONG;
  }
  printf("FAILED  %s\n        crashed: %s\n        again: ordito kernel-test %s --row %s\n", shared->row, how, file,
         shared->row);
  (void)cli_flush();
  return CLI_WRONG;
}

int cli_kernel_test(const cli_request *request) {
  progress *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) {
    fprintf(stderr, "ordito: out of memory\n");
    return CLI_MACHINE;
  }
  fflush(NULL);
  const pid_t child = fork();
  if (child < 0) {
    fprintf(stderr, "ordito: no child process could be started; %s\n", strerror(errno));
    return CLI_MACHINE;
  }
  if (child == 0) {
    const int code = test_here(request, shared);
    shared->has_ended = true;
    _exit(code);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return CLI_MACHINE;
  const int code = judge(request, shared, status);
  munmap(shared, sizeof *shared);
  return code;
}
