/* SPDX-License-Identifier: MIT
 *
 * Memory in large pieces: zeroed, aligned, and taken from the system as it is touched, so that what is never used costs
 * nothing. Any thread. Depends on nothing.
 */
#ifndef ORDITO_RUNTIME_PAGES_H
#define ORDITO_RUNTIME_PAGES_H

#include <stdbool.h>
#include <stddef.h>

/* Of everything that kernels get: a cache line, and the widest vector. */
enum { ORD_MEMORY_ALIGNMENT = 64 };

/* Where a machine has others, they are larger. */
#define ORD_LARGE_PAGE_BYTES ((size_t)2 << 20)

/* Zeroed, ORD_MEMORY_ALIGNMENT aligned; NULL when out of memory. `filled`: all of it will be written soon and read
 * often, so that large pages are worth asking for; otherwise a touch takes one small page. */
void *ord_pages_take(size_t bytes, bool filled);
/* Accepts NULL. */
void ord_pages_release(void *memory);
/* Whole large pages inside a part of what was taken stop costing anything until they are touched again. What the part
 * holds is lost. */
void ord_pages_give_back(void *memory, size_t bytes);

#endif
