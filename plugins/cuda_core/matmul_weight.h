/* SPDX-License-Identifier: MIT
 *
 * How a matmul wants its weight [columns, depth] laid out: rows one behind the other, each of whole units of 16 aligned
 * bytes, the rest of the last unit zero. Many weights are stored so; the others are packed. One layout for all kernels
 * of matmul, so that a model's plans share it.
 */
#ifndef CORE_MATMUL_WEIGHT_H
#define CORE_MATMUL_WEIGHT_H

#include "core.h"
#include "matmul.h"

/* Names the layouts. A kernel of another plugin that wants the same rows may use the same keys. */
#define KEY_ROWS16_F32 UINT64_C(0x6f72726f77163201)
#define KEY_ROWS16_F16 UINT64_C(0x6f72726f77161602)
#define KEY_ROWS16_BF16 UINT64_C(0x6f72726f7716b603)
#define KEY_ROWS16_I8 UINT64_C(0x6f72726f77160804)
#define KEY_ROWS16_I8_SCALED UINT64_C(0x6f72726f77160805) /* f32 [columns] of scales behind the rows */

typedef struct weight_layout {
  uint16_t type;                     /* of the numbers that the kernel reads */
  bool has_scales;                   /* that pack made */
  int64_t row_stride, number_stride; /* bytes */
  int64_t row_units;                 /* with numbers in them */
  ord_pack pack;                     /* key 0: as stored */
} weight_layout;

/* ORD_NO with a reason where operand `weight` is neither a weight nor laid out so. */
ord_status weight_layout_find(const ord_node *node, uint32_t weight, weight_layout *out, ord_answer *answer);
/* pack of all kernels of matmul. */
ord_status weight_pack(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer, uint32_t weight,
                       const void *const *segment, uint32_t slice, uint32_t slice_count, void *packed);

#endif
