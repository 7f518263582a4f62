/* SPDX-License-Identifier: MIT
 *
 * Structs that cross the border of the library. A caller may have been built with a header whose structs are shorter or
 * longer than ours: its struct_size says how many bytes it knows.
 */
#include <string.h>

#include "session/parts.h"

/* The first field of each of them. */
static bool check_size(uint32_t found, const char *name, ord_error *err) {
  return found >= sizeof found ||
         ord_fail(err, ORD_INVALID, "%s: struct_size is %u; wanted sizeof(%s)", name, found, name);
}

bool ord_struct_take(const void *given, const char *name, void *out, size_t bytes, ord_error *err) {
  uint32_t size = (uint32_t)bytes;
  memset(out, 0, bytes);
  if (given) memcpy(&size, given, sizeof size);
  if (!check_size(size, name, err)) return false;
  if (given) memcpy(out, given, size < bytes ? size : bytes);
  size = (uint32_t)bytes;
  memcpy(out, &size, sizeof size);
  return true;
}

bool ord_struct_give(const void *made, const char *name, void *out, size_t bytes, ord_error *err) {
  uint32_t size;
  memcpy(&size, out, sizeof size);
  if (!check_size(size, name, err)) return false;
  memcpy((char *)out + sizeof size, (const char *)made + sizeof size, (size < bytes ? size : bytes) - sizeof size);
  return true;
}
