/* SPDX-License-Identifier: MIT
 *
 * The memory planner: intervals of life -> offsets in one block. Items are placed from the largest down, each in the
 * lowest gap between those placed items that live at the same time. Pure, and the same answer for the same items.
 */
#include <stdlib.h>
#include <string.h>

#include "graphs/lower.h"

static const char DOING[] = "planning memory";

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

/* Placed items in the order of their offsets, in pieces that know when anything in them lives: a search passes over
 * those that live at other times. */
enum { PIECE_ITEMS = 64 };
typedef struct placed_piece {
  uint32_t count, first, last;
  uint32_t item[PIECE_ITEMS];
} placed_piece;

typedef struct placed_items {
  ord_arena arena;
  ord_memory_item *item; /* all, placed or not */
  placed_piece **piece;
  uint32_t piece_count, piece_capacity;
} placed_items;

/* Moves *offset behind the items of the piece that stand in the way of `own`; *out_fits: it lies before one of them. */
static bool search_piece(const placed_items *placed, const placed_piece *piece, const ord_memory_item *own,
                         size_t *offset, bool *out_fits) {
  for (uint32_t i = 0; i < piece->count; i++) {
    const ord_memory_item *other = &placed->item[piece->item[i]];
    if (!live_together(own, other)) continue;
    *out_fits = other->offset >= *offset && other->offset - *offset >= own->bytes;
    if (*out_fits) return true;
    size_t behind;
    if (!ord_size_add(other->offset, other->bytes, &behind) || !ord_memory_round_up(behind, &behind)) return false;
    if (behind > *offset) *offset = behind;
  }
  return true;
}

/* The lowest gap between those that live with `own`; false on overflow. */
static bool find_gap(const placed_items *placed, const ord_memory_item *own, size_t *out) {
  bool fits = false;
  *out = 0;
  for (uint32_t p = 0; p < placed->piece_count && !fits; p++) {
    const placed_piece *piece = placed->piece[p];
    if (piece->first > own->last || piece->last < own->first) continue;
    if (!search_piece(placed, piece, own, out, &fits)) return false;
  }
  return true;
}

/* An empty piece at place `at` of the list; NULL when out of memory. */
static placed_piece *add_piece(placed_items *placed, uint32_t at) {
  placed_piece *piece = ord_arena_take(&placed->arena, 1, sizeof *piece);
  if (!piece || !ord_arena_grow(&placed->arena, &placed->piece, &placed->piece_capacity, placed->piece_count + 1,
                                sizeof(placed_piece *)))
    return NULL;
  memmove(placed->piece + at + 1, placed->piece + at, (placed->piece_count - at) * sizeof(placed_piece *));
  placed->piece_count++;
  piece->first = UINT32_MAX;
  return placed->piece[at] = piece;
}

/* Keeps the order of the offsets; of equal ones the newest comes last. */
static void add_to_piece(const placed_items *placed, placed_piece *piece, uint32_t which) {
  const ord_memory_item *own = &placed->item[which];
  uint32_t at = piece->count++;
  for (; at > 0 && placed->item[piece->item[at - 1]].offset > own->offset; at--) piece->item[at] = piece->item[at - 1];
  piece->item[at] = which;
  if (own->first < piece->first) piece->first = own->first;
  if (own->last > piece->last) piece->last = own->last;
}

/* Moves the upper half of piece number `at` into one behind it. */
static bool split_piece(placed_items *placed, uint32_t at) {
  placed_piece *upper = add_piece(placed, at + 1), *lower = placed->piece[at];
  if (!upper) return false;
  const placed_piece whole = *lower;
  *lower = (placed_piece){.first = UINT32_MAX};
  for (uint32_t i = 0; i < whole.count; i++) add_to_piece(placed, i < PIECE_ITEMS / 2 ? lower : upper, whole.item[i]);
  return true;
}

static bool insert(placed_items *placed, uint32_t which) {
  const size_t offset = placed->item[which].offset;
  if (placed->piece_count == 0 && !add_piece(placed, 0)) return false;
  uint32_t at = placed->piece_count - 1;
  while (at > 0 && placed->item[placed->piece[at]->item[0]].offset > offset) at--;
  if (placed->piece[at]->count == PIECE_ITEMS) {
    if (!split_piece(placed, at)) return false;
    if (placed->item[placed->piece[at + 1]->item[0]].offset <= offset) at++;
  }
  add_to_piece(placed, placed->piece[at], which);
  return true;
}

/* What has no bytes lies at 0 and is in nobody's way. */
static bool place_item(placed_items *placed, uint32_t which, size_t *end, ord_error *err) {
  ord_memory_item *own = &placed->item[which];
  own->offset = *end = 0;
  if (own->bytes == 0) return true;
  if (!find_gap(placed, own, &own->offset) || !ord_size_add(own->offset, own->bytes, end) ||
      !ord_memory_round_up(*end, end))
    return ord_fail(err, ORD_NO_MEMORY, "the values of a run need more bytes than an address can count");
  return insert(placed, which) || ord_fail_memory(err, DOING);
}

bool ord_memory_round_up(size_t bytes, size_t *out) {
  if (!ord_size_add(bytes, ORD_MEMORY_ALIGNMENT - 1, out)) return false;
  *out = *out / ORD_MEMORY_ALIGNMENT * ORD_MEMORY_ALIGNMENT;
  return true;
}

bool ord_memory_place(ord_memory_item *item, uint32_t count, size_t *out_bytes, ord_error *err) {
  placed_items placed = {.item = item};
  uint32_t *order = ord_arena_take(&placed.arena, count, sizeof *order);
  bool done = order || ord_fail_memory(err, DOING);
  for (uint32_t i = 0; done && i < count; i++) order[i] = i;
  if (done) qsort_r(order, count, sizeof *order, compare_items, item);
  *out_bytes = 0;
  for (uint32_t i = 0; done && i < count; i++) {
    size_t end;
    done = place_item(&placed, order[i], &end, err);
    if (done && end > *out_bytes) *out_bytes = end;
  }
  ord_arena_finish(&placed.arena);
  return done;
}
