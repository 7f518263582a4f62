/* SPDX-License-Identifier: MIT
 *
 * Out of memory: every allocation of ours between opening a context and a captured, replayed session fails in turn.
 * Each time there is an error that says so, nothing is lost, and the next attempt works. The linker wraps the
 * allocator for the layers that this program links (see CMakeLists.txt); libraries keep theirs.
 */
#include "failing_memory.h"
#include "fixture.h"
#include "small_model.h"

/* From nothing to four generated tokens. */
static bool whole_path(const setup *how, ord_error *err) {
  const ord_context_options where = context_options_for(how, 1);
  const ord_weight_options random = {.struct_size = sizeof random, .random = true, .seed = 1};
  const ord_session_options plain = {.struct_size = sizeof plain, .generates = true};
  const ord_session_options generates = options_for(how, &plain);
  ord_generate_options options = ORD_GENERATE_INIT;
  options.max_tokens = 4;
  stage s = {0};
  char *messages = NULL, *show = NULL, *explain = NULL;
  const ord_show_options all = {.struct_size = sizeof all, .passes = true, .plan = true, .session = &generates};
  const bool done =
      ord_context_create(&where, &s.context, err) &&
      ord_model_load_text(s.context, "small.yaml", SMALL_MODEL, strlen(SMALL_MODEL), NULL, &s.model, &messages, err) &&
      ord_model_open_weights(s.model, &random, NULL, err) && ord_model_report_show(s.model, &all, &show, err) &&
      ord_model_report_explain(s.model, &generates, true, &explain, err) &&
      ord_session_create(s.model, &generates, &s.session, err) &&
      ord_session_generate(s.session, NULL, 0, &options, NULL, NULL, NULL, err);
  ord_text_free(messages);
  ord_text_free(show);
  ord_text_free(explain);
  close_stage(&s);
  return done;
}

static void fail_in_turn(const setup *how) {
  ord_error err = ORD_ERROR_INIT;
  MUST(whole_path(how, &err)); /* what libraries keep for good is there after this */
  allocation_count = 0;
  live_count = 0;
  MUST(whole_path(how, &err));
  const long all = allocation_count;
  assert_int_equal(live_count, 0);
  assert_true(all > 100);
  for (long i = 0; i < all; i++) {
    err = (ord_error)ORD_ERROR_INIT;
    allocation_count = 0;
    fail_at = i;
    const bool done = whole_path(how, &err);
    fail_at = -1;
    if (done) fail_msg("%s: allocation %ld of %ld failed and nobody noticed", how->name, i, all);
    if (err.code != ORD_NO_MEMORY)
      fail_msg("%s: allocation %ld: code %d, \"%s\"; wanted out of memory", how->name, i, err.code, err.text);
    if (live_count != 0) fail_msg("%s: allocation %ld: %ld pieces of memory were lost", how->name, i, live_count);
  }
  MUST(whole_path(how, &err));
  print_message("%s: %ld allocations failed in turn\n", how->name, all);
}

static void every_allocation_fails_in_turn(void **state) {
  (void)state;
  fail_in_turn(&setups[0]);
  if (!is_slow_build()) fail_in_turn(&(setup){.name = "plain kernels", .plugins = PLAIN_PLUGINS});
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_fails_in_turn)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
