/* SPDX-License-Identifier: MIT
 *
 * A matmul that multiplies Q4_1 weights as they lie in the file: no pack, no second copy. A block of 32 numbers is
 * 20 bytes: a scale d and an offset m (f16 each), then 16 bytes of nibbles, the low ones numbers 0..15, the high ones
 * 16..31; number = d * nibble + m. It exists to prove that the ABI carries block types.
 */
#include <math.h>
#include <stdio.h>

#include "ordito_plugin.h"

enum { BLOCK = 32, BLOCK_BYTES = 20, ROWS_PER_CHUNK = 8 };

typedef struct q4_state {
  const ord_node *node;
  const ord_host *host;
} q4_state;

static ord_status q4_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  (void)kernel;
  const uint32_t which = ord_node_find(node, "weight");
  const ord_operand *in = &node->operand[ord_node_find(node, "in")];
  if (which == ORD_NONE || node->operand[which].dtype != ORD_Q4_1) {
    snprintf(answer->reason, sizeof answer->reason, "weight is of type %u; wanted q4_1 (%d)",
             which == ORD_NONE ? 0 : node->operand[which].dtype, ORD_Q4_1);
    return ORD_NO;
  }
  const ord_operand *weight = &node->operand[which]; // [n, k]
  if (weight->block_elements != BLOCK || weight->block_bytes != BLOCK_BYTES || weight->stride[1] != BLOCK_BYTES) {
    snprintf(answer->reason, sizeof answer->reason, "weight has blocks of %u numbers in %u bytes; wanted %d in %d",
             weight->block_elements, weight->block_bytes, BLOCK, BLOCK_BYTES);
    return ORD_NO;
  }
  if (in->rank != 2 || in->dtype != ORD_F32 || ord_node_find(node, "bias") != ORD_NONE) {
    snprintf(answer->reason, sizeof answer->reason, "in has %u axes of type %u; wanted [m, k] of f32 and no bias",
             in->rank, in->dtype);
    return ORD_NO;
  }
  answer->phase_count = 1;
  answer->chunk_limit[0] = (uint32_t)(weight->dim[0] / ROWS_PER_CHUNK + 1);
  answer->epilogue_served = 0;
  snprintf(answer->variant, sizeof answer->variant, "q4_1 in place");
  return ORD_OK;
}

static ord_status q4_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                             const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel, (void)answer;
  q4_state *made = host->allocate(host->context, sizeof *made, _Alignof(q4_state));
  if (!made) {
    snprintf(err->text, sizeof err->text, "out of memory");
    return ORD_NO_MEMORY;
  }
  *made = (q4_state){node, host};
  *state = made;
  return ORD_OK;
}

static float read_half(const unsigned char *from) {
  uint16_t half;
  memcpy(&half, from, sizeof half);
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  const float size = exponent ? ldexpf((float)(fraction + 1024), exponent - 25) : ldexpf((float)fraction, -24);
  return half & 0x8000 ? -size : size;
}

static float multiply_row(const float *x, const unsigned char *block, int64_t width) {
  float sum = 0;
  for (int64_t begin = 0; begin < width; begin += BLOCK, block += BLOCK_BYTES) {
    const float scale = read_half(block), offset = read_half(block + 2);
    for (int i = 0; i < BLOCK / 2; i++) {
      sum += x[begin + i] * (scale * (float)(block[4 + i] & 15) + offset);
      sum += x[begin + i + BLOCK / 2] * (scale * (float)(block[4 + i] >> 4) + offset);
    }
  }
  return sum;
}

static ord_status q4_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const ord_node *node = ((const q4_state *)state)->node;
  const uint32_t in = ord_node_find(node, "in"), weight = ord_node_find(node, "weight");
  const uint32_t out = ord_node_output(node, 0);
  const int64_t rows = ord_exec_dim(node, exec, in, 0), columns = node->operand[weight].dim[0];
  const int64_t end = columns * (exec->chunk + 1) / exec->chunk_count;
  for (int64_t column = columns * exec->chunk / exec->chunk_count; column < end; column++) {
    const unsigned char *blocks =
        (const unsigned char *)exec->operand[weight] + column * node->operand[weight].stride[0];
    for (int64_t row = 0; row < rows; row++) {
      const char *x = (const char *)exec->operand[in] + row * node->operand[in].stride[0];
      float *y = (float *)((char *)exec->operand[out] + row * node->operand[out].stride[0]);
      y[column] = multiply_row((const float *)x, blocks, node->operand[in].dim[1]);
    }
  }
  return ORD_OK;
}

static void q4_retire(void *state) {
  const q4_state *made = state;
  if (made) made->host->release(made->host->context, state);
}

static const ord_kernel q4_1_matmul = {
    .struct_size = sizeof q4_1_matmul,
    .name = "q4_1_matmul",
    .op = "matmul",
    .query = q4_query,
    .prepare = q4_prepare,
    .launch = q4_launch,
    .retire = q4_retire,
};

static const ord_kernel *const kernels[] = {&q4_1_matmul};
static const ord_plugin plugin_table = {.struct_size = sizeof plugin_table, .kernel_count = 1, .kernel = kernels};

const ord_manifest ord_plugin_manifest = {
    ORD_MANIFEST_HEAD,
    .flags = ORD_PLUGIN_UNLOADABLE,
    .name = "q4_1_matmul",
    .version = "0.1.0",
};

ord_status ord_plugin_open(const ord_host *host, const ord_plugin **plugin, ord_plugin_error *err) {
  (void)host, (void)err;
  *plugin = &plugin_table;
  return ORD_OK;
}
