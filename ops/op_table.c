/* SPDX-License-Identifier: MIT
 *
 * The op table of docs/model_format.md, printed from the ops' tables, so that it cannot fall behind them.
 */
#include "ops/op.h"

static void print_slots(ord_text *text, const ord_op *op) {
  for (uint32_t i = 0; i < op->slot_count; i++) {
    const ord_slot *slot = &op->slot[i];
    ord_text_add(text, "%s%s%s", i ? "; " : "", slot->name, slot->flags & ORD_SLOT_OPTIONAL ? "?" : "");
    if (slot->shape)
      ord_text_add(text, "%s %s", slot->flags & ORD_SLOT_LIST ? ":" : "", slot->shape);
    else if (slot->flags & ORD_SLOT_LIST)
      ord_text_add(text, ": list");
  }
}

static void print_words(ord_text *text, const char *const *word) {
  for (uint32_t i = 0; word[i]; i++) ord_text_add(text, "%s%s", !i ? ": " : word[i + 1] ? ", " : " or ", word[i]);
}

static void print_attributes(ord_text *text, const ord_op *op) {
  for (uint32_t i = 0; i < op->attr_count; i++) {
    const ord_attr_rule *rule = &op->attr[i];
    ord_text_add(text, "%s%s", i ? "; " : "", rule->name);
    if (rule->word)
      print_words(text, rule->word);
    else if (rule->required)
      ord_text_add(text, ": %s", rule->wanted);
    if (!rule->required) ord_text_add(text, " (%s)", rule->default_text);
  }
}

bool ord_op_table_print(ord_text *text) {
  ord_text_add(text, "| op | slots | attributes (default) | result |\n|---|---|---|---|\n");
  for (uint32_t i = 0; i < ord_op_count(); i++) {
    const ord_op *op = ord_op_get(i);
    if (op->flags & ORD_OP_HOST) continue;
    ord_text_add(text, "| `%s` | ", op->name);
    print_slots(text, op);
    ord_text_add(text, " | ");
    print_attributes(text, op);
    ord_text_add(text, " | %s |\n", op->about);
  }
  return !text->failed;
}
