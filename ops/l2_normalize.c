/* SPDX-License-Identifier: MIT
 *
 * l2_normalize. Divides each slice along one axis by max(length, eps), length the root of the sum of its squares; NaN
 * stays NaN.
 */
#include "ops/op_check.h"
#include "ops/reference.h"

static bool l2_normalize_infer(ord_infer *infer) {
  const ord_infer_operand *in = ord_infer_slot(infer, "in");
  uint32_t axis;
  if (!ord_infer_check_float(infer, in) || !ord_infer_axis(infer, "axis", in->rank, &axis)) return false;
  ord_infer_set_result(infer, 0, in->dtype, in->rank, in->dim);
  return true;
}

static void l2_normalize_slice(const ord_reference_tensor *in, const ord_reference_tensor *out, int64_t axis,
                               double eps, int64_t *index) {
  double sum = 0;
  for (index[axis] = 0; index[axis] < in->dim[axis]; index[axis]++) {
    const double value = ord_reference_read(in, index);
    sum += value * value;
  }
  const double length = sqrt(sum), divisor = length < eps ? eps : length;
  for (index[axis] = 0; index[axis] < in->dim[axis]; index[axis]++)
    ord_reference_write(out, index, ord_reference_read(in, index) / divisor);
}

static ord_status l2_normalize_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const ord_node *node = state;
  const ord_reference_tensor in = ord_reference_slot(node, exec, "in"); /* [..] */
  const ord_reference_tensor out = ord_reference_output(node, exec, 0); /* as in */
  const int64_t axis = ord_reference_int(node, "axis", 0);
  const double eps = ord_reference_float(node, "eps", 0);
  const ord_reference_tensor slices = ord_reference_slices(&in, (uint32_t)axis);
  int64_t index[ORD_RANK_MAX] = {0};
  for (int64_t i = 0; i < ord_reference_count(&slices); i++) {
    ord_reference_index(&slices, i, index);
    l2_normalize_slice(&in, &out, axis, eps, index);
  }
  return ORD_OK;
}

static const ord_kernel l2_normalize_reference = {
    .struct_size = sizeof l2_normalize_reference,
    .priority = ORD_REFERENCE_PRIORITY,
    .name = "l2_normalize_reference",
    .op = "l2_normalize",
    .query = ord_reference_query,
    .prepare = ord_reference_prepare,
    .launch = l2_normalize_launch,
    .retire = ord_reference_retire,
};

static const ord_case l2_normalize_cases[] = {
    {"in[3,$]", "$=1..130"},
    {"in[130]", ""},
    {"in[2,3,4,5,6,7]", "axis=2"},
    {"in[5,33]", "axis=0"},
    {"in[3,0]", ""},
    {"in[0,3]", ""},
    {"in^[5,33]", ""},
    {"in+[5,33] out+", "axis=0"},
    {"in[4,33] out^", ""},
    {"in[2,3/8,16]", ""},
    {"in[2,3/8,16]", "axis=1"},
    {"in[3,4]=0", ""},
    {"in[3,4]=0,0,0,1e-3", "eps=0.5"},
    {"in[2,4]=0", "eps=0.25"},
    {"in[3,4]=nan,1,2,3,1,1,2,3", ""},
    {"in[2,4]=3e38,-3e38,3e38,1", ""}, // a length beyond every float
    {"in:f16[3,37]", ""},
    {"in:bf16[3,37]", ""},
    {NULL, NULL},
};

static const ord_slot l2_normalize_slot[] = {{"in", 0, 0, NULL}};

static const ord_attr_rule l2_normalize_attr[] = {
    {.name = "axis",
     .kind = ORD_RULE_INT,
     .default_text = "-1",
     .default_value = {.name = "axis", .kind = ORD_ATTR_INT, .count = 1, .value.i = -1},
     .wanted = "the number of an axis"},
    {.name = "eps",
     .kind = ORD_RULE_NUMBER,
     .default_text = "1e-12",
     .default_value = {.name = "eps", .kind = ORD_ATTR_NUMBER, .count = 1, .value.f = 1e-12},
     .wanted = "a number such as 1e-12"},
};

const ord_op ord_op_l2_normalize = {
    .name = "l2_normalize",
    .version = 1,
    .slot = l2_normalize_slot,
    .slot_count = sizeof l2_normalize_slot / sizeof *l2_normalize_slot,
    .attr = l2_normalize_attr,
    .attr_count = sizeof l2_normalize_attr / sizeof *l2_normalize_attr,
    .result_min = 1,
    .result_max = 1,
    .about = "in / max(length, eps)",
    .infer = l2_normalize_infer,
    .reference = &l2_normalize_reference,
    .cases = l2_normalize_cases,
};
