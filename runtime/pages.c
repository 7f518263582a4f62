/* SPDX-License-Identifier: MIT
 *
 * A head of one cache line lies in front of each piece and tells where it came from: small ones from the heap, large
 * ones from the system, which gives zeroed pages and takes them back at once.
 */
#include "runtime/pages.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define MAPPED_BYTES ((size_t)1 << 20) /* from here on: from the system */
#define PAGE_BYTES ((size_t)1 << 16)   /* a multiple of any machine's small page */

typedef struct {
  void *base;
  size_t mapped_bytes; /* 0: from the heap */
  _Alignas(ORD_MEMORY_ALIGNMENT) unsigned char memory[];
} pages_head;

static size_t gap(const void *at, size_t alignment) { return (alignment - (uintptr_t)at % alignment) % alignment; }

static void *take_from_heap(size_t bytes) {
  unsigned char *base = calloc(1, sizeof(pages_head) + bytes + ORD_MEMORY_ALIGNMENT);
  if (!base) return NULL;
  pages_head *head = (pages_head *)(base + gap(base, ORD_MEMORY_ALIGNMENT));
  head->base = base;
  return head->memory;
}

/* Large pages begin at multiples of their size only, so room is asked for until one begins inside, and what lies before
 * and behind goes back. The head has a small page in front: to write it must not take a whole large page, which the
 * threads fill later, each its own. */
static void *take_from_system(size_t bytes, bool filled) {
  bytes = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
  unsigned char *from =
      mmap(NULL, PAGE_BYTES + bytes + ORD_LARGE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (from == MAP_FAILED) return NULL;
  const size_t before = gap(from + PAGE_BYTES, ORD_LARGE_PAGE_BYTES);
  unsigned char *base = from + before, *memory = base + PAGE_BYTES;
  if (before) munmap(from, before);
  munmap(memory + bytes, ORD_LARGE_PAGE_BYTES - before);
  if (filled) madvise(memory, bytes, MADV_HUGEPAGE); /* a wish: a system without large pages gives small ones */
  pages_head *head = (pages_head *)(memory - sizeof *head);
  *head = (pages_head){.base = base, .mapped_bytes = PAGE_BYTES + bytes};
  return memory;
}

void *ord_pages_take(size_t bytes, bool filled) {
  if (bytes > SIZE_MAX / 2) return NULL;
  return bytes < MAPPED_BYTES ? take_from_heap(bytes) : take_from_system(bytes, filled);
}

void ord_pages_release(void *memory) {
  if (!memory) return;
  const pages_head *head = (const pages_head *)((unsigned char *)memory - sizeof(pages_head));
  if (head->mapped_bytes)
    munmap(head->base, head->mapped_bytes);
  else
    free(head->base);
}

void ord_pages_give_back(void *memory, size_t bytes) {
  const size_t before = gap(memory, ORD_LARGE_PAGE_BYTES);
  if (bytes < before + ORD_LARGE_PAGE_BYTES) return;
  madvise((unsigned char *)memory + before, (bytes - before) / ORD_LARGE_PAGE_BYTES * ORD_LARGE_PAGE_BYTES,
          MADV_DONTNEED);
}
