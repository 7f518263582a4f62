/* SPDX-License-Identifier: MIT
 *
 * How weights are laid out for the library: matrices by rows, as cuda_weights/rows16.h says; vectors in f32, dense.
 */
#ifndef CUBLAS_LAYOUTS_H
#define CUBLAS_LAYOUTS_H

#include "ordito_plugin.h"

/* Types: f32, f16, bf16. */
int64_t layouts_row_bytes(int64_t length, uint16_t type);

ord_pack layouts_rows_pack(const ord_operand *operand, uint16_t type);
ord_pack layouts_vector_pack(const ord_operand *operand);

/* pack, into the layout of this key. */
void layouts_pack(const ord_operand *operand, uint64_t key, const void *const *segment, uint32_t slice,
                  uint32_t slice_count, void *packed);

#endif
