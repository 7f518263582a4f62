/* SPDX-License-Identifier: MIT
 *
 * stdout as a stream that keeps why it could not be written. The usual one keeps that a write failed; by the time that
 * the end is flushed, errno speaks of something else.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static int failure; /* errno of a write that failed */

/* All of it, or 0. */
static ssize_t write_output(void *cookie, const char *bytes, size_t count) {
  (void)cookie;
  for (size_t done = 0; done < count;) {
    const ssize_t put = write(STDOUT_FILENO, bytes + done, count - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      failure = errno;
      return 0;
    }
    done += (size_t)put;
  }
  return (ssize_t)count;
}

bool cli_open_output(void) {
  FILE *output = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_output});
  if (!output) return false;
  if (isatty(STDOUT_FILENO)) setvbuf(output, NULL, _IOLBF, BUFSIZ);
  stdout = output; /* a variable in glibc */
  return true;
}

int cli_flush(void) {
  if (fflush(stdout) == 0 && !ferror(stdout)) return CLI_OK;
  cli_say(stderr, "ordito: the output could not be written; %s\n", strerror(failure));
  return CLI_MACHINE;
}
