/* SPDX-License-Identifier: MIT
 *
 * mlp: down(act(up(x))), or down(act(gate(x)) * up(x)), each of the three a matmul with an optional bias.
 */
#include "ops/op_check.h"
#include "ops/op_work.h"
#include "ops/reference.h"

enum { IN, UP, DOWN, GATE, UP_BIAS, DOWN_BIAS, GATE_BIAS, SLOT_COUNT };

/* ---- the reference: one row after the other, its hidden numbers in f32 in scratch -------------------------------- */

/* weight's row `n` times `count` numbers, plus the bias. */
static double project(const ord_reference_tensor *weight, const ord_reference_tensor *bias, int64_t n, const float *in,
                      int64_t count) {
  assert(weight->rank == 2);
  double sum = 0;
  for (int64_t k = 0; k < count; k++) sum += in[k] * ord_reference_read(weight, (int64_t[]){n, k});
  return bias->data ? sum + ord_reference_read(bias, &n) : sum;
}

/* Applies the activation in place, by its own reference. */
static ord_status activate(const ord_kernel *activation, float *number, int64_t count, ord_plugin_error *err) {
  ord_operand operand[2];
  for (uint32_t i = 0; i < 2; i++) {
    operand[i] = (ord_operand){.dtype = ORD_F32, .rank = 1, .block_elements = 1, .block_bytes = sizeof *number};
    operand[i].dim[0] = count;
    operand[i].stride[0] = sizeof *number;
    operand[i].extent[0] = ORD_NONE;
  }
  operand[0].name = "in", operand[0].role = ORD_INPUT;
  operand[1].name = "out", operand[1].role = ORD_OUTPUT;
  const ord_node node = {.struct_size = sizeof node, .op = activation->op, .operand_count = 2, .operand = operand};
  const ord_exec exec = {.struct_size = sizeof exec, .chunk_count = 1, .operand = (void *const[]){number, number}};
  void *state;
  ord_status status = activation->prepare(activation, &node, NULL, NULL, &state, err);
  if (status != ORD_OK) return status;
  status = activation->launch(state, &exec, err);
  activation->retire(state);
  return status;
}

static ord_status mlp_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  const ord_node *node = state;
  const ord_kernel *activation = ord_op_find(ord_node_attr(node, "activation")->value.s)->reference;
  ord_reference_tensor tensor[SLOT_COUNT];
  for (uint32_t slot = 0; slot < SLOT_COUNT; slot++) tensor[slot] = ord_reference_operand(node, exec, slot);
  const ord_reference_tensor out = ord_reference_output(node, exec, 0); // [.., n]
  const int64_t width = tensor[IN].dim[tensor[IN].rank - 1], hidden = tensor[UP].dim[0], n = tensor[DOWN].dim[0];
  float *up = exec->scratch, *gate = up + hidden, *in = gate + hidden; // [hidden], [hidden], [width]
  const int64_t rows = n > 0 ? ord_reference_count(&out) / n : 0;
  for (int64_t row = 0; row < rows; row++) {
    int64_t at[ORD_RANK_MAX] = {0};
    ord_reference_index(&out, row * n, at);
    for (at[out.rank - 1] = 0; at[out.rank - 1] < width; at[out.rank - 1]++)
      in[at[out.rank - 1]] = (float)ord_reference_read(&tensor[IN], at);
    for (int64_t i = 0; i < hidden; i++) {
      up[i] = (float)project(&tensor[UP], &tensor[UP_BIAS], i, in, width);
      if (tensor[GATE].data) gate[i] = (float)project(&tensor[GATE], &tensor[GATE_BIAS], i, in, width);
    }
    const ord_status status = activate(activation, tensor[GATE].data ? gate : up, hidden, err);
    if (status != ORD_OK) return status;
    for (int64_t i = 0; tensor[GATE].data && i < hidden; i++) up[i] *= gate[i];
    for (at[out.rank - 1] = 0; at[out.rank - 1] < n; at[out.rank - 1]++)
      ord_reference_write(&out, at, project(&tensor[DOWN], &tensor[DOWN_BIAS], at[out.rank - 1], up, hidden));
  }
  return ORD_OK;
}

static ord_status mlp_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  const ord_status status = ord_reference_query(kernel, node, answer);
  const ord_operand *up = &node->operand[UP];
  answer->scratch_bytes = (uint64_t)(2 * up->dim[0] + up->dim[1]) * sizeof(float);
  return status;
}

static const ord_kernel mlp_reference = {
    .struct_size = sizeof mlp_reference,
    .priority = ORD_REFERENCE_PRIORITY,
    .name = "mlp_reference",
    .op = "mlp",
    .query = mlp_query,
    .prepare = ord_reference_prepare,
    .launch = mlp_launch,
    .retire = ord_reference_retire,
};

/* ---- the shape rule -------------------------------------------------------------------------------------------- */

static bool mlp_infer(ord_infer *infer) {
  const ord_infer_operand *in = ord_infer_slot(infer, "in"), *up = ord_infer_slot(infer, "up");
  const ord_infer_operand *down = ord_infer_slot(infer, "down"), *gate = ord_infer_slot(infer, "gate");
  const ord_infer_operand *gate_bias = ord_infer_slot(infer, "gate_bias");
  if (!ord_infer_check_float(infer, in) || !ord_infer_check_rank_min(infer, in, 1, "[.., k]")) return false;
  if (!ord_infer_check_matrix(infer, up) || !ord_infer_check_matrix(infer, down)) return false;
  if (!ord_infer_check_matrix(infer, gate)) return false;
  const ord_axis hidden = {up, 0, "out"};
  if (!ord_infer_check_equal(infer, ord_axis_last(in), (ord_axis){up, 1, "in"})) return false;
  if (!ord_infer_check_equal(infer, hidden, (ord_axis){down, 1, "in"})) return false;
  if (!ord_infer_check_equal(infer, ord_axis_last(in), (ord_axis){gate, 1, "in"})) return false;
  if (!ord_infer_check_equal(infer, hidden, (ord_axis){gate, 0, "out"})) return false;
  if (gate_bias && !gate) return ord_infer_fail(infer, "gate_bias", 0, "gate_bias without a gate; wanted gate too");
  if (!ord_infer_check_bias(infer, ord_infer_slot(infer, "up_bias"), hidden)) return false;
  if (!ord_infer_check_bias(infer, gate_bias, hidden)) return false;
  if (!ord_infer_check_bias(infer, ord_infer_slot(infer, "down_bias"), (ord_axis){down, 0, "out"})) return false;
  ord_size dim[ORD_RANK_MAX];
  for (uint32_t axis = 0; axis < in->rank; axis++) dim[axis] = in->dim[axis];
  dim[in->rank - 1] = down->dim[0];
  ord_infer_set_result(infer, 0, in->dtype, in->rank, dim);
  return true;
}

/* ---- the lowering ---------------------------------------------------------------------------------------------- */

static bool lower_matmul(ord_lowering *lowering, uint32_t in, uint32_t weight, uint32_t bias, uint32_t *out) {
  const uint32_t operand[] = {in, lowering->in[weight], ORD_NONE, lowering->in[bias]};
  return lowering->add(lowering, "matmul", operand, 4, NULL, 0, NULL, 0, out);
}

static bool mlp_lower(ord_lowering *lowering) {
  const uint32_t in = lowering->in[IN];
  const char *activation = ord_attr_find(lowering->attr, lowering->attr_count, "activation")->value.s;
  uint32_t up, gate, hidden;
  if (!lower_matmul(lowering, in, UP, UP_BIAS, &up)) return false;
  if (lowering->in[GATE] == ORD_NONE) {
    if (!lowering->add(lowering, activation, &up, 1, NULL, 0, NULL, 0, &hidden)) return false;
  } else {
    uint32_t product[] = {ORD_NONE, up};
    if (!lower_matmul(lowering, in, GATE, GATE_BIAS, &gate)) return false;
    if (!lowering->add(lowering, activation, &gate, 1, NULL, 0, NULL, 0, &product[0])) return false;
    if (!lowering->add(lowering, "mul", product, 2, NULL, 0, NULL, 0, &hidden)) return false;
  }
  return lower_matmul(lowering, hidden, DOWN, DOWN_BIAS, &lowering->result);
}

/* ---- the table ------------------------------------------------------------------------------------------------- */

static const ord_slot mlp_slots[SLOT_COUNT] = {
    [IN] = {"in", 0, 0, "[.., k]"},
    [UP] = {"up", ORD_SLOT_MATRIX, 0, NULL},
    [DOWN] = {"down", ORD_SLOT_MATRIX, 0, NULL},
    [GATE] = {"gate", ORD_SLOT_MATRIX | ORD_SLOT_OPTIONAL, 0, NULL},
    [UP_BIAS] = {"up_bias", ORD_SLOT_OPTIONAL, 0, NULL},
    [DOWN_BIAS] = {"down_bias", ORD_SLOT_OPTIONAL, 0, NULL},
    [GATE_BIAS] = {"gate_bias", ORD_SLOT_OPTIONAL, 0, NULL},
};

/* The pointwise ops; a test keeps this list equal to the flags of the op tables. */
static const char *const activation_words[] = {"gelu_erf", "gelu_tanh", "relu", "relu2",
                                               "silu",     "sigmoid",   "tanh", NULL};

static const char *const activation_hints[] = {
    "gelu", "comes in two kinds; wanted gelu_erf (exact) or gelu_tanh (approximation)", NULL};

static const ord_attr_rule mlp_attributes[] = {
    {.name = "activation",
     .kind = ORD_RULE_WORD,
     .required = true,
     .word = activation_words,
     .wanted = "a pointwise op",
     .wrong_hint = activation_hints},
};

static const ord_case mlp_cases[] = {
    {"in[2,$] up[5,$] down[3,5]", "activation=relu $=1..130"},
    {"in[2,3] up[$,3] down[3,$]", "activation=gelu_tanh $=1..130"},
    {"in[3,16] up[32,16] down[16,32]", "activation=gelu_erf"},
    {"in[3,16] up[32,16] down[16,32]", "activation=gelu_tanh"},
    {"in[3,16] up[32,16] down[16,32]", "activation=relu2"},
    {"in[3,16] up[32,16] down[16,32]", "activation=silu"},
    {"in[3,16] up[32,16] down[16,32]", "activation=sigmoid"},
    {"in[3,16] up[32,16] down[16,32]", "activation=tanh"},
    {"in[3,16] up[32,16] down[16,32] up_bias[32] down_bias[16]", "activation=gelu_erf"},
    {"in[3,16] up[32,16] down[16,32] up_bias[32]", "activation=relu"},
    {"in[3,16] up[32,16] down[16,32] down_bias[16]", "activation=relu"},
    {"in[3,16] up[32,16] down[16,32] gate[32,16]", "activation=silu"},
    {"in[3,16] up[33,16] down[9,33] gate[33,16] up_bias[33] down_bias[9] gate_bias[33]", "activation=silu"},
    {"in[3,16] up[33,16] down[9,33] gate[33,16] gate_bias[33]", "activation=sigmoid"},
    {"in[1,1,64] up[256,64] down[64,256]", "activation=gelu_tanh"},
    {"in[33,64] up[130,64] down[65,130] gate[130,64]", "activation=silu"},
    {"in[16] up[32,16] down[16,32]", "activation=relu"},
    {"in[2,3,4,16] up[32,16] down[16,32]", "activation=relu"},
    {"in[2,3/8,16] up[32,16] down[16,32] up_bias[32] down_bias[16]", "activation=gelu_tanh"},
    {"in[1,0/8,16] up[32,16] down[16,32]", "activation=gelu_tanh"},
    {"in[3,16] up:f16[32,16] down:f16[16,32]", "activation=silu"},
    {"in[3,16] up:bf16[32,16] down:bf16[16,32] gate:bf16[32,16] up_bias:bf16[32]", "activation=silu"},
    {"in[3,16] up:i8[32,16] down:i8[16,32]", "activation=relu"},
    {"in[3,16] up^[32,16] down[16,32]", "activation=relu"},
    {"in[3,16] up^:bf16[32,16] down^[16,32] gate^[32,16]", "activation=silu"},
    {"in+[3,16] up+[32,16] down[16,32] out+", "activation=relu"},
    {"in^[3,16] up[32,16] down[16,32] out^", "activation=relu"},
    {"in:f16[3,16] up[32,16] down[16,32]", "activation=relu"},
    {"in[3,16] up[32,16] down[16,32] down_bias[16]", "activation=relu epilogue=add(residual[3,16])"},
    {NULL, NULL},
};

static void mlp_work(const ord_node *node, const ord_exec *exec, ord_work *out) {
  const uint64_t rows = ord_work_rows(node, exec);
  for (uint32_t slot = UP; slot <= GATE; slot++)
    if (node->operand[slot].role != ORD_ABSENT) out->operations += ord_work_product(node, slot, rows);
}

const ord_op ord_op_mlp = {
    .name = "mlp",
    .version = 1,
    .flags = ORD_OP_COMPOSITE,
    .slot = mlp_slots,
    .slot_count = SLOT_COUNT,
    .attr = mlp_attributes,
    .attr_count = sizeof mlp_attributes / sizeof *mlp_attributes,
    .result_min = 1,
    .result_max = 1,
    .about = "[.., out of down]; down(act(up)) or down(act(gate) * up)",
    .infer = mlp_infer,
    .lower = mlp_lower,
    .work = mlp_work,
    .reference = &mlp_reference,
    .cases = mlp_cases,
};
