/* SPDX-License-Identifier: MIT
 *
 * The list of ops and what shape rules use; every op's table is complete; the op table prints them all.
 */
#include "op_testing.h"

static void test_list(void **state) {
  (void)state;
  assert_true(ord_op_count() >= 30);
  assert_null(ord_op_get(ord_op_count()));
  assert_null(ord_op_find("matmull"));
  for (uint32_t i = 0; i < ord_op_count(); i++) {
    const ord_op *op = ord_op_get(i);
    assert_ptr_equal(ord_op_find(op->name), op);
    assert_true(op->version && op->infer && op->about && op->slot_count);
    assert_true(op->result_min <= op->result_max);
    assert_true(!(op->flags & ORD_OP_COMPOSITE) == !op->lower);
    assert_non_null(op->reference);
    assert_true(op->cases && op->cases[0].operands);
  }
}

/* What the builder of models relies on. */
static void test_slots_and_attributes(void **state) {
  (void)state;
  for (uint32_t i = 0; i < ord_op_count(); i++) {
    const ord_op *op = ord_op_get(i);
    for (uint32_t slot = 0; slot < op->slot_count; slot++)
      if (op->slot[slot].flags & ORD_SLOT_LIST) assert_int_equal(slot, op->slot_count - 1);
    for (uint32_t which = 0; which < op->attr_count; which++) {
      const ord_attr_rule *rule = &op->attr[which];
      assert_true(!rule->required || rule->wanted);
      assert_true(rule->required == !rule->default_text);
      assert_true(!rule->required || !rule->default_value.name);
      assert_true((rule->kind == ORD_RULE_WORD || rule->kind == ORD_RULE_ALIGN) == (rule->word != NULL));
    }
  }
}

/* Kernels find what the host adds to a node by its name; ordito_plugin.h lists these. */
static void test_reserved_names(void **state) {
  (void)state;
  static const char *const reserved[] = {"out", "epilogue", "epilogue_out", "cache_k", "cache_v", "past", "extent"};
  for (uint32_t i = 0; i < ord_op_count(); i++) {
    const ord_op *op = ord_op_get(i);
    for (uint32_t slot = 0; slot < op->slot_count; slot++) {
      const char *name = op->slot[slot].name, *end = strrchr(name, '_');
      for (size_t r = 0; r < op_testing_count(reserved); r++) assert_string_not_equal(name, reserved[r]);
      assert_true(!end || strcmp(end, "_scale") != 0);
    }
  }
}

/* The conventions that break models silently have no default. */
static void test_required_attributes(void **state) {
  (void)state;
  static const struct {
    const char *op, *attr;
  } row[] = {{"attention", "causal"}, {"layernorm", "eps"},  {"rmsnorm", "eps"},
             {"rope", "pairing"},     {"mlp", "activation"}, {"pool", "kind"}};
  for (size_t i = 0; i < op_testing_count(row); i++) {
    const ord_op *op = ord_op_find(row[i].op);
    uint32_t which = 0;
    while (strcmp(op->attr[which].name, row[i].attr) != 0) assert_true(++which < op->attr_count);
    assert_true(op->attr[which].required);
  }
}

static void keep_text(ord_infer *infer, const char *place, uint32_t entry, const char *text) {
  snprintf(infer->report_context, 256, "%s %u: %s", place ? place : "-", entry, text);
}

static void test_infer_helpers(void **state) {
  (void)state;
  char text[256] = "";
  ord_arena arena = {0};
  const ord_op op = {.name = "fold",
                     .slot = (const ord_slot[]){{.name = "by"}, {.name = "in", .flags = ORD_SLOT_LIST}}};
  const ord_infer_operand operand[] = {{.slot = 0, .is_absent = true}, {.slot = 1}, {.slot = 1}};
  ord_attr attr[4] = {{"axis", ORD_ATTR_INT, 1, {.i = -1}}};
  ord_infer infer = {.op = &op,
                     .arena = &arena,
                     .operand = operand,
                     .operand_count = 3,
                     .attr = attr,
                     .attr_count = 1,
                     .report = keep_text,
                     .report_context = text};
  assert_null(ord_infer_slot(&infer, "by"));
  assert_null(ord_infer_slot(&infer, "what"));
  assert_ptr_equal(ord_infer_slot(&infer, "in"), &operand[1]);
  assert_int_equal(ord_infer_entry(&infer, &operand[2]), 1);

  uint32_t axis = 9;
  assert_true(ord_infer_axis(&infer, "axis", 3, &axis));
  assert_int_equal(axis, 2);
  assert_int_equal(ord_infer_attr(&infer, "axis")->value.i, 2);
  assert_false(ord_infer_axis(&infer, "axis", 2, &axis));
  assert_string_equal(text, "axis 0: fold: axis 2 lies outside a tensor of 2 axes; wanted -2 to 1");

  int64_t ints[] = {3, 4};
  assert_true(ord_infer_set_ints(&infer, "sizes", ints, 2));
  ints[0] = 7;
  assert_int_equal(ord_infer_attr(&infer, "sizes")->value.ints[0], 3);
  assert_true(ord_infer_set_number(&infer, "scale", 0.5));
  assert_true(ord_infer_set_int(&infer, "scale", 2));
  assert_int_equal(infer.attr_count, 3);
  assert_int_equal(ord_infer_attr(&infer, "scale")->kind, ORD_ATTR_INT);

  assert_false(ord_infer_fail(&infer, "in", 1, "%d is %s", 5, "odd"));
  assert_string_equal(text, "in 1: fold: 5 is odd");
  assert_true(ord_infer_size(&infer, ORD_SIZE_OK));
  assert_false(ord_infer_size(&infer, ORD_SIZE_OVERFLOW));
  assert_string_equal(text, "- 0: fold: a size is too large; found 2^40 or more; wanted less");
  assert_false(infer.out_of_memory);
  assert_false(ord_infer_size(&infer, ORD_SIZE_NO_MEMORY));
  assert_true(infer.out_of_memory);
  ord_arena_finish(&arena);
}

static void test_table(void **state) {
  (void)state;
  ord_text text = {0};
  assert_true(ord_op_table_print(&text));
  static const char *const row[] = {"| op | slots | attributes (default) | result |\n|---|---|---|---|\n",
                                    "| `softmax` | in | axis (-1) | as in; a slice of -inf alone gives zeros |\n",
                                    "| `l2_normalize` | in | axis (-1); eps (1e-12) | in / max(length, eps) |\n",
                                    "| `pool` | in [b, s, d]; lengths? i32 [b] | kind: mean, first or last | [b, d], ",
                                    ", over the tokens that count; over none: zeros |\n",
                                    "| `concat` | in: list | axis: "};
  for (size_t i = 0; i < op_testing_count(row); i++)
    if (!strstr(text.bytes, row[i])) fail_msg("not found: %s\nin: %s", row[i], text.bytes);
  for (uint32_t i = 0; i < ord_op_count(); i++) {
    char name[64];
    snprintf(name, sizeof name, "\n| `%s` |", ord_op_get(i)->name);
    assert_true((strstr(text.bytes, name) == NULL) == ((ord_op_get(i)->flags & ORD_OP_HOST) != 0));
  }
  ord_text_finish(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_list),           cmocka_unit_test(test_slots_and_attributes),
                                     cmocka_unit_test(test_reserved_names), cmocka_unit_test(test_required_attributes),
                                     cmocka_unit_test(test_infer_helpers),  cmocka_unit_test(test_table)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
