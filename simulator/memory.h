// SPDX-License-Identifier: MIT
// Device memory and mapped host memory in an address range of its own. Each allocation ends against a page that faults,
// is filled with bytes that read as NaN, and its addresses are never given out again. The caller holds the device's
// lock.
#ifndef SIMULATOR_MEMORY_H
#define SIMULATOR_MEMORY_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace simulated {

enum class place { device, host };

struct allocation {
  uintptr_t start, pages; // of the first byte; of the first page
  size_t bytes, pages_bytes;
  place where;
  bool is_freed;
};

class memory {
public:
  bool open(); // false where the machine has no addresses left
  bool allocate(size_t bytes, place where, uintptr_t &start);
  bool release(uintptr_t start, place where); // false where no such allocation lives
  void release_all();
  const allocation *find(uintptr_t start, size_t bytes) const; // the live one that holds them all, or null
  template <typename Function> void each(Function see) const { // live one
    for (const auto &entry : allocations)
      if (!entry.second.is_freed) see(entry.second);
  }
  bool covers(uintptr_t address) const { return address - base < size; }
  // Device memory is closed to everybody while it is hidden.
  void show();
  void hide();
  // False where bytes around an allocation were written; says which.
  bool check_slack(std::string &text) const;
  std::string describe(uintptr_t address) const;
  size_t device_bytes() const { return used; }

private:
  void free_pages(allocation &freed);
  bool check_slack(const allocation &checked, std::string &text) const;
  uintptr_t base = 0, next = 0;
  size_t size = 0, used = 0;
  bool is_hidden = true;
  std::map<uintptr_t, allocation> allocations; // by first page; freed ones stay, to name them in reports
};

} // namespace simulated

#endif
