/* SPDX-License-Identifier: MIT
 *
 * How a matmul wants its weight [columns, depth] laid out: as rows16.h says, in the type in which products are made.
 * One layout for all kernels of matmul, so that a model's plans share it.
 */
#ifndef CORE_MATMUL_WEIGHT_H
#define CORE_MATMUL_WEIGHT_H

#include "core.h"
#include "cuda_weights/rows16.h"
#include "matmul.h"

_Static_assert((int)UNIT_BYTES == (int)ROWS16_UNIT, "device code reads what pack writes");

enum { GRID_Y_MAX = 65535 }; /* blocks of a grid along y */

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
