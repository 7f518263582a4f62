/* SPDX-License-Identifier: MIT
 *
 * concat_projection: puts the heads of each token side by side and multiplies them with the output matrix. The concat
 * is an order of reading, never a copy where a kernel can follow strides.
 */
#include "ops/op_check.h"
#include "ops/op_work.h"
#include "ops/reference.h"

/* ---- the reference --------------------------------------------------------------------------------------------- */

static ord_status concat_projection_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const ord_node *node = state;
  const ord_reference_tensor in = ord_reference_slot(node, exec, "in");         // [batch, heads, tokens, width]
  const ord_reference_tensor weight = ord_reference_slot(node, exec, "weight"); // [n, heads * width]
  const ord_reference_tensor bias = ord_reference_slot(node, exec, "bias");     // [n]
  const ord_reference_tensor out = ord_reference_output(node, exec, 0);         // [batch, tokens, n]
  const int64_t count = ord_reference_count(&out), heads = in.dim[1], width = in.dim[3];
  for (int64_t number = 0; number < count; number++) {
    int64_t at[ORD_RANK_MAX] = {0};
    ord_reference_index(&out, number, at);
    const int64_t n = at[2];
    double sum = 0;
    for (int64_t k = 0; k < heads * width; k++)
      sum += ord_reference_read(&in, (int64_t[]){at[0], k / width, at[1], k % width}) *
             ord_reference_read(&weight, (int64_t[]){n, k});
    if (bias.data) sum += ord_reference_read(&bias, &n);
    ord_reference_write(&out, at, sum);
  }
  return ORD_OK;
}

static const ord_kernel concat_projection_reference = {
    .struct_size = sizeof concat_projection_reference,
    .priority = ORD_REFERENCE_PRIORITY,
    .name = "concat_projection_reference",
    .op = "concat_projection",
    .query = ord_reference_query,
    .prepare = ord_reference_prepare,
    .launch = concat_projection_launch,
    .retire = ord_reference_retire,
};

/* ---- the shape rule -------------------------------------------------------------------------------------------- */

static bool concat_projection_infer(ord_infer *infer) {
  const ord_infer_operand *in = ord_infer_slot(infer, "in"), *weight = ord_infer_slot(infer, "weight");
  const ord_infer_operand *bias = ord_infer_slot(infer, "bias");
  if (!ord_infer_check_float(infer, in)) return false;
  if (!ord_infer_check_rank(infer, in, 4, "[batch, heads, tokens, width]")) return false;
  if (!ord_infer_check_matrix(infer, weight)) return false;
  ord_size joined;
  if (!ord_infer_size(infer, ord_size_product(infer->arena, in->dim[1], in->dim[3], &joined))) return false;
  if (!ord_size_equal(joined, weight->dim[1]))
    return ord_infer_fail(infer, "weight", 0, "%s joins %s heads of %s to %s, %s has in = %s; wanted equal",
                          ord_infer_operand_text(infer, in), ord_infer_size_text(infer, in->dim[1]),
                          ord_infer_size_text(infer, in->dim[3]), ord_infer_size_text(infer, joined),
                          ord_infer_operand_text(infer, weight), ord_infer_size_text(infer, weight->dim[1]));
  if (!ord_infer_check_bias(infer, bias, (ord_axis){weight, 0, "out"})) return false;
  ord_infer_set_result(infer, 0, in->dtype, 3, (ord_size[]){in->dim[0], in->dim[2], weight->dim[0]});
  return true;
}

/* ---- the lowering ---------------------------------------------------------------------------------------------- */

enum { IN, WEIGHT, BIAS, SLOT_COUNT };

/* transpose [batch, tokens, heads, width], reshape [batch, tokens, heads * width], matmul */
static bool concat_projection_lower(ord_lowering *lowering) {
  static const int64_t order[] = {0, 2, 1, 3};
  const ord_attr axes = {.name = "axes", .kind = ORD_ATTR_INTS, .count = 4, .value.ints = order};
  const ord_size *in = lowering->in_dim;
  ord_size width;
  if (ord_size_product(lowering->arena, in[1], in[3], &width) != ORD_SIZE_OK) return false;
  const ord_size shape[] = {in[0], in[2], width};
  uint32_t tokens, joined;
  if (!lowering->add(lowering, "transpose", &lowering->in[IN], 1, &axes, 1, NULL, 0, &tokens)) return false;
  if (!lowering->add(lowering, "reshape", &tokens, 1, NULL, 0, shape, 3, &joined)) return false;
  const uint32_t operand[] = {joined, lowering->in[WEIGHT], ORD_NONE, lowering->in[BIAS]};
  return lowering->add(lowering, "matmul", operand, 4, NULL, 0, NULL, 0, &lowering->result);
}

/* ---- the table ------------------------------------------------------------------------------------------------- */

static const ord_slot concat_projection_slots[SLOT_COUNT] = {
    [IN] = {"in", 0, 0, "[b, h, s, d]"},
    [WEIGHT] = {"weight", ORD_SLOT_MATRIX, 0, "(in = h * d)"},
    [BIAS] = {"bias", ORD_SLOT_OPTIONAL, 0, NULL},
};

static const ord_case concat_projection_cases[] = {
    {"in[1,1,1,$] weight[3,$]", "$=1..130"},
    {"in[2,3,4,8] weight[9,24]", ""},
    {"in[2,3,4,8] weight[9,24] bias[9]", ""},
    {"in[1,9,1,64] weight[33,576] bias[33]", ""},
    {"in[2,2,33,16] weight[32,32]", ""},
    {"in[2,3,5,8] weight:f16[9,24] bias[9]", ""},
    {"in[2,3,5,8] weight:bf16[9,24] bias:bf16[9]", ""},
    {"in[2,3,5,8] weight:i8[9,24] bias[9]", ""},
    {"in[2,3,5,8] weight:bf16[9,24]", "compute=bf16"},
    {"in[2,3,5,8] weight^[9,24] bias[9]", ""},
    {"in[2,3,5,8] weight^:bf16[9,24]", ""},
    {"in^[2,3,5,8] weight[9,24]", ""},
    {"in+[2,3,5,8] weight+[9,24] bias+[9] out+", ""},
    {"in[2,3,5,8] weight[9,24] out^", ""},
    {"in[1,4,3/16,8] weight[9,32] bias[9]", ""},
    {"in[1,4,0/16,8] weight[9,32]", ""},
    {"in+[2/4,4,3/16,8] weight^[9,32]", ""},
    {"in:f16[2,3,5,8] weight[9,24]", ""},
    {"in[1,4,3,8] weight[32,32] bias[32]", "epilogue=add(residual[1,3,32])"},
    {"in[1,4,3,8] weight[32,32]", "epilogue=add(b[32])+add(residual[1,3,32])>+rmsnorm(w[32];eps=1e-5)"},
    {NULL, NULL},
};

const ord_op ord_op_concat_projection = {
    .name = "concat_projection",
    .version = 1,
    .flags = ORD_OP_COMPOSITE,
    .slot = concat_projection_slots,
    .slot_count = SLOT_COUNT,
    .result_min = 1,
    .result_max = 1,
    .about = "[b, s, out]; the heads side by side, times the weight",
    .infer = concat_projection_infer,
    .lower = concat_projection_lower,
    .work = ord_work_weight,
    .reference = &concat_projection_reference,
    .cases = concat_projection_cases,
};
