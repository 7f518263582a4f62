/* SPDX-License-Identifier: MIT
 *
 * rmsnorm: each row of the last axis is divided by the root of the mean of its squares and multiplied by the weight.
 * eps stands under the root.
 */
#include "ops/op_norm.h"

static ord_status rmsnorm_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  return ord_norm_launch(state, exec, false);
}

static const ord_kernel rmsnorm_reference = {
    .struct_size = sizeof rmsnorm_reference,
    .priority = ORD_REFERENCE_PRIORITY,
    .name = "rmsnorm_reference",
    .op = "rmsnorm",
    .query = ord_reference_query,
    .prepare = ord_reference_prepare,
    .launch = rmsnorm_launch,
    .retire = ord_reference_retire,
};

static const ord_slot rmsnorm_slots[] = {
    {"in", 0, 0, "[.., d]"},
    {"weight", ORD_SLOT_OPTIONAL, 0, "[d]"},
};

static const ord_case rmsnorm_cases[] = {
    {"in[2,$]", "eps=1e-6 $=1..130"},
    {"in[3,$] weight[$]", "eps=1e-5 $=1..130"},
    {"in[576] weight[576]", "eps=1e-5"},
    {"in[2,3,4,5,6,7] weight[7]", "eps=1e-5"},
    {"in[3,64]=0 weight[64]", "eps=1e-5"},
    {"in[3,64]=3,-4", "eps=0"},
    {"in[2,64]=1e18,-1e18,2e18", "eps=1e-5"},
    {"in[3,64]=1e25,-1e25,2e25", "eps=1e-5"}, // squares beyond every float
    {"in[1,1,384] weight:bf16[384]", "eps=1e-5"},
    {"in[1,1,384] weight:f16[384]", "eps=1e-5"},
    {"in[2,3/8,33] weight[33]", "eps=1e-5"},
    {"in[2,0/8,33] weight[33]", "eps=1e-5"},
    {"in+[3,33] weight+[33] out+", "eps=1e-5"},
    {"in^[3,33] weight[33] out^", "eps=1e-5"},
    {"in:f16[3,33] weight[33]", "eps=1e-5"},
    {"in:bf16[3,33]", "eps=1e-5"},
    {NULL, NULL},
};

const ord_op ord_op_rmsnorm = {
    .name = "rmsnorm",
    .version = 1,
    .flags = ORD_OP_NORM,
    .slot = rmsnorm_slots,
    .slot_count = sizeof rmsnorm_slots / sizeof *rmsnorm_slots,
    .attr = ord_norm_attr,
    .attr_count = 1,
    .result_min = 1,
    .result_max = 1,
    .about = "as in",
    .infer = ord_norm_infer,
    .reference = &rmsnorm_reference,
    .cases = rmsnorm_cases,
};
