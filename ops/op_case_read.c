/* SPDX-License-Identifier: MIT
 *
 * Reads a conformance row; cases.h has the notation. A row is written by the author of an op, so faults in it are
 * told shortly, with what was left to read.
 */
#include <stdlib.h>
#include <string.h>

#include "ops/case.h"

bool ord_case_wrong(const ord_case_setup *setup, const char *format, ...) {
  ord_text text = {0};
  va_list arguments;
  va_start(arguments, format);
  ord_text_add_list(&text, format, arguments);
  va_end(arguments);
  ord_fail(setup->err, ORD_INTERNAL, "case '%s' '%s' of %s: %s", setup->row->operands, setup->row->attributes,
           setup->op->name, text.failed ? "out of memory" : text.bytes);
  ord_text_finish(&text);
  return false;
}

bool ord_case_out_of_memory(const ord_case_setup *setup) {
  ord_fail_memory(setup->err, "making a case");
  return false;
}

/* ---- pieces of text: each moves *at behind what it read -------------------------------------------------------- */

static bool take(const char **at, char wanted) {
  if (**at != wanted) return false;
  (*at)++;
  return true;
}

static bool read_name(ord_case_setup *setup, const char **at, const char **out) {
  const size_t length = strspn(*at, "abcdefghijklmnopqrstuvwxyz0123456789_");
  *out = length ? ord_arena_text_n(setup->arena, *at, length) : "";
  if (!length) return ord_case_wrong(setup, "found '%s'; wanted a name", *at);
  *at += length;
  return *out || ord_case_out_of_memory(setup);
}

static bool read_int(ord_case_setup *setup, const char **at, int64_t *out) {
  char *end;
  *out = strtoll(*at, &end, 10);
  if (end == *at) return ord_case_wrong(setup, "found '%s'; wanted a whole number", *at);
  *at = end;
  return true;
}

static bool read_double(ord_case_setup *setup, const char **at, double *out) {
  char *end;
  *out = strtod(*at, &end);
  if (end == *at) return ord_case_wrong(setup, "found '%s'; wanted a number", *at);
  *at = end;
  return true;
}

/* In an epilogue the comma behind the last number may lead to the next operand. */
static bool is_another_number(const char **at) {
  char *end;
  if (**at == ',') strtod(*at + 1, &end);
  return **at == ',' && end != *at + 1 && take(at, ',');
}

static bool read_doubles(ord_case_setup *setup, const char **at, const double **out, uint32_t *out_count) {
  double value[64];
  uint32_t count = 0;
  do {
    if (count == sizeof value / sizeof *value) return ord_case_wrong(setup, "more than %u numbers", count);
    if (!read_double(setup, at, &value[count++])) return false;
  } while (is_another_number(at));
  *out_count = count;
  *out = ord_arena_copy(setup->arena, value, count, sizeof *value);
  return *out || ord_case_out_of_memory(setup);
}

static bool read_ints(ord_case_setup *setup, const char **at, ord_attr *attr) {
  int64_t value[64];
  uint32_t count = 0;
  do {
    if (count == sizeof value / sizeof *value) return ord_case_wrong(setup, "more than %u numbers", count);
    if (!read_int(setup, at, &value[count++])) return false;
  } while (take(at, ','));
  attr->count = count;
  attr->value.ints = ord_arena_copy(setup->arena, value, count, sizeof *value);
  return attr->value.ints || ord_case_out_of_memory(setup);
}

/* The run-time dim of this value and maximum: the same pair is the same dim. */
static bool find_run_dim(ord_case_setup *setup, int64_t value, int64_t maximum, uint32_t *out) {
  for (*out = 0; *out < setup->run_dim_count; (*out)++)
    if (setup->run_value[*out] == value && setup->run_maximum[*out] == maximum) return true;
  if (setup->run_dim_count == ORD_RUN_DIM_MAX) return ord_case_wrong(setup, "too many run-time dims");
  setup->run_value[*out] = value;
  setup->run_maximum[*out] = maximum;
  setup->run_dim_count++;
  return true;
}

static bool read_size(ord_case_setup *setup, const char **at, ord_size *out) {
  int64_t value, maximum, factor = 1;
  if (!read_int(setup, at, &value)) return false;
  ord_size_status status = ord_size_constant(setup->arena, value, out);
  if (take(at, '/')) {
    uint32_t run_dim;
    ord_size times;
    if (!read_int(setup, at, &maximum) || (take(at, '*') && !read_int(setup, at, &factor)) ||
        !find_run_dim(setup, value, maximum, &run_dim))
      return false;
    status = ord_size_run_dim(setup->arena, run_dim, out);
    if (status == ORD_SIZE_OK) status = ord_size_constant(setup->arena, factor, &times);
    if (status == ORD_SIZE_OK) status = ord_size_product(setup->arena, *out, times, out);
  }
  return status == ORD_SIZE_OK || ord_case_wrong(setup, "a size of status %d", (int)status);
}

static bool read_shape(ord_case_setup *setup, const char **at, uint32_t *rank, ord_size *size) {
  *rank = 0;
  if (**at == ']') return true;
  do {
    if (*rank == ORD_RANK_MAX) return ord_case_wrong(setup, "more than %d axes", ORD_RANK_MAX);
    if (!read_size(setup, at, &size[(*rank)++])) return false;
  } while (take(at, ','));
  return true;
}

/* ---- operands --------------------------------------------------------------------------------------------------- */

/* 3|3|1 in place of the first dim. */
static bool read_segments(ord_case_setup *setup, const char **at, ord_case_tensor *tensor) {
  ord_segment segment[8];
  const char *ahead = *at + strspn(*at, "0123456789");
  if (*ahead != '|') return true;
  int64_t sum = 0;
  uint32_t count = 0;
  do {
    if (count == sizeof segment / sizeof *segment) return ord_case_wrong(setup, "more than %u segments", count);
    if (!read_int(setup, at, &segment[count].rows)) return false;
    segment[count].weight_id = count;
    sum += segment[count++].rows;
  } while (take(at, '|'));
  tensor->segment_count = count;
  tensor->segment = ord_arena_copy(setup->arena, segment, count, sizeof *segment);
  if (!tensor->segment) return ord_case_out_of_memory(setup);
  if (ord_size_constant(setup->arena, sum, &tensor->size[tensor->rank++]) != ORD_SIZE_OK)
    return ord_case_out_of_memory(setup);
  return true;
}

static bool read_dims(ord_case_setup *setup, const char **at, ord_case_tensor *tensor) {
  if (!read_segments(setup, at, tensor)) return false;
  if (tensor->segment_count) {
    ord_size rest[ORD_RANK_MAX];
    uint32_t rank = 0;
    if (take(at, ',') && !read_shape(setup, at, &rank, rest)) return false;
    if (rank + 1 > ORD_RANK_MAX) return ord_case_wrong(setup, "more than %d axes", ORD_RANK_MAX);
    for (uint32_t axis = 0; axis < rank; axis++) tensor->size[tensor->rank++] = rest[axis];
  } else if (!read_shape(setup, at, &tensor->rank, tensor->size))
    return false;
  return take(at, ']') || ord_case_wrong(setup, "found '%s'; wanted ]", *at);
}

static void read_marks(const char **at, ord_case_tensor *tensor) {
  for (;;) {
    if (take(at, '^'))
      tensor->is_reversed = true;
    else if (take(at, '+'))
      tensor->has_gaps = true;
    else if (take(at, '*'))
      tensor->is_marked_weight = true;
    else
      return;
  }
}

static bool read_tensor(ord_case_setup *setup, const char **at, ord_case_tensor *tensor) {
  *tensor = (ord_case_tensor){.slot = ORD_NONE, .role = ORD_INPUT, .dtype = ORD_F32, .low = -1, .high = 1};
  if (!read_name(setup, at, &tensor->name)) return false;
  if (take(at, '=')) {
    tensor->has_number = true;
    tensor->role = ORD_ABSENT;
    return read_double(setup, at, &tensor->number);
  }
  read_marks(at, tensor);
  if (take(at, ':')) {
    const char *dtype = NULL;
    if (!read_name(setup, at, &dtype)) return false;
    tensor->dtype = ord_dtype_find(dtype);
    if (!tensor->dtype) return ord_case_wrong(setup, "'%s' is no type", dtype);
  }
  if (!take(at, '[')) return true; /* the layout of the results */
  if (!read_dims(setup, at, tensor)) return false;
  if (take(at, '<') && !read_int(setup, at, &tensor->limit)) return false;
  return !take(at, '=') || read_doubles(setup, at, &tensor->value, &tensor->value_count);
}

static bool read_operands(ord_case_setup *setup) {
  const char *at = setup->row->operands;
  while (*at) {
    if (take(&at, ' ')) continue;
    if (setup->tensor_count == ORD_CASE_TENSOR_MAX) return ord_case_wrong(setup, "too many operands");
    ord_case_tensor *tensor = &setup->tensor[setup->tensor_count];
    if (!read_tensor(setup, &at, tensor)) return false;
    if (*at && *at != ' ') return ord_case_wrong(setup, "found '%s'; wanted a space", at);
    tensor->slot = ord_op_find_slot(setup->op, tensor->name);
    if (tensor->slot == ORD_NONE && strcmp(tensor->name, "out") == 0) {
      setup->out_layout = *tensor;
      continue;
    }
    if (tensor->slot == ORD_NONE) return ord_case_wrong(setup, "'%s' is no slot", tensor->name);
    const bool is_weight = tensor->is_marked_weight || (setup->op->slot[tensor->slot].flags & ORD_SLOT_MATRIX) ||
                           ord_ends_with(tensor->name, "weight") || ord_ends_with(tensor->name, "bias");
    if (is_weight && !tensor->has_number) tensor->role = ORD_WEIGHT;
    setup->tensor_count++;
  }
  return true;
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

static bool read_align(ord_case_setup *setup, const char **at, ord_attr *attr) {
  static const struct {
    const char *word;
    int64_t value;
  } word[] = {{"first", 0}, {"last", ORD_LAST}};
  for (size_t i = 0; i < sizeof word / sizeof *word; i++) {
    if (strncmp(*at, word[i].word, strlen(word[i].word)) != 0) continue;
    *at += strlen(word[i].word);
    attr->value.i = word[i].value;
    return true;
  }
  return read_int(setup, at, &attr->value.i);
}

static bool read_bool(ord_case_setup *setup, const char **at, ord_attr *attr) {
  const char *word = NULL;
  if (!read_name(setup, at, &word)) return false;
  attr->value.i = strcmp(word, "true") == 0;
  return attr->value.i || strcmp(word, "false") == 0 || ord_case_wrong(setup, "'%s'; wanted true or false", word);
}

static bool read_shape_attribute(ord_case_setup *setup, const char **at) {
  if (take(at, '[')) return take(at, ']') || ord_case_wrong(setup, "found '%s'; wanted ]", *at);
  return read_shape(setup, at, &setup->shape_rank, setup->shape);
}

/* The value of one attribute of an op or of an epilogue's item. */
static bool read_attribute(ord_case_setup *setup, const char **at, const ord_attr_rule *rule, ord_attr *attr,
                           uint32_t *attr_count) {
  static const uint32_t kind[] = {
      [ORD_RULE_INT] = ORD_ATTR_INT,   [ORD_RULE_NUMBER] = ORD_ATTR_NUMBER, [ORD_RULE_BOOL] = ORD_ATTR_BOOL,
      [ORD_RULE_WORD] = ORD_ATTR_WORD, [ORD_RULE_INTS] = ORD_ATTR_INTS,     [ORD_RULE_ALIGN] = ORD_ATTR_INT};
  if (rule->kind == ORD_RULE_SHAPE) return read_shape_attribute(setup, at);
  if (ord_attr_find(attr, *attr_count, rule->name)) return ord_case_wrong(setup, "'%s' is given twice", rule->name);
  ord_attr made = {.name = rule->name, .kind = kind[rule->kind], .count = 1};
  bool is_read = false;
  switch (rule->kind) {
  case ORD_RULE_NUMBER:
    is_read = read_double(setup, at, &made.value.f);
    break;
  case ORD_RULE_BOOL:
    is_read = read_bool(setup, at, &made);
    break;
  case ORD_RULE_WORD:
    is_read = read_name(setup, at, &made.value.s);
    break;
  case ORD_RULE_INTS:
    is_read = read_ints(setup, at, &made);
    break;
  case ORD_RULE_ALIGN:
    is_read = read_align(setup, at, &made);
    break;
  default:
    is_read = read_int(setup, at, &made.value.i);
    break;
  }
  if (is_read) attr[(*attr_count)++] = made;
  return is_read;
}

static const ord_attr_rule *find_rule(const ord_op *op, const char *name) {
  for (uint32_t i = 0; i < op->attr_count; i++)
    if (strcmp(op->attr[i].name, name) == 0) return &op->attr[i];
  return NULL;
}

static bool add_defaults(ord_case_setup *setup, const ord_op *op, ord_attr *attr, uint32_t *count) {
  for (uint32_t i = 0; i < op->attr_count; i++) {
    const ord_attr_rule *rule = &op->attr[i];
    if (rule->kind == ORD_RULE_SHAPE || rule->kind == ORD_RULE_CACHE || ord_attr_find(attr, *count, rule->name))
      continue;
    if (rule->required) return ord_case_wrong(setup, "%s lacks '%s'; wanted %s", op->name, rule->name, rule->wanted);
    if (rule->default_value.name) attr[(*count)++] = rule->default_value;
  }
  return true;
}

/* ---- the rest of the second text ----------------------------------------------------------------------------------
 */

static bool read_item_operand(ord_case_setup *setup, const char **at, ord_case_item *item, uint32_t which) {
  if (which == 2) return ord_case_wrong(setup, "found '%s'; wanted at most two operands of an item", *at);
  ord_case_tensor *tensor = &setup->item_tensor[setup->item_tensor_count];
  if (!read_tensor(setup, at, tensor)) return false;
  if (ord_ends_with(tensor->name, "weight") || ord_ends_with(tensor->name, "bias") || tensor->is_marked_weight)
    tensor->role = ORD_WEIGHT;
  item->operand[which] = setup->item_tensor_count++;
  return true;
}

static bool read_item(ord_case_setup *setup, const char **at) {
  if (setup->item_count == ORD_CASE_EPILOGUE_MAX) return ord_case_wrong(setup, "too many epilogue items");
  ord_case_item *item = &setup->item[setup->item_count];
  *item = (ord_case_item){.operand = {ORD_NONE, ORD_NONE}, .output = ORD_NONE};
  const char *name = NULL;
  if (!read_name(setup, at, &name)) return false;
  item->op = ord_op_find(name);
  if (!item->op) return ord_case_wrong(setup, "'%s' is no op", name);
  item->attr = ord_arena_take(setup->arena, item->op->attr_count + 1, sizeof *item->attr);
  if (!item->attr) return ord_case_out_of_memory(setup);
  if (take(at, '(')) {
    for (uint32_t which = 0; **at != ';' && **at != ')'; which++)
      if (!read_item_operand(setup, at, item, which) || (!take(at, ',') && **at != ';' && **at != ')'))
        return ord_case_wrong(setup, "found '%s' in an epilogue", *at);
    while (take(at, ';') || take(at, ',')) {
      if (!read_name(setup, at, &name)) return false;
      const ord_attr_rule *rule = find_rule(item->op, name);
      if (!rule || !take(at, '=')) return ord_case_wrong(setup, "'%s' is no attribute of %s", name, item->op->name);
      if (!read_attribute(setup, at, rule, item->attr, &item->attr_count)) return false;
    }
    if (!take(at, ')')) return ord_case_wrong(setup, "found '%s'; wanted )", *at);
  }
  if (take(at, '>')) item->output = 0; /* its tensor is made with the results */
  setup->item_count++;
  return add_defaults(setup, item->op, item->attr, &item->attr_count);
}

static bool read_epilogue(ord_case_setup *setup, const char **at) {
  do
    if (!read_item(setup, at)) return false;
  while (take(at, '+'));
  return true;
}

static bool read_results(ord_case_setup *setup, const char **at) {
  int64_t count;
  if (!read_int(setup, at, &count)) return false;
  setup->result_count = (uint32_t)count;
  return count >= 0 && count < ORD_CASE_TENSOR_MAX / 2;
}

static bool read_compute(ord_case_setup *setup, const char **at) {
  const char *dtype = NULL;
  if (!read_name(setup, at, &dtype)) return false;
  setup->compute = ord_compute_find(dtype);
  return setup->compute || ord_case_wrong(setup, "'%s' is no type", dtype);
}

static bool read_cache(ord_case_setup *setup, const char **at) {
  const char *dtype = NULL;
  setup->has_cache = true;
  setup->cache_dtype = ORD_F32;
  if (!read_int(setup, at, &setup->cache_length)) return false;
  if (take(at, ':') && !read_name(setup, at, &dtype)) return false;
  if (dtype) setup->cache_dtype = ord_dtype_find(dtype);
  return setup->cache_dtype || ord_case_wrong(setup, "'%s' is no type", dtype);
}

static bool read_past(ord_case_setup *setup, const char **at) {
  return read_doubles(setup, at, &setup->past, &setup->past_count);
}

static const struct {
  const char *name;
  bool (*read)(ord_case_setup *setup, const char **at);
} extra[] = {{"results", read_results},
             {"compute", read_compute},
             {"cache", read_cache},
             {"past", read_past},
             {"epilogue", read_epilogue}};

static bool read_word(ord_case_setup *setup, const char **at) {
  const char *name = NULL;
  if (!read_name(setup, at, &name)) return false;
  if (!take(at, '=')) return ord_case_wrong(setup, "found '%s'; wanted =", *at);
  for (size_t i = 0; i < sizeof extra / sizeof *extra; i++)
    if (strcmp(extra[i].name, name) == 0) return extra[i].read(setup, at);
  const ord_attr_rule *rule = find_rule(setup->op, name);
  if (!rule) return ord_case_wrong(setup, "'%s' is no attribute", name);
  return read_attribute(setup, at, rule, setup->attr, &setup->attr_count);
}

bool ord_case_read(ord_case_setup *setup) {
  setup->result_count = setup->op->result_min;
  setup->compute = ORD_F32;
  setup->attr = ord_arena_take(setup->arena, setup->op->attr_count + 1, sizeof *setup->attr);
  if (!setup->attr) return ord_case_out_of_memory(setup);
  if (!read_operands(setup)) return false;
  const char *at = setup->row->attributes;
  while (*at) {
    if (take(&at, ' ')) continue;
    if (!read_word(setup, &at)) return false;
    if (*at && *at != ' ') return ord_case_wrong(setup, "found '%s'; wanted a space", at);
  }
  return add_defaults(setup, setup->op, setup->attr, &setup->attr_count);
}
