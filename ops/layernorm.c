/* SPDX-License-Identifier: MIT
 *
 * layernorm: each row of the last axis is shifted to mean 0 and scaled to variance 1 (over d, not d - 1), then
 * multiplied by the weight and moved by the bias. eps stands under the root.
 */
#include "ops/op_norm.h"

static ord_status layernorm_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  return ord_norm_launch(state, exec, true);
}

static const ord_kernel layernorm_reference = {
    .struct_size = sizeof layernorm_reference,
    .priority = ORD_REFERENCE_PRIORITY,
    .name = "layernorm_reference",
    .op = "layernorm",
    .query = ord_reference_query,
    .prepare = ord_reference_prepare,
    .launch = layernorm_launch,
    .retire = ord_reference_retire,
};

static const ord_slot layernorm_slots[] = {
    {"in", 0, 0, "[.., d]"},
    {"weight", ORD_SLOT_OPTIONAL, 0, "[d]"},
    {"bias", ORD_SLOT_OPTIONAL, 0, "[d]"},
};

static const ord_case layernorm_cases[] = {
    {"in[2,$]", "eps=1e-5 $=1..130"},
    {"in[3,$] weight[$] bias[$]", "eps=1e-5 $=1..130"},
    {"in[3,64] weight[64]", "eps=1e-5"},
    {"in[3,64] bias[64]", "eps=1e-5"},
    {"in[768]", "eps=1e-12"},
    {"in[2,3,4,5,6,7] weight[7] bias[7]", "eps=1e-5"},
    {"in[3,64]=3 weight[64] bias[64]", "eps=1e-5"}, // variance 0
    {"in[3,64]=1000,1001", "eps=0"},
    {"in[2,64]=1e18,-1e18,2e18", "eps=1e-5"},
    {"in[3,64]=1e25,-1e25,2e25", "eps=1e-5"}, // squares beyond every float
    {"in[1,1,384] weight:bf16[384] bias:f16[384]", "eps=1e-5"},
    {"in[2,3/8,33] weight[33] bias[33]", "eps=1e-5"},
    {"in[2,0/8,33] weight[33]", "eps=1e-5"},
    {"in+[3,33] weight+[33] bias+[33] out+", "eps=1e-5"},
    {"in^[3,33] weight[33] out^", "eps=1e-5"},
    {"in:f16[3,33] weight[33]", "eps=1e-5"},
    {"in:bf16[3,33] bias[33]", "eps=1e-5"},
    {NULL, NULL},
};

const ord_op ord_op_layernorm = {
    .name = "layernorm",
    .version = 1,
    .flags = ORD_OP_NORM,
    .slot = layernorm_slots,
    .slot_count = sizeof layernorm_slots / sizeof *layernorm_slots,
    .attr = ord_norm_attr,
    .attr_count = 1,
    .result_min = 1,
    .result_max = 1,
    .about = "as in",
    .infer = ord_norm_infer,
    .reference = &layernorm_reference,
    .cases = layernorm_cases,
};
