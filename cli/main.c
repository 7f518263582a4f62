/* SPDX-License-Identifier: MIT
 *
 * ordito VERB: finds the verb, reads its options, runs it.
 */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

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
  fprintf(
      to,
      "\nexit codes: 0 done, 1 the model or the data is wrong, 2 the command line is wrong, 3 no kernel can serve,\n"
      "4 the machine failed (memory, disk), 130 interrupted\n");
}

static bool asks_for_help(const char *word) { return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0; }

static int run_verb(const cli_verb *verb, int count, char **argument) {
  for (int i = 0; i < count; i++)
    if (asks_for_help(argument[i])) {
      printf("usage: ordito %s %s\n%s\n\n", verb->name, verb->arguments, verb->about);
      cli_print_options(verb);
      return cli_flush();
    }
  cli_request request;
  const int code = cli_parse(verb, count, argument, &request) ? verb->run(&request) : CLI_USAGE;
  cli_request_finish(&request);
  return code;
}

int main(int count, char **argument) {
  signal(SIGXFSZ, SIG_IGN); /* a file that grows beyond the limit is a failed write with a message, no signal */
  if (count < 2) {
    print_usage(stderr);
    return CLI_USAGE;
  }
  if (asks_for_help(argument[1]) || strcmp(argument[1], "help") == 0) {
    print_usage(stdout);
    return cli_flush();
  }
  for (size_t i = 0; i < verb_count; i++)
    if (strcmp(argument[1], verbs[i].name) == 0) return run_verb(&verbs[i], count - 2, argument + 2);
  fprintf(stderr, "ordito: verb '%s' is unknown; wanted one of:", argument[1]);
  for (size_t i = 0; i < verb_count; i++) fprintf(stderr, "%s %s", i ? "," : "", verbs[i].name);
  fprintf(stderr, "\n");
  return CLI_USAGE;
}
