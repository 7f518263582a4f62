/* SPDX-License-Identifier: MIT
 *
 * The command: one file per verb, one table of verbs (verbs.def), one table of options (options.def). Uses
 * the public headers of include/ and libc alone, so it proves the public API. Data goes to stdout, words about it to
 * stderr.
 */
#ifndef ORDITO_CLI_CLI_H
#define ORDITO_CLI_CLI_H

#include <stdio.h>

#include "ordito.h"

/* Exit codes. What the command line alone shows to be wrong is USAGE; what shows only with the files that it names
 * (they are missing, cannot be opened, do not fit each other or the options) is WRONG. */
enum {
  CLI_OK = 0,
  CLI_WRONG = 1,       /* the model or the data is wrong */
  CLI_USAGE = 2,       /* the command line is wrong */
  CLI_UNSUPPORTED = 3, /* no device or kernel can serve */
  CLI_MACHINE = 4,     /* memory ran out, reading, writing or the device failed */
  CLI_INTERRUPTED = 130
};

/* A list that an option may add to several times. */
typedef struct cli_list {
  const char **item;
  uint32_t count;
} cli_list;

/* Everything that the options of options.def can say, with their defaults. */
typedef struct cli_request {
  char *const *positional; /* the arguments that are no options */
  int positional_count;
#define OPTION_FLAG(name, field, group, help) bool field;
#define OPTION_TEXT(name, field, group, value, help) const char *field;
#define OPTION_LIST(name, field, group, value, help) cli_list field;
#define OPTION_INT(name, field, group, value, low, high, unset, help) int64_t field;
#define OPTION_REAL(name, field, group, value, low, high, unset, wanted, help) double field;
#include "cli/options.def"
  ord_run_config *run_config; /* of --config; NULL: none */
  uint32_t configured;        /* kernels of it, which stand before those of --kernel */
  bool is_repeated;           /* the same files were opened before: their warnings were told */
} cli_request;

/* Groups of options; a verb takes some of them. */
enum {
  CLI_MODEL = 1,   /* how the model file is read */
  CLI_WEIGHTS = 2, /* where weights come from */
  CLI_CONTEXT = 4, /* device, threads, plugins */
  CLI_SESSION = 8, /* how a model is run */
  CLI_JSON = 16,
  CLI_GENERATE = 32,
  CLI_SHOW = 64,
  CLI_RUN = 128,
  CLI_CONVERT = 256,
  CLI_BENCH = 512,
  CLI_TEST = 1024
};

typedef struct cli_verb {
  const char *name, *arguments, *about;
  uint32_t groups;
  int least, most; /* positional arguments */
  int (*run)(const cli_request *request);
} cli_verb;

#define VERB(name, function, arguments, groups, least, most, about) int cli_##function(const cli_request *request);
#include "cli/verbs.def"

/* help.c. find: NULL after a message on stderr. print_help: an exit code. */
const cli_verb *cli_find_verb(const char *name);
void cli_print_usage(FILE *to);
int cli_print_help(const cli_verb *verb);

/* options.c. False after a message on stderr. */
bool cli_parse(const cli_verb *verb, int count, char **argument, cli_request *out);
void cli_request_finish(cli_request *request);
void cli_print_options(const cli_verb *verb);

/* config.c: reads the file of --config, if one is given, and joins its lists to the request's. An exit code. */
int cli_load_config(cli_request *request);

/* say.c: words, on stderr or in a text report, whatever bytes are in them. */
void cli_write(FILE *to, const char *text);
void cli_say(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The text, or its first `length` bytes, as a JSON string. */
void cli_write_json(FILE *to, const char *text, size_t length);
/* What a regular noun takes behind its number: "" for 1, else "s". */
const char *cli_plural(uint64_t count);

/* output.c: makes stdout keep why it could not be written; false: out of memory. */
bool cli_open_output(void);
/* Flushes stdout; CLI_MACHINE with a message that says why if what was written did not arrive. */
int cli_flush(void);

/* shared.c: the clock of wall times. */
double cli_now_ns(void);

/* shared.c: what most verbs begin with. Each returns an exit code, CLI_OK to go on; the message is on stderr. */
int cli_fail(const ord_error *err);
int cli_open_context(const cli_request *request, ord_context **out);
/* The device that the options or the configuration ask for. */
const char *cli_device(const cli_request *request);
/* most: bounds the context where no --context is given; 0: does not. */
int cli_load_model(const cli_request *request, ord_context *context, int64_t most, ord_model **out);
int cli_open_weights(const cli_request *request, ord_model *model);
/* The type that a word of an option means; 0 for NULL. */
uint32_t cli_type_of(const char *word);
const char *cli_type_name(uint32_t type); /* the word; static */
/* Where in a list that ends with NULL a word stands that options.def allows. */
uint32_t cli_place_of(const char *word, const char *const *words);
uint32_t cli_loop(const cli_request *request); /* ORD_LOOP_* */
void cli_session_options(const cli_request *request, ord_session_options *out);
/* What a verb works on; free with cli_close in any case. */
typedef struct cli_stage {
  ord_context *context;
  ord_model *model;
  ord_session *session;
} cli_stage;
int cli_open_model(const cli_request *request, cli_stage *out);
/* As cli_open_model; where no --context is given, the context is bounded to `most` and that is said. */
int cli_open_bounded(const cli_request *request, int64_t most, cli_stage *out);
/* How much memory a session will take, before it is taken. */
int cli_print_memory(ord_model *model, const ord_session_options *options);
/* Opens the weights and makes a session, behind cli_open_model. */
int cli_start_session(const cli_request *request, bool generates, cli_stage *stage);
void cli_close(cli_stage *stage);
/* Prints a report and frees it; tells a full disk. */
int cli_print(char *report);
/* Ctrl-C cancels this session from now on (NULL: ends the program again). */
void cli_cancel_on_interrupt(ord_session *session);

#endif
