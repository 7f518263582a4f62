/* SPDX-License-Identifier: MIT
 *
 * gelu_erf. The exact gelu: x times the share of a normal distribution below x.
 */
#include "ops/op_pointwise.h"

static double apply(double x) {
  const double root_half = 0.70710678118654752440;
  return 0.5 * x * (1 + erf(x * root_half));
}

static ord_status gelu_erf_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  return ord_pointwise_launch(state, exec, apply);
}

static const ord_kernel gelu_erf_reference = {
    .struct_size = sizeof gelu_erf_reference,
    .priority = ORD_REFERENCE_PRIORITY,
    .name = "gelu_erf_reference",
    .op = "gelu_erf",
    .query = ord_reference_query,
    .prepare = ord_reference_prepare,
    .launch = gelu_erf_launch,
    .retire = ord_reference_retire,
};

const ord_op ord_op_gelu_erf = {
    .name = "gelu_erf",
    .version = 1,
    .flags = ORD_OP_POINTWISE,
    .slot = ord_pointwise_slot,
    .slot_count = 1,
    .result_min = 1,
    .result_max = 1,
    .about = "as in; x * (1 + erf(x / sqrt(2))) / 2",
    .infer = ord_pointwise_infer,
    .reference = &gelu_erf_reference,
    .cases = ord_pointwise_cases,
};
