/* SPDX-License-Identifier: MIT
 *
 * Open addressing over an array of entries; entries are never taken out singly, so that no marks of the removed are
 * needed.
 */
#include "models/names.h"

#include <string.h>
#include <xxhash.h>

enum { SEARCHED_ALONG_MAX = 8 };

/* Where the name stands or would stand. The table is never full, so the walk ends. */
static uint32_t find_slot(const ord_names *names, const char *name) {
  const uint32_t mask = names->slot_count - 1;
  uint32_t at = (uint32_t)XXH3_64bits(name, strlen(name)) & mask;
  while (names->slot[at] && strcmp(names->entry[names->slot[at] - 1].name, name) != 0) at = (at + 1) & mask;
  return at;
}

static ord_names_entry *find_entry(const ord_names *names, const char *name) {
  if (names->slot) {
    const uint32_t number = names->slot[find_slot(names, name)];
    return number ? &names->entry[number - 1] : NULL;
  }
  for (uint32_t i = 0; i < names->count; i++)
    if (strcmp(names->entry[i].name, name) == 0) return &names->entry[i];
  return NULL;
}

void *ord_names_find(const ord_names *names, const char *name) {
  const ord_names_entry *entry = find_entry(names, name);
  return entry ? entry->item : NULL;
}

/* At most half of the slots are taken. */
static bool make_slots(ord_names *names, ord_arena *arena) {
  const uint32_t slot_count = names->slot_count ? names->slot_count * 2 : 4 * SEARCHED_ALONG_MAX;
  uint32_t *slot = ord_arena_take(arena, slot_count, sizeof *slot);
  if (!slot) return false;
  names->slot = slot;
  names->slot_count = slot_count;
  for (uint32_t i = 0; i < names->count; i++) slot[find_slot(names, names->entry[i].name)] = i + 1;
  return true;
}

bool ord_names_put(ord_names *names, ord_arena *arena, const char *name, void *item) {
  ord_names_entry *there = find_entry(names, name);
  if (there) {
    there->item = item;
    return true;
  }
  if (!ord_arena_grow(arena, &names->entry, &names->capacity, names->count + 1, sizeof *names->entry)) return false;
  const bool needs_slots =
      names->slot ? 2 * (names->count + 1) > names->slot_count : names->count >= SEARCHED_ALONG_MAX;
  if (needs_slots && !make_slots(names, arena)) return false;
  names->entry[names->count] = (ord_names_entry){name, item};
  names->count++;
  if (names->slot) names->slot[find_slot(names, name)] = names->count;
  return true;
}

void ord_names_clear(ord_names *names) {
  names->count = 0;
  if (names->slot) memset(names->slot, 0, names->slot_count * sizeof *names->slot);
}
