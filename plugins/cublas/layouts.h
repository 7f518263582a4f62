/* SPDX-License-Identifier: MIT
 *
 * How weights are laid out for the library: rows one behind the other, each of whole units of 16 aligned bytes, the
 * rest of the last unit zero; vectors in f32, dense. Many weights are stored so; the others are packed. The keys of
 * rows are those of plugin cuda_core, so that one copy serves both plugins.
 */
#ifndef CUBLAS_LAYOUTS_H
#define CUBLAS_LAYOUTS_H

#include <stdbool.h>

#include "ordito_plugin.h"

/* Types: f32, f16, bf16. */
int64_t layouts_number_bytes(uint16_t type);
int64_t layouts_row_bytes(int64_t length, uint16_t type);

/* Is the matrix [rows, length] stored so, in this type? */
bool layouts_rows_are_stored(const ord_operand *operand, uint16_t type);
ord_pack layouts_rows_pack(const ord_operand *operand, uint16_t type);
ord_pack layouts_vector_pack(const ord_operand *operand);

/* pack, into the layout of this key. */
void layouts_pack(const ord_operand *operand, uint64_t key, const void *const *segment, uint32_t slice,
                  uint32_t slice_count, void *packed);

#endif
