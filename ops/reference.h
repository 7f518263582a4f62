/* SPDX-License-Identifier: MIT
 *
 * The toolkit that the plain references share: an operand as it is in this run, with reads, writes and moves of single
 * elements that honour dtype and strides. Sees only ordito_plugin.h and libc; a reference is a kernel like any other.
 *
 * A reference is written as one function:
 *
 *   static ord_status softmax_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
 *     const ord_node *node = state;
 *     const ord_reference_tensor in = ord_reference_slot(node, exec, "in");
 *     const ord_reference_tensor out = ord_reference_output(node, exec, 0);
 *     int64_t index[ORD_RANK_MAX];
 *     for (int64_t i = 0; i < ord_reference_count(&out); i++) {
 *       ord_reference_index(&out, i, index);
 *       ord_reference_write(&out, index, ord_reference_read(&in, index));
 *     }
 *     return ORD_OK;
 *   }
 *   static const ord_kernel softmax_reference = {.struct_size = sizeof softmax_reference, .name = "softmax_reference",
 *     .op = "softmax", .priority = ORD_REFERENCE_PRIORITY, .query = ord_reference_query,
 *     .prepare = ord_reference_prepare, .launch = softmax_launch, .retire = ord_reference_retire};
 *
 * One phase, one chunk, no scratch, no epilogue, nothing packed, nothing aliased; the state is the node itself.
 */
#ifndef ORDITO_OPS_REFERENCE_H
#define ORDITO_OPS_REFERENCE_H

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "ordito_plugin.h"

#define ORD_REFERENCE_PRIORITY (-1000000)

/* An operand in this run: `dim` is what the run has (ord_exec_dim), `stride` counts bytes. */
typedef struct ord_reference_tensor {
  char *data; /* NULL: the slot is absent */
  uint32_t dtype, rank;
  int64_t dim[ORD_RANK_MAX], stride[ORD_RANK_MAX];
  const char *scale;    /* of an i8 weight: f32, one per index of the first axis; else NULL */
  int64_t scale_stride; /* bytes */
  uint32_t block_elements;
} ord_reference_tensor;

/* ---- operands ------------------------------------------------------------------------------------------------ */

/* Operand number `which` of the node; data NULL if it is ORD_NONE or absent. */
static inline ord_reference_tensor ord_reference_operand(const ord_node *node, const ord_exec *exec, uint32_t which) {
  ord_reference_tensor made = {0};
  if (which == ORD_NONE || node->operand[which].role == ORD_ABSENT) return made;
  const ord_operand *operand = &node->operand[which];
  made.data = exec->operand[which];
  made.dtype = operand->dtype;
  made.rank = operand->rank;
  made.block_elements = operand->block_elements;
  for (uint32_t axis = 0; axis < operand->rank; axis++) {
    made.dim[axis] = ord_exec_dim(node, exec, which, axis);
    made.stride[axis] = operand->stride[axis];
  }
  if (operand->dtype != ORD_I8 || operand->role != ORD_WEIGHT) return made;
  char name[64];
  snprintf(name, sizeof name, "%s_scale", operand->name);
  const uint32_t scale = ord_node_find(node, name);
  if (scale == ORD_NONE) return made;
  made.scale = exec->operand[scale];
  made.scale_stride = node->operand[scale].stride[0];
  return made;
}

/* The first entry of a slot, a state or a scalar by its name; data NULL if it is absent. */
static inline ord_reference_tensor ord_reference_slot(const ord_node *node, const ord_exec *exec, const char *name) {
  return ord_reference_operand(node, exec, ord_node_find(node, name));
}

/* Result number `which`; data NULL if it was not asked for. */
static inline ord_reference_tensor ord_reference_output(const ord_node *node, const ord_exec *exec, uint32_t which) {
  return ord_reference_operand(node, exec, ord_node_output(node, which));
}

/* ---- places -------------------------------------------------------------------------------------------------- */

/* How many elements the tensor has in this run (1 for a scalar, 0 if any dim is 0). */
static inline int64_t ord_reference_count(const ord_reference_tensor *tensor) {
  int64_t count = 1;
  for (uint32_t axis = 0; axis < tensor->rank; axis++) count *= tensor->dim[axis];
  return count;
}

/* The multi-index of element `number` in row-major order. */
static inline void ord_reference_index(const ord_reference_tensor *tensor, int64_t number, int64_t *index) {
  for (uint32_t axis = tensor->rank; axis-- > 0;) {
    index[axis] = number % tensor->dim[axis];
    number /= tensor->dim[axis];
  }
}

/* The tensor of which each element is the first of a slice along `axis`: that axis is cut to 1. */
static inline ord_reference_tensor ord_reference_slices(const ord_reference_tensor *tensor, uint32_t axis) {
  ord_reference_tensor slices = *tensor;
  if (slices.dim[axis] > 1) slices.dim[axis] = 1;
  return slices;
}

/* The index into `tensor` where `index` of a tensor of `rank` axes is broadcast from it: trailing axes align, axes of
 * size 1 are repeated. */
static inline void ord_reference_broadcast(const ord_reference_tensor *tensor, const int64_t *index, uint32_t rank,
                                           int64_t *out) {
  for (uint32_t axis = 0; axis < tensor->rank; axis++)
    out[axis] = tensor->dim[axis] == 1 ? 0 : index[axis + rank - tensor->rank];
}

/* The address of an element of a plain type. */
static inline char *ord_reference_at(const ord_reference_tensor *tensor, const int64_t *index) {
  char *at = tensor->data;
  for (uint32_t axis = 0; axis < tensor->rank; axis++) at += index[axis] * tensor->stride[axis];
  return at;
}

/* ---- numbers ------------------------------------------------------------------------------------------------- */

static inline double ord_reference_from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return (double)value;
}

static inline double ord_reference_from_half(uint16_t half) {
  const uint32_t exponent = half >> 10 & 31, fraction = half & 1023;
  double value;
  if (exponent == 31)
    value = fraction ? (double)NAN : (double)INFINITY;
  else
    value = exponent ? ldexp(fraction + 1024, (int)exponent - 25) : ldexp(fraction, -24);
  return half & 0x8000 ? -value : value;
}

/* To the nearest half, ties to even; what rounds beyond 65504 becomes infinite. */
static inline uint16_t ord_reference_to_half(double value) {
  const uint16_t sign = signbit(value) ? 0x8000 : 0;
  const double size = fabs(value);
  if (isnan(size)) return sign | 0x7e00;
  if (size >= 65520.0) return sign | 0x7c00;
  int exponent;
  frexp(size, &exponent);
  if (size == 0 || exponent < -13) exponent = -13;                   /* below: the fixed spacing of the subnormals */
  const uint32_t steps = (uint32_t)rint(ldexp(size, 11 - exponent)); /* a carry runs into the exponent, as it should */
  return sign | (uint16_t)(((uint32_t)(exponent + 13) << 10) + steps);
}

static inline uint16_t ord_reference_to_bfloat(double value) {
  const float single = (float)value;
  uint32_t bits;
  memcpy(&bits, &single, sizeof bits);
  if (isnan(single)) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Nearest whole number within [low, high]; NaN becomes 0. */
static inline int64_t ord_reference_to_int(double value, int64_t low, int64_t high) {
  if (isnan(value)) return 0;
  if (value <= (double)low) return low;
  if (value >= (double)high) return high;
  return (int64_t)rint(value);
}

/* Element `place` of a block of 32 numbers: an f16 scale (Q4_1: and an f16 offset), then the quanta; a nibble type
 * keeps numbers 0..15 in the low and 16..31 in the high halves of its bytes. */
static inline double ord_reference_read_block(uint32_t dtype, const char *block, int64_t place) {
  uint16_t head[2];
  memcpy(head, block, sizeof head);
  const double scale = ord_reference_from_half(head[0]);
  if (dtype == ORD_Q8_0) return scale * (double)(int8_t)block[2 + place];
  const uint8_t byte = (uint8_t)block[(dtype == ORD_Q4_1 ? 4 : 2) + place % 16];
  const int quantum = place < 16 ? byte & 15 : byte >> 4;
  return dtype == ORD_Q4_1 ? scale * quantum + ord_reference_from_half(head[1]) : scale * (quantum - 8);
}

/* The element as a number, the scale of an i8 weight applied. */
static inline double ord_reference_read(const ord_reference_tensor *tensor, const int64_t *index) {
  if (tensor->block_elements > 1) {
    assert(tensor->rank > 0); /* blocks lie along the last axis */
    const uint32_t last = tensor->rank - 1;
    int64_t block[ORD_RANK_MAX] = {0};
    for (uint32_t axis = 0; axis + 1 < tensor->rank; axis++) block[axis] = index[axis];
    block[last] = index[last] / tensor->block_elements;
    return ord_reference_read_block(tensor->dtype, ord_reference_at(tensor, block),
                                    index[last] % tensor->block_elements);
  }
  const char *at = ord_reference_at(tensor, index);
  union {
    float f32;
    uint16_t half;
    int8_t i8;
    int32_t i32;
    int64_t i64;
    uint8_t byte;
  } as;
  switch (tensor->dtype) {
  case ORD_F32:
    memcpy(&as.f32, at, 4);
    return (double)as.f32;
  case ORD_F16:
    memcpy(&as.half, at, 2);
    return ord_reference_from_half(as.half);
  case ORD_BF16:
    memcpy(&as.half, at, 2);
    return ord_reference_from_bits((uint32_t)as.half << 16);
  case ORD_I32:
    memcpy(&as.i32, at, 4);
    return as.i32;
  case ORD_I64:
    memcpy(&as.i64, at, 8);
    return (double)as.i64;
  case ORD_BOOL:
    memcpy(&as.byte, at, 1);
    return as.byte != 0;
  default:
    break;
  }
  memcpy(&as.i8, at, 1);
  float scale = 1;
  if (tensor->scale) memcpy(&scale, tensor->scale + index[0] * tensor->scale_stride, sizeof scale);
  return as.i8 * (double)scale;
}

/* Rounds to the tensor's type; whole-number types take the nearest number that they hold. */
static inline void ord_reference_write(const ord_reference_tensor *tensor, const int64_t *index, double value) {
  char *at = ord_reference_at(tensor, index);
  const float f32 = (float)value;
  const uint16_t half = tensor->dtype == ORD_F16 ? ord_reference_to_half(value) : ord_reference_to_bfloat(value);
  const int32_t i32 = (int32_t)ord_reference_to_int(value, INT32_MIN, INT32_MAX);
  const int64_t i64 = ord_reference_to_int(value, INT64_MIN, INT64_MAX);
  const int8_t i8 = (int8_t)ord_reference_to_int(value, INT8_MIN, INT8_MAX);
  const uint8_t truth = value != 0;
  switch (tensor->dtype) {
  case ORD_F32:
    memcpy(at, &f32, 4);
    break;
  case ORD_F16:
  case ORD_BF16:
    memcpy(at, &half, 2);
    break;
  case ORD_I32:
    memcpy(at, &i32, 4);
    break;
  case ORD_I64:
    memcpy(at, &i64, 8);
    break;
  case ORD_BOOL:
    memcpy(at, &truth, 1);
    break;
  default:
    memcpy(at, &i8, 1);
    break;
  }
}

/* Copies one element; bit for bit where the types are equal. */
static inline void ord_reference_move(const ord_reference_tensor *from, const int64_t *from_index,
                                      const ord_reference_tensor *to, const int64_t *to_index) {
  static const uint8_t bytes[] = {
      [ORD_F32] = 4, [ORD_F16] = 2, [ORD_BF16] = 2, [ORD_I8] = 1, [ORD_I32] = 4, [ORD_I64] = 8, [ORD_BOOL] = 1};
  if (from->dtype == to->dtype && !from->scale && from->block_elements == 1)
    memcpy(ord_reference_at(to, to_index), ord_reference_at(from, from_index), bytes[to->dtype]);
  else
    ord_reference_write(to, to_index, ord_reference_read(from, from_index));
}

/* ---- attributes ---------------------------------------------------------------------------------------------- */

/* An attribute, or `otherwise` where the node does not have it. */
static inline int64_t ord_reference_int(const ord_node *node, const char *name, int64_t otherwise) {
  const ord_attr *attr = ord_node_attr(node, name);
  return attr ? attr->value.i : otherwise;
}

static inline double ord_reference_float(const ord_node *node, const char *name, double otherwise) {
  const ord_attr *attr = ord_node_attr(node, name);
  return attr ? attr->value.f : otherwise;
}

/* Is the word of attribute `name` this one? */
static inline bool ord_reference_is(const ord_node *node, const char *name, const char *word) {
  const ord_attr *attr = ord_node_attr(node, name);
  return attr && strcmp(attr->value.s, word) == 0;
}

/* ---- the verbs that all references share --------------------------------------------------------------------- */

static inline ord_status ord_reference_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  (void)kernel, (void)node;
  answer->phase_count = 1;
  answer->chunk_limit[0] = 1;
  answer->epilogue_served = 0;
  snprintf(answer->variant, sizeof answer->variant, "plain");
  return ORD_OK;
}

static inline ord_status ord_reference_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                                               const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel, (void)answer, (void)host, (void)err;
  *state = (void *)(uintptr_t)node; /* the node lives as long as the state */
  return ORD_OK;
}

static inline void ord_reference_retire(void *state) { (void)state; }

#endif
