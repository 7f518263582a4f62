/* SPDX-License-Identifier: MIT
 *
 * The shape rule and the attribute of the norms.
 */
#include "ops/op_norm.h"

#include "ops/op_check.h"

const ord_attr_rule ord_norm_attr[1] = {
    {.name = "eps", .kind = ORD_RULE_NUMBER, .required = true, .wanted = "a number such as 1e-5"}};

bool ord_norm_infer(ord_infer *infer) {
  static const char *const vector[] = {"weight", "bias"};
  const ord_infer_operand *in = ord_infer_slot(infer, "in");
  if (!ord_infer_check_float(infer, in) || !ord_infer_check_rank_min(infer, in, 1, "[.., d]")) return false;
  for (size_t i = 0; i < sizeof vector / sizeof *vector; i++) {
    const ord_infer_operand *operand = ord_infer_slot(infer, vector[i]);
    if (!operand) continue;
    if (!ord_infer_check_float(infer, operand) || !ord_infer_check_rank(infer, operand, 1, "[d]")) return false;
    if (!ord_infer_check_equal(infer, ord_axis_last(in), ord_axis_last(operand))) return false;
  }
  const double eps = ord_infer_attr(infer, "eps")->value.f;
  if (!(eps >= 0)) return ord_infer_fail(infer, "eps", 0, "eps: found %g; wanted 0 or more", eps);
  ord_infer_set_result(infer, 0, in->dtype, in->rank, in->dim);
  return true;
}
