/* SPDX-License-Identifier: MIT
 *
 * An arena: memory that is freed all at once with its owner. Objects of the library own one and free nothing inside
 * it singly. Not for two threads at once. Depends on nothing.
 */
#ifndef ORDITO_RUNTIME_ARENA_H
#define ORDITO_RUNTIME_ARENA_H

#include <stddef.h>

#include "runtime/error.h"

typedef struct ord_arena_block ord_arena_block;
typedef struct ord_arena {
  ord_arena_block *block; /* the newest; zero-initialise to start */
} ord_arena;

/* Zeroed memory, aligned to 16, valid until ord_arena_finish; NULL when out of memory or if the size overflows. */
void *ord_arena_take(ord_arena *arena, size_t count, size_t element_bytes);

/* Copies; NULL when out of memory. `text` need not be terminated in the _n form. */
char *ord_arena_text(ord_arena *arena, const char *text);
char *ord_arena_text_n(ord_arena *arena, const char *text, size_t bytes);
void *ord_arena_copy(ord_arena *arena, const void *from, size_t count, size_t element_bytes);

/* printf into the arena; NULL when out of memory. */
char *ord_arena_format(ord_arena *arena, const char *format, ...) ORD_PRINTF(2, 3);

/* Grows an array that lives in the arena: *items has *capacity elements, afterwards at least `count`. The old copy
 * stays in the arena, so growth doubles. Keeps *items on failure. */
bool ord_arena_grow(ord_arena *arena, void *items, uint32_t *capacity, uint32_t count, size_t element_bytes);

/* Frees everything. Accepts a zeroed arena. */
void ord_arena_finish(ord_arena *arena);

#endif
