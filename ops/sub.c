/* SPDX-License-Identifier: MIT
 *
 * sub. The difference of two values.
 */
#include "ops/op_pointwise.h"

static double apply(double a, double b) { return a - b; }

static ord_status sub_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  return ord_binary_launch(state, exec, apply);
}

static const ord_kernel sub_reference = {
    .struct_size = sizeof sub_reference,
    .priority = ORD_REFERENCE_PRIORITY,
    .name = "sub_reference",
    .op = "sub",
    .query = ord_reference_query,
    .prepare = ord_reference_prepare,
    .launch = sub_launch,
    .retire = ord_reference_retire,
};

const ord_op ord_op_sub = {
    .name = "sub",
    .version = 1,
    .slot = ord_binary_slot,
    .slot_count = 1,
    .result_min = 1,
    .result_max = 1,
    .about = "broadcast of both; a - b",
    .infer = ord_binary_infer,
    .reference = &sub_reference,
    .cases = ord_binary_cases,
};
