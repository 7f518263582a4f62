/* SPDX-License-Identifier: MIT
 *
 * Structs of callers that were built with another header: shorter, longer, and without their size.
 */
#include "fixture.h"
#include "session/parts.h"

typedef struct wide {
  uint32_t struct_size, first;
  uint64_t second, third;
} wide;

static void what_is_taken(void **state) {
  (void)state;
  static const struct {
    uint32_t size;
    wide wanted;
  } row[] = {{sizeof(uint32_t), {sizeof(wide), 0, 0, 0}},
             {offsetof(wide, second), {sizeof(wide), 1, 0, 0}},
             {offsetof(wide, third), {sizeof(wide), 1, 2, 0}},
             {sizeof(wide), {sizeof(wide), 1, 2, 3}},
             {sizeof(wide) + 8, {sizeof(wide), 1, 2, 3}}};
  ord_error err = ORD_ERROR_INIT;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    /* No byte beyond the caller's own is read: valgrind and the sanitizers see it. */
    unsigned char *given = calloc(1, row[i].size);
    const wide whole = {row[i].size, 1, 2, 3};
    memcpy(given, &whole, row[i].size < sizeof whole ? row[i].size : sizeof whole);
    wide out;
    memset(&out, 0xaa, sizeof out);
    MUST(ord_struct_take(given, "wide", &out, sizeof out, &err));
    assert_memory_equal(&out, &row[i].wanted, sizeof out);
    free(given);
  }
  wide out = {1, 1, 1, 1};
  const wide zeros = {.struct_size = sizeof zeros};
  MUST(ord_struct_take(NULL, "wide", &out, sizeof out, &err));
  assert_memory_equal(&out, &zeros, sizeof out);
  for (uint32_t size = 0; size < sizeof size; size++)
    MUST_FAIL(ord_struct_take(&(wide){.struct_size = size}, "wide", &out, sizeof out, &err), "wide: struct_size is ");
}

static void what_is_given(void **state) {
  (void)state;
  static const uint32_t size[] = {sizeof(uint32_t), offsetof(wide, third), sizeof(wide), sizeof(wide) + 8};
  const wide made = {sizeof made, 1, 2, 3};
  ord_error err = ORD_ERROR_INIT;
  for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
    unsigned char out[sizeof(wide) + 8], wanted[sizeof out];
    memset(out, 0xaa, sizeof out);
    memcpy(out, &size[i], sizeof size[i]);
    memcpy(wanted, out, sizeof out);
    memcpy(wanted + sizeof size[i], (const char *)&made + sizeof size[i],
           (size[i] < sizeof made ? size[i] : sizeof made) - sizeof size[i]);
    MUST(ord_struct_give(&made, "wide", out, sizeof made, &err));
    assert_memory_equal(out, wanted, sizeof out);
  }
  wide out = {0};
  MUST_FAIL(ord_struct_give(&made, "wide", &out, sizeof made, &err), "wide: struct_size is 0; wanted sizeof(wide)");
}

/* Each function that takes or fills a struct says which one lacks its size. */
static void every_struct_says_its_name(void **state) {
  (void)state;
  static const char text[] = "ordito: 1\nname: m\ndims: {d: 2}\ninputs:\n  x: {dtype: f32, shape: [d]}\n"
                             "graph:\n  - relu: {in: x, out: y}\noutputs: [y]\n";
  static const float number[2] = {1, -1};
  ord_error err = ORD_ERROR_INIT;
  ord_context *context = NULL;
  MUST_FAIL(ord_context_create(&(ord_context_options){.threads = 1}, &context, &err),
            "ord_context_options: struct_size");
  context = open_context(1, NO_PLUGINS);
  ord_model *model = NULL;
  MUST_FAIL(ord_model_load(context, MODEL("minimal"), &(ord_model_options){0}, &model, NULL, &err),
            "ord_model_options: struct_size");
  MUST_FAIL(ord_model_load_text(context, "m", text, strlen(text), &(ord_model_options){0}, &model, NULL, &err),
            "ord_model_options: struct_size");
  MUST(ord_model_load_text(context, "m", text, strlen(text), NULL, &model, NULL, &err));
  MUST_FAIL(ord_model_open_weights(model, &(ord_weight_options){.random = true}, NULL, &err),
            "ord_weight_options: struct_size");
  ord_session *session = NULL;
  char *report = NULL;
  ord_memory_report memory = {0};
  MUST_FAIL(ord_session_create(model, &(ord_session_options){.generates = true}, &session, &err),
            "ord_session_options: struct_size");
  MUST_FAIL(ord_model_report_explain(model, &(ord_session_options){0}, false, &report, &err),
            "ord_session_options: struct_size");
  MUST_FAIL(ord_model_report_show(model, &(ord_show_options){0}, &report, &err), "ord_show_options: struct_size");
  MUST_FAIL(ord_model_estimate_memory(model, NULL, &memory, &err), "ord_memory_report: struct_size");
  session = open_session(model, NULL);
  ord_tensor in = {.dtype = ORD_F32, .rank = 1, .dim = {2}, .data = number, .bytes = sizeof number}, out = {0};
  MUST_FAIL(ord_session_set(session, "x", &in, &err), "ord_tensor: struct_size");
  in.struct_size = sizeof in;
  MUST(ord_session_set(session, "x", &in, &err));
  MUST_FAIL(ord_session_run_timed(session, &(ord_timing){.eager = true}, &err), "ord_timing: struct_size");
  MUST(ord_session_run(session, &err));
  MUST_FAIL(ord_session_get(session, "y", &out, &err), "ord_tensor: struct_size");
  MUST_FAIL(ord_session_memory(session, &memory, &err), "ord_memory_report: struct_size");
  MUST_FAIL(ord_session_generate(session, NULL, 0, &(ord_generate_options){.top_p = 1}, NULL, NULL, NULL, &err),
            "ord_generate_options: struct_size");
  MUST_FAIL(ord_session_generate(session, NULL, 0, NULL, NULL, NULL, &(ord_generate_result){0}, &err),
            "ord_generate_result: struct_size");
  assert_true(ord_session_step_time(session, 0, &(ord_step_time){.struct_size = sizeof(ord_step_time)}));
  assert_false(ord_session_step_time(session, 0, &(ord_step_time){0}));
  ord_session_destroy(session);
  ord_model_destroy(model);
  MUST_FAIL(ord_kernel_test(TEST_PLUGIN("good_relu"), &(ord_kernel_test_options){0}, NULL, NULL, &err),
            "ord_kernel_test_options: struct_size");
  ord_context_destroy(context);
}

/* An old program knows less of a session's options and of a report: it works as before. */
static void an_older_caller(void **state) {
  (void)state;
  static const char text[] = "ordito: 1\nname: m\ndims: {d: 2}\ninputs:\n  x: {dtype: f32, shape: [d], fill: 1}\n"
                             "graph:\n  - relu: {in: x, out: y}\noutputs: [y]\n";
  ord_error err = ORD_ERROR_INIT;
  ord_context *context = open_context(1, NO_PLUGINS);
  ord_model *model = NULL;
  ord_session *session = NULL;
  MUST(ord_model_load_text(context, "m", text, strlen(text), NULL, &model, NULL, &err));
  /* Behind its end lies what would be refused. */
  const ord_session_options options = {.struct_size = offsetof(ord_session_options, deny_fallback), .generates = true};
  MUST(ord_session_create(model, &options, &session, &err));
  MUST(ord_session_run(session, &err));
  ord_tensor out = {.struct_size = offsetof(ord_tensor, bytes), .bytes = 12345};
  MUST(ord_session_get(session, "y", &out, &err));
  assert_int_equal(out.rank, 1);
  assert_int_equal(out.bytes, 12345);
  ord_memory_report memory = {.struct_size = offsetof(ord_memory_report, cache), .peak = 12345};
  MUST(ord_session_memory(session, &memory, &err));
  assert_int_equal(memory.peak, 12345);
  ord_session_destroy(session);
  ord_model_destroy(model);
  ord_context_destroy(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_taken),
      cmocka_unit_test(what_is_given),
      cmocka_unit_test(every_struct_says_its_name),
      cmocka_unit_test(an_older_caller),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
