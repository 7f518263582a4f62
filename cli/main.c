/* SPDX-License-Identifier: MIT
 *
 * ordito VERB: finds the verb, reads its options, runs it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static const cli_verb verbs[] = {
#define VERB(name, function, arguments, groups, least, most, about)                                                    \
  {name, arguments, about, groups, least, most, cli_##function},
#include "cli/verbs.def"
};
static const size_t verb_count = sizeof verbs / sizeof *verbs;

static void print_usage(FILE *to) {
  fprintf(to, "usage: ordito VERB [arguments] [options]; `ordito VERB --help` lists the options\n\n");
  for (size_t i = 0; i < verb_count; i++)
    fprintf(to, "  %-12s %-16s %s\n", verbs[i].name, verbs[i].arguments, verbs[i].about);
  fprintf(to, "  %-12s %-16s %s\n", "help", "", "this text, as --help and -h; --version is the verb version");
  fprintf(
      to,
      "\nexit codes: 0 done, 1 the model or the data is wrong, 2 the command line is wrong, 3 no kernel can serve,\n"
      "4 the machine failed (memory, disk), 130 interrupted\n");
}

static bool asks_for_help(const char *word) { return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0; }

static int run_verb(const cli_verb *verb, int count, char **argument) {
  for (int i = 0; i < count; i++)
    if (asks_for_help(argument[i])) {
      printf("usage: ordito %s%s%s%s\n%s\n\n", verb->name, *verb->arguments ? " " : "", verb->arguments,
             verb->groups ? " [options]" : "", verb->about);
      cli_print_options(verb);
      return cli_flush();
    }
  cli_request request;
  int code = cli_parse(verb, count, argument, &request) ? cli_load_config(&request) : CLI_USAGE;
  if (code == CLI_OK) code = verb->run(&request);
  cli_request_finish(&request);
  return code;
}

static int fail_verb(const char *found) {
  const char *known[sizeof verbs / sizeof *verbs];
  cli_say(stderr, "ordito: verb '%s' is unknown; wanted one of:", found);
  for (size_t i = 0; i < verb_count; i++) {
    known[i] = verbs[i].name;
    cli_say(stderr, "%s %s", i ? "," : "", known[i]);
  }
  const char *nearest = ord_nearest_name(found, known, verb_count);
  cli_say(stderr, nearest ? "; did you mean '%s'?\n" : "\n", nearest);
  return CLI_USAGE;
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
  if (count < 2) {
    print_usage(stderr);
    return CLI_USAGE;
  }
  if (asks_for_help(argument[1]) || strcmp(argument[1], "help") == 0) {
    print_usage(stdout);
    return cli_flush();
  }
  const char *name = strcmp(argument[1], "--version") == 0 ? "version" : argument[1];
  for (size_t i = 0; i < verb_count; i++)
    if (strcmp(name, verbs[i].name) == 0) return run_verb(&verbs[i], count - 2, argument + 2);
  return fail_verb(argument[1]);
}
