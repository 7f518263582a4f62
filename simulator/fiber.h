// SPDX-License-Identifier: MIT
// A stack of its own for a CUDA thread that has to wait, and the switch from one stack to another (x86-64, System V).
#ifndef SIMULATOR_FIBER_H
#define SIMULATOR_FIBER_H

#include <cstddef>
#include <cstdint>

namespace simulated {

struct fiber {
  fiber() = default;
  fiber(const fiber &) = delete;
  fiber &operator=(const fiber &) = delete;
  ~fiber();
  bool open();                    // false where there is no memory for a stack
  void begin_at(void (*entry)()); // the next switch to it calls entry, which never returns
  // Is it on the stack, or in the page that ends it?
  bool holds(uintptr_t address) const { return address - reinterpret_cast<uintptr_t>(stack) < stack_bytes; }
  static constexpr size_t stack_bytes = 256 << 10;
  void *stack_pointer = nullptr;
  char *stack = nullptr;
  unsigned thread = 0; // of the block, that runs on it
  bool is_begun = false;
};

} // namespace simulated

// Saves what a call must preserve on this stack, its pointer in *save, and goes on where `load` was saved. Signal masks
// and floating-point modes are left alone: nothing here changes them.
extern "C" void simulated_switch(void **save, void *load);

#endif
