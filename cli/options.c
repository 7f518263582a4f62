/* SPDX-License-Identifier: MIT
 *
 * Reads a command line by the table options.def: `--name value` and `--name=value`, options anywhere, `--` ends them.
 */
#include <errno.h>
#include <float.h>
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
  double low_real, high_real, unset_real;
  const char *wanted; /* of a real number */
  const char *help;
} option;

/* For --compute, from the list of these types: "|f32|bf16", and which of them need a GPU. */
static const char compute_value[] =
#define COMPUTE(name, type, half_step) "|" name
#define COMPUTE_GPU COMPUTE
#include "ordito_compute.def"
    ;
static const char compute_help[] =
    "the type in which matmuls make products; weights become so when loaded (default f32); on a GPU only:"
#define COMPUTE(name, type, half_step)
#define COMPUTE_GPU(name, type, half_step) " " name
#include "ordito_compute.def"
    ;

static const option options[] = {
#define OPTION_ROW(name_, kind_, field_, group_, value_, help_)                                                        \
  .name = (name_), .kind = (kind_), .field = offsetof(cli_request, field_), .group = (group_), .value = (value_),      \
  .help = (help_)
#define OPTION_FLAG(name, field, group, help) {OPTION_ROW(name, KIND_FLAG, field, group, "", help)},
#define OPTION_TEXT(name, field, group, value, help) {OPTION_ROW(name, KIND_TEXT, field, group, value, help)},
#define OPTION_LIST(name, field, group, value, help) {OPTION_ROW(name, KIND_LIST, field, group, value, help)},
#define OPTION_INT(name, field, group, value, low_, high_, unset_, help)                                               \
  {OPTION_ROW(name, KIND_INT, field, group, value, help), .low = (low_), .high = (high_), .unset = (unset_)},
#define OPTION_REAL(name, field, group, value, low, high, unset, wanted_, help)                                        \
  {OPTION_ROW(name, KIND_REAL, field, group, value, help), .low_real = (low), .high_real = (high),                     \
   .unset_real = (unset), .wanted = (wanted_)},
#include "cli/options.def"
#undef OPTION_ROW
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
  cli_say(stderr, "ordito: %s: found '%s'; wanted %s\n", name, found, wanted);
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
  const bool is_number = end != text && !*end && *out >= what->low_real && *out <= what->high_real;
  return is_number || fail(what->name, text, what->wanted);
}

/* Of the words in "f32|bf16|int8". */
static bool is_choice(const char *words, const char *text) {
  const size_t length = strlen(text);
  for (const char *word = words; word; word = strchr(word, '|')) {
    if (*word == '|') word++;
    if (strcspn(word, "|") == length && strncmp(word, text, length) == 0) return true;
  }
  return false;
}

static bool take_text(const option *what, const char *text, const char **out) {
  *out = text;
  return !strchr(what->value, '|') || is_choice(what->value, text) || fail(what->name, text, what->value);
}

static bool take_item(cli_list *list, const char *text) {
  const char **grown = realloc(list->item, (list->count + 1) * sizeof *grown);
  if (!grown) {
    cli_say(stderr, "ordito: out of memory\n");
    return false;
  }
  list->item = grown;
  list->item[list->count++] = text;
  return true;
}

static bool names_file(const option *what) {
  return strcmp(what->value, "FILE") == 0 || strcmp(what->value, "PATH") == 0;
}

static bool take_value(const option *what, const char *text, cli_request *request) {
  void *field = field_of(request, what);
  if (what->kind != KIND_FLAG && !*text && names_file(what)) return fail(what->name, text, what->value);
  switch (what->kind) {
  case KIND_TEXT:
    return take_text(what, text, field);
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

static bool fail_option(const cli_verb *verb, const char *word, size_t length) {
  const char *known[sizeof options / sizeof *options] = {NULL};
  char *name = strndup(word, length);
  for (size_t i = 0; i < option_count; i++)
    if (options[i].group & verb->groups) known[i] = options[i].name;
  const char *nearest = name ? ord_nearest_name(name, known, option_count) : NULL;
  cli_say(stderr, "ordito: %s has no option '%.*s'; `ordito %s --help` lists them%s%s%s\n", verb->name, (int)length,
          word, verb->name, nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
  free(name);
  return false;
}

static bool take_option(const cli_verb *verb, int count, char **argument, int *at, cli_request *out) {
  const char *word = argument[*at];
  const size_t length = strcspn(word, "=");
  const option *what = find_option(verb, word, length);
  if (!what) return fail_option(verb, word, length);
  const bool is_joined = word[length] == '=';
  if (what->kind == KIND_FLAG) return is_joined ? fail(what->name, word, "no value") : take_value(what, "", out);
  if (!is_joined && *at + 1 >= count) return fail(what->name, "nothing", what->value);
  /* A value that was forgotten must not swallow the option behind it. */
  if (!is_joined && find_option(verb, argument[*at + 1], strcspn(argument[*at + 1], "=")))
    return fail(what->name, argument[*at + 1], what->value);
  return take_value(what, is_joined ? word + length + 1 : argument[++*at], out);
}

/* Which kernels and ops there are shows with the plugins and the model; how a pin is written does not. */
static bool check_pins(const char *name, const cli_list *pins) {
  for (uint32_t i = 0; i < pins->count; i++) {
    const char *pin = pins->item[i], *equal = strchr(pin, '='), *at = equal ? strchr(equal, '@') : NULL;
    if (!equal || equal == pin || !equal[1] || equal[1] == '@' || (at && !at[1]))
      return fail(name, pin, "SELECTOR=KERNEL[@PLUGIN]");
  }
  return true;
}

static bool check_passes(const cli_request *request) {
  for (uint32_t i = 0; i < request->disabled_passes.count; i++) {
    const char *found = request->disabled_passes.item[i], *name;
    uint32_t pass = 0;
    while ((name = ord_pass_name(pass)) != NULL && strcmp(name, found) != 0) pass++;
    if (name) continue;
    cli_say(stderr, "ordito: --disable-pass: found '%s'; wanted one of", found);
    for (pass = 0; (name = ord_pass_name(pass)) != NULL; pass++) cli_say(stderr, "%s %s", pass ? "," : "", name);
    cli_say(stderr, "\n");
    return false;
  }
  return true;
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
      cli_say(stderr, "ordito: %s: found '%s' too many; wanted %s\n", verb->name, word,
              *verb->arguments ? verb->arguments : "no arguments");
      return false;
    } else {
      argument[out->positional_count++] = argument[i]; /* those before it are read already */
    }
  }
  if (out->positional_count >= verb->least)
    return check_pins("--kernel", &out->kernels) && check_pins("--against", &out->against) && check_passes(out);
  cli_say(stderr, "ordito: %s: found %d argument%s; wanted %s\n", verb->name, out->positional_count,
          cli_plural((uint64_t)out->positional_count), verb->arguments);
  return false;
}

void cli_request_finish(cli_request *request) {
  ord_run_config_destroy(request->run_config);
  for (size_t i = 0; i < option_count; i++)
    if (options[i].kind == KIND_LIST) free(((cli_list *)field_of(request, &options[i]))->item);
}

/* A default that could not be given as a value means that the option is not there: no number can say that. */
static void print_default(const option *what) {
  if (what->kind == KIND_LIST) printf(" (repeatable)");
  if (what->kind == KIND_REAL) printf(" (default %g)", what->unset_real);
  if (what->kind == KIND_INT && what->unset >= what->low) printf(" (default %lld)", (long long)what->unset);
}

void cli_print_options(const cli_verb *verb) {
  for (size_t i = 0; i < option_count; i++) {
    char left[64];
    if (!(options[i].group & verb->groups)) continue;
    snprintf(left, sizeof left, "%s %s", options[i].name, options[i].value);
    printf("  %-34s %s", left, options[i].help);
    print_default(&options[i]);
    printf("\n");
  }
}
