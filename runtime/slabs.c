/* SPDX-License-Identifier: MIT
 *
 * A slab keeps a list of its pieces in order; what lies between them is free, and the first gap that is large enough is
 * taken.
 */
#include "runtime/slabs.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/pages.h"

/* A slab that is added is as large as all others together, so that what is small stays cheap. */
#define SLAB_BYTES_MIN ((size_t)1 << 18)
#define SLAB_BYTES_MAX ((size_t)1 << 26)

typedef struct piece {
  struct piece *next;
  size_t begin, end;
} piece;

struct ord_slab {
  ord_slab *next;
  piece *first;
  unsigned char *memory;
  size_t bytes;
  size_t used_bytes; /* nothing behind them was ever taken: it is zero */
};

static size_t round_up(size_t bytes, size_t multiple) { return (bytes + multiple - 1) / multiple * multiple; }

static ord_slab *add_slab(ord_slabs *slabs, size_t bytes) {
  const size_t all = slabs->bytes < SLAB_BYTES_MAX ? slabs->bytes : SLAB_BYTES_MAX;
  if (bytes < all) bytes = all;
  bytes = bytes < SLAB_BYTES_MIN ? SLAB_BYTES_MIN : bytes;
  if (bytes >= ORD_LARGE_PAGE_BYTES / 2) bytes = round_up(bytes, ORD_LARGE_PAGE_BYTES);
  ord_slab *slab = malloc(sizeof *slab);
  unsigned char *memory = ord_pages_take(bytes, true);
  if (!slab || !memory) {
    free(slab);
    ord_pages_release(memory);
    return NULL;
  }
  *slab = (ord_slab){.next = slabs->first, .memory = memory, .bytes = bytes};
  slabs->first = slab;
  slabs->bytes += bytes;
  return slab;
}

/* Where a piece would be listed, NULL where none has room. */
static piece **find_gap(ord_slab *slab, size_t bytes, size_t *out_begin) {
  piece **link = &slab->first;
  *out_begin = 0;
  while (*link && (*link)->begin - *out_begin < bytes) {
    *out_begin = (*link)->end;
    link = &(*link)->next;
  }
  return *link || slab->bytes - *out_begin >= bytes ? link : NULL;
}

static void *place(ord_slab *slab, piece **link, piece *placed, size_t begin, size_t bytes) {
  *placed = (piece){.next = *link, .begin = begin, .end = begin + bytes};
  *link = placed;
  if (begin < slab->used_bytes)
    memset(slab->memory + begin, 0, (placed->end < slab->used_bytes ? placed->end : slab->used_bytes) - begin);
  if (placed->end > slab->used_bytes) slab->used_bytes = placed->end;
  return slab->memory + begin;
}

void *ord_slabs_take(ord_slabs *slabs, size_t bytes) {
  if (bytes > SIZE_MAX / 2) return NULL;
  bytes = round_up(bytes ? bytes : 1, ORD_MEMORY_ALIGNMENT);
  piece *placed = malloc(sizeof *placed);
  if (!placed) return NULL;
  for (ord_slab *slab = slabs->first; slab; slab = slab->next) {
    size_t begin;
    piece **link = find_gap(slab, bytes, &begin);
    if (link) return place(slab, link, placed, begin, bytes);
  }
  ord_slab *slab = add_slab(slabs, bytes);
  if (slab) return place(slab, &slab->first, placed, 0, bytes);
  free(placed);
  return NULL;
}

/* The gap that the piece leaves joins those around it. */
static void remove_piece(ord_slab *slab, size_t begin) {
  piece **link = &slab->first;
  size_t gap = 0;
  while (*link && (*link)->begin != begin) {
    gap = (*link)->end;
    link = &(*link)->next;
  }
  piece *gone = *link;
  if (!gone) return;
  *link = gone->next;
  free(gone);
  if (slab->first) ord_pages_give_back(slab->memory + gap, (*link ? (*link)->begin : slab->used_bytes) - gap);
}

void ord_slabs_release(ord_slabs *slabs, const void *memory) {
  const uintptr_t at = (uintptr_t)memory;
  ord_slab **link = &slabs->first;
  while (*link && at - (uintptr_t)(*link)->memory >= (*link)->bytes) link = &(*link)->next;
  ord_slab *slab = *link;
  if (!slab) return;
  remove_piece(slab, at - (uintptr_t)slab->memory);
  if (slab->first) return;
  *link = slab->next;
  slabs->bytes -= slab->bytes;
  ord_pages_release(slab->memory);
  free(slab);
}
