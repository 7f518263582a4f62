/* SPDX-License-Identifier: MIT
 *
 * The memory planner: intervals of life -> offsets in one block. Items are placed from the largest down, each in the
 * lowest gap between those placed items that live at the same time. Pure, and the same answer for the same items.
 */
#include <stdlib.h>

#include "graphs/lower.h"

enum { ALIGNMENT = 64 };

/* Largest first; of equal ones the earlier; then the order of the caller, so that the answer is one. */
static int compare_items(const void *a, const void *b) {
  const ord_memory_item *left = *(ord_memory_item *const *)a, *right = *(ord_memory_item *const *)b;
  if (left->bytes != right->bytes) return left->bytes > right->bytes ? -1 : 1;
  if (left->first != right->first) return left->first < right->first ? -1 : 1;
  return left < right ? -1 : left > right;
}

static bool live_together(const ord_memory_item *a, const ord_memory_item *b) {
  return a->first <= b->last && b->first <= a->last;
}

static bool round_up(size_t bytes, size_t *out) {
  if (!ord_size_add(bytes, ALIGNMENT - 1, out)) return false;
  *out = *out / ALIGNMENT * ALIGNMENT;
  return true;
}

/* `placed` is sorted by offset and holds `count` items; finds the place of `item` and puts it in. */
static bool place_item(ord_memory_item **placed, uint32_t count, ord_memory_item *item, size_t *end) {
  size_t offset = 0;
  for (uint32_t i = 0; i < count; i++) {
    const ord_memory_item *other = placed[i];
    if (!other->bytes || !live_together(item, other)) continue;
    if (other->offset >= offset && other->offset - offset >= item->bytes) break;
    size_t behind;
    if (!ord_size_add(other->offset, other->bytes, &behind) || !round_up(behind, &behind)) return false;
    if (behind > offset) offset = behind;
  }
  item->offset = offset;
  uint32_t at = count;
  for (; at > 0 && placed[at - 1]->offset > offset; at--) placed[at] = placed[at - 1];
  placed[at] = item;
  return ord_size_add(offset, item->bytes, end) && round_up(*end, end);
}

bool ord_memory_place(ord_memory_item *item, uint32_t count, size_t *out_bytes, ord_error *err) {
  ord_memory_item **order = calloc((size_t)count * 2 + 1, sizeof *order);
  if (!order) return ord_fail_memory(err, "planning memory");
  ord_memory_item **placed = order + count;
  for (uint32_t i = 0; i < count; i++) order[i] = &item[i];
  qsort(order, count, sizeof *order, compare_items);
  size_t needed = 0;
  bool fits = true;
  for (uint32_t i = 0; i < count && fits; i++) {
    size_t end = 0;
    fits = place_item(placed, i, order[i], &end);
    if (end > needed) needed = end;
  }
  free(order);
  *out_bytes = needed;
  return fits || ord_fail(err, ORD_NO_MEMORY, "the values of a run need more bytes than an address can count");
}
