// SPDX-License-Identifier: MIT
#include "block.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace simulated {

constexpr size_t largest_shared = 232448, page = 4096, shared_alignment = 16;
constexpr size_t shared_pages_bytes = (largest_shared + page - 1) / page * page;
constexpr unsigned char fill = 0xff; // NaN, as in device memory

struct tls_index {
  unsigned long module, offset;
};
extern "C" void *__tls_get_addr(tls_index *);

static thread_local std::unique_ptr<block_runner> runner;

block_runner *current_runner() { return runner.get(); }
block_runner &this_runner() {
  if (!runner) runner = std::make_unique<block_runner>();
  return *runner;
}

block_runner::block_runner() {
  void *made = mmap(nullptr, shared_pages_bytes + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) throw std::bad_alloc();
  shared_pages = static_cast<char *>(made);
  if (mprotect(made, shared_pages_bytes, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
}

block_runner::~block_runner() {
  if (shared_pages) munmap(shared_pages, shared_pages_bytes + page);
}

uint64_t block_runner::random() {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return random_state >> 33;
}

static span static_shared_of(const CUlib_st &library) {
  if (!library.shared_bytes) return {};
  tls_index start = {library.module_id, 0};
  return {reinterpret_cast<uintptr_t>(__tls_get_addr(&start)), library.shared_bytes};
}

// Shared memory holds nothing from the block before.
void block_runner::fill_shared() {
  const kernel_launch &launch = job->launch;
  const size_t bytes = (launch.shared_bytes + shared_alignment - 1) / shared_alignment * shared_alignment;
  shared = shared_pages + shared_pages_bytes - bytes;
  memset(shared, fill, bytes);
  const span own = static_shared_of(*launch.library);
  if (own.bytes) memset(reinterpret_cast<void *>(own.start), fill, own.bytes);
}

block_memory block_runner::find_memory() const {
  const auto address = [](const void *pointer) { return reinterpret_cast<uintptr_t>(pointer); };
  return {{address(positions.data()), positions.size() * sizeof positions[0]},
          {address(shared), job->launch.shared_bytes},
          {address(shared_pages), shared_pages_bytes + page},
          static_shared_of(*job->launch.library)};
}

uint3 place_in(uint64_t index, dim3 size) {
  return {static_cast<unsigned>(index % size.x), static_cast<unsigned>(index / size.x % size.y),
          static_cast<unsigned>(index / size.x / size.y)};
}

void block_runner::begin(const launch_job &asked, uint64_t block) {
  job = &asked;
  const kernel_launch &launch = asked.launch;
  count = launch.block.x * launch.block.y * launch.block.z;
  started = ended = 0;
  first = 0;
  stride = 1;
  random_state = asked.seed + block * 0x9e3779b97f4a7c15u;
  if (asked.seed) {
    first = static_cast<unsigned>(random() % count);
    do stride = static_cast<unsigned>(1 + random() % count);
    while (std::gcd(stride, count) != 1);
  }
  const uint3 where = place_in(block, launch.grid);
  positions.resize(count);
  for (unsigned i = 0; i < count; i++)
    positions[i] = {place_in(i, launch.block), where, launch.block, launch.grid, i % warp_size};
  barrier_now.waiting.clear();
  barrier_now.waiting.reserve(count);
  barrier_now.counted = 0;
  for (auto &open : meetings)
    for (auto &one : open) spare_meetings.push_back(std::move(one));
  meetings.clear();
  meetings.resize((count + warp_size - 1) / warp_size);
  copies_of.clear();
  ready.clear();
  idle.clear();
  for (auto &one : fibers) idle.push_back(one.get());
  fill_shared();
  if (job->checks) job->checks->begin_block(*this, block, find_memory());
}

static void run_fiber() {
  for (;;) current_runner()->run_threads();
}

fiber *block_runner::take_idle() {
  if (idle.empty()) {
    auto made = std::make_unique<fiber>();
    if (!made->open()) return nullptr;
    fibers.push_back(std::move(made));
    idle.push_back(fibers.back().get());
  }
  fiber *taken = idle.back();
  idle.pop_back();
  if (!taken->is_begun) taken->begin_at(run_fiber);
  return taken;
}

// New threads first, so that all come to a barrier before any leaves it; then those that wait no longer.
fiber *block_runner::next_fiber() {
  if (started < count) return take_idle();
  if (ready.empty()) return nullptr;
  const size_t chosen = job->seed ? random() % ready.size() : 0;
  fiber *next = ready[chosen];
  ready.erase(ready.begin() + static_cast<long>(chosen));
  return next;
}

void block_runner::run_threads() {
  while (started < count) {
    current->thread = (first + started++ * stride) % count;
    job->launch.kernel->entry->invoke(const_cast<void **>(job->arguments.data()));
    ended++;
  }
  idle.push_back(current);
  simulated_switch(&current->stack_pointer, scheduler);
}

bool block_runner::run(const launch_job &asked, uint64_t block, kernel_failure &failed) {
  failure = &failed;
  begin(asked, block);
  while (ended < count) {
    fiber *next = next_fiber();
    if (!next) {
      failed.code = started < count ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES : CUDA_ERROR_LAUNCH_FAILED;
      failed.text = started < count ? "no memory for another thread's stack" : describe_wait();
      failed.text = describe_thread(failed.text);
    } else {
      current = next;
      simulated_switch(&scheduler, next->stack_pointer);
      current = nullptr;
    }
    if (failed.code == CUDA_SUCCESS) continue;
    for (auto &one : fibers) one->is_begun = false; // what they held is given up
    return false;
  }
  if (!job->checks || job->checks->end_block(failed.text)) return true;
  failed.code = CUDA_ERROR_LAUNCH_FAILED;
  return false;
}

void block_runner::fail_at(uintptr_t address) {
  failure->has_address = true;
  failure->address = address;
  fail(CUDA_ERROR_ILLEGAL_ADDRESS, "it touched ");
}

void block_runner::fail(CUresult code, const std::string &text) {
  failure->code = code;
  failure->text = describe_thread(text);
  is_in_service = false;
  void *abandoned;
  for (;;) simulated_switch(&abandoned, scheduler);
}

void block_runner::wait() {
  fiber *self = current;
  is_in_service = false;
  simulated_switch(&self->stack_pointer, scheduler);
  is_in_service = true;
}

void block_runner::release(std::vector<fiber *> &waiting) {
  ready.insert(ready.end(), waiting.begin(), waiting.end());
  waiting.clear();
}

std::string describe(source_place place) {
  const char *name = strrchr(place.file, '/');
  return std::string(name ? name + 1 : place.file) + ":" + std::to_string(place.line);
}

int block_runner::barrier(barrier_kind kind, int predicate, source_place place) {
  barrier_state &now = barrier_now;
  if (now.waiting.empty()) {
    now.kind = kind;
    now.place = place;
    now.counted = 0;
  } else if (now.kind != kind || now.place.line != place.line || strcmp(now.place.file, place.file) != 0) {
    fail(CUDA_ERROR_LAUNCH_FAILED,
         "a barrier in divergent code: others wait at " + describe(now.place) + ", this one at " + describe(place));
  }
  now.counted += predicate != 0;
  if (now.waiting.size() + 1 < count) {
    now.waiting.push_back(current);
    wait();
    return now.result;
  }
  const int total = static_cast<int>(count);
  now.result = kind == barrier_kind::all   ? now.counted == total
               : kind == barrier_kind::any ? now.counted > 0
                                           : now.counted;
  if (job->checks) job->checks->barrier();
  release(now.waiting);
  return now.result;
}

meeting &block_runner::find_meeting(unsigned mask, unsigned warp) {
  for (auto &one : meetings[warp])
    if (one->mask == mask && one->arrived != one->expected) return *one;
  if (spare_meetings.empty()) spare_meetings.push_back(std::make_unique<meeting>());
  meetings[warp].push_back(std::move(spare_meetings.back()));
  spare_meetings.pop_back();
  meeting &made = *meetings[warp].back();
  const unsigned lanes = std::min(count - warp * warp_size, warp_size);
  made.mask = mask;
  made.expected = lanes == warp_size ? mask : mask & ((1u << lanes) - 1); // lanes that the block lacks are not awaited
  made.arrived = made.readers = 0;
  made.bytes = 0;
  made.waiting.clear();
  return made;
}

void block_runner::meet(unsigned mask, int kind, const void *own, size_t bytes, void *all, source_place place) {
  const unsigned lane = positions[current->thread].lane, warp = current->thread / warp_size;
  if (!(mask >> lane & 1)) fail(CUDA_ERROR_LAUNCH_FAILED, "the mask at " + describe(place) + " lacks the lane itself");
  meeting &here = find_meeting(mask, warp);
  if (!here.arrived) {
    here.kind = kind;
    here.bytes = bytes;
    here.place = place;
  } else if (here.kind != kind || here.bytes != bytes) {
    fail(CUDA_ERROR_LAUNCH_FAILED, "lanes of one mask meet in different collectives: others at " +
                                       describe(here.place) + ", this one at " + describe(place));
  }
  memcpy(here.values + lane * bytes, own, bytes);
  here.arrived |= 1u << lane;
  here.readers++;
  if (here.arrived != here.expected) {
    here.waiting.push_back(current);
    wait();
  } else {
    if (job->checks && kind == meeting_sync) job->checks->sync_warp(warp, here.arrived);
    release(here.waiting);
  }
  memcpy(all, here.values, warp_size * bytes);
  if (--here.readers) return;
  auto &open = meetings[warp];
  const auto found = std::find_if(open.begin(), open.end(), [&](auto &one) { return one.get() == &here; });
  spare_meetings.push_back(std::move(*found));
  open.erase(found);
}

void block_runner::set_condition(unsigned long long handle, unsigned value) {
  if (job->switches)
    for (auto &one : *job->switches)
      if (one->handle == handle) {
        one->value = value;
        return;
      }
  fail(CUDA_ERROR_ILLEGAL_ADDRESS, "cudaGraphSetConditional of a handle that is not of the graph being launched");
}

std::string block_runner::describe_wait() const {
  std::string text = "threads wait for each other:";
  const size_t at_barrier = barrier_now.waiting.size();
  if (at_barrier) text += " " + std::to_string(at_barrier) + " at the barrier " + describe(barrier_now.place) + ",";
  for (auto &open : meetings)
    for (auto &one : open)
      text += " " + std::to_string(one->waiting.size()) + " at the warp's collective " + describe(one->place) + ",";
  return text + " " + std::to_string(ended) + " of " + std::to_string(count) + " have ended";
}

std::string describe(const char *what, uint3 at) {
  return std::string(what) + " (" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " + std::to_string(at.z) +
         ")";
}

std::string block_runner::describe_thread(const std::string &text) const {
  std::string where = "kernel " + std::string(job->launch.kernel->entry->name) + ", ";
  where += describe("block", positions[0].block);
  if (current) where += ", " + describe("thread", positions[current->thread].thread);
  return where + ": " + text;
}

} // namespace simulated
