/* SPDX-License-Identifier: MIT */
#include "product.h"

#include <stdarg.h>
#include <stdio.h>

#include "cuda_weights/rows16.h"
#include "layouts.h"

static ord_status refuse(char *reason, const char *format, ...) __attribute__((format(printf, 2, 3)));
static ord_status refuse(char *reason, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(reason, sizeof((ord_answer *)NULL)->reason, format, arguments);
  va_end(arguments);
  return ORD_NO;
}

static bool is_float(uint16_t type) { return type == ORD_F32 || type == ORD_F16 || type == ORD_BF16; }

/* Larger promises than 256 bytes the library does not ask for. */
static uint32_t alignment_of(const ord_operand *operand) {
  return operand->align_log2 < 8 ? 1u << operand->align_log2 : 256u;
}

/* All axes but the last as one: how many rows, and how many bytes from one to the next. */
static bool join_rows(const ord_operand *operand, int64_t *rows, int64_t *stride) {
  *rows = 1;
  *stride = 0;
  for (uint32_t axis = operand->rank - 1; axis-- > 0;) {
    const int64_t dim = operand->dim[axis];
    if (dim == 1) continue;
    if (*rows != 1 && operand->stride[axis] != *rows * *stride) return false;
    if (*rows == 1) *stride = operand->stride[axis];
    if (dim == 0 || *rows > INT32_MAX / dim) return false;
    *rows *= dim;
  }
  return true;
}

/* Fills in how the matrix is stored; strides are in bytes. */
static bool lay_out(matrix *made, int64_t vector_stride, int64_t number_stride) {
  const int64_t bytes = rows16_number_bytes(made->type);
  if (made->count == 1) vector_stride = made->length * bytes;
  if (made->length == 1) number_stride = bytes;
  made->is_turned = number_stride != bytes;
  if (made->is_turned && made->count == 1) vector_stride = bytes;
  const int64_t unit = made->is_turned ? vector_stride : number_stride;
  const int64_t step = made->is_turned ? number_stride : vector_stride;
  made->stride = step / bytes;
  return unit == bytes && step % bytes == 0 && made->stride >= (made->is_turned ? made->count : made->length) &&
         made->stride <= INT32_MAX;
}

/* ---- types ---- */

/* What is multiplied, in the type that the caller wants. A product of two bf16 or f16 numbers is exact in f32, so these
 * serve f32 and tf32 too, if both are stored so. */
static ord_status read_types(const ord_node *node, const ord_operand *in, const ord_operand *weight, product *made,
                             char *reason) {
  const bool is_tf32 = node->compute == ORD_TF32;
  const uint16_t compute = is_tf32 ? ORD_F32 : (uint16_t)node->compute;
  if (!is_float(in->dtype) || !is_float(weight->dtype))
    return refuse(reason, "in and weight are of types %u and %u; wanted f32, f16 or bf16", in->dtype, weight->dtype);
  if (!is_float(compute) || (in->dtype != ORD_F32 && compute != ORD_F32 && compute != in->dtype))
    return refuse(reason, "products of in (type %u) are wanted in type %u; wanted f32, f16 or bf16, or f32 or its own",
                  in->dtype, compute);
  made->is_tf32 = is_tf32 && in->dtype == ORD_F32;
  made->has_cast = in->dtype == ORD_F32 && compute != ORD_F32;
  made->in.type = made->weight.type = made->has_cast ? compute : in->dtype;
  if (compute == ORD_F32 && in->dtype != ORD_F32 && weight->dtype != in->dtype)
    return refuse(reason, "products of types %u and %u are wanted in f32; wanted equal types", in->dtype,
                  weight->dtype);
  if (made->out.type != ORD_F32 && made->out.type != made->in.type)
    return refuse(reason, "out is of type %u; wanted f32, or that of the products", made->out.type);
  return ORD_OK;
}

/* ---- operands ---- */

static ord_status read_weight(const ord_node *node, product *made, char *reason) {
  const ord_operand *weight = &node->operand[made->weight.which];
  made->weight.count = made->width;
  made->weight.length = made->depth;
  made->weight.alignment = alignment_of(weight);
  if (rows16_are_stored(weight, made->weight.type) || weight->role != ORD_WEIGHT) {
    if (weight->dtype == made->weight.type && lay_out(&made->weight, weight->stride[0], weight->stride[1]))
      return ORD_OK;
    return refuse(reason, "weight is a view of one; wanted rows or columns of numbers side by side, of type %u",
                  made->weight.type);
  }
  made->weight.stride = layouts_row_bytes(made->depth, made->weight.type) / rows16_number_bytes(made->weight.type);
  made->weight.alignment = 64; /* of packed memory */
  made->weight_pack = layouts_rows_pack(weight, made->weight.type);
  return ORD_OK;
}

static ord_status read_input(const ord_node *node, product *made, char *reason) {
  const ord_operand *in = &node->operand[made->in.which];
  const int64_t bytes = rows16_number_bytes(in->dtype);
  int64_t rows, stride;
  made->in.count = made->rows;
  made->in.length = made->depth;
  made->in.alignment = alignment_of(in);
  if (!join_rows(in, &rows, &stride) || rows != made->rows)
    return refuse(reason, "the rows of in do not follow one another evenly");
  if (!made->has_cast) {
    if (lay_out(&made->in, stride, in->stride[in->rank - 1])) return ORD_OK;
    return refuse(reason, "in has gaps between its numbers, or repeats them");
  }
  if (stride % bytes || in->stride[in->rank - 1] % bytes) return refuse(reason, "in is not aligned to its numbers");
  made->cast_row_stride = stride / bytes;
  made->cast_number_stride = in->stride[in->rank - 1] / bytes;
  made->in.stride = layouts_row_bytes(made->depth, made->in.type) / rows16_number_bytes(made->in.type);
  made->in.alignment = WORKSPACE_ALIGNMENT;
  made->cast_bytes = (uint64_t)(made->rows * layouts_row_bytes(made->depth, made->in.type));
  return ORD_OK;
}

/* Rows of numbers side by side, as the result is. */
static bool read_result(const ord_node *node, const product *made, matrix *out) {
  const ord_operand *operand = &node->operand[out->which];
  int64_t rows, stride;
  *out = (matrix){.which = out->which, .type = operand->dtype, .alignment = alignment_of(operand)};
  if (!operand->rank || !join_rows(operand, &rows, &stride)) return false;
  out->count = rows;
  out->length = operand->dim[operand->rank - 1];
  return rows == made->rows && out->length == made->width && lay_out(out, stride, operand->stride[operand->rank - 1]) &&
         !out->is_turned;
}

/* ---- bias and epilogue ---- */

/* A vector [width] that is added to each row; the library reads it in the result's type. */
static bool take_bias(const ord_node *node, uint32_t which, product *made) {
  const ord_operand *bias = &node->operand[which];
  const bool is_dense = made->width == 1 || bias->stride[0] == rows16_number_bytes(bias->dtype);
  if (made->bias != ORD_NONE || bias->rank != 1 || bias->dim[0] != made->width) return false;
  if (bias->dtype != made->out.type || !is_dense) {
    if (bias->role != ORD_WEIGHT || made->out.type != ORD_F32 || !is_float(bias->dtype)) return false;
    made->bias_pack = layouts_vector_pack(bias);
  }
  made->bias = which;
  made->bias_alignment = made->bias_pack.key ? 64 : alignment_of(bias);
  return true;
}

static bool take_residual(const ord_node *node, uint32_t which, product *made) {
  matrix residual = {.which = which};
  if (made->residual.which != ORD_NONE || !read_result(node, made, &residual)) return false;
  if (residual.type != made->out.type) return false;
  made->residual = residual;
  return true;
}

/* One vector and one residual at most, in any order; nothing is stored in between. */
static void read_epilogue(const ord_node *node, product *made) {
  for (uint32_t i = 0; i < node->epilogue_count; i++) {
    const ord_epilogue *item = &node->epilogue[i];
    const uint32_t which = item->operand[0];
    if (strcmp(item->op, "add") != 0 || item->output != ORD_NONE || which == ORD_NONE) return;
    if (!take_bias(node, which, made) && !take_residual(node, which, made)) return;
    made->epilogue_served++;
  }
}

/* ---- the whole ---- */

/* What NVIDIA advises for a device, but no more than the partial sums of eight slices take, and 64 KiB at least. */
static uint64_t workspace_for(const ord_node *node, const product *made) {
  const uint64_t most = (node->device->compute_capability >= 90 ? UINT64_C(32) : UINT64_C(4)) << 20;
  const uint64_t sums = 8 * sizeof(float) * (uint64_t)made->rows * (uint64_t)made->width;
  const uint64_t wanted = sums < most ? sums : most, least = UINT64_C(64) << 10;
  return ((wanted > least ? wanted : least) + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT;
}

static bool is_size(int64_t size) { return size > 0 && size <= INT32_MAX; }

ord_status product_read(const ord_node *node, product *out, char *reason) {
  const uint32_t weight = ord_node_find(node, "weight"), in = ord_node_find(node, "in");
  const uint32_t result = ord_node_output(node, 0), bias = ord_node_find(node, "bias");
  int64_t stride;
  *out = (product){.weight = {.which = weight}, .in = {.which = in}, .out = {.which = result}};
  out->residual.which = out->bias = ORD_NONE;
  if (weight == ORD_NONE) return refuse(reason, "a product with 'by'; wanted one with a weight");
  const ord_operand *made = &node->operand[result], *matrix_of = &node->operand[weight];
  out->width = matrix_of->dim[0];
  out->depth = matrix_of->dim[1];
  out->out.type = made->dtype;
  if (!join_rows(made, &out->rows, &stride) || !is_size(out->rows) || !is_size(out->width) || !is_size(out->depth))
    return refuse(reason, "the rows of out do not follow one another evenly, or there are none");
  ord_status status = read_types(node, &node->operand[in], matrix_of, out, reason);
  if (status == ORD_OK && !read_result(node, out, &out->out))
    status = refuse(reason, "out has gaps between its numbers, or turned axes");
  if (status == ORD_OK) status = read_weight(node, out, reason);
  if (status == ORD_OK) status = read_input(node, out, reason);
  if (status != ORD_OK) return status;
  if (bias != ORD_NONE && !take_bias(node, bias, out))
    return refuse(reason, "bias is of type %u; wanted the result's, %u, or a whole weight", node->operand[bias].dtype,
                  out->out.type);
  read_epilogue(node, out);
  out->workspace_bytes = workspace_for(node, out);
  return ORD_OK;
}

ord_status product_pack(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer, uint32_t weight,
                        const void *const *segment, uint32_t slice, uint32_t slice_count, void *packed) {
  (void)kernel;
  layouts_pack(&node->operand[weight], answer->pack[weight].key, segment, slice, slice_count, packed);
  return ORD_OK;
}
