/* SPDX-License-Identifier: MIT
 *
 * tanh. The hyperbolic tangent.
 */
#include "ops/op_pointwise.h"

static double apply(double x) { return tanh(x); }

static ord_status tanh_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  return ord_pointwise_launch(state, exec, apply);
}

static const ord_kernel tanh_reference = {
    .struct_size = sizeof tanh_reference,
    .priority = ORD_REFERENCE_PRIORITY,
    .name = "tanh_reference",
    .op = "tanh",
    .query = ord_reference_query,
    .prepare = ord_reference_prepare,
    .launch = tanh_launch,
    .retire = ord_reference_retire,
};

const ord_op ord_op_tanh = {
    .name = "tanh",
    .version = 1,
    .flags = ORD_OP_POINTWISE,
    .slot = ord_pointwise_slot,
    .slot_count = 1,
    .result_min = 1,
    .result_max = 1,
    .about = "as in; tanh(x)",
    .infer = ord_pointwise_infer,
    .reference = &tanh_reference,
    .cases = ord_pointwise_cases,
};
