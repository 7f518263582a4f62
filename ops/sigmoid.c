/* SPDX-License-Identifier: MIT
 *
 * sigmoid. The logistic function.
 */
#include "ops/op_pointwise.h"

static double apply(double x) { return 1 / (1 + exp(-x)); }

static ord_status sigmoid_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  return ord_pointwise_launch(state, exec, apply);
}

static const ord_kernel sigmoid_reference = {
    .struct_size = sizeof sigmoid_reference,
    .priority = ORD_REFERENCE_PRIORITY,
    .name = "sigmoid_reference",
    .op = "sigmoid",
    .query = ord_reference_query,
    .prepare = ord_reference_prepare,
    .launch = sigmoid_launch,
    .retire = ord_reference_retire,
};

const ord_op ord_op_sigmoid = {
    .name = "sigmoid",
    .version = 1,
    .flags = ORD_OP_POINTWISE,
    .slot = ord_pointwise_slot,
    .slot_count = 1,
    .result_min = 1,
    .result_max = 1,
    .about = "as in; 1 / (1 + exp(-x))",
    .infer = ord_pointwise_infer,
    .reference = &sigmoid_reference,
    .cases = ord_pointwise_cases,
};
