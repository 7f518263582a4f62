/* SPDX-License-Identifier: MIT
 *
 * gelu_tanh. The approximation of gelu through tanh.
 */
#include "ops/op_pointwise.h"

static double apply(double x) {
  const double root_two_by_pi = 0.79788456080286535588;
  return 0.5 * x * (1 + tanh(root_two_by_pi * (x + 0.044715 * x * x * x)));
}

static ord_status gelu_tanh_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  return ord_pointwise_launch(state, exec, apply);
}

static const ord_kernel gelu_tanh_reference = {
    .struct_size = sizeof gelu_tanh_reference,
    .priority = ORD_REFERENCE_PRIORITY,
    .name = "gelu_tanh_reference",
    .op = "gelu_tanh",
    .query = ord_reference_query,
    .prepare = ord_reference_prepare,
    .launch = gelu_tanh_launch,
    .retire = ord_reference_retire,
};

const ord_op ord_op_gelu_tanh = {
    .name = "gelu_tanh",
    .version = 1,
    .flags = ORD_OP_POINTWISE,
    .slot = ord_pointwise_slot,
    .slot_count = 1,
    .result_min = 1,
    .result_max = 1,
    .about = "as in; x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2",
    .infer = ord_pointwise_infer,
    .reference = &gelu_tanh_reference,
    .cases = ord_pointwise_cases,
};
