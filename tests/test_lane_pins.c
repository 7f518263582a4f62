/* SPDX-License-Identifier: MIT
 *
 * session/lane_pins.c: a pin holds in the plans where its kernel serves, is told of where others go without, and is an
 * error where it holds in none.
 */
#include "fixture.h"
#include "session/parts.h"

/* What the session said of pins. */
typedef struct notes {
  char text[1024];
  int count;
} notes;

static void note(void *context, int level, const char *text) {
  notes *out = context;
  if (level < ORD_LOG_WARNING || strncmp(text, "pin ", 4) != 0) return;
  snprintf(out->text, sizeof out->text, "%s", text);
  out->count++;
}

static ord_context *open_with_liars(notes *said) {
  static const char *const plugin[] = {PLUGIN("attention_flash"), PLUGIN("attention_naive"), PLUGIN("cpu_plain"),
                                       TEST_PLUGIN("liars")};
  const ord_context_options options = {.struct_size = sizeof options,
                                       .threads = 1,
                                       .plugin = plugin,
                                       .plugin_count = sizeof plugin / sizeof *plugin,
                                       .no_default_plugins = true,
                                       .log = note,
                                       .log_context = said};
  ord_error err = ORD_ERROR_INIT;
  ord_context *context = NULL;
  MUST(ord_context_create(&options, &context, &err));
  return context;
}

/* Its plans: all lengths, one new token. */
static stage open_nano_with(notes *said) {
  stage s = {.context = open_with_liars(said)};
  s.model = open_model(s.context, MODEL("andrea-nano"), NULL, NANO_WEIGHTS);
  return s;
}

static void assert_attention(const ord_session *session, uint32_t lane, const char *kernel, const char *selector) {
  const ord_plan *plan = session->lanes->lane[lane].plan;
  int found = 0;
  for (uint32_t i = 0; i < plan->step_count; i++) {
    const ord_choice *choice = &plan->step[i].choice;
    if (strcmp(plan->step[i].node.op, "attention") != 0) continue;
    assert_string_equal(choice->kernel->name, kernel);
    if (selector)
      assert_string_equal(choice->pin->selector, selector);
    else
      assert_null(choice->pin);
    found++;
  }
  assert_int_equal(found, 4);
}

static int count_ops(const ord_session *session, uint32_t lane, const char *op) {
  const ord_plan *plan = session->lanes->lane[lane].plan;
  int found = 0;
  for (uint32_t i = 0; i < plan->step_count; i++) found += strcmp(plan->step[i].node.op, op) == 0;
  return found;
}

#define REFUSAL                                                                                                        \
  "layer.0.self_attention.a: the pinned kernel does not serve this op; attention_single@liars: 512 queries; wanted 1"

static void a_pin_holds_where_its_kernel_serves(void **state) {
  (void)state;
  static const char *const pin = "attention=attention_single@liars";
  const ord_session_options options = {.struct_size = sizeof options, .pin = &pin, .pin_count = 1};
  notes said = {0};
  stage s = open_nano_with(&said);
  s.session = open_session(s.model, &options);
  assert_attention(s.session, 0, "attention_flash", NULL);
  assert_attention(s.session, 1, "attention_single", "attention");
  assert_int_equal(said.count, 1);
  assert_string_equal(said.text,
                      "pin attention=attention_single@liars does not hold in the plan for all lengths: " REFUSAL);
  close_stage(&s);
}

static void explain_tells_the_plans_that_go_without(void **state) {
  (void)state;
  static const char *const pin = "attention=attention_single";
  const ord_session_options options = {.struct_size = sizeof options, .pin = &pin, .pin_count = 1};
  notes said = {0};
  ord_error err = ORD_ERROR_INIT;
  char *text = NULL;
  stage s = open_nano_with(&said);
  MUST(ord_model_report_explain(s.model, &options, false, &text, &err));
  const char *first = strstr(text, "plan for all lengths"),
             *told = strstr(text, "without the pin "
                                  "attention=attention_single: " REFUSAL "\n"),
             *second = strstr(text, "plan for one new token");
  assert_true(first && told && second && first < told && told < second);
  assert_null(strstr(told + 1, "without the pin"));
  ord_text_free(text);
  MUST(ord_model_report_explain(s.model, &options, true, &text, &err));
  assert_non_null(
      strstr(text, "\"without_pins\": [{\"pin\": \"attention=attention_single\", \"reason\": \"" REFUSAL "\"}], "));
  assert_non_null(strstr(text, "\"without_pins\": [], "));
  ord_text_free(text);
  assert_int_equal(said.count, 0); /* whoever reads a report sees it there */
  close_stage(&s);
}

/* As if the other were not there. */
static void where_one_pin_does_not_hold_another_does(void **state) {
  (void)state;
  static const char *const pin[] = {"attention=attention_naive", "layer.*.a=attention_single"};
  const ord_session_options options = {.struct_size = sizeof options, .pin = pin, .pin_count = 2};
  notes said = {0};
  stage s = open_nano_with(&said);
  s.session = open_session(s.model, &options);
  assert_attention(s.session, 0, "attention_naive", "attention");
  assert_attention(s.session, 1, "attention_single", "layer.*.a");
  assert_int_equal(said.count, 1);
  close_stage(&s);
}

/* A kernel that lies is let in by the tolerance. */
static void a_swap_keeps_old_pins_where_the_new_one_does_not_hold(void **state) {
  (void)state;
  static const char *const old = "attention=attention_naive", *const new = "attention=attention_single";
  const ord_session_options options = {.struct_size = sizeof options, .pin = &old, .pin_count = 1};
  static const int32_t id[1] = {1};
  notes said = {0};
  ord_error err = ORD_ERROR_INIT;
  stage s = open_nano_with(&said);
  s.session = open_session(s.model, &options);
  MUST(ord_session_set_tokens(s.session, id, 1, 1, &err));
  MUST(ord_session_run(s.session, &err));
  for (int times = 1; times < 4; times++) {
    const ord_swap_options to = {.struct_size = sizeof to, .pin = &new, .pin_count = 1, .tolerance = 1e30};
    MUST(ord_session_swap_kernel(s.session, &to, NULL, &err));
    assert_attention(s.session, 0, "attention_naive", "attention");
    assert_attention(s.session, 1, "attention_single", "attention");
    assert_int_equal(s.session->lanes->chooser.pin_count, 2); /* they do not add up */
    const ord_swap_options back = {.struct_size = sizeof back, .pin = &old, .pin_count = 1, .tolerance = 1e30};
    MUST(ord_session_swap_kernel(s.session, &back, NULL, &err));
    assert_attention(s.session, 1, "attention_naive", "attention");
    assert_int_equal(said.count, times);
  }
  static const char *const more[] = {"attention=attention_single", "layernorm=layernorm_reference"};
  for (int i = 0; i < 2; i++) {
    const ord_swap_options to = {.struct_size = sizeof to, .pin = &more[i], .pin_count = 1, .tolerance = 1e30};
    MUST(ord_session_swap_kernel(s.session, &to, NULL, &err));
    assert_attention(s.session, 1, "attention_single", "attention");
    assert_int_equal(said.count, 4); /* of the second swap there is nothing to tell */
  }
  close_stage(&s);
}

static void a_pin_that_another_replaces_everywhere_is_not_asked(void **state) {
  (void)state;
  static const char *const pin[] = {"attention=attention_refuses", "layer.*.a=attention_naive"};
  const ord_session_options options = {.struct_size = sizeof options, .pin = pin, .pin_count = 2};
  notes said = {0};
  stage s = open_nano_with(&said);
  s.session = open_session(s.model, &options);
  assert_attention(s.session, 1, "attention_naive", "layer.*.a");
  assert_int_equal(said.count, 0);
  close_stage(&s);
}

/* Each holds where the other does not stand in its way. */
static void a_pin_may_be_covered_where_it_serves(void **state) {
  (void)state;
  static const char *const pin[][2] = {{"attention=attention_single", "attention=attention_single"},
                                       {"attention=attention_single", "layer.*.a=attention_single"}};
  for (int i = 0; i < 2; i++) {
    const ord_session_options options = {.struct_size = sizeof options, .pin = pin[i], .pin_count = 2};
    notes said = {0};
    stage s = open_nano_with(&said);
    s.session = open_session(s.model, &options);
    assert_attention(s.session, 0, "attention_flash", NULL);
    assert_attention(s.session, 1, "attention_single", i == 0 ? "attention" : "layer.*.a");
    assert_int_equal(said.count, 1 + i);
    close_stage(&s);
  }
}

/* Where the pin does not hold, nothing keeps the op a node of its own: it goes into the matmul before it. */
static void a_pinned_op_may_fold_away_elsewhere(void **state) {
  (void)state;
  static const char *const text =
      "ordito: 1\nname: fold\ndims: {d: 8, vocab: 9, context: 8, seq: {min: 1, max: context}}\n"
      "inputs:\n  ids: {dtype: i32, shape: [1, seq], fill: tokens}\n"
      "weights:\n  table: {shape: [vocab, d]}\n  w: {shape: [out: d, in: d]}\ncaches: {kv: {length: context}}\n"
      "graph:\n  - embedding: {in: ids, weight: table, out: x}\n"
      "  - reshape: {in: x, shape: [1, 1, seq, d], out: h}\n"
      "  - attention: {q: h, k: h, v: h, causal: true, cache: kv, out: a}\n"
      "  - reshape: {in: a, shape: [1, seq, d], out: a}\n"
      "  - matmul: {in: a, weight: w, out: m}\n  - relu: {in: m, out: y}\noutputs: [y]\n";
  static const char *const pin = "relu=relu_single";
  const ord_weight_options random = {.struct_size = sizeof random, .random = true, .seed = 1};
  const ord_session_options options = {.struct_size = sizeof options, .pin = &pin, .pin_count = 1};
  notes said = {0};
  ord_error err = ORD_ERROR_INIT;
  stage s = {.context = open_with_liars(&said)};
  MUST(ord_model_load_text(s.context, "fold.yaml", text, strlen(text), NULL, &s.model, NULL, &err));
  MUST(ord_model_open_weights(s.model, &random, NULL, &err));
  s.session = open_session(s.model, &options);
  assert_int_equal(count_ops(s.session, 0, "relu"), 0);
  assert_int_equal(count_ops(s.session, 1, "relu"), 1);
  assert_int_equal(said.count, 1);
  close_stage(&s);
}

static void a_pin_that_holds_nowhere_is_an_error(void **state) {
  (void)state;
  static const char *const pin = "attention=attention_refuses";
  const ord_session_options options = {.struct_size = sizeof options, .pin = &pin, .pin_count = 1};
  notes said = {0};
  ord_error err = ORD_ERROR_INIT;
  ord_session *none = NULL;
  char *text = NULL;
  stage s = open_nano_with(&said);
  static const char *const wanted =
      "pin attention=attention_refuses holds in no plan, not in that for all lengths, for one new token: "
      "layer.0.self_attention.a: the pinned kernel does not serve this op; attention_refuses@liars: found a weekday; "
      "wanted a holiday";
  MUST_FAIL(ord_session_create(s.model, &options, &none, &err), "");
  assert_string_equal(err.text, wanted);
  assert_int_equal(err.code, ORD_UNSUPPORTED);
  MUST_FAIL(ord_model_report_explain(s.model, &options, false, &text, &err), "");
  assert_string_equal(err.text, wanted);
  assert_int_equal(said.count, 0);
  close_stage(&s);
}

/* Within a plan it is all or nothing: of two nodes with the same selector no one gets another kernel unasked. */
static void a_pin_holds_for_all_nodes_of_a_plan(void **state) {
  (void)state;
  static const char *const text =
      "ordito: 1\nname: two\ndims: {d: 8, vocab: 9, context: 8, seq: {min: 2, max: context}}\n"
      "inputs:\n  ids: {dtype: i32, shape: [1, seq], fill: tokens}\n"
      "  one: {dtype: i32, shape: [1, 1]}\n"
      "weights:\n  table: {shape: [vocab, d]}\ncaches: {kv: {length: context}, own: {length: context}}\n"
      "graph:\n  - embedding: {in: ids, weight: table, out: x}\n"
      "  - reshape: {in: x, shape: [1, 1, seq, d], out: h}\n"
      "  - attention: {q: h, k: h, v: h, causal: true, cache: kv, out: many}\n"
      "  - embedding: {in: one, weight: table, out: z}\n"
      "  - reshape: {in: z, shape: [1, 1, 1, d], out: g}\n"
      "  - attention: {q: g, k: g, v: g, causal: true, cache: own, out: few}\noutputs: [many, few]\n";
  static const char *const pin[] = {"attention=attention_single", "few=attention_single"};
  const ord_weight_options random = {.struct_size = sizeof random, .random = true, .seed = 1};
  ord_session_options options = {.struct_size = sizeof options, .pin = &pin[0], .pin_count = 1};
  notes said = {0};
  ord_error err = ORD_ERROR_INIT;
  ord_session *none = NULL;
  stage s = {.context = open_with_liars(&said)};
  MUST(ord_model_load_text(s.context, "two.yaml", text, strlen(text), NULL, &s.model, NULL, &err));
  MUST(ord_model_open_weights(s.model, &random, NULL, &err));
  MUST_FAIL(ord_session_create(s.model, &options, &none, &err),
            "pin attention=attention_single holds in no plan, not in that for all lengths: many: ");
  options.pin = &pin[1];
  s.session = open_session(s.model, &options);
  assert_int_equal(said.count, 0);
  close_stage(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_pin_holds_where_its_kernel_serves),
      cmocka_unit_test(explain_tells_the_plans_that_go_without),
      cmocka_unit_test(where_one_pin_does_not_hold_another_does),
      cmocka_unit_test(a_swap_keeps_old_pins_where_the_new_one_does_not_hold),
      cmocka_unit_test(a_pin_that_another_replaces_everywhere_is_not_asked),
      cmocka_unit_test(a_pin_may_be_covered_where_it_serves),
      cmocka_unit_test(a_pinned_op_may_fold_away_elsewhere),
      cmocka_unit_test(a_pin_that_holds_nowhere_is_an_error),
      cmocka_unit_test(a_pin_holds_for_all_nodes_of_a_plan),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
