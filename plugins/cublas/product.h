/* SPDX-License-Identifier: MIT
 *
 * A matmul node as cuBLAS sees it. The library stores matrices column by column, so what is a row to a node is a column
 * to it: out [rows, width] = in [rows, depth] . weight [width, depth]^T is
 *
 *   D [width, rows] = op(A) [width, depth] . B [depth, rows] + beta C [width, rows] (+ bias [width] to each column)
 *
 * with A the weight, B the input, C a residual. All rows of the plan's maximum are multiplied, since a library cannot
 * read lengths that lie on the device: behind the valid rows the result is what the input's memory there makes of it,
 * and no valid row depends on it.
 */
#ifndef CUBLAS_PRODUCT_H
#define CUBLAS_PRODUCT_H

#include <stdbool.h>

#include <cublasLt.h>

#include "ordito_plugin.h"

enum { WORKSPACE_ALIGNMENT = 256 }; /* bytes, as the library asks */

/* `count` vectors of `length` numbers: the columns of the library's matrix, unless it is turned. */
typedef struct matrix {
  uint32_t which; /* the operand; ORD_NONE: there is none */
  uint16_t type;  /* ORD_* */
  bool is_turned; /* numbers of one place in all vectors lie side by side, not those of one vector */
  int64_t count, length;
  int64_t stride;     /* from column to column of what is stored, in numbers */
  uint32_t alignment; /* of the first, in bytes */
} matrix;

typedef struct product {
  int64_t rows, width, depth;
  matrix weight, in, out, residual;
  uint32_t bias; /* the operand, or ORD_NONE */
  uint32_t bias_alignment;
  uint32_t epilogue_served;
  ord_pack weight_pack, bias_pack; /* key 0: as stored */
  bool is_tf32;                    /* numbers in f32, products in tf32 */
  bool has_cast;                   /* the input is f32, and converted to in.type in the scratch memory first */
  int64_t cast_row_stride, cast_number_stride; /* of the input, in numbers */
  uint64_t workspace_bytes, cast_bytes;        /* of the scratch memory, one behind the other */
} product;

/* ORD_NO with a reason where the library does not serve the node. `reason` has the size of ord_answer's. */
ord_status product_read(const ord_node *node, product *out, char *reason);

/* pack, of the weight and of the bias. */
ord_status product_pack(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer, uint32_t weight,
                        const void *const *segment, uint32_t slice, uint32_t slice_count, void *packed);

#endif
