/* SPDX-License-Identifier: MIT
 *
 * For tests of ops: shape rules and references on rows of text. A row's operands are written as in cases.h, with the
 * name of the value, a line and run-time dims where a message shall name them: "in/h[1,seq,384]@29 weight/w*[384,768]".
 */
#ifndef ORDITO_TESTS_OP_TESTING_H
#define ORDITO_TESTS_OP_TESTING_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/cases.h"

typedef struct {
  const char *operands, *attributes;
  const char *wanted; /* "f32 [1, seq, 768]", results joined by "; ", or "in: matmul: .." with what is pointed at */
} op_rule_row;

typedef struct {
  const char *operands, *attributes;
  uint32_t which;
  const char *wanted; /* the numbers of result `which`, "1 2.5 nan" */
} op_value_row;

/* The same of several ops. */
typedef struct op_named_rule_row {
  const char *op;
  op_rule_row row;
} op_named_rule_row;

typedef struct op_named_value_row {
  const char *op;
  op_value_row row;
} op_named_value_row;

static const char *const op_testing_run_dim[] = {"seq", "past"};

static inline void op_testing_report(ord_infer *infer, const char *place, uint32_t entry, const char *text) {
  (void)entry;
  snprintf(infer->report_context, 1024, "%s: %s", place ? place : "-", text);
}

static inline ord_size op_testing_size(ord_arena *arena, const char *text) {
  ord_size size = {0};
  for (uint32_t i = 0; i < 2; i++)
    if (strcmp(text, op_testing_run_dim[i]) == 0) {
      assert_int_equal(ord_size_run_dim(arena, i, &size), ORD_SIZE_OK);
      return size;
    }
  assert_int_equal(ord_size_constant(arena, atoll(text), &size), ORD_SIZE_OK);
  return size;
}

/* "in/h*:bf16[1,seq,384]@29" */
static inline void op_testing_operand(ord_infer *infer, ord_infer_operand *operand, char *text) {
  const char *line = "", *dtype = "f32";
  if (!strchr(text, '[')) { /* "in=2.5", a plain number in the first slot */
    *operand = (ord_infer_operand){.is_absent = true, .has_number = true, .number = atof(strchr(text, '=') + 1)};
    return;
  }
  char *at = strchr(text, '@'), *dims = strchr(text, '['), *mark;
  if (at) line = ord_arena_format(infer->arena, " (line %s)", at + 1);
  *strchr(dims, ']') = 0;
  *dims++ = 0;
  if ((mark = strchr(text, ':'))) *mark = 0, dtype = mark + 1;
  operand->is_weight = (mark = strchr(text, '*')) != NULL;
  if (mark) *mark = 0;
  const char *name = text;
  if ((mark = strchr(text, '/'))) *mark = 0, name = mark + 1;
  while (strcmp(infer->op->slot[operand->slot].name, text) != 0) assert_true(++operand->slot < infer->op->slot_count);
  operand->name = name;
  operand->dtype = ord_dtype_find(dtype);
  assert_true(operand->dtype != 0);
  const bool is_matrix = operand->is_weight && infer->op->slot[operand->slot].flags & ORD_SLOT_MATRIX;
  ord_text described = {0};
  ord_text_add(&described, "%s'%s' [", operand->is_weight ? "weight " : "", name);
  char *rest = NULL;
  for (char *dim = strtok_r(dims, ",", &rest); dim; dim = strtok_r(NULL, ",", &rest), operand->rank++) {
    operand->dim[operand->rank] = op_testing_size(infer->arena, dim);
    ord_text_add(&described, "%s%s%s", operand->rank ? ", " : "",
                 !is_matrix      ? ""
                 : operand->rank ? "in "
                                 : "out ",
                 dim);
  }
  ord_text_add(&described, "]%s", line);
  operand->described = ord_arena_text(infer->arena, described.bytes);
  ord_text_finish(&described);
}

/* "0,2,1" and "1,seq,384" */
static inline void op_testing_list(ord_infer *infer, ord_attr *attr, char *text) {
  int64_t *ints = ord_arena_take(infer->arena, 16, sizeof *ints);
  ord_size *shape = ord_arena_take(infer->arena, ORD_RANK_MAX, sizeof *shape);
  char *rest = NULL;
  for (char *one = strtok_r(text, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
    if (attr)
      ints[attr->count++] = atoll(one);
    else
      shape[infer->shape_rank++] = op_testing_size(infer->arena, one);
  }
  infer->shape = shape;
  if (attr) attr->value.ints = ints;
}

/* "causal=true", "cache=16", "results=2", "axes=0,2,1", "shape=1,seq,384" */
static inline void op_testing_attribute(ord_infer *infer, char *text) {
  char *value = strchr(text, '=');
  *value++ = 0;
  if (strcmp(text, "results") == 0) {
    infer->result_count = (uint32_t)atoi(value);
    return;
  }
  const ord_attr_rule *rule = infer->op->attr;
  while (strcmp(rule->name, text) != 0) assert_true(++rule < infer->op->attr + infer->op->attr_count);
  ord_attr *attr = &infer->attr[infer->attr_count++];
  *attr = (ord_attr){.name = rule->name, .kind = ORD_ATTR_INT, .count = 1};
  switch (rule->kind) {
  case ORD_RULE_NUMBER:
    attr->kind = ORD_ATTR_NUMBER, attr->value.f = atof(value);
    break;
  case ORD_RULE_BOOL:
    attr->kind = ORD_ATTR_BOOL, attr->value.i = strcmp(value, "true") == 0;
    break;
  case ORD_RULE_WORD:
    attr->kind = ORD_ATTR_WORD, attr->value.s = ord_arena_text(infer->arena, value);
    break;
  case ORD_RULE_ALIGN:
    attr->value.i = strcmp(value, "last") == 0 ? ORD_LAST : atoll(value);
    break;
  case ORD_RULE_INTS:
    attr->kind = ORD_ATTR_INTS, attr->count = 0;
    op_testing_list(infer, attr, value);
    break;
  case ORD_RULE_SHAPE:
    infer->attr_count--;
    op_testing_list(infer, NULL, value);
    break;
  case ORD_RULE_CACHE:
    infer->attr_count--;
    infer->has_cache = true;
    infer->cache_length = op_testing_size(infer->arena, value);
    break;
  default:
    attr->value.i = atoll(value);
  }
}

/* What the shape rule makes of a row, and into `attr` (room for 16, may be NULL) the resolved attributes. */
static inline void op_testing_infer(const ord_op *op, const char *operands, const char *attributes, char text[1024],
                                    ord_attr *attr_out, uint32_t *attr_count) {
  ord_arena arena = {0};
  ord_infer_operand operand[16] = {0};
  ord_infer_result result[4] = {0};
  ord_attr attr[16];
  ord_infer infer = {.op = op,
                     .arena = &arena,
                     .run_dim_name = op_testing_run_dim,
                     .operand = operand,
                     .attr = attr,
                     .result = result,
                     .result_count = op->result_min,
                     .report = op_testing_report,
                     .report_context = text};
  char *copy = ord_arena_text(&arena, operands), *rest = NULL;
  for (char *one = strtok_r(copy, " ", &rest); one; one = strtok_r(NULL, " ", &rest))
    op_testing_operand(&infer, &operand[infer.operand_count++], one);
  copy = ord_arena_text(&arena, attributes);
  for (char *one = strtok_r(copy, " ", &rest); one; one = strtok_r(NULL, " ", &rest)) op_testing_attribute(&infer, one);
  text[0] = 0;
  const bool is_fine = op->infer(&infer);
  assert_true(is_fine == (text[0] == 0));
  ord_text made = {0};
  for (uint32_t i = 0; is_fine && i < infer.result_count; i++) {
    ord_text_add(&made, "%s%s [", i ? "; " : "", ord_dtype_name(result[i].dtype));
    for (uint32_t axis = 0; axis < result[i].rank; axis++) {
      if (axis) ord_text_add(&made, ", ");
      ord_size_print(&made, result[i].dim[axis], op_testing_run_dim);
    }
    ord_text_add(&made, "]");
  }
  if (made.bytes) snprintf(text, 1024, "%s", made.bytes);
  ord_text_finish(&made);
  if (attr_out) memcpy(attr_out, attr, sizeof attr), *attr_count = infer.attr_count;
  ord_arena_finish(&arena);
}

static inline void op_testing_rules(const ord_op *op, const op_rule_row *row, size_t count) {
  for (size_t i = 0; i < count; i++) {
    char text[1024];
    op_testing_infer(op, row[i].operands, row[i].attributes, text, NULL, NULL);
    assert_string_equal(text, row[i].wanted);
  }
}

static inline void op_testing_named_rules(const op_named_rule_row *row, size_t count) {
  for (size_t i = 0; i < count; i++) op_testing_rules(ord_op_find(row[i].op), &row[i].row, 1);
}

/* Compares what the reference makes with the numbers of each row, up to `tolerance` relative to numbers above 1. */
static inline void op_testing_values(const ord_op *op, const op_value_row *row, size_t count, double tolerance) {
  for (size_t i = 0; i < count; i++) {
    ord_arena arena = {0};
    ord_error err = ORD_ERROR_INIT;
    ord_case_values got;
    const ord_case one = {row[i].operands, row[i].attributes};
    if (!ord_case_compute(op, &one, row[i].which, &arena, &got, &err)) fail_msg("%s: %s", one.operands, err.text);
    const char *wanted = row[i].wanted;
    for (int64_t j = 0; j < got.count; j++) {
      char *end;
      const double number = strtod(wanted, &end);
      if (end == wanted) fail_msg("%s: found %lld numbers, wanted fewer", one.operands, (long long)got.count);
      wanted = end;
      const bool is_equal = isfinite(number) ? fabs(got.value[j] - number) <= tolerance * fmax(1, fabs(number))
                            : isnan(number)  ? isnan(got.value[j])
                                             : got.value[j] == number;
      if (!is_equal)
        fail_msg("%s %s: number %lld: found %.9g, wanted %.9g", one.operands, one.attributes, (long long)j,
                 got.value[j], number);
    }
    while (*wanted == ' ') wanted++;
    assert_string_equal(wanted, "");
    ord_arena_finish(&arena);
  }
}

static inline void op_testing_named_values(const op_named_value_row *row, size_t count, double tolerance) {
  for (size_t i = 0; i < count; i++) op_testing_values(ord_op_find(row[i].op), &row[i].row, 1, tolerance);
}

/* Runs the reference on its own conformance rows: each must be readable, fit the shape rule, and pass unless it has an
 * epilogue, which references refuse. */
static inline void op_testing_cases(const ord_op *op) {
  for (const ord_case *row = op->cases; row->operands; row++) {
    ord_error err = ORD_ERROR_INIT;
    ord_case_result result;
    if (!ord_case_run(op, row, op->reference, NULL, &result, &err)) fail_msg("%s: %s", row->operands, err.text);
    const bool has_epilogue = strstr(row->attributes, "epilogue=") != NULL;
    if (result.verdict != (has_epilogue ? ORD_CASE_REFUSED : ORD_CASE_PASSED))
      fail_msg("%s %s: %s", row->operands, row->attributes, result.text);
  }
}

#define op_testing_count(table) (sizeof(table) / sizeof *(table))

#endif
