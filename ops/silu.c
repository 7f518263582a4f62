/* SPDX-License-Identifier: MIT
 *
 * silu. x times its sigmoid, also called swish.
 */
#include "ops/op_pointwise.h"

static double apply(double x) { return x / (1 + exp(-x)); }

static ord_status silu_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  return ord_pointwise_launch(state, exec, apply);
}

static const ord_kernel silu_reference = {
    .struct_size = sizeof silu_reference,
    .priority = ORD_REFERENCE_PRIORITY,
    .name = "silu_reference",
    .op = "silu",
    .query = ord_reference_query,
    .prepare = ord_reference_prepare,
    .launch = silu_launch,
    .retire = ord_reference_retire,
};

const ord_op ord_op_silu = {
    .name = "silu",
    .version = 1,
    .flags = ORD_OP_POINTWISE,
    .slot = ord_pointwise_slot,
    .slot_count = 1,
    .result_min = 1,
    .result_max = 1,
    .about = "as in; x / (1 + exp(-x))",
    .infer = ord_pointwise_infer,
    .reference = &silu_reference,
    .cases = ord_pointwise_cases,
};
