// SPDX-License-Identifier: MIT
// What the environment sets, read once by cuInit. Every name begins with ORDITO_SIMULATED_.
#ifndef SIMULATOR_SETTINGS_H
#define SIMULATOR_SETTINGS_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace simulated {

enum class order {
  eager,  // every operation runs before the call that enqueues it returns
  lazy,   // operations run only when the host waits or asks, in a legal order that the seed chooses
  thread, // a thread of its own is the device
};

struct settings {
  order when = order::eager;             // ORDER=eager|lazy|thread
  uint64_t seed = 0;                     // SEED; 0 is the plain order of streams, blocks and threads
  size_t memory_bytes = size_t{4} << 30; // MEMORY
  unsigned threads = 2;                  // THREADS that run blocks
  unsigned watchdog_ms = 20000;          // WATCHDOG_MS of processor time for one kernel
  unsigned loop_limit = 1u << 20;        // LOOP_LIMIT: iterations of one WHILE node
  unsigned failing_allocation = 0;       // FAIL_ALLOCATION: the n-th one, from 1, finds no memory
  unsigned losing_kernel = 0;            // LOSE_AT_KERNEL: the n-th one, from 1, finds no device
  int driver_version = 13000;            // DRIVER_VERSION
  int devices = 1;                       // DEVICES: 0 or 1
  std::string wrong;                     // the first that is not understood, in words; cuInit fails with it
};

settings read_settings();

} // namespace simulated

#endif
