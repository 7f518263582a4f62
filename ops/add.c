/* SPDX-License-Identifier: MIT
 *
 * add. The sum of two values.
 */
#include "ops/op_pointwise.h"

static double apply(double a, double b) { return a + b; }

static ord_status add_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  return ord_binary_launch(state, exec, apply);
}

static const ord_kernel add_reference = {
    .struct_size = sizeof add_reference,
    .priority = ORD_REFERENCE_PRIORITY,
    .name = "add_reference",
    .op = "add",
    .query = ord_reference_query,
    .prepare = ord_reference_prepare,
    .launch = add_launch,
    .retire = ord_reference_retire,
};

const ord_op ord_op_add = {
    .name = "add",
    .version = 1,
    .flags = ORD_OP_ADDS,
    .slot = ord_binary_slot,
    .slot_count = 1,
    .result_min = 1,
    .result_max = 1,
    .about = "broadcast of both; a + b",
    .infer = ord_binary_infer,
    .reference = &add_reference,
    .cases = ord_binary_cases,
};
