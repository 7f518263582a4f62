/* SPDX-License-Identifier: MIT
 *
 * mul. The product of two values, number by number.
 */
#include "ops/op_pointwise.h"

static double apply(double a, double b) { return a * b; }

static ord_status mul_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  return ord_binary_launch(state, exec, apply);
}

static const ord_kernel mul_reference = {
    .struct_size = sizeof mul_reference,
    .priority = ORD_REFERENCE_PRIORITY,
    .name = "mul_reference",
    .op = "mul",
    .query = ord_reference_query,
    .prepare = ord_reference_prepare,
    .launch = mul_launch,
    .retire = ord_reference_retire,
};

const ord_op ord_op_mul = {
    .name = "mul",
    .version = 1,
    .flags = ORD_OP_MULTIPLIES,
    .slot = ord_binary_slot,
    .slot_count = 1,
    .result_min = 1,
    .result_max = 1,
    .about = "broadcast of both; a * b",
    .infer = ord_binary_infer,
    .reference = &mul_reference,
    .cases = ord_binary_cases,
};
