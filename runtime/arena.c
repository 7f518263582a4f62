/* SPDX-License-Identifier: MIT
 *
 * The arena: a list of zeroed blocks, newest first. Small requests share a block; a request larger than a block gets
 * one of its own, put behind the newest so that the newest's rest stays in use.
 */
#include "runtime/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 16, FIRST_BLOCK_BYTES = 4096, LARGEST_BLOCK_BYTES = 1 << 18, FIRST_CAPACITY = 8 };

struct ord_arena_block {
  ord_arena_block *previous;
  size_t used, capacity;
  _Alignas(ALIGNMENT) unsigned char bytes[];
};

static ord_arena_block *block_create(size_t capacity) {
  if (capacity > SIZE_MAX - sizeof(ord_arena_block)) return NULL;
  ord_arena_block *block = calloc(1, sizeof *block + capacity);
  if (block) block->capacity = capacity;
  return block;
}

void *ord_arena_take(ord_arena *arena, size_t count, size_t element_bytes) {
  size_t bytes;
  if (__builtin_mul_overflow(count, element_bytes, &bytes) || bytes > SIZE_MAX - ALIGNMENT) return NULL;
  bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (!bytes) bytes = ALIGNMENT;

  ord_arena_block *newest = arena->block;
  if (newest && newest->capacity - newest->used >= bytes) {
    void *taken = newest->bytes + newest->used;
    newest->used += bytes;
    return taken;
  }
  size_t capacity = newest ? newest->capacity * 2 : FIRST_BLOCK_BYTES;
  if (capacity > LARGEST_BLOCK_BYTES) capacity = LARGEST_BLOCK_BYTES;
  const bool has_own_block = bytes > capacity;
  ord_arena_block *block = block_create(has_own_block ? bytes : capacity);
  if (!block) return NULL;
  block->used = bytes;
  if (has_own_block && newest) {
    block->previous = newest->previous;
    newest->previous = block;
  } else {
    block->previous = newest;
    arena->block = block;
  }
  return block->bytes;
}

char *ord_arena_text(ord_arena *arena, const char *text) { return ord_arena_text_n(arena, text, strlen(text)); }

char *ord_arena_text_n(ord_arena *arena, const char *text, size_t bytes) {
  if (bytes == SIZE_MAX) return NULL;
  char *copy = ord_arena_take(arena, bytes + 1, 1);
  if (copy && bytes) memcpy(copy, text, bytes);
  return copy;
}

void *ord_arena_copy(ord_arena *arena, const void *from, size_t count, size_t element_bytes) {
  void *copy = ord_arena_take(arena, count, element_bytes);
  if (copy && count && element_bytes) memcpy(copy, from, count * element_bytes);
  return copy;
}

char *ord_arena_format(ord_arena *arena, const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  const int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  char *text = length < 0 ? NULL : ord_arena_take(arena, (size_t)length + 1, 1);
  if (text) vsnprintf(text, (size_t)length + 1, format, again);
  va_end(again);
  return text;
}

bool ord_arena_grow(ord_arena *arena, void *items, uint32_t *capacity, uint32_t count, size_t element_bytes) {
  if (count <= *capacity) return true;
  uint32_t wanted = *capacity > UINT32_MAX / 2 ? UINT32_MAX : *capacity * 2;
  if (wanted < FIRST_CAPACITY) wanted = FIRST_CAPACITY;
  if (wanted < count) wanted = count;
  void *grown = ord_arena_take(arena, wanted, element_bytes);
  if (!grown) return false;
  /* `items` points to a pointer of any object type; memcpy moves it without naming that type. */
  void *old;
  memcpy(&old, items, sizeof old);
  if (*capacity) memcpy(grown, old, *capacity * element_bytes);
  memcpy(items, &grown, sizeof grown);
  *capacity = wanted;
  return true;
}

void ord_arena_finish(ord_arena *arena) {
  for (ord_arena_block *block = arena->block; block;) {
    ord_arena_block *previous = block->previous;
    free(block);
    block = previous;
  }
  arena->block = NULL;
}
