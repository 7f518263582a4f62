/* SPDX-License-Identifier: MIT
 *
 * Run configurations: what each key does, what is wrong where, and how the options take it over.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/run_config.h"
#include "ordito.h"
#include "runtime/text.h"

static const char whole[] = "ordito_run: 1\n"
                            "device: cpu\n"
                            "cpu: avx2\n"
                            "threads: 3\n"
                            "plugins: [mine.so, /opt/other.so]\n"
                            "kernels:\n"
                            "  attention: attention_naive\n"
                            "  layer.*.up: matmul_plain@cpu_plain\n"
                            "fallback: deny\n"
                            "capture: off\n"
                            "context: 2 * 64\n"
                            "compute: int8\n"
                            "kv_cache: bf16\n";

/* Reads `text` as the file conf/run.yaml; the messages, without the lines of the file, must be `wanted`. */
static void read_rules(const char *text, const char *wanted, ord_run_rules *out) {
  ord_diagnostics list;
  ord_text found = {0};
  ord_diagnostics_init(&list);
  const bool is_good = ord_run_rules_read("conf/run.yaml", text, strlen(text), &list, out);
  assert_int_equal(is_good, *wanted == 0);
  for (uint32_t i = 0; i < list.count; i++)
    ord_text_add(&found, "%u:%u %s\n", list.entry[i].line, list.entry[i].column, list.entry[i].text);
  assert_string_equal(found.bytes ? found.bytes : "", wanted);
  ord_text_finish(&found);
  ord_diagnostics_finish(&list);
}

static void every_key_says_something(void **state) {
  (void)state;
  ord_run_rules rules;
  read_rules(whole, "", &rules);
  assert_int_equal(rules.plugin_count, 2);
  assert_string_equal(rules.plugin[0], "conf/mine.so");
  assert_string_equal(rules.plugin[1], "/opt/other.so");
  assert_int_equal(rules.pin_count, 2);
  assert_string_equal(rules.pin[0], "attention=attention_naive");
  assert_string_equal(rules.pin[1], "layer.*.up=matmul_plain@cpu_plain");
  assert_string_equal(rules.cpu, "avx2");
  assert_true(rules.has_threads && rules.has_capture && rules.has_fallback);
  assert_int_equal(rules.threads, 3);
  assert_int_equal(rules.context, 128);
  assert_int_equal(rules.compute, ORD_I8);
  assert_int_equal(rules.kv_cache, ORD_BF16);
  assert_true(rules.capture == ORD_CAPTURE_OFF && rules.denies_fallback);
  ord_run_rules_finish(&rules);
}

static void what_is_wrong_is_told_with_its_place(void **state) {
  (void)state;
  static const struct {
    const char *text, *wanted;
  } row[] = {
      {"threads: 2\n", "1:1 a run configuration lacks 'ordito_run'; wanted 1, the version of run configurations\n"},
      {"ordito_run: 2\n", "1:13 ordito_run: found '2'; wanted 1\n"},
      {"ordito_run: 1\nthread: 2\n", "2:1 a run configuration has no key 'thread'; did you mean 'threads'?\n"},
      {"ordito_run: 1\nthreads: -1\n", "2:10 threads: found -1; wanted at least 0\n"},
      {"ordito_run: 1\nthreads: 257\n", "2:10 threads: found 257; wanted at most 256\n"},
      {"ordito_run: 1\nthreads: heads\n", "2:10 'heads' is no number; a run configuration has no dims\n"},
      {"ordito_run: 1\ncontext: 0\n", "2:10 context: found 0; wanted at least 1\n"},
      {"ordito_run: 1\ndevice: metal\n", "2:9 device: found 'metal'; wanted cpu or cuda\n"},
      {"ordito_run: 1\ncapture: no\n", "2:10 capture: found 'no'; wanted require, prefer or off\n"},
      {"ordito_run: 1\ncompute: f64\n", "2:10 compute: found 'f64'; wanted f32, bf16, int8, tf32 or f16\n"},
      {"ordito_run: 1\nkv_cache: int8\n", "2:11 kv_cache: found 'int8'; wanted f32 or bf16\n"},
      {"ordito_run: 1\nplugins: a.so\n", "2:10 plugins: found 'a.so'; wanted a list of files\n"},
      {"ordito_run: 1\nplugins: [a.so, \"\"]\n", "2:17 plugins: found ''; wanted the path of a file\n"},
      {"ordito_run: 1\nkernels: [a]\n",
       "2:10 kernels: found a list; wanted a mapping of ops or layer paths to kernels\n"},
      {"ordito_run: 1\nkernels: {attention: [a]}\n", "2:22 attention: found a list; wanted KERNEL or KERNEL@PLUGIN\n"},
      {"ordito_run: 1\nkernels:\n  attention: \"\"\n  mlp: '@x'\n  h.*: a@\n  a=b: c\n",
       "3:14 attention: found ''; wanted KERNEL or KERNEL@PLUGIN\n"
       "4:8 mlp: found '@x'; wanted KERNEL or KERNEL@PLUGIN\n"
       "5:8 h.*: found 'a@'; wanted KERNEL or KERNEL@PLUGIN\n"
       "6:3 kernels: found the key 'a=b'; wanted an op or a layer path\n"},
      {"- 1\n", "1:1 a run configuration: found a list; wanted a mapping that begins with ordito_run: 1\n"},
      {"ordito_run: 1\ncpu: sse\nfallback: maybe\n", "2:6 cpu: found 'sse'; wanted baseline, avx2, avx512 or native\n"
                                                     "3:11 fallback: found 'maybe'; wanted allow or deny\n"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_run_rules rules;
    read_rules(row[i].text, row[i].wanted, &rules);
    ord_run_rules_finish(&rules);
  }
}

/* What options.def says of --compute, as cli/options.c has it. */
static const char compute_value[] =
#define COMPUTE(name, type, half_step) "|" name
#define COMPUTE_GPU COMPUTE
#include "ordito_compute.def"
    ;

/* The words that an option of the command takes: "f32|bf16". */
static const char *words_of_option(const char *name) {
  static const struct {
    const char *name, *value;
  } option[] = {
#define OPTION_FLAG(name, field, group, help)
#define OPTION_TEXT(name, field, group, value, help) {(name), (value)},
#define OPTION_LIST(name, field, group, value, help)
#define OPTION_INT(name, field, group, value, low, high, unset, help)
#define OPTION_REAL(name, field, group, value, low, high, unset, wanted, help)
#include "cli/options.def"
  };
  size_t i = 0;
  while (i < sizeof option / sizeof *option && strcmp(option[i].name, name) != 0) i++;
  assert_true(i < sizeof option / sizeof *option);
  return option[i].value;
}

static void keys_and_options_take_the_same_words(void **state) {
  (void)state;
  static const struct {
    const char *key, *option;
  } row[] = {{"cpu", "--cpu"}, {"compute", "--compute"}, {"kv_cache", "--kv-cache"}, {"fallback", "--fallback"}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char text[64], words[64], list[80], wanted[160];
    const char *word[8] = {NULL};
    uint32_t count = 0;
    snprintf(text, sizeof text, "ordito_run: 1\n%s: quantum\n", row[i].key);
    snprintf(words, sizeof words, "%s", words_of_option(row[i].option));
    for (char *rest = words; (word[count] = strtok_r(rest, "|", &rest)) != NULL;) assert_true(++count < 8);
    snprintf(wanted, sizeof wanted, "2:%zu %s: found 'quantum'; wanted %s\n", strlen(row[i].key) + 3, row[i].key,
             ord_join_words(word, " or ", list, sizeof list));
    ord_run_rules rules;
    read_rules(text, wanted, &rules);
    ord_run_rules_finish(&rules);
  }
}

/* Writes `text` to a file; the name lives until the next call. */
static const char *write_file(const char *text) {
  static char name[64];
  snprintf(name, sizeof name, "run_config_%ld.yaml", (long)getpid());
  FILE *file = fopen(name, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
  return name;
}

static void options_take_over_what_is_said(void **state) {
  (void)state;
  static const char *const own_pin[] = {"matmul=matmul_plain"};
  ord_error err = ORD_ERROR_INIT;
  ord_run_config *config;
  char *messages;
  ord_context_options context = {.struct_size = sizeof context, .threads = 7};
  ord_model_options model = {.struct_size = sizeof model, .context = 9};
  ord_session_options session = {
      .struct_size = sizeof session, .pin = own_pin, .pin_count = 1, .capture = ORD_CAPTURE_OFF};

  assert_true(ord_run_config_load(write_file("ordito_run: 1\ncompute: bf16\n"), &config, &messages, &err));
  assert_null(messages);
  ord_run_config_apply(config, &context, &model, &session);
  assert_int_equal(context.threads, 7); /* not mentioned: as it was */
  assert_int_equal(model.context, 9);
  assert_int_equal(session.capture, ORD_CAPTURE_OFF);
  assert_ptr_equal(session.pin, own_pin);
  assert_int_equal(session.compute, ORD_BF16);
  ord_run_config_destroy(config);

  assert_true(ord_run_config_load(write_file(whole), &config, NULL, &err));
  ord_run_config_apply(config, &context, NULL, NULL);
  ord_run_config_apply(config, NULL, &model, &session);
  assert_int_equal(context.threads, 3);
  assert_string_equal(context.cpu, "avx2");
  assert_int_equal(context.plugin_count, 2);
  assert_int_equal(model.context, 128);
  assert_int_equal(session.pin_count, 2);
  assert_int_equal(session.compute, ORD_I8);
  assert_int_equal(session.kv_cache, ORD_BF16);
  assert_int_equal(session.capture, ORD_CAPTURE_OFF);
  assert_true(session.deny_fallback);

  /* What a shorter struct does not have is not written. */
  session = (ord_session_options){.struct_size = offsetof(ord_session_options, deny_fallback)};
  ord_run_config_apply(config, NULL, NULL, &session);
  assert_int_equal(session.pin_count, 2);
  assert_false(session.deny_fallback);
  session = (ord_session_options){0};
  ord_run_config_apply(config, NULL, NULL, &session);
  assert_int_equal(session.pin_count, 0);
  ord_run_config_destroy(config);
}

static void a_bad_file_is_an_error_with_messages(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  ord_run_config *config;
  char *messages;
  const char *name = write_file("ordito_run: 1\nthreads: x\n");
  assert_false(ord_run_config_load(name, &config, &messages, &err));
  assert_null(config);
  assert_int_equal(err.code, ORD_INVALID);
  assert_int_equal(err.line, 2);
  assert_non_null(strstr(messages, "    threads: x\n             ^\n"));
  ord_text_free(messages);
  assert_int_equal(remove(name), 0);
  assert_false(ord_run_config_load(name, &config, NULL, &err));
  assert_non_null(strstr(err.text, "cannot be opened"));
  ord_run_config_destroy(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_key_says_something),
      cmocka_unit_test(what_is_wrong_is_told_with_its_place),
      cmocka_unit_test(keys_and_options_take_the_same_words),
      cmocka_unit_test(options_take_over_what_is_said),
      cmocka_unit_test(a_bad_file_is_an_error_with_messages),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
