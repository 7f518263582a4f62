/* SPDX-License-Identifier: MIT
 *
 * ordito help [VERB]: which verbs there are, and what one of them takes.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static const cli_verb verbs[] = {
#define VERB(name, function, arguments, groups, least, most, about)                                                    \
  {name, arguments, about, groups, least, most, cli_##function},
#include "cli/verbs.def"
};
static const size_t verb_count = sizeof verbs / sizeof *verbs;

void cli_print_usage(FILE *to) {
  fprintf(to, "usage: ordito VERB [arguments] [options]; `ordito VERB --help` lists the options\n\n");
  for (size_t i = 0; i < verb_count; i++)
    fprintf(to, "  %-12s %-16s %s\n", verbs[i].name, verbs[i].arguments, verbs[i].about);
  fprintf(
      to,
      "\nexit codes: 0 done, 1 the model or the data is wrong, 2 the command line is wrong, 3 no device or kernel can\n"
      "serve, 4 the machine failed (memory, disk, GPU), 130 interrupted\n");
}

int cli_print_help(const cli_verb *verb) {
  printf("usage: ordito %s%s%s%s\n%s\n\n", verb->name, *verb->arguments ? " " : "", verb->arguments,
         verb->groups ? " [options]" : "", verb->about);
  cli_print_options(verb);
  return cli_flush();
}

static void tell_unknown(const char *found) {
  const char *known[sizeof verbs / sizeof *verbs];
  cli_say(stderr, "ordito: verb '%s' is unknown; wanted one of:", found);
  for (size_t i = 0; i < verb_count; i++) {
    known[i] = verbs[i].name;
    cli_say(stderr, "%s %s", i ? "," : "", known[i]);
  }
  const char *nearest = ord_nearest_name(found, known, verb_count);
  cli_say(stderr, nearest ? "; did you mean '%s'?\n" : "\n", nearest);
}

const cli_verb *cli_find_verb(const char *name) {
  for (size_t i = 0; i < verb_count; i++)
    if (strcmp(name, verbs[i].name) == 0) return &verbs[i];
  tell_unknown(name);
  return NULL;
}

int cli_help(const cli_request *request) {
  if (request->positional_count == 0) {
    cli_print_usage(stdout);
    return cli_flush();
  }
  const cli_verb *verb = cli_find_verb(request->positional[0]);
  return verb ? cli_print_help(verb) : CLI_USAGE;
}
