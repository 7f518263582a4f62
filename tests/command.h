/* SPDX-License-Identifier: MIT
 *
 * Runs the command `ordito` in a folder of the test's own. Included by test programs only, which have make_folder and
 * remove_folder as the fixtures of their group.
 */
#ifndef ORDITO_TESTS_COMMAND_H
#define ORDITO_TESTS_COMMAND_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

#define ORDITO ORDITO_BUILD_DIRECTORY "/bin/ordito"
#define NANO MODEL("andrea-nano")

static char folder[] = "/tmp/ordito-cli-XXXXXX";

typedef struct outcome {
  int code;
  char out[65536], err[16384];
} outcome;

static inline void read_all(const char *path, char *into, size_t bytes) {
  FILE *file = fopen(path, "rb");
  into[0] = 0;
  if (!file) return;
  into[fread(into, 1, bytes - 1, file)] = 0;
  fclose(file);
}

/* Runs `ordito ARGUMENTS` in the test's folder. A redirection in the arguments wins. */
static inline outcome *run(const char *arguments) {
  static outcome result;
  char command[4096];
  snprintf(command, sizeof command, "cd %s && %s >out 2>err %s", folder, ORDITO, arguments);
  const int status = system(command);
  char path[128];
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  snprintf(path, sizeof path, "%s/out", folder);
  read_all(path, result.out, sizeof result.out);
  snprintf(path, sizeof path, "%s/err", folder);
  read_all(path, result.err, sizeof result.err);
  return &result;
}

typedef struct command_row {
  const char *arguments;
  int code;
  const char *out, *err; /* must occur; NULL: must be empty */
} command_row;

static inline const outcome *check_command(const command_row *row) {
  const outcome *got = run(row->arguments);
  if (got->code != row->code || (row->out ? !strstr(got->out, row->out) : got->out[0] != 0) ||
      (row->err ? !strstr(got->err, row->err) : got->err[0] != 0))
    fail_msg("ordito %s\n  code %d, wanted %d\n  stdout: %.400s\n  wanted: %s\n  stderr: %.800s\n  wanted: %s",
             row->arguments, got->code, row->code, got->out, row->out ? row->out : "(nothing)", got->err,
             row->err ? row->err : "(nothing)");
  return got;
}

static inline void write_text(const char *name, const char *text) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fputs(text, file) >= 0, 1);
  assert_int_equal(fclose(file), 0);
}

static inline int make_folder(void **state) {
  (void)state;
  return mkdtemp(folder) ? 0 : -1;
}

static inline int remove_folder(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

#endif
