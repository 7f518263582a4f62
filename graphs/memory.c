/* SPDX-License-Identifier: MIT
 *
 * The memory planner: intervals of life -> offsets in one block. Items are placed from the largest down, each in the
 * lowest gap between those placed items that live at the same time. Pure, and the same answer for the same items.
 */
#include <stdlib.h>

#include "graphs/lower.h"

/* Largest first; of equal ones the earlier; then the order of the caller, so that the answer is one. */
static int compare_items(const void *a, const void *b, void *items) {
  const uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
  const ord_memory_item *one = (const ord_memory_item *)items + left, *other = (const ord_memory_item *)items + right;
  if (one->bytes != other->bytes) return one->bytes > other->bytes ? -1 : 1;
  if (one->first != other->first) return one->first < other->first ? -1 : 1;
  return left < right ? -1 : left > right;
}

static bool live_together(const ord_memory_item *a, const ord_memory_item *b) {
  return a->first <= b->last && b->first <= a->last;
}

/* `placed` numbers `count` items by their offsets; finds the place of item `which` and puts it in. */
static bool place_item(ord_memory_item *item, uint32_t *placed, uint32_t count, uint32_t which, size_t *end) {
  ord_memory_item *own = &item[which];
  size_t offset = 0;
  for (uint32_t i = 0; i < count; i++) {
    const ord_memory_item *other = &item[placed[i]];
    if (!other->bytes || !live_together(own, other)) continue;
    if (other->offset >= offset && other->offset - offset >= own->bytes) break;
    size_t behind;
    if (!ord_size_add(other->offset, other->bytes, &behind) || !ord_memory_round_up(behind, &behind)) return false;
    if (behind > offset) offset = behind;
  }
  own->offset = offset;
  uint32_t at = count;
  for (; at > 0 && item[placed[at - 1]].offset > offset; at--) placed[at] = placed[at - 1];
  placed[at] = which;
  return ord_size_add(offset, own->bytes, end) && ord_memory_round_up(*end, end);
}

bool ord_memory_round_up(size_t bytes, size_t *out) {
  if (!ord_size_add(bytes, ORD_MEMORY_ALIGNMENT - 1, out)) return false;
  *out = *out / ORD_MEMORY_ALIGNMENT * ORD_MEMORY_ALIGNMENT;
  return true;
}

bool ord_memory_place(ord_memory_item *item, uint32_t count, size_t *out_bytes, ord_error *err) {
  uint32_t *order = calloc((size_t)count * 2 + 1, sizeof *order);
  if (!order) return ord_fail_memory(err, "planning memory");
  uint32_t *placed = order + count;
  for (uint32_t i = 0; i < count; i++) order[i] = i;
  qsort_r(order, count, sizeof *order, compare_items, item);
  size_t needed = 0;
  bool fits = true;
  for (uint32_t i = 0; i < count && fits; i++) {
    size_t end = 0;
    fits = place_item(item, placed, i, order[i], &end);
    if (end > needed) needed = end;
  }
  free(order);
  *out_bytes = needed;
  return fits || ord_fail(err, ORD_NO_MEMORY, "the values of a run need more bytes than an address can count");
}
