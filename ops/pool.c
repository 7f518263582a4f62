/* SPDX-License-Identifier: MIT
 *
 * pool. One vector a row of the batch from those of its tokens that count: their mean, the first or the last. `lengths`
 * says how many count, from the front; without it all do. Over none: zeros.
 */
#include "ops/op_check.h"
#include "ops/reference.h"

static bool pool_infer(ord_infer *infer) {
  const ord_infer_operand *in = ord_infer_slot(infer, "in"), *lengths = ord_infer_slot(infer, "lengths");
  if (!ord_infer_check_float(infer, in) || !ord_infer_check_rank(infer, in, 3, "[batch, tokens, width]") ||
      !ord_infer_check_dtype(infer, lengths, ORD_I32) || !ord_infer_check_rank(infer, lengths, 1, "[batch]"))
    return false;
  if (lengths && !ord_infer_check_equal(infer, (ord_axis){in, 0, "batch"}, (ord_axis){lengths, 0, "batch"}))
    return false;
  ord_infer_set_result(infer, 0, in->dtype, 2, (const ord_size[]){in->dim[0], in->dim[2]});
  return true;
}

static ord_status pool_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const ord_node *node = state;
  const ord_reference_tensor in = ord_reference_slot(node, exec, "in");           /* [b, s, d] */
  const ord_reference_tensor lengths = ord_reference_slot(node, exec, "lengths"); /* [b] */
  const ord_reference_tensor out = ord_reference_output(node, exec, 0);           /* [b, d] */
  const bool is_mean = ord_reference_is(node, "kind", "mean"), is_last = ord_reference_is(node, "kind", "last");
  int64_t index[ORD_RANK_MAX] = {0};
  for (int64_t i = 0; i < ord_reference_count(&out); i++) {
    ord_reference_index(&out, i, index);
    int64_t valid = in.dim[1];
    if (lengths.data) valid = (int64_t)fmin(fmax(ord_reference_read(&lengths, index), 0), (double)valid);
    const int64_t first = is_last && valid ? valid - 1 : 0, end = is_mean || !valid ? valid : first + 1;
    double sum = 0;
    for (int64_t token = first; token < end; token++)
      sum += ord_reference_read(&in, (const int64_t[]){index[0], token, index[1]});
    ord_reference_write(&out, index, valid ? sum / (double)(end - first) : 0);
  }
  return ORD_OK;
}

static const ord_kernel pool_reference = {
    .struct_size = sizeof pool_reference,
    .priority = ORD_REFERENCE_PRIORITY,
    .name = "pool_reference",
    .op = "pool",
    .query = ord_reference_query,
    .prepare = ord_reference_prepare,
    .launch = pool_launch,
    .retire = ord_reference_retire,
};

static const ord_case pool_cases[] = {
    {"in[3,$,5]", "kind=mean $=1..130"},
    {"in[2,9,$]", "kind=last $=1..40"},
    {"in[2,9,33]", "kind=first"},
    {"in[2,0,4]", "kind=mean"},
    {"in[2,0,4]", "kind=last"},
    {"in[0,3,4]", "kind=first"},
    {"in[5,9,33] lengths:i32[5]=0,1,5,9,8", "kind=mean"},
    {"in[5,9,33] lengths:i32[5]=0,1,5,9,8", "kind=first"},
    {"in[5,9,33] lengths:i32[5]=0,1,5,9,8", "kind=last"},
    {"in^[3,9,33] lengths+:i32[3]=2,9,0", "kind=mean"},
    {"in+[3,9,33] out+", "kind=last"},
    {"in[3,9,33] out^", "kind=first"},
    {"in[2,3/8,16]", "kind=mean"},
    {"in[2,3/8,16]", "kind=last"},
    {"in[2/4,3/8,16] lengths:i32[2/4]=3,1", "kind=last"},
    {"in[2,0/8,16]", "kind=mean"},
    {"in[2,3,2]=1,nan,3,4,inf,-inf", "kind=mean"},
    {"in[2,3,1]=nan,2,3 lengths:i32[2]=3,1", "kind=last"},
    {"in:f16[2,5,37]", "kind=mean"},
    {"in:bf16[2,5,37]", "kind=mean"},
    {NULL, NULL},
};

static const ord_slot pool_slot[] = {{"in", 0, 0, "[b, s, d]"}, {"lengths", ORD_SLOT_OPTIONAL, 0, "i32 [b]"}};

static const ord_attr_rule pool_attr[] = {
    {.name = "kind",
     .kind = ORD_RULE_WORD,
     .required = true,
     .word = (const char *const[]){"mean", "first", "last", NULL},
     .wanted = "mean, first or last"},
};

const ord_op ord_op_pool = {
    .name = "pool",
    .version = 1,
    .slot = pool_slot,
    .slot_count = sizeof pool_slot / sizeof *pool_slot,
    .attr = pool_attr,
    .attr_count = sizeof pool_attr / sizeof *pool_attr,
    .result_min = 1,
    .result_max = 1,
    .about = "[b, d], over the tokens that count; over none: zeros",
    .infer = pool_infer,
    .reference = &pool_reference,
    .cases = pool_cases,
};
