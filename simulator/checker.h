// SPDX-License-Identifier: MIT
// Looks at every access of a checked kernel: is it inside an allocation, was what it reads ever written, does it race
// with another one? There is one checker from the time that the first checked image is loaded, and a checked kernel
// runs on one thread of the operating system. What it finds ends the kernel.
#ifndef SIMULATOR_CHECKER_H
#define SIMULATOR_CHECKER_H

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/checks.h"
#include "shadow.h"
#include "work.h"

namespace simulated {

class block_runner;
struct kernel_failure;

// A launch of a checked kernel that is over, as far as those may see it that begin beside it.
struct past_launch {
  std::shared_ptr<CUlib_st> library;
  CUkernel kernel;
  dim3 block; // size
  ordering::period when;
  std::vector<std::shared_ptr<const past_launch>> beside; // others that may run on when the next one begins early
};

struct span {
  uintptr_t start = 0;
  size_t bytes = 0;
  bool holds(uintptr_t at) const { return at - start < bytes; }
};

// Where the memory of one block lies on this thread.
struct block_memory {
  span positions;              // of its threads, which threadIdx and the like read
  span dynamic_shared, shared; // shared: the pages in which the dynamic memory lies, and the one that ends them
  span static_shared;
};

class checker {
public:
  explicit checker(driver &of) : d(of) {} // the caller holds the driver's lock here, and in all up to begin_launch
  void add(const allocation &made, bool is_written);
  void remove(uintptr_t start);
  void remove_all() { regions.clear(); }
  void write(uintptr_t start, size_t bytes);
  void copy(uintptr_t into, uintptr_t from, size_t bytes);
  void write_unseen(const std::vector<unsigned char> &parameters); // an unchecked kernel may write what they point to

  using past_launches = std::vector<std::shared_ptr<const past_launch>>;
  // ahead: launches that need not have ended
  void begin_launch(const kernel_launch &launch, const past_launches &ahead, span arguments, span parameters);
  // What the launch is to those behind it. It has failed where no thread of it waited for those ahead.
  std::shared_ptr<const past_launch> end_launch(kernel_failure &failure);
  void begin_block(block_runner &runner, uint64_t block, const block_memory &memory);
  bool end_block(std::string &text); // false where something has been read that was never written
  void barrier() { order.barrier(); }
  void sync_warp(unsigned warp, unsigned lanes) { order.sync_warp(warp, lanes); }

  // For the kernel, on a fiber.
  void touch(uintptr_t at, size_t bytes, unsigned how, const void *code);
  void begin_copy(const pending_copy &copy, const void *code);
  void fence(bool is_for_device);
  void wait_for_launches();
  void let_next_begin();
  [[noreturn]] void fail(CUresult code, std::string text);

private:
  enum class kind { device, host, dynamic_shared, static_shared };
  struct region {
    span where;
    kind what;
    shadow known;
  };
  region *find(uintptr_t at);
  bool is_plain(uintptr_t at) const;
  void check(region &touched, uintptr_t at, size_t bytes, unsigned how, const void *code);
  const shared_variable *find_variable(uintptr_t at) const;
  void check_variable(uintptr_t at, size_t bytes, unsigned how);
  void synchronise(unsigned thread, uintptr_t at, unsigned how);
  static void open_shared(region &opened, span where);
  void find_variable_ends();
  void forget_accesses();

  void note_unwritten(const region &read, uintptr_t at, size_t bytes);
  [[noreturn]] void fail_race(const region &raced, uintptr_t at, size_t bytes, unsigned how, const touched &other);
  [[noreturn]] void fail_outside(uintptr_t outside, size_t bytes, unsigned how);
  std::string describe_outside(uintptr_t at) const;
  std::string describe_byte(const region &in, uintptr_t at) const;
  static std::string describe_place(const CUlib_st &library, const std::vector<const void *> &calls);
  std::string describe_other(const touched &other) const;
  std::vector<const void *> find_calls() const;

  driver &d;
  std::map<uintptr_t, std::unique_ptr<region>> regions; // of device memory and mapped host memory, by start
  region dynamic_shared = {{}, kind::dynamic_shared, {}}, static_shared = {{}, kind::static_shared, {}};
  ordering order;

  const kernel_launch *launch = nullptr; // that runs
  past_launches beside;                  // that may run beside it
  std::vector<span> plain;               // the image and the launch's arguments
  std::vector<region *> recent;          // regions of the launch, the last one first
  std::vector<size_t> variable_ends;     // of each byte of static shared memory; 0 where no variable holds it
  block_runner *runner = nullptr;        // of the block that runs
  block_memory memory;
  std::string unwritten; // the first read of what was never written, in this block
};

const check_services &checking_services();

} // namespace simulated

#endif
