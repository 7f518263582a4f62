// SPDX-License-Identifier: MIT
// One block of a kernel on one thread of the operating system. Threads run one after the other on the same fiber until
// one has to wait; that one keeps the fiber, and another is made for the rest.
#ifndef SIMULATOR_BLOCK_H
#define SIMULATOR_BLOCK_H

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "async_copies.h"
#include "checker.h"
#include "execute.h"
#include "fiber.h"

namespace simulated {

// Lanes of one warp that show each other their values.
struct meeting {
  unsigned mask, expected, arrived, readers;
  int kind;
  size_t bytes;
  source_place place;
  std::vector<fiber *> waiting;
  unsigned char values[warp_size * meet_bytes_limit];
};

class block_runner {
public:
  block_runner();
  ~block_runner();
  bool run(const launch_job &job, uint64_t block, kernel_failure &failure);

  // For the kernel, on a fiber.
  const thread_position *position() const { return &positions[current->thread]; }
  unsigned thread() const { return current->thread; }
  checker *checks() const { return job->checks; }
  int barrier(barrier_kind kind, int predicate, source_place place);
  void meet(unsigned mask, int kind, const void *own, size_t bytes, void *all, source_place place);
  void *dynamic_shared() const { return shared; }
  void set_condition(unsigned long long handle, unsigned value);
  async_copies &copies() { return copies_of[current->thread]; } // of this thread
  [[noreturn]] void fail(CUresult code, const std::string &text);
  [[noreturn]] void fail_at(uintptr_t address);

  bool is_on_fiber(uintptr_t stack_pointer) const { return current && current->holds(stack_pointer); }
  bool is_in_service = false; // the fiber runs the driver's code, which must not be left halfway
  void run_threads();         // the body of every fiber
  std::string describe_thread(const std::string &text) const;

private:
  struct barrier_state {
    barrier_kind kind;
    source_place place;
    int counted, result;
    std::vector<fiber *> waiting;
  };
  void begin(const launch_job &job, uint64_t block);
  void fill_shared();
  fiber *next_fiber();
  fiber *take_idle();
  void wait();
  void release(std::vector<fiber *> &waiting);
  meeting &find_meeting(unsigned mask, unsigned warp);
  std::string describe_wait() const;
  block_memory find_memory() const;
  uint64_t random();

  const launch_job *job = nullptr;
  kernel_failure *failure = nullptr;
  std::vector<thread_position> positions;
  unsigned count = 0, started = 0, ended = 0; // threads of the block
  unsigned first = 0, stride = 1;             // order in which they start
  uint64_t random_state = 0;
  std::vector<std::unique_ptr<fiber>> fibers;
  std::vector<fiber *> idle;
  std::deque<fiber *> ready;
  fiber *current = nullptr;
  void *scheduler = nullptr; // its stack pointer while a fiber runs
  barrier_state barrier_now = {};
  std::vector<std::vector<std::unique_ptr<meeting>>> meetings; // open ones of each warp
  std::map<unsigned, async_copies> copies_of;                  // each thread that began one
  std::vector<std::unique_ptr<meeting>> spare_meetings;
  char *shared_pages = nullptr;
  void *shared = nullptr;
};

// While it lives, the end of the kernel's time is not acted on.
class in_service {
public:
  explicit in_service(block_runner &entered) : runner(entered) { runner.is_in_service = true; }
  ~in_service() { runner.is_in_service = false; }
  in_service(const in_service &) = delete;
  in_service &operator=(const in_service &) = delete;

private:
  block_runner &runner;
};

uint3 place_in(uint64_t index, dim3 size);
std::string describe(source_place place);         // "file.cu:12"
std::string describe(const char *what, uint3 at); // "block (0, 1, 2)"

block_runner &this_runner();    // of this thread, made at first use
block_runner *current_runner(); // null where none was made

} // namespace simulated

#endif
