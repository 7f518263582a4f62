/* SPDX-License-Identifier: MIT
 *
 * Every file of tests/bad_models gives exactly the messages that stand beside it, NAME.yaml those of NAME.txt. Where
 * these are empty the file is good: it looks like a fault and is none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/description.h"

#define FOLDER ORDITO_SOURCE_DIRECTORY "/tests/bad_models/"
enum { LEAST_FILES = 80 };

/* The bytes of a file of the folder with a 0 behind them; freed by the caller. */
static char *read_file(const char *name, size_t *out_bytes) {
  char path[1024];
  snprintf(path, sizeof path, "%s%s", FOLDER, name);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  assert_int_equal(fseek(file, 0, SEEK_END), 0);
  const long length = ftell(file);
  assert_true(length >= 0);
  rewind(file);
  char *bytes = malloc((size_t)length + 1);
  assert_non_null(bytes);
  assert_int_equal(fread(bytes, 1, (size_t)length, file), (size_t)length);
  bytes[length] = '\0';
  fclose(file);
  *out_bytes = (size_t)length;
  return bytes;
}

/* What reading and building says about the file, as text. */
static bool check(const char *name, const char *text, size_t bytes, ord_text *out) {
  ord_diagnostics list;
  ord_description *description;
  ord_graph *graph = NULL;
  ord_diagnostics_init(&list);
  const bool is_good =
      ord_description_read(name, text, bytes, NULL, &list, &description) && ord_graph_build(description, &list, &graph);
  assert_false(list.out_of_memory);
  assert_int_equal(is_good, list.error_count == 0);
  ord_diagnostics_print(&list, out);
  assert_false(out->failed);
  ord_graph_destroy(graph);
  ord_description_destroy(description);
  ord_diagnostics_finish(&list);
  return is_good;
}

/* False, and shown, if the messages are others. *out_has_messages: some are wanted. */
static bool is_as_wanted(const char *name, bool *out_has_messages) {
  char wanted_name[300];
  snprintf(wanted_name, sizeof wanted_name, "%.*s.txt", (int)(strlen(name) - strlen(".yaml")), name);
  size_t bytes, wanted_bytes;
  char *text = read_file(name, &bytes), *wanted = read_file(wanted_name, &wanted_bytes);
  ord_text found = {0};
  (void)check(name, text, bytes, &found);
  const bool is_equal = strcmp(found.bytes ? found.bytes : "", wanted) == 0;
  if (!is_equal) print_error("%s\n--- wanted\n%s--- found\n%s", name, wanted, found.bytes ? found.bytes : "");
  *out_has_messages = wanted_bytes > 0;
  ord_text_finish(&found);
  free(text);
  free(wanted);
  return is_equal;
}

static void test_every_bad_file_gives_its_messages(void **state) {
  (void)state;
  DIR *folder = opendir(FOLDER);
  assert_non_null(folder);
  unsigned with_messages = 0, wrong = 0;
  for (const struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
    const char *dot = strrchr(entry->d_name, '.');
    if (!dot || strcmp(dot, ".yaml") != 0) continue;
    bool has_messages;
    wrong += !is_as_wanted(entry->d_name, &has_messages);
    with_messages += has_messages;
  }
  closedir(folder);
  assert_int_equal(wrong, 0);
  assert_true(with_messages >= LEAST_FILES);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_bad_file_gives_its_messages)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
