/* SPDX-License-Identifier: MIT
 *
 * Reads a command line by the table options.def: `--name value` and `--name=value`, options anywhere, `--` ends them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

typedef enum { KIND_FLAG, KIND_TEXT, KIND_LIST, KIND_INT, KIND_REAL } option_kind;

typedef struct option {
  const char *name;
  option_kind kind;
  size_t field; /* offset in cli_request */
  uint32_t group;
  const char *value; /* what stands behind it, for the help */
  int64_t low, high, unset;
  double unset_real;
  const char *help;
} option;

static const option options[] = {
#define OPTION_FLAG(name, field, group, help)                                                                          \
  {name, KIND_FLAG, offsetof(cli_request, field), group, "", 0, 0, 0, 0, help},
#define OPTION_TEXT(name, field, group, value, help)                                                                   \
  {name, KIND_TEXT, offsetof(cli_request, field), group, value, 0, 0, 0, 0, help},
#define OPTION_LIST(name, field, group, value, help)                                                                   \
  {name, KIND_LIST, offsetof(cli_request, field), group, value, 0, 0, 0, 0, help},
#define OPTION_INT(name, field, group, value, low, high, unset, help)                                                  \
  {name, KIND_INT, offsetof(cli_request, field), group, value, low, high, unset, 0, help},
#define OPTION_REAL(name, field, group, value, unset, help)                                                            \
  {name, KIND_REAL, offsetof(cli_request, field), group, value, 0, 0, 0, unset, help},
#include "cli/options.def"
};
static const size_t option_count = sizeof options / sizeof *options;

static void *field_of(cli_request *request, const option *what) { return (char *)request + what->field; }

static void set_defaults(cli_request *request) {
  *request = (cli_request){0};
  for (size_t i = 0; i < option_count; i++) {
    if (options[i].kind == KIND_INT) *(int64_t *)field_of(request, &options[i]) = options[i].unset;
    if (options[i].kind == KIND_REAL) *(double *)field_of(request, &options[i]) = options[i].unset_real;
  }
}

static bool fail(const char *name, const char *found, const char *wanted) {
  fprintf(stderr, "ordito: %s: found '%s'; wanted %s\n", name, found, wanted);
  return false;
}

static bool take_int(const option *what, const char *text, int64_t *out) {
  char *end = NULL;
  char wanted[80];
  errno = 0;
  const long long number = strtoll(text, &end, 10);
  snprintf(wanted, sizeof wanted, "a whole number from %lld to %lld", (long long)what->low, (long long)what->high);
  if (end == text || *end || errno || number < what->low || number > what->high) return fail(what->name, text, wanted);
  *out = number;
  return true;
}

static bool take_real(const option *what, const char *text, double *out) {
  char *end = NULL;
  *out = strtod(text, &end);
  return end == text || *end ? fail(what->name, text, "a number") : true;
}

static bool take_item(cli_list *list, const char *text) {
  const char **grown = realloc(list->item, (list->count + 1) * sizeof *grown);
  if (!grown) {
    fprintf(stderr, "ordito: out of memory\n");
    return false;
  }
  list->item = grown;
  list->item[list->count++] = text;
  return true;
}

static bool take_value(const option *what, const char *text, cli_request *request) {
  void *field = field_of(request, what);
  switch (what->kind) {
  case KIND_TEXT:
    *(const char **)field = text;
    return true;
  case KIND_LIST:
    return take_item(field, text);
  case KIND_INT:
    return take_int(what, text, field);
  case KIND_REAL:
    return take_real(what, text, field);
  case KIND_FLAG:
    break;
  }
  *(bool *)field = true;
  return true;
}

static const option *find_option(const cli_verb *verb, const char *word, size_t length) {
  for (size_t i = 0; i < option_count; i++)
    if ((options[i].group & verb->groups) && strlen(options[i].name) == length &&
        strncmp(options[i].name, word, length) == 0)
      return &options[i];
  return NULL;
}

static bool take_option(const cli_verb *verb, int count, char **argument, int *at, cli_request *out) {
  const char *word = argument[*at];
  const size_t length = strcspn(word, "=");
  const option *what = find_option(verb, word, length);
  if (!what) {
    fprintf(stderr, "ordito: %s has no option '%.*s'; `ordito %s --help` lists them\n", verb->name, (int)length, word,
            verb->name);
    return false;
  }
  const bool is_joined = word[length] == '=';
  if (what->kind == KIND_FLAG) return is_joined ? fail(what->name, word, "no value") : take_value(what, "", out);
  if (!is_joined && *at + 1 >= count) return fail(what->name, "nothing", what->value);
  /* A value that was forgotten must not swallow the option behind it. */
  if (!is_joined && find_option(verb, argument[*at + 1], strcspn(argument[*at + 1], "=")))
    return fail(what->name, argument[*at + 1], what->value);
  return take_value(what, is_joined ? word + length + 1 : argument[++*at], out);
}

bool cli_parse(const cli_verb *verb, int count, char **argument, cli_request *out) {
  set_defaults(out);
  out->positional = argument;
  bool options_ended = false;
  for (int i = 0; i < count; i++) {
    const char *word = argument[i];
    if (!options_ended && strcmp(word, "--") == 0) {
      options_ended = true;
    } else if (!options_ended && word[0] == '-' && word[1]) {
      if (!take_option(verb, count, argument, &i, out)) return false;
    } else if (out->positional_count == verb->most) {
      fprintf(stderr, "ordito: %s: found '%s' too many; wanted %s\n", verb->name, word,
              *verb->arguments ? verb->arguments : "no arguments");
      return false;
    } else {
      argument[out->positional_count++] = argument[i]; /* those before it are read already */
    }
  }
  if (out->positional_count >= verb->least) return true;
  fprintf(stderr, "ordito: %s: found %d arguments; wanted %s\n", verb->name, out->positional_count, verb->arguments);
  return false;
}

void cli_request_finish(cli_request *request) {
  for (size_t i = 0; i < option_count; i++)
    if (options[i].kind == KIND_LIST) free(((cli_list *)field_of(request, &options[i]))->item);
}

void cli_print_options(const cli_verb *verb) {
  for (size_t i = 0; i < option_count; i++) {
    char left[64];
    if (!(options[i].group & verb->groups)) continue;
    snprintf(left, sizeof left, "%s %s", options[i].name, options[i].value);
    printf("  %-34s %s\n", left, options[i].help);
  }
}
