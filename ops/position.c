/* SPDX-License-Identifier: MIT
 *
 * position. Adds the row of a table for each place: in + weight[positions + offset]. A place outside the rows adds
 * zeros (positions from the caller are checked before a run).
 */
#include "ops/op_check.h"
#include "ops/reference.h"

static bool position_infer(ord_infer *infer) {
  const ord_infer_operand *in = ord_infer_slot(infer, "in"), *positions = ord_infer_slot(infer, "positions"),
                          *weight = ord_infer_slot(infer, "weight");
  if (!ord_infer_check_float(infer, in) || !ord_infer_check_rank(infer, in, 3, "[batch, tokens, width]") ||
      !ord_infer_check_dtype(infer, positions, ORD_I32) ||
      !ord_infer_check_rank(infer, positions, 2, "[batch, tokens]") || !ord_infer_check_float(infer, weight) ||
      !ord_infer_check_rank(infer, weight, 2, "[rows, width]") ||
      !ord_infer_check_equal(infer, (ord_axis){in, 0, "batch"}, (ord_axis){positions, 0, "batch"}) ||
      !ord_infer_check_equal(infer, (ord_axis){in, 1, "tokens"}, (ord_axis){positions, 1, "tokens"}) ||
      !ord_infer_check_equal(infer, ord_axis_last(in), (ord_axis){weight, 1, "width"}))
    return false;
  ord_infer_set_result(infer, 0, in->dtype, in->rank, in->dim);
  return true;
}

static ord_status position_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const ord_node *node = state;
  const ord_reference_tensor in = ord_reference_slot(node, exec, "in");               /* [b, s, d] */
  const ord_reference_tensor positions = ord_reference_slot(node, exec, "positions"); /* [b, s] */
  const ord_reference_tensor weight = ord_reference_slot(node, exec, "weight");       /* [rows, d] */
  const ord_reference_tensor out = ord_reference_output(node, exec, 0);               /* [b, s, d] */
  const int64_t offset = ord_reference_int(node, "offset", 0);
  int64_t index[ORD_RANK_MAX] = {0};
  for (int64_t i = 0; i < ord_reference_count(&out); i++) {
    ord_reference_index(&out, i, index);
    const int64_t row = (int64_t)ord_reference_read(&positions, index) + offset;
    const bool is_inside = row >= 0 && row < weight.dim[0];
    const double place = is_inside ? ord_reference_read(&weight, (const int64_t[]){row, index[2]}) : 0;
    ord_reference_write(&out, index, ord_reference_read(&in, index) + place);
  }
  return ORD_OK;
}

static const ord_kernel position_reference = {
    .struct_size = sizeof position_reference,
    .priority = ORD_REFERENCE_PRIORITY,
    .name = "position_reference",
    .op = "position",
    .query = ord_reference_query,
    .prepare = ord_reference_prepare,
    .launch = position_launch,
    .retire = ord_reference_retire,
};

static const ord_case position_cases[] = {
    {"in[2,5,$] positions:i32[2,5]<7 weight[7,$]", "$=1..130"},
    {"in[2,5,33] positions:i32[2,5]<7 weight[9,33]", "offset=2"},
    {"in[1,5,8] positions:i32[1,5]=0,6,7,-1,2147483647 weight[7,8]", ""},
    {"in[1,4,8] positions:i32[1,4]=0,1,2,5 weight[7,8]", "offset=-2"},
    {"in[2,0,4] positions:i32[2,0] weight[7,4]", ""},
    {"in^[2,5,33] positions+:i32[2,5]<7 weight^[7,33]", ""},
    {"in+[2,5,33] positions^:i32[2,5]<7 weight+[7,33] out+", ""},
    {"in[2,5,33] positions:i32[2,5]<7 weight[7,33] out^", ""},
    {"in[2/4,3/8,16] positions:i32[2/4,3/8]<7 weight[7,16]", ""},
    {"in[2,5,37] positions:i32[2,5]<7 weight:f16[7,37]", ""},
    {"in[2,5,37] positions:i32[2,5]<7 weight:bf16[7,37]", ""},
    {"in[2,5,37] positions:i32[2,5]<7 weight:i8[7,37]", ""},
    {"in:bf16[2,5,37] positions:i32[2,5]<7 weight:bf16[7,37]", ""},
    {"in[1,3,2]=nan,1,inf,2,3,4 positions:i32[1,3]=0,1,2 weight[3,2]=1,2,-inf,nan,3,4", ""},
    {NULL, NULL},
};

static const ord_slot position_slot[] = {{"in", 0, 0, "[b, s, d]"},
                                         {"positions", ORD_SLOT_INDEX, 0, "i32 [b, s]"},
                                         {"weight", ORD_SLOT_TABLE, 0, "[rows, d]"}};

static const ord_attr_rule position_attr[] = {
    {.name = "offset",
     .kind = ORD_RULE_INT,
     .default_text = "0",
     .default_value = {.name = "offset", .kind = ORD_ATTR_INT, .count = 1, .value.i = 0},
     .wanted = "a whole number"},
};

const ord_op ord_op_position = {
    .name = "position",
    .version = 1,
    .slot = position_slot,
    .slot_count = sizeof position_slot / sizeof *position_slot,
    .attr = position_attr,
    .attr_count = sizeof position_attr / sizeof *position_attr,
    .result_min = 1,
    .result_max = 1,
    .about = "[b, s, d]; in + weight[positions + offset]",
    .infer = position_infer,
    .reference = &position_reference,
    .cases = position_cases,
};
