/* SPDX-License-Identifier: MIT
 *
 * Weights of matmul: which layout, and packing into it.
 */
#include "matmul_weight.h"

#include <math.h>

/* ---- which layout ---- */

static int64_t bytes_of(uint16_t type) { return type == ORD_F32 ? 4 : type == ORD_I8 ? 1 : 2; }

/* The type that products are made of; 0: none of ours. int8 that was stored so is exact in any type. */
static uint16_t number_type(uint16_t stored, uint32_t compute) {
  if (!core_is_one_of(stored, CORE_NUMBERS)) return 0;
  switch (compute) {
  case ORD_F32:
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

static uint64_t key_of(uint16_t type, bool has_scales) {
  switch (type) {
  case ORD_F32:
    return KEY_ROWS16_F32;
  case ORD_F16:
    return KEY_ROWS16_F16;
  case ORD_BF16:
    return KEY_ROWS16_BF16;
  default:
    return has_scales ? KEY_ROWS16_I8_SCALED : KEY_ROWS16_I8;
  }
}

static bool is_laid_out(const ord_operand *operand, uint16_t type) {
  const int64_t bytes = bytes_of(type), row_bytes = core_multiply(operand->dim[1], bytes);
  const bool has_rows = operand->dim[1] <= 1 || operand->stride[1] == bytes;
  const bool is_one = operand->segment_count <= 1 || operand->stride[0] == row_bytes;
  return operand->dtype == type && has_rows && is_one && row_bytes % UNIT_BYTES == 0 &&
         operand->stride[0] % UNIT_BYTES == 0 && 1 << operand->align_log2 >= UNIT_BYTES;
}

ord_status weight_layout_find(const ord_node *node, uint32_t weight, weight_layout *out, ord_answer *answer) {
  const ord_operand *operand = &node->operand[weight];
  *out = (weight_layout){.type = number_type(operand->dtype, node->compute)};
  if (!out->type)
    return core_refuse(answer, "products are wanted in %s of a weight in %s; wanted f32, f16, bf16 or i8 of both",
                       core_type_name((uint16_t)node->compute), core_type_name(operand->dtype));
  const int64_t row_bytes = core_multiply(operand->dim[1], bytes_of(out->type));
  out->row_units = row_bytes / UNIT_BYTES + (row_bytes % UNIT_BYTES != 0);
  out->row_stride = operand->stride[0];
  out->number_stride = bytes_of(out->type);
  if (is_laid_out(operand, out->type)) return ORD_OK;
  if (operand->role != ORD_WEIGHT)
    return core_refuse(answer, "weight is a view of one; wanted a whole weight, or rows of whole units of %d bytes",
                       UNIT_BYTES);
  out->has_scales = out->type == ORD_I8 && operand->dtype != ORD_I8;
  out->row_stride = out->row_units * UNIT_BYTES;
  const int64_t bytes =
      core_multiply(operand->dim[0], out->row_stride + (out->has_scales ? (int64_t)sizeof(float) : 0));
  out->pack = (ord_pack){key_of(out->type, out->has_scales), (uint64_t)bytes, 1};
  return ORD_OK;
}

/* ---- numbers ---- */

static float float_of_bits(uint32_t bits) {
  float number;
  memcpy(&number, &bits, sizeof number);
  return number;
}

static uint32_t bits_of_float(float number) {
  uint32_t bits;
  memcpy(&bits, &number, sizeof bits);
  return bits;
}

static float float_of_f16(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = half >> 10 & 31u, fraction = half & 0x3ffu;
  if (exponent == 31) return float_of_bits(sign | 0x7f800000u | fraction << 13);
  if (exponent) return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
  const float small = (float)fraction * 0x1p-24f;
  return sign ? -small : small;
}

/* To nearest even, as the two below. */
static uint16_t bf16_of_float(float number) {
  const uint32_t bits = bits_of_float(number);
  if (number != number) return (uint16_t)(bits >> 16 | 0x40u);
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static uint16_t f16_of_float(float number) {
  const uint16_t sign = (uint16_t)(bits_of_float(number) >> 16 & 0x8000u);
  const float size = fabsf(number);
  if (number != number) return (uint16_t)(sign | 0x7e00u);
  if (size >= 65520.0f) return (uint16_t)(sign | 0x7c00u);
  if (size < 0x1p-14f) return (uint16_t)(sign | (uint16_t)lrintf(size * 0x1p24f));
  const uint32_t bits = bits_of_float(size) - (UINT32_C(112) << 23);
  return (uint16_t)(sign | (bits + 0xfffu + (bits >> 13 & 1u)) >> 13);
}

static float read_number(const char *at, uint16_t type) {
  float number;
  uint16_t half;
  switch (type) {
  case ORD_F32:
    memcpy(&number, at, sizeof number);
    return number;
  case ORD_I8:
    return (float)*(const int8_t *)at;
  default:
    memcpy(&half, at, sizeof half);
    return type == ORD_BF16 ? float_of_bits((uint32_t)half << 16) : float_of_f16(half);
  }
}

static void write_number(char *at, uint16_t type, float number) {
  if (type == ORD_F32) {
    memcpy(at, &number, sizeof number);
  } else if (type == ORD_I8) {
    *(int8_t *)at = (int8_t)lrintf(number);
  } else {
    const uint16_t half = type == ORD_BF16 ? bf16_of_float(number) : f16_of_float(number);
    memcpy(at, &half, sizeof half);
  }
}

/* ---- pack ---- */

static const char *find_row(const ord_operand *operand, const void *const *segment, int64_t row) {
  uint32_t i = 0;
  for (; row >= operand->segment[i].rows; i++) row -= operand->segment[i].rows;
  return (const char *)segment[i] + row * operand->stride[0];
}

/* The largest number of a row becomes 127. A row that holds a NaN or an infinity gets that as its scale, and zeros:
 * what it is multiplied into becomes NaN. */
static float scale_of_row(const ord_operand *operand, const char *row) {
  float largest = 0;
  for (int64_t k = 0; k < operand->dim[1]; k++) {
    const float size = fabsf(read_number(row + k * operand->stride[1], operand->dtype));
    if (size > largest || size != size) largest = size;
  }
  return largest / 127;
}

static void quantize_row(const ord_operand *operand, const char *from, char *into, float *scale) {
  *scale = scale_of_row(operand, from);
  for (int64_t k = 0; k < operand->dim[1]; k++) {
    const float number = read_number(from + k * operand->stride[1], operand->dtype) / *scale;
    into[k] = (char)(isfinite(number) ? lrintf(number) : 0);
  }
}

static void convert_row(const ord_operand *operand, const char *from, uint16_t type, char *into) {
  for (int64_t k = 0; k < operand->dim[1]; k++)
    write_number(into + k * bytes_of(type), type, read_number(from + k * operand->stride[1], operand->dtype));
}

ord_status weight_pack(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer, uint32_t weight,
                       const void *const *segment, uint32_t slice, uint32_t slice_count, void *packed) {
  (void)kernel, (void)answer;
  const ord_operand *operand = &node->operand[weight];
  ord_answer unused = {.struct_size = sizeof unused};
  weight_layout layout;
  if (weight_layout_find(node, weight, &layout, &unused) != ORD_OK) return ORD_INTERNAL;
  const int64_t columns = operand->dim[0], end = columns * (slice + 1) / slice_count;
  const int64_t row_bytes = operand->dim[1] * bytes_of(layout.type);
  float *scales = layout.has_scales ? (float *)((char *)packed + columns * layout.row_stride) : NULL;
  for (int64_t row = columns * slice / slice_count; row < end; row++) {
    const char *from = find_row(operand, segment, row);
    char *into = (char *)packed + row * layout.row_stride;
    memset(into + row_bytes, 0, (size_t)(layout.row_stride - row_bytes));
    if (scales)
      quantize_row(operand, from, into, &scales[row]);
    else if (operand->dtype == layout.type && operand->stride[1] == bytes_of(layout.type))
      memcpy(into, from, (size_t)row_bytes);
    else
      convert_row(operand, from, layout.type, into);
  }
  return ORD_OK;
}
