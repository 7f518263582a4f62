/* SPDX-License-Identifier: MIT
 *
 * matmul: the last axis of `in` times a weight (axes in and out named in the model file) or times a second value `by`,
 * whose leading axes are broadcast with those of `in`; and a bias, if there is one.
 */
#include "ops/op_check.h"
#include "ops/op_work.h"
#include "ops/reference.h"

/* ---- the reference --------------------------------------------------------------------------------------------- */

/* The place in `tensor` (rank r) that belongs to `index` of the result: its last `own` axes are the caller's, the
 * leading ones are broadcast from the leading axes of the result, aligned at their ends. */
static void leading_index(const ord_reference_tensor *tensor, uint32_t own, const int64_t *index, uint32_t leading,
                          int64_t *out) {
  const uint32_t count = tensor->rank - own;
  for (uint32_t axis = 0; axis < count; axis++) out[axis] = tensor->dim[axis] == 1 ? 0 : index[axis + leading - count];
}

static ord_status matmul_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const ord_node *node = state;
  const ord_reference_tensor in = ord_reference_slot(node, exec, "in");         // [.., m, k]
  const ord_reference_tensor weight = ord_reference_slot(node, exec, "weight"); // [n, k]
  const ord_reference_tensor by = ord_reference_slot(node, exec, "by");         // [.., k, n]
  const ord_reference_tensor bias = ord_reference_slot(node, exec, "bias");     // [n]
  const ord_reference_tensor out = ord_reference_output(node, exec, 0);         // [.., m, n]
  const int64_t count = ord_reference_count(&out);
  for (int64_t number = 0; number < count; number++) {
    int64_t at[ORD_RANK_MAX] = {0}, in_at[ORD_RANK_MAX] = {0}, by_at[ORD_RANK_MAX] = {0};
    ord_reference_index(&out, number, at);
    const int64_t n = at[out.rank - 1];
    leading_index(&in, 1, at, out.rank - 1, in_at);
    if (by.data) leading_index(&by, 2, at, out.rank - 2, by_at);
    double sum = 0;
    for (int64_t k = 0; k < in.dim[in.rank - 1]; k++) {
      in_at[in.rank - 1] = k;
      if (by.data) by_at[by.rank - 2] = k, by_at[by.rank - 1] = n;
      const double factor = by.data ? ord_reference_read(&by, by_at) : ord_reference_read(&weight, (int64_t[]){n, k});
      sum += ord_reference_read(&in, in_at) * factor;
    }
    if (bias.data) sum += ord_reference_read(&bias, &n);
    ord_reference_write(&out, at, sum);
  }
  return ORD_OK;
}

static const ord_kernel matmul_reference = {
    .struct_size = sizeof matmul_reference,
    .priority = ORD_REFERENCE_PRIORITY,
    .name = "matmul_reference",
    .op = "matmul",
    .query = ord_reference_query,
    .prepare = ord_reference_prepare,
    .launch = matmul_launch,
    .retire = ord_reference_retire,
};

/* ---- the shape rule -------------------------------------------------------------------------------------------- */

static bool infer_weight(ord_infer *infer, const ord_infer_operand *in, const ord_infer_operand *weight) {
  if (!ord_infer_check_matrix(infer, weight)) return false;
  if (!ord_infer_check_equal(infer, ord_axis_last(in), (ord_axis){weight, 1, "in"})) return false;
  if (!ord_infer_check_bias(infer, ord_infer_slot(infer, "bias"), (ord_axis){weight, 0, "out"})) return false;
  ord_size dim[ORD_RANK_MAX];
  for (uint32_t axis = 0; axis < in->rank; axis++) dim[axis] = in->dim[axis];
  dim[in->rank - 1] = weight->dim[0];
  ord_infer_set_result(infer, 0, in->dtype, in->rank, dim);
  return true;
}

/* Dim `axis` of `count` leading axes, where `operand` has `own` axes behind its leading ones; 1 where it has none. */
static bool leading_dim(ord_infer *infer, const ord_infer_operand *operand, uint32_t own, uint32_t count, uint32_t axis,
                        ord_size *out) {
  const uint32_t lacking = count - (operand->rank - own);
  if (axis < lacking) return ord_infer_size(infer, ord_size_constant(infer->arena, 1, out));
  *out = operand->dim[axis - lacking];
  return true;
}

static bool is_one(ord_size size) {
  int64_t value;
  return ord_size_is_constant(size, &value) && value == 1;
}

static bool infer_by(ord_infer *infer, const ord_infer_operand *in, const ord_infer_operand *by) {
  if (!ord_infer_check_float(infer, by) || !ord_infer_check_rank_min(infer, by, 2, "[.., k, n]")) return false;
  if (by->rank > 2 && !ord_infer_check_rank_min(infer, in, 2, "[.., m, k] where by has leading axes")) return false;
  if (!ord_infer_check_equal(infer, ord_axis_last(in), (ord_axis){by, by->rank - 2, "k"})) return false;
  if (!ord_infer_check_bias(infer, ord_infer_slot(infer, "bias"), ord_axis_last(by))) return false;
  const uint32_t rank = in->rank == 1 || in->rank > by->rank ? in->rank : by->rank;
  ord_size dim[ORD_RANK_MAX];
  for (uint32_t axis = 0; axis + 2 < rank; axis++) {
    ord_size a, b;
    if (!leading_dim(infer, in, 2, rank - 2, axis, &a) || !leading_dim(infer, by, 2, rank - 2, axis, &b)) return false;
    dim[axis] = is_one(a) ? b : a;
    if (ord_size_equal(dim[axis], b) || is_one(b)) continue;
    return ord_infer_fail(infer, "by", 0, "%s and %s do not broadcast: found %s and %s; wanted equal, or 1",
                          ord_infer_operand_text(infer, in), ord_infer_operand_text(infer, by),
                          ord_infer_size_text(infer, a), ord_infer_size_text(infer, b));
  }
  if (rank > 1) dim[rank - 2] = in->dim[in->rank - 2];
  dim[rank - 1] = by->dim[by->rank - 1];
  ord_infer_set_result(infer, 0, in->dtype, rank, dim);
  return true;
}

static bool matmul_infer(ord_infer *infer) {
  const ord_infer_operand *in = ord_infer_slot(infer, "in"), *weight = ord_infer_slot(infer, "weight");
  if (!ord_infer_check_either(infer, "weight", "by")) return false;
  if (!ord_infer_check_float(infer, in) || !ord_infer_check_rank_min(infer, in, 1, "[.., k]")) return false;
  return weight ? infer_weight(infer, in, weight) : infer_by(infer, in, ord_infer_slot(infer, "by"));
}

/* ---- the table ------------------------------------------------------------------------------------------------- */

static const ord_slot matmul_slots[] = {
    {"in", 0, 0, "[.., k]"},
    {"weight", ORD_SLOT_OPTIONAL | ORD_SLOT_MATRIX, 0, "(axes in = k, out = n)"},
    {"by", ORD_SLOT_OPTIONAL, 0, "[.., k, n]"},
    {"bias", ORD_SLOT_OPTIONAL, 0, "[n]"},
};

/* Inner sizes that are multiples of 64 but not of 128, single rows and odd leftovers are where kernels go wrong. */
static const ord_case matmul_cases[] = {
    {"in[1,$] weight[7,$]", "$=1..130"},
    {"in[3,$] weight[33,$] bias[33]", "$=1..130"},
    {"in[3,40] weight[$,40] bias[$]", "$=1..130"},
    {"in[$,65] weight[33,65] bias[33]", "$=1,2,3,4,5,6,7,8,9,33"},
    {"in[$,192] weight[32,192]", "$=1,2,3,4,5,6,7,8,9,33"},
    {"in[$,64] weight[17,64] bias[17]", "$=1,2,3,4,5,6,7,8,9,33"},
    {"in[2,$] weight[48,$]", "$=64,128,192,256,320,448,576"},
    {"in[1,576] weight[130,576]", ""},
    {"in[33,320] weight[65,320] bias[65]", ""},
    {"in[130,64] weight[64,64]", ""},
    /* storage types */
    {"in[1,$] weight:f16[9,$]", "$=1..130"},
    {"in[1,$] weight:bf16[9,$]", "$=1..130"},
    {"in[1,$] weight:i8[9,$]", "$=1..130"},
    {"in[5,$] weight:f16[34,$] bias:f16[34]", "$=1,31,32,33,64,100,192"},
    {"in[5,$] weight:bf16[34,$] bias:bf16[34]", "$=1,31,32,33,64,100,192"},
    {"in[5,$] weight:i8[34,$] bias[34]", "$=1,31,32,33,64,100,192"},
    {"in[5,$] weight:q8_0[34,$]", "$=32,64,96,192"},
    {"in[5,$] weight:q4_0[34,$] bias[34]", "$=32,64,96,192"},
    {"in[1,$] weight:q4_1[34,$]", "$=32,64,96,192"},
    {"in[5,$] weight:bf16[34,$]", "compute=bf16 $=1,2,31,32,33,64,100,192"},
    {"in[1,192] weight:bf16[34,192] bias[34]", "compute=bf16"},
    {"in[5,$] weight:i8[34,$]", "compute=int8 $=1,4,31,32,33,64,100,192"},
    {"in[13,$] weight[33,$] bias[33]", "compute=bf16 $=1,2,63,64,65,130"},
    {"in[13,$] weight[33,$] bias[33]", "compute=int8 $=1,3,63,64,65,130"},
    {"in[1,65] weight:f16[34,65]", "compute=int8"},
    {"in[2,65] weight:bf16[34,65]", "compute=int8"},
    {"in[2,65] weight:i8[34,65]", "compute=bf16"},
    {"in[2,65] weight:f16[34,65]", "compute=f16"},
    {"in:f16[5,33] weight[9,33]", ""},
    {"in:bf16[5,33] weight:bf16[9,33] bias[9]", ""},
    /* layouts */
    {"in[3,$] weight^[33,$] bias[33]", "$=1,2,7,32,33,64,130"},
    {"in[$,65] weight^:bf16[33,65]", "$=1,3,8"},
    {"in[$,65] weight^:f16[33,65]", "$=1,3,8"},
    {"in[$,65] weight^:i8[33,65] bias[33]", "$=1,3,8"},
    {"in[3,65] weight+[33,65] bias+[33]", ""},
    {"in+[3,65] weight[33,65] out+", ""},
    {"in^[3,65] weight[33,65] out^", ""},
    {"in^[2,3,4,65] weight[33,65] bias[33]", ""},
    {"in[3,65] weight[16|8|8,65] bias[16|8|8]", ""},
    {"in[1,65] weight:bf16[33|1|2,65]", ""},
    {"in[3,65] weight:i8[16|8|8,65]", ""},
    {"in[65] weight[33,65] bias[33]", ""},
    {"in[2,2,2,2,2,9] weight[7,9]", ""},
    {"in[1,3/8,64] weight[33,64] bias[33]", ""},
    {"in[2,3/8,64] weight:bf16[33,64]", ""},
    {"in+[2/4,3/8,64] weight[33,64] out+", ""},
    {"in[1,0/8,64] weight[33,64]", ""},
    {"in[3,5]=nan,inf,2,3,4,0,1,2,3,4,0,1,2,3,4 weight[4,5]", ""},
    /* by */
    {"in[3,$] by[$,5]", "$=1..130"},
    {"in[$,33] by[33,17] bias[17]", "$=1,2,3,4,5,6,7,8,9,33"},
    {"in[33] by[33,5]", ""},
    {"in[2,3,4] by[2,4,5]", ""},
    {"in[2,3,4] by[4,5]", ""},
    {"in[3,4] by[2,4,5] bias[5]", ""},
    {"in[2,1,3,4] by[5,4,6]", ""},
    {"in[1,2,3,4] by[5,1,4,6]", ""},
    {"in[2,3,4,8] by^[2,3,8,5]", ""},
    {"in^[2,3,4,8] by+[2,3,8,5] out^", ""},
    {"in[3,33] by*[33,5]", ""},
    {"in[1,2,3/8,16] by[1,2,16,3/8]", ""},
    {"in[1,2,4,3/8] by[1,2,3/8,16]", ""},
    {"in[1,2,4,0/8] by[1,2,0/8,16]", ""},
    {"in:f16[3,33] by:f16[33,5]", ""},
    /* epilogues */
    {"in[3,65] weight[33,65]", "epilogue=add(b[33])"},
    {"in[1,65] weight[33,65]", "epilogue=add(b[33])"},
    {"in[3,65] weight[33,65] bias[33]", "epilogue=add(residual[3,33])"},
    {"in[3,65] weight[33,65]", "epilogue=mul(gate[3,33])"},
    {"in[3,65] weight[33,65] bias[33]", "epilogue=gelu_erf"},
    {"in[3,65] weight[33,65]", "epilogue=gelu_tanh"},
    {"in[3,65] weight[33,65]", "epilogue=relu"},
    {"in[3,65] weight[33,65]", "epilogue=relu2"},
    {"in[3,65] weight[33,65]", "epilogue=silu"},
    {"in[3,65] weight[33,65]", "epilogue=sigmoid"},
    {"in[3,65] weight[33,65]", "epilogue=tanh"},
    {"in[3,65] weight[33,65]", "epilogue=layernorm(w[33],b[33];eps=1e-5)"},
    {"in[3,65] weight[33,65]", "epilogue=rmsnorm(w[33];eps=1e-5)"},
    {"in[3,65] weight[33,65]", "epilogue=silu+mul(gate[3,33])"},
    {"in[1,65] weight:bf16[33,65]", "epilogue=add(b[33])+gelu_tanh"},
    {"in[3,65] weight[33,65] bias[33]", "epilogue=add(residual[3,33])>+layernorm(w[33];eps=1e-5)"},
    {"in[2,3/8,65] weight[33,65]", "epilogue=add(b[33])+add(residual[2,3/8,33])>+rmsnorm(w[33];eps=1e-5)"},
    {"in[3,65] weight^:i8[33,65]", "epilogue=add(b[33])+silu"},
    {"in[$,65] weight:bf16[70,65] bias[70]", "compute=bf16 epilogue=gelu_tanh $=1,14"},
    {"in[$,65] weight[70,65]", "compute=int8 epilogue=silu+mul(gate[$,70]) $=1,14"},
    {"in[$,65] weight:i8[70,65] bias[70]",
     "compute=int8 epilogue=add(residual[$,70])>+layernorm(w[70],b[70];eps=1e-5) $=1,14"},
    {"in[$,65] weight[70,65] bias[70]", "epilogue=add(residual[$,70])>+rmsnorm(w[70];eps=1e-5) $=1,14"},
    {NULL, NULL},
};

static void matmul_work(const ord_node *node, const ord_exec *exec, ord_work *out) {
  const uint32_t by = ord_node_find(node, "by");
  if (by == ORD_NONE) {
    ord_work_weight(node, exec, out);
    return;
  }
  const uint32_t axis = node->operand[by].rank - 2; // [.., k, n]
  const int64_t k = ord_exec_dim(node, exec, by, axis), n = ord_exec_dim(node, exec, by, axis + 1);
  out->operations += 2 * ord_work_rows(node, exec) * (uint64_t)k * (uint64_t)n;
}

const ord_op ord_op_matmul = {
    .name = "matmul",
    .version = 1,
    .flags = ORD_OP_PROJECTION,
    .slot = matmul_slots,
    .slot_count = sizeof matmul_slots / sizeof *matmul_slots,
    .result_min = 1,
    .result_max = 1,
    .about = "[.., n]; either weight or by; leading axes of `by` broadcast",
    .infer = matmul_infer,
    .work = matmul_work,
    .reference = &matmul_reference,
    .cases = matmul_cases,
};
