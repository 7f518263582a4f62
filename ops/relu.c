/* SPDX-License-Identifier: MIT
 *
 * relu. The larger of x and 0; NaN stays NaN.
 */
#include "ops/op_pointwise.h"

static double apply(double x) { return x < 0 ? 0 : x; }

static ord_status relu_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  return ord_pointwise_launch(state, exec, apply);
}

static const ord_kernel relu_reference = {
    .struct_size = sizeof relu_reference,
    .priority = ORD_REFERENCE_PRIORITY,
    .name = "relu_reference",
    .op = "relu",
    .query = ord_reference_query,
    .prepare = ord_reference_prepare,
    .launch = relu_launch,
    .retire = ord_reference_retire,
};

const ord_op ord_op_relu = {
    .name = "relu",
    .version = 1,
    .flags = ORD_OP_POINTWISE,
    .slot = ord_pointwise_slot,
    .slot_count = 1,
    .result_min = 1,
    .result_max = 1,
    .about = "as in; max(x, 0), NaN stays NaN",
    .infer = ord_pointwise_infer,
    .reference = &relu_reference,
    .cases = ord_pointwise_cases,
};
