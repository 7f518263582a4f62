// SPDX-License-Identifier: MIT
// The debug information is read by libbacktrace, which Debian ships as part of gcc.
#include "places.h"

#include <backtrace.h>

#include <cstdint>
#include <cstring>

namespace simulated {

struct place_search {
  const char *builtins;
  std::string innermost, outermost, of_builtins;
};

static size_t folder_length(const char *file) {
  const char *end = strrchr(file, '/');
  return end ? static_cast<size_t>(end - file) : 0;
}

static bool is_in_folder_of(const char *file, const char *other) {
  const size_t length = folder_length(other);
  return folder_length(file) == length && strncmp(file, other, length) == 0;
}

// Called for each function that was inlined at the address, the innermost first.
static int see_place(void *data, uintptr_t, const char *file, int line, const char *) {
  auto &search = *static_cast<place_search *>(data);
  if (!file) return 0;
  const char *end = strrchr(file, '/');
  const std::string found = std::string(end ? end + 1 : file) + ":" + std::to_string(line);
  const bool is_builtin = is_in_folder_of(file, search.builtins);
  std::string &first = is_builtin ? search.of_builtins : search.innermost;
  if (first.empty()) first = found;
  if (!is_builtin) search.outermost = found;
  return 0;
}

std::string find_place(const std::vector<const void *> &calls, const char *builtins) {
  const auto ignore = [](void *, const char *, int) {};
  place_search search = {builtins, {}, {}, {}};
  // A state knows the objects that were loaded when it was made. There is a search or two in the life of a process.
  backtrace_state *state = backtrace_create_state(nullptr, 0, ignore, nullptr);
  if (!state) return {};
  for (const void *call : calls)
    backtrace_pcinfo(state, reinterpret_cast<uintptr_t>(call) - 1, see_place, ignore, &search);
  if (search.innermost.empty()) return search.of_builtins;
  if (search.innermost == search.outermost) return search.innermost;
  return search.innermost + " (called at " + search.outermost + ")";
}

} // namespace simulated
