/* SPDX-License-Identifier: MIT
 *
 * What layernorm and rmsnorm share: both work on the rows of the last axis, in double, with eps under the root, and
 * differ in whether the mean is taken away first.
 */
#ifndef ORDITO_OPS_OP_NORM_H
#define ORDITO_OPS_OP_NORM_H

#include "ops/op.h"
#include "ops/reference.h"

extern const ord_attr_rule ord_norm_attr[1]; /* eps */
bool ord_norm_infer(ord_infer *infer);

static inline ord_status ord_norm_launch(const ord_node *node, const ord_exec *exec, bool is_centred) {
  const ord_reference_tensor in = ord_reference_slot(node, exec, "in");         // [.., width]
  const ord_reference_tensor weight = ord_reference_slot(node, exec, "weight"); // [width]
  const ord_reference_tensor bias = ord_reference_slot(node, exec, "bias");     // [width]
  const ord_reference_tensor out = ord_reference_output(node, exec, 0);         // as in
  const double eps = ord_reference_float(node, "eps", 0);
  const uint32_t last = in.rank - 1;
  const int64_t width = in.dim[last], count = ord_reference_count(&in);
  for (int64_t first = 0; first < count; first += width) {
    int64_t at[ORD_RANK_MAX];
    ord_reference_index(&in, first, at);
    double mean = 0, square = 0;
    if (is_centred)
      for (at[last] = 0; at[last] < width; at[last]++) mean += ord_reference_read(&in, at);
    mean /= (double)width;
    for (at[last] = 0; at[last] < width; at[last]++) {
      const double value = ord_reference_read(&in, at) - mean;
      square += value * value;
    }
    const double root = sqrt(square / (double)width + eps);
    for (at[last] = 0; at[last] < width; at[last]++) {
      double value = (ord_reference_read(&in, at) - mean) / root;
      if (weight.data) value *= ord_reference_read(&weight, &at[last]);
      if (bias.data) value += ord_reference_read(&bias, &at[last]);
      ord_reference_write(&out, at, value);
    }
  }
  return ORD_OK;
}

#endif
