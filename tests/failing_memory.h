/* SPDX-License-Identifier: MIT
 *
 * An allocator that refuses allocation number `fail_at` and counts what is alive. The linker puts it in place of the
 * allocator for the layers that a test program links (see CMakeLists.txt); libraries keep theirs.
 */
#ifndef ORDITO_TESTS_FAILING_MEMORY_H
#define ORDITO_TESTS_FAILING_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__real_aligned_alloc(size_t align, size_t bytes);
int __real_posix_memalign(void **out, size_t align, size_t bytes);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t bytes);
void __real_free(void *memory);

static long allocation_count, fail_at = -1;
static long live_count;

static bool is_refused(void) { return allocation_count++ == fail_at; }

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
int __wrap_posix_memalign(void **out, size_t align, size_t bytes);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t bytes);
void __wrap_free(void *memory);

static void *counted(void *memory) {
  live_count += memory != NULL;
  return memory;
}

void *__wrap_malloc(size_t bytes) { return is_refused() ? NULL : counted(__real_malloc(bytes)); }
void *__wrap_calloc(size_t count, size_t bytes) { return is_refused() ? NULL : counted(__real_calloc(count, bytes)); }
void *__wrap_realloc(void *old, size_t bytes) {
  if (is_refused()) return NULL;
  void *memory = __real_realloc(old, bytes);
  if (!old) counted(memory);
  return memory;
}
void *__wrap_aligned_alloc(size_t align, size_t bytes) {
  return is_refused() ? NULL : counted(__real_aligned_alloc(align, bytes));
}
int __wrap_posix_memalign(void **out, size_t align, size_t bytes) {
  if (is_refused()) return 12; /* ENOMEM */
  const int code = __real_posix_memalign(out, align, bytes);
  live_count += code == 0;
  return code;
}
char *__wrap_strdup(const char *text) { return is_refused() ? NULL : counted(__real_strdup(text)); }
char *__wrap_strndup(const char *text, size_t bytes) {
  return is_refused() ? NULL : counted(__real_strndup(text, bytes));
}
void __wrap_free(void *memory) {
  live_count -= memory != NULL;
  __real_free(memory);
}

#endif
