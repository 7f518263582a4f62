/* SPDX-License-Identifier: MIT
 *
 * Sessions that are made on two threads, while a third one opens and closes a context of its own on the same device:
 * it loads plugins, takes and frees memory and the handles of libraries. No capture breaks, and all say the same.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "cuda_session.h"

enum { CAPTURING = 2, ROUNDS = 2, TOKENS = 4 };

static bool open_context_on_device(ord_context **out, ord_error *err) {
  static const char *const plugin[] = {PLUGIN("cublas"), PLUGIN("cuda_attention_naive"), PLUGIN("cuda_core")};
  const ord_context_options options = cuda_context_options(plugin, 3);
  return ord_context_create(&options, out, err);
}

static bool load_nano(ord_context *context, ord_model **out, ord_error *err) {
  const ord_model_options options = {.struct_size = sizeof options};
  const ord_weight_options weights = {.struct_size = sizeof weights, .path = NANO_WEIGHTS};
  return ord_model_load(context, MODEL("andrea-nano"), &options, out, NULL, err) &&
         ord_model_open_weights(*out, &weights, NULL, err);
}

typedef struct worker {
  ord_model *model;    /* NULL: one of its own, in a context of its own */
  atomic_int *working; /* of those that capture */
  int32_t token[TOKENS];
  uint32_t count;
  bool has_failed;
  ord_error err;
} worker;

static bool collect(void *context, int32_t id, const char *text, size_t bytes) {
  (void)text, (void)bytes;
  worker *w = context;
  w->token[w->count++] = id;
  return true;
}

static bool say(worker *w, ord_model *model) {
  static const int32_t prompt[] = {256, 'A', 'n', 'd', ' ', 't', 'h', 'e', ' ', 'L', 'O', 'R', 'D', ' '};
  const ord_session_options options = {.struct_size = sizeof options, .generates = true};
  ord_generate_options how = ORD_GENERATE_INIT;
  ord_session *session = NULL;
  how.max_tokens = TOKENS;
  w->count = 0;
  const bool done =
      ord_session_create(model, &options, &session, &w->err) &&
      ord_session_generate(session, prompt, sizeof prompt / sizeof *prompt, &how, collect, w, NULL, &w->err);
  ord_session_destroy(session);
  return done;
}

static void *capture_often(void *context) {
  worker *w = context;
  for (int round = 0; round < ROUNDS && !w->has_failed; round++) w->has_failed = !say(w, w->model);
  atomic_fetch_sub(w->working, 1);
  return NULL;
}

static void *open_often(void *context) {
  worker *w = context;
  while (atomic_load(w->working) > 0 && !w->has_failed) {
    ord_context *own = NULL;
    ord_model *model = NULL;
    w->has_failed = !open_context_on_device(&own, &w->err) || !load_nano(own, &model, &w->err) || !say(w, model);
    ord_model_destroy(model);
    ord_context_destroy(own);
  }
  return NULL;
}

static void three_threads(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  ord_context *context = NULL;
  ord_model *model = NULL;
  worker w[CAPTURING + 1];
  pthread_t thread[CAPTURING + 1];
  atomic_int working = CAPTURING;
  MUST(open_context_on_device(&context, &err));
  MUST(load_nano(context, &model, &err));
  slow_down_captures(context->device, 200000);
  for (int i = 0; i <= CAPTURING; i++) {
    w[i] = (worker){.model = model, .working = &working, .err = ORD_ERROR_INIT};
    assert_int_equal(pthread_create(&thread[i], NULL, i < CAPTURING ? capture_often : open_often, &w[i]), 0);
  }
  for (int i = 0; i <= CAPTURING; i++) pthread_join(thread[i], NULL);
  for (int i = 0; i <= CAPTURING; i++) {
    if (w[i].has_failed) fail_msg("thread %d: %s", i, w[i].err.text);
    assert_int_equal(w[i].count, TOKENS);
    assert_memory_equal(w[i].token, w[0].token, sizeof w[i].token);
  }
  ord_model_destroy(model);
  ord_context_destroy(context);
}

static void test_three_threads(void **state) {
  (void)state;
  run_with_settings("three threads", three_threads, (const char *const[]){"ORDER", "thread", NULL});
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_three_threads)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
