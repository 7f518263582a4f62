/* SPDX-License-Identifier: MIT
 *
 * For tests of composites: a lowering that writes down, in words, the ops that are added. Values 0 .. slot_count - 1
 * are the operands, further ones the results: "100 = matmul(0, 1, -, 4)".
 */
#ifndef ORDITO_TESTS_OP_LOWERING_H
#define ORDITO_TESTS_OP_LOWERING_H

#include "op_testing.h"

typedef struct {
  ord_text text;
  uint32_t count, failing; /* the add that fails, counted from 1; 0: none */
} op_lowering_record;

static inline bool op_lowering_add(ord_lowering *lowering, const char *name, const uint32_t *in, uint32_t in_count,
                                   const ord_attr *attr, uint32_t attr_count, const ord_size *shape,
                                   uint32_t shape_rank, uint32_t *out) {
  op_lowering_record *record = lowering->graph;
  if (++record->count == record->failing) return false;
  ord_text *text = &record->text;
  *out = 99 + record->count;
  ord_text_add(text, "%s%u = %s(", record->count > 1 ? "; " : "", *out, name);
  for (uint32_t i = 0; i < in_count; i++)
    in[i] == ORD_NONE ? ord_text_add(text, "%s-", i ? ", " : "") : ord_text_add(text, "%s%u", i ? ", " : "", in[i]);
  for (uint32_t i = 0; i < attr_count; i++) {
    ord_text_add(text, " %s=", attr[i].name);
    for (uint32_t j = 0; j < attr[i].count; j++)
      ord_text_add(text, "%s%lld", j ? "," : "", (long long)attr[i].value.ints[j]);
  }
  for (uint32_t i = 0; i < shape_rank; i++) {
    ord_text_add(text, "%s", i ? "," : " shape=");
    ord_size_print(text, shape[i], op_testing_run_dim);
  }
  ord_text_add(text, ")");
  return true;
}

/* Lowers a node of `op` that has the operands whose value is not ORD_NONE; `in_dim` as in "1,12,seq,64". */
static inline void op_lowering_check(const ord_op *op, const uint32_t *in, const char *in_dim, const ord_attr *attr,
                                     uint32_t attr_count, const char *wanted) {
  ord_arena arena = {0};
  op_lowering_record record = {0};
  ord_size dim[ORD_RANK_MAX];
  ord_lowering lowering = {.graph = &record,
                           .in = in,
                           .attr = attr,
                           .attr_count = attr_count,
                           .in_dim = dim,
                           .arena = &arena,
                           .add = op_lowering_add};
  char *rest = NULL;
  uint32_t rank = 0;
  for (char *one = strtok_r(ord_arena_text(&arena, in_dim), ",", &rest); one; one = strtok_r(NULL, ",", &rest))
    dim[rank++] = op_testing_size(&arena, one);
  assert_true(op->lower(&lowering));
  assert_string_equal(record.text.bytes, wanted);
  assert_int_equal(lowering.result, 99 + record.count);
  ord_text_finish(&record.text);
  const uint32_t count = record.count;
  for (uint32_t failing = 1; failing <= count; failing++) {
    record = (op_lowering_record){.failing = failing};
    assert_false(op->lower(&lowering));
    ord_text_finish(&record.text);
  }
  ord_arena_finish(&arena);
}

#endif
