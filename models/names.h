/* SPDX-License-Identifier: MIT
 *
 * A table from names to items, in an arena: dims, keys, weights, what a scope binds. Names and items are borrowed.
 * Small tables are searched along, large ones by hash, so that a hostile file of 100,000 names stays cheap.
 */
#ifndef ORDITO_MODELS_NAMES_H
#define ORDITO_MODELS_NAMES_H

#include "runtime/arena.h"

typedef struct ord_names_entry {
  const char *name;
  void *item;
} ord_names_entry;

typedef struct ord_names {
  ord_names_entry *entry; /* in the order in which they came; zero-initialise the table to start */
  uint32_t count, capacity;
  uint32_t *slot; /* by hash: number of the entry + 1, 0 if free; NULL while the table is small */
  uint32_t slot_count;
} ord_names;

/* NULL if the name is not there. */
void *ord_names_find(const ord_names *names, const char *name);
/* Adds a name that is not there yet, or replaces its item. False when out of memory. */
ORD_MUST_CHECK bool ord_names_put(ord_names *names, ord_arena *arena, const char *name, void *item);
/* Forgets all names, keeps the memory. */
void ord_names_clear(ord_names *names);

#endif
