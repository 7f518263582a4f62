/* SPDX-License-Identifier: MIT
 *
 * A replay allocates nothing: this program's malloc counts, whoever calls it, plugins and libraries too. And the first
 * allocation of each library that reads a model fails: the error says so. Sanitizers bring their own malloc, so there
 * the tests are skipped and say it.
 */
#include <dlfcn.h>
#include <errno.h>

#include "fixture.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OWN_MALLOC 0
#else
#define OWN_MALLOC 1
#endif

static volatile bool is_counting; /* volatile: the compiler knows malloc and believes that it reads nothing */
static long counted;
static const char *failing_library; /* the next allocation of this library fails */
static long failed;

#if OWN_MALLOC
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);

static bool is_refused(const void *caller) {
  if (is_counting) __atomic_add_fetch(&counted, 1, __ATOMIC_RELAXED);
  if (!failing_library) return false;
  Dl_info info;
  const char *wanted = failing_library;
  failing_library = NULL; /* dladdr must not come back here */
  const bool hit = dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, wanted);
  failed += hit;
  if (!hit) failing_library = wanted;
  return hit;
}

/* Seen by the libraries and plugins too. */
#pragma GCC visibility push(default)
void *malloc(size_t bytes) { return is_refused(__builtin_return_address(0)) ? NULL : __libc_malloc(bytes); }
void *calloc(size_t count, size_t bytes) {
  return is_refused(__builtin_return_address(0)) ? NULL : __libc_calloc(count, bytes);
}
void *realloc(void *old, size_t bytes) {
  return is_refused(__builtin_return_address(0)) ? NULL : __libc_realloc(old, bytes);
}
#pragma GCC visibility pop
#endif

static void skip_with_reason(void) {
  print_message("skipped: the sanitizer brings its own malloc\n");
  skip();
}

static bool count_tokens(void *context, int32_t id, const char *text, size_t bytes) {
  (void)id;
  (void)text;
  (void)bytes;
  /* The first tokens may allocate: the inputs' buffers of the session grow to their size. */
  if (++*(int *)context == 3) is_counting = true;
  return true;
}

static void count_in_replays(const setup *how) {
  const ord_session_options generates = {.struct_size = sizeof generates, .generates = true};
  ord_generate_options options = ORD_GENERATE_INIT;
  ord_error err = ORD_ERROR_INIT;
  int tokens = 0;
  options.max_tokens = 200;
  options.temperature = 1;
  stage s = open_nano_for(how, 2, &generates);
  counted = 0;
  MUST(ord_session_generate(s.session, NULL, 0, &options, count_tokens, &tokens, NULL, &err));
  is_counting = false;
  assert_int_equal(tokens, 200);
  if (counted != 0) fail_msg("%s: %ld allocations", how->name, counted);
  /* The count can fail: */
  is_counting = true;
  void *volatile memory = malloc(1);
  free(memory);
  is_counting = false;
  assert_true(counted > 0);
  close_stage(&s);
}

static void a_replay_allocates_nothing(void **state) {
  (void)state;
  if (!OWN_MALLOC) skip_with_reason();
  for (int i = 0; i < SETUP_COUNT; i++) count_in_replays(&setups[i]);
}

static void a_library_out_of_memory_is_an_error(void **state) {
  (void)state;
  if (!OWN_MALLOC) skip_with_reason();
  ord_error err = ORD_ERROR_INIT;
  stage s = {.context = open_context(1, ALL_PLUGINS)};
  failing_library = "libyaml";
  failed = 0;
  assert_false(ord_model_load(s.context, MODEL("andrea-nano"), NULL, &s.model, NULL, &err));
  failing_library = NULL;
  assert_int_equal(failed, 1);
  assert_int_equal(err.code, ORD_NO_MEMORY);
  MUST(ord_model_load(s.context, MODEL("andrea-nano"), NULL, &s.model, NULL, &err));
  const ord_weight_options where = {.struct_size = sizeof where, .path = NANO_WEIGHTS};
  failing_library = "libjansson";
  failed = 0;
  assert_false(ord_model_open_weights(s.model, &where, NULL, &err));
  failing_library = NULL;
  assert_int_equal(failed, 1);
  assert_int_equal(err.code, ORD_NO_MEMORY);
  MUST(ord_model_open_weights(s.model, &where, NULL, &err));
  close_stage(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_replay_allocates_nothing),
      cmocka_unit_test(a_library_out_of_memory_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
