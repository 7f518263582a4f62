/* SPDX-License-Identifier: MIT
 *
 * Weights of matmul: which layout, and packing into it.
 */
#include "matmul_weight.h"

/* ---- which layout ---- */

/* The type that products are made of; 0: none of ours. int8 that was stored so is exact in any type. */
static uint16_t number_type(uint16_t stored, uint32_t compute) {
  if (!core_is_one_of(stored, CORE_NUMBERS)) return 0;
  switch (compute) {
  case ORD_F32:
  case ORD_TF32:
    return stored;
  case ORD_F16:
  case ORD_BF16:
    return stored == ORD_F32 ? (uint16_t)compute : stored;
  case ORD_I8:
    return ORD_I8;
  default:
    return 0;
  }
}

ord_status weight_layout_find(const ord_node *node, uint32_t weight, weight_layout *out, ord_answer *answer) {
  const ord_operand *operand = &node->operand[weight];
  *out = (weight_layout){.type = number_type(operand->dtype, node->compute)};
  if (!out->type)
    return core_refuse(answer, "products are wanted in %s of a weight in %s; wanted f32, f16, bf16 or i8 of both",
                       core_type_name((uint16_t)node->compute), core_type_name(operand->dtype));
  const int64_t row_bytes = core_multiply(operand->dim[1], rows16_number_bytes(out->type));
  out->row_units = row_bytes / ROWS16_UNIT + (row_bytes % ROWS16_UNIT != 0);
  out->row_stride = operand->stride[0];
  out->number_stride = rows16_number_bytes(out->type);
  if (rows16_are_stored(operand, out->type)) return ORD_OK;
  if (operand->role != ORD_WEIGHT)
    return core_refuse(answer, "weight is a view of one; wanted a whole weight, or rows of whole units of %d bytes",
                       ROWS16_UNIT);
  out->has_scales = out->type == ORD_I8 && operand->dtype != ORD_I8;
  out->row_stride = out->row_units * ROWS16_UNIT;
  const int64_t bytes =
      core_multiply(operand->dim[0], out->row_stride + (out->has_scales ? (int64_t)sizeof(float) : 0));
  out->pack = (ord_pack){out->has_scales ? KEY_ROWS16_I8_SCALED : rows16_key(out->type), (uint64_t)bytes, 1};
  return ORD_OK;
}

/* ---- pack ---- */

/* The largest number of a row becomes 127. A row that holds a NaN or an infinity gets that as its scale, and zeros:
 * what it is multiplied into becomes NaN. */
static float scale_of_row(const ord_operand *operand, const char *row) {
  float largest = 0;
  for (int64_t k = 0; k < operand->dim[1]; k++) {
    const float size = fabsf(rows16_read(row + k * operand->stride[1], operand->dtype));
    if (size > largest || size != size) largest = size;
  }
  return largest / 127;
}

static void quantize_row(const ord_operand *operand, const char *from, char *into, float *scale) {
  *scale = scale_of_row(operand, from);
  for (int64_t k = 0; k < operand->dim[1]; k++) {
    const float number = rows16_read(from + k * operand->stride[1], operand->dtype) / *scale;
    into[k] = (char)(isfinite(number) ? lrintf(number) : 0);
  }
}

ord_status weight_pack(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer, uint32_t weight,
                       const void *const *segment, uint32_t slice, uint32_t slice_count, void *packed) {
  (void)kernel, (void)answer;
  const ord_operand *operand = &node->operand[weight];
  ord_answer unused = {.struct_size = sizeof unused};
  weight_layout layout;
  if (weight_layout_find(node, weight, &layout, &unused) != ORD_OK) return ORD_INTERNAL;
  const int64_t columns = operand->dim[0], end = columns * (slice + 1) / slice_count;
  const int64_t row_bytes = operand->dim[1] * rows16_number_bytes(layout.type);
  float *scales = layout.has_scales ? (float *)((char *)packed + columns * layout.row_stride) : NULL;
  for (int64_t row = columns * slice / slice_count; row < end; row++) {
    const char *from = rows16_find(operand, segment, row);
    char *into = (char *)packed + row * layout.row_stride;
    memset(into + row_bytes, 0, (size_t)(layout.row_stride - row_bytes));
    if (scales)
      quantize_row(operand, from, into, &scales[row]);
    else
      rows16_convert(from, operand->stride[1], operand->dtype, operand->dim[1], layout.type, into);
  }
  return ORD_OK;
}
