/* SPDX-License-Identifier: MIT
 *
 * Many pieces of memory that are kept for long, behind one another in few large ones: the slabs. So the small ones, and
 * the tails of the others, lie in large pages too. One thread at a time. Depends on pages.
 */
#ifndef ORDITO_RUNTIME_SLABS_H
#define ORDITO_RUNTIME_SLABS_H

#include <stddef.h>

typedef struct ord_slab ord_slab;

/* All zero is empty, and so is one whose pieces are all released. */
typedef struct ord_slabs {
  ord_slab *first;
  size_t bytes; /* of all slabs */
} ord_slabs;

/* Zeroed, ORD_MEMORY_ALIGNMENT aligned, at an address of its own even if it is empty; NULL when out of memory. */
void *ord_slabs_take(ord_slabs *slabs, size_t bytes);
/* A slab goes back to the system with its last piece, whole large pages before that. Accepts NULL. */
void ord_slabs_release(ord_slabs *slabs, const void *memory);

#endif
