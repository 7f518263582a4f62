/* SPDX-License-Identifier: MIT
 *
 * The list of ops, generated from ops.def, and what every shape rule uses to read operands and attributes and to tell
 * a fault.
 */
#include "ops/op.h"

#include <stdarg.h>
#include <string.h>

#define OP(name) extern const ord_op ord_op_##name;
#include "ops/ops.def"
#undef OP

#define OP(name) +1
enum {
  OP_COUNT = 0
#include "ops/ops.def"
};
#undef OP

#define OP(name) &ord_op_##name,
static const ord_op *const ops[OP_COUNT] = {
#include "ops/ops.def"
};
#undef OP

uint32_t ord_op_count(void) { return OP_COUNT; }

const ord_op *ord_op_get(uint32_t index) { return index < OP_COUNT ? ops[index] : NULL; }

const ord_op *ord_op_find(const char *name) {
  for (uint32_t i = 0; i < OP_COUNT; i++)
    if (strcmp(ops[i]->name, name) == 0) return ops[i];
  return NULL;
}

uint32_t ord_op_find_slot(const ord_op *op, const char *slot) {
  for (uint32_t i = 0; i < op->slot_count; i++)
    if (strcmp(op->slot[i].name, slot) == 0) return i;
  return ORD_NONE;
}

bool ord_infer_fail(ord_infer *infer, const char *slot_or_attr, uint32_t entry, const char *format, ...) {
  ord_text text = {0};
  ord_text_add(&text, "%s: ", infer->op->name);
  va_list arguments;
  va_start(arguments, format);
  ord_text_add_list(&text, format, arguments);
  va_end(arguments);
  infer->out_of_memory |= text.failed;
  infer->report(infer, slot_or_attr, entry, text.failed ? "out of memory" : text.bytes);
  ord_text_finish(&text);
  return false;
}

bool ord_infer_fail_memory(ord_infer *infer) {
  infer->out_of_memory = true;
  infer->report(infer, NULL, 0, "out of memory");
  return false;
}

bool ord_infer_size(ord_infer *infer, ord_size_status status) {
  static const char *const fault[] = {
      [ORD_SIZE_OVERFLOW] = "a size is too large; found 2^40 or more; wanted less",
      [ORD_SIZE_REST] = "a size does not divide; found a rest; wanted a whole number",
      [ORD_SIZE_NOT_FIXED] = "a size is divided by a run-time dim; wanted a fixed one",
      [ORD_SIZE_ZERO] = "a size is divided by 0; wanted another number",
  };
  if (status == ORD_SIZE_OK) return true;
  if (status == ORD_SIZE_NO_MEMORY) return ord_infer_fail_memory(infer);
  return ord_infer_fail(infer, NULL, 0, "%s", fault[status]);
}

const ord_infer_operand *ord_infer_slot(const ord_infer *infer, const char *slot) {
  for (uint32_t i = 0; i < infer->operand_count; i++) {
    const ord_infer_operand *operand = &infer->operand[i];
    if (!operand->is_absent && strcmp(infer->op->slot[operand->slot].name, slot) == 0) return operand;
  }
  return NULL;
}

uint32_t ord_infer_entry(const ord_infer *infer, const ord_infer_operand *operand) {
  uint32_t entry = 0;
  for (const ord_infer_operand *other = infer->operand; other < operand; other++) entry += other->slot == operand->slot;
  return entry;
}

const ord_attr *ord_attr_find(const ord_attr *attr, uint32_t count, const char *name) {
  for (uint32_t i = 0; i < count; i++)
    if (strcmp(attr[i].name, name) == 0) return &attr[i];
  return NULL;
}

const ord_attr *ord_infer_attr(const ord_infer *infer, const char *name) {
  return ord_attr_find(infer->attr, infer->attr_count, name);
}

/* The attribute of this name, appended if it is not there: `attr` has room for one per rule. */
static ord_attr *attribute_place(ord_infer *infer, const char *name) {
  for (uint32_t i = 0; i < infer->attr_count; i++)
    if (strcmp(infer->attr[i].name, name) == 0) return &infer->attr[i];
  return &infer->attr[infer->attr_count++];
}

bool ord_infer_set_int(ord_infer *infer, const char *name, int64_t value) {
  *attribute_place(infer, name) = (ord_attr){.name = name, .kind = ORD_ATTR_INT, .count = 1, .value.i = value};
  return true;
}

bool ord_infer_set_number(ord_infer *infer, const char *name, double value) {
  *attribute_place(infer, name) = (ord_attr){.name = name, .kind = ORD_ATTR_NUMBER, .count = 1, .value.f = value};
  return true;
}

bool ord_infer_set_ints(ord_infer *infer, const char *name, const int64_t *ints, uint32_t count) {
  const int64_t *copy = ord_arena_copy(infer->arena, ints, count, sizeof *ints);
  if (!copy) return ord_infer_fail_memory(infer);
  *attribute_place(infer, name) = (ord_attr){.name = name, .kind = ORD_ATTR_INTS, .count = count, .value.ints = copy};
  return true;
}

bool ord_infer_axis(ord_infer *infer, const char *attr, uint32_t rank, uint32_t *out) {
  const int64_t axis = ord_infer_attr(infer, attr)->value.i;
  if (rank == 0)
    return ord_infer_fail(infer, attr, 0, "%s %lld of a number alone; wanted a tensor with axes", attr,
                          (long long)axis);
  if (axis < -(int64_t)rank || axis >= (int64_t)rank)
    return ord_infer_fail(infer, attr, 0, "%s %lld lies outside a tensor of %u axes; wanted %d to %d", attr,
                          (long long)axis, rank, -(int)rank, (int)rank - 1);
  *out = (uint32_t)(axis < 0 ? axis + rank : axis);
  return ord_infer_set_int(infer, attr, *out);
}
