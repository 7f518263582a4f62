/* SPDX-License-Identifier: MIT
 *
 * ordito VERB: finds the verb, reads its options, runs it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static bool asks_for_help(const char *word) { return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0; }

static int run_verb(const cli_verb *verb, int count, char **argument) {
  for (int i = 0; i < count; i++)
    if (asks_for_help(argument[i])) return cli_print_help(verb);
  cli_request request;
  int code = cli_parse(verb, count, argument, &request) ? cli_load_config(&request) : CLI_USAGE;
  if (code == CLI_OK) code = verb->run(&request);
  cli_request_finish(&request);
  return code;
}

/* A closed stream's number would go to the next file that is opened, a library's perhaps, and what is printed into it.
 * These can be opened, but not be used as the stream is: reading and writing fail as if it were closed. */
static void keep_streams_closed(void) {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; stream++)
    if (fcntl(stream, F_GETFD) < 0 && errno == EBADF)
      (void)open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int count, char **argument) {
  keep_streams_closed();
  signal(SIGXFSZ, SIG_IGN); /* a file that grows beyond the limit is a failed write with a message, no signal */
  if (!cli_open_output()) {
    cli_say(stderr, "ordito: out of memory\n");
    return CLI_MACHINE;
  }
  if (count < 2) {
    cli_print_usage(stderr);
    return CLI_USAGE;
  }
  const char *name = argument[1];
  if (asks_for_help(name)) name = "help";
  if (strcmp(name, "--version") == 0) name = "version";
  const cli_verb *verb = cli_find_verb(name);
  return verb ? run_verb(verb, count - 2, argument + 2) : CLI_USAGE;
}
