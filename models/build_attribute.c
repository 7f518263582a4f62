/* SPDX-License-Identifier: MIT
 *
 * The attributes of an op, each read as its rule says: one function per kind of rule, in one table.
 */
#include <string.h>

#include "models/builder_item.h"

/* An attribute that is being read. */
typedef struct attribute_field {
  ord_builder *builder;
  ord_op_item *item;
  const ord_attr_rule *rule;
  const ord_yaml_node *node;
} attribute_field;

static bool fail(const attribute_field *field, const ord_fault *fault) {
  ord_tell_fault(&field->builder->teller, field->node, fault);
  return false;
}

static bool is_scalar(const attribute_field *field, const char *wanted) {
  return ord_field_is_scalar(&field->builder->teller, field->node, field->rule->name,
                             field->rule->wanted ? field->rule->wanted : wanted);
}

static bool is_list(const attribute_field *field, const char *wanted) {
  return ord_field_is_list(&field->builder->teller, field->node, field->rule->name,
                           field->rule->wanted ? field->rule->wanted : wanted);
}

static bool read_int(const attribute_field *field, ord_attr *out) {
  ord_fault fault;
  ord_size size;
  if (!is_scalar(field, "a whole number")) return false;
  if (!ord_expression_evaluate(&field->builder->fixed, field->node->text, &size, &fault)) return fail(field, &fault);
  out->kind = ORD_ATTR_INT;
  return ord_size_is_constant(size, &out->value.i);
}

static bool read_number(const attribute_field *field, ord_attr *out) {
  ord_fault fault;
  if (!is_scalar(field, "a number such as 1e-5")) return false;
  out->kind = ORD_ATTR_NUMBER;
  return ord_scalar_number(field->rule->name, field->node->text, &out->value.f, &fault) || fail(field, &fault);
}

static bool read_bool(const attribute_field *field, ord_attr *out) {
  ord_fault fault;
  bool value;
  if (!is_scalar(field, "true or false")) return false;
  if (!ord_scalar_bool(field->rule->name, field->node->text, &value, &fault)) return fail(field, &fault);
  out->kind = ORD_ATTR_BOOL;
  out->value.i = value;
  return true;
}

static const char *find_hint(const ord_attr_rule *rule, const char *word) {
  for (const char *const *pair = rule->wrong_hint; pair && *pair; pair += 2)
    if (strcmp(*pair, word) == 0) return pair[1];
  return NULL;
}

static bool read_word(const attribute_field *field, ord_attr *out) {
  const ord_attr_rule *rule = field->rule;
  ord_fault fault;
  uint32_t number;
  if (!is_scalar(field, "a word")) return false;
  if (ord_scalar_word(rule->name, field->node->text, rule->word, &number, &fault)) {
    out->kind = ORD_ATTR_WORD;
    out->value.s = rule->word[number];
    return true;
  }
  const char *hint = find_hint(rule, field->node->text);
  if (hint) (void)ord_fault_set(&fault, 0, "%s: '%s' %s", rule->name, field->node->text, hint);
  return fail(field, &fault);
}

static bool read_ints(const attribute_field *field, ord_attr *out) {
  ord_builder *builder = field->builder;
  if (!is_list(field, "a list of whole numbers")) return false;
  int64_t *ints = ord_builder_take(builder, field->node->count, sizeof *ints);
  bool is_good = ints != NULL;
  out->kind = ORD_ATTR_INTS;
  out->value.ints = ints;
  out->count = 0;
  for (const ord_yaml_node *entry = field->node->first; entry && ints && ord_builder_spend(builder, entry);
       entry = entry->next) {
    attribute_field one = *field;
    one.node = entry;
    ord_attr number = {.name = field->rule->name};
    is_good &= read_int(&one, &number);
    ints[out->count++] = number.value.i;
  }
  return is_good;
}

static bool read_shape(const attribute_field *field, ord_attr *out) {
  ord_builder *builder = field->builder;
  ord_op_item *item = field->item;
  (void)out; /* sizes go to the shape rule, kernels see the shape of the result */
  if (!is_list(field, "a list of sizes")) return false;
  if (field->node->count > ORD_RANK_MAX) {
    ord_tell(&builder->teller, field->node, "%s: found %u axes; wanted at most %d", field->rule->name,
             field->node->count, ORD_RANK_MAX);
    return false;
  }
  item->shape = ord_builder_take(builder, field->node->count, sizeof *item->shape);
  bool is_good = item->shape != NULL;
  for (const ord_yaml_node *axis = field->node->first; axis && item->shape && ord_builder_spend(builder, axis);
       axis = axis->next)
    is_good &=
        ord_axis_read(&builder->teller, &builder->any, builder->description, axis, &item->shape[item->shape_rank++]);
  return is_good;
}

static bool read_align(const attribute_field *field, ord_attr *out) {
  static const struct {
    const char *word;
    int64_t value;
  } align[] = {{"first", 0}, {"last", ORD_LAST}};
  if (!is_scalar(field, "first, last or the number of a key")) return false;
  out->kind = ORD_ATTR_INT;
  for (size_t i = 0; i < sizeof align / sizeof *align; i++) {
    if (strcmp(align[i].word, field->node->text) != 0) continue;
    out->value.i = align[i].value;
    return true;
  }
  return read_int(field, out);
}

static bool read_cache(const attribute_field *field, ord_attr *out) {
  (void)out; /* becomes the cache of the node */
  return ord_read_cache(field->builder, field->node, field->item->path, &field->item->cache);
}

static const struct {
  bool (*read)(const attribute_field *field, ord_attr *out); /* false after a fault */
  bool is_passed_on;                                         /* becomes an attribute of the node */
} reader_of_kind[] = {
    [ORD_RULE_INT] = {read_int, true},     [ORD_RULE_NUMBER] = {read_number, true},
    [ORD_RULE_BOOL] = {read_bool, true},   [ORD_RULE_WORD] = {read_word, true},
    [ORD_RULE_INTS] = {read_ints, true},   [ORD_RULE_SHAPE] = {read_shape, false},
    [ORD_RULE_ALIGN] = {read_align, true}, [ORD_RULE_CACHE] = {read_cache, false},
};

void ord_read_attributes(ord_builder *builder, ord_op_item *item) {
  item->attr = ord_builder_take(builder, item->op->attr_count, sizeof *item->attr);
  if (!item->attr) return;
  for (uint32_t i = 0; i < item->op->attr_count; i++) {
    const ord_attr_rule *rule = &item->op->attr[i];
    const attribute_field field = {builder, item, rule, ord_yaml_find(item->map, rule->name)};
    if (!field.node || !ord_builder_spend(builder, field.node)) continue;
    ord_attr attr = {.name = rule->name, .count = 1};
    if (!reader_of_kind[rule->kind].read(&field, &attr))
      item->is_usable = false;
    else if (reader_of_kind[rule->kind].is_passed_on)
      item->attr[item->attr_count++] = attr;
  }
}
