// SPDX-License-Identifier: MIT
// Which accesses of a kernel's launch come before which, in every order that a real device may choose. Blocks run one
// after the other here, and so do threads, so one counter stamps what they do; it grows with everything that orders
// them and is never set back.
//   An access comes before another one of the same thread, of the same block after a barrier, of the same warp after a
//   __syncwarp of both lanes, and of whoever read, atomically, a word that was written atomically after the access and
//   a fence. Launches come one after the other, but for those that a launch may begin beside: they come before what a
//   thread does behind its wait for them, and behind a barrier or __syncwarp with one that has waited.
#ifndef SIMULATOR_ORDERING_H
#define SIMULATOR_ORDERING_H

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "device/interface.h"

namespace simulated {

using stamp = uint32_t; // 0 is never given

class ordering {
public:
  // When a launch ran that is over.
  struct period {
    stamp first, last;
    bool holds(stamp then) const { return then >= first && then <= last; }
  };

  void begin_launch(std::vector<period> beside);
  void begin_block(uint64_t block, unsigned threads);
  void end_block();
  void barrier() { floor = ++time; }
  void sync_warp(unsigned warp, unsigned lanes);
  void fence(unsigned thread, bool is_for_device);
  // An atomic access of the word at `address`: reading it, the thread comes after those that released it; writing it,
  // the thread releases what it did before its last fence.
  void acquire(unsigned thread, uintptr_t address);
  void release(unsigned thread, uintptr_t address, bool is_change);

  // A thread waits for the launches beside this one, or lets the next launch begin.
  void wait_for_launches(unsigned thread);
  void let_next_begin(unsigned thread);

  stamp now() const { return time; }
  stamp launch_began() const { return launch_start; }
  stamp block_began() const { return block_start; }
  bool is_of_block(stamp then) const { return then >= block_start; }
  // In this block, and no barrier has come since.
  bool is_current(stamp then) const { return then >= floor; }
  uint64_t block_of(stamp then) const; // of this launch

  // Does what the thread `by` of its block did at `then`, in this launch, come before what `thread` of this block does
  // now?
  bool is_before(unsigned by, stamp then, unsigned thread) const {
    if (is_of_block(then)) {
      if (then < floor || by == thread) return true;
      if (by / warp_size == thread / warp_size && met[thread][by % warp_size] > then) return true;
    }
    return !acquired.empty() && was_released(by, then, thread);
  }

  // Was it done by a launch beside this one that the thread has not waited for?
  bool is_beside(stamp then, unsigned thread) const;
  bool has_waited() const { return some_waited; } // any thread of the launch
  // Once the next launch may begin, are those over that ran beside this one?
  bool keeps_next_back() const { return some_block_kept; }

private:
  using lanes_met = std::array<stamp, warp_size>;
  struct last_fence {
    stamp at = 0, floor = 0;
    lanes_met met;
  };
  // What a block had done, thread by thread, that others may see.
  struct released {
    size_t block; // index into starts
    bool is_for_device;
    stamp of_all;
    std::vector<stamp> of_thread;
  };
  using releases = std::vector<std::shared_ptr<const released>>;
  struct acquisition {
    unsigned thread;
    stamp at;
    uintptr_t address;
    std::shared_ptr<const releases> seen;
  };
  size_t start_of(stamp then) const; // index into starts
  bool thread_has_waited(unsigned thread) const;
  bool is_before_here(unsigned by, stamp then, unsigned thread) const;
  bool was_released(unsigned by, stamp then, unsigned thread) const;
  std::shared_ptr<released> make_released(unsigned thread, bool is_for_device) const;
  static void add(releases &all, std::shared_ptr<released> made);

  stamp time = 1, launch_start = 1, block_start = 1, floor = 1;
  unsigned count = 0;
  struct start {
    stamp at;
    uint64_t block;
  };
  std::vector<start> starts;  // of the launch's blocks, in the order in which they run
  std::vector<lanes_met> met; // of each thread: up to when what a lane of its warp did comes before
  std::vector<last_fence> block_fences, device_fences;
  std::vector<unsigned> fenced; // threads that have a fence
  std::vector<acquisition> acquired;
  std::unordered_map<uintptr_t, std::shared_ptr<const releases>> words;

  std::vector<period> launches; // beside this one
  struct launch_wait {
    unsigned thread;
    stamp at;
  };
  std::vector<launch_wait> launch_waits; // in this block
  bool lets_early = false;               // a thread of this block let the next launch begin before it has waited
  bool some_waited = false, some_block_kept = false;
};

} // namespace simulated

#endif
