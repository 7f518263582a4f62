// SPDX-License-Identifier: MIT
#include "ordering.h"

#include <algorithm>
#include <utility>

namespace simulated {

void ordering::begin_launch(std::vector<period> beside) {
  launch_start = ++time;
  starts.clear();
  words.clear();
  launches = std::move(beside);
  some_waited = some_block_kept = false;
}

void ordering::begin_block(uint64_t block, unsigned threads) {
  block_start = floor = ++time;
  count = threads;
  starts.push_back({block_start, block});
  met.assign(count, lanes_met{});
  block_fences.assign(count, last_fence{});
  device_fences.assign(count, last_fence{});
  fenced.clear();
  acquired.clear();
  launch_waits.clear();
  lets_early = false;
}

// The next launch begins when every block has let it or has ended, so one that waits before is enough.
void ordering::end_block() { some_block_kept |= !launch_waits.empty() && !lets_early; }

void ordering::wait_for_launches(unsigned thread) {
  if (launches.empty()) return;
  some_waited = true;
  launch_waits.push_back({thread, time});
}

void ordering::let_next_begin(unsigned thread) {
  if (!launches.empty()) lets_early |= !thread_has_waited(thread);
}

bool ordering::thread_has_waited(unsigned thread) const {
  return std::any_of(launch_waits.begin(), launch_waits.end(),
                     [&](const launch_wait &one) { return is_before_here(one.thread, one.at, thread); });
}

bool ordering::is_beside(stamp then, unsigned thread) const {
  return std::any_of(launches.begin(), launches.end(), [then](const period &one) { return one.holds(then); }) &&
         !thread_has_waited(thread);
}

void ordering::sync_warp(unsigned warp, unsigned lanes) {
  time++;
  lanes_met joined = {};
  const unsigned first = warp * warp_size;
  for (unsigned lane = 0; lane < warp_size; lane++) {
    if (!(lanes >> lane & 1)) continue;
    for (unsigned i = 0; i < warp_size; i++) joined[i] = std::max(joined[i], met[first + lane][i]);
  }
  for (unsigned lane = 0; lane < warp_size; lane++)
    if (lanes >> lane & 1) joined[lane] = time;
  for (unsigned lane = 0; lane < warp_size; lane++)
    if (lanes >> lane & 1) met[first + lane] = joined;
}

void ordering::fence(unsigned thread, bool is_for_device) {
  const last_fence made = {++time, floor, met[thread]};
  if (!block_fences[thread].at) fenced.push_back(thread);
  block_fences[thread] = made;
  if (is_for_device) device_fences[thread] = made;
}

size_t ordering::start_of(stamp then) const {
  const auto after = std::upper_bound(starts.begin(), starts.end(), then,
                                      [](stamp wanted, const start &one) { return wanted < one.at; });
  return static_cast<size_t>(after - starts.begin()) - 1;
}

uint64_t ordering::block_of(stamp then) const { return starts[start_of(then)].block; }

bool ordering::is_before_here(unsigned by, stamp then, unsigned thread) const {
  return then < floor || by == thread || (by / warp_size == thread / warp_size && met[thread][by % warp_size] > then);
}

bool ordering::was_released(unsigned by, stamp then, unsigned thread) const {
  const size_t block = start_of(then), own = starts.size() - 1;
  for (const acquisition &one : acquired) {
    if (!is_before_here(one.thread, one.at, thread)) continue;
    for (const auto &view : *one.seen)
      if (view->block == block && (view->is_for_device || block == own) &&
          then < std::max(view->of_all, view->of_thread[by]))
        return true;
  }
  return false;
}

// All that comes before some thread's fence which comes before what `thread` does now.
std::shared_ptr<ordering::released> ordering::make_released(unsigned thread, bool is_for_device) const {
  const auto &fences = is_for_device ? device_fences : block_fences;
  auto made = std::make_shared<released>();
  *made = {starts.size() - 1, is_for_device, 0, std::vector<stamp>(count)};
  bool is_empty = true;
  for (unsigned u : fenced) {
    const last_fence &one = fences[u];
    if (!one.at || !is_before_here(u, one.at, thread)) continue;
    is_empty = false;
    made->of_all = std::max(made->of_all, one.floor);
    made->of_thread[u] = std::max(made->of_thread[u], one.at);
    const unsigned first = u / warp_size * warp_size;
    for (unsigned i = first; i < std::min(first + warp_size, count); i++)
      made->of_thread[i] = std::max(made->of_thread[i], one.met[i - first]);
  }
  return is_empty ? nullptr : made;
}

void ordering::add(releases &all, std::shared_ptr<released> made) {
  if (!made) return;
  for (auto &one : all) {
    if (one->block != made->block || one->is_for_device != made->is_for_device) continue;
    made->of_all = std::max(made->of_all, one->of_all);
    for (size_t i = 0; i < made->of_thread.size(); i++)
      made->of_thread[i] = std::max(made->of_thread[i], one->of_thread[i]);
    one = std::move(made);
    return;
  }
  all.push_back(std::move(made));
}

void ordering::acquire(unsigned thread, uintptr_t address) {
  const auto found = words.find(address);
  if (found == words.end()) return;
  for (acquisition &one : acquired)
    if (one.thread == thread && one.address == address) {
      one.at = time;
      one.seen = found->second;
      return;
    }
  acquired.push_back({thread, time, address, found->second});
}

// A change of a word goes on with what others released through it; a plain atomic store begins anew. What the thread
// itself acquired it hands on.
void ordering::release(unsigned thread, uintptr_t address, bool is_change) {
  const auto found = words.find(address);
  if (fenced.empty() && (is_change || found == words.end())) return;
  releases all;
  if (is_change && found != words.end()) all = *found->second;
  for (const acquisition &one : acquired) {
    if (!is_before_here(one.thread, one.at, thread)) continue;
    for (const auto &view : *one.seen)
      if (view->is_for_device) add(all, std::make_shared<released>(*view));
  }
  add(all, make_released(thread, true));
  add(all, make_released(thread, false));
  words[address] = std::make_shared<const releases>(std::move(all));
  time++;
}

} // namespace simulated
