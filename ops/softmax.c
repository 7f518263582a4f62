/* SPDX-License-Identifier: MIT
 *
 * softmax. Shares along one axis: exp(x - max) over the sum of them. A slice of -inf alone gives zeros; NaN or +inf in
 * a slice makes all of it NaN.
 */
#include "ops/op_check.h"
#include "ops/reference.h"

static bool softmax_infer(ord_infer *infer) {
  const ord_infer_operand *in = ord_infer_slot(infer, "in");
  uint32_t axis;
  if (!ord_infer_check_float(infer, in) || !ord_infer_axis(infer, "axis", in->rank, &axis)) return false;
  ord_infer_set_result(infer, 0, in->dtype, in->rank, in->dim);
  return true;
}

/* One slice: `index` runs along `axis`. */
static void softmax_slice(const ord_reference_tensor *in, const ord_reference_tensor *out, int64_t axis,
                          int64_t *index) {
  double largest = -INFINITY, sum = 0;
  for (index[axis] = 0; index[axis] < in->dim[axis]; index[axis]++) {
    const double value = ord_reference_read(in, index);
    if (value > largest || isnan(value)) largest = value;
    if (isnan(value)) break;
  }
  const bool sees_nothing = largest == (double)-INFINITY;
  for (index[axis] = 0; index[axis] < in->dim[axis]; index[axis]++) sum += exp(ord_reference_read(in, index) - largest);
  for (index[axis] = 0; index[axis] < in->dim[axis]; index[axis]++)
    ord_reference_write(out, index, sees_nothing ? 0 : exp(ord_reference_read(in, index) - largest) / sum);
}

static ord_status softmax_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const ord_node *node = state;
  const ord_reference_tensor in = ord_reference_slot(node, exec, "in"); /* [..] */
  const ord_reference_tensor out = ord_reference_output(node, exec, 0); /* as in */
  const int64_t axis = ord_reference_int(node, "axis", 0);
  const ord_reference_tensor slices = ord_reference_slices(&in, (uint32_t)axis);
  int64_t index[ORD_RANK_MAX] = {0};
  for (int64_t i = 0; i < ord_reference_count(&slices); i++) {
    ord_reference_index(&slices, i, index);
    softmax_slice(&in, &out, axis, index);
  }
  return ORD_OK;
}

static const ord_kernel softmax_reference = {
    .struct_size = sizeof softmax_reference,
    .priority = ORD_REFERENCE_PRIORITY,
    .name = "softmax_reference",
    .op = "softmax",
    .query = ord_reference_query,
    .prepare = ord_reference_prepare,
    .launch = softmax_launch,
    .retire = ord_reference_retire,
};

static const ord_case softmax_cases[] = {
    {"in[3,$]", "$=1..130"},
    {"in[130]", ""},
    {"in[2,3,4,5,6,7]", "axis=2"},
    {"in[5,33]", "axis=0"},
    {"in[2,5,33]", "axis=-2"},
    {"in[3,0]", ""},
    {"in[0,3]", ""},
    {"in^[5,33]", ""},
    {"in+[5,33] out+", "axis=0"},
    {"in[4,33] out^", ""},
    {"in[2,3/8,16]", ""},
    {"in[2,3/8,16]", "axis=1"},
    {"in[3,5/130]", ""},
    {"in[3,37]=1000,-1000,999", ""},
    {"in[2,8]=-3e38", ""},
    {"in[3,4]=-inf,-inf,-inf,-inf,1,-inf,2,3", ""},
    {"in[3,4]=nan,1,2,3,inf,1,2,3,-inf,nan,1,2", ""},
    {"in:f16[3,37]", ""},
    {"in:bf16[3,37]", ""},
    {NULL, NULL},
};

static const ord_slot softmax_slot[] = {{"in", 0, 0, NULL}};

static const ord_attr_rule softmax_attr[] = {
    {.name = "axis",
     .kind = ORD_RULE_INT,
     .default_text = "-1",
     .default_value = {.name = "axis", .kind = ORD_ATTR_INT, .count = 1, .value.i = -1},
     .wanted = "the number of an axis"},
};

const ord_op ord_op_softmax = {
    .name = "softmax",
    .version = 1,
    .slot = softmax_slot,
    .slot_count = sizeof softmax_slot / sizeof *softmax_slot,
    .attr = softmax_attr,
    .attr_count = sizeof softmax_attr / sizeof *softmax_attr,
    .result_min = 1,
    .result_max = 1,
    .about = "as in; a slice of -inf alone gives zeros",
    .infer = softmax_infer,
    .reference = &softmax_reference,
    .cases = softmax_cases,
};
