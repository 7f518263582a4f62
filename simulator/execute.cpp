// SPDX-License-Identifier: MIT
// Threads that run the blocks of one launch at a time.
#include "execute.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <thread>

#include "block.h"
#include "checker.h"

namespace simulated {

constexpr size_t parameter_alignment = 128; // the largest that a kernel's parameter has: a CUtensorMap

// A launch shared out to threads.
struct shared_launch {
  const launch_job &job;
  uint64_t blocks, first, stride;
  unsigned watchdog_ms;
  std::atomic<uint64_t> next{0};
  std::atomic<bool> is_over{false};
  std::mutex guard;
  kernel_failure failure; // the first
};

static void run_blocks(shared_launch &shared) {
  kernel_failure failure;
  try {
    block_runner &runner = this_runner();
    const kernel_watch watched(shared.watchdog_ms);
    while (!shared.is_over) {
      const uint64_t i = shared.next++;
      if (i >= shared.blocks) return;
      if (!runner.run(shared.job, (shared.first + i * shared.stride) % shared.blocks, failure)) break;
    }
  } catch (...) {
    failure.code = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  }
  const std::lock_guard<std::mutex> held(shared.guard);
  if (shared.failure.code == CUDA_SUCCESS) shared.failure = failure;
  shared.is_over = true;
}

// Waiting threads that take part in a launch; they live as long as the process.
class crew {
public:
  // Runs the launch on `wanted` threads, this one among them.
  void run(shared_launch &shared, unsigned wanted) {
    std::unique_lock<std::mutex> held(guard);
    while (made + 1 < wanted) {
      std::thread([this] { serve(); }).detach();
      made++;
    }
    work = &shared;
    seats = wanted - 1;
    changed.notify_all();
    held.unlock();
    run_blocks(shared);
    held.lock();
    seats = 0;
    changed.wait(held, [this] { return busy == 0; });
    work = nullptr;
  }

private:
  void serve() {
    for (std::unique_lock<std::mutex> held(guard);;) {
      changed.wait(held, [this] { return seats > 0; });
      seats--;
      busy++;
      shared_launch &shared = *work;
      held.unlock();
      run_blocks(shared);
      held.lock();
      busy--;
      changed.notify_all();
    }
  }
  std::mutex guard;
  std::condition_variable changed;
  shared_launch *work = nullptr;
  unsigned made = 0, seats = 0, busy = 0;
};

static uint64_t coprime_stride(uint64_t random, uint64_t count) {
  uint64_t stride = 1 + random % count;
  while (std::gcd(stride, count) != 1) stride = stride % count + 1;
  return stride;
}

static span span_of(const std::vector<void *> &arguments) {
  return {reinterpret_cast<uintptr_t>(arguments.data()), arguments.size() * sizeof arguments[0]};
}

CUresult run_kernel(const kernel_launch &launch, surroundings &among, std::string &text) {
  static crew *const all = new crew;
  if (!launch.library || launch.library->is_unloaded) {
    text = "a kernel of a library that was unloaded";
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  driver &d = state();
  launch_job job = {launch, among.switches, 0, {}, nullptr};
  {
    const lock held(d.guard);
    if (++d.kernel_count == d.set.losing_kernel) {
      text = "the device was lost (ORDITO_SIMULATED_LOSE_AT_KERNEL)";
      return CUDA_ERROR_ECC_UNCORRECTABLE;
    }
    job.seed = next_random(d);
    if (launch.library->checks) job.checks = d.checks;
    if (d.checks && !job.checks) d.checks->write_unseen(launch.parameters);
  }
  const kernel_entry &entry = *launch.kernel->entry;
  std::vector<unsigned char> copied(launch.parameters.size() + parameter_alignment);
  void *start = copied.data();
  size_t room = copied.size();
  std::align(parameter_alignment, launch.parameters.size(), start, room);
  auto *parameters = static_cast<unsigned char *>(start);
  std::copy(launch.parameters.begin(), launch.parameters.end(), parameters);
  for (size_t i = 0; i < entry.parameter_count; i++) job.arguments.push_back(parameters + entry.offsets[i]);
  const uint64_t blocks = uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  shared_launch shared = {job, blocks, 0, 1, d.set.watchdog_ms, {}, {}, {}, {}};
  if (job.seed) {
    shared.first = job.seed % blocks;
    shared.stride = coprime_stride(job.seed >> 20, blocks);
  }
  if (job.checks)
    job.checks->begin_launch(launch, among.ahead, span_of(job.arguments),
                             {reinterpret_cast<uintptr_t>(start), copied.size()});
  all->run(shared, job.checks ? 1 : static_cast<unsigned>(std::min<uint64_t>(blocks, d.set.threads)));
  if (job.checks) among.launched = job.checks->end_launch(shared.failure);
  text = shared.failure.text;
  if (shared.failure.has_address) {
    const lock held(d.guard);
    text += d.memory.describe(shared.failure.address);
  }
  return shared.failure.code;
}

} // namespace simulated
