// SPDX-License-Identifier: MIT
// The asynchronous copies that one CUDA thread has begun, in groups, until it waits for them.
#ifndef SIMULATOR_ASYNC_COPIES_H
#define SIMULATOR_ASYNC_COPIES_H

#include <deque>

#include "device/interface.h"

namespace simulated {

class async_copies {
public:
  void begin(const pending_copy &copy) { copies.push_back(copy), open++; }
  void commit() { groups.push_back(open), open = 0; }
  // Hands out a copy of the oldest group, as long as more than `groups_left` groups are there.
  bool take(unsigned groups_left, pending_copy *copy) {
    while (groups.size() > groups_left) {
      if (groups.front() == 0) {
        groups.pop_front();
        continue;
      }
      groups.front()--;
      *copy = copies.front();
      copies.pop_front();
      return true;
    }
    return false;
  }

private:
  std::deque<pending_copy> copies;
  std::deque<size_t> groups; // copies in each that has been closed, the oldest first
  size_t open = 0;           // copies that no group holds yet
};

} // namespace simulated

#endif
