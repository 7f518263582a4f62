/* SPDX-License-Identifier: MIT
 *
 * A matmul node for plugin cublas, written down by hand. Included by test programs only.
 */
#ifndef ORDITO_TESTS_CUBLAS_NODE_H
#define ORDITO_TESTS_CUBLAS_NODE_H

#include "ordito_plugin.h"

#define CUBLAS_PLUGIN ORDITO_BUILD_DIRECTORY "/lib/ordito/plugins/cublas.so"

enum { ROWS = 12, DEPTH = 72, WIDTH = 40 };
enum { IN, WEIGHT, BIAS, OUT, RESIDUAL, OPERANDS };

static inline void set_operand(ord_operand *operand, const char *name, uint16_t role, uint16_t dtype, int64_t first,
                               int64_t second) {
  const int64_t bytes = dtype == ORD_F32 ? 4 : 2;
  *operand = (ord_operand){.name = name,
                           .role = role,
                           .dtype = dtype,
                           .rank = second ? 2 : 1,
                           .dim = {first, second},
                           .stride = {second ? second * bytes : bytes, bytes},
                           .extent = {ORD_NONE, ORD_NONE},
                           .block_elements = 1,
                           .block_bytes = (uint16_t)bytes,
                           .align_log2 = 6};
}

static inline void set_operands(ord_operand *operand) {
  set_operand(&operand[IN], "in", ORD_INPUT, ORD_F32, ROWS, DEPTH);
  set_operand(&operand[WEIGHT], "weight", ORD_INPUT, ORD_BF16, WIDTH, DEPTH);
  set_operand(&operand[BIAS], "bias", ORD_INPUT, ORD_F32, WIDTH, 0);
  set_operand(&operand[OUT], "out", ORD_OUTPUT, ORD_F32, ROWS, WIDTH);
  set_operand(&operand[RESIDUAL], "epilogue", ORD_INPUT, ORD_F32, ROWS, WIDTH);
}

static const ord_device_info hopper = {
    .struct_size = sizeof hopper, .kind = ORD_DEVICE_CUDA, .compute_capability = 90, .cores = 132};

static inline ord_node node_of(const ord_operand *operand, uint32_t compute) {
  return (ord_node){.struct_size = sizeof(ord_node),
                    .op_version = 1,
                    .op = "matmul",
                    .operand_count = OPERANDS,
                    .compute = compute,
                    .operand = operand,
                    .device = &hopper};
}

#endif
