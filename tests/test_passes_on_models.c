/* SPDX-License-Identifier: MIT
 *
 * What the passes promise about whole models: in a layer of andrea-12m three projections are one matmul and reshape,
 * transpose and concat move no bytes; and switching passes off, one by one and all together, changes no bit.
 */
#include "fixture.h"
#include "session/parts.h"

#define VOCAB 257

static uint32_t count_steps(const ord_plan *plan, const char *op) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < plan->step_count; i++) count += strcmp(plan->step[i].node.op, op) == 0;
  return count;
}

static const ord_step *find_step(const ord_plan *plan, const char *path) {
  for (uint32_t i = 0; i < plan->step_count; i++)
    for (uint32_t p = 0; p < plan->step[i].path_count; p++)
      if (strcmp(plan->step[i].path[p], path) == 0) return &plan->step[i];
  fail_msg("no step stands for %s", path);
  return NULL;
}

static void a_layer_of_andrea_12m_moves_no_bytes(void **state) {
  (void)state;
  ord_error err = ORD_ERROR_INIT;
  stage s = {.context = open_context(1, ALL_PLUGINS)};
  s.model = open_model(s.context, MODEL("andrea"), "12m", NULL);
  const char *const output[] = {"next"};
  const ord_session_options options = {.struct_size = sizeof options, .output = output, .output_count = 1};
  MUST(ord_session_create_dry(s.model, &options, &s.session, &err));
  assert_int_equal(s.session->lanes->count, 2);
  assert_int_equal(s.session->lanes->lane[0].plan->input[0].dim[1], 1024);
  assert_int_equal(s.session->lanes->lane[1].plan->input[0].dim[1], 1); /* made for a single new token */
  for (uint32_t i = 0; i < s.session->lanes->count; i++) {
    const ord_plan *plan = s.session->lanes->lane[i].plan;
    const ord_step *q = find_step(plan, "layer.3.self_attention.q");
    assert_ptr_equal(q, find_step(plan, "layer.3.self_attention.k"));
    assert_ptr_equal(q, find_step(plan, "layer.3.self_attention.v"));
    assert_string_equal(q->node.op, "matmul");
    const uint32_t weight = ord_node_find(&q->node, "weight");
    assert_int_equal(q->node.operand[weight].segment_count, 3);
    assert_int_equal(q->node.operand[weight].dim[0], 3 * 384);
    static const char *const gone[] = {"reshape", "transpose", "split", "slice", "concat", "concat_projection", "mlp"};
    for (size_t g = 0; g < sizeof gone / sizeof *gone; g++) assert_int_equal(count_steps(plan, gone[g]), 0);
    assert_int_equal(plan->moved_bytes, 0);
    assert_int_equal(count_steps(plan, "matmul"), 6 * 4 + 1); /* qkv, wo, fc1, fc2 a layer, and the head */
  }
  close_stage(&s);
}

static void run_nano(const setup *how, const char *const *disabled, uint32_t count, float logits[2][VOCAB]) {
  ord_error err = ORD_ERROR_INIT;
  static const char *const output[] = {"next"};
  const ord_session_options wanted = {.struct_size = sizeof wanted,
                                      .disabled_pass = disabled,
                                      .disabled_pass_count = count,
                                      .output = output,
                                      .output_count = 1};
  int32_t id[24] = {256};
  for (int i = 1; i < 24; i++) id[i] = (unsigned char)"In the beginning God cr"[i - 1];
  stage s = open_nano_for(how, 2, &wanted);
  for (int round = 0; round < 2; round++) {
    ord_tensor out = {.struct_size = sizeof out};
    MUST(ord_session_set_tokens(s.session, id, 1, round == 0 ? 24 : 1, &err));
    MUST(ord_session_run(s.session, &err));
    MUST(ord_session_get(s.session, "next", &out, &err));
    memcpy(logits[round], out.data, sizeof logits[round]);
  }
  close_stage(&s);
}

static void leave_passes_out(const setup *how) {
  float wanted[2][VOCAB], found[2][VOCAB];
  const char *all[32];
  uint32_t count = 0;
  run_nano(how, NULL, 0, wanted);
  for (uint32_t i = 0; i < ord_pass_count(); i++) {
    const char *name = ord_pass_get(i)->name;
    run_nano(how, &name, 1, found);
    if (memcmp(wanted, found, sizeof wanted) != 0) fail_msg("%s: without %s the logits differ", how->name, name);
    all[count++] = name;
  }
  run_nano(how, all, count, found);
  if (memcmp(wanted, found, sizeof wanted) != 0) fail_msg("%s: without any pass the logits differ", how->name);
}

static void passes_change_no_bit(void **state) {
  (void)state;
  leave_passes_out(&(setup){.name = "reference", .plugins = NO_PLUGINS});
  for (int i = 0; i < SETUP_COUNT; i++) leave_passes_out(&setups[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_layer_of_andrea_12m_moves_no_bytes),
      cmocka_unit_test(passes_change_no_bit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
